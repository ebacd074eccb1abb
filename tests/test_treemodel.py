"""A fault-tree model as a circuit: cycles, depth, house events, and nothing half made."""

from __future__ import annotations

import pytest
from openpsa_text import GOOD, chance, event, gate, mef

from sharpdnf import faulttree
from sharpdnf.errors import InvalidFormula, ParseError
from sharpdnf.fronts.faulttree import FaultTree


def test_house_events_are_false_unless_said() -> None:
    data = event("a", 0.5) + "<define-house-event name='h'/>"
    assert chance(mef(gate("top", "<or><house-event name='h'/><event name='a'/></or>"), data)) == 0.5


def test_gates_that_read_each_other_in_a_cycle_are_an_error() -> None:
    ring = "".join(
        gate(f"g{i}", f"<or><gate name='g{(i + 1) % 2000}'/><basic-event name='a'/></or>") for i in range(2000)
    )
    with pytest.raises(ParseError, match=r"<text>:\d+: gates read each other in a cycle: g0 -> g1"):
        faulttree.reads(mef(ring, event("a", 0.1)))


def test_a_chain_of_gates_is_as_deep_as_it_likes() -> None:
    tree = "".join(gate(f"g{i}", f"<or><gate name='g{i + 1}'/><basic-event name='a'/></or>") for i in range(5000))
    assert chance(mef(tree + gate("g5000", "<basic-event name='b'/>"), event("a", 0.5) + event("b", 0.5))) == 0.75


def test_a_tree_is_not_half_made() -> None:
    with pytest.raises(InvalidFormula):
        FaultTree(faulttree.reads(GOOD).model, {"c": 0.1})
