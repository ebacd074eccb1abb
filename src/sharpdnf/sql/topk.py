"""Threshold and top-k answers by intervals: what is surely in or out is not refined further.

Bounds that cost nothing come first (``free_bounds``); the answers that may be best are counted before the others, so
that most of these need not be counted at all.

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

from sharpdnf.dnf import Batch, FloatArray, IntArray
from sharpdnf.engines.front import make_seed
from sharpdnf.sql.counting import Counts, Options, Remote, count_batch
from sharpdnf.sql.emit.circuit_batch import Countable, some
from sharpdnf.sql.outermost import Cut

BoolArray = npt.NDArray[np.bool_]
Verdict = tuple[BoolArray, BoolArray]
"""Two masks over the answers: those that are surely among the result, and those that surely are not."""
Answered = Countable | Remote
"""What is decided about: formulas that are here, or answers that are counted elsewhere."""
FIRST_EPSILON = 0.5
INTERVAL = "interval"
"""The guarantee of an answer decided early: lower and upper hold with probability 1 - delta, and no epsilon does."""
ROUNDING = 1e-12
SLACK = 1e-9
"""How far bounds that were added up may be off by rounding."""
SPREAD = 200
"""Answers whose bounds tell whether those of all are worth their cost."""
FIRST_PART = 2_000
"""Answers that are counted before others, at least."""


def rounds_to(epsilon: float) -> list[float]:
    """The epsilons of the rounds: halved from 0.5 down to the one that tells a factor 1 + epsilon apart."""
    found, last = [], epsilon / (2.0 + epsilon)
    current = FIRST_EPSILON
    while current > last:
        found.append(current)
        current /= 2
    return [*found, last]


def decide(
    batch: Answered, cuts: tuple[Cut, ...], limit: int | None, *, descending: bool, options: Options,
    among: int | None = None,
) -> tuple[Counts, IntArray]:  # fmt: skip
    """Counts the answers as far as the question needs; returns all counts and the indices of the answers kept.

    Where the batch has only some of the answers, ``among`` says how many there are, since delta covers all of them, and
    the options have the numbers of these.
    """
    epsilons = [options.epsilon] if options.guarantee in ("exact", "bounds") else rounds_to(options.epsilon)
    generator = np.random.default_rng(options.rng)
    numbers = np.arange(len(batch)) if options.numbers is None else options.numbers
    asked = options.replace(delta=options.delta / max(1, (among or len(batch)) * len(epsilons)))
    reached = np.full(len(batch), np.inf)
    first = asked.replace(epsilon=epsilons[0], rng=make_seed(generator), numbers=numbers)
    counts, inside, outside = _first_round(batch, cuts, limit, reached, first, descending)
    for epsilon in epsilons[1:]:
        todo = _wide(counts, np.flatnonzero(~(inside | outside)))
        if options.progress is not None:
            options.progress(len(batch) - len(todo), len(batch))
        if not len(todo) or options.timeout == 0.0:
            break
        again = asked.replace(epsilon=epsilon, rng=make_seed(generator), numbers=numbers[todo])
        _update(counts, count_batch(_some(batch, todo), again), todo)
        reached[todo] = epsilon
        inside, outside = verdict(counts, cuts, limit, descending=descending)
    if options.progress is not None:
        options.progress(len(batch), len(batch))
    counts.near_cut = ~(inside | outside)
    near = np.flatnonzero(counts.near_cut)
    late = _wide(counts, near)
    late = late[(reached[late] > epsilons[-1]) | ~counts.met[late]]
    if len(late):  # the question itself is open, so no answer at the cut is done
        counts.met[near] = False
    wide = np.zeros(len(batch), dtype=bool)
    wide[late] = True
    wide[near[counts.guarantee[near] == "bounds"]] = True
    coarse = np.flatnonzero(np.isfinite(reached) & (reached > options.epsilon))
    kind = counts.guarantee[coarse]
    counts.guarantee[coarse[(kind == "relative") | (kind == "additive")]] = INTERVAL
    return counts, _chosen(counts, inside, outside, wide, cuts, limit, descending=descending)


def settle(counts: Counts, cuts: tuple[Cut, ...], limit: int | None, *, descending: bool) -> IntArray:
    """The answers to keep where nothing more can be counted; those that may be wrong get ``near_cut``."""
    inside, outside = verdict(counts, cuts, limit, descending=descending)
    counts.near_cut = ~(inside | outside)
    wide = counts.near_cut & ~counts.met
    return _chosen(counts, inside, outside, wide, cuts, limit, descending=descending)


def _first_round(
    batch: Answered, cuts: tuple[Cut, ...], limit: int | None, reached: FloatArray, asked: Options, descending: bool
) -> tuple[Counts, BoolArray, BoolArray]:
    """Counts answers for the first time, in parts that grow, each of those that may be best of what is left; returns
    the counts and which answers are surely in and out.

    Most answers are out before they are counted: by their bounds, or as soon as k others are surely better than they
    can be. A threshold that leaves few out is asked of all at once, as bounds would cost more than they save; those
    that were drawn get them then, so that an answer is told the same whatever the others in its batch are like. All
    parts have one seed, so that it does not matter in which part an answer is counted.
    """
    assert asked.numbers is not None, "the numbers of the answers decide their draws"
    numbers = asked.numbers
    if limit is None and not _leaves_out(batch, cuts):
        counts = count_batch(batch, asked)
        drawn = np.flatnonzero(counts.guarantee != "exact")
        _narrow(counts, drawn, *free_bounds(_some(batch, drawn)))
        reached[:] = asked.epsilon
        return counts, *verdict(counts, cuts, limit, descending=descending)
    counts = uncounted(batch)
    size = max(FIRST_PART, 4 * (limit or 0))
    inside, outside = verdict(counts, cuts, limit, descending=descending)
    while len(left := np.flatnonzero(~outside & np.isinf(reached))):
        if limit is not None and size < len(left):
            best = -counts.upper[left] if descending else counts.lower[left]
            left = np.sort(left[np.argpartition(best, size)[:size]])
        part = batch if len(left) == len(batch) else _some(batch, left)
        _update(counts, count_batch(part, asked.replace(numbers=numbers[left])), left)
        reached[left] = asked.epsilon
        size *= 4
        inside, outside = verdict(counts, cuts, limit, descending=descending)
        if asked.timeout == 0.0:
            break
    return counts, inside, outside


def _leaves_out(batch: Answered, cuts: tuple[Cut, ...]) -> bool:
    """Whether bounds leave out most of a few answers, spread over all."""
    few = np.unique(np.linspace(0, len(batch) - 1, min(len(batch), SPREAD)).astype(np.int64)) if len(batch) else None
    if few is None:
        return False
    _, outside = verdict(uncounted(_some(batch, few)), cuts, None, descending=True)
    return 2 * int(outside.sum()) > len(few)


def free_bounds(batch: Answered) -> tuple[FloatArray, FloatArray]:
    """(lower, upper) bounds of every answer that cost one pass over its clauses.

    An answer is as likely as its likeliest clause at least. Where nothing is negated its clauses are positively
    correlated (Harris, 1960), so none of them holds with at least the product of 1 - p(clause); else the sum of
    p(clause) bounds it. Nothing is known of circuits.
    """
    count = len(batch)
    if isinstance(batch, Remote):
        return batch.lower, batch.upper
    if not isinstance(batch, Batch) or not count:
        return np.zeros(count), np.ones(count)
    dnf, starts = batch.dnf, batch.formula_indptr[:-1]
    prob = np.exp(dnf.clause_log_probs())
    lower, upper = np.maximum.reduceat(prob, starts), np.add.reduceat(prob, starts)
    negations = np.concatenate([[0], np.cumsum(dnf.literals & 1)])[dnf.indptr[batch.formula_indptr]]
    positive = np.diff(negations) == 0  # of each answer: which others are in the batch must not change its bounds
    with np.errstate(divide="ignore"):  # a clause that is certain
        correlated = -np.expm1(np.add.reduceat(np.log1p(-np.minimum(prob, 1.0)), starts))
    upper[positive] = correlated[positive]
    return lower * (1.0 - SLACK), np.minimum(upper * (1.0 + SLACK), 1.0)


def _some(batch: Answered, wanted: IntArray) -> Answered:
    return batch.take(wanted) if isinstance(batch, Remote) else some(batch, wanted)


def uncounted(batch: Answered) -> Counts:
    """What is known of the answers before any is counted."""
    lower, upper = free_bounds(batch)
    words = np.full(len(batch), "bounds", dtype=object)
    return Counts(upper.copy(), lower, upper, words, words.copy(), np.ones(len(batch), dtype=bool))


def _wide(counts: Counts, answers: IntArray) -> IntArray:
    """Those of the answers whose interval could still be narrowed, which that of an exact answer cannot."""
    open_: IntArray = answers[counts.lower[answers] < counts.upper[answers]]
    narrower: IntArray = open_[counts.guarantee[open_] != "exact"]
    return narrower


def _update(counts: Counts, found: Counts, where: IntArray) -> None:
    """Takes in the counts of a new round: intervals are intersected, as all of them hold at once, and the newest
    estimates replace the old ones, as they are the finest."""
    for name in ("prob", "guarantee", "engine", "met"):
        getattr(counts, name)[where] = getattr(found, name)
    _narrow(counts, where, found.lower, found.upper)


def _narrow(counts: Counts, where: IntArray, lower: FloatArray, upper: FloatArray) -> None:
    """Intersects intervals with others that hold, too."""
    counts.lower[where] = np.maximum(counts.lower[where], lower)
    counts.upper[where] = np.minimum(counts.upper[where], upper)
    counts.prob[where] = np.clip(counts.prob[where], counts.lower[where], counts.upper[where])


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
    near = np.abs(values - cut.value) <= ROUNDING * abs(cut.value)
    return np.where(near, cut.value, values) if near.any() else values


def _top(counts: Counts, inside: BoolArray, outside: BoolArray, limit: int, *, descending: bool) -> Verdict:
    """Which answers are surely among the k best of those that pass the cuts, and which surely are not."""
    low, high = (counts.lower, counts.upper) if descending else (-counts.upper, -counts.lower)
    low_in = np.where(inside, low, -np.inf)  # only a sure member can push another out
    high_open = np.where(outside, -np.inf, high)
    if limit == 0:
        return np.zeros_like(inside), np.ones_like(outside)
    # out: k sure members are surely better. in: fewer than k others can be as good.
    kth_low = -np.partition(-low_in, limit - 1)[limit - 1]
    beaten = high < kth_low
    # the (k+1)-th best upper end: an answer above it has at most k - 1 rivals above
    next_high = -np.partition(-high_open, limit)[limit]
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
    open_ = np.flatnonzero(~(outside | inside | wide))
    for cut in cuts:
        prob = _snap(counts.prob[open_], cut)
        passes[open_] &= _TESTS[cut.operator](prob, prob, cut.value)[0]
    kept = np.flatnonzero(passes)
    if limit is None or len(kept) <= limit:
        return kept
    sign = -1.0 if descending else 1.0
    order = np.lexsort((sign * counts.prob[kept], ~inside[kept]))
    return np.sort(kept[order[:limit]])
