"""``lbp``: loopy belief propagation with the Bethe free energy, a baseline without guarantee.

The negation of the formula is a factor graph: a variable has its probability as a prior, and a clause is a factor that
forbids all its literals to be true at once. With q(v -> C) the cavity probability that v satisfies its literal of C and
a(C -> v) = prod over the other variables u of C of q(u -> C), the fixed point of

    q(v -> C) = p A / (p A + (1 - p) B),    A, B = prod of (1 - a) over the other clauses that want v so, or otherwise

gives log Z = sum_C log(1 - prod q) + sum_v log Z_v - sum_(C, v) log(1 - q a), and P(formula) = 1 - Z (Yedidia, Freeman,
Weiss 2005). It is exact if the factor graph is a forest.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.estimate import Estimate, Limit, log1mexp

TINY = 1e-300
SECONDS_PER_LITERAL = 2e-7
"""About how long one iteration takes, to know whether another one fits before the deadline."""


@engine("lbp", guarantees=("none",), summary="loopy belief propagation (Bethe), a baseline without guarantee")
def lbp(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    iterations: int = 200,
    damping: float = 0.3,
    tolerance: float = 1e-8,
) -> Estimate:
    """The Bethe estimate, clipped to the certified bounds; ``info`` says whether the messages converged.

    At the deadline it is that of the messages so far; before the first of them, the middle of the bounds.
    """
    if not 0.0 <= damping < 1.0:
        raise ValueError(f"damping must lie in [0, 1), not {damping}")
    if iterations < 1:
        raise ValueError(f"iterations must be positive, not {iterations}")
    # Turning messages into an answer costs about an iteration, so time for one must be left. How long an iteration
    # takes is guessed from the size of the formula before the first, and measured after it.
    change, done, step = math.inf, 0, SECONDS_PER_LITERAL * dnf.num_literals
    log_z = 0.0
    if limit.seconds_left > 2.0 * step:
        started = time.monotonic()
        clause_of_edge = np.repeat(np.arange(dnf.num_clauses), dnf.widths)
        prior = np.where(dnf.literals & 1, 1.0 - dnf.prob[dnf.literals >> 1], dnf.prob[dnf.literals >> 1])
        a = _others(np.log(np.maximum(prior, TINY)), clause_of_edge)
        with np.errstate(divide="ignore"):
            log_odds = np.log1p(-prior) - np.log(prior)
        while done < iterations and change > tolerance and limit.seconds_left > 2.0 * step:
            new = (1.0 - damping) * _others(_cavity(dnf, log_odds, a), clause_of_edge) + damping * a
            change = float(np.max(np.abs(new - a), initial=0.0))
            a = new
            done += 1
            now = time.monotonic()
            started, step = now, now - started
        if done:
            log_z = _bethe(dnf, _cavity(dnf, log_odds, a), a, clause_of_edge)
    log_lower, log_upper = certified_bounds(dnf, seconds=limit.seconds_left)
    log_prob = log_midpoint(log_lower, log_upper)
    if done:
        log_prob = log1mexp(log_z) if log_z < -TINY else log_lower
    info: dict[str, Any] = {
        "converged": change <= tolerance,
        "iterations": done,
        "change": change,
        "clipped": not log_lower <= log_prob <= log_upper,
    }
    return Estimate(
        log_prob=min(max(log_prob, log_lower), log_upper),
        guarantee="none",
        engine="lbp",
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        met=change <= tolerance or done == iterations,
        info=info,
    )


def _others(log_q: FloatArray, clause_of_edge: npt.NDArray[np.int64]) -> FloatArray:
    """a(C -> v), one per edge: the product of q over the clause's other edges."""
    total = np.bincount(clause_of_edge, weights=log_q)
    out: FloatArray = np.exp(total[clause_of_edge] - log_q)
    return np.minimum(out, 1.0)


def _log_keep(a: FloatArray) -> FloatArray:
    return np.log(np.maximum(1.0 - a, TINY)) if np.any(a >= 1.0) else np.log1p(-a)


def _cavity(dnf: DNF, log_odds: FloatArray, a: FloatArray) -> FloatArray:
    """log q(v -> C), one per edge; ``log_odds`` are those of the prior against the literal."""
    log_keep = _log_keep(a)
    by_literal = np.bincount(dnf.literals, weights=log_keep, minlength=2 * dnf.num_vars)
    against = log_odds + log_keep + (by_literal[dnf.literals ^ 1] - by_literal[dnf.literals])
    with np.errstate(over="ignore"):
        out: FloatArray = -np.log1p(np.exp(against))
    return np.maximum(out, math.log(TINY))


def _bethe(dnf: DNF, log_q: FloatArray, a: FloatArray, clause_of_edge: npt.NDArray[np.int64]) -> float:
    """log Z, in a form that keeps small probabilities: every term is log(1 - something)."""
    log_clause = np.bincount(clause_of_edge, weights=log_q)
    clauses = np.sum(_log_keep(np.exp(np.minimum(log_clause, 0.0))))
    by_literal = np.bincount(dnf.literals, weights=_log_keep(a), minlength=2 * dnf.num_vars)
    lost = dnf.prob * np.expm1(by_literal[::2]) + (1.0 - dnf.prob) * np.expm1(by_literal[1::2])
    variables = np.sum(np.log1p(np.maximum(lost, TINY - 1.0)))
    edges = np.sum(_log_keep(np.exp(log_q) * a))
    return float(clauses + variables - edges)
