"""``bounds``: an interval that surely holds the answer, in one or two passes.

With clause probabilities p(C) and S their sum:

* Below: the largest p(C). And 1 - prod(1 - p(C)) over clauses that share no variable, chosen greedily from the
  largest down: they are independent events inside the union.
* Above: S (union bound). If the formula is unate (no variable with both signs), also 1 - prod(1 - p(C)) over all
  clauses. Proof: flip variables until every literal is positive. Each event "not C" is then decreasing in the product
  space of the independent variables, and decreasing events are positively correlated (Harris 1960, a case of FKG), by
  induction P(no C) >= prod P(not C). Hence P = 1 - P(no C) <= 1 - prod(1 - p(C)).
* Where S < 2, with S2 the sum of P(C and D) over all pairs, if counting the pairs that share a variable costs little
  (the others are a closed form): below, Dawson and Sankoff (1967), which is never worse than Bonferroni's S - S2, and
  de Caen (1997), sum over C of p(C)^2 / sum over D of P(C and D); above, Kounias (1968), S - max over C of the sum
  over D != C of P(C and D).

Dissociation is not used: nothing here rests on a claim that is not proved or cited. Every step is
rounded outwards (``native/kernels/chance.hpp``), on the side of P or of 1 - P that is smaller, so the interval holds
whatever rounding does and is narrow near 0 and near 1.
"""

from __future__ import annotations

import math

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit

PAIRS_PER_LITERAL, MAX_PAIRS = 16, 20_000_000
"""The second pass may look at 100,000 pairs of clauses and PAIRS_PER_LITERAL more per literal, but never more than
MAX_PAIRS, so that it stays linear in the size of the formula."""


def certified_bounds(dnf: DNF, *, pairs: bool = True, seconds: float = math.inf) -> tuple[float, float]:
    """(log lower, log upper) that hold surely. After ``seconds`` only one pass is made: largest clause and union."""
    found = _interval(dnf, pairs, seconds)
    return found.log_lower, found.log_upper


def _interval(dnf: DNF, pairs: bool, seconds: float) -> _native.Interval:
    budget = min(PAIRS_PER_LITERAL * dnf.num_literals + 100_000, MAX_PAIRS) if pairs else 0
    return _native.certified_bounds(*dnf.arrays, budget, seconds)


def log_midpoint(log_lower: float, log_upper: float, guarantee: str = "relative") -> float:
    """The point that errs least against both ends: by (u - l) / (u + l), or by (u - l) / 2 where additive is asked.

    That is the log of the harmonic mean, or of the mean. Near 1 it has the digits of 1 - P.
    """
    if log_upper == -math.inf:
        return -math.inf
    half = math.log1p(math.expm1(log_lower - log_upper) / 2.0)  # log((1 + lower / upper) / 2)
    if guarantee == "additive":
        return log_upper + half
    return log_lower - half if log_lower > -math.inf else log_upper - math.log(2.0)


def clip(estimate: Estimate, log_lower: float, log_upper: float) -> Estimate:
    """Moves the answer and its interval into certified bounds: towards the truth, so every promise survives.

    An engine that had no time for a single draw has no answer of its own: it gets the middle of the bounds.
    """
    if not estimate.met and estimate.samples == 0:
        estimate = estimate.replace(log_prob=log_midpoint(log_lower, log_upper))

    def inside(x: float) -> float:
        return min(max(x, log_lower), log_upper)

    return estimate.replace(
        log_prob=inside(estimate.log_prob),
        log_lower=inside(estimate.log_lower),
        log_upper=inside(estimate.log_upper),
        log_certified_lower=max(estimate.log_certified_lower, log_lower),
        log_certified_upper=min(estimate.log_certified_upper, log_upper),
    )


@engine("bounds", guarantees=("bounds",), summary="certified interval in one or two passes, no sampling")
def bounds(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    pairs: bool = True,
) -> Estimate:
    """The interval; the point inside it promises nothing. ``pairs=False`` keeps to one pass."""
    found = _interval(dnf, pairs, limit.seconds_left)
    return Estimate(
        log_prob=log_midpoint(found.log_lower, found.log_upper, guarantee),
        guarantee="bounds",
        engine="bounds",
        log_lower=found.log_lower,
        log_upper=found.log_upper,
        log_certified_lower=found.log_lower,
        log_certified_upper=found.log_upper,
        log_complement_lower=found.log_complement_lower,
        log_complement_upper=found.log_complement_upper,
        info={"unate": found.unate, "pairs": found.pairs},
    )
