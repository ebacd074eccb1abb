"""Distributions over independent choices, against all combinations of their alternatives one by one."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql.folding import DISTRIBUTIONS, LARGEST, Alternatives, RowGroup, fold, total

AGGREGATES: dict[str, Callable[[list[int]], float]] = {
    "count": len,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}


def random_group(rng: np.random.Generator) -> RowGroup:
    """A few choices of a few alternatives, each of one or two rows, some of which do not count."""
    choice, prob, sizes = [], [], []
    for number in range(int(rng.integers(1, 5))):
        shares = rng.dirichlet(np.ones(int(rng.integers(2, 4))))[:-1]
        choice += [number] * len(shares)
        prob += shares.tolist()
        sizes += rng.integers(1, 3, len(shares)).tolist()
    rows = int(sum(sizes))
    ways = Alternatives(
        np.array([0, len(choice)]), np.array(choice), np.array(prob), np.cumsum([0, *sizes]), np.arange(rows)
    )
    return RowGroup(ways, slice(0, len(choice)), rng.integers(0, 2, rows), rng.integers(-3, 4, rows))


def by_enumeration(
    group: RowGroup, aggregate: Callable[[list[int]], float], *, counting: bool
) -> dict[float | None, float]:
    """The probability of every value; None stands for NULL."""
    ways = group.ways
    options = []
    for number in sorted(set(ways.choice.tolist())):
        mine = np.flatnonzero(ways.choice == number).tolist()
        options.append([(a, float(ways.prob[a])) for a in mine] + [(-1, 1.0 - float(ways.prob[mine].sum()))])
    law: dict[float | None, float] = defaultdict(float)
    for taken in itertools.product(*options):
        chosen = [ways.row[ways.row_indptr[a] : ways.row_indptr[a + 1]] for a, _ in taken if a >= 0]
        rows = [int(r) for part in chosen for r in part if group.there[r]]
        values = [int(group.whole[r]) for r in rows]
        value = aggregate(values) if values or counting else None
        law[value] += float(np.prod([p for _, p in taken]))
    return law


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("seed", range(8))
def test_distributions_are_those_of_all_combinations(name: str, seed: int) -> None:
    group = random_group(np.random.default_rng(seed))
    values, prob, null = DISTRIBUTIONS[name](group)
    found = dict(zip(np.asarray(values).tolist(), prob.tolist(), strict=True))
    wanted = by_enumeration(group, AGGREGATES[name], counting=name == "count")
    assert null == pytest.approx(wanted.pop(None, 0.0), abs=1e-12)
    for value in set(found) | set(wanted):
        assert found.get(value, 0.0) == pytest.approx(wanted.get(value, 0.0), abs=1e-12)


def test_total_is_the_distribution_of_a_sum() -> None:
    values, prob = total([(np.array([3, 5]), np.array([0.5, 0.25])), (np.array([-3]), np.array([0.5]))])
    assert dict(zip(values.tolist(), prob.tolist(), strict=True)) == pytest.approx(
        {-3: 0.125, 0: 0.375, 2: 0.125, 3: 0.25, 5: 0.125}
    )


def test_close_values_are_folded_as_far_ones_are() -> None:
    """Values that lie close together are folded as arrays without gaps, others pair by pair: with the same result."""
    rng = np.random.default_rng(5)
    first, second = ((np.arange(12), rng.dirichlet(np.ones(12))) for _ in range(2))
    close, prob = fold(first, second)
    far, same = fold((first[0] * 1000, first[1]), (second[0] * 1000, second[1]))
    assert far.tolist() == (close * 1000).tolist()
    assert same == pytest.approx(prob, rel=1e-12)


def test_what_doubles_cannot_hold_is_refused() -> None:
    group = random_group(np.random.default_rng(0))
    large = RowGroup(group.ways, group.span, np.ones_like(group.there), np.full_like(group.whole, int(LARGEST) // 2))
    with pytest.raises(UnsupportedSQL, match="too large to be listed"):
        DISTRIBUTIONS["avg"](large)
