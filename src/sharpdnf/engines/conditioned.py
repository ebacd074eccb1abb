"""A deterministic linear-time approximation without a guarantee: the baseline every learned model must beat.

Condition on the K most influential variables, a variable's influence being the summed probability of its clauses,
and treat clauses as independent in each of the 2^K cases (``native/kernels/conditioned.hpp``).
"""

from __future__ import annotations

import math

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit

MAX_VARIABLES = 12


def approximate(dnf: DNF, variables: int = 8, seconds: float = math.inf) -> float | None:
    """The logarithm of the approximation for a formula with clauses, or None if there was no time for it.

    With ``variables=0`` it is that of 1 - prod(1 - p(C)), as if all clauses were independent.
    """
    if not 0 <= variables <= MAX_VARIABLES:
        raise ValueError(f"variables must lie between 0 and {MAX_VARIABLES}, not {variables}")
    log_prob = _native.conditioned(*dnf.arrays, variables=variables, seconds=seconds)
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
    log_prob = approximate(dnf, variables, limit.seconds_left)
    return Estimate(
        log_prob=math.log(0.5) if log_prob is None else log_prob,
        guarantee="none",
        engine="conditioned",
        met=log_prob is not None,
        info={"variables": min(variables, dnf.num_vars)},
    )
