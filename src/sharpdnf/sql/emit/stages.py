"""What negation leaves for later: temporary tables of candidate rows, and what must hold for each of them to exist.

A positive query is one SELECT whose rows are clauses. Negation needs more: which candidates there are, which uncertain
rows each of them needs, and which must be absent. So the candidates become a temporary table whose rows are numbered
like those of an uncertain table, after all numbers given before; the query above reads it as one. A ``Stage`` is such a
table, and says by which lineage queries a candidate is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

BASE = "_sharpdnf_base"
"""Stands in the SQL of a stage for the first number of its rows, which is known when it runs."""

Sign = Literal[">=", ">", "<=", "<", "=", "<>"]


@dataclass(frozen=True, slots=True)
class Found:
    """TRUE for a candidate iff one of the lineage rows of ``sql`` with its number in ``_c0`` is there."""

    sql: str
    lineage: int
    """The number of lineage columns."""
    keyed: bool = True
    """False where the rows are about no candidate in particular: TRUE for all of them or for none."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """TRUE iff all parts are."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """TRUE iff one of the parts is."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """TRUE iff its part is not."""

    part: Formula


@dataclass(frozen=True, slots=True)
class Counted:
    """Compares how many of the rows of ``sql`` are there with a number: TRUE iff ``compare`` says so.

    ``_c0`` is the candidate, the lineage columns hold what the row needs. It is never NULL, unless the number is.
    """

    sql: str
    lineage: int
    compare: Sign
    number: str
    """The SELECT of (candidate, 1 if the number is known and -1 if it is none, the number); or the number as text."""
    keyed: bool = True
    """False where the rows are about no candidate in particular."""
    values: bool = False
    """Whether rows that agree in ``_i0`` count once: COUNT(DISTINCT x)."""
    negated: bool = False
    """Whether it is TRUE iff the comparison is FALSE."""


@dataclass(frozen=True, slots=True)
class Tallied:
    """Compares sums, averages and other aggregates of the rows of ``sql`` with each other and with numbers.

    ``_c0`` is the candidate; for each aggregate follow its value and 1 where that is known.
    """

    sql: str
    lineage: int
    kinds: tuple[str, ...]
    """The aggregates: count, sum, avg, min, max."""
    numbers: str
    """The SELECT of (candidate, then for each further number 1 if it is known and the number)."""
    others: int
    compare: type[exp.Binary]
    left: exp.Expr
    right: exp.Expr
    """Arithmetic over the columns ``_agg0``... and ``_oth0``..."""
    truth: bool = True
    """Whether it asks for TRUE or for FALSE."""
    keyed: bool = True
    """False where the rows and the numbers are about no candidate in particular."""


@dataclass(frozen=True, slots=True)
class Single:
    """TRUE; but where two of the rows of ``sql`` with one candidate may be there together, the query has no lineage.

    A subquery that is compared with a value must not have more rows than one; in a world in which it has, there is no
    answer at all.
    """

    sql: str
    lineage: int
    keyed: bool = True
    """As in ``Found``."""


Formula = Found | Counted | Tallied | Single | AllOf | OneOf | Absent


@dataclass(frozen=True, slots=True)
class Stage:
    """A temporary table of candidates: one exists iff the rows of its lineage columns do and its ``Decision`` holds.

    Several rows with one number are one candidate, which exists iff one of them does.
    """

    name: str
    select: str
    """The SELECT that makes the table."""
    lineage: int
    counted: bool = False
    """Whether only the number of candidates is asked for, as a later decision is about all that they need."""

    def with_sql(self, change: Callable[[str], str]) -> Stage:
        """The stage with its SQL changed."""
        return replace(self, select=change(self.select))


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition on the candidates of an earlier stage. Stages between the two may read the table, not its events."""

    name: str
    """That of the stage."""
    formula: Formula
    alone: bool = False
    """Whether the formula holds only for candidates whose rows are there, so that it decides alone."""

    def with_sql(self, change: Callable[[str], str]) -> Decision:
        """The decision with all its SQL changed."""
        return replace(self, formula=_with_sql(self.formula, change))


@dataclass(frozen=True, slots=True)
class Gathered:
    """A temporary table of rows to be aggregated, which are no candidates themselves."""

    name: str
    select: str

    def with_sql(self, change: Callable[[str], str]) -> Gathered:
        """The table with its SQL changed."""
        return replace(self, select=change(self.select))


Step = Stage | Gathered | Decision


def statements(steps: Sequence[Step]) -> list[str]:
    """All SQL of the steps, in the order in which it runs."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    for step in steps:
        step.with_sql(note)
    return found


def _with_sql(formula: Formula, change: Callable[[str], str]) -> Formula:
    if isinstance(formula, Found | Single):
        return replace(formula, sql=change(formula.sql))
    if isinstance(formula, Counted):
        return replace(formula, sql=change(formula.sql), number=change(formula.number))
    if isinstance(formula, Tallied):
        return replace(formula, sql=change(formula.sql), numbers=change(formula.numbers))
    if isinstance(formula, Absent):
        return Absent(_with_sql(formula.part, change))
    return type(formula)(tuple(_with_sql(part, change) for part in formula.parts))
