"""The circuit type: building, text, formats, and refusals that say where and what to do."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from circuit_oracle import RANDOM, assignments, same_event, truth

from sharpdnf import DNF, Builder, Circuit
from sharpdnf.circuit import AND, NOT, OR, VAR, stacked
from sharpdnf.errors import InvalidFormula, LimitError

pytestmark = pytest.mark.native


def test_evaluation_is_that_of_the_gates_one_by_one() -> None:
    for circuit in RANDOM:
        rows = assignments(circuit.num_vars)
        assert circuit.evaluate(rows).tolist() == [truth(circuit, tuple(row)) for row in rows.tolist()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": [VAR, VAR, 9]}, "unknown kind"),
        ({"arg": [0, 2, 0]}, "gate 1: its variable"),
        ({"inputs": [0, 2]}, "gate 2 reads gate 2"),
        ({"inputs": [0, -1]}, "gate 2 reads gate -1"),
        ({"kind": [VAR, VAR, NOT]}, "NOT reads one gate"),
        ({"kind": [VAR, OR, VAR]}, "gate 2: a constant or a variable reads no gate"),
        ({"indptr": [0, 0, 0, 1]}, "indptr"),
        ({"outputs": [3]}, "output"),
        ({"outputs": np.zeros(0, np.int32)}, "at least one output"),
        ({"prob": [0.5, 1.5]}, "variable 2"),
        ({"prob": [0.5, np.nan]}, "variable 2"),
        ({"names": ("a", "a")}, "two variables"),
        ({"output_names": ("a", "b")}, "output names"),
    ],
)
def test_arrays_that_are_no_circuit_are_refused(change: dict, message: str) -> None:
    good = {"kind": [VAR, VAR, AND], "arg": [0, 1, 0], "indptr": [0, 0, 0, 2], "inputs": [0, 1], "outputs": [2]}
    good["prob"] = [0.5, 0.5]
    Circuit(**{name: np.array(values) for name, values in good.items()})
    fields = {
        name: values if isinstance(values, tuple) else np.array(values) for name, values in (good | change).items()
    }
    with pytest.raises(InvalidFormula, match=message):
        Circuit(**fields)


def test_arrays_are_owned_and_read_only() -> None:
    prob = np.array([0.5, 0.25])
    circuit = Circuit(np.array([VAR, VAR]), np.array([0, 1]), np.array([0, 0, 0]), np.zeros(0, np.int32), [1], prob)
    prob[0] = 9.0
    assert circuit.prob[0] == 0.5
    for twin in (circuit, copy.deepcopy(circuit), pickle.loads(pickle.dumps(circuit)), circuit[0]):
        assert twin == circuit
        for array in (*twin.arrays, twin.outputs, twin.prob):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True


def test_dnfs_there_and_back() -> None:
    dnf = DNF.parse("a & b | ~c & a | d", {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})
    assert Circuit.from_dnf(dnf).to_dnf() == dnf
    for circuit in RANDOM:
        assert same_event(Circuit.from_dnf(circuit.to_dnf()), circuit)
    b = Builder()
    parity = b.const(False)
    for i in range(24):
        parity = parity ^ b.var(f"x{i}")
    with pytest.raises(LimitError, match="limit"):
        b.build(parity).to_dnf(limit=1000)


def test_stacking_keeps_every_output() -> None:
    circuits = [c.with_prob(np.full(c.num_vars, 0.5)) for c in RANDOM if c.num_vars == 4][:6]
    together = stacked(circuits)
    assert together is not None
    rows = assignments(4)
    assert np.array_equal(together.evaluate(rows), np.concatenate([c.evaluate(rows) for c in circuits], axis=1))
    assert stacked([circuits[0], circuits[1].with_prob(np.full(4, 0.25))]) is None
