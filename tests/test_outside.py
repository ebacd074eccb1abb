"""Families that no network was trained on: formulas as they should be, and no interval for them."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdnf.learn.family import unlike_training
from sharpdnf.paper.outside import OUTSIDE, fault_trees, joins
from sharpdnf.paper.sets import draw, member, subset

pytest.importorskip("networkx")


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_interval_is_shown_for_other_families(name: str) -> None:
    members = subset(name, 40, seed=11)
    assert len(members) == 40 and members[3] == member(name, 3, 0, seed=11)
    formulas = [draw(one, 11) for one in members]
    assert all(dnf.num_clauses and dnf == draw(one, 11) for one, dnf in zip(members, formulas, strict=True))
    assert [dnf.num_vars for dnf in formulas] == [one.num_vars for one in members]
    assert all(unlike_training(dnf) for dnf in formulas)


def test_the_shapes_of_joins_and_fault_trees() -> None:
    rng = np.random.default_rng(0)
    join, tree = joins(rng), fault_trees(rng)
    assert set(join.widths.tolist()) == {3} and not (join.literals & 1).any()
    last = join.literals.reshape(-1, 3)[:, 2] >> 1
    assert len(set(last.tolist())) == join.num_clauses  # every pair of the join is a row of its own
    assert tree.widths.max() <= 3 and tree.prob.max() <= 0.2
