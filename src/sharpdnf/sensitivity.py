"""How much each variable matters: its influence d P / d p_v = P(formula | v) - P(formula | not v).

Exact where the formula compiles to a d-tree. Otherwise from worlds in which every variable is flipped
(native/kernels/pivot.hpp): the influence is P(v is pivotal upwards) - P(v is pivotal downwards), and each of the two is
the success probability of independent draws. So every influence has a standard error and an interval, a variable that
occurs with one sign only gets no influence of the other sign, and nothing is a small difference of two large numbers.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF, FloatArray, IntArray, require_dnf
from sharpdnf.engines.bounds import certified_bounds
from sharpdnf.engines.dtree import compile as compile_dnf
from sharpdnf.engines.front import Seed, count, make_limit, make_rng
from sharpdnf.engines.registry import refuse_options
from sharpdnf.errors import NotMetWarning
from sharpdnf.estimate import Limit, check_tolerance
from sharpdnf.simplify import trivial_log_prob

COMPILE_WORK, COMPILE_WORK_LARGE, LARGE = 1_000_000_000, 20_000_000, 1000
"""Literals that a compile may look at where no timeout says less: about ten seconds, and about one for a formula of
more than ``LARGE`` variables, which seldom compiles."""
SAMPLE_WORK = 2_000_000_000
"""Operations on 512 worlds after which sampling gives up its promise: about ten seconds."""
FIRST_BLOCKS = 16
"""Blocks of 512 worlds in the first round; every round doubles what there is."""
ROUNDING = 1e-9
"""Relative width within which exact influences count as equal: ties that rounding broke are ties."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A variable's place in the ranking by the size of its influence: surely or probably from ``best`` to ``worst``."""

    variable: int
    """Numbered from 1."""
    name: str | None
    influence: float
    best: int
    worst: int


@dataclass(frozen=True, slots=True, eq=False)
class Influence(np.lib.mixins.NDArrayOperatorsMixin):
    """The influence of every variable, used like an array float64[n], and how far it may be off."""

    values: FloatArray
    """float64[n]: d P / d p_v of every variable."""
    stderr: FloatArray
    """float64[n]: one standard error of each influence; 0 where it is exact."""
    lower: FloatArray
    """float64[n]: the lower ends; see ``upper``."""
    upper: FloatArray
    """float64[n]: all n influences lie between the two, together with probability 1 - delta; surely where exact."""
    exact: bool
    """Whether every influence is exact."""
    samples: int
    """Worlds that were drawn; 0 if all is exact."""
    met: bool = True
    """Whether every influence is within epsilon times the largest one, as asked."""
    names: tuple[str, ...] | None = None
    """The names of the variables, or None if they have none."""

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.values, dtype=dtype) if copy or dtype is not None else self.values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [value.values if isinstance(value, Influence) else value for value in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    def tolist(self) -> list[float]:
        """The influences as a list of floats."""
        return [float(value) for value in self.values]

    def ranking(self) -> list[Rank]:
        """All variables by falling size of their influence, each with the places that its interval allows.

        Two variables whose places overlap cannot be told apart: their order in the list is a guess, or a tie.
        """
        slack = ROUNDING * np.abs(self.values) if self.exact else 0.0
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper)) + slack
        smallest = np.where((self.lower <= 0) & (self.upper >= 0), 0.0, np.minimum(abs(self.lower), abs(self.upper)))
        smallest = np.maximum(smallest - slack, 0.0)
        n = len(self)
        best = 1 + n - np.searchsorted(np.sort(smallest), largest, side="right")
        worst = n - np.searchsorted(np.sort(largest), smallest, side="left")
        order = np.argsort(-np.abs(self.values), kind="stable").tolist()
        return [
            Rank(v + 1, None if self.names is None else self.names[v], float(self[v]), int(best[v]), int(worst[v]))
            for v in order
        ]


def influence(
    dnf: DNF | Circuit,
    *,
    epsilon: float = 0.05,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    exact: bool | None = None,
    **unknown: Never,
) -> Influence:
    """d P / d p_v = P(formula | v) - P(formula | not v) of every variable, like an array float64[n].

    Exact where the formula compiles within half of ``timeout`` (or about ten seconds); else sampled until, with
    probability 1 - delta, every influence is within epsilon times the largest of them. Where the time or the draws
    allowed do not suffice, ``met`` is False, a NotMetWarning is given, and ``lower, upper`` say what is known.
    ``exact=False`` goes to the samples at once.
    """
    refuse_options(influence, unknown)
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, _ = make_rng(rng)
    if isinstance(dnf, Circuit):
        from sharpdnf.circuit_analysis import influence as of_circuit

        found = of_circuit(dnf, epsilon=epsilon, delta=delta, rng=generator, limit=limit, exact=exact)
    else:
        found = _of_dnf(require_dnf(dnf), epsilon, delta, generator, limit, exact)
    if not found.met:
        why = "the deadline" if limit.expired else "the number of draws allowed"
        width = float(np.max(found.upper - found.lower, initial=0.0))
        message = f"{why} came first: influences are known to intervals of up to {width:.2g} (lower, upper) only"
        warnings.warn(message, NotMetWarning, stacklevel=2)
    return found


def _of_dnf(
    dnf: DNF, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit, exact: bool | None
) -> Influence:
    if trivial_log_prob(dnf) is not None:
        return exact_influence(np.zeros(dnf.num_vars), dnf.names)
    compiled = compile_within(dnf, limit) if exact is not False else None
    if compiled is not None:
        return exact_influence(compiled.gradient(dnf.prob)[1], dnf.names)
    return _sampled(dnf, epsilon, delta, rng, limit)


def exact_influence(values: FloatArray, names: tuple[str, ...] | None = None) -> Influence:
    """Influences that are known exactly: their standard errors are 0 and their intervals are points."""
    return Influence(values, np.zeros(len(values)), values, values, True, 0, names=names)


def compile_within(dnf: DNF, limit: Limit) -> Compiled | None:
    """The compiled formula if half of the time left, or of no time limit about ten seconds, is enough for that."""
    half = replace(limit, deadline=min(limit.deadline, time.monotonic() + limit.seconds_left / 2.0))
    return compile_dnf(dnf, half, work=COMPILE_WORK if dnf.num_vars <= LARGE else COMPILE_WORK_LARGE)


@dataclass(frozen=True, slots=True)
class _Signs:
    """What is known about each variable before a world is drawn."""

    positive: npt.NDArray[np.bool_]
    """bool[n]: the variable occurs without a negation, so it can be pivotal upwards."""
    negative: npt.NDArray[np.bool_]
    """bool[n]: the variable occurs negated, so it can be pivotal downwards."""
    lower: FloatArray
    upper: FloatArray
    """float64[n]: ``lower`` and ``upper`` bound the influence of each variable surely."""


def _known(dnf: DNF, limit: Limit) -> _Signs:
    """Signs, and bounds that hold surely, of three kinds.

    P(pivotal upwards) is at most the sum over the clauses with v of the probability of their other literals. And from
    lower <= P <= upper follow bounds of P(formula | v) and P(formula | not v), as P is their mixture.
    """
    n = dnf.num_vars
    clause = np.repeat(np.arange(dnf.num_clauses), dnf.widths)
    literal_prob = np.where(dnf.literals & 1, 1.0 - dnf.prob[dnf.literals >> 1], dnf.prob[dnf.literals >> 1])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        others = np.exp(dnf.clause_log_probs()[clause] - np.log(literal_prob))
        others[literal_prob == 0.0] = 1.0
        reach = np.minimum(1.0, np.bincount(dnf.literals, others, 2 * n)[: 2 * n] * (1.0 + ROUNDING))
        up, down = reach[0::2], reach[1::2]
        log_low, log_high = certified_bounds(dnf, seconds=limit.seconds_left)
        sides = dnf.prob, 1.0 - dnf.prob
        most = [np.where(side > 0, np.exp(np.minimum(0.0, log_high - np.log(side))), 1.0) for side in sides]
        least = [np.where(side > 0, np.maximum(0.0, 1.0 + math.expm1(log_low) / side), 0.0) for side in sides]
    count_of = np.bincount(dnf.literals, minlength=2 * n)
    positive, negative = count_of[0::2] > 0, count_of[1::2] > 0
    upper = np.where(positive, np.minimum(up, np.maximum(most[0] - least[1], 0.0)), 0.0)
    lower = np.where(negative, -np.minimum(down, np.maximum(most[1] - least[0], 0.0)), 0.0)
    return _Signs(positive, negative, lower, upper)


def _sampled(dnf: DNF, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit) -> Influence:
    """Influences from worlds, drawn in rounds until the promise is kept.

    Round r may fail with probability delta / 2^(r + 2), all variables together, so stopping as soon as the intervals
    are narrow enough does not spoil them. The other half of delta is for the variables that are counted by sides.
    """
    known = _known(dnf, limit)
    with np.errstate(divide="ignore"):
        log_scale = float(np.logaddexp.reduce(dnf.clause_log_probs()))
    coverage = _seldom_true(dnf, log_scale)
    hidden = _hidden(dnf, known) if coverage else np.zeros(0, dtype=np.int64)
    sides = _by_sides(dnf, hidden, epsilon, delta / 2.0, rng, limit)
    seed = int(rng.integers(2**63))
    draws = _Draws(0, np.zeros(dnf.num_vars, np.int64), np.zeros(dnf.num_vars, np.int64), coverage, log_scale)
    work = 0
    for round_ in range(62):
        found = _intervals(dnf, known, draws, delta / 2.0 ** (round_ + 2), sides)
        found = replace(found, met=_is_met(found, epsilon))
        if found.met or work > SAMPLE_WORK or limit.expired or log_scale == -math.inf:
            break
        blocks = FIRST_BLOCKS * 2**round_
        if work:  # what is allowed, and no more
            blocks = min(blocks, 1 + (SAMPLE_WORK - work) * (draws.worlds // 512) // work)
        drawn = _native.count_pivots(*dnf.arrays, seed, draws.worlds // 512, blocks, coverage, limit.seconds_left)
        draws = replace(draws, worlds=draws.worlds + drawn.worlds, up=draws.up + drawn.up, down=draws.down + drawn.down)
        work += drawn.operations
    return found


def _seldom_true(dnf: DNF, log_scale: float) -> bool:
    """Whether worlds are drawn inside clauses: then a variable is met pivotal p / S times as often, p its literal's."""
    literal_prob = np.where(dnf.literals & 1, 1.0 - dnf.prob[dnf.literals >> 1], dnf.prob[dnf.literals >> 1])
    possible = literal_prob[literal_prob > 0.0]
    return log_scale < (math.log(float(np.median(possible))) if len(possible) else 0.0)


def _hidden(dnf: DNF, known: _Signs) -> IntArray:
    """Variables that are pivotal at a value which they never have: worlds in which the formula is true miss that."""
    return np.flatnonzero((known.positive & (dnf.prob == 0.0)) | (known.negative & (dnf.prob == 1.0)))


@dataclass(frozen=True, slots=True)
class _Side:
    """The influence of one variable as the difference of two counts, with the interval that follows from theirs."""

    value: float
    lower: float
    upper: float


def _by_sides(
    dnf: DNF, variables: IntArray, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit
) -> dict[int, _Side]:
    """P(formula | v) - P(formula | not v) of these variables from two counts each, within half of the time left."""
    out: dict[int, _Side] = {}
    until = time.monotonic() + limit.seconds_left / 2.0
    asked: dict[str, Any] = {"epsilon": epsilon / 2.0, "delta": delta / max(1, 2 * len(variables)), "rng": rng}
    for v in variables.tolist():
        sides = []
        for value in (1.0, 0.0):
            prob = dnf.prob.copy()
            prob[v] = value
            left = None if math.isinf(until) else max(0.0, until - time.monotonic())
            sides.append(count(dnf.with_prob(prob), timeout=left, threads=limit.threads, **asked))
        given, without = sides
        out[v] = _Side(given.prob - without.prob, given.lower - without.upper, given.upper - without.lower)
    return out


@dataclass(frozen=True, slots=True)
class _Draws:
    """How often each variable was pivotal upwards and downwards among the worlds drawn."""

    worlds: int
    up: IntArray
    down: IntArray
    coverage: bool
    log_scale: float


def _intervals(dnf: DNF, known: _Signs, draws: _Draws, delta: float, sides: dict[int, _Side]) -> Influence:
    """Values, standard errors and intervals that hold together with probability 1 - delta, from what was drawn."""
    tails = 2 * max(1, int(known.positive.sum()) + int(known.negative.sum()))
    parts = []
    for hits, prob, possible in (
        (draws.up, dnf.prob, known.positive),
        (draws.down, 1.0 - dnf.prob, known.negative),
    ):
        unit = np.ones(dnf.num_vars)
        if draws.coverage:
            with np.errstate(divide="ignore", invalid="ignore"):
                unit = np.where(prob > 0.0, np.exp(draws.log_scale - np.log(prob)), 0.0)
        unit = np.where(possible, unit, 0.0)
        low, high = _binomial_bounds(hits, draws.worlds, delta / tails)
        mean = hits / max(1, draws.worlds)
        # Half a hit is added, so that what was never seen pivotal does not pass for certain.
        square = unit**2 * (hits + 0.5) / (draws.worlds + 1.0)
        parts.append((unit * mean, unit * low, unit * high, square))
    up, down = parts
    values = up[0] - down[0]
    lower, upper = np.maximum(up[1] - down[2], known.lower), np.minimum(up[2] - down[1], known.upper)
    spread = np.maximum(up[3] + down[3] - values**2, 0.0)
    for v, side in sides.items():
        values[v] = side.value
        lower[v], upper[v] = max(side.lower, known.lower[v]), min(side.upper, known.upper[v])
    upper = np.maximum(lower, upper)  # rounding may have made them cross
    stderr = np.minimum(np.sqrt(spread / max(1, draws.worlds)), upper - lower)
    for v in sides:
        stderr[v] = (upper[v] - lower[v]) / 2.0
    values = np.clip(values, lower, upper)
    exact = not bool(np.any(upper > lower))
    return Influence(values, stderr, lower, upper, exact, draws.worlds, names=dnf.names)


def _is_met(found: Influence, epsilon: float) -> bool:
    """Whether every interval reaches at most epsilon times the largest influence away from its value."""
    apart = np.where((found.lower <= 0) & (found.upper >= 0), 0.0, np.minimum(abs(found.lower), abs(found.upper)))
    reach = np.maximum(found.upper - found.values, found.values - found.lower)
    return bool(np.max(reach, initial=0.0) <= epsilon * np.max(apart, initial=0.0))


def _binomial_bounds(hits: IntArray, draws: int, delta: float) -> tuple[FloatArray, FloatArray]:
    """(lower, upper) of success probabilities, each failing with probability delta at most.

    Chernoff's bound: P(share of hits >= x) <= exp(-draws KL(x, p)) for x >= p, and likewise below; so the bounds are
    where draws KL(x, p) = log(1 / delta), found by bisection.
    """
    if draws == 0:
        return np.zeros(len(hits)), np.ones(len(hits))
    share = hits / draws
    room = math.log(1.0 / delta) / draws

    def divergence(p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ones = np.where(share > 0.0, share * np.log(share / p), 0.0)
            return ones + np.where(share < 1.0, (1.0 - share) * np.log((1.0 - share) / (1.0 - p)), 0.0)

    def boundary(outer: FloatArray) -> FloatArray:
        inner = share
        for _ in range(60):
            middle = (inner + outer) / 2.0
            inside = divergence(middle) <= room
            inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
        return outer

    return boundary(np.zeros(len(share))), boundary(np.ones(len(share)))
