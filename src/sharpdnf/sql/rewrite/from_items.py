"""FROM: uncertain tables become their numbered copies, and every item says which columns hold row numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from sharpdnf.sql.backends.protocol import ROW_ID
from sharpdnf.sql.bind.expressions import refers_outside
from sharpdnf.sql.bind.tree import Condition, FromItem, Join, Leaf, Merged, Plain, Scan, Shared, Source, sources_of
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.context import Rewriting

PAD = "a row that is padded with NULLs exists because an uncertain row is absent"


@dataclass(slots=True)
class Numbered:
    """A FROM item of the rewritten query."""

    item: FromItem
    lineage: list[exp.Expr] = field(default_factory=list)
    identity: list[exp.Expr] = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)
    """Conditions that cannot stay in FROM: those with subqueries over uncertain rows or with names from outside."""


def rewrite_item(context: Rewriting, item: FromItem) -> Numbered:
    """A FROM item with the columns that number its rows."""
    if isinstance(item, Leaf):
        source = _numbered_source(context, item.source)
        lineage, identity = (source.references(names) for names in (source.lineage, source.identity))
        return Numbered(Leaf(source), [*lineage], [*identity])
    if isinstance(item, Merged):
        return _rewrite_merged(context, item)
    return _rewrite_join(context, item)


def _numbered_source(context: Rewriting, source: Source) -> Source:
    origin = source.origin
    if isinstance(origin, Shared):
        found = context.source(origin)
        return replace(source, item=found.item, lineage=found.lineage, identity=found.identity)
    assert isinstance(origin, Scan), "what was merged has no row of its own"
    if origin.uncertain is not None:
        identity = (ROW_ID,) if context.expected else ()
        return replace(source, item=origin.uncertain.source.copy(), lineage=(ROW_ID,), identity=identity)
    source = replace(source, lineage=origin.lineage)
    if context.expected and origin.relation.row_id is not None:
        source.identity = (origin.relation.row_id,)
    elif context.expected:
        context.number(source)
    return source


def _rewrite_merged(context: Rewriting, item: Merged) -> Numbered:
    """The FROM items of the derived table side by side; its WHERE is for the query around it."""
    first, *rest = (rewrite_item(context, inner) for inner in item.select.sources)
    for other in rest:
        joined = Join(first.item, other.item, kind=context.dialect.cross_join)
        first = _together(joined, first, other)
    if item.select.where is not None:
        first.where.append(item.select.where)
    return first


def _together(item: FromItem, left: Numbered, right: Numbered) -> Numbered:
    return Numbered(item, left.lineage + right.lineage, left.identity + right.identity, left.where + right.where)


def _rewrite_join(context: Rewriting, join: Join) -> Numbered:
    """A join; inner ones hand over the conditions that cannot stay."""
    _check_padding(join)
    left, right = (rewrite_item(context, side) for side in (join.left, join.right))
    if any((side is join.right and right.where) or (side is join.left and left.where) for side in join.absent):
        refuse("an outer join over a correlated join", "move the condition to the outer WHERE")
    if join.once:
        right.identity = []
    on, moved = join.on, join.on is not None and not isinstance(join.on, Plain)
    if isinstance(on, Plain) and join.inner:
        moved = refers_outside(on.expression, sources_of(join))
    kind = context.dialect.cross_join if moved else join.kind
    item = Join(left.item, right.item, join.side, kind, None if moved else on)
    if join.side == "RIGHT":  # SQLite 3.40 forgets conditions around a RIGHT JOIN with a subquery that is a join
        item = Join(right.item, left.item, "LEFT", kind, on)
    found = _together(item, left, right)
    if moved and on is not None:
        found.where.append(on)
    return found


def _check_padding(join: Join) -> None:
    """Outer and anti-joins read the absence of rows, so the side that may be absent must be certain."""
    if join.hollow:
        return
    if join.kind == "ANTI" and join.right.reads:
        refuse("an anti-join against uncertain rows", "it asks that rows be absent")
    if join.side in ("LEFT", "FULL") and join.right.reads:
        refuse(f"{join.side} JOIN with an uncertain right side", PAD)
    if join.side in ("RIGHT", "FULL") and join.left.reads:
        refuse(f"{join.side} JOIN with an uncertain left side", PAD)
    if not join.inner and join.on is not None and join.on.reads:
        refuse("a subquery over uncertain rows in an outer join's ON", PAD)
    merged = (isinstance(source.origin, type(None)) for side in join.absent for source in sources_of(side))
    if any(merged):
        refuse("an outer join over a correlated join", "move the condition to the outer WHERE")
