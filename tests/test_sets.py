"""The paper's sets: their composition is the paper's, and every formula can be rebuilt alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sharpdnf.generate import settings
from sharpdnf.paper import sets


def test_sets_have_the_papers_sizes() -> None:
    totals = {name: sum(sizes.values()) for name, sizes in sets.SETS.items()}
    assert totals == {
        "train": 105_000, "structure": 13_080, "size-10000": 348, "size-15000": 116,
        "fully-privileged": 13_080, "uniform": 13_080, "structure-code": 13_080, "size-code": 464,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["structure", "size-10000", "size-15000", "size-code"])
def test_settings_are_represented_equally_and_half_is_privileged(name: str) -> None:
    start = 0
    for n, count in sets.SETS[name].items():
        examples = [sets.member(name, start + j, 0) for j in range(count)]
        by_setting = Counter((e.width, e.num_clauses) for e in examples)
        assert {e.num_vars for e in examples} == {n}
        assert set(by_setting) == set(settings(n))
        assert max(by_setting.values()) - min(by_setting.values()) <= 1
        privileged = sum(e.family == "privileged" for e in examples)
        assert abs(privileged - count / 2) < 5.2 * np.sqrt(count / 4)
        start += count


def test_examples_are_what_they_say_and_can_be_rebuilt_alone() -> None:
    for name in sets.SETS:
        if name.startswith("size"):
            continue
        what = sets.member(name, 5, 2)
        dnf = sets.draw(what)
        assert (dnf.num_vars, dnf.num_clauses, set(dnf.widths)) == (what.num_vars, what.num_clauses, {what.width})
        assert dnf == sets.draw(what) and dnf != sets.draw(what, seed=1)
        other = sets.draw(sets.member(name, 5, 0))
        np.testing.assert_allclose((other.prob + 0.5) % 1, dnf.prob)
    with pytest.raises(IndexError):
        sets.member("structure", 13_080, 0)


def test_subset_keeps_proportions_and_takes_a_formula_once() -> None:
    chosen = sets.subset("structure", 1308)
    assert abs(len(chosen) - 1308) <= 8
    assert len({e.index for e in chosen}) == len(chosen)
    by_n = Counter(e.num_vars for e in chosen)
    assert by_n[50] == 374 and by_n[5000] == 37
    assert {e.shift for e in chosen} == {0, 1, 2, 3}
    assert len(sets.subset("size-15000", None)) == 116
    assert len(sets.subset("size-10000", 29)) == 29
    few = sets.subset("size-15000", 10)
    assert len({e.width for e in few}) >= 5 and len({e.index for e in few}) == 10
    nearly_all = sets.subset("structure", 13_000)
    assert len({e.index for e in nearly_all}) == len(nearly_all)
    for size in (7, 100, 347):
        assert len({e.index for e in sets.subset("size-10000", size)}) == size
