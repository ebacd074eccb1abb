"""Influence against enumeration: exact where it compiles, sampled within its promise, of no sign that cannot be."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from oracle import dnfs, enumerate_influence, enumerate_prob, random_dnf

import sharpdnf
from sharpdnf import DNF, Influence
from sharpdnf.errors import NotMetWarning
from sharpdnf.generate import PaperSpec, generate, paper

pytestmark = pytest.mark.native


@settings(max_examples=60, deadline=None)
@given(dnfs(min_clauses=1))
def test_exact_influence(dnf: DNF) -> None:
    found = sharpdnf.influence(dnf)
    assert found == pytest.approx(enumerate_influence(dnf), abs=1e-9)
    assert found.exact and found.met and not found.stderr.any()


@settings(max_examples=25, deadline=None)
@given(dnfs(min_clauses=1))
def test_sampled_influence_keeps_its_promise(dnf: DNF) -> None:
    """All within epsilon of the largest, all intervals at once: delta is so small that a miss is a bug."""
    truth = enumerate_influence(dnf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotMetWarning)
        found = sharpdnf.influence(dnf, exact=False, epsilon=0.3, delta=1e-7, rng=1, timeout=0.3)
    assert np.all(found.lower <= truth + 1e-9) and np.all(truth <= found.upper + 1e-9)
    assert np.all(found.lower <= found.values) and np.all(found.values <= found.upper)
    if found.met:
        assert np.max(np.abs(found - truth)) <= 0.3 * np.max(np.abs(truth)) + 1e-9
    occurs = np.bincount(dnf.literals, minlength=2 * dnf.num_vars) > 0
    assert np.all(found[~occurs[1::2]] >= 0.0) and np.all(found[~occurs[0::2]] <= 0.0)


@pytest.mark.parametrize("factor", [1.0, 0.05])
def test_standard_errors_are_the_spread(factor: float) -> None:
    """Of plain worlds (factor 1), and of worlds drawn inside clauses, because the formula is seldom true."""
    dnf = random_dnf(np.random.default_rng(8), 12, 14, (2, 5))
    dnf = dnf.with_prob(factor * dnf.prob)
    truth = enumerate_influence(dnf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotMetWarning)
        found = [sharpdnf.influence(dnf, exact=False, epsilon=0.2, rng=seed) for seed in range(40)]
    assert all(f.met and not f.exact and f.samples > 0 for f in found)
    scaled = np.array([(f.values - truth) / f.stderr for f in found])
    seen = np.abs(truth) > 0.02 * np.abs(truth).max()
    assert 0.5 < np.sqrt(np.mean(scaled[:, seen] ** 2)) < 1.6
    assert np.abs(scaled).max() < 8.0


def test_a_reliable_network_where_differences_of_marginals_are_noise() -> None:
    """P = 0.994: influences are 0.05 at the corners and down to 1e-5 inside, all of them positive."""
    dnf = generate("reliability", np.random.default_rng(1), rows=4, cols=4, prob=0.95)
    exact = sharpdnf.influence(dnf)
    found = sharpdnf.influence(dnf, exact=False, rng=1, delta=1e-6)
    assert exact.exact and not found.exact and found.met
    assert np.max(np.abs(found - exact)) <= 0.05 * np.max(exact)
    assert np.min(found.values) >= 0.0 and np.all(found.lower >= 0.0)
    corners = {place.variable for place in exact.ranking()[:4]}
    assert {place.variable for place in found.ranking()[:4]} == corners


@pytest.mark.speed
def test_the_five_by_five_grid_compiles_within_the_time_limit() -> None:
    dnf = generate("reliability", np.random.default_rng(1), rows=5, cols=5, prob=0.95)
    found = sharpdnf.influence(dnf)
    assert found.exact
    assert [place.best for place in found.ranking()[:5]] == [1, 1, 1, 1, 5]
    assert found.values.max() == pytest.approx(0.0522217690, abs=1e-9)


def test_the_ranking_says_what_it_can_tell_apart() -> None:
    dnf = DNF.parse("a | b & c | b & d", {"a": 0.1, "b": 0.2, "c": 0.5, "d": 0.5})
    places = sharpdnf.influence(dnf).ranking()
    assert [(p.name, p.variable, p.best, p.worst) for p in places] == [
        ("a", 1, 1, 1), ("b", 2, 2, 2), ("c", 3, 3, 4), ("d", 4, 3, 4)
    ]  # fmt: skip
    vague = Influence(
        np.array([0.5, 0.4, 0.1]), np.full(3, 0.1), np.array([0.3, 0.2, -0.1]), np.array([0.7, 0.6, 0.15]), False, 9
    )
    assert [(p.variable, p.best, p.worst) for p in vague.ranking()] == [(1, 1, 2), (2, 1, 2), (3, 3, 3)]


def test_an_influence_is_used_like_an_array() -> None:
    found = sharpdnf.influence(DNF.parse("a & b", {"a": 0.25, "b": 0.5}))
    assert (found * 2).tolist() == [1.0, 0.5] and (-found)[0] == -0.5 and found.tolist() == [0.5, 0.25]
    assert np.argmax(found) == 0 and np.asarray(found).sum() == 0.75 and list(found) == [0.5, 0.25]
    assert (
        len(found) == 2 and found[1] == 0.25 and np.all(found == np.array([0.5, 0.25])) and np.abs(found).max() == 0.5
    )


@pytest.mark.parametrize("exact", [None, False])
def test_influence_of_an_impossible_formula(exact: bool | None) -> None:
    """P = 0 does not mean that no variable matters: it must come back, and come back right."""
    dnf = DNF.from_clauses([[1, 2], [1, 3], [-4, 2]], [0.0, 0.5, 0.5, 1.0])
    assert enumerate_prob(dnf) == 0.0
    found = sharpdnf.influence(dnf, rng=1, exact=exact)
    assert found == pytest.approx([0.75, 0.0, 0.0, -0.5])


def test_influence_at_probabilities_0_and_1() -> None:
    for factor in (1.0, 0.01):
        dnf = random_dnf(np.random.default_rng(8), 12, 14, (2, 5))
        dnf = dnf.with_prob(np.r_[0.0, 1.0, factor * dnf.prob[2:]])
        found = sharpdnf.influence(dnf, exact=False, delta=1e-7, rng=1)
        truth = enumerate_influence(dnf)
        assert np.all((found.lower <= truth + 1e-9) & (truth <= found.upper + 1e-9))
        assert np.max(np.abs(found - truth)) <= 0.05 * np.max(np.abs(truth))


def test_influence_below_the_smallest_double() -> None:
    dnf = DNF.from_clauses([[1, 2]], [1e-200, 1e-200])
    assert sharpdnf.influence(dnf) == pytest.approx([1e-200] * 2, rel=1e-9, abs=0)
    found = sharpdnf.influence(dnf, exact=False, rng=1)
    assert found.met and found == pytest.approx([1e-200] * 2, rel=0.05, abs=0)


@pytest.mark.speed
def test_a_deadline_leaves_intervals_and_a_warning() -> None:
    dnf = paper(PaperSpec(1500, 1100, 8), np.random.default_rng(1))
    dnf = dnf.with_prob(np.r_[0.0, dnf.prob[1:]])
    started = time.process_time()
    with pytest.warns(NotMetWarning, match="deadline came first"):
        found = sharpdnf.influence(dnf, rng=1, timeout=0.0)
    assert not found.met and np.all(np.isfinite(found)) and np.all(found.upper >= found.lower)
    with pytest.warns(NotMetWarning, match="deadline came first"):
        later = sharpdnf.influence(dnf, rng=1, timeout=0.5, epsilon=0.001)
    assert later.samples > 0 and np.mean(later.upper - later.lower) < np.mean(found.upper - found.lower)
    assert time.process_time() - started < 5.0
    assert np.array_equal(*(sharpdnf.influence(dnf, rng=3, epsilon=0.3, exact=False) for _ in range(2)))
