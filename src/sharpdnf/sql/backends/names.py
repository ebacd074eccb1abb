"""Names in SQL: quoted as they stand, folded as the databases compare them; one key for one file."""

from __future__ import annotations

import functools
import os

from sqlglot import exp


def quoted(name: str) -> exp.Identifier:
    """The name as it stands, whatever is in it."""
    return exp.Identifier(this=name, quoted=True)


def column(name: str, table: str | None = None) -> exp.Column:
    """A reference to a column, with its name and that of its table in quotes."""
    return exp.Column(this=quoted(name), **({"table": quoted(table)} if table else {}))


def bare_value(value: exp.Expr) -> exp.Expr:
    """The value without SQLite's affinity of a column, which a function's value does not have."""
    return exp.Coalesce(this=value, expressions=[exp.Null()])


@functools.lru_cache(maxsize=4096)
def lower(name: str) -> str:
    """A name as the databases fold it: they leave letters beyond ASCII as they are."""
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


def file_key(path: str) -> str:
    """A key that is the same for all names of one file, such as links to it."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return f"{found.st_dev}:{found.st_ino}"
