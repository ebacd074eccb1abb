"""Closed forms: the exact distributions of COUNT, SUM, AVG, MIN and MAX over rows that are independent or in blocks.

The query is asked for its rows instead of its groups, each with its lineage. Rows of a group with the same lineage come
and go together: an alternative. Alternatives that share no uncertain row are independent, those of one block exclude
each other. So an aggregate is a function of independent choices, whose distribution ``folding.py`` finds.

Sums are folded as whole numbers, in units of the last decimal that occurs. Where the values have no such unit,
and where there would be too many different sums, this way refuses the query, and worlds answer it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends.protocol import Catalog, LineageRows, Uncertain
from sharpdnf.sql.backends.rows import sorted_keys
from sharpdnf.sql.computed import SortKey
from sharpdnf.sql.counting import SUMMARY, Counts
from sharpdnf.sql.distributions import AggregateAnswers, Groups, Spread, aggregates_in, read_groups
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.folding import DISTRIBUTIONS, LARGEST, NOTHING, Alternatives, RowGroup
from sharpdnf.sql.parse.faithful import check_faithful
from sharpdnf.sql.parse.text import parse_select, written_back
from sharpdnf.sql.plan import Plan, make_plan
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.ways import Route
from sharpdnf.sql.worlds.outer_order import sort_keys

if TYPE_CHECKING:
    from sharpdnf.sql.database import ProbDB

ENGINE = "closed form"
ROUNDING = 1e-15
"""A difference of two probabilities that is smaller than this may be nothing but rounding, and counts as 0."""
DECIMALS = 9
WHOLE = frozenset(["TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "HUGEINT", "20", "21", "23"])
"""Types of results that are whole numbers, as the databases call them."""
NUMBERS = WHOLE | frozenset(["FLOAT", "DOUBLE", "DECIMAL", "700", "701", "1700"])
TRUTH = frozenset(["BOOLEAN", "16"])


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of the select list."""

    label: str
    function: str
    there: int
    """The measure that is 1 where a row counts, and 0 where its value is NULL or FILTER leaves it out."""
    value: int | None
    """The measure with the value."""
    kind: str
    """The type of the result; empty where the database has none."""


@dataclass(frozen=True, slots=True)
class ClosedPlan:
    """The rows to ask for, and what is made of them."""

    rows: Plan
    groups: Groups
    aggregates: tuple[Aggregate, ...]
    order: tuple[SortKey, ...]

    @property
    def own_order(self) -> tuple[SortKey, ...]:
        """The sort keys up to the first that is an aggregate; columns are named by their position in the query."""
        keys = {f"_c{position}" for position in self.groups.keys}
        return tuple(takewhile(lambda key: key.column in keys, self.order))


def plan_closed(
    sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], aggregates: str = SUMMARY
) -> ClosedPlan:
    """Takes an aggregate query apart; refuses a query that has other parts than groups and simple aggregates."""
    if aggregates != SUMMARY:
        refuse('aggregates="rows"', "closed forms give one answer a group")
    tree = parse_select(sql, catalog.dialect, "the query")
    groups = read_groups(tree, catalog)
    if groups is None or not isinstance(tree, exp.Select):
        refuse("a query without aggregates in its select list", "there is nothing to add up")
    for part in ("having", "limit", "offset", "qualify", "with_"):
        if tree.args.get(part):
            refuse(f"{part.rstrip('_').upper()} beside aggregates", "closed forms are for plain groups")
    labels = catalog.describe(sql.strip().rstrip("; \n\t"))
    if labels is None or len(labels) != len(tree.expressions):
        refuse("this select list", "the database cannot describe it")
    kinds = catalog.types(sql.strip().rstrip("; \n\t")) or ("",) * len(labels)
    check_faithful(sql, written_back(tree.root(), catalog.dialect), catalog)
    rows = tree.copy()
    found: list[Aggregate] = []
    items = list(rows.expressions)
    more: list[exp.Expr] = []
    for measure, position in enumerate(groups.values):
        function, there, value = _measured(items[position].unalias().unnest(), catalog)
        kind = kinds[position].split("(")[0]
        _check_kind(function, kind, catalog)
        items[position] = exp.alias_(_call(there), f"_m{position}", quoted=True)
        beyond = None if value is None else len(groups.values) + len(more)
        found.append(Aggregate(labels[position], function, measure, beyond, kind))
        if value is not None:
            more.append(exp.alias_(_call(value), f"_v{position}", quoted=True))
    rows.set("expressions", [*items, *more])
    rows.set("order", None)
    plan = make_plan(rows.sql(catalog.dialect.name), catalog, uncertain)
    return ClosedPlan(plan, groups, tuple(found), sort_keys(tree, labels))


def _call(argument: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="expected_sum", expressions=[argument])


def _check_kind(function: str, kind: str, catalog: Catalog) -> None:
    truth = function in ("bool_and", "bool_or", "every")
    if function == "count":
        return
    if catalog.dialect.affinities:
        if function in ("min", "max") or truth:
            refuse(f"{function}() in SQLite", "a column may hold values of any type there")
    elif kind not in (TRUTH if truth else NUMBERS):
        refuse(f"{function}() of type {kind}", "closed forms are for numbers")


def _measured(item: exp.Expr, catalog: Catalog) -> tuple[str, exp.Expr, exp.Expr | None]:
    """(function, what is 1 where a row counts, the value or None) of a select item that is one plain aggregate."""
    condition: exp.Expr | None = None
    call = item
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    if aggregates_in(call, catalog.functions().aggregates, catalog) != [call] or not isinstance(call, exp.Anonymous):
        refuse(f"{item.sql()[:60]!r}", "closed forms are for aggregates alone, not for expressions of them")
    name, arguments = str(call.this).lower(), call.expressions
    if name not in ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every") or len(arguments) > 1:
        refuse(f"the aggregate {name}()", "its distribution has no closed form here")
    one, none = exp.Literal.number(1), exp.Literal.number(0)
    star = not arguments or isinstance(arguments[0], exp.Star)
    if arguments and isinstance(arguments[0], exp.Distinct | exp.Order):
        refuse(f"{item.sql()[:60]!r}", "DISTINCT and ORDER BY within an aggregate have no closed form here")
    counts: exp.Expr = one.copy()
    value = None if star else arguments[0].copy()
    tests: list[exp.Expr] = [] if condition is None else [exp.Paren(this=condition.copy())]
    if value is not None:
        tests.append(exp.Paren(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null(), negate=True)))
    if tests:
        counts = exp.Case(ifs=[exp.If(this=exp.and_(*tests), true=one)], default=none)
    if name == "count":
        return name, counts, None
    if value is None:
        refuse(f"{item.sql()[:60]!r}", "it has no argument")
    if name in ("bool_and", "bool_or", "every"):
        value = exp.Case(ifs=[exp.If(this=exp.Paren(this=value), true=one.copy())], default=none.copy())
    return name, counts, value


def alternatives(found: LineageRows, known: Rows) -> Alternatives:
    """Rows with the same lineage in a group, put together; refuses groups whose rows depend on each other otherwise."""
    clauses, groups = found.clauses, len(found.indptr) - 1
    group_of_clause = np.repeat(np.arange(groups), np.diff(found.indptr))
    starts, _, _ = sorted_keys([group_of_clause, *found.identity.T])
    if len(starts) - 1 != len(clauses):
        refuse("a row that exists for several reasons", "the rows of a group are not independent")
    widths = np.diff(clauses.indptr)
    literals = np.full((len(clauses), int(widths.max(initial=1))), -1, dtype=np.int64)
    inside = np.arange(len(clauses.literals)) - np.repeat(clauses.indptr[:-1], widths)
    literals[np.repeat(np.arange(len(clauses)), widths), inside] = clauses.literals >> 1
    key = np.column_stack([group_of_clause, literals])
    distinct, place = np.unique(key, axis=0, return_inverse=True)
    place = place.reshape(-1)
    rows, group = distinct[:, 1:], distinct[:, 0]
    used = rows >= 0
    block = np.where(used, known.block[np.maximum(rows, 0)], -1)
    token = np.where(block >= 0, len(known.prob) + block, rows)  # the rows of a block have one token in common
    _check_apart(token, used, group, block)
    prob = np.where(used, known.prob[np.maximum(rows, 0)], 1.0).prod(axis=1)
    alone = (used.sum(axis=1) == 1) & (block[:, 0] >= 0)
    choice_key = np.where(alone, token[:, 0], -1 - np.arange(len(distinct)))
    order = np.lexsort((choice_key, group))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    row_order = np.argsort(rank[place], kind="stable")
    return Alternatives(
        np.searchsorted(group[order], np.arange(groups + 1)),
        choice_key[order],
        prob[order],
        np.searchsorted(rank[place][row_order], np.arange(len(distinct) + 1)),
        row_order,
    )


def _check_apart(token: IntArray, used: Any, group: IntArray, block: IntArray) -> None:
    """A refusal if an uncertain row, or a block beyond its own choice, is part of two alternatives of a group."""
    which, slot = np.nonzero(used)
    single = (used.sum(axis=1) == 1)[which] & (block[which, slot] >= 0)
    pairs = np.column_stack([group[which], token[which, slot]])
    kinds, place = np.unique(pairs, axis=0, return_inverse=True)
    place = place.reshape(-1)
    times = np.bincount(place, minlength=len(kinds))
    exclusive = np.bincount(place, weights=single, minlength=len(kinds))
    if np.any((times > 1) & (exclusive < times)):
        refuse("a group in which rows share uncertain rows", "its rows are not independent")


def answer(database: ProbDB, plan: ClosedPlan, found: LineageRows, known: Rows, route: Route) -> AggregateAnswers:
    """The distributions of all aggregates in all groups."""
    import pyarrow as pa

    from sharpdnf.sql.ordering import order_of

    possible, counts, spreads = folded(plan.aggregates, found, known, always=plan.rows.always)
    shown = found.answers.take(possible) if plan.groups.keys else pa.table({})
    places = {f"_c{position}": f"_c{i}" for i, position in enumerate(plan.groups.keys)}
    keys = tuple(SortKey(places[key.column], key.descending, key.nulls_first) for key in plan.own_order)
    order = order_of(keys, shown, counts, []) if plan.groups.keys else None
    if order is not None:
        shown, counts, spreads = shown.take(order), counts.take(order), [spread.take(order) for spread in spreads]
    return AggregateAnswers(plan.rows.labels, shown, counts, spreads, database, route)


def folded(
    aggregates: tuple[Aggregate, ...], found: LineageRows, known: Rows, *, always: bool = False
) -> tuple[IntArray, Counts, list[Spread]]:
    """(the groups that can exist, their probabilities, the distributions of the aggregates in them).

    With ``always`` there is one group, which exists in every world.
    """
    if always and len(found.indptr) < 2:
        found = LineageRows(found.answers, np.zeros(2, np.int64), found.clauses, found.identity, found.measures)
    ways = alternatives(found, known)
    groups = len(ways.indptr) - 1
    none = np.array([_none(ways, g) for g in range(groups)])
    exists = np.ones(groups) if always else 1.0 - none
    word = [np.full(groups, w, dtype=object) for w in ("exact", ENGINE)]
    counts = Counts(exists, exists, exists, word[0], word[1], np.ones(groups, dtype=bool))
    possible = np.flatnonzero(exists > 0.0)
    absent = np.zeros(groups) if always else none
    spreads = [_spread(a, ways, found.measures, exists, absent, possible) for a in aggregates]
    return possible, counts.take(possible), spreads


def _none(ways: Alternatives, group: int) -> float:
    """The probability that no row of a group exists."""
    mine = slice(int(ways.indptr[group]), int(ways.indptr[group + 1]))
    _, place = np.unique(ways.choice[mine], return_inverse=True)
    return float(np.prod(np.maximum(0.0, 1.0 - np.bincount(place, weights=ways.prob[mine]))))


def _spread(
    aggregate: Aggregate,
    ways: Alternatives,
    measures: FloatArray,
    exists: FloatArray,
    absent: FloatArray,
    order: IntArray,
) -> Spread:
    """The distribution of one aggregate in the groups ``order``, given that they exist.

    The folded distribution also covers the worlds in which no row of the group exists, with the value of an empty
    group. Their probability is taken off that value.
    """
    import pyarrow as pa

    there, levels, scale, whole = _worth(aggregate, measures)
    sizes, values, probs = [], [], []
    for g in order.tolist():
        span = slice(int(ways.indptr[g]), int(ways.indptr[g + 1]))
        found, prob, null = DISTRIBUTIONS[aggregate.function](RowGroup(ways, span, there, whole))
        found = found if levels is None else levels[found]
        empty = found == 0 if aggregate.function == "count" else np.zeros(len(found), dtype=bool)
        prob = np.where(empty, prob - absent[g], prob) / exists[g]
        null = (null if aggregate.function == "count" else null - absent[g]) / exists[g]
        keep = prob > np.where(found == 0, ROUNDING, NOTHING)
        missing = [null] if null > ROUNDING else []
        sizes.append(int(keep.sum()) + len(missing))
        values += [*(_shown(v, scale, aggregate) for v in found[keep].tolist()), *(None for _ in missing)]
        probs.append(np.append(prob[keep], missing))
    indptr = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))])
    prob = np.concatenate([np.zeros(0), *probs])
    return Spread(aggregate.label, indptr, pa.array(values, type=value_type(aggregate)), prob)


def _worth(aggregate: Aggregate, measures: FloatArray) -> tuple[IntArray, FloatArray | None, int, IntArray]:
    """(how often each row counts, the levels of MIN and MAX, the scale of sums, the worth of each row).

    The worth is a whole number: the level of its value, or the value times the scale. Values that have neither are
    refused.
    """
    there = np.rint(measures[:, aggregate.there]).astype(np.int64)
    if aggregate.value is None:
        return there, None, 1, there
    values = measures[:, aggregate.value] * there
    if aggregate.function in ("min", "max"):
        levels, place = _levels(values)
        return there, levels, 1, place
    return there, None, *_whole(values)


def check_foldable(aggregates: tuple[Aggregate, ...], found: LineageRows, known: Rows) -> None:
    """A refusal where the rows of a group are not independent, or their values not such that can be folded."""
    alternatives(found, known)
    for aggregate in aggregates:
        _worth(aggregate, found.measures)


def value_type(aggregate: Aggregate) -> Any:
    """The Arrow type of the values of an aggregate."""
    import pyarrow as pa

    if aggregate.kind in TRUTH:
        return pa.bool_()
    whole = aggregate.function == "count" or aggregate.kind in WHOLE
    return pa.int64() if whole else pa.float64()


def _shown(value: Any, scale: int, aggregate: Aggregate) -> Any:
    if aggregate.kind in TRUTH:
        return bool(value)
    if aggregate.function == "count" or aggregate.kind in WHOLE:
        return int(value) // scale
    return float(value) / scale


def _levels(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """(the different values in order, the place of each value among them): all that MIN and MAX need to know."""
    if not np.all(np.abs(values) < LARGEST):
        refuse("values of 2^53 and more, infinities or nan", "they would be rounded here")
    levels, place = np.unique(values, return_inverse=True)
    return levels, place.reshape(-1)


def _whole(values: FloatArray) -> tuple[int, IntArray]:
    """(scale, values times scale as whole numbers), scale a power of ten; a refusal if none makes all of them whole."""
    for digits in range(DECIMALS + 1):
        scale = 10**digits
        rounded = np.rint(values * scale)
        if np.all(np.abs(rounded) * max(1, len(values)) < LARGEST) and np.all(rounded / scale == values):
            return scale, rounded.astype(np.int64)
    refuse("values without a last decimal", "sums of such floats have no exact distribution; round or cast them")
