"""Sampling circuits: relative by inverse binomial sampling, additive by a sequence of looks at the mean.

Draws are direct, or from a DNF that contains the event (``sharpdnf.relax``): its models are drawn by coverage with the
known scale S', and the circuit is tested in the same lanes, so P = S' P(success). For "A and not B" with A a DNF that
is A, and the cost grows with 1 / P(not B given A) instead of 1 / P.

Additive answers stop early where the event is rare or common: at draws 512, 1024, ... up to half of the number that
the exact binomial tails ask for, the interval {q : n KL(mean, q) <= log(2 / delta')} is looked at (Chernoff's bound,
which knows the variance as an empirical Bernstein bound does, and is tighter for 0/1 draws). The looks share a tenth of
delta; the last, fixed number of draws has the rest.

At a deadline the time of stopping is nobody's choice, so the interval is one that holds at all times together: Robbins'
mixture of likelihood ratios over a Beta(1/2, 1/2) prior and Ville's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF
from sharpdnf.engines.sampling import UNLIMITED, SampledMarginals, draws_needed
from sharpdnf.estimate import Estimate, Limit, safe_log

LANES = 512
LOOKS_DELTA = 0.1
"""The share of delta that all looks before the last have together."""
_NO_COVER = (np.zeros(1, np.int64), np.zeros(0, np.int32))
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cover:
    """A DNF that contains the event, to draw from."""

    dnf: DNF

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        return self.dnf.indptr, self.dnf.literals


@dataclass(slots=True)
class DrawTally:
    """Draws and successes so far, int64[outputs], and where the next block of draws starts."""

    draws: Counts
    successes: Counts
    complete: npt.NDArray[np.bool_]
    log_scale: float = 0.0
    blocks: int = 0
    operations: int = 0


def draw(
    circuit: Circuit,
    *,
    seed: int,
    successes: int,
    max_draws: int,
    limit: Limit,
    cover: Cover | None = None,
    so_far: DrawTally | None = None,
) -> DrawTally:
    """Draws until every output has so many successes, or so many draws are made in all; goes on from ``so_far``.

    ``max_draws`` of a run that is to go on is a multiple of 512. The draws are the same however the run is cut up.
    """
    nothing = np.zeros(circuit.num_outputs, np.int64)
    done = so_far or DrawTally(nothing, nothing, nothing.astype(np.bool_))
    assert so_far is None or circuit.num_outputs == 1 or successes == UNLIMITED
    before = int(done.draws[0]) if so_far is not None else 0
    found = _native.circuit_sample(
        *circuit.arrays,
        circuit.prob,
        circuit.outputs,
        *(_NO_COVER if cover is None else cover.arrays),
        seed=seed,
        first_block=done.blocks,
        successes=max(1, successes - int(done.successes[0])) if successes < UNLIMITED else UNLIMITED,
        max_draws=max_draws - before,
        threads=limit.threads,
        seconds=limit.seconds_left,
        marginals=False,
    )
    return DrawTally(
        done.draws + found.draws,
        done.successes + found.successes,
        found.complete.astype(np.bool_),
        found.log_scale,
        (before + int(found.draws.max(initial=0))) // LANES,
        done.operations + found.operations,
    )


def relative_estimate(tally: DrawTally, output: int, epsilon: float, delta: float, k: int) -> Estimate:
    """The answer after k successes in N draws: (k - 1)/(N - 1), times the scale S'."""
    sure = min(0.0, tally.log_scale)
    draws = int(tally.draws[output])
    log_prob = min(sure, tally.log_scale + math.log((k - 1) / (draws - 1)))
    return Estimate(
        log_prob=log_prob,
        guarantee="relative",
        engine="sampling",
        epsilon=epsilon,
        delta=delta,
        log_lower=log_prob - math.log1p(epsilon),
        log_upper=min(sure, log_prob - math.log1p(-epsilon)),
        log_certified_upper=sure,
        samples=draws,
        info={"successes": k, "log_scale": tally.log_scale, "operations": tally.operations},
    )


def cut_short(tally: DrawTally, output: int, delta: float) -> Estimate:
    """What is known at a deadline: an additive interval that holds with probability 1 - delta; ``met`` is False."""
    draws, successes = int(tally.draws[output]), int(tally.successes[output])
    scale = math.exp(min(tally.log_scale, 700.0))
    low, high = mixture_interval(successes, draws, delta) if draws else (0.0, 1.0)
    low, high = min(1.0, scale * low), min(1.0, scale * high)
    return Estimate(
        log_prob=safe_log((low + high) / 2.0),
        guarantee="additive",
        engine="sampling",
        epsilon=(high - low) / 2.0,
        delta=delta,
        log_lower=safe_log(low),
        log_upper=safe_log(high),
        log_certified_upper=min(0.0, tally.log_scale),
        samples=draws,
        met=False,
        info={"successes": successes, "log_scale": tally.log_scale, "operations": tally.operations},
    )


def sample_additive(
    circuit: Circuit, *, seed: int, epsilon: float, delta: float, limit: Limit, cover: Cover | None = None
) -> list[Estimate]:
    """An answer for every output, each within epsilon with probability 1 - delta, from the same draws.

    With a cover (for one output) the mean is that of P / S', so it need only be within epsilon / S'. S' is known before
    the first draw; the draws that ask for it are thrown away.
    """
    asked: dict[str, Any] = {"seed": seed, "successes": UNLIMITED, "limit": limit, "cover": cover}
    log_scale = 0.0 if cover is None else draw(circuit, max_draws=1, **asked).log_scale
    scale = math.exp(log_scale)
    within = min(epsilon / scale, 0.499)
    looks, last = looks_at(within, delta)
    out: dict[int, Estimate] = {}
    left = np.arange(circuit.num_outputs)
    tally: DrawTally | None = None
    for look in [*((n, d, kl_interval) for n, d in looks), last]:
        draws, share, rule = look
        tally = draw(_outputs(circuit, left), max_draws=draws, so_far=tally, **asked)
        if not bool(np.all(tally.complete)):
            out |= {int(i): cut_short(tally, place, delta) for place, i in enumerate(left)}
            break
        done = np.zeros(len(left), np.bool_)
        for place, i in enumerate(left.tolist()):
            low, high = rule(int(tally.successes[place]), draws, share)
            if look is last or (high - low) / 2.0 <= within:
                out[i] = _additive_estimate(tally, place, low, high, scale, epsilon, delta)
                done[place] = True
        left = left[~done]
        if not len(left):
            break
        tally.draws, tally.successes = tally.draws[~done], tally.successes[~done]
    return [out[i] for i in range(circuit.num_outputs)]


Rule = Callable[[int, int, float], tuple[float, float]]


def looks_at(epsilon: float, delta: float) -> tuple[list[tuple[int, float]], tuple[int, float, Rule]]:
    """When the draws are looked at: (draws, delta) of every look but the last, and (draws, delta, rule) of the last."""
    most = draws_needed(epsilon, delta)
    early = [LANES << j for j in range(60) if (LANES << j) <= most // 2]
    if not early:
        return [], (most, delta, _around_mean(epsilon))
    rest = (1.0 - LOOKS_DELTA) * delta
    share = LOOKS_DELTA * delta / len(early)
    return [(n, share) for n in early], (draws_needed(epsilon, rest), rest, _around_mean(epsilon))


def _around_mean(epsilon: float) -> Rule:
    """The rule of the last look: the mean and epsilon on both sides, as the binomial tails promise."""

    def around(successes: int, draws: int, delta: float) -> tuple[float, float]:
        return successes / draws - epsilon, successes / draws + epsilon

    return around


def _additive_estimate(
    tally: DrawTally, output: int, low: float, high: float, scale: float, epsilon: float, delta: float
) -> Estimate:
    sure = min(0.0, tally.log_scale)
    middle = min(max(scale * (low + high) / 2.0, 0.0), 1.0)
    return Estimate(
        log_prob=min(sure, safe_log(middle)),
        guarantee="additive",
        engine="sampling",
        epsilon=epsilon,
        delta=delta,
        log_lower=min(sure, safe_log(max(0.0, scale * low))),
        log_upper=min(sure, safe_log(min(1.0, scale * high))),
        log_certified_upper=sure,
        samples=int(tally.draws[output]),
        info={
            "successes": int(tally.successes[output]),
            "log_scale": tally.log_scale,
            "operations": tally.operations,
        },
    )


def kl_interval(successes: int, draws: int, delta: float) -> tuple[float, float]:
    """The interval {q : draws KL(mean, q) <= log(2 / delta)}.

    It holds with probability 1 - delta for a number of draws that was fixed beforehand.
    """
    room = math.log(2.0 / delta)
    mean = successes / draws

    def outside(q: float) -> bool:
        far = 0.0
        if successes:
            far += successes * (math.log(mean) - safe_log(q))
        if successes < draws:
            far += (draws - successes) * (math.log1p(-mean) - (math.log1p(-q) if q < 1.0 else -math.inf))
        return far > room

    return _ends(mean, outside)


def mixture_interval(successes: int, draws: int, delta: float) -> tuple[float, float]:
    """The interval in which the mixed likelihood ratio is at most 1 / delta.

    It holds with probability 1 - delta for all numbers of draws together, so one may stop at any of them.
    """
    a, b = successes + 0.5, draws - successes + 0.5
    log_mixed = math.lgamma(a) + math.lgamma(b) - math.lgamma(draws + 1.0) - 2.0 * math.lgamma(0.5)
    room = -math.log(delta)

    def outside(q: float) -> bool:
        log_own = successes * safe_log(q) if successes else 0.0
        if successes < draws:
            log_own += (draws - successes) * (math.log1p(-q) if q < 1.0 else -math.inf)
        return log_mixed - log_own > room

    return _ends(successes / draws, outside)


def _ends(inside: float, outside: Callable[[float], bool]) -> tuple[float, float]:
    """The interval around a point in which ``outside`` is false, rounded outwards, by bisection."""
    ends = []
    for end in (0.0, 1.0):
        near, far = inside, end
        if not outside(far):
            ends.append(far)
            continue
        for _ in range(200):
            middle = (near + far) / 2.0
            if middle in (near, far):
                break
            near, far = (near, middle) if outside(middle) else (middle, far)
        ends.append(far)
    return ends[0], ends[1]


def _outputs(circuit: Circuit, chosen: npt.NDArray[np.int64]) -> Circuit:
    if len(chosen) == circuit.num_outputs:
        return circuit
    outputs = circuit.outputs[chosen]
    return Circuit.trusted(*circuit.arrays, outputs, circuit.prob, circuit.log_scale, circuit.names)


def sample_posterior(
    circuit: Circuit, *, seed: int, successes: int, limit: Limit, cover: Cover | None
) -> SampledMarginals:
    """Marginals and count from draws until there are so many successes.

    A variable that the circuit does not read keeps its probability.
    """
    k = successes
    found = _native.circuit_sample(
        *circuit.arrays,
        circuit.prob,
        circuit.outputs,
        *(_NO_COVER if cover is None else cover.arrays),
        seed=seed,
        first_block=0,
        successes=k,
        max_draws=UNLIMITED,
        threads=limit.threads,
        seconds=limit.seconds_left,
        marginals=True,
    )
    n, hits, complete = int(found.draws[0]), int(found.successes[0]), bool(found.complete[0])
    mean = (k - 1) / (n - 1) if complete else hits / n if n else 0.5
    log_prob = min(0.0, found.log_scale + safe_log(mean))
    true_count, total = found.true_count, found.marginal_successes
    prob = np.where((true_count >= 0) & (total > 0), true_count / max(1, total), circuit.prob)
    return SampledMarginals(log_prob, prob, n, hits, complete, found.log_scale)


def sample_rows(
    circuit: Circuit, k: int, *, seed: int, limit: Limit, cover: Cover | None
) -> tuple[npt.NDArray[np.bool_], int]:
    """(bool[k, n] assignments drawn from the variables' distribution given the event, how many were made)."""
    rows, made = _native.circuit_models(
        *circuit.arrays,
        circuit.prob,
        int(circuit.outputs[0]),
        *(_NO_COVER if cover is None else cover.arrays),
        seed=seed,
        count=k,
        seconds=limit.seconds_left,
    )
    return rows.reshape(k, circuit.num_vars).view(np.bool_), made
