"""Gates grown by whole arrays: constants are folded away as they are added."""

from __future__ import annotations

import numpy as np

from sharpdnf.circuit import AND, OR
from sharpdnf.sql.emit.gates import Gates


def test_constants_are_folded() -> None:
    gates = Gates(2)
    false, true = gates.false, gates.true
    assert gates.both([np.array([0, 0, 0]), np.array([true, false, 0])]).tolist() == [0, false, 0]
    assert gates.both([np.array([0, 0, 0]), np.array([true, false, 0])], OR).tolist() == [true, 0, 0]
    assert gates.negate(np.array([true, false])).tolist() == [false, true]
    assert gates.all_of(np.array([0, 0]), np.zeros(0, np.int64)).tolist() == [true] and not gates.layers
    assert gates.both([np.array([0]), np.array([1])], AND).tolist() == [4]
