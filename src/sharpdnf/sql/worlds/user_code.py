"""The user's own functions and macros in a query that goes by worlds: which may be called, and which tables they read.

A function whose code nobody can look into may be called if it says of itself that it gives the same for the same
arguments: then it reads no table. A DuckDB macro is text that stands for the call, and is read like the query's own. A
name in it means what it means where it is called, a common table expression of the caller's included: so an uncertain
table that a macro names becomes one around the query, and in each world holds the rows of that world. What else would
read an uncertain table is refused by its name, for it would see rows that are not in the world.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sharpdnf.sql.backends.protocol import Catalog, Uncertain
from sharpdnf.sql.parse.allowed import called_names, check_volatile
from sharpdnf.sql.parse.text import parse_select
from sharpdnf.sql.refusal import refuse

PROMISE = (
    "it can read tables that the query does not show, unless it says that it gives the same for the same arguments: "
    "deterministic=True in SQLite, IMMUTABLE in PostgreSQL, a macro of the current schema or a function without side "
    "effects in DuckDB"
)


@dataclass(slots=True)
class UserCode:
    """What a query calls of the user's, at any depth."""

    called: set[str] = field(default_factory=set)
    """The names of the functions and macros, in lower case."""
    macros: dict[str, exp.Query] = field(default_factory=dict)
    """What macros stand for: text -> its tree."""


def read_user_code(sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain]) -> UserCode:
    """All functions and macros of the user's that a text calls; an error for one that promises nothing."""
    found = UserCode()
    _read(sql, catalog, uncertain, found)
    return found


def _read(sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], found: UserCode) -> None:
    names = frozenset(called_names(sql, catalog.dialect))
    check_volatile(names, catalog)
    for called in sorted(catalog.user_code(names, sql)):
        name = called.removeprefix("function ").removesuffix("()")
        if name in found.called:
            continue
        texts = catalog.definitions(called)
        if texts is None:
            refuse(f"the user-defined {called}", PROMISE)
        found.called.add(name)
        for text in texts:
            if catalog.dialect.macros:
                found.macros[text] = parse_select(text, catalog.dialect, f"the macro {name}()")
                _read(text, catalog, uncertain, found)
            else:
                _check_names(text, called, uncertain)


def _check_names(text: str, called: str, uncertain: Mapping[tuple[str, ...], Uncertain]) -> None:
    """Refuses a function in whose text the name of an uncertain table occurs, whatever it promises."""
    lines = text.lower()
    words = frozenset(re.findall(r"\w+", lines))
    for key in uncertain:
        name = key[-1].lower()
        if name in (words if name.isidentifier() else lines):
            refuse(f"the user-defined {called}", f"it names the uncertain table {key[-1]!r}")
