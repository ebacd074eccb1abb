"""Counting circuits: every function against enumeration, the guarantees over thousands of seeds, and the laws."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from circuit_oracle import (
    best_model,
    circuit_fraction,
    circuit_influence,
    circuit_log_prob,
    circuit_marginals,
    enumerate_models,
    random_circuit,
)
from oracle import log_fraction
from scipy import stats

import sharpdnf
from sharpdnf import DNF, Builder, Circuit, Estimate, count, count_many
from sharpdnf.circuit_analysis import draw_models
from sharpdnf.circuit_compile import bound_circuit, compile_circuit
from sharpdnf.engines.circuit_auto import Asked, count_output, cover_of
from sharpdnf.engines.circuit_sampling import kl_interval, looks_at, mixture_interval
from sharpdnf.errors import InvalidFormula, LimitError, NotMetWarning
from sharpdnf.estimate import SERVES, Limit

pytestmark = pytest.mark.native

DELTA, EPSILON = 1e-6, 0.1  # a red test is a bug, not luck


def circuit_of(i: int, **shape: int) -> Circuit:
    return random_circuit(np.random.default_rng([5, i]), **shape)


def close(found: float, truth: float) -> bool:
    return found == truth or abs(found - truth) < 1e-9


def a_and_not_b(n: int = 12, p: float = 0.05) -> Circuit:
    """Rare, and no small DNF where n is large: (a DNF) and not (at least three of all)."""
    b = Builder()
    x = [b.var(f"x{i}", p) for i in range(n)]
    return b.build(b.or_(*(x[i] & x[i + 1] for i in range(n - 1))) & ~b.atleast(3, *x))


def hard(n: int = 200, seed: int = 0) -> Circuit:
    """Too tangled to compile in a moment; about one world in five."""
    rng = np.random.default_rng(seed)
    b = Builder()
    x = [b.var(None, 0.5) for _ in range(n)]
    votes = [b.atleast(3, *(x[int(i)] for i in rng.choice(n, 5, replace=False))) for _ in range(n)]
    mixed = [a ^ c for a, c in zip(votes[::2], votes[1::2], strict=True)]
    return b.build(b.atleast(len(mixed) // 2 + 4, *mixed))


def test_compiled_circuits_against_enumeration() -> None:
    for i in range(1500):
        circuit = circuit_of(i)
        fraction = circuit_fraction(circuit)
        truth, missing = log_fraction(fraction), log_fraction(1 - fraction)
        found = bound_circuit(circuit, Limit())
        assert found.exact
        assert found.log_lower - 1e-13 <= truth <= found.log_upper + 1e-13  # the oracle's logarithm rounds too
        assert found.log_complement_lower - 1e-13 <= missing <= found.log_complement_upper + 1e-13
        assert close(found.log_lower, truth)
        assert close(found.log_complement_upper, missing)


def test_bounds_hold_however_early_the_search_ends() -> None:
    """Mixed signs, where only Frechet's bounds hold, and monotone circuits, where Harris' do."""
    narrowed = 0
    rows = (np.arange(2**12)[:, None] >> np.arange(12)) & 1 == 1
    for seed in range(40):
        rng = np.random.default_rng([8, seed])
        b = Builder()
        x = [b.var(None, float(p)) for p in rng.random(12) * (1.0 if seed % 2 else 0.2)]
        some = [b.atleast(2, *(x[int(i)] for i in rng.choice(12, 4, replace=False))) for _ in range(20)]
        if seed % 3 == 0:
            some = [a ^ c for a, c in zip(some[::2], some[1::2], strict=True)]
        circuit = b.build(b.or_(*(some[i] & some[i + 1] for i in range(0, len(some) - 1, 2))))
        own = np.where(rows, circuit.prob, 1.0 - circuit.prob).prod(axis=1)
        truth = math.log(float(own[circuit.evaluate(rows)[:, 0]].sum()))
        for work in (600, 1000, 3000, 10_000):
            found = bound_circuit(circuit, Limit(), work=work)
            assert found.log_lower <= truth + 1e-12
            assert found.log_upper >= truth - 1e-12
            assert found.log_complement_upper >= math.log1p(-math.exp(truth)) - 1e-9
            narrowed += not found.exact and found.log_upper < 0.0
    assert narrowed > 20


def test_compiled_circuits_serve_other_probabilities() -> None:
    for i in range(100):
        circuit = circuit_of(i)
        compiled = compile_circuit(circuit)
        assert compiled is not None
        assert compiled.count() == len(enumerate_models(circuit))
        other = circuit.with_prob(np.random.default_rng(i).random(circuit.num_vars))
        assert close(float(compiled.evaluate(other.prob)[0]), circuit_log_prob(other))
        slope = compiled.gradient(other.prob)[1]
        assert slope == pytest.approx(circuit_influence(other), abs=1e-9)


def promise_holds(circuit: Circuit, estimate: Estimate, guarantee: str) -> None:
    truth = circuit_log_prob(circuit)
    assert estimate.met
    assert guarantee in SERVES[estimate.guarantee]
    assert estimate.log_certified_lower <= truth + 1e-9
    assert estimate.log_certified_upper >= truth - 1e-9
    if estimate.guarantee == "exact":
        assert close(estimate.log_prob, truth)
    elif estimate.guarantee == "relative":
        assert truth == estimate.log_prob or abs(math.exp(estimate.log_prob - truth) - 1.0) <= EPSILON
    elif estimate.guarantee == "additive":
        assert abs(estimate.prob - math.exp(truth)) <= EPSILON + 1e-12
    assert estimate.log_lower - 1e-9 <= truth <= estimate.log_upper + 1e-9
    assert estimate.log_lower - 1e-9 <= estimate.log_prob <= estimate.log_upper + 1e-9


@pytest.mark.parametrize("guarantee", ["exact", "relative", "additive", "bounds", "none"])
def test_every_guarantee_against_enumeration(guarantee: str) -> None:
    for i in range(200):
        circuit = circuit_of(i)
        estimate = count(circuit, guarantee=guarantee, epsilon=EPSILON, delta=DELTA, rng=i)
        if guarantee != "none":
            promise_holds(circuit, estimate, guarantee)
        elif estimate.guarantee == "exact":
            assert close(estimate.log_prob, circuit_log_prob(circuit))


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
    asked = Asked("sampling", "relative", epsilon, delta, 0, Limit(), estimator)
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
    asked = Asked("sampling", "additive", epsilon, delta, 0, Limit(), "direct")
    found = [count_output(circuit, replace(asked, seed=seed)) for seed in range(seeds)]
    failed = sum(abs(estimate.prob - truth) > epsilon for estimate in found)
    assert failed <= stats.binom.isf(1e-7, seeds, delta)
    outside = sum(not estimate.lower <= truth <= estimate.upper for estimate in found)
    assert outside <= stats.binom.isf(1e-7, seeds, delta)


def test_a_biased_sampler_fails() -> None:
    """The tests above see a bias a little below epsilon."""
    circuit, epsilon, delta, seeds = a_and_not_b(8, 0.2), 0.4, 0.2, 1000
    truth = circuit_log_prob(circuit)
    asked = Asked("sampling", "relative", epsilon, delta, 0, Limit(), "direct")
    found = [count_output(circuit, replace(asked, seed=seed)).log_prob + math.log(1.35) for seed in range(seeds)]
    assert sum(abs(math.exp(x - truth) - 1.0) > epsilon for x in found) > stats.binom.isf(1e-7, seeds, delta)
    wrong = count(circuit).replace(log_prob=circuit_log_prob(circuit) + math.log(1.25), guarantee="relative")
    with pytest.raises(AssertionError):
        promise_holds(circuit, wrong, "relative")


def test_rare_events_need_few_draws() -> None:
    """Additive draws stop early; a DNF that contains the event makes 'A and not B' as cheap as P(not B given A)."""
    circuit = a_and_not_b(12, 0.01)
    asked = Asked("sampling", "additive", 0.01, 0.05, 3, Limit(), "direct")
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


def test_a_deadline_leaves_bounds_and_an_additive_interval() -> None:
    circuit = hard()
    started = time.monotonic()
    exact = count(circuit, guarantee="exact", timeout=0.3)
    assert not exact.met
    assert exact.log_certified_lower <= exact.log_prob <= exact.log_certified_upper
    fine = count(circuit, epsilon=1e-5, timeout=2.0, rng=1)
    assert not fine.met
    assert fine.guarantee == "additive"
    assert fine.upper - fine.lower < 0.05
    coarse = count(circuit, epsilon=0.02, delta=DELTA, rng=2)
    assert coarse.met
    assert fine.lower <= coarse.upper
    assert coarse.lower <= fine.upper
    nothing = count(circuit, epsilon=1e-5, timeout=0.0)
    assert not nothing.met
    assert nothing.log_certified_lower <= nothing.log_prob <= nothing.log_certified_upper
    assert time.monotonic() - started < 60


def test_memory_ends_the_search_with_bounds() -> None:
    found = bound_circuit(hard(), Limit(memory=1 << 20))
    assert not found.exact
    assert found.stopped == "memory"
    assert found.log_lower <= found.log_upper


def test_many_outputs_share_their_draws_and_do_not_see_each_other() -> None:
    many = [circuit_of(i, outputs=3) for i in range(40)]
    for guarantee in ("exact", "relative", "additive"):
        for circuit in many:
            table = count_many(circuit, guarantee=guarantee, epsilon=EPSILON, delta=DELTA, rng=1)
            for i in range(3):
                truth = math.exp(circuit_log_prob(circuit, i))
                assert table["met"][i]
                error = {"exact": 1e-9, "relative": EPSILON * truth + 1e-12}.get(guarantee, EPSILON)
                assert abs(table["prob"][i] - truth) <= error
    big = hard()
    b = Builder()
    gate = b.include(big)[0]
    rest = [b.atleast(60, *(b.var(f"y{i}", 0.5) for i in range(j, j + 100))) & gate for j in range(0, 40, 8)]
    whole = b.build(gate, *rest, ~gate)
    asked = {"guarantee": "relative", "rng": 4, "engine": "sampling"}
    table = count_many(whole, **asked)
    two = Circuit.trusted(*whole.arrays, whole.outputs[[3, 0]], whole.prob, 0.0, whole.names)
    part = count_many(two, **asked)
    assert part["log_prob"].tolist() == table["log_prob"][[3, 0]].tolist()
    assert len(set(table["log_prob"].tolist())) == len(table["log_prob"])
    again = count_many([two[0], two[1]], threads=3, **asked)
    assert again["log_prob"].tolist() == part["log_prob"].tolist()


def test_rare_outputs_among_many_are_counted_on_their_own() -> None:
    b = Builder()
    gate = b.include(hard())[0]
    rare = b.and_(*(b.var(f"r{i}", 0.1) for i in range(8)))
    table = count_many(b.build(gate, gate & rare), rng=1, epsilon=0.2)
    assert table["met"].all()
    assert table["prob"][1] == pytest.approx(table["prob"][0] * 1e-8, rel=0.6)


def test_a_dnf_among_circuits() -> None:
    dnf = DNF.parse("a & b | c", {"a": 0.5, "b": 0.5, "c": 0.5})
    table = count_many([dnf, Circuit.parse("a ^ b")], guarantee="exact")
    assert table["prob"].tolist() == pytest.approx([0.625, 0.5])
    assert count_many([dnf])["prob"].tolist() == pytest.approx([0.625])


def test_posteriors_and_influences_against_enumeration() -> None:
    for i in range(150):
        circuit = circuit_of(i)
        assert np.asarray(sharpdnf.influence(circuit)) == pytest.approx(circuit_influence(circuit), abs=1e-9)
        if circuit_fraction(circuit) == 0:
            with pytest.raises(InvalidFormula, match="probability 0"):
                sharpdnf.marginals(circuit)
            continue
        assert sharpdnf.marginals(circuit) == pytest.approx(circuit_marginals(circuit), abs=1e-9)


def test_sampled_posteriors_and_influences_are_near() -> None:
    for circuit in (a_and_not_b(8, 0.3), a_and_not_b(8, 0.02), circuit_of(3, max_vars=6)):
        found = sharpdnf.analysis.posterior(circuit, exact=False, epsilon=0.03, delta=DELTA, rng=1)
        assert not found.exact
        assert np.all(np.abs(found.prob - circuit_marginals(circuit)) <= 6 * found.std_error + 1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotMetWarning)
            slopes = sharpdnf.influence(circuit, exact=False, delta=DELTA, rng=1)
        truth = circuit_influence(circuit)
        assert np.all(slopes.lower <= truth + 1e-12)
        assert np.all(truth <= slopes.upper + 1e-12)
        assert np.all(np.abs(slopes.values - truth) <= 6 * slopes.stderr + 1e-3)


def models_fit(circuit: Circuit, rows: np.ndarray) -> None:
    """Every row is a model, and their frequencies are those of the posterior."""
    models = enumerate_models(circuit)
    total = sum(weight for _, weight in models)
    place = {values: j for j, (values, _) in enumerate(models)}
    seen = np.bincount([place[tuple(row)] for row in rows.astype(int).tolist()], minlength=len(models))
    expected = np.array([float(weight / total) for _, weight in models]) * len(rows)
    assert np.all(seen[expected == 0] == 0)
    keep = expected > 5
    if keep.sum() > 1:
        rest_seen, rest = seen[~keep].sum(), expected[~keep].sum()
        observed, wanted = [*seen[keep], rest_seen], [*expected[keep], rest]
        if rest == 0:
            observed, wanted = observed[:-1], wanted[:-1]
        statistic = sum((o - w) ** 2 / max(w, 1e-9) for o, w in zip(observed, wanted, strict=True) if w > 1)
        assert stats.chi2.sf(statistic, max(1, len(wanted) - 1)) > 1e-7


def test_models_are_drawn_as_the_posterior_is() -> None:
    tried = 0
    for i in range(80):
        circuit = circuit_of(i, max_vars=5)
        if circuit_fraction(circuit) == 0:
            with pytest.raises(InvalidFormula, match="probability 0"):
                sharpdnf.sample_models(circuit, 3, rng=1)
            continue
        tried += 1
        models_fit(circuit, sharpdnf.sample_models(circuit, 2000, rng=i))
    assert tried > 40
    compiled = compile_circuit(a_and_not_b(6, 0.2))
    assert compiled is not None
    models_fit(a_and_not_b(6, 0.2), draw_models(compiled, np.full(6, 0.2), 4000, np.random.default_rng(0)))


@pytest.mark.parametrize("cover", [False, True])
def test_models_by_drawing_and_testing(monkeypatch: pytest.MonkeyPatch, cover: bool) -> None:
    monkeypatch.setattr("sharpdnf.circuit_analysis.compile_cheaply", lambda *_, **__: None)
    monkeypatch.setattr("sharpdnf.circuit_analysis.cover_of", cover_of if cover else lambda dnf: None)
    circuit = a_and_not_b(6, 0.2)
    models_fit(circuit, sharpdnf.sample_models(circuit, 4000, rng=5))
    with pytest.raises(LimitError, match="only"):
        sharpdnf.sample_models(hard(), 10**6, timeout=0.0)


def test_likeliest_models_against_enumeration() -> None:
    for i in range(300):
        circuit = circuit_of(i)
        best = best_model(circuit)
        if best == -math.inf:
            with pytest.raises(InvalidFormula, match="no model"):
                sharpdnf.most_probable_model(circuit)
            continue
        model, log_prob = sharpdnf.most_probable_model(circuit)
        assert close(log_prob, best)
        assert circuit.evaluate(model)[0, 0]
        own = np.where(model, circuit.prob, 1.0 - circuit.prob)
        assert close(float(np.sum(np.log(own))), best)
    with pytest.raises(LimitError, match="compiled"):
        sharpdnf.most_probable_model(hard(), timeout=0.1)


def test_conditioning_against_enumeration() -> None:
    for i in range(100):
        circuit = circuit_of(i, outputs=2)
        a, b = circuit[0], circuit[1]
        models = dict(enumerate_models(b))
        given = sum(models.values(), start=Fraction(0))
        joint = sum((w for values, w in enumerate_models(a) if values in models), start=Fraction(0))
        if given == 0:
            with pytest.raises(InvalidFormula, match="probability 0"):
                sharpdnf.conditional(a, given=b, guarantee="exact")
            continue
        found = sharpdnf.conditional(a, given=b, guarantee="exact")
        assert found.prob == pytest.approx(float(joint / given), abs=1e-9)
        fixed = sharpdnf.condition(a, {1: True})
        assert fixed.prob[0] == 1.0
        assert count(fixed, guarantee="exact").prob == pytest.approx(float(circuit_fraction(fixed)), abs=1e-12)
    dnf = DNF.parse("a & b", {"a": 0.5, "b": 0.25})
    assert sharpdnf.conditional(dnf, given=Circuit.parse("b", {"a": 0.5, "b": 0.25})).prob == pytest.approx(0.5)


def test_many_probability_vectors() -> None:
    circuit = circuit_of(11)
    rows = np.random.default_rng(0).random((5, circuit.num_vars))
    truth = [math.exp(circuit_log_prob(circuit.with_prob(row))) for row in rows]
    assert sharpdnf.count_weights(circuit, rows) == pytest.approx(truth, abs=1e-12)


def test_other_engines_get_the_circuit_as_a_dnf() -> None:
    circuit = a_and_not_b(6, 0.3)
    for engine in ("dtree", "klm", "sampling", "bounds"):
        estimate = count(circuit, engine=engine, delta=DELTA, rng=1)
        promise_holds(circuit, estimate, estimate.guarantee)
    with pytest.raises(LimitError, match="no DNF"):
        count(hard(), engine="klm")


def test_pyganak_on_the_tseitin_cnf_agrees() -> None:
    pytest.importorskip("pyganak")
    for i in (1, 2, 8, 9):
        circuit = circuit_of(i)
        even = circuit.with_prob(np.full(circuit.num_vars, 0.5))
        assert count(even, engine="exact-cnf").count == len(enumerate_models(circuit))
        if circuit_fraction(circuit) > 0:
            assert close(count(circuit, engine="exact-cnf").log_prob, circuit_log_prob(circuit))


def test_models_are_counted_as_integers() -> None:
    for i in range(100):
        circuit = circuit_of(i)
        even = circuit.with_prob(np.full(circuit.num_vars, 0.5))
        found = count(even, guarantee="exact").count
        assert isinstance(found, int)
        assert found == len(enumerate_models(even))


def test_tiny_answers_come_out_right() -> None:
    b = Builder()
    x = [b.var(None, 1e-30) for _ in range(30)]
    circuit = b.build(b.atleast(20, *x))
    truth = math.log(math.comb(30, 20)) + 20 * math.log(1e-30)
    assert count(circuit, guarantee="exact").log_prob == pytest.approx(truth, rel=1e-12)
    assert count(b.build(~b.atleast(20, *x)), guarantee="exact").log_complement == pytest.approx(truth, rel=1e-12)


def test_elimination_against_enumeration() -> None:
    for i in range(300):
        circuit = circuit_of(i)
        fraction = circuit_fraction(circuit)
        truth, missing = log_fraction(fraction), log_fraction(1 - fraction)
        found = count(circuit, engine="eliminate")
        assert found.met
        assert found.guarantee == "exact"
        assert close(found.log_prob, truth)
        assert close(found.log_complement, missing)
        assert found.log_lower - 1e-13 <= truth <= found.log_upper + 1e-13
        assert found.log_complement_lower - 1e-13 <= missing <= found.log_complement_upper + 1e-13


def test_a_long_ladder_is_exact_without_search() -> None:
    b = Builder()
    layer = [b.const(True)] * 3
    for step in range(1000):
        edges = [[b.var(f"{step} {i} {j}", 0.7) for j in range(3)] for i in range(3)]
        layer = [b.or_(*(layer[i] & edges[i][j] for i in range(3) if abs(i - j) < 2)) for j in range(3)]
    found = count(b.build(layer[0]), guarantee="exact", timeout=60.0)
    assert found.met
    assert found.engine == "eliminate"
    # The same by the distribution of which of the three nodes are reached, layer by layer.
    state = np.zeros(8)
    state[7] = 1.0
    step_of = np.zeros((8, 8))
    for before in range(8):
        reached = [1.0 - 0.3 ** sum(before >> i & 1 for i in range(3) if abs(i - j) < 2) for j in range(3)]
        for after in range(8):
            step_of[before, after] = np.prod([p if after >> j & 1 else 1.0 - p for j, p in enumerate(reached)])
    for _ in range(1000):
        state = state @ step_of
    assert found.prob == pytest.approx(float(state[1::2].sum()), rel=1e-9)


def test_a_ladder_of_gates_takes_milliseconds_not_minutes() -> None:
    """Reachability through layers of three: the number of nodes grows with the length, not with its exponential."""
    nodes = []
    for length in (20, 40, 80):
        b = Builder()
        layer = [b.const(True)] * 3
        for step in range(length):
            edges = [[b.var(f"{step} {i} {j}", 0.7) for j in range(3)] for i in range(3)]
            layer = [b.or_(*(layer[i] & edges[i][j] for i in range(3) if abs(i - j) < 2)) for j in range(3)]
        found = bound_circuit(b.build(layer[0]), Limit())
        assert found.exact
        nodes.append(found.nodes)
    assert nodes[2] < 5 * nodes[0]


def test_promises_about_the_complement() -> None:
    circuit = hard(60).negated()
    found = count(circuit, of="complement", engine="sampling", rng=3, delta=DELTA)
    assert found.of == "complement"
    assert found.guarantee == "relative"
    plain = count(hard(60), engine="sampling", rng=3, delta=DELTA)
    assert found.log_complement == plain.log_prob
    assert found.prob == pytest.approx(1.0 - plain.prob)
    for i in range(60):
        small = circuit_of(i)
        estimate = count(small, of="complement", epsilon=EPSILON, delta=DELTA, rng=i)
        missing = float(1 - circuit_fraction(small))
        assert estimate.complement == pytest.approx(missing, rel=EPSILON, abs=1e-300)
        assert estimate.log_certified_lower <= circuit_log_prob(small) + 1e-9
    table = count_many(circuit_of(7, outputs=3), of="complement", epsilon=EPSILON, delta=DELTA, rng=1)
    truth = [float(1 - circuit_fraction(circuit_of(7, outputs=3), i)) for i in range(3)]
    assert table["complement"] == pytest.approx(truth, rel=EPSILON)


def test_caller_mistakes_are_refused() -> None:
    circuit = circuit_of(1, outputs=2)
    with pytest.raises(InvalidFormula, match="2 outputs"):
        count(circuit)
    with pytest.raises(ValueError, match="estimator"):
        count(circuit[0], engine="sampling", estimator="best")
    with pytest.raises(ValueError, match="no option 'estimatr' for circuits: did you mean 'estimator'"):
        count(circuit[0], engine="sampling", estimatr="direct")
    with pytest.raises(ValueError, match="cannot give"):
        count(circuit[0], engine="sampling", guarantee="exact")
    with pytest.raises(ValueError, match="unknown guarantee"):
        count(circuit[0], guarantee="sure")
    with pytest.raises(ValueError, match="no engine"):
        count(circuit[0], engine="nothing")
    with pytest.raises(ValueError, match="epsilon"):
        count(circuit[0], epsilon=2.0)


def test_at_least_k_of_independent_literals_in_closed_form() -> None:
    """Against enumeration with signs and negations, against the binomial tail where it is large, and as a diagram."""
    rng = np.random.default_rng(5)
    for n in range(1, 9):
        for k in range(1, n + 1):
            b = Builder()
            x = [b.var(f"x{i}", float(rng.random())) for i in range(n)]
            vote = b.atleast(k, *(~v if rng.random() < 0.5 else v for v in x))
            circuit = b.build(~vote if rng.random() < 0.5 else vote)
            truth = circuit_log_prob(circuit)
            assert count(circuit, guarantee="exact").log_prob == pytest.approx(truth, rel=1e-12, abs=1e-12)
            compiled = compile_circuit(circuit)
            assert compiled is not None
            assert compiled.evaluate(circuit.prob[None, :])[0] == pytest.approx(truth, rel=1e-12, abs=1e-12)
    b = Builder()
    wide = b.build(b.atleast(500, *(b.var(None, 0.4) for _ in range(1000))))
    found = count(wide, guarantee="exact", timeout=60.0)
    assert found.guarantee == "exact" and found.info["nodes"] == 500 * 501
    assert found.log_prob == pytest.approx(float(stats.binom.logsf(499, 1000, 0.4)), rel=1e-9)
    assert found.log_lower <= found.log_prob <= found.log_upper
