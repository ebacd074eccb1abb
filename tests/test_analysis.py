"""Marginals, influence, models, conditioning and many weights, each against enumeration."""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from oracle import dnfs, enumerate_marginals, enumerate_prob, random_dnf, truth_table

import sharpdnf
from sharpdnf import DNF
from sharpdnf.analysis import conjunction, posterior
from sharpdnf.errors import InvalidFormula, LimitError, NotMetWarning
from sharpdnf.generate import PaperSpec, UniformSpec, paper, uniform

pytestmark = pytest.mark.native

DNF_15 = random_dnf(np.random.default_rng(8), 12, 14, (2, 5))


@settings(max_examples=60, deadline=None)
@given(dnfs(min_clauses=1))
def test_exact_marginals(dnf: DNF) -> None:
    truth = enumerate_prob(dnf)
    if truth > 0.0:
        found = posterior(dnf)
        assert found.exact
        assert found.prob == pytest.approx(enumerate_marginals(dnf), abs=1e-9)
        assert math.exp(found.log_prob) == pytest.approx(truth)
        assert np.array_equal(sharpdnf.marginals(dnf), found.prob)


def test_sampled_marginals_are_close() -> None:
    found = posterior(DNF_15, exact=False, epsilon=0.01, delta=1e-6, rng=1)
    truth = enumerate_marginals(DNF_15)
    assert not found.exact
    assert np.all(np.abs(found.prob - truth) <= 6.0 * found.std_error + 1e-3)
    assert np.max(np.abs(found.prob - truth)) < 0.02


def test_models_satisfy_the_formula_and_follow_its_law() -> None:
    models = sharpdnf.sample_models(DNF_15, 40_000, rng=2)
    table, used = truth_table(DNF_15)
    index = models[:, used] @ (1 << np.arange(len(used)))
    assert table[index].all()
    assert models.mean(axis=0) == pytest.approx(enumerate_marginals(DNF_15), abs=0.02)
    frequency = np.bincount(index, minlength=len(table)) / len(models)
    weight = np.ones(1)
    for v in used:
        weight = np.concatenate([weight * (1 - DNF_15.prob[v]), weight * DNF_15.prob[v]])
    law = np.where(table, weight, 0.0) / weight[table].sum()
    assert np.abs(frequency - law).max() < 0.01
    assert np.array_equal(models, sharpdnf.sample_models(DNF_15, 40_000, rng=2))


def test_models_of_trivial_formulas() -> None:
    certain = DNF.from_clauses([[]], [0.25, 0.5], num_vars=2)
    assert sharpdnf.sample_models(certain, 4000, rng=1).mean(axis=0) == pytest.approx([0.25, 0.5], abs=0.05)
    with pytest.raises(InvalidFormula, match="probability 0"):
        sharpdnf.sample_models(DNF.from_clauses([[1]], [0.0]), 1)
    with pytest.raises(InvalidFormula, match="probability 0"):
        sharpdnf.marginals(DNF.from_clauses([]))


def test_too_many_models_are_refused_with_the_figure() -> None:
    dnf = paper(PaperSpec(15_000, 11_250, 13), np.random.default_rng(1))
    certain = DNF.from_clauses([[]], num_vars=15_000)
    for formula in (dnf, certain):
        with pytest.raises(LimitError, match="15000000000 bytes, the limit is 2147483648"):
            sharpdnf.sample_models(formula, 10**6)


@pytest.mark.speed
@pytest.mark.parametrize("clauses", [[[]], [[v, v + 1] for v in range(1, 15_000)]])
def test_models_stop_at_the_timeout(clauses: list[list[int]]) -> None:
    """2 GB of them: the memory alone takes longer to clear than the timeout."""
    started = time.process_time()
    with pytest.raises(LimitError, match="of 140000 models within"):
        sharpdnf.sample_models(DNF.from_clauses(clauses, num_vars=15_000), 140_000, rng=1, timeout=0.02)
    assert time.process_time() - started < 0.3


@settings(max_examples=60, deadline=None)
@given(dnfs(min_clauses=1))
def test_the_most_probable_model(dnf: DNF) -> None:
    if enumerate_prob(dnf) == 0.0:
        with pytest.raises(InvalidFormula):
            sharpdnf.most_probable_model(dnf)
        return
    model, log_prob = sharpdnf.most_probable_model(dnf)
    table, used = truth_table(dnf)
    assert table[int(model[used] @ (1 << np.arange(len(used))))] if len(used) else True
    weight = np.ones(1)
    for v in used:
        weight = np.concatenate([weight * (1 - dnf.prob[v]), weight * dnf.prob[v]])
    others = np.delete(dnf.prob, used)
    best = weight[table].max() * np.prod(np.maximum(others, 1 - others))
    assert math.exp(log_prob) == pytest.approx(best, rel=1e-9)
    assert np.prod(np.where(model, dnf.prob, 1 - dnf.prob)) == pytest.approx(best, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(dnfs(min_clauses=1, max_vars=6))
def test_conditioning(dnf: DNF) -> None:
    given_first = sharpdnf.condition(dnf, {1: True})
    assert sharpdnf.count(given_first, guarantee="exact").prob == pytest.approx(
        enumerate_prob(dnf.with_prob(np.r_[1.0, dnf.prob[1:]])), abs=1e-12
    )
    other = DNF.from_clauses([[1], [-1, min(2, dnf.num_vars)]] if dnf.num_vars > 1 else [[1]], dnf.prob)
    both = conjunction(dnf, other)
    joint = truth_table(DNF(both.indptr, both.literals, both.prob))
    assert len(joint[0]) >= 1
    if enumerate_prob(other) > 0.0:
        expected = enumerate_prob(both) / enumerate_prob(other)
        found = sharpdnf.conditional(dnf, other, rng=1)
        assert found.prob == pytest.approx(expected, abs=1e-9)


def test_what_is_no_formula_is_said_so() -> None:
    a = DNF.parse("a")
    for call in (
        lambda: sharpdnf.condition([[1]], {1: True}),
        lambda: sharpdnf.conditional(a, [[1]]),
        lambda: sharpdnf.conditional([[1]], a),
    ):
        with pytest.raises(TypeError, match="expected a DNF, not list"):
            call()
    with pytest.raises(TypeError, match="evidence must be a mapping"):
        sharpdnf.condition(a, ["a"])
    with pytest.raises(TypeError, match="expected text"):
        DNF.parse(None)


def test_evidence_is_true_or_false_of_a_variable_that_exists() -> None:
    dnf = DNF.parse("rain & ~umbrella")
    assert sharpdnf.condition(dnf, {1: np.True_, "umbrella": 0}).prob.tolist() == [1.0, 0.0]
    for bad, message in (
        ({1: "False"}, "as True or False, not as 'False'"),
        ({1: 0.5}, "as True or False, not as 0.5"),
        ({1: None}, "as True or False, not as None"),
        ({1.0: True}, "a number from 1 or a name, not 1.0"),
        ({True: True}, "a number from 1 or a name, not True"),
        ({3: True}, "not one of 1..2"),
        ({"umbrela": True}, "did you mean 'umbrella'"),
    ):
        with pytest.raises(InvalidFormula, match=message):
            sharpdnf.condition(dnf, bad)


def test_conditional_probability_by_hand() -> None:
    a_or_b = DNF.parse("a | b", {"a": 0.5, "b": 0.5})
    a = DNF.parse("a", {"a": 0.5, "b": 0.5})
    assert sharpdnf.conditional(a, a_or_b).prob == pytest.approx(2.0 / 3.0)
    assert sharpdnf.conditional(a, a_or_b).log_wmc is None  # not -inf, a count of zero
    assert sharpdnf.count(sharpdnf.condition(a_or_b, {"a": False})).prob == pytest.approx(0.5)
    with pytest.raises(InvalidFormula, match="no variable is named"):
        sharpdnf.condition(a, {"c": True})
    with pytest.raises(InvalidFormula, match="different probabilities"):
        sharpdnf.conditional(a, DNF.parse("a", {"a": 0.4}))


def test_many_weights_exact_and_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    probs = np.random.default_rng(3).random((7, DNF_15.num_vars))
    truth = [enumerate_prob(DNF_15.with_prob(row)) for row in probs]
    assert sharpdnf.count_weights(DNF_15, probs) == pytest.approx(truth, rel=1e-9)
    assert np.exp(sharpdnf.count_weights(DNF_15, probs, log=True)) == pytest.approx(truth, rel=1e-9)
    monkeypatch.setattr("sharpdnf.analysis._compile", lambda *_, **__: None)
    assert sharpdnf.count_weights(DNF_15, probs, epsilon=0.01, delta=1e-6) == pytest.approx(truth, rel=0.011)
    with pytest.raises(InvalidFormula, match="shape"):
        sharpdnf.count_weights(DNF_15, probs[:, 1:])
    with pytest.raises(InvalidFormula, match=r"\[0, 1\]"):
        sharpdnf.count_weights(DNF_15, probs + 1.0)


def test_marginals_of_a_large_formula_come_from_samples() -> None:
    dnf = paper(PaperSpec(1500, 1100, 8), np.random.default_rng(1))
    found = posterior(dnf, rng=1)
    assert not found.exact
    assert found.samples > 0
    assert np.all((found.prob >= 0.0) & (found.prob <= 1.0))


@pytest.mark.parametrize("ask", ["marginals", "count_two"])
def test_arrays_warn_when_the_deadline_cut_them_short(ask: str) -> None:
    dnf = paper(PaperSpec(1500, 1100, 8), np.random.default_rng(1))
    dnf = dnf.with_prob(np.r_[0.0, dnf.prob[1:]])
    call = count_two if ask == "count_two" else getattr(sharpdnf, ask)
    with pytest.warns(NotMetWarning, match="deadline came first"):
        assert np.all(np.isfinite(call(dnf, rng=1, timeout=0.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(np.isfinite(call(dnf, rng=1)))


def count_two(dnf: DNF, **asked: object) -> np.ndarray:
    return sharpdnf.count_weights(dnf, np.stack([dnf.prob, 1.0 - dnf.prob]), epsilon=0.02, **asked)


@pytest.mark.speed
def test_a_compile_that_fails_costs_little_more_than_sampling() -> None:
    dnf = paper(PaperSpec(15_000, 11_250, 13), np.random.default_rng(1))
    seconds = dict.fromkeys((None, False), math.inf)
    for _ in range(3):
        for exact in seconds:
            started = time.process_time()
            assert not posterior(dnf, rng=1, exact=exact, threads=1).exact
            seconds[exact] = min(seconds[exact], time.process_time() - started)
    assert seconds[None] < 6.0 * seconds[False]


def test_marginals_of_few_wide_clauses_are_exact_and_linear() -> None:
    n = 200_000
    one = posterior(DNF.from_clauses([range(1, n + 1)]), timeout=60.0)
    assert one.exact and np.all(one.prob == 1.0)
    two = posterior(DNF.from_clauses([range(1, n + 1), [*range(2, n + 1), -1]]), timeout=60.0)
    assert two.exact and two.prob[0] == 0.5 and np.all(two.prob[1:] == 1.0)


def test_standard_errors_of_sampled_marginals_are_their_spread() -> None:
    """The draws are made inside clauses here, so far more of them are models than P(formula) says."""
    dnf = DNF.from_clauses([[v, v + 1, (7 * v) % 60 + 1] for v in range(1, 60)], [0.02] * 60)
    found = [posterior(dnf, exact=False, epsilon=0.2, rng=seed) for seed in range(40)]
    spread = np.std([f.prob for f in found], axis=0)
    claimed = np.mean([f.std_error for f in found], axis=0)
    assert 0.3 < np.mean(spread) / np.mean(claimed) < 1.3


def test_an_exact_conditional_is_as_wide_as_both_counts_allow() -> None:
    """Both logarithms are near -138, so their difference is not right to a few units of its own last place."""
    given = DNF.from_clauses([[*range(1, 21)], [*range(2, 22)]], [1e-3] * 21)
    found = sharpdnf.conditional(DNF.from_clauses([[*range(1, 21)]], [1e-3] * 21), given)
    joint, below = (found.info[name] for name in ("joint", "given"))
    assert found.guarantee == joint["guarantee"] == below["guarantee"] == "exact"
    for kind in ("log_", "log_certified_"):
        low, high = getattr(found, f"{kind}lower"), getattr(found, f"{kind}upper")
        assert low <= joint[f"{kind}lower"] - below[f"{kind}upper"] < found.log_prob
        assert high >= joint[f"{kind}upper"] - below[f"{kind}lower"] > found.log_prob
        assert low <= math.log(1.0 / (2.0 - 1e-3)) <= high


def test_conditional_goes_by_names() -> None:
    prob = {"a": 0.3, "b": 0.6, "c": 0.5}
    left, right = DNF.parse("a & b | c", prob), DNF.parse("b", {"b": 0.6})
    assert left.names != right.names
    assert sharpdnf.conditional(left, right).prob == pytest.approx(0.3 + 0.7 * 0.5)
    assert sharpdnf.conditional(right, left).prob == pytest.approx(0.6 * 0.65 / (0.18 + 0.82 * 0.5))
    with pytest.raises(InvalidFormula, match="different probabilities"):
        sharpdnf.conditional(left, DNF.parse("b", {"b": 0.7}))


def test_conditional_promises_no_more_than_its_counts() -> None:
    rng = np.random.default_rng(3)
    left = uniform(UniformSpec(40, 60, 3), rng).with_prob(np.full(40, 0.4))
    right = uniform(UniformSpec(40, 60, 3), rng).with_prob(np.full(40, 0.4))
    promised = {
        name: sharpdnf.conditional(left, right, rng=1, **asked).guarantee
        for name, asked in {
            "default": {},
            "additive": {"guarantee": "additive"},
            "none": {"guarantee": "none"},
            "bounds": {"guarantee": "bounds"},
            "conditioned": {"engine": "conditioned"},
        }.items()
    }
    assert promised == {
        "default": "relative", "additive": "relative", "none": "none", "bounds": "bounds", "conditioned": "none"
    }  # fmt: skip
    first = sharpdnf.conditional(left, right, epsilon=0.05)
    assert sharpdnf.conditional(left, right, epsilon=0.05, rng=first.seed).log_prob == first.log_prob


@pytest.mark.parametrize("tiny", [1e-140, 1e-200, 5e-324])
def test_clauses_whose_probability_is_no_double_keep_their_weight(tiny: float) -> None:
    """The product of the first two underflows, whichever way it is taken; the second clause is the likelier one."""
    dnf = DNF.from_clauses([[1, 2, 3], [1, 3]], [tiny, 0.5, 1e-190])
    likelier = math.log(tiny) + math.log(1e-190)
    assert dnf.clause_log_probs() == pytest.approx([likelier + math.log(0.5), likelier], rel=1e-14)
    model, log_prob = sharpdnf.most_probable_model(dnf)
    assert model.tolist()[::2] == [True, True] and log_prob == pytest.approx(likelier + math.log(0.5), rel=1e-14)
    assert sharpdnf.marginals(dnf) == pytest.approx([1.0, 0.5, 1.0], rel=1e-12)


def test_the_likeliest_model_is_found_among_tiny_ones() -> None:
    dnf = DNF.from_clauses([[1, 2], [2, 3, 4], [1, 4]], [1e-140, 1e-200, 1e-201, 1e-190])
    model, log_prob = sharpdnf.most_probable_model(dnf)
    assert model.tolist() == [True, False, False, True]
    assert log_prob == pytest.approx(math.log(1e-140) + math.log(1e-190), rel=1e-14)
