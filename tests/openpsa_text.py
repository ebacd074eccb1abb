"""Pieces of Open-PSA models as text: the tests of the readers put their files together from these."""

from __future__ import annotations

from pathlib import Path

from sharpdnf import faulttree

EXAMPLE = Path(__file__).parent.parent / "examples" / "pumping.xml"
OR_AB = "<or><basic-event name='a'/><basic-event name='b'/></or>"
T = "<system-mission-time/>"


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


def f(*values: float) -> str:
    return "".join(f"<float value='{value}'/>" for value in values)


def chance(text: str, top: str | None = None) -> float:
    return faulttree.reads(text).probability(top).prob


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
GOOD = mef(gate("top", OR_AB), event("a", 0.1) + event("b", 0.1))
