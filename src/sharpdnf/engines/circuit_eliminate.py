"""Circuits of small width, exactly: bucket elimination over the gates.

Every gate is a variable that its inputs decide, so it is a factor of zeros and ones over its inputs and itself; wide
gates are chains of gates with two inputs, "at least k" is a sequential counter. The sum over all assignments of the
product of these factors and the variables' probabilities, with the output fixed to true, is the probability; fixed to
false, that of the complement. The cost is known before it starts (``engines/exact.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharpdnf.circuit import AND, ATLEAST, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.circuit_formats import lower
from sharpdnf.engines.exact import eliminate_factors
from sharpdnf.estimate import UNIT, Estimate, Limit, exact_estimate, log1mexp, log1mexp_towards

MOST_FACTORS = 200_000
"""The most gates of two inputs for which elimination is tried: with more, even finding an order takes long."""


def eliminate_circuit(circuit: Circuit, limit: Limit, operations: float) -> Estimate | None:
    """The exact answer if elimination takes at most so many operations, else None."""
    if _gates_of_two(circuit) > MOST_FACTORS:
        return None
    scopes, tables, weights, (root, negated) = factors_of(lower(circuit))
    logs = []
    for value in (True, False):
        fixed = np.array(weights)
        fixed[root, int(value == negated) ^ 1] = 0.0
        found = eliminate_factors(scopes, tables, fixed, limit, operations=operations)
        if found is None:
            return None
        logs.append(min(0.0, found[0]))
    # Sums and products of positive numbers make a few roundings per factor.
    slack = 16.0 * UNIT * (len(scopes) + 16)
    ends = [(log * (1.0 + 8.0 * UNIT) - slack, min(0.0, log * (1.0 - 8.0 * UNIT) + slack)) for log in logs]
    complement: dict[str, Any] = {"log_complement_lower": ends[1][0], "log_complement_upper": ends[1][1]}
    if logs[0] > -1e-3:  # near 1 the complement has the digits
        logs[0], ends[0] = log1mexp(logs[1]), (log1mexp_towards(ends[1][1], -1), log1mexp_towards(ends[1][0], 1))
    return exact_estimate(
        logs[0],
        "eliminate",
        log_lower=ends[0][0],
        log_upper=ends[0][1],
        log_complement=logs[1] if logs[1] < -1e-3 else log1mexp(logs[0]),
        delta=0.0,
        info={"factors": len(scopes)},
        **complement,
    )


def _gates_of_two(circuit: Circuit) -> int:
    """About how many gates of two inputs the circuit needs."""
    widths = np.diff(circuit.indptr)
    counted = circuit.kind == ATLEAST
    rows = np.minimum(circuit.arg, widths - circuit.arg + 1)
    return int(widths.sum() + 3 * np.sum(np.where(counted & (rows > 1), widths * rows, 0)))


Factors = tuple[list[list[int]], list[list[float]], list[list[float]], tuple[int, bool]]


def factors_of(circuit: Circuit) -> Factors:
    """(scopes, tables, weights, the output as (variable, negated)) of a circuit without at-least gates.

    Bit j of a table's index is variable j of its scope; the first weight of a variable is that of true.
    """
    needed = np.zeros(circuit.num_gates, np.bool_)
    root = int(circuit.outputs[0])
    needed[root] = True
    bounds, inputs = circuit.indptr.tolist(), circuit.inputs.tolist()
    for g in range(root, -1, -1):
        if needed[g]:
            needed[inputs[bounds[g] : bounds[g + 1]]] = True
    scopes: list[list[int]] = []
    tables: list[list[float]] = []
    weights: list[list[float]] = []
    of_var: dict[int, int] = {}
    ref: dict[int, tuple[int, bool]] = {}

    def new(true: float, false: float) -> int:
        weights.append([true, false])
        return len(weights) - 1

    def join(left: tuple[int, bool], right: tuple[int, bool], is_and: bool) -> tuple[int, bool]:
        if left[0] == right[0]:  # the same variable twice, or against itself
            return left if left[1] == right[1] else (new(0.0, 1.0) if is_and else new(1.0, 0.0), False)
        out = new(1.0, 1.0)
        scopes.append([left[0], right[0], out])
        sides = [((e & 1 != 0) != left[1], (e >> 1 & 1 != 0) != right[1], e >> 2 == 1) for e in range(8)]
        tables.append([float(((a and b) if is_and else (a or b)) == t) for a, b, t in sides])
        return out, False

    for g in np.flatnonzero(needed).tolist():
        kind, read = int(circuit.kind[g]), [ref[i] for i in inputs[bounds[g] : bounds[g + 1]]]
        if kind == VAR:
            v = int(circuit.arg[g])
            if v not in of_var:
                of_var[v] = new(float(circuit.prob[v]), 1.0 - float(circuit.prob[v]))
            ref[g] = (of_var[v], False)
        elif kind == NOT:
            ref[g] = (read[0][0], not read[0][1])
        elif kind in (AND, OR) and read:
            value = read[0]
            for other in read[1:]:
                value = join(value, other, kind == AND)
            ref[g] = value
        else:
            ref[g] = (new(1.0, 0.0) if kind in (TRUE, AND) else new(0.0, 1.0), False)
    return scopes, tables, weights, ref[root]
