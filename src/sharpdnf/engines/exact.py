"""``exact``: the one front for exact answers, several methods under it, chosen by predicted operations.

Variables that cannot be told apart are merged first (lifting). Then the methods compete: ``eliminate`` sums variables
out along a min-fill order and knows its cost beforehand (Dechter 1999); ``incidence`` does so along the graph of
clauses and variables, in which a clause of many literals is a single node; ``shannon-kinds``, ``shannon-tree`` and
``shannon-force`` expand variables in a fixed order with a memo of subformulas and of independent parts, where the order
keeps few kinds of open clauses, follows a tree decomposition, or keeps clauses short (FORCE); ``diagram-kinds`` and
``diagram-sifted`` do the same on sets of clauses stored as decision diagrams, without parts, the latter in the best
order that sifting finds; ``dtree`` expands where the gap is widest. ``hierarchy`` needs one pass where common literals
and independent parts are enough. The methods that cannot foresee their cost run in rounds, each with twice the
operations of the last, and the one that has come furthest for its operations goes ahead of the others; elimination runs
in the round that can bear its cost. The choice counts operations and never looks at the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.compiled import FALSE, TRUE, Compiled
from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit, exact_estimate
from sharpdnf.simplify import trivial_log_prob

METHODS = (
    "auto",
    "hierarchy",
    "eliminate",
    "incidence",
    "diagram-kinds",
    "diagram-sifted",
    "shannon-kinds",
    "shannon-tree",
    "shannon-force",
    "dtree",
)


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

    ``method`` names one of ``METHODS`` to be used alone. The interval of an exact answer is as wide as rounding may
    have made it, for P and for 1 - P. ``info`` tells the method that solved it, its operations and the nodes it
    expanded.
    """
    check_method(method)
    found = _native.exact(*dnf.arrays, method, _allowed(operations), limit.seconds_left, limit.memory, limit.threads)
    if found.solved:
        return exact_estimate(
            log_midpoint(found.log_lower, found.log_upper),
            "exact",
            log_lower=found.log_lower,
            log_upper=found.log_upper,
            log_complement=log_midpoint(found.log_complement_lower, found.log_complement_upper),
            log_complement_lower=found.log_complement_lower,
            log_complement_upper=found.log_complement_upper,
            delta=0.0,
            info={
                "method": found.method,
                "nodes": found.nodes,
                "operations": found.operations,
                "stopped": found.stopped,
            },
        )
    sure_lower, sure_upper = certified_bounds(dnf, seconds=limit.seconds_left)
    log_lower, log_upper = max(found.log_lower, sure_lower), min(found.log_upper, sure_upper)
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
        info={"method": method, "stopped": found.stopped},
    )


def elimination_operations(dnf: DNF, limit: Limit | None = None, *, most: float = 1e6) -> float:
    """The operations that elimination will take, about a nanosecond each; inf if they are more than ``most``."""
    limit = limit or Limit()
    cost = _native.elimination_operations(*dnf.arrays, most, limit.seconds_left)
    return cost.operations if cost.bytes <= limit.memory else math.inf


def compile(
    dnf: DNF, limit: Limit | None = None, *, method: str = "auto", operations: float | None = None
) -> Compiled | None:
    """A circuit good for any probabilities, the smallest that the methods find; None if a limit is met first.

    Only the clauses matter: the probabilities of ``dnf`` are not looked at. ``operations`` limits the work of each
    method. ``hierarchy`` and ``incidence`` find numbers and no circuits: asked for alone, they give None.
    """
    check_method(method)
    limit = limit or Limit()
    log_prob = trivial_log_prob(dnf)
    if log_prob is not None:
        none = np.zeros(1, dtype=np.int32)
        kind = np.array([FALSE if log_prob else TRUE], dtype=np.uint8)
        return Compiled(kind, none, none, none, np.empty(0, dtype=np.int32), dnf.num_vars)
    found = _native.exact_compile(*dnf.arrays, method, _allowed(operations), limit.seconds_left, limit.memory)
    return Compiled.from_native(found, dnf.num_vars)


def eliminate_factors(
    scopes: Sequence[Sequence[int]],
    tables: Sequence[npt.ArrayLike],
    weights: npt.ArrayLike,
    limit: Limit | None = None,
    *,
    operations: float = 2.0**36,
) -> tuple[float, float] | None:
    """Sums the product of factors and weights over all assignments: (log of the sum, operations); None at a limit.

    Factor i is over the variables ``scopes[i]``; entry e of ``tables[i]``, of 2^width entries, is its value where
    variable ``scopes[i][j]`` is bit j of e. ``weights``, shape (n, 2), are those of each variable being true and
    false. So the gates of a circuit are factors of 0 and 1 over their inputs and their output (weights 1, 1). Nothing
    may be negative: sums and products of positive numbers keep their precision.
    """
    limit = limit or Limit()
    start = np.cumsum([0, *(len(scope) for scope in scopes)], dtype=np.int64)
    flat = np.array([v for scope in scopes for v in scope], dtype=np.int32)
    pieces = [np.asarray(table, dtype=np.float64).ravel() for table in tables]
    entries = np.concatenate(pieces) if pieces else np.empty(0)
    pairs = np.ascontiguousarray(weights, dtype=np.float64).reshape(-1)
    return _native.eliminate_factors(
        start, flat, entries, pairs, operations, limit.seconds_left, limit.memory, limit.threads
    )


def check_method(method: str) -> None:
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")


def _allowed(operations: float | None) -> float:
    if operations is None:
        return math.inf
    if not operations >= 0:
        raise ValueError(f"operations must not be negative, not {operations}")
    return float(operations)
