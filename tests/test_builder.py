"""Circuits from operators and from text, and refusals that say where."""

from __future__ import annotations

import numpy as np
import pytest
from circuit_oracle import assignments

from sharpdnf import Builder, Circuit
from sharpdnf.errors import InvalidFormula

pytestmark = pytest.mark.native


def test_text_binds_as_it_says() -> None:
    circuit = Circuit.parse("a | b & ~c ^ d", {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})
    a, b, c, d = assignments(4).T
    assert np.array_equal(circuit.evaluate(assignments(4))[:, 0], a | ((b & ~c) ^ d))
    assert circuit.names == ("a", "b", "c", "d")
    counted = Circuit.parse("(a | ~b) & atleast(2, c, d, e)")
    a, b, c, d, e = assignments(5).T
    assert np.array_equal(counted.evaluate(assignments(5))[:, 0], (a | ~b) & (c.astype(int) + d + e >= 2))
    assert np.all(counted.prob == 0.5)
    assert np.all(Circuit.parse("!!~(true & a) | false").evaluate([[True], [False]])[:, 0] == [False, True])


def test_names_that_only_the_mapping_has_are_variables() -> None:
    circuit = Circuit.parse("b", {"a": 0.25, "b": 0.75})
    assert circuit.names == ("b", "a")
    assert circuit.prob.tolist() == [0.75, 0.25]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a &", "column 4: expected a name, ~ or ( before the end"),
        ("(a", "column 1: this bracket is never closed"),
        ("a & (b | atleast(1, c)", "column 5: this bracket is never closed"),
        ("a)", "column 2: this ) closes no bracket"),
        ("a b", "column 3: expected & ^ | or ) before 'b'"),
        ("atleast(a, b)", "column 9: expected a number"),
        ("atleast 2", "column 9: expected ( after atleast"),
        ("atleast(2 a)", "column 11: expected a comma"),
        ("a, b", "column 2: a comma stands only inside atleast"),
        ("(a, b)", "column 3: a comma stands only inside atleast"),
        ("a & $", "column 5: unexpected '$'"),
        ("a\n & | b", "line 2, column 4: expected a name"),
        ("", "column 1: expected a name"),
        ("rian | a", "column 1: no probability is given for 'rian': did you mean 'rain'?"),
    ],
)
def test_text_that_is_no_circuit_says_where(text: str, message: str) -> None:
    with pytest.raises(InvalidFormula) as error:
        Circuit.parse(text, {"a": 0.5, "b": 0.5, "c": 0.5, "rain": 0.5})
    assert message in str(error.value)


def test_text_takes_linear_time_at_any_depth() -> None:
    deep = Circuit.parse("~(" * 20_000 + "a" + ")" * 20_000)
    assert deep.num_gates == 1
    left = Circuit.parse("(" * 20_000 + "a" + " & b)" * 20_000)
    assert left.num_vars == 2
    wide = Circuit.parse(" | ".join(f"x{i} & y{i}" for i in range(20_000)))
    assert wide.num_inputs == 60_000


def test_a_builder_makes_equal_gates_once() -> None:
    b = Builder()
    x, y, z = b.vars({"x": 0.1, "y": 0.2, "z": 0.3})
    assert (x & y).number == (y & x).number
    assert b.and_(x, y, x).number == (x & y).number
    assert (~~x).number == x.number
    assert b.atleast(1, x, y).number == (x | y).number
    assert b.atleast(3, x, y, z).number == b.and_(x, y, z).number
    assert (x & ~x).number == b.const(False).number
    assert (x | True).number == b.const(True).number
    assert (False | x).number == x.number
    assert (x ^ x).number == b.const(False).number
    assert b.var("x").number == x.number
    before = b.num_gates
    b.atleast(2, z, y, x), b.atleast(2, x, y, z)
    assert b.num_gates == before + 1
    circuit = b.build(x & ~y, z, names=["one", "two"])
    assert circuit.num_outputs == 2
    assert circuit["two"].outputs.tolist() == [circuit.outputs[1]]
    assert circuit[-1] == circuit["two"]


def test_a_builder_refuses_what_it_cannot_mean() -> None:
    b, other = Builder(), Builder()
    x = b.var("x", 0.1)
    with pytest.raises(InvalidFormula, match="already"):
        b.var("x", 0.2)
    with pytest.raises(InvalidFormula, match="another builder"):
        x & other.var("y")
    with pytest.raises(InvalidFormula, match=r"\[0, 1\]"):
        b.var("z", 1.5)
    with pytest.raises(TypeError, match="no truth value"):
        bool(x and True)
    with pytest.raises(TypeError, match="expected a gate"):
        x & 1  # type: ignore[operator]
    with pytest.raises(InvalidFormula, match="integer"):
        b.atleast(1.5, x)  # type: ignore[arg-type]
