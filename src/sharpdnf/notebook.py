"""What notebooks show: small tables in HTML, with everything that comes from data escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN_ROWS = 20


def facts_table(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """An HTML table with a title and one fact per row."""
    rows = "".join(f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    return f"<table><caption style='text-align:left'><b>{escape(title)}</b></caption>{rows}</table>"


def rows_table(columns: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None) -> str:
    """An HTML table of the first rows, and below it how many rows there are in all."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(v)}</td>" for v in row) + "</tr>" for row in rows[:SHOWN_ROWS])
    count = len(rows) if total is None else total
    more = f"<p>{count:,} rows in all</p>" if count > min(len(rows), SHOWN_ROWS) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
