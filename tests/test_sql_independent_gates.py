"""Closed forms of gates with independent inputs, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdnf import _native
from sharpdnf.sql.emit.gates import Gates
from sharpdnf.sql.emit.independent_gates import closed_forms
from sharpdnf.sql.emit.lineage import Rows


def enumerated(gates: Gates, output: int, rows: Rows) -> float:
    """The probability of a gate, by all assignments of the circuit that it is."""
    circuit, _ = gates.circuit(np.array([output]), rows)
    values = (np.arange(2**circuit.num_vars)[:, None] >> np.arange(circuit.num_vars)) & 1
    weights = np.where(values, circuit.prob, 1.0 - circuit.prob).prod(axis=1)
    return float(weights[circuit.evaluate(values)[:, 0]].sum())


def random_gates(rng: np.random.Generator, rows: int) -> tuple[Gates, np.ndarray]:
    """Layers of gates of all kinds over a few rows; the numbers of all gates."""
    gates = Gates(rows)
    seen = np.arange(rows + 2)
    for _ in range(int(rng.integers(2, 7))):
        widths = rng.integers(0, 4, 3)
        indptr = np.concatenate([[0], np.cumsum(widths)])
        inputs = rng.choice(seen, int(indptr[-1]))
        kind = int(rng.integers(4))
        if kind == 0:
            new = gates.negate(rng.choice(seen, 3))
        elif kind == 1:
            new = gates.at_least(rng.integers(0, 4, 3), indptr, inputs)
        else:
            new = (gates.all_of if kind == 2 else gates.one_of)(indptr, inputs)
        seen = np.concatenate([seen, new])
    return gates, seen


def test_closed_forms_are_right_wherever_they_are_known() -> None:
    rng = np.random.default_rng(5)
    known = 0
    for _ in range(150):
        n = int(rng.integers(2, 7))
        rows = Rows(rng.random(n) * 0.5, np.where(rng.random(n) < 0.4, rng.integers(0, 2, n), -1))
        rows.prob[rows.block >= 0] /= max(1.0, float(rows.prob[rows.block >= 0].sum()))
        gates, seen = random_gates(rng, n)
        found = closed_forms(gates, seen, rows)
        for gate in np.unique(seen[found.known[seen]]):
            known += int(gate >= n + 2)
            want = enumerated(gates, int(gate), rows)
            assert found.true[gate] == pytest.approx(want, abs=1e-12)
            assert found.false[gate] == pytest.approx(1.0 - want, abs=1e-12)
    assert known > 200


def test_at_least_of_rare_and_of_sure_events() -> None:
    rare = np.full(10, 1e-6)
    ends = np.array([0, 10, 20, 30])
    chances = np.concatenate([rare, rare, 1.0 - rare])
    true, false = _native.at_least(np.array([10, 3, 1]), ends, np.arange(30, dtype=np.int32), chances)
    assert true[0] == pytest.approx(1e-60, rel=1e-9)
    assert true[1] == pytest.approx(120 * 1e-18 * (1 - 1e-6) ** 7, rel=1e-5) and false[1] == pytest.approx(1.0)
    assert true[2] == pytest.approx(1.0) and false[2] < 1e-50


def test_at_least_of_groups_of_any_size() -> None:
    """Against the whole distribution, folded event by event."""
    rng = np.random.default_rng(3)
    sizes = np.arange(1, 60)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    prob = rng.random(200)
    prob[:20] = rng.choice([0.0, 1.0, 1e-9], 20)
    rows = rng.integers(0, 200, int(ends[-1])).astype(np.int32)
    needed = rng.integers(1, sizes + 1)
    true, false = _native.at_least(needed, ends, rows, prob)
    for g, size in enumerate(sizes):
        law = np.ones(1)
        for row in rows[ends[g] : ends[g] + size]:
            law = np.convolve(law, [1.0 - prob[row], prob[row]])
        assert true[g] == pytest.approx(law[needed[g] :].sum(), rel=1e-9, abs=1e-300)
        assert false[g] == pytest.approx(law[: needed[g]].sum(), rel=1e-9, abs=1e-300)


def test_at_least_checks_its_arrays() -> None:
    rows, prob = np.zeros(2, np.int32), np.ones(1)
    for needed, ends, of in (([3], [0, 2], rows), ([0], [0, 2], rows), ([1], [0, 1], rows), ([1], [0, 2], rows + 1)):
        with pytest.raises(ValueError):
            _native.at_least(np.array(needed), np.array(ends), of, prob)
