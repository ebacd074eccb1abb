"""``dtree``: exact and anytime, by decomposition (Olteanu, Huang, Koch, ICDE 2010).

A formula is split into independent parts (independent-or), common factors are taken out, products of smaller formulas
are recognised (the AND step of read-once factorisation, so read-once and hierarchical lineage takes polynomial time),
and otherwise the most frequent variable is set to true and to false (Shannon). Subformulas are memoised; open ones
carry certified bounds, and the one that contributes most to the gap is expanded next, so the bounds hold surely
(delta = 0) whenever the engine stops. Subformulas of few variables are solved by truth table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sharpdnf import _native
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit, exact_estimate

MAX_NODES = 2**62


@engine(
    "dtree",
    guarantees=("exact", "relative", "additive", "bounds"),
    summary="exact by decomposition and memo; certified bounds at every moment",
)
def dtree(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    nodes: int | None = None,
    work: int | None = None,
    tables: bool = True,
) -> Estimate:
    """Stops when exact, when the bounds meet ``epsilon`` (relative or additive), or at the limit.

    Exact is an interval that holds surely and is as wide as rounding may have made it, or at most 1e-12 of P where the
    tree was not finished; 1 - P is then known to 1e-10 of itself, if that takes no more than as much work again.
    ``nodes`` limits the expansions, ``work`` the literals looked at; ``tables=False`` decomposes subformulas of few
    variables too. For ``guarantee="bounds"`` it works until the limit.
    """
    if nodes is not None and nodes < 0:
        raise ValueError(f"nodes must not be negative, not {nodes}")
    found = _native.dtree(
        *dnf.arrays,
        MAX_NODES if nodes is None else max(nodes, 1),
        limit.seconds_left,
        limit.memory,
        epsilon if guarantee == "relative" else 0.0,
        epsilon if guarantee == "additive" else 0.0,
        MAX_NODES if work is None else max(work, 1),
        tables,
    )
    info: dict[str, Any] = {"nodes": found.nodes, "stopped": found.stopped}
    log_lower, log_upper = found.log_lower, found.log_upper
    if found.exact:
        return exact_estimate(
            log_midpoint(log_lower, log_upper),
            "dtree",
            log_lower=log_lower,
            log_upper=log_upper,
            log_complement=log_midpoint(found.log_complement_lower, found.log_complement_upper),
            delta=0.0,
            info=info,
            log_complement_lower=found.log_complement_lower,
            log_complement_upper=found.log_complement_upper,
        )
    log_prob = log_midpoint(log_lower, log_upper, guarantee)
    met = guarantee in ("bounds", "none") or bounds_meet(log_lower, log_upper, guarantee, epsilon)
    promise = guarantee if met and guarantee != "none" else "bounds"
    return Estimate(
        log_prob=log_prob,
        guarantee=promise,
        engine="dtree",
        epsilon=None if promise == "bounds" else epsilon,
        delta=0.0,
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        met=met,
        info=info,
        log_complement_lower=found.log_complement_lower,
        log_complement_upper=found.log_complement_upper,
    )


def bounds_meet(log_lower: float, log_upper: float, guarantee: str, epsilon: float) -> bool:
    """Whether the best point of the interval is surely within epsilon: (u - l) / (u + l), or (u - l) / 2."""
    if guarantee == "relative":
        ratio = math.exp(log_lower - log_upper) if log_upper > -math.inf else 1.0
        return (1.0 - ratio) / (1.0 + ratio) <= epsilon
    if guarantee == "additive":
        return (math.exp(log_upper) - math.exp(log_lower)) / 2.0 <= epsilon
    return False


def compile(
    dnf: DNF,
    limit: Limit | None = None,
    *,
    nodes: int | None = None,
    work: int | None = None,
    tables: bool = True,
) -> Compiled | None:
    """The d-tree of the formula as a circuit, good for any probabilities; None if a limit is met first.

    Only the clauses matter: the probabilities of ``dnf`` are not looked at. ``nodes`` limits the expansions, ``work``
    the literals looked at.
    """
    limit = limit or Limit()
    budgets = [MAX_NODES if budget is None else budget for budget in (nodes, work)]
    found = _native.dtree_compile(*dnf.arrays, budgets[0], limit.seconds_left, limit.memory, budgets[1], tables)
    return Compiled.from_native(found, dnf.num_vars)
