"""Test sets, labels and rows: the composition is the paper's, and every row can be rebuilt."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sharpdnf import generate
from sharpdnf.learn import composition


def test_sets_have_the_papers_sizes() -> None:
    totals = {name: sum(sizes.values()) for name, sizes in composition.SETS.items()}
    assert totals == {
        "train": 105_000, "structure": 13_080, "size-10000": 348, "size-15000": 116,
        "fully-privileged": 13_080, "uniform": 13_080,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["structure", "size-10000", "size-15000"])
def test_settings_are_represented_equally_and_half_is_privileged(name: str) -> None:
    start = 0
    for n, count in composition.SETS[name].items():
        examples = [composition.example(name, start + j, 0) for j in range(count)]
        by_setting = Counter((e.width, e.num_clauses) for e in examples)
        assert {e.num_vars for e in examples} == {n}
        assert set(by_setting) == set(generate.settings(n))
        assert max(by_setting.values()) - min(by_setting.values()) <= 1
        privileged = sum(e.family == "privileged" for e in examples)
        assert abs(privileged - count / 2) < 5.2 * np.sqrt(count / 4)
        start += count


def test_examples_are_what_they_say_and_can_be_rebuilt_alone() -> None:
    for name in composition.SETS:
        if name.startswith("size"):
            continue
        what = composition.example(name, 5, 2)
        dnf = composition.draw(what)
        assert (dnf.num_vars, dnf.num_clauses, set(dnf.widths)) == (what.num_vars, what.num_clauses, {what.width})
        assert dnf == composition.draw(what) and dnf != composition.draw(what, seed=1)
        other = composition.draw(composition.example(name, 5, 0))
        np.testing.assert_allclose((other.prob + 0.5) % 1, dnf.prob)
    with pytest.raises(IndexError):
        composition.example("structure", 13_080, 0)


def test_subset_keeps_proportions_and_takes_a_formula_once() -> None:
    chosen = composition.subset("structure", 1308)
    assert abs(len(chosen) - 1308) <= 8
    assert len({e.index for e in chosen}) == len(chosen)
    by_n = Counter(e.num_vars for e in chosen)
    assert by_n[50] == 374 and by_n[5000] == 37
    assert {e.shift for e in chosen} == {0, 1, 2, 3}
    assert len(composition.subset("size-15000", None)) == 116
    assert len(composition.subset("size-10000", 29)) == 29
