"""Queries that ask for absence -> positive ones: what negates becomes a stage, which the rest reads like a table.

NOT, EXCEPT, outer joins and aggregates over uncertain rows all come down to one thing: candidate rows, each with
conditions that may be negated. The candidates are numbered in a temporary table (``emit/stages.py``); every condition
becomes lineage queries over that table, which are positive or are made so in the same way. SQL's three truth values are
kept by asking for TRUE and for FALSE apart: NOT x is TRUE iff x is FALSE; x IN q is FALSE iff no row of q compares TRUE
or NULL.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import ROW_ID
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.substitution import Replacing, read_by
from sharpdnf.sql.bind.tree import (
    Aggregated,
    All,
    AnyOf,
    Call,
    Certain,
    Combined,
    Condition,
    FromItem,
    Item,
    Leaf,
    Member,
    Not,
    Plain,
    Query,
    Select,
    SetOperation,
    Source,
    Truth,
    sources_of,
)
from sharpdnf.sql.emit.stages import Absent, AllOf, Decision, Formula, OneOf
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.aggregates import having, scalar
from sharpdnf.sql.rewrite.conditions import compared
from sharpdnf.sql.rewrite.lifting import Lifting, all_of, certain_rows, conjuncts, for_candidates
from sharpdnf.sql.rewrite.outer import FALSEHOOD, ways
from sharpdnf.sql.rewrite.set_operations import same_value


def lifting(binding: Binding) -> Lifting:
    """A fresh start of making a query positive."""
    return Lifting(binding, positive, _formula)


def positive(context: Lifting, query: Query, bag: bool = False) -> Query:
    """An equal query that negates nothing: it reads the tables of stages where the first one negated.

    As a ``bag`` every row of the result is one clause; else a row is there if one of its clauses is.
    """
    if isinstance(query, Certain) or (query.positive and not bag):
        return query
    if isinstance(query, SetOperation):
        return _set_operation(context, query, bag)
    if bag and (query.distinct or query.grouped):
        return _distinct(context, query)
    if query.having is not None:
        return having(context, query)
    parts: list[Query] = []
    for sources, conditions in ways(context, query.sources, bag=bag):
        parts.append(_select(context, query, sources, [*conditions, *conjuncts(query.where)], bag))
    return parts[0] if len(parts) == 1 else SetOperation("UNION", parts, all_=not (query.distinct or query.grouped))


def _set_operation(context: Lifting, query: SetOperation, bag: bool) -> Query:
    if query.all_ and bag and query.kind != "UNION":
        refuse(f"{query.kind} ALL over uncertain rows", "how many of equal rows there are differs from world to world")
    if bag and not query.all_:
        return _one_of_each(context, positive(context, query), len(query.columns))
    if query.all_ and query.kind == "EXCEPT":
        return _except(context, *query.sides, all_=True)
    sides = [positive(context, side, bag) for side in query.sides]
    if query.kind == "EXCEPT" and sides[1].reads:
        return _except(context, *sides)
    return SetOperation(query.kind, sides, query.all_)


def _distinct(context: Lifting, query: Select) -> Query:
    """DISTINCT or GROUP BY as a bag: one row for each value, or for each group."""
    if query.having is not None:
        found: Query = having(context, query)
        return _one_of_each(context, found, len(query.items)) if query.distinct else found
    by = [] if query.distinct else query.keys
    shown = replace(query, items=[*(Item("", None, key) for key in by), *query.items], distinct=True)
    return _one_of_each(context, positive(context, shown), len(by) or len(query.items), skipped=len(by))


def _one_of_each(context: Lifting, query: Query, by: int, skipped: int = 0) -> Select:
    """The rows of a query without those that agree in the first columns; without the columns that are ``skipped``."""
    _, source, _ = context.candidates(query, by=by)
    shown = [Item(output.label, output.key, source.column(output)) for output in source.columns[skipped:]]
    return Select(shown, [Leaf(source)])


def _select(context: Lifting, query: Select, sources: list[FromItem], where: list[Condition], bag: bool) -> Select:
    """One SELECT over FROM items without absence; the other conditions are decided candidate by candidate."""
    plain: list[Condition] = []
    rest: list[Condition] = []
    for condition in where:
        stays = isinstance(condition, Plain) or (condition.positive and not bag and not isinstance(condition, Not))
        (plain if stays else rest).append(condition)
    if not rest:
        return replace(query, sources=sources, where=all_of(plain))
    own = {source.alias for item in sources for source in sources_of(item)}
    expressions = [*(item.expression for item in query.items), *query.keys]
    used = dict.fromkeys(pair for node in [*expressions, *rest] for pair in read_by(node) if pair[0] in own)
    items = [Item(name, None, column(name, alias)) for alias, name in used]
    kept = Select(items or [Item("", None, exp.Literal.number(1))], sources, all_of(plain))
    name, candidates, _ = context.candidates(kept)
    here = Replacing({pair: candidates.column(output) for pair, output in zip(used, candidates.columns, strict=False)})
    formulas = tuple(_formula(context, candidates, here.condition(condition), True) for condition in rest)
    context.steps.append(Decision(name, formulas[0] if len(formulas) == 1 else AllOf(formulas)))
    shown = [Item(item.label, item.key, here.expression(item.expression)) for item in query.items]
    keys = [here.expression(key) for key in query.keys]
    return replace(query, items=shown, sources=[Leaf(candidates)], where=None, keys=keys)


# ---- conditions


def _formula(context: Lifting, candidates: Source, condition: Condition, truth: bool) -> Formula:
    """That a condition over the candidates' columns is TRUE (FALSE, if not ``truth``)."""
    if isinstance(condition, Not):
        return _formula(context, candidates, condition.part, not truth)
    if isinstance(condition, Truth):
        has = _formula(context, candidates, condition.part, condition.value)
        return has if truth else Absent(has)
    if isinstance(condition, AnyOf) and condition.compared:
        if truth and condition.positive:
            return context.found(for_candidates(candidates, [], [condition]), keyed=True)
        refuse("NOT IN over a correlated UNION", "write x NOT IN (...) AND x NOT IN (...)")
    if isinstance(condition, All):
        parts = tuple(_formula(context, candidates, part, truth) for part in condition.parts)
        return OneOf(parts) if isinstance(condition, AnyOf) == truth else AllOf(parts)
    if isinstance(condition, Aggregated | Combined):
        return scalar(context, candidates, condition, truth)
    if isinstance(condition, Plain):
        expression = condition.expression if truth else exp.Not(this=exp.paren(condition.expression.copy()))
        return context.found(for_candidates(candidates, [], [Plain(expression)]), keyed=True)
    found = _exists(context, candidates, condition if truth else replace(condition, maybe=True))
    return found if truth else Absent(found)


def _exists(context: Lifting, candidates: Source, member: Member) -> Formula:
    """That a row of the subquery compares as asked."""
    if not member.correlated:
        member = replace(member, query=positive(context, member.query))
        if not member.left:
            return context.found(member.query, keyed=False)
        return context.found(for_candidates(candidates, [], [member]), keyed=True)
    inner = member.query
    assert isinstance(inner, Select), "binding makes no other correlated query"
    if inner.having is not None:
        return context.found(_group_of_each(context, candidates, member, inner), keyed=True)
    if inner.positive and member.left:
        return context.found(for_candidates(candidates, [], [member]), keyed=True)
    conditions = conjuncts(inner.where)
    if member.left:
        found = compared(context.binding, member, [item.expression for item in inner.items])
        conditions.append(AnyOf(tuple(All(tuple(Plain(part) for part in way)) for way in found)))
    return context.found(for_candidates(candidates, inner.sources, conditions), keyed=True)


def _group_of_each(context: Lifting, candidates: Source, member: Member, inner: Select) -> Select:
    """The groups of a correlated subquery with HAVING, for each candidate: its number is one more grouping column."""
    assert inner.having is not None
    number = column(ROW_ID, candidates.alias)
    read: list[exp.Expr | Select] = [*member.left, inner]
    known = dict.fromkeys(pair for node in read for pair in read_by(node) if pair[0] == candidates.alias)
    keys = [number, *inner.keys, *(column(name, alias) for alias, name in known)]
    having = conjuncts(inner.having)
    if member.left:
        found = compared(context.binding, member, [item.expression for item in inner.items])
        having.append(AnyOf(tuple(All(tuple(Plain(part) for part in way)) for way in found)))
    sources = [Leaf(certain_rows(candidates)), *inner.sources]
    return Select([Item("", None, number)], sources, inner.where, keys, grouped=True, having=all_of(having))


# ---- EXCEPT


def _except(context: Lifting, left: Query, right: Query, *, all_: bool = False) -> Select:
    """The distinct rows of the left side without an equal row on the right; of EXCEPT ALL, those with fewer of them.

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
    _, mine, _ = context.candidates(positive(context, left), by=len(left.columns))

    def equal_to(query: Query) -> Select:
        theirs = context.read(query)
        equal = (
            Plain(same_value(context.binding.dialect, mine.column(a), theirs.column(b)))
            for a, b in zip(mine.columns, theirs.columns, strict=True)
        )
        return Select([Item("", None, exp.Literal.number(1))], [Leaf(theirs)], All(tuple(equal)))

    asked: Condition = Not(Member(equal_to(right), True, "EXCEPT"))
    if all_:
        calls, both = (Call("count", None),) * 2, (equal_to(left), equal_to(right))
        asked = Combined(calls, (), exp.GT, column("_agg0"), column("_agg1"), both, correlated=True)
    shown = [Item(output.label, output.key, mine.column(output)) for output in mine.columns]
    return _select(context, Select(shown), [Leaf(mine)], [asked], False)


def _empty(context: Lifting, query: Query) -> Select:
    """No row, with the columns of a query; a constant stays one, as it takes its type from the other side."""
    never = Plain(FALSEHOOD.copy())
    if isinstance(query, Select):
        return replace(query, where=All((*conjuncts(query.where), never)))
    source = context.read(query)
    constants = query.constants if isinstance(query, Certain) else [None] * len(source.columns)
    pairs = zip(source.columns, constants, strict=True)
    shown = [Item(o.label, o.key, known or source.column(o)) for o, known in pairs]
    return Select(shown, [Leaf(source)], All((never,)))
