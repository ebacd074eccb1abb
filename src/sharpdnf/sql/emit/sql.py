"""Rewritten tree -> SQL: columns ``_c*``, then lineage ``_l*``, then (for expected values) row identity ``_i*``."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sharpdnf.sql.backends.names import bare_value, quoted
from sharpdnf.sql.bind.tree import All, Plain, Select, write_from


def emit(selects: Sequence[Select]) -> exp.Query:
    """The rows of all of them, one UNION ALL after the other."""
    whole: exp.Query = emit_select(selects[0])
    for select in selects[1:]:
        whole = exp.Union(this=whole, expression=emit_select(select), distinct=False)
    return whole


def emit_select(select: Select) -> exp.Select:
    """One SELECT whose conditions are plain."""
    columns = {"_c": [item.expression for item in select.items], "_l": select.lineage, "_i": select.identity}
    body = exp.Select(
        expressions=[named(value.copy(), f"{kind}{i}") for kind in columns for i, value in enumerate(columns[kind])]
    )
    write_from(body, select.sources)
    if isinstance(select.where, All):
        conditions = [part.expression.copy() for part in select.where.parts if isinstance(part, Plain)]
        assert len(conditions) == len(select.where.parts), "the rewriting leaves plain conditions only"
        body.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    return body


def named(value: exp.Expr, name: str) -> exp.Alias:
    """A column of a rewritten SELECT."""
    return exp.Alias(this=value, alias=quoted(name))


def cte(name: str, body: exp.Query) -> exp.CTE:
    """A query under a name."""
    return exp.CTE(this=body, alias=exp.TableAlias(this=quoted(name)))


def complete(body: exp.Query, ctes: Sequence[exp.CTE]) -> exp.Query:
    """A copy of the body with the common table expressions in front."""
    body = body.copy()
    if ctes:
        body.set("with_", exp.With(expressions=[entry.copy() for entry in ctes]))
    return body


def without_affinities(body: exp.Query, count: int) -> None:
    """Takes the affinity from the first ``count`` columns of a UNION ALL, so that SQLite converts none to another's."""
    sides, node = [], body
    while isinstance(node, exp.SetOperation):
        sides.append(node.expression)
        node = node.this
    for side in [node, *sides]:
        for item in side.expressions[:count]:
            item.set("this", bare_value(item.this.copy()))
