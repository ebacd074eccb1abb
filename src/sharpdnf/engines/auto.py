"""``auto``: asks for a guarantee, not for a method. Choices count operations, never seconds.

1. certified bounds in one pass (two where sampling would need many draws): if the interval is narrow enough for
   epsilon, that is the answer, delta = 0;
2. for formulas that are not large, a d-tree with a budget of about what sampling would cost: exact, or bounds within
   epsilon, delta = 0;
3. sampling, clipped to the certified bounds.
"""

from __future__ import annotations

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import bounds, log_midpoint
from sharpdnf.engines.conditioned import conditioned
from sharpdnf.engines.dtree import bounds_meet, dtree
from sharpdnf.engines.registry import engine
from sharpdnf.engines.sampling import sampling, successes_needed
from sharpdnf.estimate import Estimate, Limit

WORK_PER_LITERAL, WORK_AT_LEAST, TREE_LITERALS = 4, 20_000, 20_000
PAIRS_PAY_DRAWS, PAIRS_PAY_CLAUSES = 1_500, 300
"""The pairwise bounds cost about what this many draws cost; for so few clauses they cost nothing to speak of."""


@engine(
    "auto",
    guarantees=("relative", "additive", "exact", "bounds", "none"),
    summary="the cheapest engine that keeps the promise",
)
def auto(dnf: DNF, *, guarantee: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit) -> Estimate:
    asked = {"guarantee": guarantee, "epsilon": epsilon, "delta": delta, "rng": rng, "limit": limit}
    if guarantee == "exact":
        return _because(dtree(dnf, **asked), "exact was asked for")
    if guarantee == "none":
        return _because(conditioned(dnf, **asked), "no guarantee was asked for")
    if guarantee == "bounds":
        return _because(bounds(dnf, **asked), "an interval was asked for")
    interval = bounds(dnf, pairs=_pairs_pay(dnf, epsilon, delta), **asked)
    if bounds_meet(interval.log_lower, interval.log_upper, guarantee, epsilon):
        met = interval.replace(guarantee=guarantee, epsilon=epsilon, delta=0.0)
        return _because(met, "the certified bounds are within epsilon")
    lower, upper = interval.log_lower, interval.log_upper
    if dnf.num_literals <= TREE_LITERALS:
        tree = dtree(dnf, work=WORK_PER_LITERAL * dnf.num_literals + WORK_AT_LEAST, **asked)
        if tree.met:
            return _because(tree, "a small d-tree decides it")
        lower, upper = max(lower, tree.log_lower), min(upper, tree.log_upper)
    return _because(clip(sampling(dnf, **asked), lower, upper), "certified bounds were too wide")


def _pairs_pay(dnf: DNF, epsilon: float, delta: float) -> bool:
    return dnf.num_clauses <= PAIRS_PAY_CLAUSES or successes_needed(epsilon, delta) >= PAIRS_PAY_DRAWS


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


def _because(estimate: Estimate, reason: str) -> Estimate:
    return estimate.replace(info={**estimate.info, "chosen": estimate.engine, "why": reason})
