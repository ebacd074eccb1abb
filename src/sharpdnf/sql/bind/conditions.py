"""WHERE and ON as a tree of AND, OR, NOT, plain conditions and memberships in subqueries over uncertain rows.

A condition keeps a row if it is TRUE. In SQL's three-valued logic AND is TRUE iff both sides are, OR iff one side is,
NOT x iff x is FALSE; EXISTS is TRUE iff the subquery has a row and ``x = ANY (q)`` iff some row makes ``x = row`` TRUE.
One that stands anywhere else (in CASE, compared with a truth value) is told apart by cases (``cases.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.bind.aggregates import COMPARISONS, MIRRORED, bind_comparison
from sharpdnf.sql.bind.cases import cases_of, conditions_in, has_value
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.scope import Scope, UnknownColumn
from sharpdnf.sql.bind.tables import Environment
from sharpdnf.sql.bind.tree import All, AnyOf, Condition, Member, Not, Plain
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.refusal import refuse

NEGATED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
}


@dataclass(frozen=True, slots=True)
class Written:
    """EXISTS, IN or a comparison with ANY as the user wrote it."""

    query: exp.Expr
    word: str
    left: tuple[exp.Expr, ...] = ()
    compare: type[exp.Binary] = exp.EQ


def bind_condition(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition:
    """A condition with its names bound."""
    if not context.tables.touches(node, env):
        return Plain(context.passes.expression(context, exp.paren(node.copy()), env, scope))
    if isinstance(node, exp.Paren):
        return bind_condition(context, node.this, env, scope)
    if isinstance(node, exp.Not):
        return Not(bind_condition(context, node.this, env, scope))
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(bind_condition(context, part, env, scope) for part in node.flatten(unnest=False))
        return All(parts) if isinstance(node, exp.And) else AnyOf(parts)
    opposite = _opposite(node)
    if opposite is not None:
        return Not(bind_condition(context, opposite, env, scope))
    aggregated = bind_comparison(context, node, env, scope)
    if aggregated is not None:
        return aggregated
    written = _written(node)
    return _member(context, written, env, scope) if written is not None else _by_cases(context, node, env, scope)


def _by_cases(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition:
    """A condition inside of which others are values: what it is for each of their truth values."""
    found = list(conditions_in(context, node, env))
    parts: list[Condition] = []
    for constant, cases in cases_of(context, node, found):
        known = [has_value(bind_condition(context, part, env, scope), value) for part, value in cases]
        parts.append(All((*known, bind_condition(context, constant, env, scope))))
    return AnyOf(tuple(parts))


def _member(context: Binding, written: Written, env: Environment, scope: Scope) -> Condition:
    """The subquery as it stands on its own or, if that does not bind, with columns of the query around it."""
    node = written.query
    while isinstance(node, exp.Subquery):
        check_structure(node)
        env, node = context.passes.with_clause(context, node, env), node.this
    left = tuple(context.passes.expression(context, part, env, scope) for part in written.left)
    undo = context.attempt()
    try:
        query = context.passes.query(context, node, env, Scope(scope, closed=True))
        correlated = False
    except UnknownColumn:
        undo()
        if isinstance(node, exp.Union):
            return _either(context, node, written, env, scope)
        if not isinstance(node, exp.Select):
            check_structure(node)
            refuse(f"a correlated {type(node).__name__.upper()}", "split it into several EXISTS or IN conditions")
        query = context.passes.select(context, _unshown(node) if not left else node, env, Scope(scope, merges=True))
        correlated = True
    if left and len(left) != len(query.columns):
        raise SQLError(f"the subquery of IN or ANY has {len(query.columns)} columns where {len(left)} are compared")
    return Member(query, correlated, written.word, left, written.compare)


def _either(context: Binding, node: exp.Union, written: Written, env: Environment, scope: Scope) -> Condition:
    """Membership in a correlated UNION: in one of its sides."""
    check_structure(node)
    env = context.passes.with_clause(context, node, env)
    check_clauses(node)
    sides = (Written(side, written.word, written.left, written.compare) for side in (node.this, node.expression))
    return AnyOf(tuple(_member(context, side, env, scope) for side in sides), len(written.left))


def _unshown(node: exp.Select) -> exp.Select:
    """Under EXISTS, a select list of stars and constants says nothing."""
    if not all(isinstance(item, exp.Star | exp.Literal | exp.Null) for item in node.expressions):
        return node
    node = node.copy()
    node.set("expressions", [])
    return node


def check_clauses(node: exp.Expr) -> None:
    """Refuses clauses that look at the whole result, which differs from world to world."""
    for name in ("limit", "offset"):
        if node.args.get(name):
            refuse(
                f"{name.upper()} over uncertain rows",
                "which rows it keeps is only defined for the outermost ORDER BY prob() DESC LIMIT k",
            )
    distinct = node.args.get("distinct")
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        refuse("DISTINCT ON", "which row it keeps depends on which uncertain rows exist")


def _written(node: exp.Expr) -> Written | None:
    """EXISTS, IN and comparisons with ANY; None for everything else."""
    if isinstance(node, exp.Exists):
        return Written(node.this, "EXISTS")
    if isinstance(node, exp.In):
        check_structure(node)
        query = node.args.get("query")
        return None if query is None else Written(query, "IN", _row(node.this))
    if isinstance(node, COMPARISONS):
        kind: type[exp.Binary] = type(node)
        left, right = node.this, node.expression
        if isinstance(left, exp.Any) and not isinstance(right, exp.Any):
            kind, left, right = MIRRORED.get(kind, kind), right, left
        if isinstance(right, exp.Any):
            row = _row(left)
            if len(row) > 1 and kind is not exp.EQ:
                refuse("a row comparison other than = with ANY", "rows compare column by column only for =")
            return Written(right.this, "... ANY", row, kind)
    return None


def _opposite(node: exp.Expr) -> exp.Expr | None:
    """For x > ALL (q): x <= ANY (q), whose negation it is in all three truth values; None for everything else."""
    if not isinstance(node, COMPARISONS):
        return None
    kind: type[exp.Binary] = type(node)
    left, right = node.this, node.expression
    if isinstance(left, exp.All) and not isinstance(right, exp.All):
        kind, left, right = MIRRORED.get(kind, kind), right, left
    if not isinstance(right, exp.All):
        return None
    return NEGATED[kind](this=left.copy(), expression=exp.Any(this=right.this.copy()))


def _row(node: exp.Expr) -> tuple[exp.Expr, ...]:
    inner = node.unnest()
    return tuple(inner.expressions) if isinstance(inner, exp.Tuple) else (node,)
