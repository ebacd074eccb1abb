"""Importance of the basic events of a fault tree: exactly from one backward pass, or from samples of the top event.

With Q = P(top), p = P(event) and m = P(event | top), Bayes' rule gives P(top | event) = m Q / p and P(top | not event)
= (1 - m) Q / (1 - p). So samples of the worlds in which the top event happens, which counting it makes anyway, give
every measure of every event at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sharpdnf.analysis import posterior
from sharpdnf.circuit import Circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.engines.front import Seed
from sharpdnf.engines.many import count_many
from sharpdnf.errors import LimitError
from sharpdnf.estimate import Limit
from sharpdnf.fronts.cutsets import find_cut_sets, is_coherent

Table = dict[str, Any]
UNION_LITERALS = 200_000
"""Fussell-Vesely is the probability of the cut sets with an event, counted, if all of them have at most this many
literals together; beyond it, 1 - P(top | event does not happen) / P(top)."""
SHORT = "1 - P0/Q"


def exact_importance(circuit: Circuit, compiled: Compiled, limit: Limit) -> Table:
    """The columns that ``FaultTree.importance`` tells of, most critical first."""
    p = circuit.prob
    log_q, slope = compiled.log_gradient(p)
    _, birnbaum = compiled.gradient(p)
    possible = log_q > -math.inf
    critical = p * slope if possible else np.full(len(p), math.nan)
    without, given = 1.0 - critical, 1.0 + (1.0 - p) * slope if possible else critical
    # Differences of numbers that nearly cancel are asked for once more, each as a probability of its own.
    for ratio, value in ((without, 0.0), (given, 1.0)):
        for v in np.flatnonzero(np.abs(ratio) < 0.5).tolist():
            ratio[v] = math.exp(float(compiled.evaluate(_changed(p, v, value))[0]) - log_q)
    vesely, by = _fussell_vesely(circuit, log_q, without, limit)
    return _table(circuit, birnbaum, critical, vesely, by, given, without, np.zeros(len(p)))


def sampled_importance(circuit: Circuit, epsilon: float, delta: float, rng: Seed, limit: Limit) -> Table:
    """The same from samples; ``error`` is one standard error of the criticality. A LimitError if none came in time."""
    left = None if math.isinf(limit.deadline) else limit.seconds_left
    found = posterior(circuit, epsilon=epsilon, delta=delta, rng=rng, timeout=left, exact=False)
    if not np.isfinite(found.log_prob):
        raise LimitError("the top event never happened within the limits: raise timeout=, or ask for its probability")
    p, m = circuit.prob, found.prob
    with np.errstate(divide="ignore", invalid="ignore"):
        given, without = m / p, (1.0 - m) / (1.0 - p)
        birnbaum = math.exp(found.log_prob) * (given - without)
        error = found.std_error / (1.0 - p)
    return _table(circuit, birnbaum, 1.0 - without, 1.0 - without, SHORT, given, without, error)


def _table(
    circuit: Circuit,
    birnbaum: FloatArray,
    critical: FloatArray,
    vesely: FloatArray,
    by: str,
    given: FloatArray,
    without: FloatArray,
    error: FloatArray,
) -> Table:
    with np.errstate(divide="ignore"):
        columns: Table = {
            "event": np.array(circuit.names or (), dtype=object),
            "prob": circuit.prob,
            "birnbaum": birnbaum,
            "criticality": critical,
            "fussell_vesely": vesely,
            "fussell_vesely_by": np.full(circuit.num_vars, by, dtype=object),
            "raw": given,
            "rrw": 1.0 / without,
            "error": error,
        }
    order = np.argsort(-np.nan_to_num(critical), kind="stable")
    return {key: column[order] for key, column in columns.items()}


def _fussell_vesely(circuit: Circuit, log_q: float, without: FloatArray, limit: Limit) -> tuple[FloatArray, str]:
    """The Fussell-Vesely importance of every event, and how it was found."""
    short = 1.0 - without, SHORT
    if log_q == -math.inf or not is_coherent(circuit) or circuit.num_vars == 0:
        return short
    try:
        found = find_cut_sets(circuit, limit=limit, max_nodes=UNION_LITERALS)
    except LimitError:
        return short
    total = found.count()
    if total * 2 > UNION_LITERALS:
        return short
    sets = [variables for variables, _ in found.likeliest()]
    if sum(len(s) ** 2 for s in sets) > UNION_LITERALS:
        return short
    holding: list[list[list[int]]] = [[] for _ in range(circuit.num_vars)]
    for s in sets:
        for v in s:
            holding[v].append([u + 1 for u in s])
    dnfs = [DNF.from_clauses(clauses, num_vars=circuit.num_vars, prob=circuit.prob) for clauses in holding]
    left = None if math.isinf(limit.deadline) else limit.seconds_left
    table = count_many(dnfs, guarantee="exact", timeout=left)
    if not np.all(table["met"]):
        return short
    return np.exp(np.asarray(table["log_prob"]) - log_q), "cut sets"


def _changed(prob: FloatArray, v: int, value: float) -> FloatArray:
    out = prob.copy()
    out[v] = value
    return out
