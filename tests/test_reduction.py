"""Reductions: fewer links, the same reliability and the same derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdnf.fronts.reduction import Reduction, products_of_others, reduce_network


def reduced(links: list[tuple[int, int]], terminals: set[int], fails: dict[int, bool] | None = None) -> Reduction:
    n = 1 + max(v for link in links for v in link)
    tail, head = (np.array([link[i] for link in links], dtype=np.int32) for i in (0, 1))
    can_fail = np.array([bool((fails or {}).get(v)) for v in range(n)])
    return reduce_network(tail, head, np.ones(len(links), dtype=bool), can_fail, terminals)


def test_a_chain_is_cut_into_its_links() -> None:
    out = reduced([(0, 1), (1, 2), (2, 3)], {0, 3})
    assert [len(block.links) for block in out.blocks] == [1, 1, 1] and not out.impossible
    assert sorted(variable for block in out.blocks for *_, variable in block.links) == [0, 1, 2]


def test_what_hangs_off_the_way_is_left_out() -> None:
    """Links 2 and 3 lead nowhere: no terminal is behind node 1 on their side."""
    out = reduced([(0, 1), (1, 2), (1, 3), (3, 4)], {0, 2})
    assert sorted(variable for block in out.blocks for *_, variable in block.links) == [0, 1]


def test_a_ring_between_two_terminals_becomes_one_link() -> None:
    out = reduced([(0, 1), (1, 2), (2, 3), (3, 0)], {0, 2}, {1: True})
    assert [len(block.links) for block in out.blocks] == [1]
    values = out.values(np.array([0.9, 0.8, 0.7, 0.6, 1.0, 0.5, 1.0, 1.0]))
    variable = out.blocks[0].links[0][2]
    assert values.up[variable] == pytest.approx(1.0 - (1.0 - 0.9 * 0.8 * 0.5) * (1.0 - 0.7 * 0.6))
    slope = np.zeros(len(values.up))
    slope[variable] = 1.0
    assert out.push_back(values, slope)[0] == pytest.approx(0.8 * 0.5 * (1.0 - 0.42))


def test_terminals_and_the_nodes_between_blocks_are_needed() -> None:
    out = reduced([(0, 1), (1, 2)], {0, 2}, {0: True, 1: True, 2: True})
    assert out.needed == [2 + 0, 2 + 1, 2 + 2]


def test_terminals_apart_are_impossible() -> None:
    assert reduced([(0, 1), (2, 3)], {0, 3}).impossible


def test_links_side_by_side_keep_the_digits_of_their_failure() -> None:
    out = reduced([(0, 1)] * 4, {0, 1})
    values = out.values(np.append(np.full(4, 1.0 - 2.0**-30), np.ones(2)))
    variable = out.blocks[0].links[0][2]
    assert values.down[variable] == pytest.approx(2.0**-120, rel=1e-12) and values.up[variable] == 1.0


def test_links_in_series_keep_the_digits_of_their_failure() -> None:
    out = Reduction(2, 0)
    made = out.make(True, [0, 1])
    assert out.values(np.array([1.0 - 2.0**-50, 1.0 - 2.0**-52])).down[made] == pytest.approx(5.0 * 2.0**-52, rel=1e-12)


def test_products_of_others_divide_by_nothing() -> None:
    assert products_of_others(np.array([2.0, 0.0, 5.0])).tolist() == [0.0, 10.0, 0.0]
    assert products_of_others(np.array([3.0])).tolist() == [1.0] and len(products_of_others(np.ones(0))) == 0
