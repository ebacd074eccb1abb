"""Bounds that must hold surely: checked in exact rationals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from oracle import ANY_PROBS, dnfs, enumerate_fraction, log_fraction, random_dnf

from sharpdnf import DNF
from sharpdnf.engines.bounds import bounds, certified_bounds, log_midpoint
from sharpdnf.estimate import Limit

pytestmark = pytest.mark.native


@settings(max_examples=200, deadline=None)
@given(dnfs(min_clauses=1, min_width=1, max_vars=7, probs=ANY_PROBS))
def test_bounds_hold(dnf: DNF) -> None:
    check(dnf)


@settings(max_examples=150, deadline=None)
@given(dnfs(min_clauses=1, min_width=1, max_vars=7, unate=True, probs=ANY_PROBS))
def test_bounds_hold_for_unate_formulas(dnf: DNF) -> None:
    check(dnf)


def check(dnf: DNF) -> None:
    truth = log_fraction(enumerate_fraction(dnf))
    rounding = 0.0 if math.isinf(truth) else 4e-16 * max(1.0, abs(truth))  # of the logarithm that the oracle takes
    for pairs in (True, False):
        log_lower, log_upper = certified_bounds(dnf, pairs=pairs)
        assert log_lower <= truth + rounding and truth - rounding <= log_upper


def test_the_independent_upper_bound_needs_unateness() -> None:
    """x y or not-x z: 1/2 is more than the 7/16 that independent clauses would have."""
    mixed = DNF.from_clauses([[1, 2], [-1, 3]])
    assert certified_bounds(mixed)[1] >= math.log(0.5)
    same_sign = DNF.from_clauses([[1, 2], [1, 3]])
    assert certified_bounds(same_sign)[1] <= math.log(7 / 16) + 1e-9


def test_disjoint_clauses_certify_an_almost_sure_formula() -> None:
    many = DNF.from_clauses([[2 * i + 1, 2 * i + 2] for i in range(100)] + [[1, 3], [2, 5]])
    log_lower, _ = certified_bounds(many)
    assert 1.0 - math.exp(log_lower) < 1e-11


def test_pairs_are_never_worse_than_bonferroni() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        dnf = random_dnf(rng, 12, 6, (4, 6))
        log_lower, log_upper = certified_bounds(dnf)
        p = [math.exp(x) for x in dnf.clause_log_probs()]
        clauses = [frozenset(c) for c in dnf.clauses()]
        total, pairs = sum(p), 0.0
        for i, a in enumerate(clauses):
            for b in clauses[:i]:
                if not any(-lit in b for lit in a):
                    union = a | b
                    pairs += math.prod(dnf.prob[abs(x) - 1] if x > 0 else 1 - dnf.prob[abs(x) - 1] for x in union)
        assert math.exp(log_lower) >= total - pairs - 1e-9
        assert math.exp(log_upper) <= total + 1e-9


def test_tiny_answers() -> None:
    dnf = DNF.from_clauses([[1, 2], [2, 3], [4, 5]], [1e-250] * 5)
    log_lower, log_upper = certified_bounds(dnf)
    truth = math.log(3) - 500 * math.log(10)
    assert log_lower <= truth <= log_upper and log_upper - log_lower < 1e-9


def test_engine_reports_the_interval() -> None:
    dnf = random_dnf(np.random.default_rng(1), 8, 5, 3, unate=True)
    rng = np.random.default_rng(0)
    estimate = bounds(dnf, guarantee="bounds", epsilon=0.1, delta=0.1, rng=rng, limit=Limit())
    assert estimate.lower <= estimate.prob <= estimate.upper and estimate.info["unate"]
    assert (estimate.log_certified_lower, estimate.log_certified_upper) == certified_bounds(dnf)


@pytest.mark.parametrize(("lower", "upper"), [(0.2, 0.4), (1e-5, 1.0), (0.5, 0.5)])
def test_the_midpoint_is_equally_far_from_both_ends(lower: float, upper: float) -> None:
    x = math.exp(log_midpoint(math.log(lower), math.log(upper)))
    assert x / lower - 1 == pytest.approx(1 - x / upper)


def test_constant_formulas() -> None:
    assert certified_bounds(DNF.from_clauses([])) == (-math.inf, -math.inf)
    assert certified_bounds(DNF.from_clauses([[], [1]])) == (0.0, 0.0)
