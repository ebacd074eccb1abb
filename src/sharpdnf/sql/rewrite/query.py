"""Query -> lineage query: every row of the result is one clause of one answer.

Each uncertain FROM item adds the number of its row as a plain column. DISTINCT, GROUP BY and UNION become UNION ALL
(a duplicate only adds a clause); EXISTS and IN become joins; OR around them becomes UNION ALL; INTERSECT becomes a
join, so its lineage is a conjunction. Derived tables, CTEs and views become common table expressions, so the same SQL
runs without arrays and without LATERAL. This is the positive relational algebra of Green, Karvounarakis, Tannen,
"Provenance semirings" (PODS 2007), for the semiring of positive Boolean expressions.
"""

from __future__ import annotations

from sqlglot import exp

from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.tree import All, Certain, Item, Output, Plain, Query, Select
from sharpdnf.sql.rewrite.conditions import select_ways
from sharpdnf.sql.rewrite.context import Rewriting, Rewritten, null, select_from
from sharpdnf.sql.rewrite.set_operations import by_value, rewrite_except, rewrite_intersect, rewrite_union

SET_OPERATIONS = {"UNION": rewrite_union, "INTERSECT": rewrite_intersect, "EXCEPT": rewrite_except}


def rewriting(binding: Binding, *, expected: bool = False) -> Rewriting:
    """A fresh start of rewriting a bound query; ``expected`` asks for the identity of result rows as well."""
    return Rewriting(binding, rewrite_query, expected)


def rewrite_query(context: Rewriting, query: Query) -> Rewritten:
    """A bound query with lineage."""
    if isinstance(query, Certain):
        return rewrite_certain(context, query)
    if isinstance(query, Select):
        return rewrite_select(context, query)
    return SET_OPERATIONS[query.kind](context, query)


def rewrite_certain(context: Rewriting, query: Certain) -> Rewritten:
    """A query over certain rows: no lineage, so its rows are there in every world."""
    source = context.source(query.shared)
    columns = [source.column(output) for output in source.columns]
    values = [known or value for known, value in zip(query.constants, columns, strict=True)]
    select = select_from(source, values)
    select.identity = [*source.references(source.identity)]
    return Rewritten([select], query.columns)


def rewrite_select(context: Rewriting, query: Select) -> Rewritten:
    """One SELECT per way in which its conditions can hold."""
    items = list(query.items)
    if context.expected and not query.distinct:
        items += [Item("", None, key) for key in query.keys]
    sources, found, identity = select_ways(context, query)
    width = max(len(way.lineage) for way in found)
    selects = []
    for way in found:
        lineage: list[exp.Expr] = [*way.lineage, *(null() for _ in range(width - len(way.lineage)))]
        where = All(tuple(Plain(condition) for condition in way.conditions)) if way.conditions else None
        own = list(identity) if context.expected else []
        selects.append(Select(items, [*sources, *way.items], where, lineage=lineage, identity=own))
    columns = tuple(Output(item.label, item.key, f"_c{i}") for i, item in enumerate(items))
    rows = Rewritten(selects, columns)
    grouped = query.distinct or query.grouped
    return by_value(context, rows, len(query.items)) if context.expected and grouped else rows
