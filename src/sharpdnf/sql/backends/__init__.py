"""Databases behind one small protocol: find relations, number uncertain rows once, run the lineage query."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf.sql.catalog import ROW_ID, Catalog, Relation

if TYPE_CHECKING:
    import pyarrow as pa

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
RowArray = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class LineageRows:
    """The rows of a lineage query, sorted by answer: ``answers`` has one row per answer, ``rows`` one per clause."""

    answers: pa.Table
    indptr: IntArray
    """Answer a has the clauses ``indptr[a]`` to ``indptr[a + 1] - 1``."""
    rows: RowArray
    """int[clauses, columns]: numbers of uncertain rows, -1 where a column does not apply."""
    extra: RowArray
    """int[clauses, columns]: identity of the result row, for expected values."""
    measures: FloatArray
    """float64[clauses, columns]: what expected_sum adds up."""


class Backend(Catalog, Protocol):
    """A connection. Only temporary tables are ever created."""

    def execute(self, sql: str) -> None:
        """Runs a statement without a result."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """A small result as Python tuples."""

    def numbers(self, sql: str, columns: int) -> FloatArray:
        """float64[rows, columns]: a numeric result."""

    def materialise(self, name: str, relation: Relation, prob: str, base: int) -> exp.Expression:
        """Numbers the rows with prob > 0 from ``base`` on, in a temporary table; returns what FROM reads instead."""

    def lineage(self, query: exp.Query, shape: Shape) -> LineageRows:
        """Runs a lineage query."""

    def register(self, name: str, frame: object) -> None:
        """Makes a data frame or file a relation of the connection."""

    def temporary(self, name: str) -> exp.Table:
        """The name of one of our temporary tables."""

    def version(self) -> object:
        """Changes when the data may have changed; a constant where that cannot be told cheaply."""

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
        measures = [f"_c{self.shown + i}" for i in range(self.measures)]
        lineage, identity = ([f"_{p}{i}" for i in range(n)] for p, n in (("l", self.lineage), ("i", self.identity)))
        return [f"_c{i}" for i in range(self.shown)], measures, lineage, identity


def quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


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


def column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(quoted(name), quoted(table) if table else None)


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


def grouped(query: exp.Query, shape: Shape, dialect: str, *, bare: bool = False) -> exp.Select:
    """The lineage query with the number of the answer in front: equal answers get equal numbers, by the database's
    own notion of equality (NULLs, collations, 1 and 1.0)."""
    shown, measures, lineage, identity = shape.names()
    inner = query.copy()
    with_ = inner.args.get("with_")
    inner.set("with_", None)
    order = exp.Order(expressions=[exp.Ordered(this=column(name)) for name in shown])
    rank: exp.Expression = exp.Window(this=exp.DenseRank(), order=order) if shown else exp.Literal.number(1)

    def value(name: str) -> exp.Expression:
        if bare:  # SQLite would convert the values of one type to the affinity of the first
            return exp.alias_(exp.Coalesce(this=column(name), expressions=[exp.Null()]), name, quoted=True)
        return column(name)

    outer = exp.Select(
        expressions=[
            exp.alias_(exp.Sub(this=rank, expression=exp.Literal.number(1)), "_g", quoted=True),
            *(value(name) for name in [*shown, *measures]),
            *(column(name) for name in [*lineage, *identity]),
        ],
        from_=exp.From(this=exp.Subquery(this=inner, alias=exp.TableAlias(this=quoted("_r")))),
    )
    if with_ is not None:
        outer.set("with_", with_)
    return outer
