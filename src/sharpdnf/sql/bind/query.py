"""Queries: names bound at every level, certain parts left as they are, the rest a relational tree."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import Relation
from sharpdnf.sql.bind.affinities import check_kept_values
from sharpdnf.sql.bind.aggregates import bind_having, grouping_conditions, of_rows
from sharpdnf.sql.bind.cases import Case, cases_of, conditions_in, holds_as
from sharpdnf.sql.bind.conditions import bind_condition, check_clauses
from sharpdnf.sql.bind.context import Binding, Passes, rename
from sharpdnf.sql.bind.derived import having_inside
from sharpdnf.sql.bind.expressions import bind_expression
from sharpdnf.sql.bind.from_clause import bind_from
from sharpdnf.sql.bind.quotients import without_shares
from sharpdnf.sql.bind.scope import Scope
from sharpdnf.sql.bind.substitution import read_by
from sharpdnf.sql.bind.tables import Environment, Tables, children
from sharpdnf.sql.bind.tree import (
    All,
    Certain,
    Condition,
    FromItem,
    Item,
    Query,
    Select,
    SetOperation,
    Shared,
    sources_of,
)
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.parse.text import LABEL
from sharpdnf.sql.refusal import refuse


def binding(tables: Tables) -> Binding:
    """A fresh start of binding one query."""
    return Binding(tables, Passes(bind_query, bind_select, bind_with, bind_view, bind_condition, bind_expression))


def bind_query(context: Binding, node: exp.Expr, env: Environment, outer: Scope | None) -> Query:
    """A SELECT, a set operation, or one of them in parentheses, that may read uncertain rows."""
    if not context.tables.touches(node, env):
        shared = context.share_certain(node, env)
        items = node.expressions if isinstance(node, exp.Select) else []
        shown = items if len(items) == len(shared.columns) else [None] * len(shared.columns)
        return Certain(shared, [constant(item.unalias()) if item is not None else None for item in shown])
    check_structure(node)
    if isinstance(node, exp.Subquery):
        return bind_query(context, node.this, bind_with(context, node, env), outer)
    if isinstance(node, exp.Select):
        return _by_cases(context, node, env, outer) or bind_select(context, node, env, Scope(outer))
    env = bind_with(context, node, env)
    check_clauses(node)
    if isinstance(node, exp.SetOperation):
        return _set_operation(context, node, env, outer)
    refuse(type(node).__name__.upper(), "the rewriter does not know it")


def _by_cases(context: Binding, node: exp.Select, env: Environment, outer: Scope | None) -> Query | None:
    """A SELECT that shows truth values of conditions over uncertain rows; None if it shows none."""
    inner = context.tables.inner(node, env)
    if not any(context.tables.touches(item, inner) for item in node.expressions):
        return None
    check_structure(node)
    env, node = bind_with(context, node, env), node.copy()
    node.set("with_", None)
    found = [part for item in node.expressions for part in conditions_in(context, item, env)]
    parts: list[Query] = []
    for shown, cases in cases_of(context, node, found):
        assert isinstance(shown, exp.Select)
        parts.append(bind_select(context, shown, env, Scope(outer), cases))
    group = node.args.get("group")
    distinct = bool(node.args.get("distinct")) or (group is not None and bool(group.args.get("all")))
    return SetOperation("UNION", parts, all_=not distinct)


def constant(value: exp.Expr) -> exp.Expr | None:
    """The value itself if it is a constant, else None."""
    return value.copy() if isinstance(value, exp.Literal | exp.Null) else None


def _set_operation(context: Binding, node: exp.SetOperation, env: Environment, outer: Scope | None) -> SetOperation:
    kind, all_ = type(node).__name__.upper(), node.args.get("distinct") is False
    parts: list[exp.Expr] = [node.expression, node.this]
    while kind == "UNION" and _continues(parts[-1], node):  # a loop: there may be thousands of them
        left = parts.pop()
        check_structure(left)
        parts += [left.args["expression"], left.this]
    sides = [bind_query(context, part, env, outer) for part in reversed(parts)]
    for side in sides:
        if len(side.columns) != len(sides[0].columns):
            raise SQLError(f"{kind} of {len(sides[0].columns)} and {len(side.columns)} columns")
    return SetOperation(kind, sides, all_)


def _continues(left: exp.Expr, node: exp.SetOperation) -> bool:
    """Whether the left side of a UNION is a UNION of the same kind without clauses of its own."""
    if not isinstance(left, exp.Union) or left.args.get("distinct") != node.args.get("distinct"):
        return False
    return not any(left.args.get(name) for name in ("with_", "order", "limit", "offset"))


def bind_with(context: Binding, node: exp.Expr, env: Environment) -> Environment:
    """Binds the common table expressions of a node, in order, each seeing those before it."""
    with_ = node.args.get("with_")
    if with_ is None:
        return env
    check_structure(with_)
    context.tables.check_forward(with_, env)
    for cte in with_.expressions:
        check_structure(cte)
        alias = cte.args["alias"]
        key, names = context.fold(alias.this), alias.args.get("columns")
        seen = env.define(key, None, touches=False) if context.tables.self_visible(with_) else env
        touches = context.tables.touches(cte.this, seen)
        if touches:
            shared = context.share(bind_query(context, cte.this, env, None))
            if names:
                shared = _renamed(context, shared, names)
        else:
            shared = context.share_certain(cte.this, seen, alias, recursive=bool(with_.args.get("recursive")))
        env = env.define(key, shared, touches=touches)
    return env


def _renamed(context: Binding, shared: Shared, names: list[exp.Expr]) -> Shared:
    columns = rename(context, shared.columns, names)
    return Shared(shared.name, columns, shared.query, shared.body, shared.reads, shared.positive)


def bind_view(context: Binding, relation: Relation) -> Shared:
    """A view that reads uncertain rows, expanded."""
    if relation.key not in context.views:
        name = relation.path[-1]
        if relation.stored:
            refuse(f"the materialised view {name!r}", "it holds copies of uncertain rows")
        body, _ = context.tables.view(relation)
        context.tables.check_types(relation)
        shared = context.share(bind_query(context, body, Environment(home=relation.path[:-1]), None))
        if relation.labels is not None:
            if len(relation.columns) != len(shared.columns):
                refuse(f"the view {name!r}", "its column list may name a probability column that * hides")
            shared = _renamed(context, shared, [quoted(label) for label in relation.labels])
        context.views[relation.key] = shared
    return context.views[relation.key]


# ---- one SELECT


def bind_select(
    context: Binding, node: exp.Select, env: Environment, scope: Scope, cases: Sequence[Case] = ()
) -> Select:
    """One SELECT, as if it read uncertain rows; its FROM items are added to ``scope``, ``cases`` to its WHERE."""
    check_structure(node)
    node = having_inside(context, node, env)
    env = bind_with(context, node, env)
    check_clauses(node)
    sources = bind_from(context, node, env, scope)
    items = _select_list(context, node, env, scope)
    keys = _group_keys(context, node, items, env, scope)
    where = node.args.get("where")
    condition = bind_condition(context, where.this, env, scope) if where is not None else None
    if cases:
        known = [bind_condition(context, part, env, scope) for part, _ in cases]
        _check_cases(known, node, keys, sources)
        held = [holds_as(part, value) for part, (_, value) in zip(known, cases, strict=True)]
        condition = All((*([condition] if condition is not None else []), *held))
    distinct, grouped = bool(node.args.get("distinct")), bool(node.args.get("group"))
    if distinct or grouped:
        check_kept_values(context.catalog, node)
    if node.args.get("having") and not node.args.get("group"):
        return _whole_group(context, node, Select(items, sources, condition), env, scope)
    having = _having(context, node, keys, env, scope) if node.args.get("having") else None
    return Select(items, sources, condition, keys, distinct, grouped, having, (env, scope))


def _check_cases(known: list[Condition], node: exp.Select, keys: list[exp.Expr], sources: list[FromItem]) -> None:
    """Refuses a condition beside GROUP BY that differs among the rows of a group."""
    group = node.args.get("group")
    if group is None or group.args.get("all"):
        return
    own = {source.alias for item in sources for source in sources_of(item)}
    for condition in known:
        read = (column(name, alias) for alias, name in read_by(condition) if alias in own)
        if not all(part in keys for part in read):
            refuse("a subquery as a value beside GROUP BY", "it is not a function of the grouping columns")


def _select_list(context: Binding, node: exp.Select, env: Environment, scope: Scope) -> list[Item]:
    """The select list with stars expanded and names bound."""
    items: list[Item] = []
    aliases: dict[str, exp.Expr] = {}
    for expression in node.expressions:
        star = expression.this if isinstance(expression, exp.Column) else expression
        if isinstance(star, exp.Star):
            check_structure(star)
            dropped = [_excluded(context, name) for name in star.args.get("except_") or ()]
            path = None
            if star is not expression:
                parts = (expression.args.get(name) for name in ("catalog", "db", "table"))
                path = tuple(context.fold(part) for part in parts if part)
            shown = scope.star(path, dropped)
            context.starred |= {v.key for v in scope.visible if v.hidden}
            items += [Item(v.label, v.key, v.expression) for v in shown]
            continue
        alias = expression.args["alias"] if isinstance(expression, exp.Alias) else None
        bound = bind_expression(context, expression.this if alias is not None else expression, env, scope)
        if alias is not None:
            label, key = alias.name, context.fold(alias)
            aliases[key] = bound
            if context.dialect.aliases_seen_by == "items":
                scope.aliases[key] = bound
        elif isinstance(expression, exp.Column):
            label, key = expression.name, context.fold(expression.this)
        else:
            label, key = expression.meta.get(LABEL) or expression.sql(context.dialect.name), None
        items.append(Item(label, key, bound))
    if context.dialect.aliases_seen_by == "where":
        scope.aliases.update(aliases)
    return items


def _excluded(context: Binding, name: exp.Expr) -> str:
    """A column that * EXCLUDE leaves out."""
    if isinstance(name, exp.Column) and len(name.parts) > 1:
        refuse(f"* EXCLUDE ({name.sql(context.dialect.name)})", "write t.* EXCLUDE (column)")
    return context.fold(name.this if isinstance(name, exp.Column) else name)


def _group_keys(
    context: Binding, node: exp.Select, items: list[Item], env: Environment, scope: Scope
) -> list[exp.Expr]:
    """The grouping keys. GROUP BY without aggregates is DISTINCT if every item is a function of the keys; otherwise it
    is refused."""
    group = node.args.get("group")
    if group is None:
        return []
    check_structure(group)
    if group.args.get("all"):
        keys = [item.expression for item in items] if node.args.get("having") else []
        if keys and not all(key.find(exp.Column) for key in keys):
            refuse("GROUP BY ALL with HAVING and a constant", "name the grouping columns")
        return keys
    listed = [
        e for part in group.expressions for e in (part.expressions if isinstance(part, exp.Tuple) else [part.unnest()])
    ]
    keys = [_group_key(context, expression, items, env, scope) for expression in listed]
    if not keys:
        refuse("GROUP BY ()", "the empty group exists in every world")
    for item in items:
        if not determined(item.expression, keys):
            refuse(f"{item.label!r} beside GROUP BY", "it is not a function of the grouping columns")
    return keys


def _whole_group(context: Binding, node: exp.Select, query: Select, env: Environment, scope: Scope) -> Select:
    """HAVING without GROUP BY: all rows are one group, which is there in every world, even without rows."""
    own = {source.alias for item in query.sources for source in sources_of(item)}
    found = bind_having(context, node.args["having"].this, env, scope)
    rows = Select([Item("", None, exp.Literal.number(1))], query.sources, query.where)
    where = of_rows(found, rows, correlated=scope.parent is not None and not scope.parent.closed)
    beside = [*(item.expression for item in query.items), *(p.expression for p in grouping_conditions(found))]
    if any(alias in own for expression in beside for alias, _ in read_by(expression)):
        refuse("a column beside HAVING without GROUP BY", "its value differs among the rows of the one group")
    return Select(query.items, [], where)


def _having(context: Binding, node: exp.Select, keys: list[exp.Expr], env: Environment, scope: Scope) -> Condition:
    """HAVING of a SELECT with a GROUP BY; its conditions without aggregates are about the grouping columns."""
    found = bind_having(context, without_shares(node.args["having"].this), env, scope)
    for plain in grouping_conditions(found):
        if not determined(plain.expression, keys):
            refuse(f"HAVING {plain.expression.sql()[:60]}", "it is not a function of the grouping columns")
    return found


def _group_key(context: Binding, expression: exp.Expr, items: list[Item], env: Environment, scope: Scope) -> exp.Expr:
    """A grouping key: a position in the select list, an alias that is not also a column, or an expression."""
    if isinstance(expression, exp.Literal):
        position = int(expression.this) if expression.is_int else 0
        if not 1 <= position <= len(items):
            refuse(f"GROUP BY {expression.sql()}", "the select list has no item at that position")
        return items[position - 1].expression
    if isinstance(expression, exp.Column) and not expression.table:
        key = context.fold(expression.this)
        named = [item for item in items if item.key == key]
        if named and not any(v.key == key for v in scope.visible):
            return named[0].expression
    return bind_expression(context, expression, env, scope)


def determined(expression: exp.Expr, keys: list[exp.Expr]) -> bool:
    """Whether an expression is a function of the keys."""
    if expression in keys:
        return True
    if isinstance(expression, exp.Column | exp.Query):
        return False
    return all(determined(child, keys) for child in children(expression))
