"""What the rewriter may ask a database: which relation a name means, its columns, its views and its functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

ROW_ID = "_sharpdnf_id"
"""The column of a materialised uncertain table that numbers its rows, unique over all tables of a ProbDB."""


def quoted(name: str) -> exp.Identifier:
    """The name as it stands, whatever is in it."""
    return exp.Identifier(this=name, quoted=True)


def column(name: str, table: str | None = None) -> exp.Column:
    """A reference by quoted names."""
    return exp.Column(this=quoted(name), **({"table": quoted(table)} if table else {}))


def bare_value(value: exp.Expression) -> exp.Expression:
    """The value without SQLite's affinity of a column, which a function's value does not have."""
    return exp.Coalesce(this=value, expressions=[exp.Null()])


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of the database. Two names of one relation give equal ``key``."""

    key: tuple[str, ...]
    path: tuple[str, ...]
    """Quoted parts that name it from anywhere: (catalog, schema, table), as many as the database knows."""
    columns: tuple[str, ...]
    definition: str | None = None
    """The SELECT of a view, in the database's dialect."""
    labels: tuple[str, ...] | None = None
    """The column names a view was created with, where its definition does not carry them."""
    row_id: str | None = None
    """A hidden column that numbers the rows of a table (SQLite)."""
    version: str = ""
    """Changes when a relation of that name is made anew, where the database tells."""
    stored: bool = False
    """A materialised view: its rows were copied, so expanding its definition may not give them."""

    def table(self, alias: str | None = None) -> exp.Table:
        """As FROM reads it, by its full name."""
        parts = [quoted(part) for part in self.path]
        names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        table = exp.Table(**names)
        return exp.alias_(table, alias, table=True, quoted=True) if alias else table


@dataclass(frozen=True, slots=True)
class Uncertain:
    """An uncertain relation as the rewritten query reads it."""

    relation: Relation
    source: exp.Expression
    """A FROM item without alias: the temporary table, or a SELECT that joins the row numbers on."""
    prob: str
    """The probability column, which ``*`` hides."""


@dataclass(frozen=True, slots=True)
class Functions:
    """Names of functions, in lower case, by what can go wrong with them."""

    aggregates: frozenset[str]
    volatile: frozenset[str]


def recopied(copy: exp.Table, names: list[str], bare: frozenset[int], number: str) -> exp.Expression:
    """What FROM reads of a copy: the columns ``bare`` have no affinity, like the expressions that were copied."""
    if not bare:
        return copy
    columns: list[exp.Expression] = [column(name) for name in [*names, number]]
    for i in bare:
        columns[i] = exp.alias_(bare_value(columns[i]), names[i], quoted=True)
    return exp.Subquery(this=exp.select(*columns).from_(copy))


class Catalog(Protocol):
    """The part of a database that the rewriter sees."""

    dialect: str

    def fold(self, identifier: exp.Identifier) -> str:
        """The identifier as the database compares it."""

    def prepare(self, names: frozenset[str]) -> None:
        """These names (no names: none any more) are about to be resolved, so they may be looked up together."""

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

    def collates(self) -> bool:
        """Whether columns may have collations that a comparison of computed values would lose (SQLite)."""

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        """Other relations that hold some of the same rows (partitions, inheritance)."""
