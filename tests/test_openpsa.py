"""The Open-PSA reader: names, expressions, common causes, event trees; and files that are wrong, or meant to harm."""

from __future__ import annotations

import itertools
import math
import time
from pathlib import Path

import numpy as np
import pytest
from faulttree_oracle import ask_anything, mutate, random_tree, to_xml

from sharpdnf import faulttree
from sharpdnf.errors import InvalidFormula, ParseError
from sharpdnf.fronts import safexml
from sharpdnf.fronts.faulttree import FaultTree

EXAMPLE = Path(__file__).parent.parent / "examples" / "pumping.xml"
OR_AB = "<or><basic-event name='a'/><basic-event name='b'/></or>"


def event(name: str, p: float | str) -> str:
    chance = p if isinstance(p, str) else f"<float value='{p}'/>"
    return f"<define-basic-event name='{name}'>{chance}</define-basic-event>\n"


def gate(name: str, formula: str) -> str:
    return f"<define-gate name='{name}'>{formula}</define-gate>\n"


def component(name: str, inside: str) -> str:
    return f"<define-component name='{name}'>{inside}</define-component>"


def mef(tree: str = "", data: str = "", rest: str = "") -> str:
    inside = f"<define-fault-tree name='FT'>\n{tree}</define-fault-tree>\n" if tree else ""
    return f"<opsa-mef>\n{inside}<model-data>\n{data}</model-data>\n{rest}</opsa-mef>"


def value_of(expression: str, mission_time: float | None = None, data: str = "") -> float:
    """The number that an expression stands for, as the probability of an event."""
    tree = faulttree.reads(mef(gate("top", "<basic-event name='a'/>"), event("a", expression) + data))
    return tree.probability(mission_time=mission_time).prob


def f(*values: float) -> str:
    return "".join(f"<float value='{value}'/>" for value in values)


T = "<system-mission-time/>"


# --- expressions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"<exponential>{f(1e-3)}{T}</exponential>", 1 - math.exp(-0.1)),
        (f"<GLM>{f(0.1, 1e-3, 2e-3)}{T}</GLM>", 1 / 3 - (1e-3 - 0.1 * 3e-3) / 3e-3 * math.exp(-0.3)),
        (f"<GLM>{f(0.1, 0, 0)}{T}</GLM>", 0.1),
        (f"<Weibull>{f(200, 2, 20)}{T}</Weibull>", 1 - math.exp(-(0.4**2))),
        (f"<Weibull>{f(200, 2, 120)}{T}</Weibull>", 0.0),
        (f"<periodic-test>{f(1e-3, 30, 0)}{T}</periodic-test>", 1 - math.exp(-0.01)),
        (f"<periodic-test>{f(1e-3, 25, 0)}{T}</periodic-test>", 1 - math.exp(-0.025)),
        (f"<periodic-test>{f(1e-3, 1e300, 30, 0)}{T}</periodic-test>", 1 - math.exp(-0.01)),
        (f"<periodic-test>{f(1e-3, 0, 30, 5)}{T}</periodic-test>", 1 - math.exp(-0.1)),
        (f"<periodic-test>{f(1e-3, 10, 200)}{T}</periodic-test>", 1 - math.exp(-0.1)),
        (f"<sub>{f(1)}<exp><mul><neg>{f(1e-3)}</neg>{T}</mul></exp></sub>", 1 - math.exp(-0.1)),
        (f"<div>{f(1, 2, 2)}</div>", 0.25),
        (f"<pow>{f(0.5, 3)}</pow>", 0.125),
        (f"<sqrt>{f(0.25)}</sqrt>", 0.5),
        (f"<min>{f(0.5, 0.2, 0.7)}</min>", 0.2),
        (f"<max>{f(0.5, 0.2, 0.7)}</max>", 0.7),
        (f"<mean>{f(0.5, 0.2, 0.8)}</mean>", 0.5),
        (f"<add>{f(0.5, 0.2)}</add>", 0.7),
        (f"<mod>{f(1.3, 0.5)}</mod>", 0.3),
        (f"<abs>{f(-0.3)}</abs>", 0.3),
        (f"<log10>{f(2)}</log10>", math.log10(2)),
        ("<sin><div><pi/><int value='6'/></div></sin>", 0.5),
        (f"<ite><lt>{T}{f(50)}</lt>{f(0.1, 0.2)}</ite>", 0.2),
        (
            f"<switch><case><gt>{T}{f(50)}</gt>{f(0.1)}</case><case><bool value='1'/>{f(0.3)}</case>{f(0.2)}</switch>",
            0.1,
        ),
        (f"<ite><and><bool value='true'/><not><eq>{f(1, 1)}</eq></not></and>{f(0.1, 0.2)}</ite>", 0.2),
        ("<bool value='true'/>", 1.0),
        ("<int value='1'/>", 1.0),
    ],
)
def test_expressions(expression: str, expected: float) -> None:
    assert value_of(expression, 100.0) == pytest.approx(expected, rel=1e-12)


def test_periodic_tests_with_repair_against_small_steps() -> None:
    """Working, failed and in repair, followed hour by hour in small steps."""
    rate, repair, tau, theta, t = 7e-4, 4e-4, 120.0, 300.0, 1000.0
    working, failed, mending, steps = 1.0, 0.0, 0.0, 100
    for hour in range(int(t)):
        if hour >= theta and (hour - theta) % tau == 0:
            failed, mending = 0.0, mending + failed
        for _ in range(steps):
            fails, mended = working * rate / steps, mending * repair / steps
            working, failed, mending = working - fails + mended, failed + fails, mending - mended
    found = value_of(f"<periodic-test>{f(rate, repair, tau, theta)}{T}</periodic-test>", t)
    assert found == pytest.approx(1.0 - working, rel=1e-4)


def test_parameters() -> None:
    chain = "".join(
        f"<define-parameter name='p{i}'><parameter name='p{i + 1}'/></define-parameter>" for i in range(3000)
    )
    data = chain + "<define-parameter name='p3000'><float value='0.25'/></define-parameter>"
    assert value_of("<parameter name='p0'/>", None, data) == 0.25
    unit = "<define-parameter name='r' unit='years-1'><float value='0.25'/></define-parameter>"
    tree = faulttree.reads(mef(gate("top", "<basic-event name='a'/>"), event("a", "<parameter name='r'/>") + unit))
    assert tree.notes == ("the unit 'years-1' of parameter 'r' is not converted",)


# --- formulas and names ---------------------------------------------------------------------------------------------


def chance(text: str, top: str | None = None) -> float:
    return faulttree.reads(text).probability(top).prob


def test_atleast_by_k_and_constants() -> None:
    three = "".join(f"<basic-event name='{name}'/>" for name in "abc")
    data = event("a", 0.5) + event("b", 0.5) + event("c", 0.5)
    assert chance(mef(gate("top", f"<atleast k='2'>{three}</atleast>"), data)) == 0.5
    assert chance(mef(gate("top", f"<atleast min='0'>{three}</atleast>"), data)) == 1.0
    assert chance(mef(gate("top", "<and><constant value='true'/><event name='a'/></and>"), data)) == 0.5
    assert chance(mef(gate("top", "<constant value='false'/>"))) == 0.0


def test_house_events_are_false_unless_said() -> None:
    data = event("a", 0.5) + "<define-house-event name='h'/>"
    assert chance(mef(gate("top", "<or><house-event name='h'/><event name='a'/></or>"), data)) == 0.5


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


# --- common causes --------------------------------------------------------------------------------------------------


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


# --- event trees ----------------------------------------------------------------------------------------------------


def fork(name: str, **paths: str) -> str:
    inside = "".join(f"<path state='{state}'>{body}</path>\n" for state, body in paths.items())
    return f"<fork functional-event='{name}'>{inside}</fork>"


def event_tree(initial: str, start: str = "", sequences: str = "", more: str = "") -> str:
    sequences = sequences or "<define-sequence name='ok'/><define-sequence name='bad'/>"
    return (
        f"<define-initiating-event name='I' event-tree='E'>{start}</define-initiating-event>\n"
        "<define-event-tree name='E'>"
        "<define-functional-event name='F'/><define-functional-event name='G'/>"
        f"{sequences}{more}"
        f"<initial-state>{initial}</initial-state></define-event-tree>\n"
    )


def collect(formula: str) -> str:
    return f"<collect-formula>{formula}</collect-formula>"


NOT_A, A, B, NOT_B = (
    "<not><gate name='ga'/></not>", "<gate name='ga'/>", "<gate name='gb'/>", "<not><gate name='gb'/></not>",
)  # fmt: skip
PARTS = gate("ga", "<or><basic-event name='a'/><basic-event name='c'/></or>") + gate(
    "gb", "<or><basic-event name='b'/><basic-event name='c'/></or>"
)
DATA = event("a", 0.1) + event("b", 0.2) + event("c", 0.05)


def sequences(text: str) -> dict[str, float]:
    table = faulttree.reads(text).sequences()
    return dict(zip(table["sequence"], table["prob"].tolist(), strict=True))


def test_sequences_share_events() -> None:
    """The trees share c: bad is both fail, 1 - P(ok) is either."""
    inner = fork("G", works=collect(NOT_B) + "<sequence name='ok'/>", fails=collect(B) + "<sequence name='bad'/>")
    initial = fork("F", works=collect(NOT_A) + "<sequence name='ok'/>", fails=collect(A) + inner)
    found = sequences(mef(PARTS, DATA, event_tree(initial)))
    both = 0.05 + 0.95 * 0.1 * 0.2
    assert found == pytest.approx({"ok": 1 - both, "bad": both}, rel=1e-12)


def test_branches_rules_and_frequency() -> None:
    last = fork("G", w=collect(NOT_B) + "<sequence name='ok'/>", f="<rule name='r'/><sequence name='bad'/>")
    more = f"<define-branch name='last'>{last}</define-branch>"
    initial = fork("F", w="<branch name='last'/>", f=collect(A) + "<branch name='last'/>")
    rule = f"<define-rule name='r'><block>{collect(B)}</block></define-rule>"
    text = mef(PARTS, DATA, event_tree(initial, "<float value='0.5'/>", more=more) + rule)
    table = faulttree.reads(text).sequences()
    assert table["prob"].tolist() == pytest.approx([0.8 * 0.95, 1 - 0.8 * 0.95], rel=1e-12)
    assert table["frequency"].tolist() == pytest.approx([0.4 * 0.95, 0.5 - 0.4 * 0.95], rel=1e-12)


def test_house_events_set_on_the_way() -> None:
    parts = gate("g", "<and><house-event name='h'/><basic-event name='a'/></and>")
    flip = "<set-house-event name='h'><constant value='true'/></set-house-event>"
    g = collect("<gate name='g'/>")
    initial = fork("F", w=g + "<sequence name='ok'/>", f=flip + g + "<sequence name='bad'/>")
    data = event("a", 0.25) + "<define-house-event name='h'><constant value='false'/></define-house-event>"
    assert sequences(mef(parts, data, event_tree(initial))) == {"ok": 0.0, "bad": 0.25}


def test_collected_expressions_add_up() -> None:
    def x(p: float, end: str) -> str:
        return f"<collect-expression><float value='{p}'/></collect-expression>{end}"

    inner = fork("G", w=x(0.25, "<sequence name='ok'/>"), f=x(0.75, "<sequence name='bad'/>"))
    initial = fork("F", w=x(0.9, "<sequence name='ok'/>"), f=x(0.1, inner))
    assert sequences(mef("", "", event_tree(initial))) == pytest.approx({"ok": 0.925, "bad": 0.075})


def test_links_between_event_trees() -> None:
    other = (
        "<define-event-tree name='E2'><define-functional-event name='G'/><define-sequence name='end'/>"
        f"<initial-state>{collect(B)}<sequence name='end'/></initial-state></define-event-tree>"
    )
    ends = "<define-sequence name='ok'/><define-sequence name='go'><event-tree name='E2'/></define-sequence>"
    initial = fork("F", w=collect(NOT_A) + "<sequence name='ok'/>", f=collect(A) + "<sequence name='go'/>")
    found = sequences(mef(PARTS, DATA, event_tree(initial, sequences=ends) + other))
    assert found == pytest.approx({"ok": 0.9 * 0.95, "end": 0.05 + 0.95 * 0.02})


# --- wrong files ----------------------------------------------------------------------------------------------------

GOOD = mef(gate("top", OR_AB), event("a", 0.1) + event("b", 0.1))
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


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ("<branch name='none'/>", "the branch 'none' is not defined"),
        ("<sequence name='none'/>", "the sequence 'none' is not defined"),
        (fork("H", w="<sequence name='ok'/>"), "the functional event 'H' is not defined"),
        ("<rule name='none'/><sequence name='ok'/>", "the rule 'none' is not defined"),
        ("<if><bool value='true'/></if><sequence name='ok'/>", "the instruction <if> of event trees is not supported"),
        (collect(A), "expected <fork>, <sequence> or <branch>"),
        ("", "leads nowhere"),
        ("<set-house-event name='a'><bool value='true'/></set-house-event><sequence name='ok'/>", "'a' is not a house"),
        (f"<collect-expression>{f(1)}</collect-expression>{collect(A)}<sequence name='ok'/>", "mixes"),
    ],
)
def test_errors_in_event_trees(initial: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        faulttree.reads(mef(PARTS, DATA, event_tree(initial)))
    assert error.value.line > 0


def test_cycles() -> None:
    parameters = "".join(
        f"<define-parameter name='{a}'><parameter name='{b}'/></define-parameter>\n" for a, b in ("pq", "qr", "rp")
    )
    with pytest.raises(ParseError, match=r"<text>:\d+: the parameter '\w' is defined by itself"):
        faulttree.reads(mef(gate("top", "<basic-event name='a'/>"), event("a", "<parameter name='p'/>") + parameters))
    ring = "".join(
        gate(f"g{i}", f"<or><gate name='g{(i + 1) % 2000}'/><basic-event name='a'/></or>") for i in range(2000)
    )
    with pytest.raises(ParseError, match=r"<text>:\d+: gates read each other in a cycle: g0 -> g1"):
        faulttree.reads(mef(ring, event("a", 0.1)))
    branch = "<define-branch name='b'><branch name='b'/></define-branch>"
    with pytest.raises(ParseError, match="branches form a cycle"):
        faulttree.reads(mef(PARTS, DATA, event_tree("<branch name='b'/>", more=branch)))
    rule = "<define-rule name='r'><rule name='r'/></define-rule>"
    with pytest.raises(ParseError, match="rules form a cycle"):
        faulttree.reads(mef(PARTS, DATA, event_tree("<rule name='r'/><sequence name='ok'/>") + rule))


def test_a_chain_of_gates_is_as_deep_as_it_likes() -> None:
    tree = "".join(gate(f"g{i}", f"<or><gate name='g{i + 1}'/><basic-event name='a'/></or>") for i in range(5000))
    assert chance(mef(tree + gate("g5000", "<basic-event name='b'/>"), event("a", 0.5) + event("b", 0.5))) == 0.75


# --- meant to harm --------------------------------------------------------------------------------------------------


def refused(text: str | bytes, message: str) -> None:
    started = time.monotonic()
    with pytest.raises(ParseError, match=message) as error:
        faulttree.reads(text)
    assert error.value.line > 0
    assert len(str(error.value)) < 1000
    assert time.monotonic() - started < 10.0


def test_entity_bombs_are_refused_before_they_grow() -> None:
    names = "abcdefghij"
    inside = "".join(f"<!ENTITY {y} '" + f"&{x};" * 10 + "'>" for x, y in itertools.pairwise(names))
    bomb = f"<!DOCTYPE opsa-mef [<!ENTITY a 'ha'>{inside}]>\n<opsa-mef>&j;</opsa-mef>"
    refused(bomb, "a document type with declarations")
    refused('<!DOCTYPE opsa-mef SYSTEM "file:///etc/passwd"><opsa-mef/>', "a document type with declarations")
    refused("<opsa-mef>&x;</opsa-mef>", "<text>:1: not XML: undefined entity")
    assert chance("<!DOCTYPE opsa-mef>" + GOOD) == pytest.approx(0.19)


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(GOOD.replace("'a'", f"'{'a' * 10**6}'"), r"<text>:3: a name or value of 1000000 characters")
    refused(f"<opsa-mef><{'a' * 10**6}/></opsa-mef>", r"<text>:1: a name or value of 1000000 characters")
    refused(GOOD.replace("<or>", "<or>" * 5000).replace("</or>", "</or>" * 5000), r"<text>:3: elements are nested more")
    many = " ".join(f"a{i}='1'" for i in range(100))
    refused(f"<opsa-mef {many}/>", "more than 32 attributes")
    refused(f"<opsa-mef><label>{'x' * (2 << 20)}</label></opsa-mef>", "characters of text in <label>")
    monkeypatch.setattr(safexml, "MAX_ELEMENTS", 5)
    refused(GOOD, "more than 5 elements")


def test_unknown_encodings() -> None:
    refused(b"<?xml version='1.0' encoding='klingon'?><opsa-mef/>", "not XML")
    refused(b"<opsa-mef>\xff\xfe</opsa-mef>", "not XML")
    assert chance(GOOD.encode("utf-16").decode("utf-16")) == pytest.approx(0.19)
    assert faulttree.reads(GOOD.encode("utf-16")).probability().prob == pytest.approx(0.19)


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


def test_a_tree_is_not_half_made() -> None:
    with pytest.raises(InvalidFormula):
        FaultTree(faulttree.reads(GOOD).model, {"c": 0.1})
