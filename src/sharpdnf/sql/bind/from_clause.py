"""FROM: tables, subqueries, VALUES and joins, each with the columns that it brings into sight."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Uncertain
from sharpdnf.sql.bind.context import Binding, rename
from sharpdnf.sql.bind.scope import Scope, UnknownColumn
from sharpdnf.sql.bind.tables import Environment
from sharpdnf.sql.bind.tree import (
    Condition,
    FromItem,
    Join,
    Leaf,
    Merged,
    Output,
    Plain,
    Scan,
    Shared,
    Source,
    sources_of,
    table,
)
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.refusal import refuse


@dataclass(slots=True)
class Bound:
    """A FROM item, and what is in sight of a condition over it."""

    item: FromItem
    scope: Scope


def bind_from(context: Binding, select: exp.Select, env: Environment, scope: Scope) -> list[FromItem]:
    """The comma-separated parts of a FROM clause; their names are added to ``scope``."""
    start = select.args.get("from_")
    if start is None:
        return []
    groups: list[tuple[exp.Expr, list[exp.Join]]] = [(start.this, [])]
    for join in select.args.get("joins") or ():
        comma = not any(join.args.get(name) for name in ("on", "using", "side", "kind", "method"))
        if comma and not context.dialect.comma_binds_like_join:
            groups.append((join.this, []))
        else:
            groups[-1][1].append(join)
    found = []
    for first, joins in groups:
        bound = _chain(context, first, joins, env, scope)
        scope.join(bound.scope)
        found.append(bound.item)
    return found


def _chain(context: Binding, first: exp.Expr, joins: list[exp.Join], env: Environment, scope: Scope) -> Bound:
    """An item and the joins behind it."""
    bound = _item(context, first, env, scope)
    for join in joins:
        bound = _join(context, bound, join, env, scope)
    return bound


def _item(context: Binding, node: exp.Expr, env: Environment, scope: Scope) -> Bound:
    """A table, a derived table, VALUES or a parenthesised join."""
    if isinstance(node, exp.Table):
        check_structure(node)
        nested = node.args.get("joins")
        if nested:
            bare = node.copy()
            bare.set("joins", None)
            return _chain(context, bare, nested, env, scope)
        return _leaf(context, _table(context, node, env), node, scope)
    if isinstance(node, exp.Subquery):
        check_structure(node)
        if isinstance(node.this, exp.Table):
            if node.args.get("alias"):  # its columns are those that * lists
                rows = exp.select(exp.Star()).from_(_bare(node))
                named = exp.Subquery(this=rows, alias=node.args["alias"].copy())
                return _item(context, named, env, scope)
            return _item(context, node.this, env, scope)
        undo = context.attempt()
        try:
            return _leaf(context, _derived(context, node, env), node, scope)
        except UnknownColumn:
            if scope.parent is None or scope.parent.closed:
                raise
            undo()
            return _merged(context, node, env, scope)
    if isinstance(node, exp.Values):
        return _leaf(context, context.share_certain(_bare(node), env), node, scope)
    refuse(f"{type(node).__name__.upper()} in FROM", "only tables, subqueries, VALUES and joins have a lineage")


def _bare(node: exp.Expr) -> exp.Expr:
    """A copy without its alias."""
    copy = node.copy()
    copy.set("alias", None)
    return copy


def _leaf(context: Binding, found: Shared | Source, node: exp.Expr, scope: Scope) -> Bound:
    """One item under a fresh alias, its columns renamed by the user's alias."""
    alias = node.args.get("alias")
    if alias is not None:
        check_structure(alias)
    if isinstance(found, Shared):
        path = (context.fold(node.this),) if isinstance(node, exp.Table) else ()
        source = Source(path, context.fresh("t"), found.columns, found, table(found.name))
    else:
        source = found
    if alias is not None and alias.this is not None:
        source.path = (context.fold(alias.this),)
    renamed = alias.args.get("columns") if alias is not None else None
    if renamed:
        source.columns = rename(context, source.columns, renamed)
    inner = Scope(scope.parent, closed=scope.closed)
    inner.add(source)
    return Bound(Leaf(source), inner)


def _table(context: Binding, node: exp.Table, env: Environment) -> Shared | Source:
    """The relation behind a table name: a common table expression, a view over uncertain rows, or a table."""
    key = context.tables.cte_key(node, env)
    if key is not None:
        shared = env.ctes[key]
        assert shared is not None, "common table expressions are bound before they are read"
        return shared
    relation = context.tables.relation(node, env)
    uncertain: Uncertain | None = context.tables.uncertain.get(relation.key)
    if uncertain is None and context.tables.relation_touches(relation):
        return context.passes.view(context, relation)
    columns = tuple(
        Output(name, context.fold(quoted(name)), name, hidden=uncertain is not None and name == uncertain.prob)
        for name in relation.columns
    )
    path = tuple(context.fold(quoted(part)) for part in relation.path)
    return Source(path, context.fresh("t"), columns, Scan(relation, uncertain), relation.table())


def _derived(context: Binding, node: exp.Subquery, env: Environment) -> Shared:
    """A derived table that stands on its own."""
    inner = _bare(node)
    if not context.tables.touches(inner, env):
        return context.share_certain(inner.this, env)
    return context.share(context.passes.query(context, inner, env, None))


def _merged(context: Binding, node: exp.Subquery, env: Environment, scope: Scope) -> Bound:
    """A derived table that refers to the query around it: its FROM items and conditions join the query it is in."""
    select = node.this
    if not scope.merges or not isinstance(select, exp.Select) or node.args.get("with_"):
        refuse("a derived table that refers to the query around it", "move its condition to the outer WHERE")
    beside = replace(scope.snapshot(), lateral=True)
    bound = context.passes.select(context, select, env, Scope(beside, merges=True))
    if not bound.sources:
        refuse("a derived table without FROM that refers to the query around it", "name the columns themselves")
    outputs = bound.columns
    values = {o.name: typed(context, item.expression) for o, item in zip(outputs, bound.items, strict=True)}
    source = Source((), context.fresh("t"), outputs, values=values)
    alias = node.args.get("alias")
    if alias is not None:
        check_structure(alias)
        source.path = (context.fold(alias.this),) if alias.this is not None else ()
        if alias.args.get("columns"):
            source.columns = rename(context, source.columns, alias.args["columns"])
    outside = Scope(scope.parent)
    outside.add(source)
    return Bound(Merged(bound, source), outside)


def typed(context: Binding, value: exp.Expr) -> exp.Expr:
    """A string that a subquery shows is text there; next to another value it would take that one's type."""
    text = isinstance(value, exp.Literal) and value.is_string and not context.dialect.affinities
    return exp.cast(value, "TEXT") if text else value


def _join(context: Binding, left: Bound, node: exp.Join, env: Environment, scope: Scope) -> Bound:
    """One more join behind an item."""
    check_structure(node)
    method, side, kind = (str(node.args.get(name) or "").upper() for name in ("method", "side", "kind"))
    if method == "NATURAL":
        refuse("NATURAL JOIN", "it would join on the probability column; name the columns with USING")
    if method or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or (side and kind in ("SEMI", "ANTI")):
        refuse(f"{' '.join(filter(None, (method, side, kind)))} JOIN", "its lineage is not defined here")
    beside = scope.snapshot()
    beside.join(left.scope)
    right = _item(context, node.this, env, beside)
    on, semi = node.args.get("on"), kind in ("SEMI", "ANTI")
    if kind == "SEMI" and (right.item.reads or (on is not None and context.tables.touches(on, env))):
        kind = "INNER"  # its partners are clauses of one row
    width = len(left.scope.visible)
    left.scope.join(right.scope)
    condition = _condition(context, left.scope, node, width, env)
    for source in list(sources_of(right.item)) if semi else ():
        left.scope.hide(source)
    join = Join(left.item, right.item, side, kind, condition, once=semi)
    if join.inner and (not isinstance(condition, Plain)):
        join = replace(join, kind=context.dialect.cross_join)
    return Bound(join, left.scope)


def _condition(context: Binding, scope: Scope, node: exp.Join, left: int, env: Environment) -> Condition | None:
    """ON or USING, bound; ``left`` is how many columns in sight are of the left side."""
    using, on = node.args.get("using"), node.args.get("on")
    if using:
        side = str(node.args.get("side") or "").upper()
        if side in ("RIGHT", "FULL") and not context.dialect.outer_using:
            refuse("USING in a RIGHT or FULL JOIN", "which side's column it shows depends on the row; write ON")
        keys = [context.fold(name if isinstance(name, exp.Identifier) else name.this) for name in using]
        return Plain(exp.and_(*scope.merge(keys, left, side, context.dialect), copy=False))
    if on is None:
        return None
    if context.tables.touches(on, env):
        return context.passes.condition(context, on, env, scope.snapshot())
    return Plain(context.passes.expression(context, on, env, scope))
