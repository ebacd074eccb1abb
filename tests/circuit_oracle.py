"""Circuits for tests, and their enumeration, which shares no code with the engines or with Circuit.evaluate."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
from oracle import log_fraction

from sharpdnf import Builder, Circuit, Estimate
from sharpdnf.circuit import AND, ATLEAST, FALSE, NOT, OR, TRUE, VAR
from sharpdnf.estimate import SERVES

DELTA, EPSILON = 1e-6, 0.1  # a red test is a bug, not luck


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


def circuit_of(i: int, **shape: int) -> Circuit:
    """Random circuit number i of a fixed series."""
    return random_circuit(np.random.default_rng([5, i]), **shape)


def close(found: float, truth: float) -> bool:
    return found == truth or abs(found - truth) < 1e-9


def a_and_not_b(n: int = 12, p: float = 0.05) -> Circuit:
    """Rare, and no small DNF where n is large: (a DNF) and not (at least three of all)."""
    b = Builder()
    x = [b.var(f"x{i}", p) for i in range(n)]
    return b.build(b.or_(*(x[i] & x[i + 1] for i in range(n - 1))) & ~b.atleast(3, *x))


def hard(n: int = 200, seed: int = 0) -> Circuit:
    """Too tangled to compile in a moment; about one world in five."""
    rng = np.random.default_rng(seed)
    b = Builder()
    x = [b.var(None, 0.5) for _ in range(n)]
    votes = [b.atleast(3, *(x[int(i)] for i in rng.choice(n, 5, replace=False))) for _ in range(n)]
    mixed = [a ^ c for a, c in zip(votes[::2], votes[1::2], strict=True)]
    return b.build(b.atleast(len(mixed) // 2 + 4, *mixed))


RANDOM = [  # a fixed series with one to three outputs
    random_circuit(np.random.default_rng([1, i]), outputs=1 + i % 3) for i in range(150)
]


def assignments(n: int) -> np.ndarray:
    """bool[2^n, n]: all assignments to n variables."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def same_event(left: Circuit, right: Circuit) -> bool:
    """Whether the first outputs of two circuits agree under every assignment."""
    rows = assignments(left.num_vars)
    return np.array_equal(left.evaluate(rows)[:, 0], right.evaluate(rows)[:, 0])


def promise_holds(circuit: Circuit, estimate: Estimate, guarantee: str) -> None:
    """Asserts that an answer keeps everything that it promises, at least the guarantee asked for."""
    truth = circuit_log_prob(circuit)
    assert estimate.met
    assert guarantee in SERVES[estimate.guarantee]
    assert estimate.log_certified_lower <= truth + 1e-9
    assert estimate.log_certified_upper >= truth - 1e-9
    if estimate.guarantee == "exact":
        assert close(estimate.log_prob, truth)
    elif estimate.guarantee == "relative":
        assert truth == estimate.log_prob or abs(math.exp(estimate.log_prob - truth) - 1.0) <= EPSILON
    elif estimate.guarantee == "additive":
        assert abs(estimate.prob - math.exp(truth)) <= EPSILON + 1e-12
    assert estimate.log_lower - 1e-9 <= truth <= estimate.log_upper + 1e-9
    assert estimate.log_lower - 1e-9 <= estimate.log_prob <= estimate.log_upper + 1e-9
