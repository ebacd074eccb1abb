"""The paper's privileged variables: their number, their slots, and where the authors' program puts them."""

from __future__ import annotations

import math

import appendix
import numpy as np
import pytest
from test_generate import chi_square_limit, rng

from sharpdnf.privileged import (
    compose,
    draw_by_program,
    draw_privileged,
    place_in_runs,
    slots_by_program,
    slots_by_text,
)


def test_privileged_counts_follow_text_and_code() -> None:
    n, draws, r = 1000, 20_000, rng()
    text = np.bincount([math.ceil(draw_privileged(n, "text", r)) for _ in range(draws)], minlength=8)[1:]
    code = np.bincount([math.ceil(draw_privileged(n, "code", r)) for _ in range(draws)], minlength=8)[1:]
    log_n = math.log(n)
    uniform = np.array([1 / log_n] * 6 + [1 - 6 / log_n])
    edges = np.exp(-np.minimum(np.arange(8), log_n))
    geometric = (edges[:-1] - edges[1:]) / (1 - math.exp(-log_n))
    for observed, law in ((text, uniform), (code, geometric)):
        assert ((observed - draws * law) ** 2 / (draws * law)).sum() < chi_square_limit(6)
    assert code[0] / draws == pytest.approx(0.63, abs=0.02)
    assert draw_privileged(1, "text", r) == 1


def test_privileged_slots_are_the_largest_that_cantelli_allows() -> None:
    for n, m, w, p in ((1000, 750, 3, 3), (100, 75, 13, 5), (50, 38, 5, 1), (5000, 3750, 34, 8)):
        slots, excess = m * w, m * w - n
        own = slots_by_text(n, m, slots, p)

        def reach(x: int, n: int = n, p: int = p, excess: int = excess) -> float:
            y = excess - x
            variance = x * (p - 1) * (x + p) / (p * p * (p + 1)) + y * (n - 1) * (y + n) / (n * n * (n + 1))
            return 1 + x / p + y / n + math.sqrt((2 * p - 1) * variance)

        assert reach(own) <= m
        assert own == excess or reach(own + 1) > m


@pytest.mark.parametrize("share", [1.0, 1.4, 2.0, 2.7, 5.5])
@pytest.mark.parametrize(("n", "m", "w"), [(50, 13, 5), (100, 75, 13), (1000, 750, 3), (5000, 3750, 34)])
def test_slots_by_program_are_the_largest_that_its_bound_allows(n: int, m: int, w: int, share: float) -> None:
    found = slots_by_program(n, m, m * w, share)
    assert abs(found - appendix.exclusive_slots_of_the_program(n, m, m * w - n, share)) <= 1  # two ways of rounding


def test_without_excess_slots_there_are_none_to_give() -> None:
    assert slots_by_program(30, 10, 30, 1.0) == 0


def test_compositions_are_uniform() -> None:
    r = rng()
    found = [tuple(compose(3, 3, r).tolist()) for _ in range(10_000)]
    counts = [found.count(c) for c in set(found)]
    assert len(counts) == 10 and all(sum(c) == 3 for c in found)  # 3 balls in 3 boxes: C(5, 2) ways
    assert sum((c - 1000) ** 2 / 1000 for c in counts) < chi_square_limit(9)


def test_no_two_variables_of_a_run_meet_and_what_a_run_leaves_out_comes_first() -> None:
    # Ten clauses of two: 7 and 3 slots are the first run; 6 and 4 the second.
    degree, widths = np.array([3, 6, 4, 7]), np.full(10, 2)
    for seed in range(50):
        clauses = place_in_runs(degree, widths, rng(seed)).reshape(10, 2)
        assert not np.any([{3, 0} == set(c) or {1, 2} == set(c) for c in clauses.tolist()])
    # 8 slots leave out two clauses, which the 7 slots of the next variable take first.
    for seed in range(50):
        clauses = place_in_runs(np.array([8, 7, 5]), widths, rng(seed)).reshape(10, 2)
        assert sum(0 not in c for c in clauses.tolist()) == 2
        assert all(1 in c for c in clauses.tolist() if 0 not in c)


def test_a_variable_with_more_slots_than_clauses_cannot_be_placed() -> None:
    assert place_in_runs(np.array([5, 1]), np.full(3, 2), rng()) is None
    assert draw_by_program(np.full(3, 2), 1, 0.0, 5, rng()) == (None, 0)


def test_one_privileged_variable_stands_in_nearly_all_clauses() -> None:
    widths, r = np.full(750, 5), rng(3)
    for _ in range(20):
        placed, number = draw_by_program(widths, 1000, 1.0, 1000, r)
        assert number == 1 and 730 <= int((placed == 0).sum()) <= 750
        assert all(len(set(c)) == 5 for c in placed.reshape(750, 5).tolist())
        assert set(placed.tolist()) == set(range(1000))


def test_two_privileged_variables_nearly_cover_the_clauses() -> None:
    widths, r = np.full(750, 5), rng(4)
    for _ in range(20):
        placed, number = draw_by_program(widths, 1000, 1.5, 1000, r)
        both, covered = int((placed < 2).sum()), int((placed.reshape(750, 5) < 2).any(axis=1).sum())
        assert number == 2 and covered == min(750, both)
