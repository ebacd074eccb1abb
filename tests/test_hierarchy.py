"""The pass that takes hierarchical formulas of a batch apart: always what enumeration and the general path say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import ANY_PROBS, dnfs, enumerate_prob

from sharpdnf import count, count_many
from sharpdnf.dnf import DNF

pytestmark = pytest.mark.native


@st.composite
def hierarchical(draw: st.DrawFn, depth: int = 3) -> DNF:
    """Clauses along the branches of a random tree of literals, some of them repeated or cut short."""
    clauses: list[list[int]] = []
    variables = 0

    def grow(prefix: list[int], level: int) -> None:
        nonlocal variables
        for _ in range(draw(st.integers(1, 3))):
            if variables >= 12:
                break
            variables += 1
            branch = [*prefix, variables if draw(st.booleans()) else -variables]
            if level and draw(st.booleans()):
                grow(branch, level - 1)
            if level == 0 or draw(st.integers(0, 4)) == 0 or not clauses:
                clauses.extend([branch] * draw(st.integers(1, 2)))

    grow([], depth)
    prob = draw(st.lists(ANY_PROBS, min_size=variables, max_size=variables))
    return DNF.from_clauses(draw(st.permutations(clauses)), prob, num_vars=variables)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(hierarchical(), dnfs(min_clauses=1, probs=ANY_PROBS)), min_size=1, max_size=5))
def test_a_batch_agrees_with_enumeration(parts: list[DNF]) -> None:
    table = count_many(parts, guarantee="exact")
    assert table["prob"] == pytest.approx([enumerate_prob(dnf) for dnf in parts], rel=1e-9, abs=1e-300)
    assert set(table["guarantee"]) == {"exact"}


def star(leaves: int, p: float = 0.3) -> tuple[list[list[int]], float]:
    return [[1, v] for v in range(2, leaves + 2)], p * (1 - (1 - p) ** leaves)


def test_large_stars_and_nested_factors() -> None:
    clauses, truth = star(5_000)
    nested = [[1, 2, 3, v] for v in range(4, 40)] + [[1, 2, 100 + v] for v in range(40)] + [[1, 200]]
    p = 0.3
    inner = 1 - (1 - p * (1 - (1 - p) ** 36)) * (1 - p) ** 40
    expected = p * (1 - (1 - p * inner) * (1 - p))
    table = count_many([DNF.from_clauses(clauses, [p] * 5_001), DNF.from_clauses(nested, [p] * 200)])
    assert table["prob"] == pytest.approx([truth, expected], rel=1e-12)
    assert table["engine"].tolist() == ["simplify", "simplify"]


def test_factors_deeper_than_the_pass_goes() -> None:
    """Clause i holds the first i variables and one of its own: common literals one by one, 100 levels of them."""
    depth, p = 100, 0.9
    clauses = [[*range(1, i + 1), depth + i] for i in range(1, depth + 1)]
    dnf = DNF.from_clauses(clauses, [p] * (2 * depth))
    value = 0.0
    for _ in range(depth):  # from the inside: p and (own or deeper)
        value = p * (1 - (1 - p) * (1 - value))
    assert count_many([dnf], guarantee="exact")["prob"][0] == pytest.approx(value, rel=1e-9)


def test_probabilities_below_the_range_of_doubles() -> None:
    dnf = DNF.from_clauses([[1, 2, 3], [1, 2, 4], [5, 6]], [1e-120] * 6)
    table = count_many([dnf], guarantee="exact")
    assert table["log_prob"][0] == pytest.approx(count(dnf, guarantee="exact").log_prob, rel=1e-12)
    tiny = DNF.from_clauses([[1, 2, 3], [1, 2, 4]], [1e-120] * 4)
    assert count_many([tiny], guarantee="exact")["log_prob"][0] == pytest.approx(
        3 * np.log(1e-120) + np.log(2.0), rel=1e-12
    )


@pytest.mark.threads
def test_a_batch_of_one_shared_space_keeps_its_formulas_apart() -> None:
    """The scratch memory of one formula must not leak into the next: stuck ones and solved ones take turns."""
    rng = np.random.default_rng(0)
    parts = []
    for i in range(200):
        n = int(rng.integers(3, 12))
        width = [1, 2, 3][i % 3]
        clauses = [(rng.permutation(n)[: min(width, n)] + 1).tolist() for _ in range(int(rng.integers(1, 14)))]
        parts.append(DNF.from_clauses(clauses, rng.uniform(0, 1, n), num_vars=n))
    table = count_many(parts, guarantee="exact", threads=2)
    assert table["prob"] == pytest.approx([enumerate_prob(dnf) for dnf in parts], rel=1e-10)
