"""Answers that were found by playing worlds: they have probabilities, and no lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import DNF, FloatArray, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.computed import SortKey
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.distributions import AggregateAnswers, Groups, Spread
from sharpdnf.sql.ordering import order_of
from sharpdnf.sql.ways import Route
from sharpdnf.sql.worlds.outer_order import sort_keys
from sharpdnf.sql.worlds.play import Played

if TYPE_CHECKING:
    import pyarrow as pa

    from sharpdnf.sql.database import ProbDB


class WorldAnswers(Answers):
    """One row per answer, as in ``Answers``; ``num_clauses`` is 0, as there is no lineage."""

    _has_lineage = False

    def __init__(
        self, labels: tuple[str, ...], values: pa.Table, counts: Counts, played: Played, database: ProbDB, route: Route
    ) -> None:
        self.labels, self.counts, self.played = labels, counts, played
        self._values, self._database, self._expected, self.route = values.columns, database, [], route

    @property
    def num_worlds(self) -> int:
        """How many worlds the query was run in."""
        return self.played.num_worlds

    @property
    def num_clauses(self) -> IntArray:
        return np.zeros(len(self), dtype=np.int64)

    def lineage(self, index: int) -> DNF:
        self._no_lineage()

    def explain(self, index: int, top: int = 5, **asked: Any) -> Any:
        self._no_lineage()

    def _no_lineage(self) -> NoReturn:
        raise SQLError(f"an answer found by worlds has no lineage; {self.route.refusals[0][1]}")


def row_answers(played: Played, tree: exp.Query, database: ProbDB, route: Route) -> WorldAnswers:
    """The strict reading: a row of the result is an answer."""
    counts = played.counts(played.answer, played.world, len(played.group))
    seen: IntArray = np.unique(played.answer)
    values, counts = played.values.take(seen), counts.take(seen)
    order = order_of(sort_keys(tree, played.labels), values, counts, [])
    if order is not None:
        values, counts = values.take(order), counts.take(order)
    return WorldAnswers(played.labels, values, counts, played, database, route)


def group_answers(played: Played, groups: Groups, tree: exp.Query, database: ProbDB, route: Route) -> AggregateAnswers:
    """One answer a group: in a world it has one row, whose other columns are the values of the aggregates there."""
    pair = played.group[played.answer] * played.num_worlds + played.world
    rows = np.bincount(np.unique(pair, return_inverse=True)[1], weights=played.copies)
    if np.any(rows > 1):
        raise SQLError(
            "two groups look the same in what the query selects: select all that it groups by, or ask for "
            'aggregates="rows"'
        )
    numbers, place = np.unique(played.group[played.answer], return_inverse=True)
    counts = played.counts(place, played.world, len(numbers))
    if not groups.keys and not tree.args.get("having") and not tree.args.get("limit"):
        counts.prob[:] = counts.lower[:] = counts.upper[:] = (
            1.0  # an aggregate without GROUP BY has one row in every world
        )
    share = played.share(place, played.world, len(numbers))
    first = np.full(len(numbers), -1)
    first[place[::-1]] = played.answer[::-1]
    labels = tuple(played.labels[k] for k in groups.keys)
    keys = played.values.select(list(groups.keys)).take(first) if groups.keys else played.values.select([])
    order = order_of(_of_keys(sort_keys(tree, played.labels), groups), keys, counts, [])
    order = np.arange(len(numbers)) if order is None else order
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    spreads = [_spread(played, v, rank[place], share[order]) for v in groups.values]
    shown = keys.take(order) if groups.keys else keys
    return AggregateAnswers(labels, shown, counts.take(order), spreads, database, route)


def _of_keys(order: tuple[SortKey, ...], groups: Groups) -> tuple[SortKey, ...]:
    """The keys of ORDER BY that name a group's columns; an aggregate has no single value to sort by."""
    kept = []
    for key in order:
        position = int(key.column[2:])
        if position not in groups.keys:
            break
        kept.append(SortKey(f"_c{position}", key.descending, key.nulls_first))
    return tuple(kept)


def _spread(played: Played, column: int, group: IntArray, share: FloatArray) -> Spread:
    """The distribution of one column: the worlds of equal values are put together."""
    import pyarrow as pa

    values = played.values.column(column).combine_chunks()
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    rank, chosen = _ranked(values)
    key = group * len(chosen) + rank[played.answer]
    found, place = np.unique(key, return_inverse=True)
    weight = np.bincount(place, weights=played.weight[played.world], minlength=len(found))
    group_of, rank_of = np.divmod(found, max(1, len(chosen)))
    indptr = np.searchsorted(group_of, np.arange(len(share) + 1))
    draws = None if played.listed else np.bincount(group, minlength=len(share))
    return Spread(played.labels[column], indptr, values.take(chosen[rank_of]), weight / share[group_of], draws)


def _ranked(values: Any) -> tuple[IntArray, IntArray]:
    """(int64[rows]: equal values have equal numbers, in order, NULL last; a row for each number)."""
    listed = values.to_pylist()
    try:
        order = sorted({v for v in listed if v is not None})
    except TypeError:  # lists and structures cannot be compared as Python objects
        order = sorted({repr(v) for v in listed if v is not None})
        listed = [None if v is None else repr(v) for v in listed]
    number = {v: i for i, v in enumerate(order)}
    rank = np.array([len(order) if v is None else number[v] for v in listed], dtype=np.int64)
    chosen = np.zeros(len(order) + (None in listed), dtype=np.int64)
    chosen[rank] = np.arange(len(listed))
    return rank, chosen
