"""Conditions as the ways in which they can hold: OR becomes UNION ALL, EXISTS and IN become joins.

AND is TRUE iff both sides are, OR iff one side is, NOT x iff x is FALSE; so conditions split without looking at NULLs,
and a subquery over uncertain rows may stand wherever the condition is monotone in it. Under an odd number of NOTs it
asks that rows be absent, which is no disjunction of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod

from sqlglot import exp

from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.from_clause import typed
from sharpdnf.sql.bind.tree import (
    Aggregated,
    All,
    AnyOf,
    Combined,
    Condition,
    FromItem,
    Item,
    Leaf,
    Member,
    Not,
    Plain,
    Select,
    Truth,
)
from sharpdnf.sql.emit.sql import complete, emit_select
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.context import Rewriting
from sharpdnf.sql.rewrite.from_items import rewrite_item

MAX_BRANCHES = 256


@dataclass(slots=True)
class Way:
    """One way in which a condition can hold: FROM items to add, conditions to test, row numbers to note."""

    items: list[FromItem] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    lineage: list[exp.Expr] = field(default_factory=list)


def combine(left: list[Way], right: list[Way]) -> list[Way]:
    """Both must hold: every pair."""
    _check_size(len(left) * len(right))
    return [Way(a.items + b.items, a.conditions + b.conditions, a.lineage + b.lineage) for a, b in product(left, right)]


def _check_size(count: int) -> None:
    if count > MAX_BRANCHES:
        refuse("a condition with this many ORs around subqueries", f"it splits into more than {MAX_BRANCHES} parts")


def ways(context: Rewriting, condition: Condition, *, positive: bool = True) -> list[Way]:
    """The ways in which a condition (its negation, if not ``positive``) can hold."""
    if isinstance(condition, Plain):
        expression = condition.expression
        return [Way(conditions=[expression if positive else exp.Not(this=exp.paren(expression.copy()))])]
    if isinstance(condition, Not):
        return ways(context, condition.part, positive=not positive)
    if isinstance(condition, All):
        parts = [ways(context, part, positive=positive) for part in condition.parts]
        if isinstance(condition, AnyOf) != positive:
            found = [Way()]
            for part in parts:
                found = combine(found, part)
            return found
        found = [way for part in parts for way in part]
        _check_size(len(found))
        if isinstance(condition, AnyOf) and condition.compared:
            _check_types(context, found, condition.compared)
        return found
    if isinstance(condition, Aggregated | Combined | Truth):
        refuse("an aggregate over uncertain rows in a condition", "it cannot stand here")
    if not positive:
        refuse(
            f"NOT {condition.word} over uncertain rows", "it asks that rows be absent, which is no disjunction of rows"
        )
    return _correlated(context, condition) if condition.correlated else _alone(context, condition)


def _alone(context: Rewriting, member: Member) -> list[Way]:
    """EXISTS or IN as a join with the subquery as it stands."""
    rows = context.query(context, member.query)
    if member.left:
        context.check_same_affinity(rows)
    source = context.hoist(rows)
    lineage: list[exp.Expr] = [*source.references(source.lineage)]
    found = compared(context.binding, member, [source.column(o) for o in source.columns])
    return [Way([Leaf(source)], conditions, lineage) for conditions in found]


def _correlated(context: Rewriting, member: Member) -> list[Way]:
    """A subquery that reads columns of the query around it: its FROM items join that query's."""
    assert isinstance(member.query, Select), "binding makes no other correlated query"
    asked = compared(context.binding, member, [item.expression for item in member.query.items])
    items, found, _ = select_ways(context, member.query)
    return combine([Way(items, conditions) for conditions in asked], found)


def compared(binding: Binding, member: Member, right: list[exp.Expr]) -> list[list[exp.Expr]]:
    """The ways in which a row of IN or ANY compares as asked, each as conditions; for EXISTS one without any.

    A comparison is NULL iff one of its values is; where that counts too, each possibility is a way of its own, so
    that the database can join by the equality.
    """
    columns: list[list[exp.Expr]] = []
    for a, b in zip(member.left, right, strict=False):
        mine, theirs = exp.paren(a.copy()), exp.paren(typed(binding, b.copy()))
        ways: list[exp.Expr] = [member.compare(this=mine, expression=theirs)]
        if member.maybe:
            ways += [exp.Is(this=value.copy(), expression=exp.Null()) for value in (theirs, mine)]
        columns.append(ways)
    _check_size(prod(len(ways) for ways in columns))
    return [list(conditions) for conditions in product(*columns)]


def select_ways(context: Rewriting, select: Select) -> tuple[list[FromItem], list[Way], list[exp.Expr]]:
    """The FROM items of a SELECT, the ways in which its joins and WHERE can hold, and what tells its rows apart."""
    numbered = [rewrite_item(context, item) for item in select.sources]
    found = [Way(lineage=[column for item in numbered for column in item.lineage])]
    conditions = [condition for item in numbered for condition in item.where]
    for condition in [*conditions, *([select.where] if select.where is not None else [])]:
        found = combine(found, ways(context, condition))
    return [item.item for item in numbered], found, [column for item in numbered for column in item.identity]


def _check_types(context: Rewriting, found: list[Way], count: int) -> None:
    """Refuses membership in a correlated UNION whose sides may differ in type: it compares in a common one."""
    types = {_compared_types(context, way, count) for way in found}
    if len(types) > 1 or None in types:
        refuse(
            "a correlated UNION under IN whose sides may differ in type",
            "it compares after conversion to a common one; write x IN (...) OR x IN (...)",
        )


def _compared_types(context: Rewriting, way: Way, count: int) -> tuple[str, ...] | None:
    """The types of what ``compared`` put on the right, which stands first; None if the database cannot tell."""
    if not way.items:
        return None
    items = [Item("", None, condition.expression) for condition in way.conditions[:count]]
    sql = complete(emit_select(Select(items, way.items)), context.known_tables()).sql(context.dialect.name)
    return context.binding.catalog.types(sql)
