"""Fault trees as text: mistakes say where, and mutated text never crashes."""

from __future__ import annotations

import numpy as np
import pytest
from faulttree_oracle import (
    ask_anything,
    mutate,
    random_tree,
    to_aralia,
)  # fmt: skip

from sharpdnf import faulttree
from sharpdnf.errors import ParseError


def test_lists_of_cut_sets() -> None:
    text = "# three ways\npump valve\n{power}\na, 1b-2  # with a digit\np(pump) = 0.1\np(valve)=.2\np(power) = 1e-2\n"
    tree = faulttree.reads(text + "p(a) = 0.5\np(1b-2) = 0.5\n")
    assert tree.probability().prob == pytest.approx(1.0 - 0.98 * 0.99 * 0.75)
    given = faulttree.reads("x y\nz", prob={"x": 0.5, "y": 0.5, "z": 0.1})
    assert given.probability().prob == pytest.approx(1.0 - 0.75 * 0.9)
    with pytest.raises(ParseError, match=r"<text>:2: the event 'c' has no probability"):
        faulttree.reads("a b\nc\np(a) = 0.1\np(b) = 0.1")
    with pytest.raises(ParseError, match=r"<text>: no cut set"):
        faulttree.reads("# nothing")
    with pytest.raises(ParseError, match=r"<text>:1: expected the name of an event, not 'a|b'"):
        faulttree.reads("a|b c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("top := a &\np(a) = 0.1", r"<text>:2: expected .*before '\('|<text>:2"),
        ("top := (a", r"<text>:1: expected \) before 'the end of the file'"),
        ("top := a\ntop := b", r"<text>:2: the gate 'top' is defined already at <text>:1"),
        ("top := a\np(a) = 2", r"<text>:2: the probability of 'a' must lie in \[0, 1\], not 2"),
        ("top := a\np(a) = x", r"<text>:2: expected a number before 'x'"),
        ("top := @(4, [a, b])", r"<text>:1: of 2 events there cannot be between 4 and 2"),
        ("top := a\n\nx := y & z\ny := x | b", r"<text>:\d: gates read each other in a cycle: x -> y -> x"),
        ("top := top", r"<text>:1: gates read each other in a cycle: top -> top"),
        ("top := a\np(a) = 0.1\np(a) = 0.2", r"<text>:3: 'a' has a value already"),
        ("top := a\np(top) = 0.1", r"<text>:2: 'top' is a gate"),
        ("top := a\ns(h) = maybe", r"<text>:2: a house event is true or false"),
        ("top := a => b => c", r"<text>:1: a => b => c is not clear"),
        ("top := a $ b", r"<text>:1: unexpected '\$'"),
        ("top := " + "(" * 5000 + "a" + ")" * 5000, r"<text>:1: brackets are nested more than"),
        ("top := " + "~" * 5000 + "a", r"<text>:1: brackets are nested more than"),
        ("top := " + "a" * 10**6, r"<text>:1: a name or number of 1000000 characters"),
    ],
)
def test_bad_aralia(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        tree = faulttree.reads(text)
        tree.probability(tree.tops[0])
    assert error.value.line > 0
    assert len(str(error.value)) < 1000


def test_mutated_text_never_crashes() -> None:
    rng = np.random.default_rng(5)
    good = to_aralia(random_tree(rng, num_events=5))
    for _ in range(400):
        ask_anything(mutate(good.encode(), rng))
