"""The one error for SQL that has no sound answer here."""

from __future__ import annotations

from typing import NoReturn

from sharpdnf.errors import UnsupportedSQL


def refuse(construct: str, why: str) -> NoReturn:
    """Raises the error that names the construct and says why it is refused, or what to write instead."""
    raise UnsupportedSQL(f"{construct} is not supported: {why}")
