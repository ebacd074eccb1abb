"""Counting one output of a circuit: every guarantee against enumeration, at and before the deadline."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from circuit_oracle import (
    DELTA,
    EPSILON,
    circuit_fraction,
    circuit_log_prob,
    circuit_of,
    close,
    hard,
    promise_holds,
)
from scipy import stats

from sharpdnf import DNF, Builder, Circuit, count, count_many
from sharpdnf.circuit_compile import compile_circuit

pytestmark = pytest.mark.native


@pytest.mark.parametrize("guarantee", ["exact", "relative", "additive", "bounds", "none"])
def test_every_guarantee_against_enumeration(guarantee: str) -> None:
    for i in range(200):
        circuit = circuit_of(i)
        estimate = count(circuit, guarantee=guarantee, epsilon=EPSILON, delta=DELTA, rng=i)
        if guarantee != "none":
            promise_holds(circuit, estimate, guarantee)
        elif estimate.guarantee == "exact":
            assert close(estimate.log_prob, circuit_log_prob(circuit))


@pytest.mark.parametrize("guarantee", ["relative", "additive"])
def test_what_is_cheap_is_exact_whatever_was_asked(guarantee: str) -> None:
    """A loose epsilon is no reason to stop a compilation of a few gates half-way."""
    for i in range(60):
        estimate = count(circuit_of(i), guarantee=guarantee, epsilon=0.4, rng=i)
        assert estimate.guarantee == "exact"
        assert close(estimate.log_prob, circuit_log_prob(circuit_of(i)))


def test_memory_is_a_limit_of_circuits_too() -> None:
    """Also of those that are counted as the DNFs that they are."""
    rng = np.random.default_rng(0)
    clauses = [(rng.choice(300, 6, replace=False) + 1).tolist() for _ in range(400)]
    flat = Circuit.from_dnf(DNF.from_clauses(clauses, np.full(300, 0.3)))
    for asked in ({"guarantee": "exact"}, {"engine": "exact"}):
        estimate = count(flat, memory=1 << 18, timeout=60.0, **asked)
        assert not estimate.met and estimate.info["stopped"] == "memory limit"
        assert estimate.log_certified_lower <= estimate.log_prob <= estimate.log_certified_upper


@pytest.mark.parametrize("memory", [0, 100, 1_000])
@pytest.mark.parametrize("guarantee", ["exact", "bounds", "relative", "additive"])
def test_no_memory_at_all_is_a_limit_like_any_other(memory: int, guarantee: str) -> None:
    """Not even the variables fit into the compiler's memory."""
    circuit = Circuit.parse("(a | ~b) & atleast(2, c, d, e)", dict.fromkeys("abcde", 0.3))
    estimate = count(circuit, guarantee=guarantee, memory=memory, delta=DELTA, epsilon=EPSILON, rng=0)
    truth = circuit_log_prob(circuit)
    assert estimate.log_certified_lower - 1e-9 <= truth <= estimate.log_certified_upper + 1e-9
    if estimate.met:
        promise_holds(circuit, estimate, guarantee)
    else:
        assert guarantee == "exact"


def test_a_deadline_leaves_bounds_and_an_additive_interval() -> None:
    circuit = hard()
    started = time.process_time()  # not the wall's clock: others may use the machine
    exact = count(circuit, guarantee="exact", timeout=0.3)
    assert not exact.met
    assert exact.log_certified_lower <= exact.log_prob <= exact.log_certified_upper
    for timeout in (2.0, 8.0, 32.0):  # a busy machine may need longer for its first draw
        fine = count(circuit, epsilon=1e-5, timeout=timeout, rng=1)
        assert not fine.met
        assert fine.guarantee == "additive"
        if fine.samples:
            break
    assert fine.samples
    # A standard error is at most 0.5 / sqrt(samples), and an interval that holds at any time is some nine of them wide.
    assert fine.upper - fine.lower < 10.0 / math.sqrt(fine.samples)
    coarse = count(circuit, epsilon=0.02, delta=DELTA, rng=2)
    assert coarse.met
    assert fine.lower <= coarse.upper
    assert coarse.lower <= fine.upper
    nothing = count(circuit, epsilon=1e-5, timeout=0.0)
    assert not nothing.met
    assert nothing.log_certified_lower <= nothing.log_prob <= nothing.log_certified_upper
    assert time.process_time() - started < 60


def test_promises_about_the_complement() -> None:
    circuit = hard(60).negated()
    found = count(circuit, of="complement", engine="sampling", rng=3, delta=DELTA)
    assert found.of == "complement"
    assert found.guarantee == "relative"
    plain = count(hard(60), engine="sampling", rng=3, delta=DELTA)
    assert found.log_complement == plain.log_prob
    assert found.prob == pytest.approx(1.0 - plain.prob)
    for i in range(60):
        small = circuit_of(i)
        estimate = count(small, of="complement", epsilon=EPSILON, delta=DELTA, rng=i)
        missing = float(1 - circuit_fraction(small))
        assert estimate.complement == pytest.approx(missing, rel=EPSILON, abs=1e-300)
        assert estimate.log_certified_lower <= circuit_log_prob(small) + 1e-9
    table = count_many(circuit_of(7, outputs=3), of="complement", epsilon=EPSILON, delta=DELTA, rng=1)
    truth = [float(1 - circuit_fraction(circuit_of(7, outputs=3), i)) for i in range(3)]
    assert table["complement"] == pytest.approx(truth, rel=EPSILON)


def test_at_least_k_of_independent_literals_in_closed_form() -> None:
    """Against enumeration with signs and negations, against the binomial tail where it is large, and as a diagram."""
    rng = np.random.default_rng(5)
    for n in range(1, 9):
        for k in range(1, n + 1):
            b = Builder()
            x = [b.var(f"x{i}", float(rng.random())) for i in range(n)]
            vote = b.atleast(k, *(~v if rng.random() < 0.5 else v for v in x))
            circuit = b.build(~vote if rng.random() < 0.5 else vote)
            truth = circuit_log_prob(circuit)
            assert count(circuit, guarantee="exact").log_prob == pytest.approx(truth, rel=1e-12, abs=1e-12)
            compiled = compile_circuit(circuit)
            assert compiled is not None
            assert compiled.evaluate(circuit.prob[None, :])[0] == pytest.approx(truth, rel=1e-12, abs=1e-12)
    b = Builder()
    wide = b.build(b.atleast(500, *(b.var(None, 0.4) for _ in range(1000))))
    found = count(wide, guarantee="exact", timeout=60.0)
    assert found.guarantee == "exact" and found.info["nodes"] == 500 * 501
    assert found.log_prob == pytest.approx(float(stats.binom.logsf(499, 1000, 0.4)), rel=1e-9)
    assert found.log_lower <= found.log_prob <= found.log_upper
