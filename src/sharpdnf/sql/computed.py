"""Expressions with prob(), worked out by the database over a temporary table of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import IntArray
from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import Backend
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.emit.sql import named
from sharpdnf.sql.outermost import NUMBER, PROB

if TYPE_CHECKING:
    import pyarrow as pa

ANSWERS = "_sharpdnf_answers"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of the outermost ORDER BY."""

    column: str
    """``_c0``... of an answer column, ``_e0``... of an expected value, ``_prob``; else what to call the expression."""
    descending: bool
    nulls_first: bool
    expression: exp.Expr | None = None
    """Over the table of answers, where the key is more than a column of it."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What the database works out over the table of answers."""

    items: tuple[exp.Expr, ...] = ()
    having: tuple[exp.Expr, ...] = ()
    qualify: exp.Expr | None = None
    order: tuple[SortKey, ...] = ()
    """Empty where the answers are put in order without the database."""

    @property
    def wanted(self) -> bool:
        """Whether there is anything to work out."""
        return bool(self.items or self.order) or self.chooses

    def trees(self) -> list[exp.Expr]:
        """All expressions."""
        found = [*self.items, *self.having, *(key.expression for key in self.order), self.qualify]
        return [tree for tree in found if tree is not None]

    @property
    def chooses(self) -> bool:
        """Whether answers are left out."""
        return bool(self.having) or self.qualify is not None

    def query(self, dialect: str, *, whole: bool = False) -> str:
        """HAVING before windows, QUALIFY after them; then the number of each answer and the items, in order.

        If it is to be ``whole``, all columns of the answers stand before the items.
        """
        first = exp.select(exp.Star()).from_(exp.Table(this=quoted(ANSWERS)))
        for condition in self.having:
            first = first.where(exp.paren(condition.copy()), copy=False)
        always = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(1))
        keys = [key.expression.copy() if key.expression is not None else column(key.column) for key in self.order]
        columns = [
            exp.Star() if whole else column(NUMBER),
            *(named(item.copy(), f"_x{i}") for i, item in enumerate(self.items)),
            named((always if self.qualify is None else self.qualify).copy(), "_keep"),
            *(named(key, f"_o{i}") for i, key in enumerate(keys)),
        ]
        second = exp.Select(expressions=columns).from_(_inside(first))
        shown = [exp.Star()] if whole else [column(NUMBER), *(column(f"_x{i}") for i in range(len(self.items)))]
        last = exp.Select(expressions=shown).from_(_inside(second)).where(column("_keep"), copy=False)
        order = [
            exp.Ordered(this=column(f"_o{i}"), desc=key.descending, nulls_first=key.nulls_first)
            for i, key in enumerate(self.order)
        ]
        return str(last.order_by(*order, exp.Ordered(this=column(NUMBER)), copy=False).sql(dialect))

    def near(self, dialect: str) -> str:
        """Whether the choice of an answer may be another within the bounds ``lower`` and ``upper``, as an expression
        over the table of answers."""
        ends = []
        for end in ("lower", "upper"):
            tests = [exp.Paren(this=condition.copy()) for condition in self.having]
            for part in [part for test in tests for part in test.find_all(exp.Column) if part.name == PROB]:
                part.replace(column(end))
            ends.append(f"({' AND '.join(f'coalesce({test.sql(dialect)}, FALSE)' for test in tests) or 'TRUE'})")
        differs = "TRUE" if self.qualify is not None else f"{ends[0]} <> {ends[1]}"
        return f"lower < upper AND guarantee <> 'exact' AND {differs}"


def _inside(query: exp.Select) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=quoted("_a")))


def work_out(
    backend: Backend, computed: Computed, answers: pa.Table, counts: Counts, like: str
) -> tuple[IntArray, pa.Table]:
    """(which answers are kept, in order; the columns of the items).

    ``like`` is SQL whose columns have the types that those of the answers have in the database. Where the probabilities
    that choose are not exact, the answers whose choice may be another within their bounds are marked ``near_cut``.
    """
    import pyarrow as pa

    kept, items = _asked(backend, computed, answers, like)
    open_ = (counts.lower < counts.upper) & (counts.guarantee != "exact")
    if computed.chooses and bool(open_.any()):
        near = open_ if computed.qualify is not None else np.zeros(len(open_), dtype=bool)
        if computed.having:
            ends = []
            for end in (counts.lower, counts.upper):
                chosen = np.zeros(len(open_), dtype=bool)
                place = answers.column_names.index(PROB)
                there = answers.set_column(place, PROB, pa.array(end))
                chosen[_asked(backend, Computed(having=computed.having), there, like)[0]] = True
                ends.append(chosen)
            near = near | (ends[0] != ends[1])
        counts.near_cut = near if counts.near_cut is None else counts.near_cut | near
    return kept, items


def _asked(backend: Backend, computed: Computed, answers: pa.Table, like: str) -> tuple[IntArray, pa.Table]:
    import pyarrow as pa

    wanted = {part.name for tree in computed.trees() for part in tree.find_all(exp.Column)}
    wanted |= {key.column for key in computed.order if key.expression is None}
    table = answers.select([name for name in answers.column_names if name in wanted])
    table = table.append_column(NUMBER, pa.array(np.arange(len(answers))))
    backend.store(ANSWERS, table, like)
    try:
        found = backend.table(computed.query(backend.dialect.name), 1 + len(computed.items))
    finally:
        backend.discard(ANSWERS)
    kept: IntArray = found.column(0).to_numpy().astype(np.int64)
    return kept, found.select(list(range(1, 1 + len(computed.items))))
