"""What-if of one answer, with blocks and negation, against asking the changed tables anew and against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import sharpdnf  # noqa: E402
from sharpdnf.errors import SQLError  # noqa: E402

EDGES = {"src": [1, 2, 1, 3, 2], "dst": [2, 3, 3, 4, 4], "p": [0.5, 0.25, 0.125, 0.8, 0.3]}
READS = {"k": ["a", "a", "a", "b", "b"], "v": [1, 2, 3, 1, 3], "q": [0.2, 0.3, 0.4, 0.6, 0.1]}
POSITIVE = "SELECT e.dst FROM edge e JOIN reading r ON r.v = e.src GROUP BY e.dst"
NEGATED = "SELECT DISTINCT e.src FROM edge e WHERE NOT EXISTS (SELECT 1 FROM reading r WHERE r.v = e.src)"


def database(p: list[float], q: list[float]) -> sharpdnf.ProbDB:
    db = sharpdnf.connect()
    db.register("edge", pa.table({**EDGES, "p": p}), prob="p")
    db.register("reading", pa.table({**READS, "q": q}), prob="q", block="k")
    return db


def worlds(p: list[float], q: list[float]) -> Any:
    """(edges, readings that are there, probability) of every world."""
    blocks = [[None, 0, 1, 2], [None, 3, 4]]
    for there in itertools.product([False, True], repeat=5):
        edge = np.prod([x if t else 1 - x for x, t in zip(p, there, strict=True)])
        for chosen in itertools.product(*blocks):
            reading = np.prod(
                [1 - sum(q[r] for r in rows[1:]) if c is None else q[c] for c, rows in zip(chosen, blocks, strict=True)]
            )
            yield [i for i in range(5) if there[i]], [c for c in chosen if c is not None], float(edge * reading)


def holds(query: str, answer: int, edges: list[int], readings: list[int]) -> bool:
    values = {READS["v"][r] for r in readings}
    if query == POSITIVE:
        return any(EDGES["dst"][e] == answer and EDGES["src"][e] in values for e in edges)
    return any(EDGES["src"][e] == answer for e in edges) and answer not in values


@pytest.mark.parametrize("query", [POSITIVE, NEGATED])
def test_changed_probabilities_and_influences_by_enumeration(query: str) -> None:
    p, q = list(EDGES["p"]), list(READS["q"])
    with database(p, q) as db:
        answers = db.sql(query, guarantee="exact")
        for index in range(len(answers)):
            answer = int(next(iter(answers[index].values())))
            what_if = answers.what_if(index)
            assert what_if.exact
            # Rows are numbered table by table: 0 to 4 are edges, 5 to 9 readings.
            for change in ({}, {0: 1.0}, {1: 0.0, 4: 0.9}, {5: 0.05, 7: 0.65}, {8: 0.9}, {5: 0.0, 6: 0.0, 7: 1.0}):
                prob = np.array([*p, *q])
                prob[list(change)] = list(change.values())
                expected = total(query, answer, prob)
                assert what_if(change).prob == pytest.approx(expected, abs=1e-12)
            found = dict(zip(what_if.rows.tolist(), what_if.influences().values.tolist(), strict=True))
            for row, influence in found.items():
                assert influence == pytest.approx(difference(query, answer, np.array([*p, *q]), row), abs=1e-9)


def total(query: str, answer: int, prob: Any) -> float:
    found = worlds(prob[:5].tolist(), prob[5:].tolist())
    return sum(weight for edges, readings, weight in found if holds(query, answer, edges, readings))


def difference(query: str, answer: int, prob: Any, row: int) -> float:
    """P(answer | row) - P(answer | no row), from the worlds with it and without."""
    found, weight = [0.0, 0.0], [0.0, 0.0]
    for edges, readings, p in worlds(prob[:5].tolist(), prob[5:].tolist()):
        there = row in edges if row < 5 else row - 5 in readings
        weight[there] += p
        found[there] += p * holds(query, answer, edges, readings)
    return found[True] / weight[True] - found[False] / weight[False]


def test_what_cannot_be_is_an_error() -> None:
    with database(list(EDGES["p"]), list(READS["q"])) as db:
        what_if = db.sql(POSITIVE).what_if(0)
        with pytest.raises(SQLError, match=r"add up to 1\.2"):
            what_if({5: 0.5})
        with pytest.raises(SQLError, match="no uncertain row"):
            what_if({10: 0.5})
        with pytest.raises(SQLError, match="does not lie"):
            what_if({0: 1.5})
        with pytest.raises(SQLError, match="lineage of their own"):
            db.sql("SELECT count(*) AS n FROM edge").what_if(0)
        with pytest.raises(IndexError):
            db.sql(POSITIVE).what_if(99)


def test_clauses_are_rows() -> None:
    with database(list(EDGES["p"]), list(READS["q"])) as db:
        answers = db.sql("SELECT a.src FROM edge a JOIN edge b ON a.dst = b.src WHERE a.src = 1")
        assert sorted(answers.clause_rows(0, 10) or []) == [[0, 1], [0, 4], [2, 3]]
        assert len(answers.clause_rows(0, 2) or []) == 2
        assert db.sql(NEGATED).clause_rows(0, 5) is None
