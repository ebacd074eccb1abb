"""SQLite's affinities: a compound that SQLite may convert or not, as it plans, has no sound answer and is refused."""

from __future__ import annotations

from sqlglot import exp

from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Catalog
from sharpdnf.sql.refusal import refuse

NUMBERS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Predicate, exp.Not, exp.BitwiseAnd, exp.BitwiseOr,
    exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.Connector,
)  # fmt: skip
"""Operators whose value in SQLite is a number or NULL."""


def standing(body: exp.Expr, ctes: list[exp.CTE]) -> exp.Select:
    """SELECT * FROM the body, with the common table expressions in front that it may read."""
    name = "_sharpdnf_d"
    star = exp.select(exp.Star()).from_(quoted(name))
    cte = exp.CTE(this=body.copy(), alias=exp.TableAlias(this=quoted(name)))
    star.set("with_", exp.With(expressions=[*ctes, cte]))
    return star


def check_affinities(
    catalog: Catalog, body: exp.Expr, count: int, ctes: list[exp.CTE], *, distinct: bool = False
) -> None:
    """Refuses a compound of columns with different affinities, unless it is the result of the query itself.

    If SQLite stores its rows before it reads them, it converts them to the affinity of one side; if it does not, it
    leaves them as they are. Which of both is a matter of its plan. And a ``distinct`` UNION of integers and reals keeps
    1 or 1.0, whichever comes first, which differ as text.
    """
    if not catalog.dialect.affinities or not isinstance(body, exp.SetOperation):
        return
    sides: list[exp.Select] = []
    node: exp.Expr = body
    while isinstance(node, exp.SetOperation):
        sides += list(node.expression.find_all(exp.Select))[:1]
        node = node.this
    sides += list(node.find_all(exp.Select))[:1]
    shown = [[item.unalias() for item in side.expressions[:count]] for side in sides]
    if all(items == shown[0] for items in shown):
        return
    kinds = [_value_kinds(catalog, side, items, count, ctes) for side, items in zip(sides, shown, strict=True)]
    for i in range(count):
        found = {kind[i] for kind in kinds} - {"null"}
        mixed = {"any", "text"} & found and {"INTEGER", "REAL"} & found
        if mixed or (found & {"any", "number", "INTEGER", "REAL"} and "TEXT" in found):
            refuse(
                "a UNION of columns with different affinities within a query",
                "SQLite converts the values or not, as it plans; cast them to one type",
            )
        stored = {
            _storage(catalog, side, items[i], kind[i], ctes)
            for side, items, kind in zip(sides, shown, kinds, strict=True)
            if kind[i] in ("number", "INTEGER", "REAL")
        }
        if distinct and len(stored) > 1:
            refuse(
                "a UNION of integers and reals within a query",
                "SQLite keeps 1 or 1.0 as it plans; cast them to one type",
            )


def check_kept_values(catalog: Catalog, node: exp.Select) -> None:
    """Refuses DISTINCT or GROUP BY over a column without a type within a query.

    Such a column may hold 1, 1.0 and others that are equal but differ as text. Which of them is kept differs from world
    to world, while the lineage would show each.
    """
    if not catalog.dialect.affinities or node.find_ancestor(exp.Subquery, exp.CTE) is None:
        return
    shown = [item.unalias() for item in node.expressions]
    columns = [item.copy() for item in shown if isinstance(item, exp.Column) and not item.is_star]
    if not columns:
        return
    probe = exp.Select(expressions=[exp.alias_(column, f"_c{i}", quoted=True) for i, column in enumerate(columns)])
    for part in ("from_", "joins", "with_"):
        if node.args.get(part):
            value = node.args[part]
            probe.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
    text = probe.sql(catalog.dialect.name)
    if catalog.describe(text) is None:  # it reads a common table expression of the query, whose columns were checked
        return
    if "" in catalog.affinities(text, len(columns)):
        refuse(
            "DISTINCT or GROUP BY over a column without a type within a query",
            "SQLite keeps one of equal values such as 1 and 1.0; cast the column to one type",
        )


def _value_kinds(
    catalog: Catalog, side: exp.Select, items: list[exp.Expr], count: int, ctes: list[exp.CTE]
) -> list[str]:
    """The affinity of every column; for expressions, which have none: number, text, null or any."""
    text = standing(side, [cte.copy() for cte in ctes]).sql(catalog.dialect.name)
    kinds = list(catalog.affinities(text, count))
    for i, item in enumerate(items if len(items) == count else ()):
        if kinds[i]:
            continue
        value = _behind(item, side, ctes).unnest()
        if isinstance(value, exp.Null):
            kinds[i] = "null"
        elif isinstance(value, exp.Literal):
            kinds[i] = "text" if value.is_string else "number"
        elif isinstance(value, NUMBERS):
            kinds[i] = "number"
    return [kind or "any" for kind in kinds]


def _behind(item: exp.Expr, side: exp.Select, ctes: list[exp.CTE]) -> exp.Expr:
    """The expression that a column shows which common table expressions only pass on; the item itself otherwise."""
    while isinstance(item, exp.Column):
        start = side.args.get("from_")
        tables = [start.this, *(join.this for join in side.args.get("joins") or ())] if start is not None else []
        names = [found.name for found in tables if isinstance(found, exp.Table) and found.alias == item.table]
        bodies = [cte.this for cte in ctes if cte.alias in names and not cte.args["alias"].columns]
        if len(bodies) != 1 or not isinstance(bodies[0], exp.Select):
            return item
        shown = [entry.unalias() for entry in bodies[0].expressions if entry.alias == item.name]
        if len(shown) != 1:
            return item
        item, side = shown[0], bodies[0]
    return item


def _storage(catalog: Catalog, side: exp.Select, item: exp.Expr, kind: str, ctes: list[exp.CTE]) -> str:
    """INTEGER or REAL, or "number" where an expression may give either; a real operand makes a real result."""
    own = item.unnest()
    value = _behind(own, side, ctes).unnest()
    if kind != "number" or isinstance(value, exp.Predicate | exp.Not | exp.Connector):
        return "INTEGER" if kind == "number" else kind
    if any(not literal.is_int for literal in value.find_all(exp.Literal)):
        return "REAL"
    columns = [found.copy() for found in value.find_all(exp.Column)]
    if value is not own or not columns:  # a column of a common table expression is not in sight here
        return "number" if columns else "INTEGER"
    read = side.copy()
    read.set("expressions", [exp.alias_(found, f"_c{i}", quoted=True) for i, found in enumerate(columns)])
    text = standing(read, [cte.copy() for cte in ctes]).sql(catalog.dialect.name)
    found = set(catalog.affinities(text, len(columns)))
    return "REAL" if "REAL" in found else "INTEGER" if found == {"INTEGER"} else "number"
