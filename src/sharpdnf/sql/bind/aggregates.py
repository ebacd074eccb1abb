"""HAVING, and comparisons with a subquery that is one value: which aggregate of which rows is compared with what.

What compares one aggregate with a value that is the same for all rows aggregated is bound as ``Aggregated``, under AND,
OR and NOT: MIN and MAX come down to whether rows of some kind are there, COUNT to how many, and the column of a
subquery that has one row at most to whether that row is there. SUM, AVG, and sums, differences and products of several
aggregates, also of different subqueries, are a ``Combined``. The rest is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
ONE_VALUE = "a subquery that is compared is one aggregate, or a column of rows of which there is one at most"
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
    each = _comparisons(context, node)
    if each is not None:
        parts = tuple(bind_having(context, part, env, scope) for part in each.parts)
        return AnyOf(parts) if each.either else All(parts)
    asked = _asked(node)
    if asked is None or context.tables.touches(asked[2], env):
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
        return Combined((call,), (other,), compare, column("_agg0"), column("_oth0"), (query,), correlated)
    return Aggregated(call, compare, other, query, correlated)


@dataclass(slots=True)
class _Arithmetic:
    """Arithmetic over aggregates, taken apart: those of a group, of subqueries, and values that depend on neither."""

    context: Binding
    env: Environment
    scope: Scope
    calls: list[Call] = field(default_factory=list)
    queries: list[Select | None] = field(default_factory=list)
    others: list[exp.Expr] = field(default_factory=list)
    correlated: bool = False

    def side(self, node: exp.Expr) -> exp.Expr:
        """One side of a comparison, with columns ``_agg0``... for the aggregates and ``_oth0``... for the others."""
        inner = node.unnest()
        touches = self.context.tables.touches(inner, self.env)
        if isinstance(inner, exp.Query) and touches:
            return self._subquery(inner)
        if is_aggregate(inner):
            return self._aggregate(_call(self.context, inner, self.env, self.scope), None)
        if isinstance(inner, exp.Add | exp.Sub | exp.Mul) and (touches or has_aggregate(inner)):
            return type(inner)(this=self.side(inner.this), expression=self.side(inner.expression))
        if isinstance(inner, exp.Neg) and (touches or has_aggregate(inner)):
            return exp.Neg(this=self.side(inner.this))
        if touches or has_aggregate(inner):
            refuse(f"{inner.sql()[:80]}", INSTEAD)
        value = node if isinstance(inner, exp.Query) else inner  # a subquery keeps its parentheses
        return self._other(self.context.passes.expression(self.context, value, self.env, self.scope))

    def _aggregate(self, call: Call, query: Select | None) -> exp.Expr:
        self.calls.append(call)
        self.queries.append(query)
        return column(f"_agg{len(self.calls) - 1}")

    def _other(self, value: exp.Expr) -> exp.Expr:
        self.others.append(value)
        return column(f"_oth{len(self.others) - 1}")

    def _subquery(self, node: exp.Query) -> exp.Expr:
        """A subquery that is one value: arithmetic over aggregates of its rows, or a column of its only row."""
        found = _rows_of(self.context, node, self.env, self.scope)
        if found is None:
            refuse(f"the subquery {node.sql()[:80]}", ONE_VALUE)
        shown, query, self.correlated = found[0], found[1], found[2] or self.correlated
        values = [item.expression for item in query.items]
        rows = replace(query, items=[Item("", None, exp.Literal.number(1))])
        if not has_aggregate(shown):
            return self._aggregate(Call("only", values[0]), rows)

        def inside(part: exp.Expr) -> exp.Expr:
            inner = part.unnest()
            if is_aggregate(inner):
                argument, distinct = _argument(inner)
                value = values.pop(0)
                return self._aggregate(Call(_kind(inner), None if argument is None else value, distinct), rows)
            if isinstance(inner, exp.Add | exp.Sub | exp.Mul):
                return type(inner)(this=inside(inner.this), expression=inside(inner.expression))
            if isinstance(inner, exp.Neg):
                return exp.Neg(this=inside(inner.this))
            if inner.find(exp.Column, exp.Query) is not None:
                refuse(f"{shown.sql()[:80]} in a subquery", INSTEAD)
            return self._other(self.context.passes.expression(self.context, inner, self.env, self.scope))

        return inside(shown)

    def compared(self, node: exp.Expr, kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> Condition:
        """The comparison of two sides that were taken apart."""
        if len(self.calls) == 1 and len(self.others) == 1 and {left.name, right.name} == {"_agg0", "_oth0"}:
            kind = MIRRORED.get(kind, kind) if right.name == "_agg0" else kind
            return compared(self.calls[0], kind, self.others[0], self.queries[0], self.correlated)
        if any(call.distinct or call.kind.startswith("bool") for call in self.calls):
            refuse(f"{node.sql()[:80]}", INSTEAD)
        return Combined(
            tuple(self.calls), tuple(self.others), kind, left, right, tuple(self.queries), self.correlated
        )  # fmt: skip


def _tally(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition:
    """A comparison of arithmetic over aggregates."""
    if not isinstance(node, COMPARISONS):
        refuse(f"HAVING {node.sql()[:80]}", INSTEAD)
    parts = _Arithmetic(context, env, scope)
    left, right = parts.side(node.this), parts.side(node.expression)
    return parts.compared(node, type(node), left, right)


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


def _rows_of(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> tuple[exp.Expr, Select, bool] | None:
    """(the one item, the rows, whether it is correlated) of a subquery that is one value; None for any other.

    The rows show what each aggregate of the item aggregates, in the order in which they are written, or the item.
    """
    inner: exp.Expr = node
    while isinstance(inner, exp.Subquery | exp.Paren):
        if inner.args.get("with_"):
            return None
        inner = inner.this
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return None
    shown = inner.expressions[0].unalias().unnest()
    if any(inner.args.get(name) for name in ("group", "having", "limit", "offset", "distinct")):
        return None
    check_structure(inner)
    found = aggregates_in(shown)
    rows = inner.copy()
    rows.set("order", None)
    if found:
        arguments = (_argument(aggregate)[0] for aggregate in found)
        rows.set("expressions", [part.copy() if part is not None else exp.Literal.number(1) for part in arguments])
    elif isinstance(shown, exp.Star) or shown.find(exp.AggFunc, exp.Window) is not None:
        return None
    undo = context.attempt()
    try:
        return shown, context.passes.select(context, rows, env, Scope(Scope(scope, closed=True))), False
    except UnknownColumn:
        undo()
        return shown, context.passes.select(context, rows, env, Scope(scope)), True


def aggregates_in(node: exp.Expr) -> list[exp.Expr]:
    """The aggregates of an expression, from left to right, outside of subqueries."""
    if isinstance(node, exp.Query):
        return []
    return [node] if is_aggregate(node) else [found for child in children(node) for found in aggregates_in(child)]


def is_value(context: Binding, node: exp.Expr, env: Environment) -> bool:
    """Whether a piece reads uncertain rows only in subqueries that stand for numbers or values, or in none."""
    inner = node.unnest()
    if not context.tables.touches(inner, env) or isinstance(inner, exp.Query):
        return True
    if isinstance(inner, exp.Add | exp.Sub | exp.Mul):
        return is_value(context, inner.this, env) and is_value(context, inner.expression, env)
    return isinstance(inner, exp.Neg) and is_value(context, inner.this, env)


def bind_comparison(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition | None:
    """A comparison with subqueries that are one value each; None if the node is none of this form."""
    if node.args.get("negate"):
        affirmed = bind_comparison(context, _affirmed(node), env, scope)
        return Not(affirmed) if affirmed is not None else None
    each = _comparisons(context, node)
    if each is not None:
        if not all(is_value(context, side, env) for part in each.parts for side in (part.this, part.expression)):
            return None
        parts = tuple(bind_comparison(context, part, env, scope) or _plain(context, part, env, scope)
                      for part in each.parts)  # fmt: skip
        return AnyOf(parts) if each.either else All(parts)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        if not isinstance(node.this.unnest(), exp.Query):
            return None
        parts_ = _Arithmetic(context, env, scope)
        left = parts_.side(node.this)
        if len(parts_.calls) > 1 or left.name != "_agg0":
            refuse(f"{node.sql()[:80]}", INSTEAD)
        return compared(parts_.calls[0], exp.Is, exp.Null(), parts_.queries[0], parts_.correlated)
    if not isinstance(node, COMPARISONS) or not context.tables.touches(node, env):
        return None
    if not is_value(context, node.this, env) or not is_value(context, node.expression, env):
        return None
    arithmetic = _Arithmetic(context, env, scope)
    left, right = arithmetic.side(node.this), arithmetic.side(node.expression)
    if None in arithmetic.queries:
        refuse(f"an aggregate in {node.sql()[:80]}", "it may stand in HAVING")
    return arithmetic.compared(node, type(node), left, right)


def _plain(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Condition:
    return context.passes.condition(context, node, env, scope)


@dataclass(frozen=True, slots=True)
class _Comparisons:
    """What BETWEEN and IN (values) stand for."""

    parts: list[exp.Binary]
    either: bool


def _comparisons(context: Binding, node: exp.Expr) -> _Comparisons | None:
    """BETWEEN and IN as comparisons; None where SQLite would compare the values of IN by other affinities than =."""
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        return _Comparisons([low, exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())], False)
    alike = not context.dialect.affinities or all(isinstance(v.unnest(), exp.Literal) for v in node.expressions)
    if isinstance(node, exp.In) and node.expressions and node.args.get("query") is None and alike:
        each = [exp.EQ(this=node.this.copy(), expression=value.copy()) for value in node.expressions]
        return _Comparisons(list(each), True)
    return None


def of_rows(condition: Condition, rows: Select, *, correlated: bool) -> Condition:
    """A condition of HAVING with its aggregates as those of a subquery."""
    if isinstance(condition, Not):
        return Not(of_rows(condition.part, rows, correlated=correlated))
    if isinstance(condition, All):
        return replace(condition, parts=tuple(of_rows(part, rows, correlated=correlated) for part in condition.parts))
    if isinstance(condition, Aggregated) and condition.query is None:
        return replace(condition, query=rows, correlated=correlated)
    if isinstance(condition, Combined) and None in condition.queries:
        queries = tuple(query if query is not None else rows for query in condition.queries)
        return replace(condition, queries=queries, correlated=correlated or condition.correlated)
    return condition


def grouping_conditions(condition: Condition) -> list[Plain]:
    """The conditions of HAVING without aggregates."""
    if isinstance(condition, Plain):
        return [condition]
    if isinstance(condition, Not):
        return grouping_conditions(condition.part)
    if isinstance(condition, All):
        return [plain for part in condition.parts for plain in grouping_conditions(part)]
    return []
