"""A deterministic linear-time approximation without a guarantee: the baseline every learned model must beat.

Condition on the K most influential variables, a variable's influence being the summed probability of its clauses,
and treat clauses as independent in each of the 2^K cases (``native/conditioned.hpp``).
"""

from __future__ import annotations

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit

MAX_VARIABLES = 12


def approximate(dnf: DNF, variables: int = 8) -> float:
    """log of the approximation for a formula with at least one clause; ``variables=0`` is 1 - prod(1 - p(C))."""
    if not 0 <= variables <= MAX_VARIABLES:
        raise ValueError(f"variables must lie between 0 and {MAX_VARIABLES}, not {variables}")
    log_prob: float = _native.conditioned(*dnf.arrays, variables=variables)
    return log_prob


@engine(
    "conditioned",
    guarantees=("none",),
    summary="condition on K influential variables, clauses independent in each case",
)
def conditioned(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    variables: int = 8,
) -> Estimate:
    return Estimate(
        log_prob=approximate(dnf, variables),
        guarantee="none",
        engine="conditioned",
        info={"variables": min(variables, dnf.num_vars)},
    )
