"""Databases behind one small protocol: find relations, number uncertain rows once, run the lineage query."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf import _native
from sharpdnf.dnf import FloatArray, IntArray, LitArray
from sharpdnf.sql.catalog import ROW_ID, Catalog, Relation, column, quoted

if TYPE_CHECKING:
    import pyarrow as pa

LOCKS: WeakValueDictionary[int, Any] = WeakValueDictionary()


def lock_of(connection: object) -> Any:
    """The lock of a connection: two threads would read each other's temporary tables. Keep both of them alive."""
    return LOCKS.setdefault(id(connection), threading.RLock())


@dataclass(frozen=True, slots=True)
class Clauses:
    """Conjunctions of uncertain rows, as in a DNF: row r has the literal 2 r."""

    indptr: IntArray
    literals: LitArray
    """Clause c has ``literals[indptr[c]:indptr[c + 1]]``, different ones in increasing order."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, wanted: IntArray) -> Clauses:
        """The clauses of these numbers."""
        widths = self.indptr[wanted + 1] - self.indptr[wanted]
        indptr = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        entry = np.repeat(self.indptr[wanted] - indptr[:-1], widths) + np.arange(int(indptr[-1]))
        return Clauses(indptr, self.literals[entry])


@dataclass(frozen=True, slots=True)
class LineageRows:
    """The rows of a lineage query, sorted by answer: ``answers`` has one row per answer, the others one per clause."""

    answers: pa.Table
    indptr: IntArray
    """Answer a has the clauses ``indptr[a]`` to ``indptr[a + 1] - 1``."""
    clauses: Clauses
    identity: npt.NDArray[np.int32]
    """int32[clauses, columns]: the row of the result, for expected values."""
    measures: FloatArray
    """float64[clauses, columns]: what expected_sum adds up."""


def sorted_lineage(
    keys: Sequence[tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.uint8]]],
    numbers: Sequence[npt.NDArray[np.int32]],
    identity: Sequence[npt.NDArray[np.int32]],
    measures: FloatArray,
    answers: Callable[[npt.NDArray[np.int32]], pa.Table],
) -> LineageRows:
    """Columns of a lineage query in any order. A key has a mask of its NULLs, or an empty one; a number -1 is none.

    ``answers`` makes a table of the first row of every answer.
    """
    count = len(measures)
    indptr, literals, flat, starts, first, order = _native.lineage(
        [key for key, _ in keys], [null for _, null in keys], numbers, identity, count, measures.shape[1] > 0
    )
    measured = measures[order] if measures.shape[1] else measures
    return LineageRows(answers(first), starts, Clauses(indptr, literals), flat.reshape(count, len(identity)), measured)


def sorted_keys(keys: Sequence[npt.NDArray[np.signedinteger[Any]]]) -> tuple[IntArray, IntArray, IntArray]:
    """(where each distinct key begins, and the number of rows; its first row; the order of the rows)."""
    columns = [np.ascontiguousarray(key) for key in keys]
    none = [np.zeros(0, dtype=np.uint8)] * len(keys)
    *_, starts, first, order = _native.lineage(columns, none, [], [], len(columns[0]), True)
    return starts, first, order


class Backend(Catalog, Protocol):
    """A connection. Only temporary tables are ever created."""

    connection: Any
    lock: Any

    def execute(self, sql: str) -> None:
        """Runs a statement without a result."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """A small result as Python tuples."""

    def numbers(self, sql: str, columns: int) -> FloatArray:
        """float64[rows, columns]: a numeric result."""

    def materialise(self, name: str, relation: Relation, prob: str, base: int) -> exp.Expression:
        """Numbers the rows with prob > 0 from ``base`` on, in a temporary table; returns what FROM reads instead."""

    def lineage(self, sql: str, shape: Shape) -> LineageRows:
        """Runs a lineage query."""

    def register(self, name: str, frame: object) -> None:
        """Makes a data frame or file a relation of the connection."""

    def temporary(self, name: str) -> exp.Table:
        """The name of one of our temporary tables."""

    def version(self) -> object:
        """Another value after any change of the connection's data; None where only the rows themselves can tell."""

    def layout(self, item: exp.Expression) -> tuple[tuple[str, str], ...] | None:
        """(name, type) of each column that FROM reads, with an empty type where columns have none; None: unreadable."""

    def contents(self, item: exp.Expression, columns: Sequence[tuple[str, str]], prob: str) -> object:
        """A hash of the bag of rows with ``prob`` other than 0 that FROM reads, in these columns (name, type).

        Two bags with the same hash are the same but for a chance of 2^-64.
        """

    def present(self, paths: Sequence[tuple[str, ...]], *, fresh: bool = True) -> list[str | None]:
        """What there is under each full name now, such as "table" or "view"; None: nothing.

        If it need not be fresh, what was looked up for the query planned last may be used again.
        """

    def snapshot(self) -> AbstractContextManager[None]:
        """All statements inside see the data of one moment; in a transaction of the caller's, those of that."""

    def interrupt(self) -> None:
        """Stops the statement under way, from another thread."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Column counts of a lineage query: answer columns, then measures, lineage and identity."""

    shown: int
    measures: int
    lineage: int
    identity: int

    def names(self) -> tuple[list[str], list[str], list[str], list[str]]:
        """The names of the columns of each kind."""
        measures = [f"_c{self.shown + i}" for i in range(self.measures)]
        lineage, identity = ([f"_{p}{i}" for i in range(n)] for p, n in (("l", self.lineage), ("i", self.identity)))
        return [f"_c{i}" for i in range(self.shown)], measures, lineage, identity


def lower(name: str) -> str:
    """A name as the databases fold it: they leave letters beyond ASCII as they are."""
    return "".join(c.lower() if c.isascii() else c for c in name)


def file_key(path: str) -> str:
    """The same for all names of one file."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return f"{found.st_dev}:{found.st_ino}"


def numbering(relation: Relation, prob: str, base: int, kind: str = "BIGINT") -> exp.Select:
    """SELECT base + row_number() - 1, * FROM relation WHERE prob > 0."""
    number: exp.Expression = exp.Add(this=exp.Window(this=exp.RowNumber()), expression=exp.Literal.number(base - 1))
    select = exp.Select(
        expressions=[
            exp.alias_(exp.cast(number, kind), ROW_ID, quoted=True),
            exp.Column(this=exp.Star(), table=quoted("_t")),
        ]
    )
    select.set("from_", exp.From(this=relation.table("_t")))
    return select.where(exp.GT(this=column(prob, "_t"), expression=exp.Literal.number(0)), copy=False)


def grouped(sql: str, shape: Shape, *, bare: bool = False) -> str:
    """The lineage query with the number of the answer in front: equal answers get equal numbers, by the database's
    own notion of equality (NULLs, collations, 1 and 1.0)."""
    shown, measures, lineage, identity = ([f'"{name}"' for name in names] for names in shape.names())
    order = ", ".join(f"{name} NULLS LAST" for name in shown)
    rank = f"dense_rank() OVER (ORDER BY {order}) - 1" if shown else "0"
    values = [*shown, *measures]
    if bare:  # SQLite would convert the values of one type to the affinity of the first
        values = [f"coalesce({value}, NULL) AS {value}" for value in values]
    columns = ", ".join([f'{rank} AS "_g"', *values, *lineage, *identity])
    return f'SELECT {columns} FROM ({sql}) AS "_r"'
