"""The core type: builders, normal form, immutability, errors that say what to do."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable

import numpy as np
import pytest

from sharpdnf import DNF, Batch
from sharpdnf.errors import InvalidFormula, MissingExtra, ParseError

pytestmark = pytest.mark.native


def test_from_clauses_normalises_and_says_so() -> None:
    dnf = DNF.from_clauses([[3, 1, 1], [2, -2], [-2]], {1: 0.4})
    assert dnf.clauses() == [[1, 3], [-2]]
    assert dnf.prob.tolist() == [0.4, 0.5, 0.5]
    assert len(dnf.notes) == 2
    assert str(dnf) == "x1 & x3 | ~x2"


def test_parse_reads_names() -> None:
    dnf = DNF.parse("a & ~b | !c", {"a": 0.5, "b": 0.5, "c": 0.25})
    assert dnf.names == ("a", "b", "c")
    assert dnf.clauses() == [[1, -2], [-3]]
    assert dnf.prob.tolist() == [0.5, 0.5, 0.25]
    assert DNF.parse(str(dnf), dict(zip("abc", dnf.prob, strict=True))) == dnf
    assert DNF.parse("").num_clauses == 0
    assert DNF.parse("true").widths.tolist() == [0]
    for bad in ("a &", "| a", "a b", "1a", "a & | b"):
        with pytest.raises(InvalidFormula, match="expected a literal"):
            DNF.parse(bad)


def test_arrays_cannot_be_changed_from_either_side() -> None:
    prob = np.array([0.5, 0.5])
    dnf = DNF(np.array([0, 2]), np.array([0, 3]), prob)
    prob[0] = 9.0
    assert dnf.prob[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        dnf.prob[0] = 0.1
    with pytest.raises(AttributeError):
        dnf.prob = prob  # type: ignore[misc]


@pytest.mark.parametrize(
    ("clauses", "prob", "message"),
    [
        ([[0]], None, "numbered from 1"),
        ([[1]], [1.5], "expected a number in"),
        ([[1]], [float("nan")], "expected a number in"),
        ([[1]], {0: 0.5}, "numbered from 1"),
        ([["x"]], None, "must hold integers"),
        ([[2**40]], None, "literals can number"),
    ],
)
def test_bad_clauses(clauses: list[list[int]], prob: object, message: str) -> None:
    with pytest.raises(InvalidFormula, match=message):
        DNF.from_clauses(clauses, prob)  # type: ignore[arg-type]


def test_bad_arrays() -> None:
    half = np.full(2, 0.5)
    for indptr, literals in [
        ([0, 1], [9]),
        ([0, 2], [2, 0]),
        ([0, 2], [0, 1]),
        ([1, 1], []),
        ([0, 2, 1], [0, 2]),
        ([0, 1], [-1]),
    ]:
        with pytest.raises(InvalidFormula):
            DNF(np.array(indptr), np.array(literals, dtype=np.int32), half)
    with pytest.raises(InvalidFormula, match="beyond num_vars"):
        DNF.from_clauses([[3]], num_vars=2)
    with pytest.raises(InvalidFormula, match="names"):
        DNF(np.array([0]), np.array([], dtype=np.int32), half, names=("a",))


def test_a_batch_is_a_bigger_formula() -> None:
    parts = [DNF.from_clauses([[1, -2]], [0.1, 0.2]), DNF.from_clauses([]), DNF.from_clauses([[1], [2]], [0.3, 0.4])]
    batch = Batch.of(parts)
    assert len(batch) == 3
    assert batch[0].clauses() == [[1, -2]]
    assert batch[2].clauses() == [[3], [4]]
    assert batch.dnf.prob.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert len(Batch.of([])) == 0
    with pytest.raises(InvalidFormula):
        Batch(parts[0], np.array([0, 5]))
    with pytest.raises(IndexError):
        batch[3]


def test_numbers_that_are_no_literals_are_refused_not_rounded() -> None:
    for clauses in ([[1.5, 2]], [["1"]], [[True]], [[2**70]]):
        with pytest.raises(InvalidFormula):
            DNF.from_clauses(clauses)
    indptr, prob = np.array([0, 1]), np.array([0.5])
    for literals in (np.array([0.7]), np.array([2**32])):  # would become 0: another formula
        for build in (DNF, DNF.from_arrays):
            with pytest.raises(InvalidFormula, match="literals must"):
                build(indptr, literals, prob)
    for bad in (0.3, [[0.3]]):
        with pytest.raises(InvalidFormula, match="prob must"):
            DNF.from_clauses([[1], [2]], bad)


def test_names_are_words_and_differ() -> None:
    for names, message in (
        (("a", "a"), "two variables"),
        ((1, 2), "strings"),
        (("", "b"), "empty"),
        (("a",), "1 names"),
    ):
        with pytest.raises(InvalidFormula, match=message):
            DNF.from_clauses([[1, 2]], names=names)  # type: ignore[arg-type]


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_copies_are_equal_and_read_only(again: Callable[[DNF], DNF]) -> None:
    dnf = DNF.parse("a & b | ~c", {"a": 0.2, "b": 0.5, "c": 0.5})
    twin = again(dnf)
    assert twin == dnf and twin.notes == dnf.notes
    assert not any(array.flags.writeable for array in twin.arrays)


def test_errors_survive_a_process_border() -> None:
    error = pickle.loads(pickle.dumps(ParseError("expected a clause", file="f.dnf", line=3)))
    assert (str(error), error.file, error.line) == ("f.dnf:3: expected a clause", "f.dnf", 3)
    assert "sharpdnf[sql]" in str(pickle.loads(pickle.dumps(MissingExtra("connect", "sql"))))


def test_names_without_a_probability_are_errors() -> None:
    with pytest.raises(InvalidFormula, match="nothing about 'umbrela': did you mean 'umbrella'"):
        DNF.parse("rain & ~umbrela", {"rain": 0.3, "umbrella": 0.4})
    with pytest.raises(InvalidFormula, match=r"nothing about 'rain'$"):
        DNF.parse("rain", {})
    with pytest.raises(TypeError, match="prob must map names"):
        DNF.parse("rain", [0.3])  # type: ignore[arg-type]
    assert DNF.parse("rain").prob.tolist() == [0.5]
    assert DNF.parse("rain", {"snow": 0.1, "rain": 0.3}).names == ("rain", "snow")


def test_a_short_list_of_probabilities_is_an_error() -> None:
    for num_vars, given in ((None, [0.3]), (4, [0.3, 0.4]), (None, [])):
        with pytest.raises(InvalidFormula, match="list all, or map"):
            DNF.from_clauses([[1, 2]], given, num_vars=num_vars)
    assert DNF.from_clauses([[1, 2]], [0.1, 0.2, 0.3]).num_vars == 3
    assert DNF.from_clauses([[1, 2]], {2: 0.1}).prob.tolist() == [0.5, 0.1]


@pytest.mark.speed
def test_parsing_takes_linear_time_and_short_messages() -> None:
    started = time.process_time()
    blanks = " " * 100_000
    assert DNF.parse(f"a &{blanks}~{blanks}b | c{blanks}").clauses() == [[1, -2], [3]]
    for bad in (f"a{blanks}b", f"~{blanks}&", "a & " + "1" * 100_000, f"{blanks}~{blanks}!{blanks}1", f"a | {blanks}"):
        with pytest.raises(InvalidFormula, match="expected a literal") as caught:
            DNF.parse(bad)
        assert len(str(caught.value)) < 200
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: Batch(f, [0, 0.9, 2]), "formula_indptr must hold integers"),
        (lambda f: Batch(f, np.ma.array([0, 1, 2], mask=[0, 1, 0])), "masked"),
        (lambda f: DNF.from_clauses([[1]], num_vars=2.9), "num_vars must be a whole number"),
        (lambda f: DNF.from_clauses([[1]], num_vars=float("inf")), "num_vars must be a whole number"),
        (lambda f: DNF.from_clauses([[1]], num_vars="3"), "num_vars must be a whole number"),
        (lambda f: DNF.from_clauses([], num_vars=-1), "beyond num_vars"),
        (lambda f: DNF(*f.arrays, log_scale=float("nan")), "log_scale must be a finite number"),
        (lambda f: DNF(*f.arrays, log_scale=float("inf")), "log_scale must be a finite number"),
        (lambda f: DNF(*f.arrays, log_scale="1"), "log_scale must be a finite number"),
        (lambda f: f.with_prob(np.ma.array([0.1, 0.2], mask=[0, 1])), "masked"),
        (lambda f: f.with_prob(["0.1", "0.2"]), "prob must hold numbers"),
        (lambda f: f.with_prob([0.1, 1.5]), "variable 2 has probability 1.5"),
        (lambda f: f.with_prob([None, 0.5]), "prob"),
        (lambda f: DNF.from_clauses([[1]], np.ma.array([0.5], mask=[1])), "masked"),
        (lambda f: DNF.from_clauses([[1]], {1: "0.5"}), "probability of variable 1"),
        (lambda f: DNF.from_clauses([[1]], {1.5: 0.5}), "a variable of prob must be a whole number"),
        (lambda f: DNF.from_clauses([[1]], {"a": 0.5}), "a variable of prob must be a whole number"),
        (lambda f: DNF.from_clauses(np.ma.array([[1, 2]], mask=[[0, 1]])), "must hold integers"),
    ],
)
def test_what_was_taken_silently_is_refused(call: Callable[[DNF], object], message: str) -> None:
    with pytest.raises(InvalidFormula, match=message):
        call(DNF.from_clauses([[1], [2]], [0.5, 0.5]))


def test_no_way_leads_to_writeable_arrays() -> None:
    """Neither a view's base, nor an array that is unlocked again, nor what a formula or batch hands out."""
    base = np.array([0, 2, 4], dtype=np.int32)
    view = base.view()
    view.flags.writeable = False
    locked = np.array([0, 1, 2, 3])
    locked.flags.writeable = False
    dnf = DNF(locked, view, np.full(3, 0.5))
    base[:] = 1 << 29
    locked.flags.writeable = True
    locked[:] = 99
    assert dnf.clauses() == [[1], [2], [3]]
    batch = Batch(dnf, np.array([0, 1, 3]))
    built = DNF.from_clauses([[1, 2]])
    for array in (*dnf.arrays, *built.arrays, *dnf.with_prob([0.1] * 3).arrays, batch.formula_indptr, *batch[1].arrays):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 7
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True
