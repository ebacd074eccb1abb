"""count_many: agrees with count, whatever the threads, the neighbours and how the work is cut up."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import dnfs, enumerate_prob
from test_front import one_pass, timed

from sharpdnf import DNF, Batch, count, count_many, read
from sharpdnf.generate import PaperSpec, UniformSpec, paper, uniform


@settings(max_examples=40, deadline=None)
@given(st.lists(dnfs(), min_size=1, max_size=4))
def test_many_agree_with_enumeration(parts: list[DNF]) -> None:
    truth = np.array([enumerate_prob(dnf) for dnf in parts])
    for guarantee in ("exact", "relative", "additive", "bounds", "none"):
        table = count_many(parts, guarantee=guarantee, delta=1e-6, rng=1)
        assert np.all(table["certified_lower"] <= truth * (1 + 1e-9) + 1e-15)
        assert np.all(table["certified_upper"] >= truth * (1 - 1e-9) - 1e-15)
        if guarantee in ("exact", "relative"):
            assert np.all(np.abs(table["prob"] - truth) <= 0.1 * truth + 1e-12)


@pytest.mark.threads
def test_many_does_not_depend_on_threads_or_neighbours() -> None:
    rng = np.random.default_rng(5)
    parts = [paper(PaperSpec(200, 150, 8), rng) for _ in range(40)]
    one = count_many(parts, rng=3, threads=1)
    two = count_many(parts, rng=3, threads=4)
    assert np.array_equal(one["log_prob"], two["log_prob"])
    assert "sampling" in one["engine"]
    fine = count_many(parts, rng=4, epsilon=0.01, delta=1e-7)
    assert np.all(np.abs(one["prob"] / fine["prob"] - 1.0) < 0.25)
    assert np.mean(np.abs(one["prob"] / fine["prob"] - 1.0) > 0.11) < 0.3
    by_klm = count_many(parts[:3], rng=3, engine="klm")
    assert np.all(np.abs(by_klm["prob"] / fine["prob"][:3] - 1.0) < 0.15)


@pytest.mark.parametrize("engine", ["auto", "sampling"])
def test_many_tell_the_seed_that_repeats_them(engine: str) -> None:
    parts = [uniform(UniformSpec(60, 80, 4), np.random.default_rng(i)) for i in range(3)]
    first = count_many(parts, engine=engine)
    again = count_many(parts, engine=engine, rng=int(first["seed"][0]))
    assert np.array_equal(first["log_prob"], again["log_prob"]) and first["samples"].any()
    assert count_many(parts, engine=engine, rng=2**70)["seed"].tolist() == [2**70] * 3


@pytest.mark.speed
def test_many_stops_at_the_timeout_with_bounds() -> None:
    rng = np.random.default_rng(6)
    batch = Batch.of([paper(PaperSpec(300, 225, 8), rng) for _ in range(50)])
    table = count_many(batch, epsilon=0.001, timeout=0.2)
    assert not table["met"].all()
    assert np.all(table["certified_lower"] > 0.0)
    assert np.all(table["certified_lower"] <= table["prob"])
    assert np.all(table["prob"] <= table["certified_upper"])


def test_an_empty_batch() -> None:
    assert len(count_many([])["prob"]) == 0
    assert count_many([DNF.from_clauses([]), DNF.from_clauses([[]])])["prob"].tolist() == [0.0, 1.0]


@pytest.mark.threads
@pytest.mark.parametrize("engine", ["auto", "sampling", "klm"])
def test_draws_do_not_depend_on_how_the_work_is_cut_up(engine: str) -> None:
    parts = [paper(PaperSpec(120, 90, 8), np.random.default_rng([5, i])) for i in range(12)]
    whole = count_many(parts, rng=3, engine=engine)
    assert whole["samples"].any()
    for cuts in ([0, 5, 12], [0, 1, 2, 11, 12]):
        for first, last in itertools.pairwise(cuts):
            some = count_many(parts[first:last], rng=3, engine=engine, numbers=np.arange(first, last), threads=2)
            assert np.array_equal(some["log_prob"], whole["log_prob"][first:last])
    picked = np.array([7, 2, 9])
    some = count_many([parts[i] for i in picked], rng=3, engine=engine, numbers=picked)
    assert np.array_equal(some["log_prob"], whole["log_prob"][picked])
    other = count_many(parts, rng=3, engine=engine, numbers=np.arange(12) + 1)
    assert not np.array_equal(other["log_prob"], whole["log_prob"])


def test_numbers_are_checked() -> None:
    parts = [DNF.from_clauses([[1, 2]])] * 2
    for bad in ([0], [0.0, 1.0], [0, -1], [[0, 1]]):
        with pytest.raises(ValueError, match="numbers must be one whole number"):
            count_many(parts, numbers=np.array(bad))


def test_no_two_streams_coincide() -> None:
    """The same formula many times over, under seeds that are close or agree in their last bits: other draws each."""
    dnf = paper(PaperSpec(120, 90, 8), np.random.default_rng(5))
    seen = set()
    for seed in (0, 1, 2, 2**32, 2**64, 2**64 + 1, 2**70):
        table = count_many([dnf] * 8, rng=seed, epsilon=0.01)
        assert set(table["engine"]) == {"sampling"}
        seen |= set(table["samples"].tolist())
    assert len(seen) > 45  # 56 numbers of tens of thousands of draws: a few may agree by chance


def tangled(num_formulas: int, num_vars: int) -> Batch:
    """Formulas of 40 clauses over one space of variables, none of which is easy."""
    rng = np.random.default_rng(4)
    rows = np.sort(rng.permuted(np.tile(np.arange(60), (40 * num_formulas, 1)), axis=1)[:, :3], axis=1)
    rows += np.repeat(rng.integers(0, num_vars - 60, num_formulas), 40)[:, None]
    dnf = DNF.from_arrays(np.arange(0, rows.size + 1, 3), (2 * rows).ravel(), rng.random(num_vars) * 0.5)
    return Batch(dnf, np.arange(num_formulas + 1) * 40)


@pytest.mark.speed
@pytest.mark.parametrize("engine", ["auto", "sampling", "klm", "dtree", "bounds", "conditioned", "lbp"])
def test_no_time_for_thousands_costs_a_few_passes(engine: str) -> None:
    """At the deadline nothing is started any more that looks at every variable of the batch, or takes Python's time."""
    batch = tangled(5_000, 100_000)
    table, spent = timed(lambda: count_many(batch, engine=engine, timeout=0.0, threads=1))
    assert spent < 0.05 + 40 * one_pass(batch.dnf)
    assert np.all(table["certified_lower"] <= table["prob"]) and np.all(table["prob"] <= table["certified_upper"])
    # The first formula is always taken up: an engine may be done with it before it looks at the clock.
    surely = (table["guarantee"] == "exact") | (engine == "bounds")
    assert np.all(table["certified_lower"][1:] > 0.0)
    assert np.array_equal(table["met"][1:], surely[1:]) and (engine == "bounds" or not surely.all())
    known = count_many(batch, guarantee="bounds")
    assert np.all(table["certified_lower"] <= known["upper"]) and np.all(known["lower"] <= table["certified_upper"])


@pytest.mark.parametrize("guarantee", ["exact", "relative", "additive", "none"])
def test_an_answer_cut_short_is_not_met(guarantee: str) -> None:
    table = count_many(tangled(2_000, 1_000), guarantee=guarantee, epsilon=1e-4, timeout=0.0)
    assert np.array_equal(table["met"], np.isin(table["guarantee"], ["exact", guarantee]))
    assert not table["met"].all()
    assert not table["met"].any() or guarantee == "none"  # small ones are done before anybody looks at the clock


def test_exactness_is_tried_first_and_less_so_late_in_a_batch() -> None:
    """A few milliseconds for the exact number; thousands of formulas spend that on the first few only."""
    network = read(Path(__file__).parent.parent / "examples" / "network.dnf")
    assert count(network).guarantee == "exact"
    table = count_many([network] * 3, rng=1, numbers=np.array([0, 15, 10**6]))
    assert table["guarantee"].tolist() == ["exact", "exact", "relative"]
    assert table["prob"][2] == pytest.approx(table["prob"][0], rel=0.1)
