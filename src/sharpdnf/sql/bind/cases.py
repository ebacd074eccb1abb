"""Conditions over uncertain rows that stand where a value does: one case for each of their truth values.

``SELECT a, EXISTS (q) FROM t`` shows TRUE for the rows of t for which q has a row and FALSE for the others; so it is
UNION ALL of two queries that have a constant in its place and a condition in their WHERE. A condition such as CASE WHEN
EXISTS (q) THEN x ELSE y END is TRUE iff it is for the truth value that EXISTS (q) has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from sqlglot import exp

from sharpdnf.sql.bind.aggregates import COMPARISONS, is_value
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.tables import Environment, children
from sharpdnf.sql.bind.tree import All, Condition, Not, Truth
from sharpdnf.sql.parse.text import LABEL
from sharpdnf.sql.refusal import refuse

MOST = 3
"""The most conditions that are told apart by cases; every one more doubles or trebles the query."""
Case = tuple[exp.Expr, bool | None]
"""A condition as it is written, and its truth value: None is NULL."""


def conditions_in(context: Binding, node: exp.Expr, env: Environment) -> Iterator[exp.Expr]:
    """The conditions over uncertain rows in an expression, the outermost ones; what is left reads none."""
    if not context.tables.touches(node, env):
        return
    if _is_condition(context, node, env):
        yield node
    elif isinstance(node, exp.Query):
        refuse(
            f"a subquery over uncertain rows in {node.sql()[:80]!r}",
            "it may stand as EXISTS, IN or ANY, and compared with a value",
        )
    else:
        for child in children(node):
            yield from conditions_in(context, child, env)


def _is_condition(context: Binding, node: exp.Expr, env: Environment) -> bool:
    if isinstance(node, exp.Exists | exp.And | exp.Or | exp.Not):
        return True
    if isinstance(node, exp.In):
        parts = [node.this, *node.expressions]
        return node.args.get("query") is not None or all(is_value(context, part, env) for part in parts)
    if isinstance(node, exp.Between):
        return all(is_value(context, node.args[name], env) for name in ("this", "low", "high"))
    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null) and isinstance(node.this.unnest(), exp.Query)
    if not isinstance(node, COMPARISONS):
        return False
    sides = (node.this, node.expression)
    return any(isinstance(side, exp.Any | exp.All) for side in sides) or all(is_value(context, s, env) for s in sides)


def cases_of(context: Binding, node: exp.Expr, conditions: Sequence[exp.Expr]) -> list[tuple[exp.Expr, list[Case]]]:
    """Copies of a node with constants in the place of the conditions, each with what they must be."""
    if len(conditions) > MOST:
        refuse(f"more than {MOST} subqueries over uncertain rows as values", "ask for them in several queries")
    values = [(True, False, None) if _may_be_null(condition) else (True, False) for condition in conditions]
    places = {id(part): i for i, part in enumerate(node.walk())}
    found = []
    for chosen in product(*values):
        holder = exp.Paren(this=node.copy())
        parts = list(holder.this.walk())  # a copy is walked in the same order
        for condition, value in zip(conditions, chosen, strict=True):
            constant = _constant(context, value)
            constant.meta[LABEL] = condition.meta.get(LABEL) or condition.sql(context.dialect.name)
            parts[places[id(condition)]].replace(constant)
        copy: exp.Expr = holder.this
        found.append((copy.pop(), list(zip(conditions, chosen, strict=True))))
    return found


def _may_be_null(node: exp.Expr) -> bool:
    if isinstance(node, exp.Exists):
        return False
    if isinstance(node, exp.Not | exp.Paren):
        return _may_be_null(node.this)
    return not isinstance(node, exp.And | exp.Or) or any(_may_be_null(part) for part in node.flatten())


def _constant(context: Binding, value: bool | None) -> exp.Expr:
    """A truth value as the database shows it; SQLite has numbers, and reads x IS TRUE otherwise than x IS 1."""
    if value is None:
        return exp.Null() if context.dialect.affinities else exp.cast(exp.Null(), "BOOLEAN")
    return exp.Literal.number(int(value)) if context.dialect.affinities else exp.Boolean(this=value)


def has_value(condition: Condition, value: bool | None) -> Condition:
    """That a bound condition has a truth value; it is never NULL."""
    if value is None:
        return All((Not(Truth(condition, True)), Not(Truth(condition, False))))
    return Truth(condition, value)


def holds_as(condition: Condition, value: bool | None) -> Condition:
    """As ``has_value``, where only whether it is TRUE matters: then a query that negates nothing stays so."""
    return condition if value is True else Not(condition) if value is False else has_value(condition, None)
