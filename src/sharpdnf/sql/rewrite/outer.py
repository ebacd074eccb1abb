"""FROM items that ask for absence: an outer join is the inner join and the rows of a side that have no partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from sqlglot import exp

from sharpdnf.sql.bind.expressions import refers_outside
from sharpdnf.sql.bind.substitution import Replacing
from sharpdnf.sql.bind.tree import (
    Condition,
    FromItem,
    Item,
    Join,
    Leaf,
    Member,
    Merged,
    Not,
    Plain,
    Select,
    Shared,
    sources_of,
    table,
)
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.lifting import Lifting, conjuncts

FALSEHOOD = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))
Case = tuple[FromItem, list[Condition]]
"""A FROM item without absence, and the conditions under which its rows are some of those of the original."""


def ways(context: Lifting, sources: Sequence[FromItem], *, bag: bool) -> list[tuple[list[FromItem], list[Condition]]]:
    """The ways in which rows of FROM items side by side come about: every result row comes about in one of them.

    In a ``bag`` every row is one clause, so a partner that only has to exist becomes a condition.
    """
    found = []
    for chosen in product(*(_ways(context, item, bag) for item in sources)):
        found.append(([item for item, _ in chosen], [condition for _, where in chosen for condition in where]))
    return found


def _ways(context: Lifting, item: FromItem, bag: bool) -> list[Case]:
    if isinstance(item, Leaf):
        return [(_leaf(context, item, bag), [])]
    if isinstance(item, Merged):
        assert not bag, "a derived table is merged only where its rows may be repeated"
        return _merged(context, item)
    if item.positive and not bag:
        return [(item, [])]
    lefts, semi = _ways(context, item.left, bag), item.once and bool(item.right.reads)
    if item.kind == "ANTI" and (item.right.reads or (item.on is not None and item.on.reads)):
        return _without_partner(context, lefts, item.right, item.on, shown=False)
    if bag and semi:
        partner = _partner(context, item.right, item.on)
        return [(left, [*where, partner]) for left, where in lefts]
    rights = _ways(context, item.right, bag)
    if item.inner or semi:
        return _joined(context, item, lefts, rights)
    return _outer(context, item, lefts, rights)


def _outer(context: Lifting, item: Join, lefts: list[Case], rights: list[Case]) -> list[Case]:
    if any(isinstance(part, Merged) for side in (item.left, item.right) for part in _parts(side)):
        refuse("an outer join over a correlated join", "move the condition to the outer WHERE")
    uncertain = item.on is not None and bool(item.on.reads)
    if not uncertain and not any(side.reads for side in item.absent):
        if isinstance(item.on, Plain) and refers_outside(item.on.expression, sources_of(item)):
            refuse("an outer join whose ON refers to the query around it", "move the condition to the outer WHERE")
        return [(replace(item, left=left, right=right), [*a, *b]) for (left, a), (right, b) in product(lefts, rights)]
    found = _joined(context, item, lefts, rights)
    if item.side in ("LEFT", "FULL"):
        found += _without_partner(context, lefts, item.right, item.on, shown=True)
    if item.side in ("RIGHT", "FULL"):
        found += _without_partner(context, rights, item.left, item.on, shown=True)
    return found


def _merged(context: Lifting, item: Merged) -> list[Case]:
    """The FROM items of a merged derived table side by side, with its WHERE."""
    found = []
    for items, conditions in ways(context, item.select.sources, bag=False):
        whole = items[0]
        for other in items[1:]:
            whole = Join(whole, other, kind=context.binding.dialect.cross_join)
        found.append((whole, [*conditions, *conjuncts(item.select.where)]))
    return found


def _parts(item: FromItem) -> list[FromItem]:
    return [item, *_parts(item.left), *_parts(item.right)] if isinstance(item, Join) else [item]


def _leaf(context: Lifting, leaf: Leaf, bag: bool) -> Leaf:
    """A derived table, a view or a common table expression, made positive once for all who read it."""
    origin = leaf.source.origin
    if not isinstance(origin, Shared) or origin.query is None or (origin.positive and not bag):
        return leaf
    if (origin.name, bag) not in context.shared:
        context.shared[origin.name, bag] = context.binding.share(context.query(context, origin.query, bag))
    shared = context.shared[origin.name, bag]
    return Leaf(replace(leaf.source, origin=shared, item=table(shared.name)))


def _joined(context: Lifting, join: Join, lefts: list[Case], rights: list[Case]) -> list[Case]:
    """The pairs of rows for which ON is TRUE."""
    kind = context.binding.dialect.cross_join
    on = [join.on] if join.on is not None else []
    return [
        (Join(left, right, kind=kind, once=join.once), [*a, *b, *on])
        for (left, a), (right, b) in product(lefts, rights)
    ]


def _partner(context: Lifting, other: FromItem, on: Condition | None) -> Member:
    """That a row of the other side makes ON TRUE; its FROM items get other aliases."""
    fresh = {source.alias: context.binding.fresh("t") for source in sources_of(other)}
    again = Replacing({}, fresh)
    where = again.condition(on) if on is not None else None
    return Member(Select([Item("", None, exp.Literal.number(1))], [again.item(other)], where), True, "EXISTS")


def _without_partner(
    context: Lifting, kept: list[Case], other: FromItem, on: Condition | None, *, shown: bool
) -> list[Case]:
    """The rows of one side for which no row of the other makes ON TRUE; if ``shown``, with NULLs in its columns."""
    found: list[Case] = []
    for item, conditions in kept:
        hollow = _hollow(context, other) if shown else None
        padded = item if hollow is None else Join(item, hollow, "LEFT", "", Plain(FALSEHOOD.copy()), hollow=True)
        found.append((padded, [*conditions, Not(_partner(context, other, on))]))
    return found


def _hollow(context: Lifting, item: FromItem) -> FromItem:
    """The items of one side for their columns only: no row of them will be joined."""
    if isinstance(item, Leaf):
        return _leaf(context, item, False)
    assert isinstance(item, Join), "merged items are refused before"
    left, right = _hollow(context, item.left), _hollow(context, item.right)
    return Join(left, right, kind=context.binding.dialect.cross_join)
