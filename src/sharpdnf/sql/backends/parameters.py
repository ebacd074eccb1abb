"""Parameters of a query, written into its text as constants of the database's SQL.

Each database keeps its own marks: DuckDB ``?``, ``$1``, ``$name``; SQLite ``?``, ``?1``, ``:name``, ``@name`` and
``$name``; Spark ``?`` and ``:name``; PostgreSQL ``%s``, ``%(name)s`` (with ``%%`` for a percent sign, as psycopg has
it) and ``$1``. Marks inside strings, quoted names and comments are text. A value becomes a constant that cannot be read
as anything else, so a string from a stranger stays a string.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sharpdnf.errors import SQLError

Parameters = Sequence[Any] | Mapping[str, Any]

SKIPPED = (
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
    r"|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$|[^\W\d][\w$]*"
)
"""Strings, quoted names, comments, strings in dollar signs, and words, which may have a dollar sign in them."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a database marks parameters and writes constants."""

    marks: str
    """A pattern with the groups ``place`` (empty: the next value), ``number``, ``name``, ``percent``."""
    skipped: str
    list_: str | None
    """The form of a list, where there is one."""
    double: str | None
    """The type of floating-point numbers, where they must say theirs."""
    special: Callable[[float], str]
    """nan and the infinities."""
    bytes_: str
    typed: bool = True
    """Whether there are truth values, dates and decimal numbers; else they are stored as numbers and texts."""
    percents: bool = False
    """Whether a percent sign is written twice, also in strings."""
    backslashes: bool = False
    """Whether a setting decides what a backslash in a string means."""
    escapes: bool = False
    """Whether a backslash in a string always escapes the character after it, and is the way to write a quote."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Skipped text or a mark."""
        return re.compile(f"(?P<skipped>{self.skipped})|{self.marks}", re.DOTALL)


SPELLINGS = {
    "duckdb": Spelling(
        r"\?(?P<place>\d*)|\$(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*))|(?P<percent>(?!))", SKIPPED, "[{}]",
        "DOUBLE", "CAST('{}' AS DOUBLE)".format, "unhex('{}')",
    ),
    "sqlite": Spelling(
        r"\?(?P<place>\d*)|[:@$](?P<name>[A-Za-z_]\w*)|(?P<number>(?!))|(?P<percent>(?!))",
        r"`(?:[^`]|``)*`|\[[^\]]*\]|" + SKIPPED, None, None,
        lambda value: "NULL" if math.isnan(value) else "9e999" if value > 0 else "(-9e999)", "X'{}'", typed=False,
    ),
    "postgres": Spelling(
        r"%(?:(?P<place>)s|\((?P<name>[^)]*)\)s|(?P<percent>%))|\$(?P<number>\d+)",
        r"\b[eE]'(?:[^'\\]|\\.|'')*'|" + SKIPPED, "ARRAY[{}]", "DOUBLE PRECISION",
        "CAST('{}' AS DOUBLE PRECISION)".format, "pg_catalog.decode('{}', 'hex')", percents=True,
        backslashes=True,
    ),
    "spark": Spelling(
        r"\?(?P<place>\d*)|:(?P<name>[A-Za-z_]\w*)|(?P<number>(?!))|(?P<percent>(?!))",
        r"\b[rR]'[^']*'|\b[rR]\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|::|" + SKIPPED,
        "array({})", "DOUBLE", "CAST('{}' AS DOUBLE)".format, "unhex('{}')", escapes=True,
    ),
}  # fmt: skip
"""By the name of the dialect."""


def with_values(sql: str, params: Parameters | None, dialect: str) -> str:
    """The query with every mark replaced by its value; every value must be used."""
    if params is None:
        return sql
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise TypeError("params is a list of values, or a dict of names and values")
    spelling, values = SPELLINGS[dialect], _Values(params)

    def replaced(match: re.Match[str]) -> str:
        found = match.groupdict()
        if found["skipped"] is not None:
            return match[0].replace("%%", "%") if spelling.percents else match[0]
        if found["percent"] is not None:
            return "%"
        if found["name"] is not None:
            return constant(values.named(found["name"]), spelling)
        number = found["place"] or found["number"]
        return constant(values.numbered(int(number) if number else None), spelling)

    written = spelling.pattern.sub(replaced, sql)
    values.check_used()
    return written


class _Values:
    """The values, and which of them were used."""

    def __init__(self, params: Parameters) -> None:
        self.params = params
        self.used: set[int | str] = set()
        self.next = 0

    def named(self, name: str) -> Any:
        if not isinstance(self.params, Mapping):
            raise SQLError(f"the query names the parameter {name!r}, so params must be a dict")
        if name not in self.params:
            raise SQLError(f"the query names the parameter {name!r}, which params does not have")
        self.used.add(name)
        return self.params[name]

    def numbered(self, number: int | None) -> Any:
        if isinstance(self.params, Mapping):
            raise SQLError("the query has marks without names, so params must be a list")
        self.next += number is None
        place = self.next if number is None else number
        if not 1 <= place <= len(self.params):
            raise SQLError(f"the query has a mark for value {place}, and params has {len(self.params)} values")
        self.used.add(place)
        return self.params[place - 1]

    def check_used(self) -> None:
        every = self.params if isinstance(self.params, Mapping) else range(1, 1 + len(self.params))
        unused = [key for key in every if key not in self.used]
        if unused:
            raise SQLError(f"the query has no mark for the parameter {unused[0]!r}")


def constant(value: Any, spelling: Spelling) -> str:
    """A value as a constant in the SQL of a database."""
    if isinstance(value, list | tuple):
        if spelling.list_ is None:
            raise SQLError("this database has no lists: give each value a mark of its own")
        return spelling.list_.format(", ".join(constant(part, spelling) for part in value))
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    for kind, write in WRITTEN:
        if isinstance(value, kind):
            return write(value, spelling)
    raise TypeError(f"a parameter of type {type(value).__name__} is not supported: give a number, text, date or None")


def _float(value: float, spelling: Spelling) -> str:
    if not math.isfinite(value):
        return spelling.special(value)
    return f"({value!r})" if spelling.double is None else f"CAST({value!r} AS {spelling.double})"


def _text(value: str, spelling: Spelling) -> str:
    if "\0" in value:
        raise SQLError("a text parameter must not contain the character NUL")
    if spelling.escapes:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    text = value.replace("'", "''")
    if spelling.backslashes and "\\" in value:  # E'...' means the same under every setting
        return "E'" + text.replace("\\", "\\\\") + "'"
    return f"'{text}'"


def _typed(kind: str) -> Callable[[Any, Spelling], str]:
    """Dates and the like: as text where there are no such types."""

    def write(value: Any, spelling: Spelling) -> str:
        text = str(value)
        zoned = " WITH TIME ZONE" if getattr(value, "tzinfo", None) is not None else ""
        return f"CAST('{text}' AS {kind}{zoned})" if spelling.typed else _text(text, spelling)

    return write


def _decimal(value: Decimal, spelling: Spelling) -> str:
    if not value.is_finite() or not spelling.typed:
        raise SQLError(f"the parameter {value} is no decimal number of this database: give a float")
    return f"({value:f})"


WRITTEN: list[tuple[type | tuple[type, ...], Callable[[Any, Spelling], str]]] = [
    (type(None), lambda value, spelling: "NULL"),
    (bool, lambda value, spelling: str(value).upper() if spelling.typed else str(int(value))),
    (int, lambda value, spelling: f"({value})" if value < 0 else str(value)),
    (float, _float),
    (Decimal, _decimal),
    (str, _text),
    ((bytes, bytearray, memoryview), lambda value, spelling: spelling.bytes_.format(bytes(value).hex())),
    (datetime.datetime, _typed("TIMESTAMP")),
    (datetime.date, _typed("DATE")),
    (datetime.time, _typed("TIME")),
    (uuid.UUID, _typed("UUID")),
]
"""How to write a value, by the first type that fits: a bool is an int, a datetime a date."""
