"""Scripts of psql and what psql prints: statements, tables, and whether two tables say the same. For ``provsql.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


def statements(text: str) -> Iterator[str]:
    """The statements of a script without comments; psql's own commands only where they stand in a statement."""
    data = re.compile(r"^(COPY [^;]*FROM stdin[^;]*);\n(.*?)^\\\.$", re.S | re.M | re.I)
    while found := data.search(text):
        yield from statements(text[: found.start()])
        yield found[1] + "\0" + found[2]
        text = text[found.end() :]
    token = re.compile(
        r"--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'|\"[^\"]*\"|\\gset\b[^\n]*|\\[a-z][^\n]*|;|.", re.S
    )
    now = ""
    for found in token.finditer(text):
        piece = found[0]
        if piece.startswith(("--", "/*")):
            now += " "
        elif piece == ";":
            yield now.strip()
            now = ""
        elif piece.startswith("\\gset"):
            yield now.strip() + " \\gset"
            now = ""
        elif piece.startswith("\\"):
            continue
        else:
            now += piece


@dataclass
class Printed:
    """A table that psql printed, or the text of an error."""

    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    error: str | None = None


def printed(text: str) -> list[Printed]:
    found: list[Printed] = []
    lines: list[str] = []
    for line in text.splitlines()[1:]:
        if not lines and line.startswith("ERROR:"):
            found.append(Printed(error=line))
        elif not lines and re.match(r"(NOTICE|WARNING|DETAIL|HINT|CONTEXT|LINE \d+|INFO|\s+\^|SQL |PL/)", line):
            continue
        elif re.fullmatch(r"\(\d+ rows?\)", line):
            found.append(Printed((lines or [""])[0].split("|"), [each.split("|") for each in lines[1:]]))
            lines = []
        else:
            lines.append(line)
    return found


def shown(value: Any) -> str:
    """A value as psql prints it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    if isinstance(value, list):
        return "{" + ",".join(shown(v) for v in value) + "}"
    return str(value)


def same(mine: str, theirs: str) -> bool:
    try:
        return abs(float(mine) - float(theirs)) <= 1.01e-4
    except ValueError:
        return mine == theirs


def alike(mine: list[list[str]], theirs: list[list[str]], probs: list[int]) -> bool:
    """Whether two tables agree; a row of probability 0 may be missing on either side, and the order does not matter."""

    def kept(rows: list[list[str]]) -> list[list[str]]:
        return sorted(r for r in rows if not any(i < len(r) and r[i] and _number(r[i]) == 0.0 for i in probs))

    a, b = kept(mine), kept(theirs)
    if len(probs) == 1 and len(a) != len(b):
        a, b = _one_a_group(a, b, probs[0])
    return len(a) == len(b) and all(
        len(x) == len(y) and all(same(v, w) for v, w in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True)
    )


def _one_a_group(mine: list[list[str]], theirs: list[list[str]], prob: int) -> tuple[list[list[str]], list[list[str]]]:
    """ProvSQL shows one row a group, with the aggregate of the full data and (*); ours are added up over its values."""
    marked = {i for row in theirs for i, value in enumerate(row) if value.endswith("(*)")}
    kept = [i for i in range(len(theirs[0]) if theirs else 0) if i not in marked and i != prob]
    sums: dict[tuple[str, ...], float] = {}
    for row in mine:
        key = tuple(row[i] for i in kept)
        sums[key] = sums.get(key, 0.0) + _number(row[prob])
    shorter = [[*(row[i] for i in kept), row[prob]] for row in theirs]
    return sorted([*key, f"{p:.4f}"] for key, p in sums.items()), sorted(shorter)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
