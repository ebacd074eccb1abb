"""Importance from samples against that from a backward pass."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdnf import faulttree
from sharpdnf.errors import LimitError
from sharpdnf.fronts import faulttree as front

TREE = "top := (pump & valve) | power | (~pump & fuse)\np(pump) = 0.3\np(valve) = 0.2\np(power) = 0.05\np(fuse) = 0.1"


def test_sampled_importance_is_within_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = faulttree.reads(TREE).importance()
    assert not exact["error"].any()
    monkeypatch.setattr(front, "compile_circuit", lambda circuit, limit: None)
    sampled = faulttree.reads(TREE).importance(rng=3)
    place = {event: i for i, event in enumerate(exact["event"])}
    for i, event in enumerate(sampled["event"]):
        j = place[event]
        assert sampled["error"][i] > 0.0
        assert sampled["criticality"][i] == pytest.approx(exact["criticality"][j], abs=5 * sampled["error"][i])
        slack = 5 * sampled["error"][i]
        p = sampled["prob"][i]
        assert sampled["raw"][i] == pytest.approx(exact["raw"][j], abs=slack * (1 - p) / p)
        assert 1 / sampled["rrw"][i] == pytest.approx(1 / exact["rrw"][j], abs=slack)
        assert sampled["birnbaum"][i] == pytest.approx(exact["birnbaum"][j], abs=0.05)
    assert set(sampled["fussell_vesely_by"]) == {"1 - P0/Q"}


def test_a_top_event_that_never_happens_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "compile_circuit", lambda circuit, limit: None)
    text = "top := " + " & ".join(f"(a{i} | b{i})" for i in range(30))
    tree = faulttree.reads(text, prob={f"{x}{i}": 1e-9 for x in "ab" for i in range(30)})
    with pytest.raises(LimitError):
        tree.importance(timeout=0.2, rng=1)


def test_sampled_importance_of_the_same_seed_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "compile_circuit", lambda circuit, limit: None)
    one, two = (faulttree.reads(TREE).importance(rng=5) for _ in range(2))
    assert all(np.array_equal(one[key], two[key]) for key in one)
