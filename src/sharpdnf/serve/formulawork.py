"""Questions about one formula: its probability, its variables given that it holds, which of them matter, what if."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from sharpdnf.analysis import posterior
from sharpdnf.circuit import Circuit
from sharpdnf.circuit_formats import from_json, from_nnf
from sharpdnf.dnf import DNF
from sharpdnf.engines.front import count
from sharpdnf.errors import InvalidFormula, LimitError, NotMetWarning, did_you_mean
from sharpdnf.formats import READ_DIALECTS, reads
from sharpdnf.sensitivity import influence
from sharpdnf.serve.asked import Fields
from sharpdnf.serve.plain import numbers
from sharpdnf.serve.rounds import Watcher, estimate_json, shrinking
from sharpdnf.sql.lineage_picture import to_svg

FORMATS = ("auto", "text", "dnf", *READ_DIALECTS, "json", "circuit", "nnf")
MOST_VARIABLES = 10_000
"""How many variables an answer about each of them lists at most, the most influential first."""


def answer(what: str, text: str, asked: dict[str, Any], watcher: Watcher | None) -> dict[str, Any]:
    """What is asked about the formula in ``text``."""
    request = Fields(asked)
    formula = read_formula(text, request.choice("format", FORMATS, "auto"), request.probabilities("probabilities"))
    promise = request.promise()
    if what == "whatif":
        formula = changed(formula, request.probabilities("prob"))
    if what in ("count", "whatif"):
        return estimate_json(shrinking(lambda **options: count(formula, **options), promise, watcher))
    return _of_variables(formula, what, promise)


def read_formula(text: str, form: str, probabilities: dict[str, float]) -> DNF | Circuit:
    """The formula in any format that the library reads; ``auto`` goes by how the text begins."""
    if form == "auto":
        form = guess(text)
    formula: DNF | Circuit
    if form == "text":
        return Circuit.parse(text, probabilities or None)
    if form in ("json", "circuit"):
        formula = from_json(text)
    elif form == "nnf":
        formula = from_nnf(text)
    else:
        formula = reads(text, None if form == "dnf" else form)
    return changed(formula, probabilities)


def guess(text: str) -> str:
    """The format of a text: circuit JSON, a d-DNNF, DIMACS lines, or a formula as people write it."""
    start = text.lstrip()[:2000]
    if start.startswith("{"):
        return "json"
    lines = [line.split() for line in start.splitlines() if line.strip()]
    words = [line[0] for line in lines if line[0] != "c"]
    if words[:1] == ["nnf"] or (words[:1] and words[0] in ("o", "a", "t", "f") and len(lines[0]) == 3):
        return "nnf"
    header = any(line[0] == "p" and len(line) == 4 for line in lines)
    return "dnf" if header or (lines and not words) else "text"


def changed(formula: DNF | Circuit, prob: dict[str, float]) -> DNF | Circuit:
    """The formula with other probabilities of some variables, by name or by 1-based number."""
    if not prob:
        return formula
    names = _names(formula)
    place = {name: v for v, name in enumerate(names)}
    values = formula.prob.copy()
    for name, p in prob.items():
        if name in place:
            values[place[name]] = p
        elif formula.names is None and name.isdecimal() and 1 <= int(name) <= formula.num_vars:
            values[int(name) - 1] = p
        else:
            raise InvalidFormula(f"no variable is called {name!r:.80}{did_you_mean(name, names[:10_000])}")
    if isinstance(formula, Circuit):
        return formula.with_prob(values)
    return replace(formula, prob=values)


def _names(formula: DNF | Circuit) -> list[str]:
    return list(formula.names) if formula.names is not None else [f"x{v + 1}" for v in range(formula.num_vars)]


def _of_variables(formula: DNF | Circuit, what: str, promise: dict[str, Any]) -> dict[str, Any]:
    """Posterior and influence of every variable; ``explain`` has the most influential first, and a picture."""
    options = {name: promise[name] for name in ("delta", "rng", "timeout", "threads")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotMetWarning)
        after = posterior(formula, **options)
        found = influence(formula, **options)
    order = np.argsort(-np.abs(found.values), kind="stable")[:MOST_VARIABLES]
    if what == "marginals":
        order = np.sort(order)
    names = _names(formula)
    columns = [numbers(column[order]) for column in (formula.prob, after.prob, found.values, found.lower, found.upper)]
    keys = ("prob", "posterior", "influence", "influence_low", "influence_high")
    variables = [
        {"name": names[v], **dict(zip(keys, values, strict=True))}
        for v, values in zip(order.tolist(), zip(*columns, strict=True), strict=True)
    ]
    said = {
        "variables": variables,
        "total": formula.num_vars,
        "prob": math.exp(after.log_prob),
        "exact": after.exact and bool((found.stderr == 0.0).all()),
        "met": after.met and found.met,
    }
    return said if what == "marginals" else {**said, "svg": _picture(formula, math.exp(after.log_prob))}


def _picture(formula: DNF | Circuit, prob: float) -> str | None:
    """None where a picture could not be read."""
    try:
        return to_svg(formula, f"P = {prob:.4g}")
    except LimitError:
        return None
