"""d-DNNF text there and back, deterministic and decomposable, and as other programs write it."""

from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import RANDOM, assignments, same_event

from sharpdnf import Circuit
from sharpdnf.circuit_formats import from_nnf, to_nnf
from sharpdnf.errors import ParseError

pytestmark = pytest.mark.native


@pytest.mark.parametrize("dialect", ["c2d", "d4"])
def test_nnf_there_and_back_is_deterministic_and_decomposable(dialect: str) -> None:
    for circuit in [c[0] for c in RANDOM[:80]]:
        text = to_nnf(circuit, dialect)
        again = from_nnf(text)
        assert np.array_equal(again.prob, circuit.prob)
        assert same_event(again, circuit)
        if dialect == "c2d":
            assert_d_dnnf(text)


def assert_d_dnnf(text: str) -> None:
    """Children of an A share no variable, children of an O exclude each other."""
    lines = [line.split() for line in text.splitlines() if not line.startswith("c")]
    n = int(lines[0][3])
    rows = assignments(n)
    values, scopes = [], []
    for tag, *rest in lines[1:]:
        numbers = [int(x) for x in rest]
        if tag == "L":
            values.append(rows[:, abs(numbers[0]) - 1] == (numbers[0] > 0))
            scopes.append({abs(numbers[0])})
            continue
        children = numbers[1:] if tag == "A" else numbers[2:]
        below = np.array([values[i] for i in children]).reshape(len(children), len(rows))
        if tag == "A":
            assert sum(len(scopes[i]) for i in children) == len(set().union(*(scopes[i] for i in children)))
        else:
            assert np.all(below.sum(axis=0) <= 1)
        values.append(below.all(axis=0) if tag == "A" else below.any(axis=0))
        scopes.append(set().union(*(scopes[i] for i in children)))


def test_nnf_as_others_write_it() -> None:
    c2d = "nnf 7 6 3\nL 1\nL -2\nA 2 0 1\nL 2\nL 3\nA 2 3 4\nO 2 2 2 5\n"
    assert same_event(from_nnf(c2d), Circuit.parse("(a & ~b) | (b & c)"))
    d4 = "o 1 0\na 2 0\nt 3 0\n1 2 -2 0\n1 3 2 3 0\n2 3 1 0\n"
    assert same_event(from_nnf(d4), Circuit.parse("(a & ~b) | (b & c)"))
    assert from_nnf("c p weight 1 0.25 0\nnnf 1 0 2\nL 1\n").prob.tolist() == [0.25, 0.5]
    for text, message in [
        ("nnf 2 0 1\nL 1\n", "header says 2"),
        ("nnf 1 0 1\nL 2\n", "beyond the header"),
        ("nnf 1 1 1\nA 1 0\n", "does not come before"),
        ("nnf 1 0 1\nX 1\n", "expected L LITERAL"),
        ("o 1 0\n1 2 0\n", "not declared"),
        ("o 1 0\na 2 0\n1 2 0\n2 1 0\n", "root"),
        ("o 1 0\na 2 0\na 3 0\n1 2 0\n2 3 0\n3 2 0\n", "below itself"),
        ("o 1\n", "0 at the end"),
        ("", "no node"),
        ("c p weight 1 1.5 0\nnnf 1 0 1\nL 1\n", "probability"),
    ]:
        with pytest.raises(ParseError, match=message):
            from_nnf(text)
