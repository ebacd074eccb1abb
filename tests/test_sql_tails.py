"""HAVING COUNT(*) >= k over independent rows, without a circuit: against the worlds, and against the circuit."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import counted_answers, create, declared, differences, expected_answers, random_world, refill

from sharpdnf.circuit import Circuit
from sharpdnf.sql import connect
from sharpdnf.sql.emit.tails import Tails

SHAPES = [
    ("SELECT a FROM e GROUP BY a HAVING count(*) >= 2", True),
    ("SELECT a FROM e GROUP BY a HAVING count(*) > 1", True),
    ("SELECT a FROM e GROUP BY a HAVING count(*) >= 1.5", True),
    ("SELECT a FROM e GROUP BY a HAVING 2 <= count(*)", True),
    ("SELECT a, 7 AS n FROM e WHERE b > 1 GROUP BY a HAVING count(*) >= 1", True),
    ("SELECT a FROM e GROUP BY a HAVING count(b) >= 2", True),
    ("SELECT e.b, s.y FROM e JOIN s ON e.a = s.a GROUP BY e.b, s.y HAVING count(*) >= 2", None),
    ("SELECT e.b FROM e JOIN s ON e.a = s.a GROUP BY e.b HAVING count(*) >= 2", None),
    ("SELECT x FROM r GROUP BY x HAVING count(*) >= 2", None),
    ("SELECT a FROM ve GROUP BY a HAVING count(*) >= 2", None),
    ("SELECT d.a FROM (SELECT DISTINCT a, b FROM e) AS d GROUP BY d.a HAVING count(*) >= 2", False),
    ("SELECT d.a FROM (SELECT a FROM e UNION ALL SELECT c FROM u) AS d GROUP BY d.a HAVING count(*) >= 2", None),
    ("SELECT a FROM e WHERE EXISTS (SELECT 1 FROM u WHERE u.a = e.a) GROUP BY a HAVING count(*) >= 2", False),
    ("SELECT a + 1 FROM e GROUP BY a HAVING count(*) >= 2", False),
    ("SELECT a FROM e GROUP BY a, b HAVING count(*) >= 2", False),
    ("SELECT a FROM e GROUP BY a HAVING count(*) <= 1", False),
    ("SELECT a FROM e GROUP BY a HAVING count(*) >= 0", False),
    ("SELECT a FROM e GROUP BY a HAVING count(DISTINCT b) >= 2", False),
    ("SELECT e.a FROM e JOIN u ON e.a = u.a GROUP BY e.a HAVING count(*) >= 2", False),
]
"""Queries, and whether their rows are counted without a circuit; None: that depends on the rows, or the database."""


@pytest.mark.parametrize("kind", BACKENDS)
def test_tails_are_what_the_worlds_say(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(1, 3)
    world.tables["e"].rows = [(i % 2, i % 3 or None) for i in range(5)]
    world.tables["e"].prob = [0.5, 0.25, 1.0, 0.9, 0.3]
    create(database, world)
    db = declared(database, world)
    truth = expected_answers(database, world, [sql for sql, _ in SHAPES])
    refill(database, world)
    for (sql, tailed), want in zip(SHAPES, truth, strict=True):
        for _ in range(3):  # planned, planned and kept, kept
            assert not differences(counted_answers(db, sql), want), sql
        answers = db.sql(sql)
        if tailed is not None and len(answers):
            assert isinstance(answers._formulas.batch, Tails) == tailed, sql
    database.close()


def test_the_circuit_of_a_tail_is_made_when_it_is_asked_for() -> None:
    database = Database("duckdb")
    world = random_world(1, 3)
    world.tables["e"].rows = [(1, 1), (1, 2), (1, 3), (2, 1)]
    world.tables["e"].prob = [0.5, 0.25, 0.75, 0.5]
    create(database, world)
    db = declared(database, world)
    answers = db.sql("SELECT a FROM e GROUP BY a HAVING count(*) >= 2 AND prob() > 0.1 ORDER BY prob() DESC LIMIT 1")
    assert answers.arrow().column("a").to_pylist() == [1]
    assert answers.prob[0] == pytest.approx(0.5 * 0.25 + 0.5 * 0.75 + 0.25 * 0.75 - 2 * 0.5 * 0.25 * 0.75)
    assert isinstance(answers.lineage(0), Circuit) and answers.lineage(0).num_vars == 3
    assert len(answers.explain(0)) == 3
    assert answers.what_if(0)({0: 0.0}).prob == pytest.approx(0.25 * 0.75)
    database.run("INSERT INTO e VALUES (2, 5, 0.5)")
    assert len(db.sql("SELECT a FROM e GROUP BY a HAVING count(*) >= 2")) == 2
    database.close()


def test_many_groups() -> None:
    """Against the distribution of each group, folded row by row."""
    database = Database("duckdb")
    database.run("CREATE TABLE t AS SELECT (range * 7919) % 211 AS g, (range % 97) / 100.0 AS p FROM range(4000)")
    db = connect(database.connection)
    db.uncertain("t", prob="p")
    answers = db.sql("SELECT g FROM t GROUP BY g HAVING count(*) >= 9 ORDER BY g")
    assert len(answers) == 211 and set(answers.counts.guarantee) == {"exact"}
    group, prob = np.arange(4000) * 7919 % 211, np.arange(4000) % 97 / 100.0
    for g in range(211):
        law = reduce(np.convolve, [np.array([1.0 - p, p]) for p in prob[group == g]])
        assert answers.prob[g] == pytest.approx(law[9:].sum(), rel=1e-9)
    database.close()
