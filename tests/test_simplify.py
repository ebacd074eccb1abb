"""Simplification keeps the answer, in every regime, and says what it did."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from oracle import ANY_PROBS, dnfs, enumerate_fraction, enumerate_log_prob, log_fraction, random_dnf

from sharpdnf import DNF, count
from sharpdnf.simplify import simplify

pytestmark = pytest.mark.native


def close(a: float, b: float) -> bool:
    return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=200, deadline=None)
@given(dnfs(probs=ANY_PROBS, max_clauses=8))
def test_combine_gives_the_original_answer(dnf: DNF) -> None:
    truth = enumerate_log_prob(dnf)
    for solve in (True, False):
        simple = simplify(dnf, solve=solve)
        assert close(simple.combine(enumerate_log_prob(simple.dnf)), truth)


@settings(max_examples=100, deadline=None)
@given(dnfs(max_vars=10, max_clauses=12, max_width=3))
def test_what_remains_is_normal(dnf: DNF) -> None:
    simple = simplify(dnf, solve=False)
    rest = simple.dnf
    DNF(rest.indptr, rest.literals, rest.prob)  # checks order, range and probabilities
    assert set((rest.literals >> 1).tolist()) == set(range(rest.num_vars))
    assert np.array_equal(dnf.prob[simple.variables], rest.prob)
    clauses = [frozenset(c) for c in rest.clauses()]
    assert len(set(clauses)) == len(clauses)
    assert not any(a < b for a in clauses for b in clauses)
    if not simple.notes.get("solved"):
        assert not clauses or not frozenset.intersection(*clauses)


def test_each_step_is_noted() -> None:
    def notes(clauses: list[list[int]], prob: list[float] | None = None) -> dict[str, int]:
        return simplify(DNF.from_clauses(clauses, prob), solve=False).notes

    assert notes([[1, 2], [3, 4], [2, 3]], [0.0, 0.5, 0.5, 0.5]) == {
        "impossible": 1,
        "fixed": 1,
        "factored": 1,
        "solved": 2,
    }
    assert notes([[1, 2], [2, 3], [1, 2]]) == {"duplicate": 1, "factored": 1, "solved": 2}
    assert notes([[1, 2], [1, 2, 3], [2, 4], [1, 4]]) == {"absorbed": 1}
    assert notes([[1], [-1, 2, 3], [2, 4], [3, 4]]) == {"negated_units": 1, "solved": 1}
    assert notes([[1, 2], [3, 4]]) == {"solved": 2}


def test_nothing_to_do_copies_nothing() -> None:
    triangle = DNF.from_clauses([[1, 2], [2, 3], [1, 3]])
    simple = simplify(triangle, solve=False)
    assert simple.dnf is triangle and simple.notes == {} and simple.combine(-1.0) == -1.0
    assert simplify(triangle).dnf.num_clauses == 0


def test_without_time_a_large_formula_is_left_as_it_is() -> None:
    clauses = [[v, v + 1] for v in range(1, 100_000)] * 2
    dnf = DNF.from_clauses(clauses)
    assert simplify(dnf, seconds=0.0).dnf is dnf
    assert simplify(dnf).notes["duplicate"] == 99_999


def test_a_true_formula_and_an_impossible_one() -> None:
    always = simplify(DNF.from_clauses([[1], [-1]]))
    assert always.dnf.num_clauses == 0 and always.combine(-math.inf) == 0.0
    certain = simplify(DNF.from_clauses([[1, 2]], [1.0, 1.0]))
    assert certain.combine(-math.inf) == 0.0
    never = simplify(DNF.from_clauses([[1, 2]], [0.0, 0.5]))
    assert never.dnf.num_clauses == 0 and never.combine(-math.inf) == -math.inf


def test_answers_far_below_the_smallest_double() -> None:
    """Two components of 1e-500 each: M rounds to 1, the answer must not round to one of them."""
    p = 1e-250
    clauses = [[1, 2], [3, 4, 5], [3, 4, 6], [3, 4, -5, -6]]
    dnf = DNF.from_clauses(clauses, [p, p, p, p, 0.5, 0.5])
    for solve in (True, False):
        simple = simplify(dnf, solve=solve)
        assert close(simple.combine(enumerate_log_prob(simple.dnf)), math.log(2) - 1000 * math.log(10) / 2)
    single = simplify(DNF.from_clauses([[1, 2]], [p, p]))
    assert close(single.combine(-math.inf), -500 * math.log(10))
    assert single.combine(-2000.0) > single.combine(-math.inf) or single.fold.log_hit > -1500


def test_common_literals_are_factored_and_names_follow() -> None:
    dnf = DNF.parse("z & a & b | z & b & c | z & c & a", {"z": 1e-200, "a": 0.5, "b": 0.5, "c": 0.5})
    simple = simplify(dnf, solve=False)
    assert simple.fold.log_factor == pytest.approx(-200 * math.log(10))
    assert simple.dnf.names == ("a", "b", "c") and simple.variables.tolist() == [1, 2, 3]
    assert close(simple.combine(enumerate_log_prob(simple.dnf)), log_fraction(enumerate_fraction(dnf)))


def test_few_literals_in_a_large_variable_space_touch_little() -> None:
    """A formula of a batch shares its variables with a million others."""
    small = DNF.from_clauses([[1, 999_999], [2, 999_999], [1, 2]], num_vars=1_000_000)
    tiny = DNF.from_clauses([[1, 3], [2, 3], [1, 2]])
    simple = simplify(small, solve=False)
    assert simple.variables.tolist() == [0, 1, 999_998] and simple.dnf.clauses() == [[1, 3], [2, 3], [1, 2]]
    assert best_of(lambda: simplify(small)) < 20 * best_of(lambda: simplify(tiny)) + 1e-4


@pytest.mark.speed
def test_cost_against_one_pass_over_the_literals() -> None:
    dnf = random_dnf(np.random.default_rng(3), 1000, 750, 3)
    assert best_of(lambda: simplify(dnf)) < 60 * best_of(dnf.clause_log_probs) + 1e-4


def best_of(call: object, repeats: int = 30) -> float:
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call()  # type: ignore[operator]
        best = min(best, time.perf_counter() - start)
    return best


def test_a_component_next_to_certain_keeps_the_digits_of_its_complement() -> None:
    """1 - P is 2e-33: bounds of P that agree to the last digit say nothing of it."""
    clauses = [
        [1, -6, -8, -10, 12, 14], [-4, -6, 8, 10, -15, -17], [-1, 3, -7, -12, 14, -18], [11, 13, 16], [11, -13, 16],
        [-2, -3, -5, 6, 7, 8, -9, 10, -18], [2, -5, -9], [3, 7, -18], [-2, -4, 5, -9, -11, -13, 15, -16, 17],
        [4, -15, -17], [1, -12, -14], [-7], [5, -7, 14],
    ]  # fmt: skip
    sure, rare, rarer, low = 1 - 2**-53, 1e-140, 1e-200, 1e-5
    prob = [0.5, sure, sure, 0.5, rare, rarer, 0.5, 0.5, rare, low, 0.5, rare, rare, 0.5, rare, low, low, rarer]
    dnf = DNF.from_clauses(clauses, prob)
    found = count(dnf, guarantee="exact")
    truth = log_fraction(1 - enumerate_fraction(dnf))
    assert found.log_complement == pytest.approx(truth, rel=1e-9)
    assert found.log_complement_lower <= truth <= found.log_complement_upper
