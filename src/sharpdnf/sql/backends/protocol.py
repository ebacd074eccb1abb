"""What the rest of the package may ask a database, and what it gets back.

``Catalog`` is what binding and rewriting need: which relation a name means, its columns, its views and its functions.
``Backend`` adds what runs queries. A back end imports this file, its ``Dialect`` and nothing of the rewriter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf.dnf import FloatArray, IntArray, LitArray
from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import quoted

if TYPE_CHECKING:
    import pyarrow as pa

ROW_ID = "_sharpdnf_id"
"""The column of a materialised uncertain table that numbers its rows, unique over all tables of a ProbDB."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of the database. Two names of one relation give equal ``key``."""

    key: tuple[str, ...]
    path: tuple[str, ...]
    """Quoted parts that name it from anywhere: (catalog, schema, table), as many as the database knows."""
    columns: tuple[str, ...]
    definition: str | None = None
    """The SELECT of a view, in the database's dialect; None for a table."""
    labels: tuple[str, ...] | None = None
    """The column names a view was created with, where its definition does not carry them."""
    row_id: str | None = None
    """The hidden column that numbers the rows of a table (SQLite); None where there is none."""
    version: str = ""
    """A text that changes when a relation of that name is made anew; empty where the database does not tell."""
    stored: bool = False
    """Whether it is a materialised view, whose rows were copied: expanding its definition may not give them."""

    def table(self, alias: str | None = None) -> exp.Expr:
        """The relation as a FROM item, by its full name."""
        parts = [quoted(part) for part in self.path]
        names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        table = exp.Table(**names)
        return exp.alias_(table, alias, table=True, quoted=True) if alias else table


@dataclass(frozen=True, slots=True)
class Uncertain:
    """An uncertain relation as the rewritten query reads it."""

    relation: Relation
    source: exp.Expr
    """A FROM item without alias: the temporary table, or a SELECT that joins the row numbers on."""
    prob: str
    """The probability column, which ``*`` hides; empty where the probability is an expression."""


@dataclass(frozen=True, slots=True)
class Functions:
    """Names of functions, in lower case, by what can go wrong with them."""

    aggregates: frozenset[str]
    volatile: frozenset[str]
    row_makers: frozenset[str] = frozenset()
    """Functions that make several rows of one, beside those that ``parse/allowed.py`` lists for every database."""


class Catalog(Protocol):
    """The part of a database that the rewriter sees."""

    dialect: Dialect

    def fold(self, identifier: exp.Identifier) -> str:
        """The identifier as the database compares it."""

    def prepare(self, names: frozenset[str]) -> None:
        """Tells which names are about to be resolved, so that they may be looked up together; no names ends that."""

    def looked_up(self) -> frozenset[str]:
        """The folded names that were resolved since this was asked last."""

    def state(self, names: frozenset[str]) -> object:
        """Equal to that of an earlier moment if no relation of these names, no function and no setting that says what
        a name means has changed; None where that cannot be told at little cost."""

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        """The relation that the folded name parts mean, seen from the query (home None) or from a view's schema.

        A name that could mean more than one relation is an UnsupportedSQL error.
        """

    def describe(self, sql: str) -> tuple[str, ...] | None:
        """The column names of a SELECT that stands on its own; None if it does not bind."""

    def types(self, sql: str) -> tuple[str, ...] | None:
        """The column types of a SELECT that stands on its own; None if it does not bind or its columns have none."""

    def untyped(self, sql: str, count: int) -> frozenset[int]:
        """Which of the first ``count`` columns of a SELECT a copy would give a type that they do not have (SQLite)."""

    def readings(self, first: str, second: str) -> tuple[object, object]:
        """What the database makes of two queries: equal if they mean the same; None for one that it cannot read."""

    def affinities(self, sql: str, count: int) -> tuple[str, ...]:
        """INTEGER, REAL, TEXT or nothing for each of the first ``count`` columns of a SELECT (SQLite)."""

    def functions(self) -> Functions:
        """What is known of the built-in functions."""

    def user_code(self, names: frozenset[str], sql: str) -> frozenset[str]:
        """What of a text that calls ``names`` runs code of the user's now, such as "function f()" or "operator +".

        Macros, functions, operators and casts can read tables that nobody named.
        """

    def definitions(self, called: str) -> tuple[str, ...] | None:
        """The texts of a function that ``user_code`` found, if it says that it gives the same for the same arguments:
        SELECTs that it stands for, or what is known of its code. None for others, and for what replaces a built-in one.
        """

    def collates(self) -> bool:
        """Whether columns may have collations that a comparison of computed values would lose (SQLite)."""

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        """Other relations that hold some of the same rows (partitions, inheritance)."""


@dataclass(frozen=True, slots=True)
class Clauses:
    """Conjunctions of uncertain rows, as in a DNF: row r has the literal 2 r."""

    indptr: IntArray
    literals: LitArray
    """Clause c has ``literals[indptr[c]:indptr[c + 1]]``, different ones in increasing order."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, wanted: IntArray | npt.NDArray[np.int32]) -> Clauses:
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
    """int32[clauses, columns]: the numbers that tell the rows of the result apart, for expected values."""
    measures: FloatArray
    """float64[clauses, columns]: the values that expected_sum adds up."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Lineage rows that stay where they are, because they may be too many for one machine."""

    frame: Any
    """The DataFrame of Spark that has them."""
    files: tuple[str, ...] = ()
    """What it reads beside the uncertain tables: nobody else needs these files."""


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


class Backend(Catalog, Protocol):
    """A connection. Only temporary tables are ever created."""

    connection: Any
    lock: Any

    def execute(self, sql: str) -> None:
        """Runs a statement without a result."""

    def keep(self, name: str, select: str, number: str | None = None) -> None:
        """Stores the rows of a SELECT in a temporary table of that name; column ``number`` numbers them."""

    def drop(self, name: str) -> None:
        """Drops a temporary table of ours, if it is there."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """A small result as Python tuples."""

    def numbers(self, sql: str, columns: int) -> FloatArray:
        """float64[rows, columns]: a numeric result."""

    def materialise(self, name: str, relation: Relation, prob: exp.Expr, base: int) -> exp.Expr:
        """Numbers the rows with prob > 0 from ``base`` on, in a temporary table; returns what FROM reads instead."""

    def lineage(self, sql: str, shape: Shape) -> LineageRows:
        """Runs a lineage query."""

    def register(self, name: str, frame: object) -> None:
        """Makes a data frame or file a relation of the connection."""

    def store(self, name: str, table: pa.Table, like: str) -> None:
        """Makes a temporary table of a few columns, each of the type of the column of its name in a SELECT, if any."""

    def discard(self, name: str) -> None:
        """Drops what ``store`` made."""

    def table(self, sql: str, columns: int) -> pa.Table:
        """The result of a query with that many columns."""

    def temporary(self, name: str) -> exp.Table:
        """The name of one of our temporary tables."""

    def version(self) -> object:
        """A value that changes with any change of the connection's data; None where the database has no such counter,
        and rows must be compared instead."""

    def layout(self, item: exp.Expr) -> tuple[tuple[str, str], ...] | None:
        """(name, type) of each column of a FROM item; the type is empty where columns have none. None if it cannot be
        read."""

    def contents_query(self, item: exp.Expr, columns: Sequence[tuple[str, str]], prob: exp.Expr) -> str:
        """What to ask ``contents`` for: the rows of a FROM item, in these columns (name, type)."""

    def contents(self, asked: Sequence[str]) -> list[object]:
        """For each query of ``contents_query``: a hash of the bag of rows whose probability is not 0.

        Two bags with the same hash are the same but for a chance of 2^-64.
        """

    def present(self, paths: Sequence[tuple[str, ...]], *, fresh: bool = True) -> list[str | None]:
        """What there is under each full name now, such as "table" or "view", and None where there is nothing.

        If it need not be fresh, what was looked up for the query planned last may be used again.
        """

    def snapshot(self) -> AbstractContextManager[None]:
        """A block in which all statements see the data of one moment. If the caller has a transaction open, that is
        the moment."""

    def interrupt(self) -> None:
        """Stops the statement under way, from another thread."""

    def endangers(self) -> bool:
        """Whether the caller has a transaction open that an interrupted statement of ours would end."""

    def close(self) -> None:
        """Ends the connection."""
