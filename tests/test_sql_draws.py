"""Which rows exist in which world: listed worlds against enumeration, drawn ones against their probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdnf.sql.worlds.draws import MOST_LISTED, make_choices

ROWS = np.array([7, 3, 5, 9, 4])
PROB = np.array([0.5, 0.25, 0.5, 1.0, 0.125])
BLOCK = np.array([-1, 0, 0, -1, -1])


def test_listed_worlds_are_all_worlds_with_their_weights() -> None:
    """Row 9 is certain; rows 3 and 5 exclude each other; so there are 2 (of 7) x 3 (of 3, 5) x 2 (of 4) worlds."""
    choices = make_choices(ROWS, PROB, BLOCK)
    assert choices.certain.tolist() == [9] and choices.num_worlds() == 12
    weight, present = choices.listed(0, 12)
    assert weight.sum() == pytest.approx(1.0) and len({tuple(world) for world in present.tolist()}) == 12
    place = {int(row): i for i, row in enumerate(choices.rows)}
    for row, p in zip(ROWS, PROB, strict=True):
        if row != 9:
            assert weight[present[:, place[int(row)]]].sum() == pytest.approx(p)
    assert not np.any(present[:, place[3]] & present[:, place[5]])
    both = present[:, place[7]] & present[:, place[3]]
    assert weight[both].sum() == pytest.approx(0.5 * 0.25)


def test_a_part_of_the_list_is_that_part() -> None:
    choices = make_choices(ROWS, PROB, BLOCK)
    weight, present = choices.listed(0, 12)
    some, rows = choices.listed(4, 9)
    assert some.tolist() == weight[4:9].tolist() and rows.tolist() == present[4:9].tolist()


def test_drawn_worlds_have_the_probabilities_of_the_rows() -> None:
    choices = make_choices(ROWS, PROB, BLOCK)
    present = choices.drawn(np.random.default_rng(1), 40_000)
    place = {int(row): i for i, row in enumerate(choices.rows)}
    for row, p in zip(ROWS, PROB, strict=True):
        if row != 9:  # six standard errors of a share
            assert present[:, place[int(row)]].mean() == pytest.approx(p, abs=6 * np.sqrt(p * (1 - p) / 40_000))
    assert not np.any(present[:, place[3]] & present[:, place[5]])


def test_a_block_that_adds_up_to_one_always_has_a_row() -> None:
    choices = make_choices(np.arange(3), np.array([0.1, 0.2, 0.7]), np.zeros(3, dtype=np.int64))
    assert choices.num_worlds() == 3
    assert choices.drawn(np.random.default_rng(2), 1000).sum(axis=1).tolist() == [1] * 1000


def test_too_many_worlds_are_one_number() -> None:
    many = np.arange(1000)
    assert make_choices(many, np.full(1000, 0.5), np.full(1000, -1)).num_worlds() == MOST_LISTED + 1
