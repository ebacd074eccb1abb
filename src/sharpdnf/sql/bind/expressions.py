"""Scalar expressions: names bound, nothing in them but what is on the white list; subqueries over certain rows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.from_clause import bind_from
from sharpdnf.sql.bind.scope import Fields, Scope, Visible
from sharpdnf.sql.bind.tables import Environment, children
from sharpdnf.sql.bind.tree import FromItem, Join, Leaf, Merged, Plain, Scan, Source, sources_of, write_from
from sharpdnf.sql.parse.allowed import check_call, check_expression, check_structure, is_scalar_extreme
from sharpdnf.sql.refusal import refuse


def bind_expression(
    context: Binding, node: exp.Expr, env: Environment, scope: Scope, *, aggregates: bool = False
) -> exp.Expr:
    """A copy with its names bound and everything in it on the white list."""
    holder = exp.Paren(this=node.copy())
    _bind(context, holder.this, env, scope, aggregates=aggregates)
    bound: exp.Expr = holder.this
    return bound.pop()


def _bind(context: Binding, node: exp.Expr, env: Environment, scope: Scope, *, aggregates: bool) -> None:
    """Binds the names below a node in place; the node itself may be replaced."""
    if isinstance(node, exp.Column):
        if isinstance(node.this, exp.Star):
            refuse(f"{node.sql()} in an expression", "name the columns")
        check_structure(node)
        bound = scope.bind(node, context.tables.fold, context.starred, lambda seen: _fields(context, seen))
        node.replace(bound)
        return
    if isinstance(node, exp.Query | exp.Values):
        if context.tables.touches(node, env):
            refuse(
                f"a subquery over uncertain rows in {node.sql()[:80]!r}",
                "it may stand only as EXISTS, IN or = ANY in a WHERE or inner join condition",
            )
        found = _certain_query(context, node, env, scope)
        node.replace(found if isinstance(node, exp.Subquery) else found.unnest())
        return
    if isinstance(node, exp.In):
        check_structure(node)
    if not is_scalar_extreme(node, context.dialect):
        check_expression(node, aggregates=aggregates)
        if isinstance(node, exp.Func) and not aggregates:
            check_call(node, context.catalog.functions())
    for child in list(children(node)):
        _bind(context, child, env, scope, aggregates=aggregates)


def _fields(context: Binding, seen: Visible) -> Fields:
    """Whether the database reads ``column.name`` as a field of the column; what cannot be told may have some."""
    if not context.dialect.fields:
        return "none"
    source = seen.source
    standing = isinstance(source.origin, Scan) or (source.origin is not None and not source.origin.reads)
    if not standing:
        return "open"
    select = exp.Select(expressions=[seen.expression.copy()])
    write_from(select, [Leaf(source)])
    select.set("with_", exp.With(expressions=context.certain_ctes()) if context.certain else None)
    kinds = context.catalog.types(select.sql(context.dialect.name))
    if kinds is None or kinds[0].startswith(context.dialect.fields):
        records = context.dialect.records
        return "known" if kinds is not None and records and kinds[0].startswith(records) else "open"
    return "none"


def _certain_query(context: Binding, node: exp.Query | exp.Values, env: Environment, scope: Scope) -> exp.Expr:
    """A subquery over certain rows: as it is if it stands on its own, else with its outer names bound."""
    inner = context.tables.opaque(node, env).unnest()
    if context.describe(inner) is not None:
        return exp.Subquery(this=inner)
    select = node.unnest()
    check_structure(select)
    if not isinstance(select, exp.Select) or select.args.get("with_"):
        refuse(f"the correlated subquery {select.sql()[:60]!r}", "only a plain SELECT can refer to outer columns")
    return exp.Subquery(this=_certain_select(context, select, env, scope))


def _certain_select(context: Binding, node: exp.Select, env: Environment, outer: Scope) -> exp.Select:
    """A correlated SELECT over certain rows: aggregates, HAVING, ORDER BY and LIMIT keep their meaning."""
    scope = Scope(outer)
    sources = bind_from(context, node, env, scope)
    bound = exp.Select(distinct=node.args["distinct"].copy() if node.args.get("distinct") else None)
    if isinstance(bound.args.get("distinct"), exp.Distinct) and bound.args["distinct"].args.get("on"):
        refuse("DISTINCT ON in a correlated subquery", "the rewriter does not know it")
    for expression in node.expressions:
        if isinstance(expression, exp.Star):
            if any(expression.args.values()):
                refuse("* with EXCLUDE or REPLACE in a correlated subquery", "name the columns")
            bound.append("expressions", exp.Literal.number(1) if not scope.star(None) else exp.Star())
            continue
        value = bind_expression(context, expression.unalias(), env, scope, aggregates=True)
        bound.append("expressions", value)
        if isinstance(expression, exp.Alias):
            scope.aliases.setdefault(context.fold(expression.args["alias"]), value)
    conditions: list[exp.Expr] = []
    write_from(bound, [_without_outer_names(context, item, conditions) for item in sources])
    if node.args.get("where"):
        conditions.append(exp.paren(bind_expression(context, node.args["where"].this, env, scope)))
    if conditions:
        bound.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    for name in ("group", "having", "order", "limit", "offset"):
        clause = node.args.get(name)
        if clause is not None:
            bound.set(name, _bind_clause(context, clause, env, scope))
    return bound


def _without_outer_names(context: Binding, item: FromItem, moved: list[exp.Expr]) -> FromItem:
    """Moves the conditions of inner joins that refer to the query around this one out of FROM, to WHERE."""
    if not isinstance(item, Join):
        assert not isinstance(item, Merged), "no derived table is merged into a query over certain rows"
        return item
    left, right = (_without_outer_names(context, side, moved) for side in (item.left, item.right))
    on, kind = item.on, item.kind
    if item.inner and isinstance(on, Plain) and refers_outside(on.expression, sources_of(item)):
        moved.append(on.expression)
        on, kind = None, context.dialect.cross_join
    return Join(left, right, item.side, kind, on, item.once)


def refers_outside(expression: exp.Expr, sources: Iterable[Source]) -> bool:
    """Whether a bound expression has columns of other FROM items than these."""
    own = {source.alias for source in sources}
    return any(column.table not in own for column in expression.find_all(exp.Column) if column.table)


def _bind_clause(context: Binding, clause: exp.Expr, env: Environment, scope: Scope) -> exp.Expr:
    """GROUP BY, HAVING and ORDER BY also see the select list's aliases; a name alone in ORDER BY is one first."""
    copy = clause.copy()
    for child in list(children(copy)):
        for column in child.find_all(exp.Column) if isinstance(child, exp.Ordered) else ():
            alias = None if column.table else scope.aliases.get(context.fold(column.this))
            if alias is not None and column is not child.this:
                refuse(f"ORDER BY {child.this.sql()}", f"{column.name!r} is an alias of the select list")
            if alias is not None:
                child.set("this", exp.Paren(this=alias.copy()))
                break
        else:
            _bind(context, child, env, scope, aggregates=True)
    return copy
