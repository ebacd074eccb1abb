"""Fault trees: hand-worked numbers, enumeration over random trees, importance, cut sets, uncertainty, the command."""

from __future__ import annotations

import doctest
import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from faulttree_oracle import (
    COHERENT,
    minimal,
    probability,
    random_tree,
    to_aralia,
    to_xml,
    worlds,
)  # fmt: skip

import sharpdnf
from sharpdnf import faulttree
from sharpdnf.errors import InvalidFormula, ParseError

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "pumping.xml"
PUMP = 1.0 - math.exp(-0.1)
TRAIN = 1.0 - (1.0 - PUMP) * 0.98
NO_WATER = 1.0 - (1.0 - TRAIN**2) * 0.999


def test_the_example_by_hand() -> None:
    tree = faulttree.read(EXAMPLE)
    assert tree.tops == ("no-water",)
    found = tree.probability(mission_time=1000)
    assert found.guarantee == "exact"
    assert found.prob == pytest.approx(NO_WATER, rel=1e-12)
    sets = tree.cut_sets(mission_time=1000)
    assert sets.events[0] == ("pump-1", "pump-2")
    assert (sets.total, sets.order, sets.complete) == (5, [2, 2, 2, 1, 2], True)
    by_hand = [PUMP**2, PUMP * 0.02, PUMP * 0.02, 0.001, 0.0004]
    assert sets.prob == pytest.approx(by_hand, rel=1e-12)
    assert sets.share == pytest.approx(np.array(by_hand) / NO_WATER, rel=1e-12)
    assert sets.rare_event == pytest.approx(sum(by_hand), rel=1e-12)
    assert sets.mcub == pytest.approx(1.0 - math.prod(1.0 - p for p in by_hand), rel=1e-12)


def test_the_documents_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(ROOT / "docs" / "faulttrees.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_modules_own_example() -> None:
    assert doctest.testmod(faulttree).failed == 0


def test_other_guarantees() -> None:
    tree = faulttree.read(EXAMPLE)
    for guarantee in ("relative", "additive", "bounds"):
        found = tree.probability(mission_time=1000, guarantee=guarantee, epsilon=0.1, delta=1e-6, rng=1)
        assert found.met
        assert found.lower <= NO_WATER <= found.upper
    sampled = tree.probability(mission_time=1000, guarantee="relative", engine="sampling", delta=1e-6, rng=1)
    assert sampled.prob == pytest.approx(NO_WATER, rel=0.1)


def test_one_compilation_serves_every_time() -> None:
    """At time 0 no pump fails: what is compiled then must still know the pumps."""
    tree = faulttree.read(EXAMPLE)
    at_start = dict(zip(*(tree.importance(mission_time=0)[key] for key in ("event", "birnbaum")), strict=True))
    assert at_start["pump-1"] == pytest.approx(0.98 * 0.02 * 0.999, rel=1e-12)
    later = dict(zip(*(tree.importance(mission_time=1000)[key] for key in ("event", "birnbaum")), strict=True))
    assert later["pump-1"] == pytest.approx(0.98 * TRAIN * 0.999, rel=1e-12)


@pytest.mark.parametrize("seed", range(200))
def test_both_formats_against_enumeration(seed: int) -> None:
    tree = random_tree(np.random.default_rng([seed, 1]))
    expected = probability(tree)
    for text in (to_xml(tree), to_aralia(tree)):
        read = faulttree.reads(text)
        assert tree.top in read.tops
        assert read.probability(tree.top).prob == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_importance_against_enumeration(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    tree = random_tree(rng, COHERENT if seed % 2 else ("and", "or", "not", "xor", "atleast"), 6)
    read = faulttree.reads(to_xml(tree))
    table = read.importance(tree.top)
    q = probability(tree)
    for i, event in enumerate(table["event"]):
        p, with_it, without = tree.prob[event], probability(tree, {event: True}), probability(tree, {event: False})
        assert table["birnbaum"][i] == pytest.approx(with_it - without, rel=1e-9, abs=1e-12)
        if q == 0.0:
            assert math.isnan(table["raw"][i])
            continue
        assert table["criticality"][i] == pytest.approx(p * (with_it - without) / q, rel=1e-9, abs=1e-12)
        assert table["raw"][i] == pytest.approx(with_it / q, rel=1e-9, abs=1e-12)
        assert table["rrw"][i] == pytest.approx(q / without if without else math.inf, rel=1e-9)
        if table["fussell_vesely_by"][i] != "cut sets":
            assert seed % 2 == 0
            assert table["fussell_vesely"][i] == pytest.approx(1.0 - without / q, rel=1e-9, abs=1e-9)
            continue
        holding = [s for s in minimal(tree) if event in s]
        union = math.fsum(w for world, w in worlds(tree) if any(all(world[e] for e in s) for s in holding))
        assert table["fussell_vesely"][i] == pytest.approx(union / q, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_cut_sets_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    tree = random_tree(rng, COHERENT)
    read = faulttree.reads(to_aralia(tree))
    expected = minimal(tree)
    chance = {s: math.prod(tree.prob[e] for e in s) for s in expected}
    found = read.cut_sets(top=tree.top)
    assert {frozenset(names) for names in found.events} == expected
    assert found.total == len(found) == len(expected)
    order, cutoff = int(rng.integers(1, 4)), float(rng.uniform(0.0, 0.3))
    some = read.cut_sets(order, cutoff, top=tree.top)
    wanted = {s for s in expected if len(s) <= order and chance[s] >= cutoff}
    assert {frozenset(names) for names in some.events} == wanted
    q = probability(tree)
    if q > 0.0:
        shares = [chance[frozenset(names)] / q for names in found.events]
        assert found.share == pytest.approx(np.minimum(shares, 1.0), rel=1e-9)
        assert found.rare_event >= q * (1.0 - 1e-9)
        assert found.mcub is not None
        assert q <= found.mcub * (1.0 + 1e-9) <= found.rare_event * (1.0 + 1e-8)


def test_risk_reduction_of_a_single_point_of_failure() -> None:
    """1e-12 is lost in 0.1 (1 - 1) if it is found by subtraction: Q / P0 must still have its digits."""
    tree = faulttree.reads("top := a | (b & c)\np(a) = 0.1\np(b) = 1e-9\np(c) = 1e-9")
    table = tree.importance()
    assert table["event"][0] == "a"
    assert table["rrw"][0] == pytest.approx((0.1 + 0.9e-18) / 1e-18, rel=1e-9)


def voting_tree(width: int, depth: int, p: float) -> str:
    """Two of ``width`` parts fail, each of which fails if two of its parts do, and so on."""
    lines, below = [], [f"e{i}" for i in range(width**depth)]
    lines += [f"p({name}) = {p}" for name in below]
    for level in range(depth):
        above = [f"g{level}_{i}" for i in range(len(below) // width)]
        for i, name in enumerate(above):
            lines.append(f"{name} := @(2, [{', '.join(below[i * width : (i + 1) * width])}])")
        below = above
    return "\n".join(lines)


def test_ten_million_cut_sets_are_not_expanded() -> None:
    """Nested two of five: 10, then 10 * 10^2, 10 * 1000^2, 10 * (10^7)^2 cut sets; the chance is a recursion."""
    for depth, total in ((3, 10**7), (4, 10**15)):
        tree = faulttree.reads(voting_tree(5, depth, 0.1))
        q = 0.1
        for _ in range(depth):
            q = 1.0 - (1.0 - q) ** 5 - 5.0 * q * (1.0 - q) ** 4
        found = tree.probability(timeout=120)
        assert found.guarantee == "exact"
        assert found.prob == pytest.approx(q, rel=1e-9)
        sets = tree.cut_sets(limit=5, timeout=120)
        assert sets.total == total
        assert sets.prob == pytest.approx([0.1 ** (2**depth)] * 5, rel=1e-9)
        assert sets.rare_event == pytest.approx(total * 0.1 ** (2**depth), rel=1e-9)
        table = tree.importance(timeout=120)
        assert len(table["event"]) == 5**depth
        assert set(table["fussell_vesely_by"]) == {"1 - P0/Q"}
        assert np.allclose(table["birnbaum"], table["birnbaum"][0], rtol=1e-9)


def test_several_tops() -> None:
    tree = faulttree.reads("a := x & y\nb := x | y\np(x) = 0.5\np(y) = 0.25")
    assert tree.tops == ("a", "b")
    assert tree.probability("b").prob == pytest.approx(0.625)
    with pytest.raises(InvalidFormula, match=r"2 tops: choose with top=, of a, b"):
        tree.probability()
    with pytest.raises(InvalidFormula, match="did you mean"):
        faulttree.reads("first := x\np(x) = 0.1").probability("frst")


def test_an_event_in_its_own_gate_twice_counts_once() -> None:
    tree = faulttree.reads("top := (x & x) | (x & y)\np(x) = 0.5\np(y) = 0.25")
    assert tree.cut_sets().events == [("x",)]


def test_probabilities_may_be_given_and_replaced() -> None:
    text = "top := x & y\np(x) = 0.5"
    assert faulttree.reads(text, prob={"y": 0.5}).probability().prob == pytest.approx(0.25)
    assert faulttree.reads(text, prob={"y": 0.5, "x": 1.0}).probability().prob == pytest.approx(0.5)
    with pytest.raises(InvalidFormula, match="no basic event is named 'z'"):
        faulttree.reads(text, prob={"z": 0.5})
    with pytest.raises(InvalidFormula, match=r"must lie in \[0, 1\]"):
        faulttree.reads(text, prob={"y": 1.5})


def test_without_probabilities_there_are_cut_sets_still() -> None:
    tree = faulttree.reads("top := (x & y & w) | (z & w)")
    sets = tree.cut_sets()
    assert sets.events == [("w", "z"), ("x", "y", "w")] or [set(s) for s in sets.events] == [
        {"z", "w"},
        {"x", "y", "w"},
    ]
    assert math.isnan(sets.rare_event)
    with pytest.raises(ParseError, match=r"<text>:1: the basic event '\w' has no probability"):
        tree.probability()
    with pytest.raises(ParseError, match="has no probability"):
        tree.cut_sets(cutoff=0.1)


def test_what_is_not_coherent_is_refused_by_name() -> None:
    tree = faulttree.reads("top := a |\n (b ^ c)\np(a) = 0.1\np(b) = 0.1\np(c) = 0.1")
    with pytest.raises(InvalidFormula, match=r"not coherent \(<xor> at <text>:2\)"):
        tree.cut_sets()
    assert tree.probability().prob == pytest.approx(1.0 - 0.9 * (1.0 - 0.18))


def test_gzipped_files(tmp_path: Path) -> None:
    packed = tmp_path / "tree.xml.gz"
    packed.write_bytes(gzip.compress(EXAMPLE.read_bytes()))
    assert faulttree.read(packed).probability(mission_time=1000).prob == pytest.approx(NO_WATER)
    packed.write_bytes(gzip.compress(EXAMPLE.read_bytes())[:200])
    with pytest.raises(ParseError, match="not a whole gzip file"):
        faulttree.read(packed)


def test_the_front_is_found_lazily() -> None:
    assert sharpdnf.faulttree is faulttree


def test_uncertainty_of_shared_parameters() -> None:
    """Two events with one uniform parameter u are both u: E[u^2] = 1/3, where independent draws would give 1/4."""
    deviate = "<uniform-deviate><float value='0'/><float value='1'/></uniform-deviate>"
    shared = model(
        "<and><basic-event name='a'/><basic-event name='b'/></and>",
        f"<define-parameter name='u'>{deviate}</define-parameter>"
        "<define-basic-event name='a'><parameter name='u'/></define-basic-event>"
        "<define-basic-event name='b'><parameter name='u'/></define-basic-event>",
    )
    found = faulttree.reads(shared).uncertainty(20_000, rng=1)
    assert found.mean == pytest.approx(1 / 3, abs=6 * found.std_error)
    assert found.sd == pytest.approx(math.sqrt(1 / 5 - 1 / 9), rel=0.05)
    assert found.quantiles[0.5] == pytest.approx(0.25, abs=0.02)
    assert found.clipped == 0
    apart = shared.replace("<parameter name='u'/>", deviate)
    own = faulttree.reads(apart).uncertainty(20_000, rng=1)
    assert own.mean == pytest.approx(1 / 4, abs=6 * own.std_error)
    again = faulttree.reads(apart).uncertainty(20_000, rng=own.seed)
    assert np.array_equal(again.values, own.values)


@pytest.mark.parametrize(
    ("deviate", "mean", "median"),
    [
        ("<lognormal-deviate>{0.01}{3}{0.95}</lognormal-deviate>", 0.01, 0.01 * math.exp(-0.5 * 0.667904**2)),
        ("<lognormal-deviate>{-5}{0.5}</lognormal-deviate>", math.exp(-5 + 0.125), math.exp(-5)),
        ("<beta-deviate>{2}{6}</beta-deviate>", 0.25, 0.2285),
        ("<gamma-deviate>{2}{0.05}</gamma-deviate>", 0.1, 0.0839),
        ("<normal-deviate>{0.3}{0.02}</normal-deviate>", 0.3, 0.3),
        ("<histogram>{0}<bin>{1}{0.1}</bin><bin>{4}{0.5}</bin></histogram>", 0.4, 0.5),
    ],
)
def test_distributions(deviate: str, mean: float, median: float) -> None:
    """The value without drawing is the mean; the draws have that mean and the right median."""
    for number in ("0.01", "3", "0.95", "-5", "0.5", "2", "6", "0.05", "0.3", "0.02", "0", "1", "0.1", "4"):
        deviate = deviate.replace(f"{{{number}}}", f"<float value='{number}'/>")
    text = model("<basic-event name='a'/>", f"<define-basic-event name='a'>{deviate}</define-basic-event>")
    tree = faulttree.reads(text)
    assert tree.probability().prob == pytest.approx(mean, rel=1e-12)
    found = tree.uncertainty(40_000, rng=2)
    assert found.mean == pytest.approx(mean, abs=6 * found.std_error)
    assert found.quantiles[0.5] == pytest.approx(median, rel=0.03)


def test_draws_outside_are_counted() -> None:
    deviate = "<normal-deviate><float value='0.01'/><float value='0.01'/></normal-deviate>"
    tree = faulttree.reads(
        model("<basic-event name='a'/>", f"<define-basic-event name='a'>{deviate}</define-basic-event>")
    )
    found = tree.uncertainty(1000, rng=1)
    assert 100 < found.clipped < 220  # a sixth lies below 0
    assert found.values.min() == 0.0


def test_uncertainty_needs_a_distribution() -> None:
    with pytest.raises(InvalidFormula, match="no basic event below 'top' has a distribution"):
        faulttree.reads("top := a\np(a) = 0.1").uncertainty()


def model(top: str, data: str) -> str:
    gate = f"<define-fault-tree name='T'><define-gate name='top'>{top}</define-gate></define-fault-tree>"
    return f"<opsa-mef>{gate}<model-data>{data}</model-data></opsa-mef>"
