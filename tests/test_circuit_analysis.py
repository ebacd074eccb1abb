"""Marginals, influences, models and conditioning of circuits against enumeration."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from circuit_oracle import (
    DELTA,
    a_and_not_b,
    best_model,
    circuit_fraction,
    circuit_influence,
    circuit_log_prob,
    circuit_marginals,
    circuit_of,
    close,
    enumerate_models,
    hard,
)
from scipy import stats

import sharpdnf
from sharpdnf import DNF, Circuit, count
from sharpdnf.circuit_analysis import draw_models
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.engines.circuit_auto import cover_of
from sharpdnf.errors import InvalidFormula, LimitError, NotMetWarning

pytestmark = pytest.mark.native


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


def test_conditioning_by_draws_keeps_its_promise() -> None:
    """Neither count compiles within the work that is left to it, so both are sampled."""
    a, b = a_and_not_b(8, 0.3), Circuit.parse("~(x0 & x1 & x2)", {f"x{i}": 0.3 for i in range(8)})
    both = sharpdnf.circuit_analysis.conjunction(a, b)
    truth = float(circuit_fraction(both) / circuit_fraction(b))
    found = sharpdnf.conditional(a, given=b, epsilon=0.1, delta=DELTA, rng=4, engine="sampling")
    assert found.guarantee == "relative" and found.met and found.samples > 0
    assert abs(found.prob / truth - 1.0) <= 0.1
    assert found.lower <= truth <= found.upper


def test_conditioning_without_time_says_what_it_does_not_know() -> None:
    found = sharpdnf.conditional(hard(), given=hard(200, 1), timeout=0.0)
    assert not found.met
    assert found.lower == 0.0 and found.upper == 1.0
    assert found.prob == pytest.approx(0.5)


def test_many_probability_vectors() -> None:
    circuit = circuit_of(11)
    rows = np.random.default_rng(0).random((5, circuit.num_vars))
    truth = [math.exp(circuit_log_prob(circuit.with_prob(row))) for row in rows]
    assert sharpdnf.count_weights(circuit, rows) == pytest.approx(truth, abs=1e-12)
