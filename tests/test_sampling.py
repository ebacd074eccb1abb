"""The guarantee over thousands of seeds, on formulas chosen to be hard, with bounds that make a red test a bug."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from oracle import enumerate_log_prob
from scipy import special, stats

from sharpdnf import DNF, count
from sharpdnf.engines.klm import klm, trials_needed
from sharpdnf.engines.sampling import ESTIMATORS, hoeffding_draws, label, sampling, successes_needed
from sharpdnf.estimate import Limit
from sharpdnf.generate import PaperSpec, paper

HARD = {
    "tiny": DNF.from_clauses([[1, 2, 3], [2, 3, 4], [5, 6, -1]], np.full(6, 1e-70)),
    "overlap": DNF.from_clauses([[1, 2, v] for v in range(3, 15)], np.r_[0.1, 0.1, np.full(12, 0.9)]),
    "shared": DNF.from_clauses([[1, v, -(v + 1)] for v in range(2, 12)], np.r_[0.02, np.full(11, 0.5)]),
    "near-duplicates": DNF.from_clauses([[1, 2, 3, 4, v] for v in range(5, 16)], np.full(15, 0.7)),
    "disjoint": DNF.from_clauses([[2 * v + 1, 2 * v + 2] for v in range(7)], np.full(14, 0.2)),
    "one clause": DNF.from_clauses([[1, -2, 3]], [0.5, 0.25, 0.125]),
    "mixed signs": DNF.from_clauses([[1, 2], [-1, 3], [-2, -3], [4]], [0.9, 0.1, 0.2, 0.05]),
}


def failures(run, dnf: DNF, epsilon: float, seeds: int) -> int:
    truth = enumerate_log_prob(dnf)
    errors = [abs(math.exp(run(np.random.default_rng(seed)) - truth) - 1.0) for seed in range(seeds)]
    return sum(error > epsilon for error in errors)


def too_many(seeds: int, delta: float) -> int:
    """More failures than this has probability below 1e-7 if each has probability delta."""
    return int(stats.binom.isf(1e-7, seeds, delta))


@pytest.mark.parametrize("estimator", ESTIMATORS[:1] + ESTIMATORS[2:])
@pytest.mark.parametrize("name", HARD)
def test_gbas_keeps_its_promise_on_hard_formulas(name: str, estimator: str) -> None:
    epsilon, delta, seeds = 0.4, 0.2, 1500

    scale = set()

    def run(rng: np.random.Generator) -> float:
        asked = {"guarantee": "relative", "epsilon": epsilon, "delta": delta, "estimator": estimator}
        estimate = sampling(HARD[name], rng=rng, limit=Limit(), **asked)
        scale.add(estimate.info["log_scale"])
        return estimate.log_prob

    failed = failures(run, HARD[name], epsilon, seeds)
    assert failed <= too_many(seeds, delta)
    if min(0.0, *scale) > enumerate_log_prob(HARD[name]) + math.log(1.0 + epsilon):  # else clipping to S' helps
        assert failed >= stats.binom.ppf(1e-7, seeds, delta * 0.9)  # the law is exact: it fails as often as it says


def test_direct_sampling_keeps_its_promise() -> None:
    epsilon, delta, seeds = 0.4, 0.2, 1500
    dnf = HARD["mixed signs"]

    def run(rng: np.random.Generator) -> float:
        asked = {"guarantee": "relative", "epsilon": epsilon, "delta": delta, "estimator": "direct"}
        return sampling(dnf, rng=rng, limit=Limit(), **asked).log_prob

    assert failures(run, dnf, epsilon, seeds) <= too_many(seeds, delta)


@pytest.mark.parametrize("name", ["overlap", "shared", "mixed signs", "one clause"])
def test_klm_keeps_its_promise(name: str) -> None:
    epsilon, delta, seeds = 0.5, 0.3, 600

    def run(rng: np.random.Generator) -> float:
        return klm(HARD[name], guarantee="relative", epsilon=epsilon, delta=delta, rng=rng, limit=Limit()).log_prob

    assert failures(run, HARD[name], epsilon, seeds) <= too_many(seeds, delta)


def test_additive_draws_keep_their_promise() -> None:
    dnf, epsilon, delta, seeds = HARD["mixed signs"], 0.1, 0.2, 1500
    truth = math.exp(enumerate_log_prob(dnf))
    asked = {"guarantee": "additive", "epsilon": epsilon, "delta": delta, "limit": Limit()}
    failed = sum(abs(sampling(dnf, rng=np.random.default_rng(s), **asked).prob - truth) > epsilon for s in range(seeds))
    assert failed <= too_many(seeds, delta)
    assert hoeffding_draws(0.1, 0.05) == 185


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 385), (0.05, 1537), (0.01, 38415), (0.001, 3841460)])
def test_successes_are_the_least_that_the_exact_gamma_tail_allows(epsilon: float, k: int) -> None:
    def failure(k: int) -> float:
        return special.gammainc(k, (k - 1) / (1 + epsilon)) + special.gammaincc(k, (k - 1) / (1 - epsilon))

    assert successes_needed(epsilon, 0.05) == k
    assert failure(k) <= 0.05 < failure(k - 1)


def summed_failure(k: int, epsilon: Decimal) -> Decimal:
    """Both gamma tails in 60 digits: series of positive terms, Stirling's with an error below k^-7."""
    half_log_two_pi = (2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494459")).ln() / 2
    a = Decimal(k)
    log_gamma = (a - Decimal("0.5")) * a.ln() - a + half_log_two_pi
    log_gamma += 1 / (12 * a) - 1 / (360 * a**3) + 1 / (1260 * a**5)
    low, high = (a - 1) / (1 + epsilon), (a - 1) / (1 - epsilon)
    steps = np.arange(1, int(40 * math.sqrt(k)), dtype=np.longdouble)
    below = 1.0 + float(np.sum(np.exp(np.cumsum(np.log(np.longdouble(str(low)) / (k + steps))))))
    above = 1.0 + float(np.sum(np.exp(np.cumsum(np.log((k - steps) / np.longdouble(str(high)))))))
    over = (a * low.ln() - low - log_gamma).exp() / a * Decimal(below)
    return over + ((a - 1) * high.ln() - high - log_gamma).exp() * Decimal(above)


@pytest.mark.parametrize("epsilon", ["0.002", "0.0019", "0.0006"])
@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-9])
def test_beyond_a_million_successes_the_bound_misses_the_least_by_one_at_most(epsilon: str, delta: float) -> None:
    """At 0.002 and 0.0019 the summed tail and the bound meet."""
    getcontext().prec = 60
    k = successes_needed(float(epsilon), delta)
    assert summed_failure(k, Decimal(epsilon)) <= Decimal(delta) * (1 + Decimal("1e-12"))
    assert summed_failure(k - 2, Decimal(epsilon)) > Decimal(delta) * (1 - Decimal("1e-12"))


def test_klm_trials_are_the_papers() -> None:
    assert trials_needed(100, 0.1, 0.05) == math.ceil(8 * 1.1 * 100 * math.log(40) / 0.01)


def test_the_grouped_estimator_needs_few_draws_for_a_shared_variable() -> None:
    clauses = [[1, v, v + 1] for v in range(2, 400)] + [[500, 501, 502, 503, 504, 505, 506, 507, 508]]
    dnf = DNF.from_clauses(clauses, np.r_[0.01, np.full(507, 0.5)])
    asked = {"guarantee": "relative", "epsilon": 0.1, "delta": 0.05, "limit": Limit()}
    grouped = sampling(dnf, rng=np.random.default_rng(0), **asked)
    direct = sampling(dnf, rng=np.random.default_rng(0), estimator="direct", **asked)
    assert grouped.info["estimator"] == "grouped"
    assert grouped.samples * 20 < direct.samples
    assert grouped.log_prob == pytest.approx(direct.log_prob, abs=0.2)


def test_threads_change_nothing() -> None:
    dnf = paper(PaperSpec(400, 300, 8, privileged=True), np.random.default_rng(4))
    answers = {count(dnf, engine="sampling", epsilon=0.02, rng=9, threads=t).log_prob for t in (1, 2, 5)}
    assert len(answers) == 1


def test_sampling_agrees_with_klm_on_a_large_formula() -> None:
    dnf = paper(PaperSpec(1000, 500, 8), np.random.default_rng(2))
    fine = count(dnf, engine="sampling", epsilon=0.01, delta=1e-6, rng=1)
    coarse = count(dnf, engine="klm", epsilon=0.1, delta=1e-6, rng=1)
    assert coarse.prob == pytest.approx(fine.prob, rel=0.12)


def test_labels_carry_marginals() -> None:
    dnf = HARD["shared"]
    log_prob, posterior = label(dnf, epsilon=0.01, delta=1e-6, rng=np.random.default_rng(0), marginals=True)
    assert log_prob == pytest.approx(enumerate_log_prob(dnf), abs=0.011)
    assert posterior is not None
    assert posterior[0] == pytest.approx(1.0)
    alone, nothing = label(dnf, epsilon=0.01, delta=1e-6, rng=np.random.default_rng(0))
    assert nothing is None
    assert alone == pytest.approx(log_prob, abs=0.025)
