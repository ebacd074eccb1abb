"""Circuits under many rows of probabilities: each row as if it were alone, at both ends of the exponent too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracle import enumerate_fraction, enumerate_influence, random_dnf

from sharpdnf import DNF
from sharpdnf.compiled import FALSE, SHANNON, TERM, TRUE, Compiled
from sharpdnf.engines.dtree import compile as compile_tree
from sharpdnf.engines.exact import compile as compile_dnf

pytestmark = pytest.mark.native


def circuits(dnf: DNF) -> list[Compiled]:
    found = [compile_dnf(dnf), compile_dnf(dnf, method="eliminate"), compile_tree(dnf), compile_tree(dnf, tables=False)]
    return [circuit for circuit in found if circuit is not None]


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 33])
def test_rows_against_enumeration(rows: int) -> None:
    rng = np.random.default_rng(rows)
    dnf = random_dnf(rng, 9, 12, (1, 4))
    probs = rng.random((rows, 9))
    truth = [float(enumerate_fraction(dnf.with_prob(row))) for row in probs]
    slopes = np.array([enumerate_influence(dnf.with_prob(row)) for row in probs])
    for circuit in circuits(dnf):
        assert np.exp(circuit.evaluate(probs)) == pytest.approx(truth, rel=1e-12)
        log_prob, gradient = circuit.gradient(probs)
        assert log_prob.shape == (rows,) and gradient.shape == (rows, 9)
        assert np.exp(log_prob) == pytest.approx(truth, rel=1e-12)
        assert gradient == pytest.approx(slopes, abs=1e-13)
        log_gradient = circuit.log_gradient(probs)[1]
        assert log_gradient == pytest.approx(slopes / np.array(truth)[:, None], rel=1e-10, abs=1e-12)
        one, alone = circuit.gradient(probs[-1])
        assert isinstance(one, float) and one == log_prob[-1] and np.array_equal(alone, gradient[-1])


@pytest.mark.parametrize("bad", [1.5, -0.25, float("nan")])
def test_what_is_no_probability_is_refused_by_its_place(bad: float) -> None:
    circuit = compile_dnf(random_dnf(np.random.default_rng(0), 6, 8, (1, 3)))
    assert circuit is not None
    probs = np.full((3, 6), 0.5)
    probs[2, 4] = bad
    for run in (circuit.evaluate, circuit.gradient, circuit.log_gradient):
        with pytest.raises(ValueError, match=rf"row 2, variable 4: {bad} is not a probability"):
            run(probs)


@pytest.mark.threads
def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(1)
    dnf = random_dnf(rng, 30, 40, 3)
    circuit = compile_dnf(dnf)
    assert circuit is not None
    probs = rng.random((200, 30))
    first = circuit.gradient(probs, threads=1)
    for threads in (2, 3):
        again = circuit.gradient(probs, threads=threads)
        assert np.array_equal(first[0], again[0]) and np.array_equal(first[1], again[1])


def test_rows_beyond_doubles() -> None:
    """One row of a block is far below the smallest double, one is 1 within rounding; neither harms the others."""
    dnf = DNF.from_clauses([[1, 2, 3], [2, 3, 4], [1, 4, 5]], np.full(5, 0.5))
    probs = np.full((4, 5), 0.3)
    probs[1], probs[2] = 1e-150, 1.0 - 1e-12
    exact = [enumerate_fraction(dnf.with_prob(row)) for row in probs]
    for circuit in circuits(dnf):
        log_prob, slope = circuit.log_gradient(probs)
        assert log_prob[1] == pytest.approx(math.log(3.0) - 450 * math.log(10.0), rel=1e-14)
        assert slope[1] == pytest.approx(np.array([2, 2, 2, 2, 1]) / 3e-150, rel=1e-12)
        assert log_prob[2] == pytest.approx(-float(1 - exact[2]), rel=1e-9)
        assert log_prob[[0, 3]] == pytest.approx(math.log(float(exact[0])), rel=1e-13)
        assert circuit.gradient(probs)[1][2] == pytest.approx(enumerate_influence(dnf.with_prob(probs[2])), abs=1e-15)


def test_shapes_are_checked() -> None:
    circuit = compile_dnf(DNF.from_clauses([[1, 2], [2, 3]]))
    assert circuit is not None
    for shape in ((2,), (4, 2), (1, 2, 3)):
        with pytest.raises(ValueError, match="expected rows of 3"):
            circuit.gradient(np.full(shape, 0.5))
    log_prob, gradient = circuit.gradient(np.empty((0, 3)))
    assert log_prob.shape == (0,) and gradient.shape == (0, 3)


@pytest.mark.parametrize("constant", [FALSE, TRUE])
def test_circuits_without_variables(constant: int) -> None:
    none = np.zeros(1, dtype=np.int32)
    circuit = Compiled(np.array([constant], np.uint8), none, none, none, np.empty(0, np.int32), 0)
    expected = 0.0 if constant == TRUE else -math.inf
    assert circuit.evaluate(np.empty((3, 0))).tolist() == [expected] * 3
    assert circuit.fraction([]) == Fraction(constant)


@pytest.mark.parametrize(
    ("kind", "a", "b", "var"), [(SHANNON, 1, 0, 0), (SHANNON, 0, 0, 7), (TERM, 0, 5, 0), (9, 0, 0, 0)]
)
def test_what_is_no_circuit_is_refused(kind: int, a: int, b: int, var: int) -> None:
    def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array(values, dtype=np.int32)

    broken = Compiled(np.array([TRUE, kind], np.uint8), ints(0, a), ints(0, b), ints(-1, var), ints(0, 3), 2)
    with pytest.raises(ValueError, match="not a circuit"):
        broken.evaluate([0.5, 0.5])


def test_marginals_where_slopes_are_beyond_doubles() -> None:
    """d log P / d p is about 1 / p, which is infinite as a double where p is below 1e-308."""
    prob = np.array([5e-324, 0.5, 1e-310, 1e-5])
    dnf = DNF.from_clauses([[1, 2], [3, 4], [-2, 3]], prob)
    whole = enumerate_fraction(dnf)
    truth = []
    for v in range(4):
        sure = prob.copy()
        sure[v] = 1.0
        truth.append(float(Fraction(float(prob[v])) * enumerate_fraction(dnf.with_prob(sure)) / whole))
    for circuit in circuits(dnf):
        assert circuit.marginals(prob) == pytest.approx(truth, rel=1e-12)
        assert circuit.marginals([prob, prob]) == pytest.approx(np.array([truth, truth]), rel=1e-12)
