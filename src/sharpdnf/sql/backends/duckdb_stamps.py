"""Whether anybody has changed the catalog of a DuckDB since we looked last: made, altered or dropped anything.

DuckDB has no counter for that, but it numbers the entries of its catalog, those of all connections together, and every
change of the catalog takes some of these numbers. Making a temporary sequence, and asking for its number, gives a
*stamp*. If the next stamp is exactly as far away as our own changes in between explain, nobody else has changed
anything. How many numbers ours take is measured in a database that nobody else knows of.

What would break: a plan that outlives a change may read the wrong table, and a macro that is taken for a function of
DuckDB's own can read uncertain tables that the query does not show. So a stamp at any other distance, or none, begins
a new *epoch*, and what was known of the catalog in an earlier epoch is asked for again.

One thing takes no number: the end of a transaction. What another connection made before our last stamp may be committed
after it, and what was made in a transaction of this connection may be rolled back. So what was read while another
connection was open, or inside a transaction, is trusted only once (``alone``).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import duckdb

STAMP = "_sharpdnf_stamp"
MAKE = f"CREATE OR REPLACE TEMP SEQUENCE {STAMP}"
NAMES = ("current_setting('search_path')", "current_database()", "current_schema()", "current_setting('default_order')",
         "current_setting('default_null_order')")  # fmt: skip
ASK = (
    f"SELECT sequence_oid, system.main.txid_current(), {', '.join(f'system.main.{name}' for name in NAMES)} FROM "
    f"system.main.duckdb_sequences() WHERE temporary AND sequence_name = '{STAMP}'"
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """One look at the catalog."""

    number: int
    transaction: int
    """The number of the transaction in which it was taken: two statements have the same one only inside BEGIN."""
    settings: tuple[str, ...]
    """What the meaning of a text depends on beside the catalog: the search path, and what ORDER BY sorts first."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How many numbers of the catalog our own statements take."""

    stamp: int
    table: int
    """CREATE TEMP TABLE ... AS SELECT."""
    no_table: int
    """DROP TABLE."""
    frame: int
    """Registering a frame."""
    no_frame: int
    """Taking that back."""


@functools.cache
def steps() -> Steps:
    """Measured in a database of our own. DuckDB makes some entries of its own when it first needs them, so the smallest
    of a few measurements counts: a step that is too small only makes us ask again."""
    frame = _frame()
    with duckdb.connect() as connection:
        actions: list[Callable[[], object]] = [
            lambda: None,
            lambda: connection.execute("CREATE TEMP TABLE a AS SELECT 1 AS x"),
            lambda: connection.execute("DROP TABLE IF EXISTS a"),
            lambda: connection.register("b", frame),
            lambda: connection.unregister("b"),
        ]
        rounds = []
        for _ in range(3):
            stamps = [_take(connection).number]
            for action in actions:
                action()
                stamps.append(_take(connection).number)
            rounds.append([after - before for before, after in itertools.pairwise(stamps)])
    alone, *others = (min(numbers) for numbers in zip(*rounds, strict=True))
    return Steps(alone, *(number - alone for number in others))


def _frame() -> object:
    import pyarrow as pa

    return pa.table({"x": [1]})


def _take(connection: duckdb.DuckDBPyConnection) -> Stamp:
    connection.execute(MAKE)
    number, transaction, *settings = connection.execute(ASK).fetchall()[0]
    return Stamp(number, transaction, tuple(settings))


class Stamps:
    """The stamps of one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.last: Stamp | None = None
        """What the last look found; None if no stamp could be made."""
        self.epoch = 0
        """Grows when somebody else may have changed the catalog."""
        self._expected: int | None = None
        """The number of the next stamp if nobody else changes the catalog; None if that is not known."""

    def look(self) -> Stamp | None:
        """Takes a stamp, which begins a new epoch if it is not the expected one."""
        try:
            self.last = _take(self.connection)
        except duckdb.Error:
            self.last = None
        if self.last is None or self.last.number != self._expected:
            self.epoch += 1
        self._expected = None if self.last is None else self.last.number + steps().stamp
        return self.last

    def take_account(self, numbers: int) -> None:
        """Tells that a statement of ours has taken numbers, as ``steps`` says, and will not be rolled back."""
        if self._expected is not None:
            self._expected += numbers

    def lose(self) -> None:
        """Begins a new epoch with the next look, because what we did ourselves may have been taken back."""
        self._expected = None

    def alone(self) -> bool:
        """Whether no other connection is open, so that no transaction of others can end later."""
        count = "SELECT count FROM system.main.duckdb_connection_count()"
        try:
            return bool(self.connection.sql(count).fetchall() == [(1,)])
        except duckdb.Error:
            return False
