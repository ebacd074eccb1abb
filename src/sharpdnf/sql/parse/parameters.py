"""Parameters of a query, written into its text as constants of the database's SQL.

Each database keeps its own marks: DuckDB ``?``, ``$1``, ``$name``; SQLite ``?``, ``?1``, ``:name``, ``@name``, ``$name``;
PostgreSQL ``%s``, ``%(name)s`` (with ``%%`` for a percent sign, as psycopg has it) and ``$1``. Marks inside strings,
quoted names and comments are text. A value becomes a constant that cannot be read as anything else, so a string from a
stranger stays a string.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sharpdnf.errors import SQLError

Parameters = Sequence[Any] | Mapping[str, Any]

SKIPPED = (
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
    r"|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$"
)
"""Strings, quoted names, comments and strings in dollar signs."""
MARKS = {
    "duckdb": r"\?(?P<place>\d*)|\$(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*))",
    "sqlite": r"\?(?P<place>\d*)|[:@$](?P<name>[A-Za-z_]\w*)(?P<number>(?!))?",
    "postgres": r"%(?:(?P<place>)s|\((?P<name>[^)]*)\)s|(?P<percent>%))|\$(?P<number>\d+)",
}
"""A mark with an empty place takes the next value."""


def _pattern(dialect: str) -> re.Pattern[str]:
    skipped = SKIPPED
    if dialect == "postgres":  # in E'...' a backslash keeps a quote
        skipped = r"\b[eE]'(?:[^'\\]|\\.|'')*'|" + skipped
    if dialect == "sqlite":
        skipped = r"`(?:[^`]|``)*`|\[[^\]]*\]|" + skipped
    casts = r"::|" if dialect != "sqlite" else ""
    return re.compile(f"(?P<skipped>{skipped}|{casts}[^\\W\\d][\\w$]*)|{MARKS[dialect]}", re.DOTALL)


PATTERNS = {dialect: _pattern(dialect) for dialect in MARKS}


def with_values(sql: str, params: Parameters | None, dialect: str) -> str:
    """The query with every mark replaced by its value; every value must be used."""
    if params is None:
        return sql
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise TypeError("params is a list of values, or a dict of names and values")
    used: set[Any] = set()
    following = iter(range(1, 1 + len(params)))

    def value(key: int | str) -> Any:
        named = isinstance(params, Mapping)
        if isinstance(key, int) == named and not (named and str(key) in params):
            raise SQLError(f"the query has the mark {key!r}, so params must be a {'list' if named else 'dict'}")
        try:
            found = params[str(key)] if isinstance(params, Mapping) else params[int(key) - 1]
        except LookupError:
            raise SQLError(f"the query has a mark for parameter {key!r}, which params does not have") from None
        used.add(str(key) if named else key)
        return found

    def replaced(match: re.Match[str]) -> str:
        found = match.groupdict()
        if found["skipped"] is not None:
            return match[0].replace("%%", "%") if dialect == "postgres" else match[0]
        if found.get("percent"):
            return "%"
        if found["name"] is not None:
            return constant(value(found["name"]), dialect)
        number = found["place"] or found["number"]
        if number:
            return constant(value(int(number)), dialect)
        place = next(following, None)
        if place is None and not isinstance(params, Mapping):
            raise SQLError(f"the query has more marks than the {len(params)} values of params")
        return constant(value(place or 1), dialect)

    written = PATTERNS[dialect].sub(replaced, sql)
    every: set[Any] = set(params) if isinstance(params, Mapping) else set(range(1, 1 + len(params)))
    unused = sorted(every - used, key=str)
    if unused:
        raise SQLError(f"the query has no mark for the parameter {unused[0]!r}")
    return written


def constant(value: Any, dialect: str) -> str:
    """A value as a constant in the SQL of a database."""
    if isinstance(value, list | tuple):
        if dialect == "sqlite":
            raise SQLError("SQLite has no lists: give each value its own mark")
        inside = ", ".join(constant(part, dialect) for part in value)
        return f"[{inside}]" if dialect == "duckdb" else f"ARRAY[{inside}]"
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a number of numpy's
        value = value.item()
    for kind, write in WRITTEN:
        if isinstance(value, kind):
            return write(value, dialect)
    raise TypeError(f"a parameter of type {type(value).__name__} is not supported: give a number, text, date or None")


def _float(value: float, dialect: str) -> str:
    if math.isfinite(value):
        return f"({value!r})" if dialect != "postgres" else f"CAST({value!r} AS DOUBLE PRECISION)"
    if dialect != "sqlite":
        return f"CAST('{value}' AS {'DOUBLE' if dialect == 'duckdb' else 'DOUBLE PRECISION'})"
    return "NULL" if math.isnan(value) else "9e999" if value > 0 else "(-9e999)"


def _text(value: str, dialect: str) -> str:
    if "\0" in value:
        raise SQLError("a text parameter must not contain the character NUL")
    quoted = value.replace("'", "''")
    if dialect == "postgres" and "\\" in value:  # the same whether backslashes are letters there or not
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def _bytes(value: bytes, dialect: str) -> str:
    if dialect == "sqlite":
        return f"X'{value.hex()}'"
    if dialect == "postgres":
        return f"pg_catalog.decode('{value.hex()}', 'hex')"
    return f"unhex('{value.hex()}')"


def _typed(kind: str) -> Callable[[Any, str], str]:
    """Dates and the like: SQLite stores their text."""

    def write(value: Any, dialect: str) -> str:
        text = value.isoformat(*([" "] if isinstance(value, datetime.datetime) else [])) if kind != "UUID" else str(value)
        zoned = " WITH TIME ZONE" if getattr(value, "tzinfo", None) is not None else ""
        return _text(text, dialect) if dialect == "sqlite" else f"CAST('{text}' AS {kind}{zoned})"

    return write


def _decimal(value: Decimal, dialect: str) -> str:
    if not value.is_finite() or dialect == "sqlite":
        raise SQLError(f"the parameter {value} has no decimal number in this database: give a float")
    return f"({value:f})"


WRITTEN: list[tuple[type | tuple[type, ...], Callable[[Any, str], str]]] = [
    (type(None), lambda value, dialect: "NULL"),
    (bool, lambda value, dialect: str(int(value)) if dialect == "sqlite" else str(value).upper()),
    (int, lambda value, dialect: f"({value})" if value < 0 else str(value)),
    (float, _float),
    (Decimal, _decimal),
    (str, _text),
    ((bytes, bytearray, memoryview), lambda value, dialect: _bytes(bytes(value), dialect)),
    (datetime.datetime, _typed("TIMESTAMP")),
    (datetime.date, _typed("DATE")),
    (datetime.time, _typed("TIME")),
    (uuid.UUID, _typed("UUID")),
]
"""How to write a value, by the first type that fits: a bool is an int, a datetime a date."""
