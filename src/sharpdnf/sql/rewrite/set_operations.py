"""Set operations: UNION is UNION ALL of lineage rows, INTERSECT a join of both sides' rows, EXCEPT an anti-join."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import bare_value, column
from sharpdnf.sql.bind.query import constant
from sharpdnf.sql.bind.tree import All, Item, Leaf, Plain, Select, SetOperation, Source, write_from
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.context import Rewriting, Rewritten, null, select_from

SIDE = "_side"
"""The column that tells the rows of the two sides apart."""


def rewrite_union(context: Rewriting, node: SetOperation) -> Rewritten:
    """Rows of both sides. In expected values UNION ALL keeps them apart by side, UNION takes equal ones for one."""
    sides = [context.query(context, side) for side in node.sides]
    distinct = not node.all_ or any(side.distinct for side in sides)
    for i, side in enumerate(sides):
        if i and len(side.selects) > 1:  # keeps the order in which types are unified
            sides[i] = reread(context, side)
    apart = context.expected and node.all_
    for tag, side in enumerate(sides if apart else ()):
        for select in side.selects:
            select.identity.append(exp.Literal.number(tag))
    lineage, identity = (max(getattr(side, name) for side in sides) for name in ("lineage", "identity"))
    selects = [select for side in sides for select in side.selects]
    for select in selects:
        select.lineage += [null() for _ in range(lineage - len(select.lineage))]
        ids = select.identity if apart else []
        select.identity = [*ids, *(null() for _ in range(identity - len(ids)))] if apart else []
    rows = Rewritten(selects, sides[0].columns, tuple(part for side in sides for part in side.parts()), distinct)
    return by_value(context, rows) if context.expected and not apart else rows


def reread(context: Rewriting, rows: Rewritten) -> Rewritten:
    """SELECT all columns of the query, as a common table expression."""
    source = context.hoist(rows)
    select = select_from(source)
    select.lineage, select.identity = [*source.references(source.lineage)], [*source.references(source.identity)]
    return Rewritten([select], rows.columns)


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides of INTERSECT or EXCEPT as FROM items."""

    left: Source
    right: Source
    within: list[exp.Expr]
    """Conditions: a row of the left item belongs to the left side."""
    equal: list[exp.Expr]
    """Conditions: a row of the right item belongs to the right side and equals the row of the left item."""
    sides: tuple[Select, ...]


def rewrite_intersect(context: Rewriting, node: SetOperation) -> Rewritten:
    """Rows of both sides joined, so that the lineage is a conjunction."""
    if node.all_ and context.expected:
        refuse("INTERSECT ALL in an expected value", "count DISTINCT rows instead")
    pair = _paired(context, node)
    select = select_from(pair.left)
    select.sources.append(Leaf(pair.right))
    select.lineage = [*pair.left.references(pair.left.lineage), *pair.right.references(pair.right.lineage)]
    select.where = All(tuple(Plain(condition) for condition in [*pair.within, *pair.equal]))
    rows = Rewritten([select], node.columns, pair.sides)
    return by_value(context, rows) if context.expected else rows


def rewrite_except(context: Rewriting, node: SetOperation) -> Rewritten:
    """Rows of the left side that no certain row equals: whether one does is the same in every world."""
    if node.sides[1].reads:
        refuse("EXCEPT over uncertain rows", "it asks that rows be absent; only certain rows may be taken away")
    if node.all_:
        refuse("EXCEPT ALL over uncertain rows", "how many of equal rows are left differs from world to world")
    pair = _paired(context, node)
    select = select_from(pair.left)
    select.lineage = [*pair.left.references(pair.left.lineage)]
    taken = exp.Select(expressions=[exp.Literal.number(1)])
    write_from(taken, [Leaf(pair.right)])
    taken.set("where", exp.Where(this=exp.and_(*pair.equal, copy=False)))
    absent = exp.Not(this=exp.Exists(this=taken))
    select.where = All(tuple(Plain(condition) for condition in [*pair.within, absent]))
    rows = Rewritten([select], node.columns, pair.sides)
    return by_value(context, rows) if context.expected else rows


def _paired(context: Rewriting, node: SetOperation) -> Pair:
    """Both sides as FROM items whose rows can be compared as a set operation compares them.

    SQLite compares values as they are, without their columns' affinities: one UNION ALL of both would convert them.
    """
    if context.binding.tables.collates():
        refuse(f"{node.kind} beside collations", "it would compare by another collation")
    left, right = (context.query(context, side) for side in node.sides)
    if context.dialect.affinities:
        a, b = context.hoist(left), context.hoist(right)
        within, equal = [], []
    else:
        a, b = _tagged(context, left, right)
        within, equal = [_side_is(a, 0)], [_side_is(b, 1)]
    for mine, theirs in zip(a.columns, b.columns, strict=True):
        equal.append(same_value(context.dialect, a.column(mine), b.column(theirs)))
    return Pair(a, b, within, equal, left.parts() + right.parts())


def _tagged(context: Rewriting, left: Rewritten, right: Rewritten) -> tuple[Source, Source]:
    """Both sides through one UNION ALL, which gives them the types a set operation gives, told apart by ``_side``."""
    widths = left.lineage, right.lineage
    selects = []
    for tag, rows in enumerate((left, right)):
        source = context.hoist(rows)
        single = rows.selects[0].items if len(rows.selects) == 1 else None
        values = [
            (constant(single[i].expression) if single else None) or source.column(o)
            for i, o in enumerate(source.columns)
        ]
        select = select_from(source, values)
        select.items.append(Item(SIDE, None, exp.Literal.number(tag)))
        before, after = (0, widths[1]) if tag == 0 else (widths[0], 0)
        mine = source.references(source.lineage)
        select.lineage = [*(null() for _ in range(before)), *mine, *(null() for _ in range(after))]
        selects.append(select)
    both = context.hoist(Rewritten(selects, left.columns))
    a, b = (Source((), context.binding.fresh("t"), left.columns, item=both.item) for _ in range(2))
    a.lineage, b.lineage = both.lineage[: widths[0]], both.lineage[widths[0] :]
    return a, b


def _side_is(source: Source, tag: int) -> exp.Expr:
    """The side's number stands behind the columns."""
    return exp.EQ(this=column(f"_c{len(source.columns)}", source.alias), expression=exp.Literal.number(tag))


def same_value(dialect: Dialect, a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """Equality in which NULL equals NULL, as set operations compare."""
    if dialect.affinities:  # set operations convert nothing
        return exp.Is(this=bare_value(a), expression=bare_value(b))
    return exp.NullSafeEQ(this=a, expression=b)


def by_value(context: Rewriting, rows: Rewritten, shown: int | None = None) -> Rewritten:
    """For expected values: rows with equal columns are one result row, numbered by their rank.

    Columns after those ``shown`` are the grouping columns, which then tell the rows apart.
    """
    source = context.hoist(rows)
    keys = source.columns[shown:] if shown is not None and shown < len(source.columns) else source.columns
    order = exp.Order(expressions=[exp.Ordered(this=source.column(o)) for o in keys])
    source.columns = source.columns[:shown]
    select = select_from(source)
    select.lineage = [*source.references(source.lineage)]
    select.identity = [exp.Window(this=exp.DenseRank(), order=order)]
    return Rewritten([select], source.columns)
