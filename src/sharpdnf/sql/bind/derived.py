"""Derived tables of groups whose aggregates are compared outside: the condition becomes a HAVING inside.

``SELECT k FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) WHERE n >= 2`` asks for the groups with ``HAVING COUNT(*) >=
2``, and a common table expression that is read once is a derived table, too. An aggregate that is also shown, or that
another table is joined by, stays where it is.
"""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from sharpdnf.sql.bind.aggregates import has_aggregate
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.tables import Environment

WHOLE = ("with_", "distinct", "qualify", "limit", "offset")
"""Clauses that work on all rows of a result, so that no condition may be moved past them."""


def having_inside(context: Binding, node: exp.Select, env: Environment) -> exp.Select:
    """The SELECT with the conditions of its WHERE on aggregates of its derived tables moved into these."""
    joins = node.args.get("joins") or []
    inner = not any(join.side or join.method or join.args.get("using") for join in joins)
    inner = inner and all(join.kind in ("", "INNER", "CROSS") for join in joins)
    if node.args.get("where") is None or node.args.get("from_") is None or not inner:
        return node
    env, copy = context.tables.inner(node, env), node.copy()
    _inline(context, copy)
    moved = False
    for item in _items(copy):
        if isinstance(item, exp.Subquery) and context.tables.touches(item.this, env):
            moved = _move(context, copy, item, alone=not joins) or moved
    return copy if moved else node


def _items(node: exp.Select) -> list[exp.Expr]:
    return [node.args["from_"].this, *(join.this for join in node.args.get("joins") or [])]


def _inline(context: Binding, node: exp.Select) -> None:
    """Writes common table expressions that are read once, by FROM itself, as derived tables."""
    with_ = node.args.get("with_")
    if with_ is None or with_.args.get("recursive"):
        return
    read = Counter(_names(context, node))
    ctes = {context.fold(cte.args["alias"].this): cte for cte in with_.expressions}
    for item in _items(node):
        name = context.fold(item.this) if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier) else ""
        alias = item.args.get("alias")
        if name not in ctes or read[name] != 1 or item.args.get("db") or (alias and alias.args.get("columns")):
            continue
        later = list(ctes)[list(ctes).index(name) :]
        if not set(_names(context, ctes[name].this)).isdisjoint(later):
            continue
        named = ctes[name].args["alias"].copy()
        named.set("this", (alias.this if alias else named.this).copy())
        with_.set("expressions", [cte for cte in with_.expressions if cte is not ctes[name]])
        item.replace(exp.Subquery(this=ctes[name].this.copy(), alias=named))
    if not with_.expressions:
        node.set("with_", None)


def _names(context: Binding, node: exp.Expr) -> list[str]:
    """The names of the relations that a query reads, as often as they stand there."""
    return [context.fold(table.this) for table in node.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]


def _move(context: Binding, outer: exp.Select, item: exp.Subquery, *, alone: bool) -> bool:
    """Moves the conditions on aggregates of one derived table; False, and nothing is changed, if that cannot be."""
    values = _values(context, item)
    found = {name for name, value in values.items() if has_aggregate(value)}
    select, alias = item.this, item.args.get("alias")
    own = context.fold(alias.this) if alias is not None and alias.this is not None else ""

    def name_of(column: exp.Column) -> str:
        """The item of the derived table that a column outside means; empty if it means another."""
        if len(column.parts) > 2 or not isinstance(column.this, exp.Identifier):
            return ""
        mine = context.fold(column.args["table"]) == own if column.args.get("table") else alone
        name = context.fold(column.this)
        return name if mine and name in values else ""

    mine: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in _conjuncts(outer.args["where"].this):
        names = {name_of(column) for column in part.find_all(exp.Column)}
        (mine if "" not in names and names & found and part.find(exp.Query) is None else rest).append(part)
    inside = {id(column) for part in [item, *mine] for column in part.find_all(exp.Column)}
    others = [column for column in outer.find_all(exp.Column) if id(column) not in inside]
    shown = any(isinstance(column.this, exp.Star) or context.fold(column.this) in found for column in others)
    if not mine or shown or any(isinstance(part, exp.Star) for part in outer.expressions):
        return False
    kept = [part.transform(lambda n: exp.paren(values[name_of(n)].copy()) if isinstance(n, exp.Column) else n)
            for part in mine]  # fmt: skip
    having = select.args.get("having")
    select.set("having", exp.Having(this=exp.and_(*([having.this] if having is not None else []), *kept)))
    for value in list(select.expressions):
        if has_aggregate(value.unalias()):
            value.unalias().replace(exp.Null())
    outer.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    return True


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND holds together."""
    inner = node.unnest()
    if isinstance(inner, exp.And):
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return [inner]


def _values(context: Binding, item: exp.Subquery) -> dict[str, exp.Expr]:
    """What each column of a derived table of groups is, by its name outside; empty if it is no plain GROUP BY."""
    select, alias = item.this, item.args.get("alias")
    group = select.args.get("group") if isinstance(select, exp.Select) else None
    if group is None or any(select.args.get(name) for name in WHOLE):
        return {}
    rolled = any(value for name, value in group.args.items() if name != "expressions")
    if rolled or any(value.is_star or not value.alias_or_name for value in select.expressions):
        return {}
    if select.find(exp.Window) is not None:
        return {}
    shown = [value.args["alias"] if isinstance(value, exp.Alias) else value.this for value in select.expressions]
    renamed = alias.args.get("columns") or [] if alias is not None else []
    names = [_key(context, label) for label in [*renamed, *shown[len(renamed) :]]]
    values = dict(zip(names, (value.unalias() for value in select.expressions), strict=False))
    aggregated = {_key(context, label) for label, value in zip(shown, values.values(), strict=False)
                  if has_aggregate(value)}  # fmt: skip
    clauses = [group, *(select.args[name] for name in ("having", "order") if select.args.get(name))]
    used = {_key(context, column.this) for clause in clauses for column in clause.find_all(exp.Column)}
    return values if len(values) == len(shown) and not used & aggregated else {}


def _key(context: Binding, name: exp.Expr) -> str:
    """A name as the database compares names."""
    identifier = name if isinstance(name, exp.Identifier) else name.this
    assert isinstance(identifier, exp.Identifier)
    return context.fold(identifier)
