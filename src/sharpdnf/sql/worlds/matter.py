"""Which uncertain rows can matter for a query by worlds: those that its own WHERE does not leave out.

A row for which ``WHERE x > 3`` is not TRUE is dropped before anything else happens in its SELECT, whether it exists or
not. So it need not be in any world, and more queries have so few worlds that all of them can be listed. Only conditions
count that read columns of that table alone and are made of comparisons with constants; and the table must stand in FROM
itself, beside inner joins or before a LEFT JOIN: a row that is padded with NULLs has no columns to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import IntArray
from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import ROW_ID, Backend, Relation
from sharpdnf.sql.uncertain import Declared

Matter = Mapping[tuple[str, ...], IntArray]
"""By the key of each uncertain table, the rows of it that can matter, counted from 0."""
SIMPLE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ,
    exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is, exp.Neg,
)  # fmt: skip
"""What a condition may be made of, so that it means the same in a statement of its own."""


def condition_of(table: exp.Table, relation: Relation, fold: Callable[[exp.Identifier], str]) -> exp.Expr | None:
    """What must be TRUE for a row of a table that is read here, over columns of ``_s``; None if nothing is known."""
    select = _select_of(table)
    where = select.args.get("where") if select is not None else None
    if select is None or where is None or any(table.args.get(name) for name in table.args.keys() - PLAIN):
        return None
    alias = table.args.get("alias")
    if alias is not None and (alias.args.get("columns") or alias.this is None):
        return None
    name = fold(alias.this if alias is not None else table.this)
    alone = not select.args.get("joins")
    inner = where.this.unnest()
    parts = inner.flatten() if isinstance(inner, exp.And) else [inner]
    found = [_over_rows(part, name, relation, fold, alone=alone) for part in parts]
    known = [part for part in found if part is not None]
    return exp.and_(*known, copy=False) if known else None


PLAIN = frozenset(["this", "db", "catalog", "alias", "joins"])
"""What is said of a table in FROM that is read as it is."""


def _select_of(table: exp.Table) -> exp.Select | None:
    """The SELECT in whose FROM a table stands, if its WHERE decides about the table's rows first."""
    place = table.parent
    select = place.parent if isinstance(place, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select) or table.args.get("joins") or select.args.get("laterals"):
        return None
    for join in select.args.get("joins") or ():
        padded = join.side == "LEFT" and join is place
        if join.side not in ("", "LEFT") or padded or join.kind not in ("", "INNER", "CROSS") or join.method:
            return None
    return select


def _over_rows(
    part: exp.Expr, name: str, relation: Relation, fold: Callable[[exp.Identifier], str], *, alone: bool
) -> exp.Expr | None:
    """A condition over columns of ``_s`` instead of the table's; None if it is not simple or reads anything else."""
    holder = exp.Paren(this=part.copy())
    if not all(isinstance(node, SIMPLE) and not node.args.get("query") for node in holder.walk()):
        return None
    known = {fold(exp.Identifier(this=c, quoted=True)): c for c in relation.columns}
    for found in list(holder.find_all(exp.Column)):
        if found.args.get("db") or found.args.get("catalog") or not isinstance(found.this, exp.Identifier):
            return None
        qualifier = found.args.get("table")
        mine = alone if qualifier is None else fold(qualifier) == name
        if not mine or fold(found.this) not in known:
            return None
        found.replace(column(known[fold(found.this)], "_s"))
    return holder


def rows_that_matter(
    backend: Backend, declared: Declared, conditions: Iterable[exp.Expr | None]
) -> IntArray:  # fmt: skip
    """The rows of a table, counted from 0, for which one of the conditions holds; None among them holds for all."""
    asked = list(conditions)
    if not asked or any(condition is None for condition in asked):
        return np.arange(len(declared.prob))
    dialect = backend.dialect.name
    either = " OR ".join(f"({condition.sql(dialect)})" for condition in asked if condition is not None)
    source = declared.uncertain.source.sql(dialect)
    found = backend.rows(f'SELECT "_s".{ROW_ID} FROM {source} AS "_s" WHERE {either}')
    return np.sort(np.array([row[0] for row in found], dtype=np.int64)) - declared.base
