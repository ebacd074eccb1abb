"""The front door for circuits: many outputs, other engines, counts of models, and callers' mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from circuit_oracle import (
    DELTA,
    EPSILON,
    a_and_not_b,
    circuit_log_prob,
    circuit_of,
    enumerate_models,
    hard,
    promise_holds,
)

from sharpdnf import DNF, Builder, Circuit, count, count_many
from sharpdnf.errors import InvalidFormula, LimitError

pytestmark = pytest.mark.native


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


def test_other_engines_get_the_circuit_as_a_dnf() -> None:
    circuit = a_and_not_b(6, 0.3)
    for engine in ("dtree", "klm", "sampling", "bounds"):
        estimate = count(circuit, engine=engine, delta=DELTA, rng=1)
        promise_holds(circuit, estimate, estimate.guarantee)
    with pytest.raises(LimitError, match="no DNF"):
        count(hard(), engine="klm")


def test_models_are_counted_as_integers() -> None:
    for i in range(100):
        circuit = circuit_of(i)
        even = circuit.with_prob(np.full(circuit.num_vars, 0.5))
        found = count(even, guarantee="exact").count
        assert isinstance(found, int)
        assert found == len(enumerate_models(even))


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
