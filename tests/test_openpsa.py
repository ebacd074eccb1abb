"""The Open-PSA reader: names, common causes, and files that are wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from faulttree_oracle import ask_anything, mutate, random_tree, to_xml
from openpsa_text import (
    DATA,
    EXAMPLE,
    GOOD,
    NOT_A,
    OR_AB,
    PARTS,
    A,
    T,
    chance,
    collect,
    component,
    event,
    event_tree,
    f,
    fork,
    gate,
    mef,
)

from sharpdnf import faulttree
from sharpdnf.errors import ParseError


def test_atleast_by_k_and_constants() -> None:
    three = "".join(f"<basic-event name='{name}'/>" for name in "abc")
    data = event("a", 0.5) + event("b", 0.5) + event("c", 0.5)
    assert chance(mef(gate("top", f"<atleast k='2'>{three}</atleast>"), data)) == 0.5
    assert chance(mef(gate("top", f"<atleast min='0'>{three}</atleast>"), data)) == 1.0
    assert chance(mef(gate("top", "<and><constant value='true'/><event name='a'/></and>"), data)) == 0.5
    assert chance(mef(gate("top", "<constant value='false'/>"))) == 0.0


def test_private_names_are_looked_up_from_the_inside() -> None:
    """Two components have an event x of their own; outside, paths tell them apart."""
    tree = (
        gate("top", "<or><gate name='A.g'/><gate name='FT.B.g'/><basic-event name='A.x'/></or>")
        + component("A' role='private", gate("g", "<basic-event name='x'/>") + event("x", 0.5))
        + component("B' role='private", gate("g", "<basic-event name='x'/>") + event("x", 0.25))
    )
    read = faulttree.reads(mef(tree))
    assert read.probability().prob == pytest.approx(1 - 0.5 * 0.75)
    assert {name for names in read.cut_sets().events for name in names} == {"FT.A.x", "FT.B.x"}
    outside = tree.replace("A.x", "x")
    with pytest.raises(ParseError, match="has no probability"):
        faulttree.reads(mef(outside)).probability()


def test_public_names_are_seen_everywhere() -> None:
    tree = gate("top", "<and><gate name='g1'/><basic-event name='b'/></and>") + component(
        "A", gate("g1", "<basic-event name='b'/>") + event("b", 0.5)
    )
    assert chance(mef(tree)) == 0.5


def test_several_files_are_one_model(tmp_path: Path) -> None:
    (tmp_path / "tree.xml").write_text(mef(gate("top", OR_AB)))
    (tmp_path / "data.xml").write_text(mef("", event("a", 0.5) + event("b", 0.5)))
    tree = faulttree.read(tmp_path / "tree.xml", tmp_path / "data.xml")
    assert tree.probability().prob == 0.75
    with pytest.raises(ParseError, match=r"tree.xml:3: the basic event 'a' has no probability"):
        faulttree.read(tmp_path / "tree.xml").probability()


def group(model: str, names: str, factors: dict[int, float], q: float = 0.1) -> str:
    members = "".join(f"<basic-event name='{name}'/>" for name in names)
    inside = "".join(f"<factor level='{k}'><float value='{v}'/></factor>" for k, v in factors.items())
    return (
        f"<define-CCF-group name='G' model='{model}'><members>{members}</members>"
        f"<distribution><float value='{q}'/></distribution><factors>{inside}</factors></define-CCF-group>"
    )


ALL_THREE = "<and>" + "".join(f"<event name='{name}'/>" for name in "abc") + "</and>"


def test_beta_factor_by_hand() -> None:
    both = "<and><event name='a'/><event name='b'/></and>"
    tree = faulttree.reads(mef(gate("top", both), rest=group("beta-factor", "ab", {2: 0.2})))
    assert tree.tops == ("top",)
    assert tree.probability().prob == pytest.approx(1 - (1 - 0.02) * (1 - 0.08**2))
    assert tree.cut_sets().events == [("[a b]",), ("[a]", "[b]")]


@pytest.mark.parametrize(
    ("model", "factors", "levels"),
    [
        ("MGL", {2: 0.2, 3: 0.5}, [0.8 * 0.1, 0.5 * 0.2 * 0.5 * 0.1, 0.2 * 0.5 * 0.1]),
        ("MGL", {2: 0.2}, [0.8 * 0.1, 0.5 * 0.2 * 0.1, 0.0]),
        ("alpha-factor", {1: 0.7, 2: 0.2, 3: 0.1}, [0.7 * 0.1 / 1.4, 0.2 * 0.1 / 1.4, 3 * 0.1 * 0.1 / 1.4]),
    ],
)
def test_multiple_common_causes_against_enumeration(model: str, factors: dict[int, float], levels: list[float]) -> None:
    tree = faulttree.reads(mef(gate("top", ALL_THREE), rest=group(model, "abc", factors)))
    sets = ["a", "b", "c", "ab", "ac", "bc", "abc"]
    total = 0.0
    for world in range(1 << len(sets)):
        on = [bool(world >> i & 1) for i in range(len(sets))]
        p = math.prod(levels[len(s) - 1] if x else 1 - levels[len(s) - 1] for s, x in zip(sets, on, strict=True))
        failed = {name for s, x in zip(sets, on, strict=True) if x for name in s}
        total += p * (failed == set("abc"))
    assert tree.probability().prob == pytest.approx(total, rel=1e-12)


FLOAT, EVENT = "<float value='0.1'/>", "<basic-event name='a'/>"


def before_data(element: str) -> str:
    return GOOD.replace("<model-data>", f"{element}<model-data>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("</or>", ""), r"<text>:\d: not XML: mismatched tag"),
        ("<scram/>", r"<text>:1: the root is <scram>, not <opsa-mef>"),
        ("<opsa-mef/>", r"<text>: no gate and no sequence"),
        (GOOD.replace("0.1", "0,1"), r"<text>:6: <float> needs value=, a finite number, not '0,1'"),
        (GOOD.replace("0.1", "nan"), r"<text>:6: <float> needs"),
        (GOOD.replace("0.1", "1e999"), r"<text>:6: <float> needs"),
        (GOOD.replace("0.1", "1_0"), r"<text>:6: <float> needs"),
        (GOOD.replace("0.1", "1.5"), r"<text>:6: the probability of 'a' must lie in \[0, 1\], not 1.5"),
        (GOOD.replace(FLOAT, ""), r"<text>:6: the basic event 'a' has no probability"),
        (GOOD.replace(FLOAT, f"<log>{f(-1)}</log>"), r"<text>:6: the probability of 'a' .* nan"),
        (GOOD.replace(FLOAT, f"<div>{f(1, 0)}</div>"), r"<text>:6: the probability of 'a' .* inf"),
        (GOOD.replace(FLOAT, T), r"<text>:6: the mission time is used here: give it"),
        (GOOD.replace(FLOAT, "<parameter name='p'/>"), r"<text>:6: parameter 'p' is not defined"),
        (GOOD.replace(FLOAT, f"<exponential>{f(1)}</exponential>"), r"<text>:6: <exponential> takes 2"),
        (GOOD.replace(FLOAT, "<extern-function name='x'/>"), r"<text>:6: .*<extern-function> is not supp"),
        (GOOD.replace(FLOAT, f"<periodic-test>{f(*[1] * 11)}</periodic-test>"), r":6: .*11 arguments is not"),
        (GOOD.replace(FLOAT, f"<lognormal-deviate>{f(1, 0.5, 0.95)}</lognormal-deviate>"), r":6: .*more than 1"),
        (GOOD.replace(FLOAT, f"<beta-deviate>{f(1, 0)}</beta-deviate>"), r":6: .*must be positive"),
        (GOOD.replace(EVENT, "<gate name='tap'/>"), r"<text>:3: gate 'tap' is not defined: did you mean"),
        (GOOD.replace(EVENT, "<event name='zzz'/>"), r"<text>:3: event 'zzz' is not defined"),
        (GOOD.replace(EVENT, "<gate name='a'/>"), r"<text>:3: 'a' is a basic-event, not a gate"),
        (GOOD.replace(EVENT, "<gate name='top'/>"), r"<text>:3: gates read each other in a cycle: top -> top"),
        (GOOD.replace(EVENT, "<inhibit/>"), r"<text>:3: <inhibit> is not a formula"),
        (GOOD.replace(EVENT, "<basic-event/>"), r"<text>:3: <basic-event> needs a name"),
        (GOOD.replace("<or>", "<not>").replace("</or>", "</not>"), r"<text>:3: <not> takes 1 argument, not 2"),
        (GOOD.replace("<or>", "<atleast min='3'>").replace("</or>", "</atleast>"), r"<text>:3: <atleast> of 2"),
        (GOOD.replace("<or>", "<atleast min='-1'>").replace("</or>", "</atleast>"), r"<text>:3: <atleast> needs min="),
        (GOOD.replace("<or>", "<atleast>").replace("</or>", "</atleast>"), r"<text>:3: <atleast> needs min="),
        (GOOD.replace("name='b'>", "name='a'>"), r"<text>:7: 'a' is defined already at <text>:6"),
        (before_data("<define-substitution name='s'/>"), r"<text>:5: <define-substitution> is not"),
        (before_data("<define-alignment name='s'/>"), r"<text>:5: <define-alignment> is not"),
        (before_data("<xi:include href='/etc/passwd'/>"), r"<text>:5: <xi:include> is not"),
        (before_data(group("phi-factor", "ab", {1: 1.0})), r":5: the common-cause model"),
        (before_data(group("MGL", "ab", {3: 0.1})), r":5: .*(of its own|level 2)"),
        (
            mef(gate("top", ALL_THREE), rest=group("MGL", "abc", {3: 0.1})),
            r":7: expected the factor of level 2, not of 3",
        ),
        (
            mef(gate("top", ALL_THREE), rest=group("MGL", "abc", {2: 0.1}) + group("MGL", "abd", {2: 0.1})),
            r":7: 'a' is in a",
        ),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        faulttree.reads(text).probability()


def test_mutated_files_never_crash() -> None:
    rng = np.random.default_rng(4)
    initial = fork("F", w=collect(NOT_A) + "<sequence name='ok'/>", f=collect(A) + "<sequence name='bad'/>")
    for good in (EXAMPLE.read_text(), mef(PARTS, DATA, event_tree(initial)), to_xml(random_tree(rng))):
        for _ in range(250):
            ask_anything(mutate(good.encode(), rng))


def test_swapped_elements_never_crash() -> None:
    """Mutations that stay well-formed get deeper: tags and values of the file change places."""
    rng = np.random.default_rng(6)
    good = EXAMPLE.read_text()
    words = [
        "or",
        "and",
        "not",
        "atleast min='1'",
        "float",
        "exponential",
        "define-gate",
        "basic-event",
        "lognormal-deviate",
    ]
    for _ in range(400):
        old, new = str(rng.choice(words)), str(rng.choice(words))
        ends = [f"</{word.split(maxsplit=1)[0]}>" for word in (old, new)]
        text = good.replace(f"<{old}", f"<{new}").replace(*ends)
        ask_anything(text.replace("1e-4", str(rng.choice(["-1", "0", "1e300", "1", "x", ""]))).encode())
