"""Elimination over the gates of narrow circuits: exact, without a search."""

from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import (
    circuit_fraction,
    circuit_of,
    close,
)
from oracle import log_fraction

from sharpdnf import Builder, count
from sharpdnf.circuit_compile import bound_circuit
from sharpdnf.estimate import Limit

pytestmark = pytest.mark.native


def test_elimination_against_enumeration() -> None:
    for i in range(300):
        circuit = circuit_of(i)
        fraction = circuit_fraction(circuit)
        truth, missing = log_fraction(fraction), log_fraction(1 - fraction)
        found = count(circuit, engine="eliminate")
        assert found.met
        assert found.guarantee == "exact"
        assert close(found.log_prob, truth)
        assert close(found.log_complement, missing)
        assert found.log_lower - 1e-13 <= truth <= found.log_upper + 1e-13
        assert found.log_complement_lower - 1e-13 <= missing <= found.log_complement_upper + 1e-13


def test_a_long_ladder_is_exact_without_search() -> None:
    b = Builder()
    layer = [b.const(True)] * 3
    for step in range(1000):
        edges = [[b.var(f"{step} {i} {j}", 0.7) for j in range(3)] for i in range(3)]
        layer = [b.or_(*(layer[i] & edges[i][j] for i in range(3) if abs(i - j) < 2)) for j in range(3)]
    found = count(b.build(layer[0]), guarantee="exact", timeout=60.0)
    assert found.met
    assert found.engine == "eliminate"
    # The same by the distribution of which of the three nodes are reached, layer by layer.
    state = np.zeros(8)
    state[7] = 1.0
    step_of = np.zeros((8, 8))
    for before in range(8):
        reached = [1.0 - 0.3 ** sum(before >> i & 1 for i in range(3) if abs(i - j) < 2) for j in range(3)]
        for after in range(8):
            step_of[before, after] = np.prod([p if after >> j & 1 else 1.0 - p for j, p in enumerate(reached)])
    for _ in range(1000):
        state = state @ step_of
    assert found.prob == pytest.approx(float(state[1::2].sum()), rel=1e-9)


def test_a_ladder_of_gates_takes_milliseconds_not_minutes() -> None:
    """Reachability through layers of three: the number of nodes grows with the length, not with its exponential."""
    nodes = []
    for length in (20, 40, 80):
        b = Builder()
        layer = [b.const(True)] * 3
        for step in range(length):
            edges = [[b.var(f"{step} {i} {j}", 0.7) for j in range(3)] for i in range(3)]
            layer = [b.or_(*(layer[i] & edges[i][j] for i in range(3) if abs(i - j) < 2)) for j in range(3)]
        found = bound_circuit(b.build(layer[0]), Limit())
        assert found.exact
        nodes.append(found.nodes)
    assert nodes[2] < 5 * nodes[0]


def test_an_event_that_can_fail_is_not_certified_to_be_sure() -> None:
    """1 - P is 1e-400, so log P is 0 as a double; below 1 the bound has to be all the same."""
    b = Builder()
    gate = b.or_(*(~b.var(name, 1e-200) for name in "ab"))
    for engine in ("eliminate", "auto"):
        found = count(b.build(gate), engine=engine)
        assert found.log_certified_lower < 0.0 and found.certified_lower < 1.0
        assert found.log_complement == pytest.approx(2.0 * np.log(1e-200), rel=1e-12)
