"""Formulas from formulas: operators, and parentheses multiplied out, against enumeration."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from oracle import enumerate_prob
from scipy.sparse import csr_array

from sharpdnf import DNF, Circuit, count
from sharpdnf.errors import InvalidFormula, LimitError

PROB = {"a": 0.3, "b": 0.6, "c": 0.2, "d": 0.9}


def random_text(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["a", "b", "c", "d", "~a", "!c", "true", "false"])
    inner = f" {rng.choice('|&')} ".join(random_text(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    return rng.choice(["", "~"]) + f"({inner})"


@pytest.mark.parametrize("seed", range(300))
def test_parentheses_mean_what_python_means(seed: int) -> None:
    text = random_text(random.Random(seed), 3)
    if "(" not in text:
        text = f"({text})"
    python = text.replace("~", " not ").replace("!", " not ").replace("&", " and ").replace("|", " or ")
    python = python.replace("true", "True").replace("false", "False")
    expected = 0.0
    for values in itertools.product((False, True), repeat=4):
        world = dict(zip(PROB, values, strict=True))
        weight = np.prod([PROB[v] if world[v] else 1.0 - PROB[v] for v in PROB])
        expected += float(weight) * bool(eval(python, {}, world))
    assert enumerate_prob(DNF.parse(text, PROB)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a | b", "column 1 is never closed"),
        ("a | b)", "closes nothing"),
        ("(a b)", "column 4"),
        ("(a |)", "column 5"),
        ("()", "column 2"),
        ("(a) &", "the end"),
    ],
)
def test_errors_say_the_column(text: str, message: str) -> None:
    with pytest.raises(InvalidFormula, match=message):
        DNF.parse(text)


def test_what_grows_too_large_is_refused_and_a_circuit_is_named() -> None:
    text = " & ".join(f"(a{i} | b{i})" for i in range(30))
    with pytest.raises(LimitError, match=r"Circuit\.parse"):
        DNF.parse(text)


def test_operators_are_those_of_circuits() -> None:
    rain, wet = DNF.parse("a & b | ~c", PROB), DNF.parse("c & d | ~a", PROB)
    either, both = Circuit.parse("(a & b | ~c) | (c & d | ~a)", PROB), Circuit.parse("(a&b|~c) & (c&d|~a)", PROB)
    assert enumerate_prob(rain | wet) == pytest.approx(count(either, guarantee="exact").prob, abs=1e-12)
    assert enumerate_prob(rain & wet) == pytest.approx(count(both, guarantee="exact").prob, abs=1e-12)


def test_variables_are_the_same_by_name() -> None:
    left, right = DNF.parse("a & b", {"a": 0.5, "b": 0.25}), DNF.parse("b & c", {"b": 0.25, "c": 0.5})
    assert (left | right).names == ("a", "b", "c")
    assert enumerate_prob(left | right) == pytest.approx(0.25 * 0.75)
    with pytest.raises(InvalidFormula, match="different probabilities"):
        left | DNF.parse("b", {"b": 0.5})
    with pytest.raises(TypeError):
        left | 3  # type: ignore[operator]


def test_a_sparse_matrix_is_a_formula() -> None:
    matrix = csr_array(np.array([[1, -1, 0], [0, 0, 1]]))
    assert DNF.from_clauses(matrix, [0.3, 0.4, 0.1]) == DNF.from_clauses([[1, -2], [3]], [0.3, 0.4, 0.1])
    with pytest.raises(InvalidFormula, match="1 for a variable"):
        DNF.from_clauses(csr_array(np.array([[2, 0]])))
