"""Threshold and top-k answers by intervals: what is surely in or out is not refined further.

Every round counts the undecided answers at half the epsilon of the round before. The last epsilon, e = epsilon /
(2 + epsilon), makes intervals whose ends are a factor (1 + e) / (1 - e) = 1 + epsilon apart, so answers that differ by
more are told apart. Each (answer, round) gets delta / (answers * rounds), so by the union bound all intervals hold at
once with probability 1 - delta, whatever is stopped when. What is undecided at the end is flagged and goes by its
estimate, which is wrong only within a factor 1 +- epsilon of the cut; what was decided before it reached epsilon
promises its interval and no more. (Re, Dalvi, Suciu, "Efficient top-k query evaluation on probabilistic data", ICDE
2007: multisimulation.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.counting import Counts, Options, count_batch
from sharpdnf.sql.emit.circuits import Countable, some
from sharpdnf.sql.outermost import Cut

BoolArray = npt.NDArray[np.bool_]
Verdict = tuple[BoolArray, BoolArray]
"""Two masks over the answers: those that are surely among the result, and those that surely are not."""
FIRST_EPSILON = 0.5
INTERVAL = "interval"
"""The guarantee of an answer decided early: lower and upper hold with probability 1 - delta, and no epsilon does."""
ROUNDING = 1e-12


def rounds_to(epsilon: float) -> list[float]:
    """The epsilons of the rounds: halved from 0.5 down to the one that tells a factor 1 + epsilon apart."""
    found, last = [], epsilon / (2.0 + epsilon)
    current = FIRST_EPSILON
    while current > last:
        found.append(current)
        current /= 2
    return [*found, last]


def decide(
    batch: Countable, cuts: tuple[Cut, ...], limit: int | None, *, descending: bool, options: Options
) -> tuple[Counts, IntArray]:
    """Counts the answers as far as the question needs; returns all counts and the indices of the answers kept."""
    epsilons = [options.epsilon] if options.guarantee in ("exact", "bounds") else rounds_to(options.epsilon)
    share = options.delta / max(1, len(batch) * len(epsilons))
    counts: Counts | None = None
    todo = np.arange(len(batch))
    reached = np.full(len(batch), np.inf)
    rng = np.random.default_rng(options.rng)
    for epsilon in epsilons:
        ask = options.replace(epsilon=epsilon, delta=share, rng=rng, numbers=todo)
        found = count_batch(some(batch, todo), ask)
        counts = found if counts is None else _update(counts, found, todo)
        reached[todo] = epsilon
        inside, outside = verdict(counts, cuts, limit, descending=descending)
        open_ = ~(inside | outside) & _wide(counts)
        todo = np.flatnonzero(open_)
        if options.progress is not None:
            options.progress(len(batch) - len(todo), len(batch))
        if not len(todo) or options.timeout == 0.0:
            break
    assert counts is not None
    inside, outside = verdict(counts, cuts, limit, descending=descending)
    counts.near_cut = ~(inside | outside)
    late = counts.near_cut & _wide(counts) & ((reached > epsilons[-1]) | ~counts.met)
    if late.any():  # the question itself is open, so no answer at the cut is done
        counts.met[counts.near_cut] = False
    wide = late | counts.near_cut & (counts.guarantee == "bounds")
    counts.guarantee[(reached > options.epsilon) & np.isin(counts.guarantee, ("relative", "additive"))] = INTERVAL
    return counts, _chosen(counts, inside, outside, wide, cuts, limit, descending=descending)


def settle(counts: Counts, cuts: tuple[Cut, ...], limit: int | None, *, descending: bool) -> IntArray:
    """The answers to keep where nothing more can be counted; those that may be wrong get ``near_cut``."""
    inside, outside = verdict(counts, cuts, limit, descending=descending)
    counts.near_cut = ~(inside | outside)
    wide = counts.near_cut & ~counts.met
    return _chosen(counts, inside, outside, wide, cuts, limit, descending=descending)


def _wide(counts: Counts) -> BoolArray:
    """bool[answers]: whether the interval could still be narrowed, which that of an exact answer cannot."""
    open_: BoolArray = (counts.lower < counts.upper) & (counts.guarantee != "exact")
    return open_


def _update(counts: Counts, found: Counts, where: IntArray) -> Counts:
    """Takes in the counts of a new round: intervals are intersected, as all of them hold at once, and the newest
    estimates replace the old ones, as they are the finest."""
    for name in ("prob", "guarantee", "engine", "met"):
        getattr(counts, name)[where] = getattr(found, name)
    counts.lower[where] = np.maximum(counts.lower[where], found.lower)
    counts.upper[where] = np.minimum(counts.upper[where], found.upper)
    counts.prob[where] = np.clip(counts.prob[where], counts.lower[where], counts.upper[where])
    return counts


def verdict(counts: Counts, cuts: tuple[Cut, ...], limit: int | None, *, descending: bool) -> Verdict:
    """Which answers are surely in and which surely out."""
    inside, outside = np.ones(len(counts.prob), dtype=bool), np.zeros(len(counts.prob), dtype=bool)
    for cut in cuts:
        holds, fails = _TESTS[cut.operator](_snap(counts.lower, cut), _snap(counts.upper, cut), cut.value)
        inside &= holds
        outside |= fails
    if limit is None or limit >= len(counts.prob):
        return inside, outside
    return _top(counts, inside, outside, limit, descending=descending)


_TESTS: dict[str, Callable[[FloatArray, FloatArray, float], Verdict]] = {
    ">": lambda lower, upper, c: (lower > c, upper <= c),
    ">=": lambda lower, upper, c: (lower >= c, upper < c),
    "<": lambda lower, upper, c: (upper < c, lower >= c),
    "<=": lambda lower, upper, c: (upper <= c, lower > c),
}


def _snap(values: FloatArray, cut: Cut) -> FloatArray:
    """The values, with those that differ from the cut only by rounding set to it: an exact 0.1 is not above 0.1."""
    return np.where(np.abs(values - cut.value) <= ROUNDING * abs(cut.value), cut.value, values)


def _top(counts: Counts, inside: BoolArray, outside: BoolArray, limit: int, *, descending: bool) -> Verdict:
    """Which answers are surely among the k best of those that pass the cuts, and which surely are not."""
    low, high = (counts.lower, counts.upper) if descending else (-counts.upper, -counts.lower)
    low_in = np.where(inside, low, -np.inf)  # only a sure member can push another out
    high_open = np.where(outside, -np.inf, high)
    if limit == 0:
        return np.zeros_like(inside), np.ones_like(outside)
    # out: k sure members are surely better. in: fewer than k others can be as good.
    kth_low = np.sort(low_in)[::-1][limit - 1]
    beaten = high < kth_low
    order = np.sort(high_open)[::-1]
    next_high = order[limit]  # the (k+1)-th best upper end: an answer above it has at most k - 1 rivals above
    safe = inside & (low > next_high)
    return safe, outside | beaten


def _chosen(
    counts: Counts,
    inside: BoolArray,
    outside: BoolArray,
    wide: BoolArray,
    cuts: tuple[Cut, ...],
    limit: int | None,
    *,
    descending: bool,
) -> IntArray:
    """The answers to return: sure ones first, flagged ones by their estimate; HAVING drops none that are ``wide``."""
    passes = ~outside
    for cut in cuts:
        test = _TESTS[cut.operator](_snap(counts.prob, cut), _snap(counts.prob, cut), cut.value)[0]
        passes &= inside | wide | test
    kept = np.flatnonzero(passes)
    if limit is None or len(kept) <= limit:
        return kept
    sign = -1.0 if descending else 1.0
    order = np.lexsort((sign * counts.prob[kept], ~inside[kept]))
    return np.sort(kept[order[:limit]])
