"""Shapley and Banzhaf values against their definitions, by all coalitions of small formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sharpdnf import DNF, NotMetWarning
from sharpdnf.generate import generate
from sharpdnf.shapley import banzhaf, shapley


def wins(dnf: DNF, members: frozenset[int]) -> bool:
    literals = dnf.literals.tolist()
    clauses = [literals[a:b] for a, b in itertools.pairwise(dnf.indptr.tolist())]
    return any(all(((lit >> 1) in members) != bool(lit & 1) for lit in clause) for clause in clauses)


def by_definition(dnf: DNF) -> tuple[list[float], list[float]]:
    """(Banzhaf, Shapley) values: sums over the coalitions of the others."""
    n, first, second = dnf.num_vars, [], []
    for x in range(n):
        others = [v for v in range(n) if v != x]
        even = fair = 0.0
        for size in range(n):
            for some in itertools.combinations(others, size):
                gain = wins(dnf, frozenset([*some, x])) - wins(dnf, frozenset(some))
                even += gain / 2 ** (n - 1)
                fair += gain * math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
        first.append(even)
        second.append(fair)
    return first, second


FORMULAS = [
    DNF.from_clauses([[1, 2], [3]]),
    DNF.from_clauses([[1, -2], [2, 3], [-1, 4]]),
    DNF.from_clauses([[1], [1, 2, 3, 4, 5]]),
    *(generate("uniform", seed, num_vars=7, num_clauses=6, width=3) for seed in range(4)),
]


@pytest.mark.parametrize("dnf", FORMULAS)
def test_values_are_those_of_the_definition(dnf: DNF) -> None:
    even, fair = by_definition(dnf)
    found = shapley(dnf)
    assert found.exact and found.values == pytest.approx(fair, abs=1e-12)
    assert banzhaf(dnf).values == pytest.approx(even, abs=1e-12)
    assert banzhaf(dnf).values == pytest.approx(banzhaf(DNF(dnf.indptr, dnf.literals, dnf.prob * 0.3)).values)


@pytest.mark.parametrize("dnf", FORMULAS[:4])
def test_samples_keep_their_promise(dnf: DNF, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpdnf.shapley.compile_within", lambda *_: None)
    even, fair = by_definition(dnf)
    for value, want in ((banzhaf, even), (shapley, fair)):
        found = value(dnf, epsilon=0.1, delta=1e-6, rng=3)
        assert not found.exact and found.samples > 0
        assert np.abs(found.values - want).max() <= 0.1
        assert (found.lower <= np.array(want) + 1e-12).all() and (found.upper >= np.array(want) - 1e-12).all()
        assert found.values.tolist() == value(dnf, epsilon=0.1, delta=1e-6, rng=3).values.tolist()


def test_shares_add_up_to_one() -> None:
    dnf = generate("uniform", 1, num_vars=60, num_clauses=40, width=3)
    positive = DNF(dnf.indptr, dnf.literals & ~1, dnf.prob)
    assert shapley(positive).values.sum() == pytest.approx(1.0, abs=1e-9)


def test_no_time() -> None:
    dnf = generate("uniform", 1, num_vars=400, num_clauses=3000, width=4)
    with pytest.warns(NotMetWarning, match="there was time for"):
        found = shapley(dnf, epsilon=0.001, timeout=0.05, rng=1)
    assert not found.met and (found.upper >= found.lower).all()
