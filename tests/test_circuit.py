"""The circuit type: building, text, formats, and refusals that say where and what to do."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from circuit_oracle import circuit_fraction, random_circuit, truth

from sharpdnf import DNF, Builder, Circuit, read_circuit, write_circuit
from sharpdnf.circuit import AND, NOT, OR, VAR, stacked
from sharpdnf.circuit_formats import from_json, from_nnf, lower, to_cnf, to_json, to_nnf, tseitin
from sharpdnf.errors import InvalidFormula, LimitError, ParseError
from sharpdnf.relax import relax

pytestmark = pytest.mark.native

RANDOM = [random_circuit(np.random.default_rng([1, i]), outputs=1 + i % 3) for i in range(150)]


def assignments(n: int) -> np.ndarray:
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def same_event(left: Circuit, right: Circuit) -> bool:
    rows = assignments(left.num_vars)
    return np.array_equal(left.evaluate(rows)[:, 0], right.evaluate(rows)[:, 0])


def test_evaluation_is_that_of_the_gates_one_by_one() -> None:
    for circuit in RANDOM:
        rows = assignments(circuit.num_vars)
        assert circuit.evaluate(rows).tolist() == [truth(circuit, tuple(row)) for row in rows.tolist()]


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


def test_a_relaxed_dnf_contains_the_event() -> None:
    for circuit in RANDOM:
        for limit in (3, 20, 100):
            for negated in (False, True):
                dnf, equal = relax(circuit, limit, negated=negated)
                inside = circuit.evaluate(assignments(circuit.num_vars))[:, 0] != negated
                outer = Circuit.from_dnf(dnf).evaluate(assignments(circuit.num_vars))[:, 0]
                assert np.all(outer[inside])
                assert not equal or np.array_equal(outer, inside)


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


def test_stacking_keeps_every_output() -> None:
    circuits = [c.with_prob(np.full(c.num_vars, 0.5)) for c in RANDOM if c.num_vars == 4][:6]
    together = stacked(circuits)
    assert together is not None
    rows = assignments(4)
    assert np.array_equal(together.evaluate(rows), np.concatenate([c.evaluate(rows) for c in circuits], axis=1))
    assert stacked([circuits[0], circuits[1].with_prob(np.full(4, 0.25))]) is None
