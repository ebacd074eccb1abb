"""The distributions of COUNT, SUM, AVG, MIN and MAX over independent choices, each between exclusive alternatives.

COUNT and SUM are sums of independent choices, whose distributions are folded into each other; AVG folds pairs of sum
and count; MAX <= v means that no choice takes an alternative above v. What would break: two alternatives that share an
uncertain row are not independent, and folding them would give wrong probabilities without a word. So ``closed.py``
refuses such groups before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.refusal import refuse

MOST_PAIRS = 4_000_000
"""How many pairs of values are folded at once."""
NOTHING = 1e-40
"""Values less probable than this are left out of a distribution: all of them together are far below its rounding."""
LARGEST = 2.0**53
"""Whole numbers below this are exact as doubles."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The alternatives of all groups, sorted by group and choice."""

    indptr: IntArray
    """RowGroup g has the alternatives ``indptr[g]`` to ``indptr[g + 1] - 1``."""
    choice: IntArray
    """Alternatives of one choice exclude each other; choices are independent."""
    prob: FloatArray
    row_indptr: IntArray
    """Alternative a has the rows ``row_indptr[a]`` to ``row_indptr[a + 1] - 1`` of ``row``."""
    row: IntArray


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One group: its alternatives, and what each row counts and is worth."""

    ways: Alternatives
    span: slice
    there: IntArray
    whole: IntArray

    def choices(self, worth: Callable[[IntArray], int]) -> list[tuple[IntArray, FloatArray]]:
        """For each choice that counts: the worth of its alternatives and their probabilities."""
        found: dict[int, tuple[list[int], list[float]]] = {}
        for a in range(self.span.start, self.span.stop):
            rows = self.ways.row[self.ways.row_indptr[a] : self.ways.row_indptr[a + 1]]
            rows = rows[self.there[rows] > 0]
            if len(rows):
                entry = found.setdefault(int(self.ways.choice[a]), ([], []))
                entry[0].append(worth(rows))
                entry[1].append(float(self.ways.prob[a]))
        return [(np.array(v, dtype=np.int64), np.array(p)) for v, p in found.values()]


Law = tuple[IntArray, FloatArray]
"""Different values in order, and their probabilities."""
AggregateLaw = tuple[IntArray | FloatArray, FloatArray, float]
"""The values of an aggregate in order, their probabilities, and the probability of NULL."""


def fold(first: Law, second: Law) -> Law:
    """The distribution of the sum of two independent values."""
    (a, p), (b, q) = first, second
    wide = int(a[-1] - a[0] + b[-1] - b[0]) + 1
    if wide <= 4 * (len(a) + len(b)) and len(a) * len(b) > 64:
        dense = np.convolve(_dense(first), _dense(second))
        keep = np.flatnonzero(dense > NOTHING)
        return keep + a[0] + b[0], dense[keep]
    if len(a) * len(b) > MOST_PAIRS:
        refuse("an aggregate with so many different values", "its distribution is too large to be listed")
    values, place = np.unique((a[:, None] + b[None, :]).ravel(), return_inverse=True)
    both: FloatArray = np.bincount(place.reshape(-1), weights=np.outer(p, q).ravel()).astype(np.float64)
    some = both > NOTHING
    return values[some], both[some]


def _dense(law: Law) -> FloatArray:
    values, prob = law
    out = np.zeros(int(values[-1] - values[0]) + 1)
    out[values - values[0]] = prob
    return out


def total(choices: list[tuple[IntArray, FloatArray]]) -> Law:
    """The distribution of the sum over independent choices, each of which may also take none of its alternatives."""
    laws: list[Law] = []
    for worth, prob in choices:
        values, place = np.unique(np.append(worth, 0), return_inverse=True)
        weights = np.append(prob, max(0.0, 1.0 - float(prob.sum())))
        laws.append((values, np.bincount(place.reshape(-1), weights=weights).astype(np.float64)))
    while len(laws) > 1:  # in pairs, so that each distribution is folded only a logarithmic number of times
        laws = [reduce(fold, laws[i : i + 2]) for i in range(0, len(laws), 2)]
    return laws[0] if laws else (np.zeros(1, np.int64), np.ones(1))


def _absent(choices: list[tuple[IntArray, FloatArray]]) -> float:
    """The probability that no choice takes an alternative."""
    return float(np.prod([max(0.0, 1.0 - float(prob.sum())) for _, prob in choices]))


def _count(group: RowGroup) -> AggregateLaw:
    values, prob = total(group.choices(lambda rows: int(group.there[rows].sum())))
    return values, prob, 0.0


def _sum(group: RowGroup) -> AggregateLaw:
    choices = group.choices(lambda rows: int(group.whole[rows].sum()))
    values, prob = total(choices)
    null = _absent(choices)
    return values, np.where(values == 0, prob - null, prob), null


def _avg(group: RowGroup) -> AggregateLaw:
    """Sum and count as one whole number: sum * most + count."""
    most = int(group.there[group.ways.row[group.ways.row_indptr[group.span.start] :]].sum()) + 1
    largest = int(np.abs(group.whole).sum())
    if largest * most >= LARGEST:
        refuse("avg() of so many or so large values", "its distribution is too large to be listed")
    choices = group.choices(lambda rows: int(group.whole[rows].sum()) * most + int(group.there[rows].sum()))
    pairs, prob = total(choices)
    sums, number = np.divmod(pairs, most)
    some = number > 0
    means, place = np.unique(sums[some] / number[some], return_inverse=True)
    shares = np.bincount(place.reshape(-1), weights=prob[some], minlength=len(means)).astype(np.float64)
    return means, shares, _absent(choices)


def _largest(choices: list[tuple[IntArray, FloatArray]]) -> tuple[IntArray, FloatArray, float]:
    """The distribution of the largest worth: P(it is at most v) is that no choice takes an alternative above v."""
    worth = np.concatenate([np.zeros(0, np.int64), *(v for v, _ in choices)])
    values = np.unique(worth)
    with np.errstate(divide="ignore"):
        alone = [(v[0], p[0]) for v, p in choices if len(v) == 1]
        place = np.searchsorted(values, np.array([v for v, _ in alone], dtype=np.int64))
        at = np.zeros(len(values) + 1)
        np.add.at(at, place, np.log(np.maximum(0.0, 1.0 - np.array([p for _, p in alone]))))
        log_most = np.cumsum(at[::-1])[::-1][1:].copy()  # summed over all choices that have a worth above
        for v, p in choices:
            if len(v) > 1:
                order = np.argsort(v)
                tail = np.append(np.cumsum(p[order][::-1])[::-1], 0.0)
                above = tail[np.searchsorted(v[order], values, side="right")]
                log_most += np.log(np.maximum(0.0, 1.0 - above))
    most = np.exp(log_most)
    null = _absent(choices)
    return values, np.diff(np.concatenate([[null], most])), null


def _max(group: RowGroup) -> AggregateLaw:
    return _largest(group.choices(lambda rows: int(group.whole[rows].max())))


def _min(group: RowGroup) -> AggregateLaw:
    values, prob, null = _largest(group.choices(lambda rows: -int(group.whole[rows].min())))
    return -values[::-1], prob[::-1], null


DISTRIBUTIONS: dict[str, Callable[[RowGroup], AggregateLaw]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "max": _max,
    "min": _min,
    "bool_or": _max,
    "bool_and": _min,
    "every": _min,
}
"""(values in order, their probabilities, the probability of NULL) of each aggregate in one group."""
