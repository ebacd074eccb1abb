"""Groups by shared conjunctions: the estimate stays unbiased and calibrated, and the groups are found at any scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracle import enumerate_log_prob
from scipy import stats

from sharpdnf import DNF, _native
from sharpdnf.engines.sampling import ESTIMATORS, sampling
from sharpdnf.estimate import Limit

pytestmark = pytest.mark.native


def planted(rng: np.random.Generator, scale: float = 1.0) -> DNF:
    """Clauses over at most 12 variables that are planted conjunctions, nested at times, with a few literals more."""
    n = int(rng.integers(4, 13))
    signs = rng.choice([-1, 1], n)
    trunks = [list(rng.choice(n, rng.integers(0, min(4, n)), replace=False)) for _ in range(rng.integers(1, 5))]
    trunks += [list({*trunk, *rng.choice(n, 1)}) for trunk in trunks if rng.random() < 0.5]
    clauses = []
    for _ in range(rng.integers(2, 25)):
        trunk = trunks[rng.integers(len(trunks))]
        variables = {int(v) for v in (*trunk, *rng.choice(n, rng.integers(1, 3)))}
        flips = rng.random(n) < 0.1
        clauses.append([int((v + 1) * signs[v] * (-1 if flips[v] else 1)) for v in variables])
    prob = rng.uniform(0.02, 0.98, n)
    prob[rng.random(n) < 0.3] *= scale
    return DNF.from_clauses(clauses, prob)


def drawn(dnf: DNF, estimator: str, draws: int, seed: int) -> tuple[int, float, str]:
    """(successes of exactly so many draws, log S', what was chosen)"""
    found = _native.sample(
        *dnf.arrays,
        seed=seed,
        successes=2**62,
        max_draws=draws,
        threads=1,
        seconds=math.inf,
        estimator=ESTIMATORS.index(estimator),
        marginals=False,
    )
    return found.successes, found.log_scale, ESTIMATORS[found.estimator]


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-80])
@pytest.mark.parametrize("estimator", ["auto", "grouped", "coverage"])
def test_the_success_rate_is_p_over_the_scale(estimator: str, scale: float) -> None:
    """Each formula's successes against the binomial with P from enumeration, and all of them together."""
    draws, score, used = 3000, [], 0
    for index in range(700):
        dnf = planted(np.random.default_rng([index, int(-math.log10(scale))]), scale)
        truth = enumerate_log_prob(dnf)
        successes, log_scale, chosen = drawn(dnf, estimator, draws, index)
        used += chosen == "grouped"
        rate = math.exp(truth - log_scale)
        assert rate <= 1 + 1e-9
        rate = min(rate, 1.0)
        if rate > 1 - 1e-9:
            assert successes == draws
            continue
        tail = min(stats.binom.cdf(successes, draws, rate), stats.binom.sf(successes - 1, draws, rate))
        assert tail > 1e-9, (index, successes, draws * rate)
        score.append((successes - draws * rate) / math.sqrt(draws * rate * (1 - rate)))
    assert abs(np.sum(score)) < 6 * math.sqrt(len(score))
    assert abs(np.sum(np.square(score)) - len(score)) < 6 * math.sqrt(2.5 * len(score)) + 10
    if estimator != "coverage":
        assert used > 100


def nested(groups: int, each: int, rarity: float) -> DNF:
    """A rare literal above ``groups`` rare ones, each above ``each`` clauses with a likely literal of their own."""
    clauses = [[1, 2 + g, 2 + groups + g * each + i] for g in range(groups) for i in range(each)]
    prob = np.r_[rarity, np.full(groups, 0.05), np.full(groups * each, 0.8)]
    return DNF.from_clauses(clauses, prob)


@pytest.mark.parametrize("rarity", [0.5, 1e-3, 1e-200])
@pytest.mark.parametrize(("groups", "each"), [(1, 400), (12, 30), (90, 40)])
def test_as_many_groups_as_pay_at_any_scale(groups: int, each: int, rarity: float) -> None:
    """P = rarity (1 - prod(1 - 0.05 q)), and S' is no more than a small multiple of it."""
    dnf = nested(groups, each, rarity)
    truth = math.log(rarity) + math.log1p(-((1 - 0.05 * (1 - 0.2**each)) ** groups))
    asked = {"guarantee": "relative", "epsilon": 0.05, "delta": 1e-7, "limit": Limit()}
    found = sampling(dnf, rng=np.random.default_rng(groups), **asked)
    assert found.log_prob == pytest.approx(truth, abs=0.052)
    assert found.info["log_scale"] - truth < math.log(2.5)


def test_groups_are_found_below_a_light_tail() -> None:
    """Many clauses of one group have far less weight than its heaviest: they are not left as groups of their own."""
    leaves = 20_000
    dnf = DNF.from_clauses([[1, v + 2] for v in range(leaves)], np.r_[1e-9, np.linspace(0.0001, 0.9, leaves)])
    found = sampling(dnf, guarantee="relative", epsilon=0.1, delta=0.05, rng=np.random.default_rng(0), limit=Limit())
    assert found.info["estimator"] == "grouped"
    assert found.samples == 385


def test_the_promise_holds_over_thousands_of_seeds() -> None:
    """Failures of (0.4, 0.2) over the seeds, on a formula small enough for enumeration with groups in groups."""
    clauses = [[1, 2, v] for v in range(4, 9)] + [[1, 3, v] for v in range(6, 12)] + [[1, -12], [-2, -3, 12]]
    prob = np.r_[0.01, 0.1, 0.2, np.full(8, 0.7), 0.995]
    dnf = DNF.from_clauses(clauses, prob)
    truth = enumerate_log_prob(dnf)
    epsilon, delta, seeds = 0.4, 0.2, 4000
    asked = {"guarantee": "relative", "epsilon": epsilon, "delta": delta, "limit": Limit(), "estimator": "grouped"}
    answers = [sampling(dnf, rng=np.random.default_rng(seed), **asked) for seed in range(seeds)]
    assert answers[0].info["estimator"] == "grouped"
    failed = sum(abs(math.expm1(found.log_prob - truth)) > epsilon for found in answers)
    assert failed <= stats.binom.isf(1e-7, seeds, delta)


def test_wide_clauses_that_are_each_others_beginnings_take_linear_time() -> None:
    """Clauses 1..i for all i would be a chain of as many nodes: the budget cuts it, and the answer stays right."""
    width = 600
    prob = np.r_[np.full(width, 0.999), np.full(width, 0.5)]
    dnf = DNF.from_clauses([[*range(1, i + 1), width + i] for i in range(1, width + 1)], prob)
    asked = {"guarantee": "relative", "epsilon": 0.05, "delta": 1e-7, "limit": Limit()}
    auto = sampling(dnf, rng=np.random.default_rng(0), **asked)
    direct = sampling(dnf, rng=np.random.default_rng(1), estimator="direct", **asked)
    assert auto.log_prob == pytest.approx(direct.log_prob, abs=0.11)
