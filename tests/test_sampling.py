"""The guarantee over thousands of seeds, on formulas chosen to be hard, with bounds that make a red test a bug."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal, getcontext

import numpy as np
import pytest
from oracle import enumerate_log_prob
from scipy import special, stats

from sharpdnf import DNF, count, count_many
from sharpdnf.engines.sampling import ESTIMATORS, draws_needed, label, sampling, successes_needed
from sharpdnf.estimate import Limit
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.simplify import simplify

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
def test_sampling_keeps_its_promise_on_hard_formulas(name: str, estimator: str) -> None:
    epsilon, delta, seeds = 0.4, 0.2, 1500

    def run(rng: np.random.Generator) -> float:
        asked = {"guarantee": "relative", "epsilon": epsilon, "delta": delta, "estimator": estimator}
        return sampling(HARD[name], rng=rng, limit=Limit(), **asked).log_prob

    assert failures(run, HARD[name], epsilon, seeds) <= too_many(seeds, delta)


GRID = np.concatenate([np.linspace(1e-3, 1.0, 4001), 1.0 - np.logspace(-12, -1, 200), np.logspace(-6, -1, 200)])


def negative_binomial_failure(k: int, epsilon: float, prob: np.ndarray) -> np.ndarray:
    """P(|(k-1)/(N-1) - p| > epsilon p) where N is the number of draws until k successes, for each p.

    Points where N - 1 meets the edge to within rounding count as failures on both sides.
    """
    edge_high, edge_low = (k - 1) / (prob * (1 + epsilon)), (k - 1) / (prob * (1 - epsilon))
    too_few = np.floor(edge_high * (1 + 1e-13) - 1e-9) + 1  # N <= too_few: the estimate is too high
    too_many_ = np.ceil(edge_low * (1 - 1e-13))  # N - 1 > edge: too low
    return stats.binom.sf(k - 1, too_few, prob) + stats.binom.cdf(k - 1, too_many_, prob)


@pytest.mark.parametrize("epsilon", [0.9, 0.5, 0.4, 0.2, 0.1, 0.05, 0.01])
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.2, 0.1, 0.08, 0.05, 1e-3, 1e-6])
def test_the_exact_failure_is_below_delta_for_every_probability(epsilon: float, delta: float) -> None:
    k = successes_needed(epsilon, delta)
    edges = (k - 1) / (np.arange(k, min(40 * k, k + 4000)) * (1 + epsilon))  # where one more draw counts as too few
    prob = np.concatenate([GRID, edges * (1 - 1e-9), edges * (1 + epsilon) / (1 - epsilon) * (1 + 1e-9)])
    prob = prob[(prob > 0) & (prob <= 1)]
    assert negative_binomial_failure(k, epsilon, prob).max() <= delta


def test_below_the_condition_the_gamma_tail_is_no_bound() -> None:
    """At (0.9, 0.1) the gamma tail allows k = 2: the condition of the proof is needed."""
    assert special.gammainc(2, 1 / 1.9) + special.gammaincc(2, 1 / 0.1) <= 0.1
    assert negative_binomial_failure(2, 0.9, GRID).max() > 0.2
    assert successes_needed(0.9, 0.1) > 2


def test_draws_that_all_succeed_say_one() -> None:
    sure = DNF.from_clauses([[v] for v in range(1, 60)], np.full(59, 0.9))
    estimate = sampling(
        sure,
        guarantee="relative",
        epsilon=0.1,
        delta=0.05,
        rng=np.random.default_rng(0),
        limit=Limit(),
        estimator="direct",
    )
    assert estimate.samples == 385
    assert estimate.prob == 1.0
    assert estimate.lower == pytest.approx(1 / 1.1)


def test_the_answer_is_a_function_of_the_draws() -> None:
    dnf = HARD["mixed signs"]
    asked = {"guarantee": "relative", "epsilon": 0.1, "delta": 0.05, "limit": Limit(), "estimator": "direct"}
    for seed in range(20):
        found = sampling(dnf, rng=np.random.default_rng(seed), **asked)
        assert found.prob == pytest.approx(384 / (found.samples - 1), rel=1e-14)


def test_the_batch_kernel_uses_the_same_rule() -> None:
    """Formulas that only sampling can answer, through the batch: their estimates are S' (k - 1)/(N - 1) as well.

    Where P is above 1/2 the batch may give a promise about 1 - P, which has another stopping rule.
    """
    formulas = [paper(PaperSpec(1000, 750, 8, privileged=True), np.random.default_rng(seed)) for seed in range(12)]
    table = count_many(formulas, rng=1, numbers=10**6 + np.arange(12))  # late in a batch exactness is not tried
    sampled = [i for i in range(12) if table["engine"][i] == "sampling" and table["prob"][i] < 0.5]
    assert len(sampled) >= 2
    for i in sampled:
        asked = {"guarantee": "relative", "epsilon": 0.1, "delta": 0.05, "limit": Limit()}
        alone = sampling(simplify(formulas[i]).dnf, rng=np.random.default_rng(1), **asked)
        rate = 384 / (table["samples"][i] - 1)
        own = alone.info["log_scale"] + math.log(rate)
        inside = min(max(own, table["log_certified_lower"][i]), table["log_certified_upper"][i])
        assert table["log_prob"][i] == pytest.approx(inside, abs=1e-12)


def test_direct_sampling_keeps_its_promise() -> None:
    epsilon, delta, seeds = 0.4, 0.2, 1500
    dnf = HARD["mixed signs"]

    def run(rng: np.random.Generator) -> float:
        asked = {"guarantee": "relative", "epsilon": epsilon, "delta": delta, "estimator": "direct"}
        return sampling(dnf, rng=rng, limit=Limit(), **asked).log_prob

    assert failures(run, dnf, epsilon, seeds) <= too_many(seeds, delta)


def test_additive_draws_keep_their_promise() -> None:
    dnf, epsilon, delta, seeds = HARD["mixed signs"], 0.1, 0.2, 1500
    truth = math.exp(enumerate_log_prob(dnf))
    asked = {"guarantee": "additive", "epsilon": epsilon, "delta": delta, "limit": Limit()}
    failed = sum(abs(sampling(dnf, rng=np.random.default_rng(s), **asked).prob - truth) > epsilon for s in range(seeds))
    assert failed <= too_many(seeds, delta)
    assert draws_needed(0.1, 0.05) == 100


def worst_additive_failure(draws: int, epsilon: float) -> float:
    """The largest P(|S/N - p| > epsilon) over the points where it may be largest, both one-sided limits of each."""
    steps = np.arange(draws + 1) / draws
    edges = np.concatenate([steps + side * epsilon for side in (-1, 1)])
    prob = np.concatenate([np.linspace(0, 1, 2001), edges - 1e-12, edges + 1e-12])
    prob = prob[(prob >= 0) & (prob <= 1)]
    above = stats.binom.sf(np.floor(draws * (prob + epsilon)), draws, prob)
    return float((above + stats.binom.cdf(np.ceil(draws * (prob - epsilon)) - 1, draws, prob)).max())


def test_more_draws_than_can_be_counted_are_no_hang() -> None:
    """The number that is enough does not fit into 63 bits: sampling goes on to the time limit then."""
    assert draws_needed(1e-9, 1e-10) == draws_needed(1e-12, 0.5) == successes_needed(1e-10, 0.1) == 2**62
    assert draws_needed(1e-9, 0.05) == pytest.approx(1.9599639845**2 / 4 * 1e18, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.9, 0.5, 0.37, 0.25, 0.11, 0.1, 0.07, 0.05, 0.021, 0.01, 0.005])
@pytest.mark.parametrize("delta", [0.5, 0.1, 0.05, 0.01, 1e-6])
def test_additive_draws_are_enough_by_the_exact_binomial_tails(epsilon: float, delta: float) -> None:
    draws = draws_needed(epsilon, delta)
    assert worst_additive_failure(draws, epsilon) <= delta
    hoeffding = math.log(2 / delta) / (2 * epsilon**2)
    assert draws <= max(hoeffding + 1, 2 / epsilon)
    if delta == 0.05 and epsilon <= 0.1:
        assert hoeffding / draws > 1.8


@pytest.mark.parametrize(("epsilon", "delta"), [(0.25, 0.05), (0.11, 0.05), (0.07, 0.1), (0.05, 0.01)])
def test_fewer_additive_draws_would_not_do(epsilon: float, delta: float) -> None:
    draws = draws_needed(epsilon, delta)
    assert all(worst_additive_failure(n, epsilon) > delta for n in range(draws // 2, draws))


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


def test_the_grouped_estimator_needs_few_draws_for_a_shared_variable() -> None:
    clauses = [[1, v, v + 1] for v in range(2, 400)] + [[500, 501, 502, 503, 504, 505, 506, 507, 508]]
    dnf = DNF.from_clauses(clauses, np.r_[0.01, np.full(507, 0.5)])
    asked = {"guarantee": "relative", "epsilon": 0.1, "delta": 0.05, "limit": Limit()}
    grouped = sampling(dnf, rng=np.random.default_rng(0), **asked)
    direct = sampling(dnf, rng=np.random.default_rng(0), estimator="direct", **asked)
    assert grouped.info["estimator"] == "grouped"
    assert grouped.samples * 20 < direct.samples
    assert grouped.log_prob == pytest.approx(direct.log_prob, abs=0.2)


@pytest.mark.threads
def test_threads_change_nothing() -> None:
    dnf = paper(PaperSpec(400, 300, 8, privileged=True), np.random.default_rng(4))
    answers = {count(dnf, engine="sampling", epsilon=0.02, rng=9, threads=t).log_prob for t in (1, 2, 5)}
    assert len(answers) == 1


NO_THREADS = """
import resource, sys
import numpy as np
from sharpdnf import count, count_many
from sharpdnf.generate import PaperSpec, paper

dnf = paper(PaperSpec(400, 300, 8, privileged=True), np.random.default_rng(4))
many = [paper(PaperSpec(300, 200, 6), np.random.default_rng(i)) for i in range(40)]
def answers(threads):
    one = count(dnf, engine="sampling", epsilon=0.02, rng=9, threads=threads)
    return one.log_prob, *count_many(many, rng=5, threads=threads)["log_prob"].tolist()
alone = answers(1)
if len(sys.argv) > 1:  # a thread's stack, 1 GB, does not fit any more
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), used + (512 << 20)))
    import threading
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        print("no thread can start")
assert answers(16) == alone
print("same answers")
"""


@pytest.mark.speed
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space as Linux does")
def test_threads_that_cannot_start_are_done_without() -> None:
    def large_stacks() -> None:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 30, hard))

    command = [sys.executable, "-c", NO_THREADS, "limited"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=large_stacks, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["no thread can start", "same answers"]


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
