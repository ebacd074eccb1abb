"""Estimates become JSON, and their promises nest."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdnf import DNF, Estimate, count
from sharpdnf.generate import PaperSpec, paper


@pytest.fixture(scope="module")
def large() -> DNF:
    return paper(PaperSpec(2000, 1500, 8), np.random.default_rng(1))


def test_guarantees_nest(large: DNF) -> None:
    assert count(large, guarantee="none").guarantee == "none"
    interval = count(large, guarantee="bounds")
    assert interval.guarantee == "bounds"
    assert interval.lower <= count(large, epsilon=0.01, delta=1e-6).prob * 1.01
    additive = count(large, guarantee="additive", epsilon=0.05, delta=1e-6)
    assert abs(additive.prob - count(large, epsilon=0.005, delta=1e-6).prob) <= 0.056
    assert count(DNF.from_clauses([[1, 2]]), guarantee="relative").guarantee == "exact"


def test_estimates_become_json() -> None:
    fields = count(DNF.from_clauses([])).to_dict()
    assert fields["log_prob"] is None
    assert fields["prob"] == 0.0
    assert isinstance(count(DNF.from_clauses([[1]])), Estimate)
