"""Elimination along the clause-variable graph (kernel ``incidence``): wide clauses that lie beside each other."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracle import enumerate_fraction, log_fraction, random_dnf

from sharpdnf import DNF, Estimate
from sharpdnf.engines.exact import compile as compile_dnf
from sharpdnf.engines.exact import exact
from sharpdnf.estimate import Limit

pytestmark = pytest.mark.native


def incidence(dnf: DNF, method: str = "incidence", memory: int = 2 << 30, threads: int = 1, **options: Any) -> Estimate:
    """The engine itself, before which nothing is simplified away."""
    limit = Limit(deadline=time.monotonic() + 120.0, memory=memory, threads=threads)
    asked: dict[str, Any] = {"guarantee": "exact", "epsilon": 0.1, "delta": 0.05, "rng": np.random.default_rng(0)}
    return exact(dnf, method=method, limit=limit, **asked, **options)


def renamed(clauses: list[list[int]], prob: Any, rng: np.random.Generator) -> DNF:
    """The formula with variables numbered and clauses listed at random: names and order must not help."""
    names = rng.permutation(len(prob)) + 1
    other = np.empty(len(prob))
    other[names - 1] = prob
    rows = [[int(math.copysign(names[abs(x) - 1], x)) for x in clauses[i]] for i in rng.permutation(len(clauses))]
    return DNF.from_clauses(rows, other, num_vars=len(prob))


def window(n: int, width: int, stride: int, rng: np.random.Generator) -> list[list[int]]:
    """Clauses over ``width`` variables in a row, each ``stride`` further on; random signs, so nothing can be merged."""
    return [
        [int(v) * int(rng.choice([-1, 1])) for v in range(first + 1, first + width + 1)]
        for first in range(0, n - width + 1, stride)
    ]


def window_prob(clauses: list[list[int]], prob: Any) -> Any:
    """P(some clause is true), from left to right: the state is the set of clauses whose literals so far are true."""
    zero, one = prob[0] * 0, prob[0] * 0 + 1
    starting: dict[int, list[int]] = {}
    for c, clause in enumerate(clauses):
        starting.setdefault(abs(clause[0]), []).append(c)
    signs = [{abs(x): x > 0 for x in clause} for clause in clauses]
    open_, holds = {frozenset[int](): one}, zero
    for v, p in enumerate(prob, 1):
        after: dict[frozenset[int], Any] = {}
        for state, weight in open_.items():
            for value, share in ((True, p), (False, 1 - p)):
                kept = frozenset(c for c in [*state, *starting.get(v, [])] if signs[c].get(v, value) == value)
                if any(abs(clauses[c][-1]) == v for c in kept):
                    holds += weight * share
                else:
                    after[kept] = after.get(kept, zero) + weight * share
        open_ = after
    return holds


def of_pairs(links: list[tuple[int, int]], shared: int, rng: np.random.Generator) -> tuple[list[list[int]], int]:
    """A clause for each number in ``links``; both of a pair read ``shared`` variables, with signs of their own."""
    clauses: list[list[int]] = [[] for _ in range(1 + max(max(link) for link in links))]
    n = 0
    for link in links:
        for _ in range(shared):
            n += 1
            for c in link:
                clauses[c].append(n * int(rng.choice([-1, 1])))
    return clauses, n


def grid_links(rows: int, cols: int) -> list[tuple[int, int]]:
    node = np.arange(rows * cols).reshape(rows, cols)
    down = zip(node[:-1].ravel().tolist(), node[1:].ravel().tolist(), strict=True)
    right = zip(node[:, :-1].ravel().tolist(), node[:, 1:].ravel().tolist(), strict=True)
    return [*down, *right]


def holds_exactly(estimate: Estimate, truth: Fraction) -> bool:
    assert estimate.met and estimate.guarantee == "exact" and estimate.info["method"] == "incidence"
    assert Fraction(estimate.lower) <= truth <= Fraction(estimate.upper)
    assert estimate.log_complement == pytest.approx(log_fraction(1 - truth), rel=1e-11, abs=1e-300)
    return estimate.log_prob == pytest.approx(log_fraction(truth), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("scale", [1.0, 1e-100, 1e-300])
def test_random_wide_clauses_against_enumeration(scale: float) -> None:
    rng = np.random.default_rng(int(-math.log10(scale)))
    for _ in range(60):
        n = int(rng.integers(2, 13))
        dnf = random_dnf(rng, n, int(rng.integers(1, 9)), (2, n))
        dnf = dnf.with_prob(np.where(rng.random(n) < 0.5, dnf.prob * scale, dnf.prob))
        assert holds_exactly(incidence(dnf), enumerate_fraction(dnf))


@pytest.mark.parametrize(("rows", "cols", "shared"), [(2, 2, 3), (3, 2, 2), (2, 3, 2), (5, 1, 4)])
def test_small_grids_of_clauses_against_enumeration(rows: int, cols: int, shared: int) -> None:
    rng = np.random.default_rng([rows, cols])
    clauses, n = of_pairs(grid_links(rows, cols), shared, rng)
    dnf = renamed(clauses, rng.uniform(0.05, 0.95, n), rng)
    assert holds_exactly(incidence(dnf), enumerate_fraction(dnf))


@pytest.mark.parametrize("p", [0.5, 1e-20])
def test_a_sliding_window_costs_the_clauses_that_are_open_at_once(p: float) -> None:
    """Thirty variables to a bag of the primal graph, three clauses to one of the clause-variable graph."""
    rng = np.random.default_rng(1)
    prob = rng.uniform(0.6, 1.0, 300) * p
    clauses = window(300, 30, 10, rng)
    estimate = incidence(renamed(clauses, prob, rng))
    assert estimate.info["operations"] < 1e6
    assert holds_exactly(estimate, window_prob(clauses, [Fraction(float(x)) for x in prob]))


def test_long_and_wide_windows_are_chosen_by_themselves() -> None:
    rng = np.random.default_rng(2)
    clauses, prob = window(2_000, 60, 12, rng), rng.uniform(0.3, 0.7, 2_000)
    estimate = incidence(renamed(clauses, prob, rng), "auto")
    assert estimate.met and estimate.info["method"] == "incidence"
    assert estimate.prob == pytest.approx(window_prob(clauses, prob.tolist()), rel=1e-10, abs=0.0)


def test_strips_and_trees_of_wide_clauses_agree_with_other_methods() -> None:
    rng = np.random.default_rng(3)
    tree = [((i - 1) // 3, i) for i in range(1, 40)]
    for links, shared in ((grid_links(12, 2), 6), (tree, 8)):
        clauses, n = of_pairs(links, shared, rng)
        dnf = renamed(clauses, rng.uniform(0.3, 0.7, n), rng)
        found, other = incidence(dnf), incidence(dnf, "shannon-tree")
        assert found.met and other.met
        assert found.log_prob == pytest.approx(other.log_prob, rel=1e-10)


@pytest.mark.threads
@pytest.mark.parametrize("p", [0.5, 1e-30])
def test_threads_do_not_change_the_answer(p: float) -> None:
    """Tables large enough to be shared out, with numbers inside and far below the range of doubles."""
    rng = np.random.default_rng(5)
    clauses, n = of_pairs(grid_links(9, 9), 4, rng)
    dnf = renamed(clauses, rng.uniform(0.5, 1.0, n) * p, rng)
    one, two = incidence(dnf), incidence(dnf, threads=2)
    assert one.met and one.info["method"] == "incidence"
    assert (one.log_prob, one.log_complement) == (two.log_prob, two.log_complement)


def test_what_is_too_wide_or_too_large_is_said() -> None:
    rng = np.random.default_rng(4)
    clauses, n = of_pairs(grid_links(12, 12), 4, rng)
    dnf = renamed(clauses, rng.uniform(0.3, 0.7, n), rng)
    small = incidence(dnf, memory=1 << 12)
    assert not small.met and small.info["stopped"] == "too wide" and small.lower < small.upper
    few = incidence(dnf, operations=1_000)
    assert not few.met and few.info["stopped"] == "operations"


def test_it_gives_the_number_and_no_circuit() -> None:
    assert compile_dnf(DNF.from_clauses([[1, 2, 3, 4, 5], [-1, 6, 7, 8]]), method="incidence") is None
