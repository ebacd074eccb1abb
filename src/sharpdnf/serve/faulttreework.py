"""Questions about a fault tree: the top event, its cut sets, what contributes, and its gates for a picture."""

from __future__ import annotations

from typing import Any

from sharpdnf.errors import InvalidFormula, LimitError, ParseError
from sharpdnf.fronts import faulttree as front
from sharpdnf.fronts.treemodel import TreeFormula, in_order
from sharpdnf.serve.asked import Fields
from sharpdnf.serve.plain import number
from sharpdnf.serve.rounds import Watcher, estimate_json, shrinking

FORMATS = ("auto", "openpsa", "aralia", "cutsets")
LISTED = 200
"""How many cut sets are listed."""
MEASURES = ("birnbaum", "criticality", "fussell_vesely", "raw", "rrw")


def answer(text: str, asked: dict[str, Any], watcher: Watcher | None) -> dict[str, Any]:
    """What is asked about the tree in ``text``."""
    request = Fields(asked)
    form, mission_time = request.choice("format", FORMATS, "auto"), request.number("mission_time")
    if (form == "openpsa") != text.lstrip("\ufeff \t\r\n").startswith("<") and form != "auto":
        raise ParseError(f"this does not look like {form}: choose another format")
    tree = front.reads(text, request.probabilities("prob"))
    promise = {**request.promise(), "guarantee": request.fields.get("guarantee") or "exact"}
    top = request.text("top")
    found = shrinking(lambda **options: tree.probability(top, mission_time, **options), promise, watcher)
    seconds, notes = promise["timeout"], list(tree.notes)
    table = tree.importance(top, mission_time, seconds, rng=promise["rng"])
    events = [
        {"name": name, "prob": number(prob), **{m: number(table[m][i]) for m in MEASURES}}
        for i, (name, prob) in enumerate(zip(table["event"], table["prob"], strict=True))
    ]
    cuts: list[dict[str, Any]] = []
    total = None
    try:
        sets = tree.cut_sets(limit=LISTED, top=top, mission_time=mission_time, timeout=seconds)
        total = sets.total
        for names, prob, share in zip(sets.events, sets.prob, sets.share, strict=True):
            cuts.append({"events": list(names), "prob": number(prob), "share": number(share)})
    except (InvalidFormula, LimitError) as error:
        notes.append(str(error))
    name = top or (tree.tops or tree.sequence_names)[0]
    said = {"top": name, "tops": list(tree.tops), **estimate_json(found), "events": events, "cut_sets": cuts}
    return {**said, "cut_sets_total": total, "gates": _gates(tree, name), "notes": notes}


def _gates(tree: front.FaultTree, top: str) -> list[dict[str, Any]]:
    """The gates below the top, it first; a formula inside another one is a gate of its own."""
    if top not in tree.model.gates:
        return []
    out: list[dict[str, Any]] = []
    for name in reversed(in_order(tree.model.gates, [top])):
        _add(out, name, tree.model.gates[name].formula)
    return out


def _add(out: list[dict[str, Any]], name: str, formula: TreeFormula) -> None:
    if formula.kind == "event":
        formula = TreeFormula("same", formula.place, (formula,))
    gate: dict[str, Any] = {"name": name, "type": formula.kind, "k": formula.low or None, "inputs": []}
    out.append(gate)
    for place, inner in enumerate(formula.args, 1):
        below = inner.name if inner.kind == "event" else f"{name}/{place}"
        gate["inputs"].append(below)
        if inner.kind != "event":
            _add(out, below, inner)
