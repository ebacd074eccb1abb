"""Conditions over aggregates -> formulas over the rows aggregated.

MIN, MAX, bool_or and bool_and come down to whether rows are there: MAX(x) > c is TRUE iff a row with x > c is there,
and FALSE iff one with x <= c is there and none with x > c. COUNT compares how many rows are there, COUNT(DISTINCT x)
how many values. The rows are a bag: each has one conjunction of events. They stand in a temporary table, in ``_c0`` or
as its own number the candidate that they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sharpdnf.sql.backends.names import bare_value, column
from sharpdnf.sql.backends.protocol import ROW_ID
from sharpdnf.sql.bind.aggregates import MIRRORED
from sharpdnf.sql.bind.conditions import NEGATED
from sharpdnf.sql.bind.substitution import Replacing, read_by
from sharpdnf.sql.bind.tree import (
    Aggregated,
    All,
    Call,
    Combined,
    Condition,
    FromItem,
    Item,
    Leaf,
    Not,
    Output,
    Plain,
    Select,
    Source,
    sources_of,
)
from sharpdnf.sql.emit.stages import Absent, AllOf, Counted, Decision, Formula, Found, OneOf, Sign, Single, Tallied
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.lifting import Lifting, certain_rows, for_candidates

SIGNS: dict[type[exp.Binary], Sign] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}


@dataclass(frozen=True, slots=True)
class Group:
    """The rows that an aggregate reads."""

    context: Lifting
    rows: Source
    """The temporary table, row by row, with lineage."""
    number: exp.Expr | None
    """The candidate that a row belongs to; None if all rows belong to all."""
    argument: exp.Expr | None
    other: exp.Expr
    """What the aggregate is compared with, as a column of the rows or a constant."""

    def select(self, *conditions: exp.Expr | None) -> Select:
        """The rows for which the conditions hold, by candidate."""
        where = tuple(Plain(condition) for condition in conditions if condition is not None)
        number = Item("", None, self.number if self.number is not None else exp.Literal.number(0))
        return Select([number], [Leaf(self.rows)], All(where) if where else None)

    def single(self) -> Formula:
        """That there is one row at most, whatever the world: else the query has no lineage."""
        sql, lineage = self.context.counting_statement([(self.select(), self.rows)])
        return Single(sql, lineage, self.number is not None)

    def exists(self, condition: exp.Expr) -> Formula:
        """That a row is there for which the condition holds."""
        return self.context.found(self.select(condition), keyed=self.number is not None)

    def compared(self, kind: type[exp.Binary], *, bare: bool = True) -> Formula:
        """That a row is there whose value compares as asked."""
        assert self.argument is not None
        value = self.argument.copy()
        if bare and self.context.binding.dialect.affinities:  # the value of an aggregate has no affinity
            value = bare_value(value)
        return self.exists(kind(this=exp.paren(value), expression=exp.paren(self.other.copy())))


def having(context: Lifting, query: Select) -> Select:
    """A SELECT with HAVING: the groups are candidates, their rows the rows of one temporary table."""
    assert query.having is not None
    calls = [call for node in _compared(query.having) for call in _calls(node)]
    arguments = [call.argument for call in calls if call.argument is not None]
    items = [Item("", None, part) for part in [*query.keys, *arguments]]
    inner = Select(items, query.sources, query.where)
    name, groups, raw = context.candidates(context.query(context, inner, True), by=len(query.keys))
    raw = replace(raw, alias=context.binding.fresh("t"))
    keys = list(zip(query.keys, groups.columns, strict=False))
    by_key = {(key.table, key.name): groups.column(o) for key, o in keys if isinstance(key, exp.Column)}
    own = {source.alias for item in query.sources for source in sources_of(item)}
    given = [call for call in calls if call.argument is not None]
    places = {id(call): output for call, output in zip(given, groups.columns[len(query.keys) :], strict=True)}

    def decide(condition: Condition, truth: bool) -> Formula:
        if isinstance(condition, Not):
            return decide(condition.part, not truth)
        if isinstance(condition, All):
            parts = tuple(decide(part, truth) for part in condition.parts)
            return OneOf(parts) if (type(condition) is not All) == truth else AllOf(parts)
        if isinstance(condition, Plain):
            plain = Plain(_on_keys(condition.expression, keys, groups))
            return context.formula(context, groups, plain, truth)
        if not _calls(condition):
            return context.formula(context, groups, _over_groups(condition, by_key, own), truth)
        if isinstance(condition, Combined):
            mine = [(i, raw.column(places[id(call)]) if id(call) in places else None)
                    for i, call in enumerate(condition.calls) if condition.queries[i] is None]  # fmt: skip
            others = tuple(_on_keys(other, keys, groups) for other in condition.others)
            bare = tuple(call if condition.queries[i] is not None else replace(call, argument=None)
                         for i, call in enumerate(condition.calls))  # fmt: skip
            again = _over_groups(replace(condition, calls=bare, others=()), by_key, own)
            assert isinstance(again, Combined)
            again = replace(again, others=others)
            reads = [Read(raw, column(ROW_ID, raw.alias), mine), *_reads(context, groups, again, keyed=True)]
            return _tallied(context, again, reads, groups, truth)
        assert isinstance(condition, Aggregated)
        other = _on_keys(condition.other, keys, raw)
        argument = raw.column(places[id(condition.call)]) if id(condition.call) in places else None
        group = Group(context, raw, column(ROW_ID, raw.alias), argument, other)
        number = _threshold(context, condition, groups, _on_keys(condition.other, keys, groups))
        return _formula(group, condition.call, condition.compare, number, truth)

    formula = decide(query.having, True)
    alone = not query.having.reads and _needs_a_row(formula)
    context.steps.append(Decision(name, formula, alone))
    if alone:
        context.count_only(name)
    shown = [Item(item.label, item.key, _on_keys(item.expression, keys, groups)) for item in query.items]
    return Select(shown, [Leaf(groups)], distinct=query.distinct)


def _needs_a_row(formula: Formula) -> bool:
    """Whether a formula over the rows of a group can hold only if one of them is there."""
    if isinstance(formula, Found):
        return formula.lineage > 0
    if isinstance(formula, Counted):
        if formula.negated or formula.compare not in (">=", ">", "=") or formula.number[:1] not in "0123456789":
            return False
        return float(formula.number) > 0.0 or formula.compare == ">"
    if isinstance(formula, Tallied):  # the others are NULL without rows, and so is the comparison
        return any(kind != "count" for kind in formula.kinds)
    if isinstance(formula, Absent | Single):
        return False
    return (any if isinstance(formula, AllOf) else all)(_needs_a_row(part) for part in formula.parts)


def _calls(node: Condition) -> list[Call]:
    """The aggregates of the group itself that a comparison reads, not those of subqueries."""
    if isinstance(node, Aggregated):
        return [node.call] if node.query is None else []
    pairs = zip(node.calls, node.queries, strict=True) if isinstance(node, Combined) else ()
    return [call for call, query in pairs if query is None]


def _compared(condition: Condition) -> list[Condition]:
    """The comparisons that a condition is made of."""
    if isinstance(condition, Not):
        return _compared(condition.part)
    if isinstance(condition, All):
        return [found for part in condition.parts for found in _compared(part)]
    return [condition]


def _over_groups(condition: Condition, by_key: Mapping[tuple[str, str], exp.Expr], own: set[str]) -> Condition:
    """A condition with subqueries over the grouping columns, as one over the columns of the groups."""
    found = Replacing(by_key).condition(condition)
    if any(alias in own for alias, _ in read_by(found)):
        refuse("a subquery in HAVING that reads columns beside the grouping columns", "group by them, too")
    return found


def _on_keys(node: exp.Expr, keys: Sequence[tuple[exp.Expr, Output]], source: Source) -> exp.Expr:
    """An expression of the grouping columns, over the columns of the groups."""
    for key, output in keys:
        if node == key:
            return source.column(output)
    if isinstance(node, exp.Column):
        refuse(f"{node.name!r} beside GROUP BY", "it is not a function of the grouping columns")
    copy = node.copy()
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(name, _on_keys(value, keys, source))
        elif isinstance(value, list):
            copy.set(name, [_on_keys(v, keys, source) if isinstance(v, exp.Expr) else v for v in value])
    return copy


def scalar(context: Lifting, candidates: Source, condition: Aggregated | Combined, truth: bool) -> Formula:
    """A comparison with subqueries that are one value each, for each candidate."""
    if isinstance(condition, Combined):
        keyed = condition.correlated or any(True for other in condition.others for _ in read_by(other))
        return _tallied(context, condition, _reads(context, candidates, condition, keyed=keyed), candidates, truth)
    assert condition.query is not None
    keyed = condition.correlated or any(True for _ in read_by(condition.other))
    call = condition.call
    items: list[exp.Expr] = [column(ROW_ID, candidates.alias) if keyed else exp.Literal.number(0)]
    items += [call.argument] if call.argument is not None else []
    constant = not any(True for _ in read_by(condition.other))
    items += [] if constant else [condition.other]
    beside = [Leaf(certain_rows(candidates))] if keyed else []
    inner = Select([Item("", None, item) for item in items], [*beside, *condition.query.sources], condition.query.where)
    rows = context.gathered(context.query(context, inner, True))
    value = rows.column(rows.columns[1]) if call.argument is not None else None
    other = condition.other if constant else rows.column(rows.columns[-1])
    group = Group(context, rows, rows.column(rows.columns[0]) if keyed else None, value, other)
    number = _threshold(context, condition, candidates, condition.other)
    return _formula(group, call, condition.compare, number, truth)


@dataclass(frozen=True, slots=True)
class Read:
    """A temporary table of rows that aggregates of a ``Combined`` read."""

    rows: Source
    number: exp.Expr | None
    """The candidate that a row belongs to; None if all rows belong to all."""
    values: list[tuple[int, exp.Expr | None]]
    """(place of the aggregate, its argument as a column of the rows)"""


def _reads(context: Lifting, candidates: Source, condition: Combined, *, keyed: bool) -> list[Read]:
    """The rows of the subqueries, each once."""
    found = []
    for query in {id(query): query for query in condition.queries if query is not None}.values():
        mine = [i for i, other in enumerate(condition.queries) if other is query]
        values = [condition.calls[i].argument or exp.Literal.number(1) for i in mine]
        number = column(ROW_ID, candidates.alias) if keyed else exp.Literal.number(0)
        beside: list[FromItem] = [Leaf(certain_rows(candidates))] if keyed else []
        shown = [Item("", None, part) for part in [number, *values]]
        rows = context.gathered(context.query(context, Select(shown, [*beside, *query.sources], query.where), True))
        columns = [rows.column(output) for output in rows.columns]
        known = [None if condition.calls[i].argument is None else value
                 for i, value in zip(mine, columns[1:], strict=True)]  # fmt: skip
        found.append(Read(rows, columns[0] if keyed else None, list(zip(mine, known, strict=True))))
    return found


def _tallied(
    context: Lifting, condition: Combined, reads: Sequence[Read], candidates: Source, truth: bool
) -> Formula:  # fmt: skip
    """Aggregates of the rows, by candidate, compared as the condition says."""
    selects, once = [], []
    nothing = [exp.Literal.number(0)] * 2
    for read in reads:
        values = dict(read.values)
        number = read.number if read.number is not None else exp.Literal.number(0)
        _check_numbers(context, read, condition)
        items = [number]
        for i, call in enumerate(condition.calls):
            value = values.get(i)
            here = [exp.Literal.number(1)] * 2 if value is None else _known(context, value)[::-1]
            items += here if i in values else nothing
            if call.kind == "only" and i in values:
                once.append(Group(context, read.rows, read.number, value, exp.Null()).single())
        selects.append((Select([Item("", None, item.copy()) for item in items], [Leaf(read.rows)]), read.rows))
    sql, lineage = context.counting_statement(selects)
    known = for_candidates(candidates, [], [])
    known.items += [Item("", None, part) for other in condition.others for part in _known(context, other)]
    kinds = tuple("max" if call.kind == "only" else call.kind for call in condition.calls)
    keyed = all(read.number is not None for read in reads)
    tallied = Tallied(
        sql, lineage, kinds, context.statement(known)[0], len(condition.others), condition.compare, condition.left,
        condition.right, truth, keyed,
    )  # fmt: skip
    return AllOf((*once, tallied)) if once else tallied


def _check_numbers(context: Lifting, read: Read, condition: Combined) -> None:
    """Refuses arithmetic over what is no number, or over numbers whose last digits a double would lose."""
    dialect = context.binding.dialect
    asked = [(condition.calls[i].kind, value) for i, value in read.values if value is not None]
    asked = [(kind, value) for kind, value in asked if kind != "count"]
    if not asked or not dialect.numbers:
        return
    types = context.types(Select([Item("", None, value) for _, value in asked], [Leaf(read.rows)]))
    for (kind, _), name in zip(asked, types or ("",) * len(asked), strict=True):
        allowed = dialect.numbers + (dialect.added if kind in ("sum", "avg") else ())
        if name.partition("(")[0] not in allowed:
            refuse(f"{kind.upper()} of such values among several aggregates", "compare one aggregate with a value")


def _known(context: Lifting, value: exp.Expr) -> list[exp.Expr]:
    """(1 if the value is a number, 0 if it is NULL, -1 if it is a text; the number)."""
    nothing = exp.Is(this=exp.paren(value.copy()), expression=exp.Null())
    flag = exp.Case(ifs=[exp.If(this=nothing, true=exp.Literal.number(0))], default=exp.Literal.number(1))
    if context.binding.dialect.affinities:  # a text compares with a number by its column's affinity
        kind = exp.Anonymous(this="typeof", expressions=[value.copy()])
        names = [exp.Literal.string(name) for name in ("integer", "real", "null")]
        text = exp.If(this=exp.Not(this=exp.In(this=kind, expressions=names)), true=exp.Literal.number(-1))
        flag.set("ifs", [text, *flag.args["ifs"]])
    return [flag, exp.Coalesce(this=exp.cast(value.copy(), "DOUBLE"), expressions=[exp.Literal.number(0)])]


def _threshold(context: Lifting, condition: Aggregated, candidates: Source, other: exp.Expr) -> str:
    """What a COUNT is compared with: a number as text, or the SELECT of that of each candidate."""
    if condition.call.kind != "count" or condition.compare is exp.Is:
        return ""
    inner = other.unnest()
    negative = isinstance(inner, exp.Neg)
    literal = inner.this.unnest() if negative else inner
    if isinstance(literal, exp.Literal) and not literal.is_string:
        return f"-{literal.this}" if negative else str(literal.this)
    known = for_candidates(candidates, [], [])
    known.items += [Item("", None, part) for part in _known(context, other)]
    return context.statement(known)[0]


def _formula(group: Group, call: Call, compare: type[exp.Binary], number: str, truth: bool) -> Formula:
    """That the comparison of an aggregate is TRUE (FALSE, if not ``truth``)."""
    if call.kind == "count":
        if compare is exp.Is:
            compare, number = exp.LT, "0"
        return _count(group, call, compare, number, truth)
    assert group.argument is not None
    if compare is exp.Is:
        some = group.exists(exp.Not(this=exp.Is(this=group.argument.copy(), expression=exp.Null())))
        found = Absent(some) if truth else some
        return AllOf((group.single(), found)) if call.kind == "only" else found
    largest = call.kind in ("max", "bool_or")
    if not truth:
        compare = NEGATED[compare]
    if call.kind == "only":
        return AllOf((group.single(), group.compared(compare, bare=False)))
    return _extreme(group, compare if largest else MIRRORED.get(compare, compare), largest=largest)


def _extreme(group: Group, compare: type[exp.Binary], *, largest: bool) -> Formula:
    """That the largest value compares as asked; for the smallest all comparisons are turned around."""

    def some(kind: type[exp.Binary]) -> Formula:
        return group.compared(kind if largest else MIRRORED.get(kind, kind))

    if compare in (exp.GT, exp.GTE):
        return some(compare)
    if compare in (exp.LT, exp.LTE):
        return AllOf((some(compare), Absent(some(NEGATED[compare]))))
    if compare is exp.EQ:
        return AllOf((some(exp.EQ), Absent(some(exp.GT))))
    return OneOf((some(exp.GT), AllOf((some(exp.LT), Absent(some(exp.GTE))))))


def _count(group: Group, call: Call, compare: type[exp.Binary], number: str, truth: bool) -> Formula:
    context, given = group.context, None
    if group.argument is not None:
        given = exp.Not(this=exp.Is(this=exp.paren(group.argument.copy()), expression=exp.Null()))
    select = group.select(given)
    if call.distinct:
        assert group.argument is not None
        order = exp.Order(expressions=[exp.Ordered(this=group.argument.copy())])
        select.identity = [exp.Window(this=exp.DenseRank(), order=order)]
    sql, lineage = context.counting_statement([(select, group.rows)])
    keyed = group.number is not None
    return Counted(sql, lineage, SIGNS[compare], number, keyed, call.distinct, not truth)
