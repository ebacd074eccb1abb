"""Circuits as JSON, as CNF and in files, there and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from circuit_oracle import RANDOM, assignments, circuit_fraction

from sharpdnf import Circuit, read_circuit, write_circuit
from sharpdnf.circuit_formats import from_json, lower, to_cnf, to_json, tseitin
from sharpdnf.errors import ParseError

pytestmark = pytest.mark.native


def test_json_there_and_back() -> None:
    named = Circuit.parse("a & ~b | atleast(2, a, b, c)", {"a": 0.1, "b": 1 / 3, "c": 1e-300})
    for circuit in [*RANDOM, named]:
        assert from_json(to_json(circuit)) == circuit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "format"),
        ({"gates": 3}, "expected a list under 'gates'"),
        ({"gates": [["var", 0], ["nand", 0, 0]]}, "gate 1: expected a list that starts with one of"),
        ({"gates": [["var", 0], ["and", 0.5]]}, "gate 1: expected integers"),
        ({"gates": [["var"]]}, "gate 0: expected a number"),
        ({"gates": [["var", 0], ["not", 1]]}, "gate 1 reads gate 1"),
        ({"gates": [["var", 2**40]]}, "arg"),
        ({"prob": ["x"]}, "finite numbers"),
        ({"prob": [2.0]}, r"\[0, 1\]"),
        ({"names": [1]}, "strings"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_json_that_is_no_circuit_says_where(change: dict, message: str) -> None:
    good = {"format": "sharpdnf-circuit", "prob": [0.5], "gates": [["var", 0], ["not", 0]], "outputs": [1]}
    assert from_json(json.dumps(good)).num_gates == 2
    with pytest.raises(ParseError, match=message):
        from_json(json.dumps(good | change))
    for text in ("", "[", "[" * 100_000, "3"):
        with pytest.raises(ParseError):
            from_json(text)


def models_of_cnf(num_vars: int, clauses: list[list[int]]) -> np.ndarray:
    rows = assignments(num_vars)
    holds = [np.any([rows[:, abs(x) - 1] == (x > 0) for x in clause], axis=0) for clause in clauses]
    return rows[np.all(holds, axis=0)]


def test_tseitin_extends_every_model_in_one_way() -> None:
    tried = 0
    for circuit in [c[0] for c in RANDOM]:
        num_vars, clauses = tseitin(circuit)
        if num_vars > 16:
            continue
        tried += 1
        found = models_of_cnf(num_vars, clauses)[:, : circuit.num_vars]
        rows = assignments(circuit.num_vars)
        wanted = rows[circuit.evaluate(rows)[:, 0]]
        assert sorted(found.tolist()) == sorted(wanted.tolist())
    assert tried > 50
    text = to_cnf(Circuit.parse("a & ~b", {"a": 0.25, "b": 0.5}))
    assert "c p weight 1 0.25 0" in text
    assert "c p weight -3 1 0" in text


def test_counters_replace_at_least() -> None:
    for circuit in RANDOM:
        plain = lower(circuit)
        assert plain.num_outputs == circuit.num_outputs
        rows = assignments(circuit.num_vars)
        assert np.array_equal(plain.evaluate(rows), circuit.evaluate(rows))


@pytest.mark.parametrize("name", ["c.json", "c.json.gz", "c.nnf", "c.nnf.gz"])
def test_files_there_and_back(tmp_path, name: str) -> None:
    circuit = Circuit.parse("a & ~b | c", {"a": 0.1, "b": 0.2, "c": 0.3})
    write_circuit(circuit, tmp_path / name)
    assert circuit_fraction(read_circuit(tmp_path / name)) == circuit_fraction(circuit)
    with pytest.raises(ValueError, match="unknown dialect"):
        write_circuit(circuit, tmp_path / name, "xml")
    with pytest.raises(ParseError, match="cannot be read"):
        read_circuit(tmp_path / "missing.json")
    write_circuit(circuit, tmp_path / "c.cnf")
    with pytest.raises(ParseError, match="not read back"):
        read_circuit(tmp_path / "c.cnf")
