"""Lineage as JSON, as DOT and as SVG: every row and gate of it, and names that are text whatever they hold."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from oracle import enumerate_prob

import sharpdnf
from sharpdnf import DNF, Circuit, count


def share(circuit: Circuit, v: int, measure: str) -> float:
    """By the definition, from the truth of the circuit in every world."""
    n, total = circuit.num_vars, 0.0
    for others in itertools.product((0.0, 1.0), repeat=n - 1):
        worlds = [np.array([*others[:v], bit, *others[v:]]) for bit in (0.0, 1.0)]
        low, high = (float(count(replace(circuit, prob=world), guarantee="exact").prob) for world in worlds)
        size = int(sum(others))
        p = np.delete(circuit.prob, v)
        weight = {
            "influence": float(np.prod(np.where(np.array(others) == 1.0, p, 1.0 - p))),
            "banzhaf": 0.5 ** (n - 1),
            "shapley": math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n),
        }[measure]
        total += weight * (high - low)
    return total


def test_lineage_as_json_and_as_pictures(db: sharpdnf.ProbDB) -> None:
    answers = db.sql(
        "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src WHERE e.src = 1", guarantee="exact"
    )
    said = json.loads(answers.lineage_json(0))
    dnf = answers.lineage(0)
    assert said["answer"] == {"src": 1} and said["prob"] == answers.prob[0]
    assert [row["name"] for row in said["rows"]] == list(dnf.names or ())
    again = DNF.from_clauses(
        [[(-1 if lit["negated"] else 1) * (lit["row"] + 1) for lit in clause] for clause in said["clauses"]],
        [row["prob"] for row in said["rows"]],
    )
    assert enumerate_prob(again) == pytest.approx(answers.prob[0])
    root = ElementTree.fromstring(answers.lineage_svg(0))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("and") == dnf.num_clauses and all(any(n in str(t) for t in texts) for n in dnf.names or ())
    dot = answers.lineage_dot(0)
    assert dot.startswith("digraph") and dot.count("n0 -> ") == dnf.num_clauses
    assert dot.count(" -> ") == dnf.num_clauses + len(dnf.literals)


def test_reasons_and_pictures_of_a_lineage_that_negates(db: sharpdnf.ProbDB) -> None:
    """Of the row (1, x) and a row whose absence it needs."""
    answers = db.sql("SELECT src, dst FROM edge e WHERE NOT EXISTS (SELECT 1 FROM edge f WHERE f.src = e.dst)",
                     guarantee="exact")  # fmt: skip
    for i in range(len(answers)):
        circuit = answers.lineage(i)
        assert isinstance(circuit, Circuit)
        for measure in ("influence", "banzhaf", "shapley"):
            reasons = answers.explain(i, top=10, measure=measure)
            want = {}
            for v, name in enumerate(circuit.names or ()):
                want[name] = share(circuit, v, measure)
            assert {reason.row: reason.influence for reason in reasons} == pytest.approx(want)
        said = json.loads(answers.lineage_json(i))
        assert said["gates"][said["output"]]["gate"] in ("and", "row", "or", "not")
        dashed = answers.lineage_dot(i).count("style=dashed")
        assert answers.lineage_svg(i).count("stroke-dasharray") == dashed
        assert (dashed > 0) == any(reason.influence < 0 for reason in answers.explain(i, top=10))


def test_names_in_pictures_are_text() -> None:
    db = sharpdnf.connect()
    db.register("t", {"x": ['<b>"&\\'], "p": [0.5]}, prob="p")
    answers = db.sql("SELECT x FROM t")
    assert '<b>"&' in "".join(ElementTree.fromstring(answers.lineage_svg(0)).itertext())
    assert '\\"&' in answers.lineage_dot(0)
