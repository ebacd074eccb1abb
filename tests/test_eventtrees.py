"""Event trees of the Open-PSA format: what sequences come to, and what is wrong with a file."""

from __future__ import annotations

import pytest
from openpsa_text import DATA, NOT_A, NOT_B, PARTS, A, B, collect, event, event_tree, f, fork, gate, mef

from sharpdnf import faulttree
from sharpdnf.errors import ParseError


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


def test_cycles_of_branches_and_of_rules_are_errors() -> None:
    branch = "<define-branch name='b'><branch name='b'/></define-branch>"
    with pytest.raises(ParseError, match="branches form a cycle"):
        faulttree.reads(mef(PARTS, DATA, event_tree("<branch name='b'/>", more=branch)))
    rule = "<define-rule name='r'><rule name='r'/></define-rule>"
    with pytest.raises(ParseError, match="rules form a cycle"):
        faulttree.reads(mef(PARTS, DATA, event_tree("<rule name='r'/><sequence name='ok'/>") + rule))
