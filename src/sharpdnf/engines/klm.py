"""The paper's sampler: self-adjusting coverage (Karp, Luby, Madras, J. Algorithms 1989), to the letter."""

from __future__ import annotations

import math

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit

UNLIMITED = 2**62


def trials_needed(num_clauses: int, epsilon: float, delta: float) -> int:
    """How many trials the paper's rule asks for: tau = 8 (1 + epsilon) m ln(2 / delta) / epsilon^2."""
    if epsilon < 1e-9:  # tau would be beyond UNLIMITED, and epsilon^2 may round to 0
        return UNLIMITED
    return min(UNLIMITED, math.ceil(8.0 * (1.0 + epsilon) * num_clauses * math.log(2.0 / delta) / epsilon**2))


@engine(
    "klm", guarantees=("relative", "additive"), summary="the paper's Karp-Luby-Madras coverage sampler, to the letter"
)
def klm(dnf: DNF, *, guarantee: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit) -> Estimate:
    """The estimate tau S / (m N), clipped to 1.

    S is the sum of the clauses' probabilities, N how many samples the tau trials have completed.
    """
    tau = trials_needed(dnf.num_clauses, epsilon, delta)
    found = _native.klm(*dnf.arrays, trials=tau, seed=int(rng.integers(2**63)), seconds=limit.seconds_left)
    upper = min(0.0, found.log_sum)
    log_prob = upper
    if found.accepted:
        log_hits = math.log(found.trials) + found.log_sum
        log_prob = min(0.0, log_hits - math.log(dnf.num_clauses) - math.log(found.accepted))
    return Estimate(
        log_prob=log_prob,
        guarantee="relative" if found.complete else "none",
        engine="klm",
        epsilon=epsilon,
        delta=delta,
        log_lower=log_prob - math.log1p(epsilon) if found.complete else -math.inf,
        log_upper=min(0.0, log_prob - math.log1p(-epsilon)) if found.complete else upper,
        log_certified_upper=upper,
        samples=found.trials,
        met=found.complete,
        info={"trials": found.trials, "accepted": found.accepted, "log_sum": found.log_sum},
    )
