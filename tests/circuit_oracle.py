"""Random small circuits and their enumeration, which shares no code with the engines or with Circuit.evaluate."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
from oracle import log_fraction

from sharpdnf import Circuit
from sharpdnf.circuit import AND, ATLEAST, FALSE, NOT, OR, TRUE, VAR


def random_circuit(
    rng: np.random.Generator, *, max_vars: int = 7, max_gates: int = 12, outputs: int = 1, plain: bool = False
) -> Circuit:
    """Gates of all kinds over a few variables, read at random; unless ``plain``, some probabilities are 0 or 1."""
    n = int(rng.integers(1, max_vars + 1))
    kind, arg, rows = [VAR] * n, list(range(n)), [[] for _ in range(n)]
    for _ in range(int(rng.integers(1, max_gates + 1))):
        chosen = int(rng.choice([FALSE, TRUE, NOT, AND, OR, ATLEAST], p=[0.02, 0.02, 0.21, 0.25, 0.25, 0.25]))
        width = 0 if chosen <= TRUE else 1 if chosen == NOT else int(rng.integers(0, 6))
        read = rng.integers(max(0, len(kind) - n - 4), len(kind), width).tolist()
        kind.append(chosen)
        arg.append(int(rng.integers(-1, width + 2)) if chosen == ATLEAST else 0)
        rows.append(read)
    prob = rng.random(n) if plain else np.where(rng.random(n) < 0.15, rng.integers(0, 2, n), rng.random(n))
    indptr = np.cumsum([0] + [len(row) for row in rows])
    inputs = np.array([g for row in rows for g in row], np.int32)
    chosen_outputs = [len(kind) - 1, *rng.integers(0, len(kind), outputs - 1).tolist()]
    return Circuit(np.array(kind), np.array(arg), indptr, inputs, np.array(chosen_outputs), prob)


def truth(circuit: Circuit, values: tuple[int, ...]) -> list[bool]:
    """The outputs under one assignment, gate by gate."""
    out: list[bool] = []
    for g in range(circuit.num_gates):
        read = [out[i] for i in circuit.inputs[circuit.indptr[g] : circuit.indptr[g + 1]]]
        kind, arg = int(circuit.kind[g]), int(circuit.arg[g])
        if kind == VAR:
            out.append(bool(values[arg]))
        elif kind == NOT:
            out.append(not read[0])
        elif kind == AND:
            out.append(all(read))
        elif kind == OR:
            out.append(any(read))
        elif kind == ATLEAST:
            out.append(sum(read) >= arg)
        else:
            out.append(kind == TRUE)
    return [out[g] for g in circuit.outputs]


def enumerate_models(circuit: Circuit, output: int = 0) -> list[tuple[tuple[int, ...], Fraction]]:
    """Every satisfying assignment of an output with its exact probability."""
    prob = [Fraction(float(p)) for p in circuit.prob]
    found = []
    for values in product((0, 1), repeat=circuit.num_vars):
        if truth(circuit, values)[output]:
            weight = Fraction(1)
            for p, value in zip(prob, values, strict=True):
                weight *= p if value else 1 - p
            found.append((values, weight))
    return found


def circuit_fraction(circuit: Circuit, output: int = 0) -> Fraction:
    return sum((weight for _, weight in enumerate_models(circuit, output)), Fraction(0))


def circuit_log_prob(circuit: Circuit, output: int = 0) -> float:
    return log_fraction(circuit_fraction(circuit, output))


def circuit_marginals(circuit: Circuit) -> np.ndarray:
    models = enumerate_models(circuit)
    total = sum((weight for _, weight in models), Fraction(0))
    sums = [sum((w for values, w in models if values[v]), Fraction(0)) for v in range(circuit.num_vars)]
    return np.array([float(s / total) for s in sums])


def circuit_influence(circuit: Circuit) -> np.ndarray:
    out = []
    for v in range(circuit.num_vars):
        sides = []
        for side in (1.0, 0.0):
            prob = np.array(circuit.prob)
            prob[v] = side
            sides.append(circuit_fraction(circuit.with_prob(prob)))
        out.append(float(sides[0] - sides[1]))
    return np.array(out)


def best_model(circuit: Circuit) -> float:
    """The logarithm of the likeliest model's probability, -inf if there is none."""
    best = max((weight for _, weight in enumerate_models(circuit)), default=Fraction(0))
    return log_fraction(best) if best else -math.inf
