"""Queries that ask for absence -> positive ones: what negates becomes a stage, which the rest reads like a table.

NOT, EXCEPT and outer joins over uncertain rows all come down to one thing: candidate rows, each with conditions that
may be negated. The candidates are numbered in a temporary table (``emit/stages.py``); every condition becomes lineage
queries over that table, which are positive or are made so in the same way. SQL's three truth values are kept by asking
for TRUE and for FALSE apart: NOT x is TRUE iff x is FALSE; x IN q is FALSE iff no row of q compares TRUE or NULL.
An outer join is the inner join and, for either side that it keeps, the rows without a partner, joined to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp

from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import ROW_ID, Relation, Uncertain
from sharpdnf.sql.backends.rows import recopied
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.tree import (
    All,
    AnyOf,
    Condition,
    FromItem,
    Item,
    Join,
    Leaf,
    Member,
    Merged,
    Not,
    Output,
    Plain,
    Query,
    Scan,
    Select,
    SetOperation,
    Shared,
    Source,
    sources_of,
    table,
)
from sharpdnf.sql.emit.sql import complete, emit
from sharpdnf.sql.emit.stages import BASE, Absent, AllOf, Decision, Formula, Found, OneOf, Stage, Step
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.columns import Replacing, read_by
from sharpdnf.sql.rewrite.conditions import compared
from sharpdnf.sql.rewrite.context import Rewriting, Rows
from sharpdnf.sql.rewrite.query import rewriting
from sharpdnf.sql.rewrite.sets import same_value

FALSEHOOD = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))


@dataclass(slots=True)
class Lifting:
    """The state of making one query positive."""

    binding: Binding
    steps: list[Step] = field(default_factory=list)
    made: list[tuple[str, exp.Query]] = field(default_factory=list)
    """The temporary tables of the stages: name, SELECT."""
    shared: dict[str, Shared] = field(default_factory=dict)
    """Shared queries by name, made positive."""

    def rewrite(self, query: Query) -> tuple[Rewriting, Rows]:
        """A positive query with lineage, as a statement of its own."""
        context = rewriting(self.binding)
        context.made = self.made
        return context, context.query(context, query)

    def found(self, query: Query, *, keyed: bool) -> Formula:
        """The rows of a query decide; if ``keyed``, for the candidate whose number is its first column."""
        context, rows = self.rewrite(positive(self, query))
        sql = complete(emit(rows.selects), context.all_ctes()).sql(self.binding.dialect.name)
        return Found(sql, rows.lineage, keyed)


def positive(context: Lifting, query: Query) -> Query:
    """An equal query that negates nothing: it reads the tables of stages where the first one negated."""
    if query.positive:
        return query
    if isinstance(query, SetOperation):
        if query.kind == "EXCEPT" and query.all_:
            refuse("EXCEPT ALL over uncertain rows", "how many of equal rows are left differs from world to world")
        sides = [positive(context, side) for side in query.sides]
        if query.kind == "EXCEPT" and sides[1].reads:
            return _except(context, *sides)
        return SetOperation(query.kind, sides, query.all_)
    assert isinstance(query, Select), "queries over certain rows are positive"
    parts: list[Query] = []
    for sources, conditions in _combined(context, query.sources):
        where = [*conditions, *_conjuncts(query.where)]
        parts.append(_select(context, query, sources, where))
    return parts[0] if len(parts) == 1 else SetOperation("UNION", parts, all_=not (query.distinct or query.grouped))


def _conjuncts(condition: Condition | None) -> list[Condition]:
    if condition is None:
        return []
    if isinstance(condition, All) and not isinstance(condition, AnyOf):
        return [inner for part in condition.parts for inner in _conjuncts(part)]
    return [condition]


def _select(context: Lifting, query: Select, sources: list[FromItem], where: list[Condition]) -> Select:
    """One SELECT over FROM items without absence; the conditions that negate are decided candidate by candidate."""
    rest = [condition for condition in where if not condition.positive or isinstance(condition, Not)]
    plain = [condition for condition in where if condition not in rest]
    if not rest:
        return replace(query, sources=sources, where=All(tuple(plain)) if plain else None)
    own = {source.alias for item in sources for source in sources_of(item)}
    expressions = [*(item.expression for item in query.items), *query.keys]
    used = dict.fromkeys(pair for node in [*expressions, *rest] for pair in read_by(node) if pair[0] in own)
    items = [Item(name, None, column(name, alias)) for alias, name in used]
    kept = Select(items or [Item("", None, exp.Literal.number(1))], sources, All(tuple(plain)) if plain else None)
    name, candidates = _candidates(context, kept)
    here = Replacing({pair: candidates.column(output) for pair, output in zip(used, candidates.columns, strict=False)})
    formulas = tuple(_formula(context, candidates, here.condition(condition), True) for condition in rest)
    context.steps.append(Decision(name, formulas[0] if len(formulas) == 1 else AllOf(formulas)))
    shown = [Item(item.label, item.key, here.expression(item.expression)) for item in query.items]
    keys = [here.expression(key) for key in query.keys]
    return replace(query, items=shown, sources=[Leaf(candidates)], where=None, keys=keys)


def _candidates(context: Lifting, query: Query, *, distinct: bool = False) -> tuple[str, Source]:
    """The rows of a positive query as a stage without a decision: its name, and the FROM item that reads its table.

    If ``distinct``, equal rows are one candidate.
    """
    if context.binding.tables.collates():
        refuse("negation or an aggregate beside collations", "a copy of the rows would lose them")
    passes, rows = context.rewrite(query)
    count = len(rows.columns)
    body = complete(emit(rows.selects), passes.all_ctes())
    inner = exp.alias_(exp.Subquery(this=body), "_r", table=True, quoted=True)
    number: exp.Expr = exp.Window(this=exp.RowNumber())
    if distinct:
        order = [exp.Ordered(this=column(f"_c{i}", "_r")) for i in range(count)]
        number = exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=order))
    first = exp.Sub(this=exp.Var(this=BASE), expression=exp.Literal.number(1))
    numbered = exp.alias_(exp.Add(this=number, expression=exp.paren(first)), ROW_ID, quoted=True)
    select = exp.Select(expressions=[numbered, exp.Column(this=exp.Star(), table=column("_r").this)])
    select.set("from_", exp.From(this=inner))
    name = context.binding.fresh("sharpdnf_k")
    bare = passes.bare_columns(body, count)
    asked = select.copy()
    for base in asked.find_all(exp.Var):
        if base.name == BASE:
            base.replace(exp.Literal.number(0))
    context.made.append((name, asked))
    names = [f"_c{i}" for i in range(count)]
    copy = recopied(table(name), names, bare, ROW_ID)
    if distinct:
        copy = _first_of_each(table(name) if not bare else copy, names)
    relation = Relation((name,), (name,), (*names, ROW_ID))
    columns = tuple(Output(o.label, o.key, names[i]) for i, o in enumerate(rows.columns))
    scan = Scan(relation, Uncertain(relation, copy, ""))
    source = Source((), context.binding.fresh("t"), columns, scan, copy)
    context.steps.append(Stage(name, select.sql(context.binding.dialect.name), rows.lineage))
    return name, source


def _first_of_each(copy: exp.Expr, names: list[str]) -> exp.Expr:
    """One of the rows with the same number."""
    place = exp.Window(this=exp.RowNumber(), partition_by=[column(ROW_ID)])
    columns: list[exp.Expr] = [column(name) for name in [*names, ROW_ID]]
    numbered = exp.select(*columns, exp.alias_(place, "_sharpdnf_place", quoted=True)).from_(copy)
    inner = exp.alias_(exp.Subquery(this=numbered), "_r", table=True, quoted=True)
    first = exp.EQ(this=column("_sharpdnf_place"), expression=exp.Literal.number(1))
    return exp.Subquery(this=exp.select(*(c.copy() for c in columns)).from_(inner).where(first))


# ---- conditions


def _formula(context: Lifting, candidates: Source, condition: Condition, truth: bool) -> Formula:
    """That a condition over the candidates' columns is TRUE (FALSE, if not ``truth``)."""
    if isinstance(condition, Not):
        return _formula(context, candidates, condition.part, not truth)
    if isinstance(condition, AnyOf) and condition.compared:
        if truth and condition.positive:
            return context.found(_for_candidates(candidates, [], [condition]), keyed=True)
        refuse("NOT IN over a correlated UNION", "write x NOT IN (...) AND x NOT IN (...)")
    if isinstance(condition, All):
        parts = tuple(_formula(context, candidates, part, truth) for part in condition.parts)
        return OneOf(parts) if isinstance(condition, AnyOf) == truth else AllOf(parts)
    if isinstance(condition, Plain):
        expression = condition.expression if truth else exp.Not(this=exp.paren(condition.expression.copy()))
        return context.found(_for_candidates(candidates, [], [Plain(expression)]), keyed=True)
    found = _exists(context, candidates, condition if truth else replace(condition, maybe=True))
    return found if truth else Absent(found)


def _exists(context: Lifting, candidates: Source, member: Member) -> Formula:
    """That a row of the subquery compares as asked."""
    if not member.correlated:
        member = replace(member, query=positive(context, member.query))
        if not member.left:
            return context.found(member.query, keyed=False)
        return context.found(_for_candidates(candidates, [], [member]), keyed=True)
    inner = member.query
    assert isinstance(inner, Select), "binding makes no other correlated query"
    ways = compared(context.binding, member, [item.expression for item in inner.items])
    either = AnyOf(tuple(All(tuple(Plain(part) for part in way)) for way in ways)) if member.left else None
    if inner.positive and either is not None:
        return context.found(_for_candidates(candidates, [], [member]), keyed=True)
    conditions = [*([either] if either is not None else []), *_conjuncts(inner.where)]
    return context.found(_for_candidates(candidates, inner.sources, conditions), keyed=True)


def _for_candidates(candidates: Source, sources: Sequence[FromItem], where: Sequence[Condition]) -> Select:
    """The numbers of the candidates for which the conditions hold, with FROM items beside them."""
    scan = candidates.origin
    assert isinstance(scan, Scan)
    known = replace(candidates, origin=Scan(scan.relation))
    number = Item("", None, column(ROW_ID, candidates.alias))
    return Select([number], [Leaf(known), *sources], All(tuple(where)) if where else None)


def _except(context: Lifting, left: Query, right: Query) -> Select:
    """The distinct rows of the left side without an equal row on the right.

    Each side is read through a UNION ALL with no row of the other, which gives it the types of a set operation; SQLite
    compares values as they are.
    """
    if context.binding.tables.collates():
        refuse("EXCEPT beside collations", "it would compare by another collation")
    if not context.binding.dialect.affinities:
        left, right = (
            SetOperation("UNION", [side, _empty(context, other)], all_=True)
            for side, other in ((left, right), (right, left))
        )
    _, mine = _candidates(context, left, distinct=True)
    theirs = _read(context, right)
    equal = [
        Plain(same_value(context.binding.dialect, mine.column(a), theirs.column(b)))
        for a, b in zip(mine.columns, theirs.columns, strict=True)
    ]
    taken = Select([Item("", None, exp.Literal.number(1))], [Leaf(theirs)], All(tuple(equal)))
    shown = [Item(output.label, output.key, mine.column(output)) for output in mine.columns]
    absent = Not(Member(taken, True, "EXCEPT"))
    return _select(context, Select(shown), [Leaf(mine)], [absent])


def _read(context: Lifting, query: Query) -> Source:
    shared = context.binding.share(query)
    return Source((), context.binding.fresh("t"), shared.columns, shared, table(shared.name))


def _empty(context: Lifting, query: Query) -> Select:
    """No row, with the columns of a query."""
    source = _read(context, query)
    shown = [Item(output.label, output.key, source.column(output)) for output in source.columns]
    return Select(shown, [Leaf(source)], All((Plain(FALSEHOOD.copy()),)))


# ---- FROM

Way = tuple[FromItem, list[Condition]]
"""A FROM item without absence, and the conditions under which its rows are some of those of the original."""


def _combined(context: Lifting, sources: Sequence[FromItem]) -> list[tuple[list[FromItem], list[Condition]]]:
    """The ways in which rows of FROM items side by side come about: every result row comes about in one of them."""
    found = []
    for ways in product(*(_ways(context, item) for item in sources)):
        found.append(([item for item, _ in ways], [condition for _, where in ways for condition in where]))
    return found


def _ways(context: Lifting, item: FromItem) -> list[Way]:
    if isinstance(item, Leaf):
        return [(_leaf(context, item), [])]
    if isinstance(item, Merged):
        found = []
        for items, conditions in _combined(context, item.select.sources):
            whole = items[0]
            for other in items[1:]:
                whole = Join(whole, other, kind=context.binding.dialect.cross_join)
            found.append((whole, [*conditions, *_conjuncts(item.select.where)]))
        return found
    if item.positive:
        return [(item, [])]
    lefts, rights = _ways(context, item.left), _ways(context, item.right)
    if item.kind != "ANTI" and (item.inner or item.once):
        return _joined(context, item, lefts, rights)
    if any(isinstance(part, Merged) for side in (item.left, item.right) for part in _parts(side)):
        refuse("an outer join over a correlated join", "move the condition to the outer WHERE")
    if item.kind == "ANTI":
        return _without_partner(context, lefts, item.right, item.on, shown=False)
    uncertain = {side: side.reads or (item.on is not None and item.on.reads) for side in (item.left, item.right)}
    if not any(uncertain[side] for side in item.absent):
        return [
            (replace(item, left=left, right=right), [*a, *b]) for (left, a), (right, b) in product(lefts, rights)
        ]  # fmt: skip
    found = _joined(context, item, lefts, rights)
    if item.side in ("LEFT", "FULL"):
        found += _without_partner(context, lefts, item.right, item.on, shown=True)
    if item.side in ("RIGHT", "FULL"):
        found += _without_partner(context, rights, item.left, item.on, shown=True)
    return found


def _parts(item: FromItem) -> list[FromItem]:
    return [item, *_parts(item.left), *_parts(item.right)] if isinstance(item, Join) else [item]


def _leaf(context: Lifting, leaf: Leaf) -> Leaf:
    """A derived table, a view or a common table expression, made positive once for all who read it."""
    origin = leaf.source.origin
    if leaf.positive or not isinstance(origin, Shared):
        return leaf
    if origin.name not in context.shared:
        assert origin.query is not None
        context.shared[origin.name] = context.binding.share(positive(context, origin.query))
    shared = context.shared[origin.name]
    return Leaf(replace(leaf.source, origin=shared, item=table(shared.name)))


def _joined(context: Lifting, join: Join, lefts: list[Way], rights: list[Way]) -> list[Way]:
    """The pairs of rows for which ON is TRUE."""
    cross = context.binding.dialect.cross_join
    on = [join.on] if join.on is not None else []
    return [
        (Join(left, right, kind=cross, once=join.once), [*a, *b, *on])
        for (left, a), (right, b) in product(lefts, rights)
    ]  # fmt: skip


def _without_partner(
    context: Lifting, kept: list[Way], other: FromItem, on: Condition | None, *, shown: bool
) -> list[Way]:
    """The rows of one side for which no row of the other makes ON TRUE; if ``shown``, with NULLs in its columns."""
    fresh = {source.alias: context.binding.fresh("t") for source in sources_of(other)}
    again = Replacing({}, fresh)
    partner = Select([Item("", None, exp.Literal.number(1))], [again.item(other)], again.condition(on) if on else None)
    absent = Not(Member(partner, True, "EXISTS"))
    found: list[Way] = []
    for item, conditions in kept:
        padded = Join(item, _hollow(context, other), "LEFT", "", Plain(FALSEHOOD.copy()), hollow=True)
        found.append((padded if shown else item, [*conditions, absent]))
    return found


def _hollow(context: Lifting, item: FromItem) -> FromItem:
    """The items of one side for their columns only: no row of them will be joined."""
    if isinstance(item, Leaf):
        return _leaf(context, item)
    assert isinstance(item, Join)
    left, right = _hollow(context, item.left), _hollow(context, item.right)
    return Join(left, right, kind=context.binding.dialect.cross_join)
