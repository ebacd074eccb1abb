"""Minimal cut sets against brute force: all, up to an order, above a cut-off; their sums and their order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sharpdnf import Builder, Circuit
from sharpdnf.errors import LimitError
from sharpdnf.fronts.cutsets import find_cut_sets, is_coherent, restricted


def random_coherent(rng: np.random.Generator) -> Circuit:
    builder = Builder()
    gates = [builder.var(f"x{i}", rng.random()) for i in range(rng.integers(1, 9))]
    for _ in range(rng.integers(1, 9)):
        chosen = [gates[i] for i in rng.integers(0, len(gates), rng.integers(1, 5))]
        kind = rng.integers(3)
        if kind == 2:
            gates.append(builder.atleast(int(rng.integers(1, len(chosen) + 1)), *chosen))
        else:
            gates.append(builder.and_(*chosen) if kind else builder.or_(*chosen))
    return builder.build(gates[-1])


def brute_force(circuit: Circuit) -> set[tuple[int, ...]]:
    rows = np.array(list(itertools.product([False, True], repeat=circuit.num_vars)))
    true = [frozenset(np.flatnonzero(row).tolist()) for row in rows[circuit.evaluate(rows)[:, 0]]]
    return {tuple(sorted(s)) for s in true if not any(t < s for t in true)}


def listed(sets: object, prob: object = None) -> list[tuple[int, ...]]:
    return [tuple(sorted(variables)) for variables, _ in sets.likeliest(prob)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(150))
def test_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    circuit = random_coherent(rng)
    expected = brute_force(circuit)
    sets = find_cut_sets(circuit)
    found = listed(sets, circuit.prob)
    assert set(found) == expected
    assert len(found) == len(expected) == sets.count()
    chance = {s: math.prod(circuit.prob[list(s)].tolist()) for s in expected}
    in_order = [chance[s] for s in found]
    assert all(a >= b * (1 - 1e-12) for a, b in itertools.pairwise(in_order))
    assert sets.rare_event(circuit.prob) == pytest.approx(sum(in_order), rel=1e-12)
    bound = 1.0 - math.prod(1.0 - p for p in in_order)
    assert sets.min_cut_upper_bound(circuit.prob) == pytest.approx(bound, rel=1e-9)
    for order in (1, 2, 3):
        small = find_cut_sets(circuit, order=order)
        assert set(listed(small)) == {s for s in expected if len(s) <= order}
    cutoff = float(rng.uniform(0.0, 0.4))
    likely = find_cut_sets(circuit, cutoff=cutoff)
    assert {s for s in listed(likely) if chance[s] >= cutoff} == {s for s in expected if chance[s] >= cutoff}


def test_smallest_first_without_probabilities() -> None:
    sets = find_cut_sets(Circuit.parse("a & b & c | d & e | f"))
    assert [len(s) for s in listed(sets)] == [1, 2, 3]


def test_constants() -> None:
    builder = Builder()
    x = builder.var("x", 0.5)
    assert listed(find_cut_sets(builder.build(builder.const(False) & x))) == []
    certain = find_cut_sets(builder.build(builder.const(True) | x))
    assert listed(certain) == [()]
    assert certain.min_cut_upper_bound(np.array([0.5])) == 1.0


def test_deep_and_wide_families_need_no_stack() -> None:
    """An AND of 20,000 events is one set of 20,000; an OR of them 20,000 sets."""
    builder = Builder()
    events = [builder.var(f"x{i}", 0.5) for i in range(20_000)]
    assert find_cut_sets(builder.build(builder.and_(*events))).count() == 1
    assert find_cut_sets(builder.build(builder.or_(*events))).count() == 20_000
    half = len(events) // 2
    mixed = builder.build(builder.or_(*events[:half]) & builder.or_(*events[half:]))
    assert find_cut_sets(mixed).count() == half * half


def test_a_chain_of_gates_is_as_deep_as_it_likes() -> None:
    builder = Builder()
    gate = builder.var("x", 0.5)
    for i in range(3000):
        gate = (gate & builder.var(f"a{i}", 0.9)) | builder.var(f"b{i}", 0.01)
    assert find_cut_sets(builder.build(gate), order=50).count() == 50


def test_limits_are_errors_that_say_what_to_do() -> None:
    builder = Builder()
    pairs = [builder.var(f"a{i}", 0.5) | builder.var(f"b{i}", 0.5) for i in range(30)]
    shuffled = [builder.var(f"c{i}", 0.5) & pairs[(7 * i) % 30] for i in range(30)]
    circuit = builder.build(builder.atleast(10, *shuffled))
    with pytest.raises(LimitError, match=r"limit of 500 nodes: ask for those up to an order"):
        find_cut_sets(circuit, max_nodes=500)


def test_negations_are_seen_only_where_they_matter() -> None:
    builder = Builder()
    a, b = builder.var("a", 0.5), builder.var("b", 0.5)
    circuit = builder.build(a & b, a & ~b)
    assert is_coherent(circuit[0])
    assert not is_coherent(circuit[1])
    with pytest.raises(ValueError, match="negation"):
        find_cut_sets(circuit[1])


def test_restricted_keeps_the_function() -> None:
    builder = Builder()
    a, b, c = (builder.var(name, p) for name, p in (("a", 0.1), ("b", 0.2), ("c", 0.3)))
    circuit = builder.build(b | c, a & c)[1]
    small = restricted(circuit)
    assert small.names == ("a", "c")
    assert small.prob.tolist() == [0.1, 0.3]
    assert small.evaluate([[True, True], [True, False]])[:, 0].tolist() == [True, False]
