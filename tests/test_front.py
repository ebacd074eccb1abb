"""count: what is promised holds, limits hold, exact counts are integers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from oracle import dnfs, enumerate_count, enumerate_log_prob, enumerate_prob

from sharpdnf import DNF, _native, count, count_many, discover
from sharpdnf.cli.show import block, competition_lines
from sharpdnf.engines.dtree import dtree
from sharpdnf.errors import MissingExtra
from sharpdnf.estimate import Limit, log1mexp
from sharpdnf.generate import PaperSpec, UniformSpec, paper, uniform


@pytest.fixture(scope="module")
def large() -> DNF:
    return paper(PaperSpec(2000, 1500, 8), np.random.default_rng(1))


@pytest.fixture(scope="module")
def huge() -> DNF:
    return paper(PaperSpec(150_000, 112_500, 13), np.random.default_rng(1))


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """(what it returns, the seconds of processor time it takes)."""
    started = time.process_time()
    return call(), time.process_time() - started


def one_pass(dnf: DNF) -> float:
    """Processor time of one native pass over the literals, now, on this machine."""
    return float(np.median([timed(lambda: _native.clause_log_probs(*dnf.arrays))[1] for _ in range(5)]))


@settings(max_examples=150, deadline=None)
@given(dnfs())
def test_auto_is_within_its_promise(dnf: DNF) -> None:
    estimate = count(dnf, rng=1, delta=1e-6)
    truth = enumerate_prob(dnf)
    assert abs(estimate.prob - truth) <= 0.1 * truth + 1e-12
    assert estimate.certified_lower <= truth * (1 + 1e-9) + 1e-300
    assert truth <= estimate.certified_upper * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(dnfs())
def test_exact_counts_are_integers(dnf: DNF) -> None:
    even = dnf.with_prob(np.full(dnf.num_vars, 0.5))
    estimate = count(even, guarantee="exact")
    assert isinstance(estimate.count, int)
    assert estimate.count == enumerate_count(even)


def test_exact_integers_beyond_a_double() -> None:
    dnf = DNF.from_clauses([[v, v + 1] for v in range(1, 80)])
    # Chains of 80 bits without two neighbouring ones: a Fibonacci number.
    without = [1, 2]
    for _ in range(80):
        without.append(without[-1] + without[-2])
    assert count(dnf, guarantee="exact").count == 2**80 - without[80]


def test_an_integer_is_worth_the_limit_only_where_exact_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpdnf.engines.front.COMPILE_WORK", 10)
    dnf = uniform(UniformSpec(18, 30, 3), np.random.default_rng(1)).with_prob(np.full(18, 0.5))
    asked, got = count(dnf, guarantee="exact"), count(dnf, engine="dtree", guarantee="relative", epsilon=1e-15)
    assert asked.guarantee == got.guarantee == "exact"
    assert asked.count == enumerate_count(dnf) and isinstance(asked.count, int)
    assert isinstance(got.count, float)
    assert "c s exact arb int" in competition_lines(dnf, asked)
    assert "exact" not in competition_lines(dnf, got) and "c s approx arb float" in competition_lines(dnf, got)
    assert "about" in block("f", dnf, got)


def test_trivial_dnfs() -> None:
    assert count(DNF.from_clauses([])).prob == 0.0
    assert count(DNF.from_clauses([], num_vars=3)).count == 0
    assert count(DNF.from_clauses([[]], num_vars=3)).prob == 1.0
    assert count(DNF.from_clauses([[]], num_vars=3)).count == 8
    assert count(DNF.from_clauses([[1, -1]])).prob == 0.0
    assert count(DNF.from_clauses([[1, -1]])).info["normalised"]


def test_weights_come_out_through_the_log_scale() -> None:
    dnf = DNF(np.array([0, 1]), np.array([0]), np.array([0.25]), log_scale=math.log(8.0))
    assert count(dnf).log_wmc == pytest.approx(math.log(2.0))


def test_the_seed_that_was_used_repeats_the_answer(large: DNF) -> None:
    first = count(large)
    assert first.seed is not None
    assert count(large, rng=first.seed).log_prob == first.log_prob
    generator = count(large, rng=np.random.default_rng(3))
    assert count(large, rng=np.random.default_rng(3)).log_prob == generator.log_prob
    assert count(large, rng=generator.seed).log_prob == generator.log_prob


@pytest.mark.speed
@pytest.mark.parametrize("engine", ["auto", "sampling", "klm", "dtree"])
def test_the_timeout_holds_and_never_returns_nothing(large: DNF, engine: str) -> None:
    started = time.perf_counter()
    estimate = count(large, engine=engine, epsilon=1e-4, timeout=0.2, guarantee="relative")
    assert time.perf_counter() - started < 1.5
    assert not estimate.met
    assert 0.0 < estimate.certified_lower <= estimate.prob <= estimate.certified_upper <= 1.0


@pytest.mark.speed
@pytest.mark.parametrize("engine", sorted(discover()))
def test_a_short_timeout_holds_on_a_large_formula(huge: DNF, engine: str) -> None:
    try:
        count(uniform(UniformSpec(40, 60, 3), np.random.default_rng(1)), engine=engine)  # imports
    except MissingExtra as missing:
        pytest.skip(str(missing))
    estimate, spent = timed(lambda: count(huge, engine=engine, timeout=0.02))
    # A loaded machine is slow at everything: what a limit of 0.02 s may cost is told in passes over the literals.
    assert spent < 0.02 + 40 * one_pass(huge)
    assert estimate.certified_lower <= estimate.prob <= estimate.certified_upper
    assert estimate.certified_lower > 0.0 or estimate.met  # an engine without a promise that was in time has no bounds


@pytest.mark.parametrize("engine", ["auto", "sampling", "klm", "conditioned", "dtree"])
def test_no_time_at_all_still_gives_bounds(engine: str) -> None:
    """Every pass over a large formula stops on its way; what comes back is the middle of what surely holds."""
    dnf = paper(PaperSpec(30_000, 20_000, 13), np.random.default_rng(2))
    reference = count(dnf, engine="sampling", epsilon=0.05, delta=1e-6, rng=1)
    estimate = count(dnf, engine=engine, timeout=0.0)
    assert not estimate.met and estimate.samples == 0
    assert 0.0 < estimate.certified_lower <= estimate.prob <= estimate.certified_upper
    assert estimate.certified_lower <= reference.upper and reference.lower <= estimate.certified_upper


def test_exact_on_a_hard_formula_stops_with_bounds(large: DNF) -> None:
    estimate = count(large, guarantee="exact", timeout=0.3)
    assert not estimate.met
    assert estimate.certified_lower <= count(large, epsilon=0.01, delta=1e-6).prob * 1.01
    assert estimate.certified_lower < estimate.certified_upper


def test_certain_additive_answers_are_within_epsilon_of_both_ends() -> None:
    """Bounds that are 2 epsilon apart promise epsilon at their mean, and more than that at their harmonic mean."""
    rng = np.random.default_rng(0)
    seen = 0
    for seed in range(40):
        dnf = uniform(UniformSpec(40, 30, (2, 5)), np.random.default_rng(seed)).with_prob(rng.random(40))
        known = count(dnf, guarantee="bounds")
        epsilon = min(0.9, 0.505 * (known.upper - known.lower) + 1e-6)
        for guarantee in ("additive", "relative"):
            # So late in a batch exactness, which would decide these, is not tried.
            late = count_many([dnf], guarantee=guarantee, epsilon=epsilon, rng=seed, numbers=np.array([10**6]))
            if late["guarantee"][0] == guarantee and late["samples"][0] == 0:
                prob, lower, upper = (float(late[name][0]) for name in ("prob", "lower", "upper"))
                slack = epsilon if guarantee == "additive" else epsilon * lower
                assert prob - lower <= slack + 1e-9
                assert upper - prob <= (slack if guarantee == "additive" else epsilon) + 1e-9
                seen += guarantee == "additive"
    assert seen >= 10


def test_exact_answers_below_the_smallest_double() -> None:
    """Shared variables keep it from being solved by simplification; every clause is about 1e-360."""
    clauses = [[1, 2, 3], [3, 4, 5], [5, 6, 1], [2, 4, 6]]
    dnf = DNF.from_clauses(clauses, [1e-120] * 6)
    for engine in ("auto", "dtree"):
        answer = count(dnf, guarantee="exact", engine=engine)
        assert answer.met and answer.guarantee == "exact"
        assert answer.log_prob == pytest.approx(math.log(4) - 360 * math.log(10), rel=1e-12)
    answer = dtree(
        dnf, guarantee="exact", epsilon=0.1, delta=0.1, rng=np.random.default_rng(0), limit=Limit(), tables=False
    )
    assert answer.met and answer.log_prob == pytest.approx(math.log(4) - 360 * math.log(10), rel=1e-12)


@pytest.mark.speed
def test_the_integer_does_not_outlast_the_timeout() -> None:
    chain = DNF.from_clauses([[v, v + 1] for v in range(1, 15000)])
    answer = count(chain, guarantee="exact", timeout=0.0)
    assert isinstance(answer.count, float)
    if answer.met:
        assert answer.guarantee == "exact"
    short = count(DNF.from_clauses([[v, v + 1] for v in range(1, 60)]), guarantee="exact", timeout=60.0)
    assert isinstance(short.count, int)


def test_seeds_are_whole_numbers_of_any_size() -> None:
    dnf = DNF.from_clauses([[1, 2], [2, 3]])
    assert count(dnf, rng=2**70).seed == 2**70
    assert count_many([dnf], rng=2**70)["met"].all()
    for bad in (3.7, "3"):
        with pytest.raises(TypeError):
            count(dnf, rng=bad)  # type: ignore[arg-type]


def test_no_guarantee_asked_is_always_met(large: DNF) -> None:
    answer = count(large, engine="dtree", guarantee="none", nodes=5)
    assert answer.met and answer.guarantee == "bounds"


@settings(max_examples=150, deadline=None)
@given(dnfs())
def test_the_complement_is_within_its_promise(dnf: DNF) -> None:
    log_rest = log1mexp(min(0.0, enumerate_log_prob(dnf)))
    estimate = count(dnf, rng=1, delta=1e-6, of="complement")
    assert estimate.of == "complement"
    if estimate.met and log_rest > math.log(1e-9):  # the oracle itself subtracts from 1
        assert abs(math.exp(estimate.log_complement - log_rest) - 1.0) <= 0.1
        assert estimate.log_complement_lower - 1e-6 <= log_rest <= estimate.log_complement_upper + 1e-6


@pytest.mark.parametrize("of", ["prob", "complement"])
def test_answers_near_one_say_what_is_missing(of: str) -> None:
    """1 - P = 0.015: a factor of P would allow 0.1 for it."""
    dnf = uniform(UniformSpec(30, 60, 4), np.random.default_rng(3))
    truth = count(dnf, guarantee="exact").complement
    assert 0.01 < truth < 0.02
    for seed in range(5):
        estimate = count(dnf, of=of, rng=seed)
        assert estimate.met and estimate.of == "complement" and estimate.guarantee == "relative"
        assert abs(estimate.complement / truth - 1.0) <= 0.25  # six standard deviations
        assert estimate.complement_lower == pytest.approx(estimate.complement / 1.1)
        assert estimate.prob == pytest.approx(1.0 - estimate.complement)
        assert estimate.upper == pytest.approx(1.0 - estimate.complement_lower)


def test_what_is_missing_is_bounded_honestly_where_it_is_too_small() -> None:
    """1 - P is about 1.5e-5, too little for the draws that nobody asked for, and 0 for a tautology."""
    dnf = uniform(UniformSpec(80, 160, 4), np.random.default_rng(3))
    unasked = count(dnf, rng=1, delta=1e-6)
    assert unasked.met and unasked.of == "prob"
    assert unasked.complement_lower <= 1.5e-5 <= unasked.complement_upper < 0.01
    asked = count(dnf, rng=1, delta=1e-6, of="complement", epsilon=0.3)
    assert asked.met and asked.complement == pytest.approx(1.52e-5, rel=0.3)
    cut = count(dnf, rng=1, of="complement", timeout=0.0)
    assert not cut.met and cut.complement_lower <= 1.5e-5 <= cut.complement_upper


def test_unate_formulas_near_one_are_bounded_by_products() -> None:
    """Disjoint pairs, but for one variable that ties them together: 1 - P = 0.75^k, far below the spacing of 1."""
    k = 400
    clauses = [[2 * i + 1, 2 * i + 2] for i in range(k)]
    truth = k * math.log(0.75)
    for dnf in (DNF.from_clauses(clauses), DNF.from_clauses([*clauses, [1, 4, 6], [3, 5, 7]])):
        for asked in ({}, {"guarantee": "bounds"}, {"of": "complement"}):
            estimate = count(dnf, **asked)
            assert (
                estimate.log_complement_lower - 1e-9 <= estimate.log_complement <= estimate.log_complement_upper + 1e-9
            )
            assert estimate.log_complement_upper <= truth + 1e-9
            assert estimate.log_complement_lower >= truth - 1.0
    assert count(DNF.from_clauses(clauses)).log_complement == pytest.approx(truth, rel=1e-12)


def test_requests_about_the_complement_are_checked(large: DNF) -> None:
    with pytest.raises(ValueError, match="of must be one of prob, complement"):
        count(large, of="negation")
    with pytest.raises(ValueError, match="choose engine='auto'"):
        count(large, of="complement", engine="sampling")
    assert count(large, of="complement", engine="bounds").of == "complement"
