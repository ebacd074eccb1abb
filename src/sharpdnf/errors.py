"""What a user can mend, as one tree. A caller's mistake is a ``ValueError``; ours is an ``AssertionError``.

SharpDNFError
├── ParseError          a file or text is not a weighted DNF: says file, line and what was expected
├── InvalidFormula      arrays or clauses that are not a DNF, or impossible generator requests
├── InvalidNetwork      links, nodes or terminals that do not make a network: says which row or file line
├── InvalidProgram      a logic program that cannot be read or grounded: says the line
├── UnknownEngine       no engine of that name (did you mean ...?)
├── MissingExtra        the engine or feature needs an optional dependency: says what to install
├── LimitError          the work would exceed a stated limit of size, memory or time
├── CheckpointError     weights, checkpoints or datasets that are missing, truncated or of another shape
├── ConfigError         an experiment file with an unknown key or a value out of range
└── SQLError
    ├── UnsupportedSQL  a construct whose answer would not be sound: names it and says why
    ├── SQLTimeout      the time was up before the database had all rows: no answer is known
    └── UncertainTableError  values that are not probabilities, or blocks that add up to more than 1: names the row

An answer that a deadline cut short is no error: it comes back with ``met=False``, and where there is no place for that,
with a ``NotMetWarning``. A query that reads no uncertain table although some are declared is answered, with a
``NoUncertainTable`` warning.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import Any


class SharpDNFError(Exception):
    """Base of everything a user can mend."""


class ParseError(SharpDNFError):
    """A file or text is not a weighted DNF. ``line`` is 1-based, 0 if the whole file is meant."""

    def __init__(self, message: str, *, file: str = "<text>", line: int = 0) -> None:
        self.file, self.line, self.message = file, line, message
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(ParseError, file=self.file, line=self.line), (self.message,)


class InvalidFormula(SharpDNFError, ValueError):
    """Arrays, clauses or a generator request that cannot be a DNF."""


class InvalidNetwork(SharpDNFError, ValueError):
    """Links, nodes or terminals that cannot be a network."""


class InvalidProgram(SharpDNFError, ValueError):
    """A logic program cannot be read, grounded or answered."""


class UnknownEngine(SharpDNFError, ValueError):
    """No engine has that name."""


class MissingExtra(SharpDNFError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs an optional dependency: pip install 'sharpdnf[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return MissingExtra, (self.what, self.extra)


@contextlib.contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Turns the failure to import an optional dependency within this block into a MissingExtra for ``what``."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "sharpdnf":
            raise
        raise MissingExtra(what, extra) from None


class LimitError(SharpDNFError):
    """The work would exceed a stated limit of size, memory or time."""


class NotMetWarning(UserWarning):
    """The deadline came first: what was returned is the best so far and keeps no (epsilon, delta)."""


class NoUncertainTable(UserWarning):
    """A query reads no uncertain table although some are declared, so each of its answers has probability 1."""


class CheckpointError(SharpDNFError):
    """Weights, a checkpoint or a dataset cannot be used."""


class ConfigError(SharpDNFError, ValueError):
    """An experiment file has an unknown key or a bad value."""


class SQLError(SharpDNFError):
    """A probabilistic query cannot be answered."""


class UnsupportedSQL(SQLError):
    """A query uses a construct whose answers would not be sound here."""


class SQLTimeout(SQLError):
    """The time was up before the database had found the lineage."""


class UncertainTableError(SQLError):
    """A column holds values that are not probabilities, or the probabilities of a block add up to more than 1."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: ": did you mean ...?", or nothing if none is close."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1)
    return f": did you mean {close[0]!r}?" if close else ""
