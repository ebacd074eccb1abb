"""Compiled circuits and certified bounds against enumeration, within every limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from circuit_oracle import (
    circuit_fraction,
    circuit_influence,
    circuit_log_prob,
    circuit_of,
    close,
    enumerate_models,
    hard,
)
from oracle import log_fraction

from sharpdnf import Builder, count
from sharpdnf.circuit_compile import bound_circuit, compile_circuit
from sharpdnf.estimate import Limit

pytestmark = pytest.mark.native


def test_compiled_circuits_against_enumeration() -> None:
    for i in range(1500):
        circuit = circuit_of(i)
        fraction = circuit_fraction(circuit)
        truth, missing = log_fraction(fraction), log_fraction(1 - fraction)
        found = bound_circuit(circuit, Limit())
        assert found.exact
        assert found.log_lower - 1e-13 <= truth <= found.log_upper + 1e-13  # the oracle's logarithm rounds too
        assert found.log_complement_lower - 1e-13 <= missing <= found.log_complement_upper + 1e-13
        assert close(found.log_lower, truth)
        assert close(found.log_complement_upper, missing)


def test_bounds_hold_however_early_the_search_ends() -> None:
    """Mixed signs, where only Frechet's bounds hold, and monotone circuits, where Harris' do."""
    narrowed = 0
    rows = (np.arange(2**12)[:, None] >> np.arange(12)) & 1 == 1
    for seed in range(40):
        rng = np.random.default_rng([8, seed])
        b = Builder()
        x = [b.var(None, float(p)) for p in rng.random(12) * (1.0 if seed % 2 else 0.2)]
        some = [b.atleast(2, *(x[int(i)] for i in rng.choice(12, 4, replace=False))) for _ in range(20)]
        if seed % 3 == 0:
            some = [a ^ c for a, c in zip(some[::2], some[1::2], strict=True)]
        circuit = b.build(b.or_(*(some[i] & some[i + 1] for i in range(0, len(some) - 1, 2))))
        own = np.where(rows, circuit.prob, 1.0 - circuit.prob).prod(axis=1)
        truth = math.log(float(own[circuit.evaluate(rows)[:, 0]].sum()))
        for work in (600, 1000, 3000, 10_000):
            found = bound_circuit(circuit, Limit(), work=work)
            assert found.log_lower <= truth + 1e-12
            assert found.log_upper >= truth - 1e-12
            assert found.log_complement_upper >= math.log1p(-math.exp(truth)) - 1e-9
            narrowed += not found.exact and found.log_upper < 0.0
    assert narrowed > 20


def test_compiled_circuits_serve_other_probabilities() -> None:
    for i in range(100):
        circuit = circuit_of(i)
        compiled = compile_circuit(circuit)
        assert compiled is not None
        assert compiled.count() == len(enumerate_models(circuit))
        other = circuit.with_prob(np.random.default_rng(i).random(circuit.num_vars))
        assert close(float(compiled.evaluate(other.prob)[0]), circuit_log_prob(other))
        slope = compiled.gradient(other.prob)[1]
        assert slope == pytest.approx(circuit_influence(other), abs=1e-9)


def test_memory_ends_the_search_with_bounds() -> None:
    found = bound_circuit(hard(), Limit(memory=1 << 20))
    assert not found.exact
    assert found.stopped == "memory"
    assert found.log_lower <= found.log_upper


def test_tiny_answers_come_out_right() -> None:
    b = Builder()
    x = [b.var(None, 1e-30) for _ in range(30)]
    circuit = b.build(b.atleast(20, *x))
    truth = math.log(math.comb(30, 20)) + 20 * math.log(1e-30)
    assert count(circuit, guarantee="exact").log_prob == pytest.approx(truth, rel=1e-12)
    assert count(b.build(~b.atleast(20, *x)), guarantee="exact").log_complement == pytest.approx(truth, rel=1e-12)
