"""Grouped coverage sampling with an exact stopping rule: relative (epsilon, delta) in milliseconds.

The 0/1 estimator and its groups are described in ``native/kernels/sample.hpp``; P(success) = P(formula) / S'. The
stopping rule is inverse binomial sampling: draw until k successes and return (k - 1)/(N - 1) for N draws. Its relative
error keeps a promise that does not depend on the success probability (Mendo and Hernando, IEEE Transactions on
Communications 54, 2006); ``native/kernels/stopping.hpp`` has the condition, a proof, and how k follows.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit, check_tolerance, safe_log

ESTIMATORS = ("auto", "direct", "coverage", "grouped")
UNLIMITED = 2**62


@functools.lru_cache(maxsize=256)
def successes_needed(epsilon: float, delta: float) -> int:
    """The least k for which (k-1)/(N-1) is proved to be within epsilon p of p but for delta: 385 at (0.1, 0.05).

    It is the least that the exact gamma tail allows, but at least 3 + 2 / epsilon, where the proof begins
    (``native/kernels/stopping.hpp``). From a million successes on the tail is bounded from above, which may ask for one
    success more than the least.
    """
    check_tolerance(epsilon, delta)
    return _native.successes_needed(epsilon, delta)


@functools.lru_cache(maxsize=256)
def draws_needed(epsilon: float, delta: float) -> int:
    """The number of 0/1 draws whose mean is within epsilon with probability 1 - delta: 100 at (0.1, 0.05).

    That is by the exact binomial tails, or beyond 20,000 by a bound that asks for a little more
    (``native/kernels/stopping.hpp``); at (0.1, 0.05) Hoeffding's inequality asks for 185.
    """
    check_tolerance(epsilon, delta)
    return _native.additive_draws(epsilon, delta)


@engine(
    "sampling",
    guarantees=("relative", "additive"),
    summary="bit-parallel direct / Karp-Luby sampling with an exact stopping rule",
)
def sampling(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    estimator: str = "auto",
) -> Estimate:
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, not {estimator!r}")
    if guarantee == "additive":
        return _additive(dnf, epsilon=epsilon, delta=delta, rng=rng, limit=limit)
    k = successes_needed(epsilon, delta)
    found = _native.sample(
        *dnf.arrays,
        seed=int(rng.integers(2**63)),
        successes=k,
        max_draws=UNLIMITED,
        threads=limit.threads,
        seconds=limit.seconds_left,
        estimator=ESTIMATORS.index(estimator),
        marginals=False,
    )
    info = {
        "estimator": ESTIMATORS[found.estimator],
        "log_scale": found.log_scale,
        "operations": found.operations,
    }
    return from_draws(
        found, "sampling", guarantee="relative", epsilon=epsilon, delta=delta, log_scale=found.log_scale, info=info
    )


def _additive(dnf: DNF, *, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit) -> Estimate:
    """The mean of so many direct draws that it is within epsilon, by the exact binomial tails."""
    found = _native.sample(
        *dnf.arrays,
        seed=int(rng.integers(2**63)),
        successes=UNLIMITED,
        max_draws=draws_needed(epsilon, delta),
        threads=limit.threads,
        seconds=limit.seconds_left,
        estimator=ESTIMATORS.index("direct"),
        marginals=False,
    )
    info = {"estimator": "direct", "operations": found.operations}
    return from_draws(found, "sampling", guarantee="additive", epsilon=epsilon, delta=delta, info=info)


class Drawn(Protocol):
    """What the kernels that draw say of their 0/1 draws; ``complete`` if so many came as the stopping rule wants."""

    @property
    def draws(self) -> int: ...
    @property
    def successes(self) -> int: ...
    @property
    def complete(self) -> bool: ...


class Draws(NamedTuple):
    """The draws of one answer out of several."""

    draws: int
    successes: int
    complete: bool


def from_draws(
    drawn: Drawn,
    engine: str,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    log_scale: float = 0.0,
    info: dict[str, Any] | None = None,
) -> Estimate:
    """The answer from 0/1 ``draws`` with so many ``successes``, where P = exp(log_scale) P(success).

    ``complete`` says that the stopping rule of the guarantee came to its end. If it did not, the mean so far comes back
    with no promise but its interval, which holds with probability 1 - delta whenever the draws were stopped.
    """
    draws, successes, complete = drawn.draws, drawn.successes, drawn.complete
    sure = min(0.0, log_scale)
    if complete and guarantee == "relative":
        log_prob = min(sure, log_scale + math.log((successes - 1) / (draws - 1)))
        log_lower, log_upper = log_prob - math.log1p(epsilon), min(sure, log_prob - math.log1p(-epsilon))
    else:
        mean = successes / draws if draws else 0.5
        width = epsilon if complete else anytime_width(draws, delta)
        log_prob = min(sure, log_scale + safe_log(mean))
        log_lower = min(sure, log_scale + safe_log(mean - width))
        log_upper = min(sure, log_scale + safe_log(mean + width))
    return Estimate(
        log_prob=log_prob,
        guarantee=guarantee if complete else "none",
        engine=engine,
        epsilon=epsilon,
        delta=delta,
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_upper=sure,
        samples=draws,
        met=complete,
        info={**(info or {}), "successes": successes},
    )


def anytime_width(draws: int, delta: float) -> float:
    """How far the mean of 0/1 draws, or of draws in [0, 1], can be from its expectation, whenever one stops.

    A deadline stops after a number of draws that may depend on them, so one number of draws is not enough: for 2^i to
    2^(i + 1) draws Hoeffding's inequality holds for all of them together (it bounds a martingale), with the part
    delta / ((i + 1) (i + 2)) of delta, and these parts add up to delta.
    """
    if draws < 1:
        return 1.0
    i = draws.bit_length() - 1
    return min(1.0, math.sqrt(2.0 ** (i + 1) * math.log(2.0 * (i + 1) * (i + 2) / delta) / 2.0) / draws)


@dataclass(frozen=True, slots=True)
class SampledMarginals:
    """P(v | formula), float64[n], and the count that came with it; ``successes`` of the ``draws`` were models."""

    log_prob: float
    prob: FloatArray
    draws: int
    successes: int
    complete: bool
    log_scale: float
    """P(formula) is exp(log_scale) times the probability of a success."""


def sample_marginals(dnf: DNF, *, successes: int, seed: int, limit: Limit) -> SampledMarginals:
    """Marginals and count from one set of samples, drawn until there are so many successes.

    A success is distributed as the formula's posterior, however long one waited for it, so the marginals have no bias.
    A variable that a block never drew is independent of the outcome given what was drawn, so it counts with its prior:
    less variance, still no bias.
    """
    k = successes
    found = _native.sample(
        *dnf.arrays,
        seed=seed,
        successes=k,
        max_draws=UNLIMITED,
        threads=limit.threads,
        seconds=limit.seconds_left,
        estimator=0,
        marginals=True,
    )
    draws, total = found.draws, found.marginal_successes
    mean = (k - 1) / (draws - 1) if found.complete else found.successes / draws if draws else 0.5
    log_prob = min(0.0, found.log_scale + safe_log(mean))
    posterior = (found.true_count + (total - found.seen) * dnf.prob) / total if total else dnf.prob.copy()
    return SampledMarginals(log_prob, posterior, draws, found.successes, found.complete, found.log_scale)


def label(
    dnf: DNF, *, epsilon: float, delta: float, rng: np.random.Generator, marginals: bool = False
) -> tuple[float, FloatArray | None]:
    """A training label: (log P(formula), P(variable | formula) or None), single-threaded, formula as it is."""
    if dnf.num_clauses == 0:
        return -math.inf, None
    limit = Limit(threads=1)
    if marginals:
        k = successes_needed(epsilon, delta)
        found = sample_marginals(dnf, successes=k, seed=int(rng.integers(2**63)), limit=limit)
        return found.log_prob, found.prob
    estimate = sampling(dnf, guarantee="relative", epsilon=epsilon, delta=delta, rng=rng, limit=limit)
    return estimate.log_prob, None
