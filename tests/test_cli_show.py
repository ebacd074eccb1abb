"""Estimates as text."""

from __future__ import annotations

import math

from sharpdnf import DNF
from sharpdnf.cli import show
from sharpdnf.estimate import Estimate


def test_numbers_of_any_size() -> None:
    assert show.scientific(-math.inf) == "0"
    assert show.scientific(math.log(0.375)) == "0.375"
    assert show.scientific(-1000 * math.log(10)) == "1.00000e-1000"
    assert show.scientific(math.log(9.9999999) + 999 * math.log(10)) == "1.00000e+1000"
    assert show.whole(10**50) == "1.000000...e+50 (51 digits)"
    assert show.duration(0.0000012) == "1.2 us"
    assert show.duration(0.25) == "250 ms"
    assert show.duration(2.0) == "2 s"


def test_an_interval_without_a_promise_is_said_to_be_one() -> None:
    guess = Estimate(log_prob=-1.0, guarantee="none", engine="neural", log_lower=-2.0, log_upper=-0.5)
    dnf = DNF.from_clauses([[1]], prob=[0.3])
    assert "0.606531], not a guarantee" in show.block("f", dnf, guess)
    assert "not a guarantee" not in show.block("f", dnf, guess.replace(met=False))
    assert "not a guarantee" not in show.block("f", dnf, guess.replace(guarantee="bounds"))


def test_the_guarantee_in_words() -> None:
    estimate = Estimate(log_prob=-1.0, guarantee="relative", engine="x", epsilon=0.1, delta=0.05)
    assert show.guarantee(estimate) == "within a factor of 1 ± 0.1 with probability 95 %"
    assert show.guarantee(estimate.replace(delta=0.0)) == "within a factor of 1 ± 0.1, surely"
    assert "NOT MET" in show.guarantee(estimate.replace(met=False))
    assert "without a promise" in show.guarantee(estimate.replace(guarantee="none", epsilon=None, delta=None))
    lines = show.competition_lines(DNF.from_clauses([[1]], prob=[0.3]), estimate.replace(met=False))
    assert "pac" not in lines
