"""prob() and expected values in queries that go by closed forms or by worlds: what speaks of the answers is taken off.

What is left, the core, is plain SQL: an expected value becomes its aggregate, whose distribution says its mean. The
rest (HAVING prob(), ORDER BY, LIMIT, items with prob()) is done to the finished answers. expected_count and
expected_sum are means over all worlds, where a group that is not there counts 0; expected_avg, expected_min and
expected_max are means over the worlds in which the aggregate is not NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.protocol import Backend, Catalog
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.distributions import AggregateAnswers, Groups, Spread
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.ordering import choose_answers
from sharpdnf.sql.outermost import AGGREGATE_OF, COMPUTED, EXPECTED, HIDDEN, Outermost, is_call, take_apart
from sharpdnf.sql.parse.allowed import PLACES, PROBABILITY_FUNCTIONS, called_names
from sharpdnf.sql.parse.faithful import check_faithful
from sharpdnf.sql.parse.text import parse_select, written_back
from sharpdnf.sql.plan import Plan, plan_answers, writable
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.topk import settle

OURS = "_spoken_"
"""The beginning of the names of those columns that the core has in addition to the query's own."""


KEY, ITEM, EXPECTED_VALUE = "key", "item", "expected value"
"""What a column of finished answers is."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A query in two parts: its core, and what is to be done with the answers."""

    core: str
    asked: Outermost | None = None
    """What is to be done with the answers; None if nothing is, and then the core is the query itself."""
    names: tuple[str, ...] = ()
    """The names of the core's columns; computed and hidden ones as in ``outermost.py``."""
    expected: tuple[tuple[int, str, str], ...] = ()
    """(position in the core, label, function) of each expected value."""


def read_spoken(sql: str, catalog: Catalog) -> Spoken:
    """Takes a query apart; refuses prob() and expected values where they may not stand."""
    if not PROBABILITY_FUNCTIONS.intersection(called_names(sql, catalog.dialect)):
        return Spoken(sql)
    if OURS in sql.lower() or "_sharpdnf_" in sql.lower():
        refuse(f"a name with {OURS!r} or '_sharpdnf_'", "it is reserved for the rewritten query")
    tree = parse_select(sql, catalog.dialect, "the query")
    check_faithful(sql, written_back(writable(tree.root(), catalog.dialect), catalog.dialect), catalog)
    asked = take_apart(tree, catalog, uncertain=True)
    if not isinstance(tree, exp.Select):
        refuse("prob() beside a set operation", PLACES[1])
    group = tree.args.get("group")
    keys = [] if group is None else [key.unnest() for key in group.expressions]
    for node in asked.hidden if group is not None else ():
        if node.unnest() not in keys:
            refuse(f"{node.sql()} beside prob()", "it is not a function of the grouping columns: group by it")
    names, expected = [], []
    for position, item in enumerate(tree.expressions):
        call, name = item.unalias(), item.alias
        if name.startswith((COMPUTED, HIDDEN)):
            item.set("alias", exp.to_identifier(f"{OURS}{position}", quoted=True))
        elif is_call(call, *EXPECTED):
            label = name or str(call.this).lower()
            expected.append((position, label, str(call.this).lower()))
            name = label
            item.replace(exp.alias_(_aggregate(call), label, quoted=True))
        names.append(name)
    if expected and not tree.args.get("group") and (asked.cuts or asked.limit is not None):
        refuse(
            "HAVING prob() or LIMIT beside an expected value without GROUP BY",
            "its one answer is certain; leave them out",
        )
    core = tree.sql(catalog.dialect.name)
    ours = sorted(PROBABILITY_FUNCTIONS.intersection(called_names(core, catalog.dialect)))
    if ours:
        refuse(f"{ours[0]}() here", PLACES[ours[0] == "prob"])
    found = catalog.describe(core)
    if found is None or len(found) != len(names):
        if found is not None:
            refuse("* beside prob() in this query", "write the columns out")
        return Spoken(core, asked, tuple(names), tuple(expected))  # what is wrong with it, the database will say
    shown = [name if name.startswith((COMPUTED, HIDDEN)) else label for name, label in zip(names, found, strict=True)]
    return Spoken(core, asked, tuple(shown), tuple(expected))


def _aggregate(call: exp.Expr) -> exp.Expr:
    """The aggregate whose mean an expected value is."""
    assert isinstance(call, exp.Anonymous)
    name, arguments = str(call.this).lower(), call.expressions
    if name == "expected_count":
        if arguments and not (len(arguments) == 1 and isinstance(arguments[0], exp.Star)):
            refuse(f"{call.sql()}", "expected_count() counts result rows; count columns over a subquery")
        arguments = [exp.Star()]
    elif len(arguments) != 1 or isinstance(arguments[0], exp.Star | exp.Distinct):
        raise SQLError(f"{name}(x) takes one expression")
    return exp.Anonymous(this=AGGREGATE_OF[name], expressions=[argument.copy() for argument in arguments])


def check_groups(spoken: Spoken, groups: Groups | None) -> None:
    """An expected value needs groups that the select list tells apart."""
    if spoken.expected and groups is None:
        refuse(
            "this select list beside an expected value",
            "select what is grouped by, and no * or DISTINCT: SELECT g, expected_count() AS n FROM t GROUP BY g",
        )


def finish(answers: Answers, spoken: Spoken, keys: Sequence[int], backend: Backend) -> Answers:
    """Chooses among finished answers, puts them in order and adds what is worked out from their probabilities.

    ``keys`` are the positions in the core of the columns that the answers have.
    """
    import pyarrow as pa

    asked = spoken.asked
    if asked is None:
        return answers
    expected = _expected(answers, spoken, keys)
    shown = pa.table({f"_c{key}": column for key, column in zip(keys, answers._values, strict=True)})
    plan = answers_plan(spoken, keys)
    counts = answers.counts
    first = np.arange(len(counts.prob))
    if plan.cuts or plan.top is not None:
        descending = plan.top is None or plan.order[0].descending
        first = settle(counts, plan.cuts, plan.top, descending=descending)
    counts, shown = counts.take(first), shown.take(first) if keys else shown
    expected = [(at, value.take(first)) for at, value in expected]
    order, items = choose_answers(backend, plan, shown, counts, expected)
    if order is None:
        order = np.arange(len(first))
    answers.counts, shown = counts.take(order), shown.take(order) if keys else shown
    if isinstance(answers, AggregateAnswers):
        plain = {at for at, _, _ in spoken.expected}
        others = [
            spread for at, spread in zip(value_places(spoken, keys), answers.spreads, strict=True) if at not in plain
        ]
        answers.spreads = [spread.take(first[order]) for spread in others]
    entries = layout(spoken, keys)
    answers.labels = tuple(label for kind, label, _ in entries if kind != EXPECTED_VALUE)
    answers._values = [items.column(place) if kind == ITEM else shown.column(f"_c{place}")
                       for kind, _, place in entries if kind != EXPECTED_VALUE]  # fmt: skip
    places = [place for place, (kind, _, _) in enumerate(entries) if kind == EXPECTED_VALUE]
    answers._expected = [(place, value.take(order)) for place, (_, value) in zip(places, expected, strict=True)]
    return answers


def answers_plan(spoken: Spoken, keys: Sequence[int]) -> Plan:
    """What to do with the finished answers, whose columns are ``_c0``... by their positions in the core."""
    assert spoken.asked is not None
    places = {at: i for i, (at, _, _) in enumerate(spoken.expected)}
    plan = plan_answers(spoken.asked, list(spoken.names), places, spoken.core)
    _check_columns(plan, keys)
    return plan


def layout(spoken: Spoken, keys: Sequence[int]) -> list[tuple[str, str, int]]:
    """(kind, label, place) of each column that is shown before the aggregates: a column of the answers by its position
    in the core, a computed item or an expected value by its number among these."""
    assert spoken.asked is not None
    found, items, values = [], 0, 0
    for at, name in enumerate(spoken.names[: len(spoken.names) - len(spoken.asked.hidden)]):
        if name.startswith(COMPUTED):
            label, item = spoken.asked.computed[int(name[len(COMPUTED) :])]
            if item is not None:
                found.append((ITEM, label, items))
                items += 1
        elif at in keys:
            found.append((KEY, name, at))
        elif any(at == place for place, _, _ in spoken.expected):
            found.append((EXPECTED_VALUE, spoken.expected[values][1], values))
            values += 1
    return found


def value_places(spoken: Spoken, keys: Sequence[int]) -> list[int]:
    """The positions of the aggregates, in order."""
    return [at for at in range(len(spoken.names)) if at not in keys]


def _check_columns(plan: Plan, keys: Sequence[int]) -> None:
    """An error if ORDER BY or an expression with prob() reads a column that has more than one value in an answer."""
    read = {key.column for key in plan.order if key.expression is None}
    read |= {part.name for tree in plan.computed.trees() for part in tree.find_all(exp.Column)}
    for name in sorted(read):
        if name.startswith("_c") and int(name[2:]) not in keys:
            refuse(
                "an aggregate in ORDER BY or beside prob()", "it has a distribution; use expected_sum(x) and the like"
            )


def _expected(answers: Answers, spoken: Spoken, keys: Sequence[int]) -> list[tuple[int, Expected]]:
    """(position in the core, expected value) from the distributions of the aggregates."""
    if not spoken.expected:
        return []
    assert isinstance(answers, AggregateAnswers)
    spread_at = dict(zip(value_places(spoken, keys), answers.spreads, strict=True))
    return [(at, mean_of(spread_at[at], label, name, answers.counts)) for at, label, name in spoken.expected]


def mean_of(spread: Spread, label: str, function: str, counts: Counts) -> Expected:
    """An expected value from a distribution given that the group exists.

    It has no bounds if worlds were drawn or their listing was cut short, because values not seen may be of any size.
    """
    if not spread.numeric():
        refuse(f"{function}() of values that are no numbers", "they have no mean; cast them to a number")
    groups = len(spread.indptr) - 1
    group, x = np.repeat(np.arange(groups), np.diff(spread.indptr)), spread.floats()
    there = ~np.isnan(x)
    weight, x = np.where(there, spread.prob, 0.0), np.where(there, x, 0.0)
    some = np.bincount(group, weights=weight, minlength=groups)
    first, second = (np.bincount(group, weights=weight * x**n, minlength=groups) for n in (1, 2))
    if function in ("expected_count", "expected_sum"):
        scale = counts.prob
    else:
        scale = np.divide(1.0, some, out=np.full(groups, np.nan), where=some > 0.0)
    value = first * scale
    if spread.draws is None:
        known = np.where(counts.met, value, np.nan)
        return Expected(label, value, known, known, counts.met)
    share = counts.prob if function in ("expected_count", "expected_sum") else 1.0 / np.maximum(some, 1e-300)
    draws = spread.draws / share
    deviation = np.sqrt(np.maximum(0.0, second * scale - value**2) / np.maximum(1.0, draws))
    nothing = np.full(groups, np.nan)
    return Expected(label, value, nothing, nothing, counts.met, deviation)
