"""HAVING, and comparisons with a subquery that is one aggregate: which aggregate of which rows is compared with what.

What compares one aggregate with a value that is the same for all rows aggregated is bound as ``Aggregated``, under AND,
OR and NOT: MIN and MAX come down to whether rows of some kind are there, COUNT to how many. SUM, AVG, and sums,
differences and products of several aggregates are a ``Combined``. The rest is refused.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sharpdnf.sql.backends.names import column
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.scope import Scope, UnknownColumn
from sharpdnf.sql.bind.tables import Environment, children
from sharpdnf.sql.bind.tree import Aggregated, All, AnyOf, Call, Combined, Condition, Item, Kind, Not, Plain, Select
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.refusal import refuse

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
MIRRORED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}
KINDS: dict[str, Kind] = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "min": "min",
    "max": "max",
    "bool_or": "bool_or",
    "bool_and": "bool_and",
    "every": "bool_and",
}
INSTEAD = "compare aggregates, their sums, differences and products with each other and with numbers"


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate that is known here, with or without FILTER."""
    call = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(call, exp.Anonymous) or not isinstance(call.this, str):
        return False
    return call.this.lower() in KINDS and len(call.expressions) == 1  # max(a, b) is a function of one row in SQLite


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands in an expression, outside of subqueries."""
    if isinstance(node, exp.Query):
        return False
    return is_aggregate(node) or any(has_aggregate(child) for child in children(node))


def bind_having(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition:
    """HAVING as a tree of AND, OR and NOT over comparisons of aggregates and conditions on grouping columns."""
    if isinstance(node, exp.Paren):
        return bind_having(context, node.this, env, scope)
    if not has_aggregate(node):
        return context.passes.condition(context, node, env, scope)
    if isinstance(node, exp.Not):
        return Not(bind_having(context, node.this, env, scope))
    if node.args.get("negate"):
        return Not(bind_having(context, _affirmed(node), env, scope))
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(bind_having(context, part, env, scope) for part in node.flatten(unnest=False))
        return All(parts) if isinstance(node, exp.And) else AnyOf(parts)
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return All(tuple(bind_having(context, part, env, scope) for part in (low, high)))
    if isinstance(node, exp.In) and node.expressions:
        each = (exp.EQ(this=node.this.copy(), expression=value.copy()) for value in node.expressions)
        return AnyOf(tuple(bind_having(context, part, env, scope) for part in each))
    asked = _asked(node)
    if asked is None:
        return _tally(context, node, env, scope)
    call, compare, other = asked
    return compared(_call(context, call, env, scope), compare, context.passes.expression(context, other, env, scope))


def compared(
    call: Call, compare: type[exp.Binary], other: exp.Expr, query: Select | None = None, correlated: bool = False
) -> Condition:
    """One aggregate against a value."""
    if call.kind in ("sum", "avg") and compare is not exp.Is:
        if call.distinct:
            refuse(f"{call.kind.upper()}(DISTINCT) in a condition", INSTEAD)
        return Combined((call,), (other,), compare, column("_agg0"), column("_oth0"), query, correlated)
    return Aggregated(call, compare, other, query, correlated)


def _tally(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Combined:
    """A comparison of arithmetic over aggregates."""
    if not isinstance(node, COMPARISONS):
        refuse(f"HAVING {node.sql()[:80]}", INSTEAD)
    calls: list[Call] = []
    others: list[exp.Expr] = []

    def template(part: exp.Expr) -> exp.Expr:
        inner = part.unnest()
        if is_aggregate(inner):
            call = _call(context, inner, env, scope)
            if call.distinct or call.kind.startswith("bool"):
                refuse(f"HAVING {node.sql()[:80]}", INSTEAD)
            calls.append(call)
            return column(f"_agg{len(calls) - 1}")
        if isinstance(inner, exp.Add | exp.Sub | exp.Mul) and has_aggregate(inner):
            return type(inner)(this=template(inner.this), expression=template(inner.expression))
        if isinstance(inner, exp.Neg) and has_aggregate(inner):
            return exp.Neg(this=template(inner.this))
        if has_aggregate(inner):
            refuse(f"HAVING {node.sql()[:80]}", INSTEAD)
        others.append(context.passes.expression(context, inner, env, scope))
        return column(f"_oth{len(others) - 1}")

    left, right = template(node.this), template(node.expression)
    return Combined(tuple(calls), tuple(others), type(node), left, right)


def _affirmed(node: exp.Expr) -> exp.Expr:
    """IS NULL for IS NOT NULL."""
    copy = node.copy()
    copy.set("negate", None)
    return copy


def _asked(node: exp.Expr) -> tuple[exp.Expr, type[exp.Binary], exp.Expr] | None:
    """(aggregate, comparison, the other side) of a condition; None if it is none of this form."""
    if is_aggregate(node):
        return node, exp.EQ, exp.true()
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        inner = node.this.unnest()
        return (inner, exp.Is, exp.Null()) if is_aggregate(inner) else None
    if not isinstance(node, COMPARISONS):
        return None
    kind: type[exp.Binary] = type(node)
    left, right = node.this.unnest(), node.expression.unnest()
    if has_aggregate(right):
        kind, left, right = MIRRORED.get(kind, kind), right, left
    return (left, kind, right) if is_aggregate(left) and not has_aggregate(right) else None


def _call(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Call:
    """An aggregate with its argument bound."""
    argument, distinct = _argument(node)
    bound = context.passes.expression(context, argument, env, scope) if argument is not None else None
    return Call(_kind(node), bound, distinct)


def _kind(node: exp.Expr) -> Kind:
    return KINDS[str((node.this if isinstance(node, exp.Filter) else node).this).lower()]


def _argument(node: exp.Expr) -> tuple[exp.Expr | None, bool]:
    """What an aggregate aggregates, None for all rows, and whether only distinct values."""
    call, kept = node, None
    if isinstance(node, exp.Filter):
        call, kept = node.this, node.expression.this
    argument: exp.Expr | None = call.expressions[0]
    distinct = isinstance(argument, exp.Distinct)
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1 or argument.args.get("on"):
            refuse(f"{call.sql()[:60]}", "DISTINCT takes one expression")
        argument = argument.expressions[0]
    if isinstance(argument, exp.Order):
        refuse(f"{call.sql()[:60]}", "an aggregate has no ORDER BY here")
    if isinstance(argument, exp.Star):
        argument = None
    if kept is not None:
        case = exp.Case(ifs=[exp.If(this=kept.copy(), true=argument.copy() if argument else exp.Literal.number(1))])
        return case, distinct
    return argument, distinct


def bind_scalar(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> tuple[Call, Select, bool] | None:
    """A subquery that is one aggregate over uncertain rows: (aggregate, its rows, whether it is correlated)."""
    inner: exp.Expr = node
    while isinstance(inner, exp.Subquery | exp.Paren):
        if inner.args.get("with_"):
            return None
        inner = inner.this
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return None
    shown = inner.expressions[0].unalias().unnest()
    other = ("group", "having", "limit", "offset", "distinct")
    if not is_aggregate(shown) or any(inner.args.get(name) for name in other):
        return None
    check_structure(inner)
    argument, distinct = _argument(shown)
    rows = inner.copy()
    rows.set("order", None)
    rows.set("expressions", [argument.copy() if argument is not None else exp.Literal.number(1)])
    undo = context.attempt()
    try:
        query, correlated = context.passes.select(context, rows, env, Scope(Scope(scope, closed=True))), False
    except UnknownColumn:
        undo()
        query, correlated = context.passes.select(context, rows, env, Scope(scope)), True
    bound = query.items[0].expression if argument is not None else None
    return (
        Call(_kind(shown), bound, distinct),
        replace(query, items=[Item("", None, exp.Literal.number(1))]),
        correlated,
    )


def bind_comparison(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition | None:
    """A comparison with a subquery that is one aggregate; None if the node is none of this form."""
    if node.args.get("negate"):
        affirmed = bind_comparison(context, _affirmed(node), env, scope)
        return Not(affirmed) if affirmed is not None else None
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        kind: type[exp.Binary] = exp.Is
        left, right = node.this, node.expression
    elif isinstance(node, COMPARISONS):
        kind, left, right = type(node), node.this, node.expression
        if context.tables.touches(right, env):
            kind, left, right = MIRRORED.get(kind, kind), right, left
    else:
        return None
    if context.tables.touches(right, env) or not isinstance(left.unnest(), exp.Query):
        return None
    found = bind_scalar(context, left, env, scope)
    if found is None:
        return None
    call, query, correlated = found
    return compared(call, kind, context.passes.expression(context, right, env, scope), query, correlated)


def grouping_conditions(condition: Condition) -> list[Plain]:
    """The conditions of HAVING without aggregates."""
    if isinstance(condition, Plain):
        return [condition]
    if isinstance(condition, Not):
        return grouping_conditions(condition.part)
    if isinstance(condition, All):
        return [plain for part in condition.parts for plain in grouping_conditions(part)]
    return []
