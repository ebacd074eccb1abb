"""Sampling circuits: promises over thousands of seeds, and intervals that hold whenever one stops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from circuit_oracle import (
    DELTA,
    EPSILON,
    a_and_not_b,
    circuit_fraction,
    circuit_log_prob,
    circuit_of,
    hard,
    promise_holds,
)
from scipy import stats

from sharpdnf import count
from sharpdnf.engines.circuit_auto import CircuitAsked, count_output
from sharpdnf.engines.circuit_sampling import kl_interval, looks_at, mixture_interval
from sharpdnf.estimate import Limit

pytestmark = pytest.mark.native


@pytest.mark.parametrize("estimator", ["auto", "direct", "coverage"])
@pytest.mark.parametrize("guarantee", ["relative", "additive"])
def test_sampling_against_enumeration(guarantee: str, estimator: str) -> None:
    sampled = 0
    for i in range(60):
        circuit = circuit_of(i)
        if circuit_fraction(circuit) < 1e-3 and estimator == "direct":
            continue
        asked = {"engine": "sampling", "estimator": estimator, "timeout": 20.0}
        estimate = count(circuit, guarantee=guarantee, epsilon=EPSILON, delta=DELTA, rng=i, **asked)
        sampled += estimate.samples > 0
        if circuit_fraction(circuit) > 0 or estimate.met:
            promise_holds(circuit, estimate, guarantee)
    assert sampled > 20


@pytest.mark.parametrize("estimator", ["direct", "coverage"])
def test_relative_answers_fail_as_seldom_as_they_promise(estimator: str) -> None:
    circuit, epsilon, delta, seeds = a_and_not_b(8, 0.2), 0.4, 0.2, 1000
    truth = circuit_log_prob(circuit)
    asked = CircuitAsked("sampling", "relative", epsilon, delta, 0, Limit(), estimator)
    errors = [
        abs(math.exp(count_output(circuit, replace(asked, seed=seed)).log_prob - truth) - 1.0) for seed in range(seeds)
    ]
    failed = sum(error > epsilon for error in errors)
    assert failed <= stats.binom.isf(1e-7, seeds, delta)
    if estimator == "direct":  # where successes are rare the rule is exact: it fails as often as it says
        assert failed >= stats.binom.ppf(1e-7, seeds, delta / 2.0)


@pytest.mark.parametrize("p", [0.5, 0.2, 0.02])
def test_additive_answers_fail_as_seldom_as_they_promise(p: float) -> None:
    circuit, epsilon, delta, seeds = a_and_not_b(8, p), 0.02, 0.2, 1000
    truth = math.exp(circuit_log_prob(circuit))
    asked = CircuitAsked("sampling", "additive", epsilon, delta, 0, Limit(), "direct")
    found = [count_output(circuit, replace(asked, seed=seed)) for seed in range(seeds)]
    failed = sum(abs(estimate.prob - truth) > epsilon for estimate in found)
    assert failed <= stats.binom.isf(1e-7, seeds, delta)
    outside = sum(not estimate.lower <= truth <= estimate.upper for estimate in found)
    assert outside <= stats.binom.isf(1e-7, seeds, delta)


def test_a_biased_sampler_fails() -> None:
    """The tests above see a bias a little below epsilon."""
    circuit, epsilon, delta, seeds = a_and_not_b(8, 0.2), 0.4, 0.2, 1000
    truth = circuit_log_prob(circuit)
    asked = CircuitAsked("sampling", "relative", epsilon, delta, 0, Limit(), "direct")
    found = [count_output(circuit, replace(asked, seed=seed)).log_prob + math.log(1.35) for seed in range(seeds)]
    assert sum(abs(math.exp(x - truth) - 1.0) > epsilon for x in found) > stats.binom.isf(1e-7, seeds, delta)
    wrong = count(circuit).replace(log_prob=circuit_log_prob(circuit) + math.log(1.25), guarantee="relative")
    with pytest.raises(AssertionError):
        promise_holds(circuit, wrong, "relative")


def test_rare_events_need_few_draws() -> None:
    """Additive draws stop early; a DNF that contains the event makes 'A and not B' as cheap as P(not B given A)."""
    circuit = a_and_not_b(12, 0.01)
    asked = CircuitAsked("sampling", "additive", 0.01, 0.05, 3, Limit(), "direct")
    looks, (most, _, _) = looks_at(0.01, 0.05)
    assert count_output(circuit, asked).samples <= most / 8
    assert looks[0][0] == 512
    covered = count(circuit, engine="sampling", estimator="coverage", rng=1)
    assert covered.samples < 2000
    assert circuit_fraction(circuit) < 2e-3


def test_intervals_hold_at_every_number_of_draws() -> None:
    """The mixture's interval misses the truth at some time with probability delta at most; Chernoff's at one time."""
    rng = np.random.default_rng(0)
    p, delta, runs = 0.3, 0.2, 200
    missed = fixed = 0
    for _ in range(runs):
        hits = np.cumsum(rng.random(300) < p)
        ends = [mixture_interval(int(hits[n - 1]), n, delta) for n in range(1, 301, 3)]
        missed += any(not low <= p <= high for low, high in ends)
        low, high = kl_interval(int(hits[-1]), 300, delta)
        fixed += not low <= p <= high
    assert missed <= stats.binom.isf(1e-7, runs, delta)
    assert fixed <= stats.binom.isf(1e-7, runs, delta)
    for draws in (1, 7, 40):
        for hit in range(draws + 1):
            for rule in (kl_interval, mixture_interval):
                low, high = rule(hit, draws, 0.05)
                assert 0.0 <= low <= hit / draws <= high <= 1.0


@pytest.mark.threads
def test_same_seed_same_answer_for_any_number_of_threads() -> None:
    for guarantee in ("relative", "additive"):
        for estimator in ("direct", "coverage"):
            circuit = hard(60) if estimator == "direct" else a_and_not_b(60)
            asked = {"guarantee": guarantee, "epsilon": 0.05, "engine": "sampling", "estimator": estimator}
            answers = {count(circuit, rng=9, threads=threads, **asked).log_prob for threads in (1, 1, 2, 3)}
            assert len(answers) == 1
            assert count(circuit, rng=10, **asked).log_prob not in answers
