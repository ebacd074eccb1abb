"""``exact``: the one front for exact answers, several methods under it, chosen by predicted operations.

Variables that cannot be told apart are merged first (lifting). Then the methods compete: ``eliminate`` sums variables
out along a min-fill order and knows its cost beforehand (Dechter 1999); ``shannon-kinds``, ``shannon-tree`` and
``shannon-force`` expand variables in a fixed order with a memo of subformulas and of independent parts, where the order
keeps few kinds of open clauses, follows a tree decomposition, or keeps clauses short (FORCE); ``dtree`` expands where
the gap is widest. ``hierarchy`` needs one pass where common literals and independent parts are enough. The methods that
cannot foresee their cost run in rounds, each with eight times the operations of the last; elimination runs in the round
that can bear its cost. The choice counts operations and never looks at the clock.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sharpdnf import _native
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit, exact_estimate, log1mexp

METHODS = ("auto", "hierarchy", "eliminate", "shannon-kinds", "shannon-tree", "shannon-force", "dtree")


@engine(
    "exact",
    guarantees=("exact",),
    summary="exact by the cheapest of elimination, ordered Shannon expansion and d-tree; certified bounds at the limit",
)
def exact(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    method: str = "auto",
    operations: float | None = None,
) -> Estimate:
    """The exact answer, or certified bounds at the limit of time, memory or ``operations``.

    ``method`` names one of ``METHODS`` to be used alone. ``info`` tells the method that solved it, its operations,
    the nodes it expanded, and log(1 - P), which keeps its precision where P is close to 1.
    """
    check_method(method)
    solved, log_prob, log_miss, chosen, nodes, spent, stopped = _native.exact(
        *dnf.arrays, method, _allowed(operations), limit.seconds_left, limit.memory, limit.threads
    )
    info: dict[str, Any] = {"method": chosen, "nodes": nodes, "operations": spent, "stopped": stopped}
    if solved:
        return exact_estimate(log_prob, "exact", delta=0.0, info={**info, "log_miss": log_miss})
    return _interval(dnf, log_prob, log1mexp(log_miss), limit, {"method": method, "stopped": stopped})


def _interval(dnf: DNF, log_lower: float, log_upper: float, limit: Limit, info: dict[str, Any]) -> Estimate:
    """What is sure at the limit: the methods' own bounds, widened by rounding, and those of one pass."""
    sure_lower, sure_upper = certified_bounds(dnf, seconds=limit.seconds_left)
    log_lower, log_upper = max(log_lower - 1e-12, sure_lower), min(log_upper + 1e-12, sure_upper, 0.0)
    return Estimate(
        log_prob=log_midpoint(log_lower, log_upper),
        guarantee="bounds",
        engine="exact",
        delta=0.0,
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        met=False,
        info=info,
    )


def elimination_operations(dnf: DNF, limit: Limit | None = None, *, most: float = 1e6) -> float:
    """The operations that elimination will take, about a nanosecond each; inf if they are more than ``most``."""
    limit = limit or Limit()
    predicted, _, needed = _native.elimination_operations(*dnf.arrays, most, limit.seconds_left)
    return float(predicted) if needed <= limit.memory else math.inf


def compile(
    dnf: DNF, limit: Limit | None = None, *, method: str = "auto", operations: float | None = None
) -> Compiled | None:
    """A circuit good for any probabilities, the smallest that the methods find; None if a limit is met first.

    The formula has at least one clause and no empty one. Only the clauses matter: the probabilities of ``dnf`` are not
    looked at. ``operations`` limits the work of each method.
    """
    check_method(method)
    limit = limit or Limit()
    arrays = _native.exact_compile(*dnf.arrays, method, _allowed(operations), limit.seconds_left, limit.memory)
    if arrays is None:
        return None
    kind, a, b, var, literals, _ = arrays
    return Compiled(kind, a, b, var, literals, dnf.num_vars)


def check_method(method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")


def _allowed(operations: float | None) -> float:
    if operations is None:
        return math.inf
    if not operations >= 0:
        raise ValueError(f"operations must not be negative, not {operations}")
    return float(operations)
