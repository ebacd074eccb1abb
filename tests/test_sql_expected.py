"""Expected values are the means over all worlds, and say when time was up."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from sql_servers import Database
from sql_worlds import World, create, declared, played, random_world

import sharpdnf
from sharpdnf.dnf import Batch
from sharpdnf.errors import SQLError
from sharpdnf.sql import database as database_module
from sharpdnf.sql import expected
from sharpdnf.sql.counting import Counts, Options, count_with_progress

EXPECTED = [
    ("SELECT expected_count() FROM e", "SELECT count(*) FROM e", False),
    ("SELECT a, expected_count() FROM e GROUP BY a", "SELECT a, count(*) FROM e GROUP BY a", True),
    ("SELECT a, expected_sum(b) FROM e GROUP BY a", "SELECT a, coalesce(sum(b), 0) FROM e GROUP BY a", True),
    ("SELECT expected_count() FROM s JOIN e ON s.a = e.a", "SELECT count(*) FROM s JOIN e ON s.a = e.a", False),
    ("SELECT expected_count() FROM s WHERE EXISTS (SELECT 1 FROM e WHERE e.a = s.a) OR y = 1",
     "SELECT count(*) FROM s WHERE EXISTS (SELECT 1 FROM e WHERE e.a = s.a) OR y = 1", False),
    ("SELECT expected_count() FROM (SELECT DISTINCT a FROM e) d", "SELECT count(*) FROM (SELECT DISTINCT a FROM e) d",
     False),
    ("SELECT expected_count() FROM (SELECT b FROM e GROUP BY a, b) d",
     "SELECT count(*) FROM (SELECT b FROM e GROUP BY a, b) d", False),
    ("SELECT expected_sum(n) FROM (SELECT 7 AS n FROM e GROUP BY a, b UNION ALL SELECT y FROM s) d",
     "SELECT sum(n) FROM (SELECT 7 AS n FROM e GROUP BY a, b UNION ALL SELECT y FROM s) d", False),
    ("SELECT expected_count() FROM (SELECT DISTINCT a FROM e GROUP BY a, b) d",
     "SELECT count(*) FROM (SELECT DISTINCT a FROM e GROUP BY a, b) d", False),
    ("SELECT (a + b), expected_count() FROM e GROUP BY (a + b)", "SELECT a + b, count(*) FROM e GROUP BY a + b", True),
    ("SELECT E.a, expected_count() FROM e GROUP BY A", "SELECT a, count(*) FROM e GROUP BY a", True),
    ("SELECT expected_count() FROM (SELECT a FROM e UNION SELECT c FROM u) d",
     "SELECT count(*) FROM (SELECT a FROM e UNION SELECT c FROM u) d", False),
    ("SELECT expected_count() FROM (SELECT a FROM e UNION ALL SELECT c FROM u) d",
     "SELECT count(*) FROM (SELECT a FROM e UNION ALL SELECT c FROM u) d", False),
    ("SELECT expected_sum(d.a) FROM (SELECT a FROM e INTERSECT SELECT c FROM u) d",
     "SELECT coalesce(sum(d.a), 0) FROM (SELECT a FROM e INTERSECT SELECT c FROM u) d", False),
    ("SELECT x, expected_count() FROM r JOIN t ON r.x = t.y GROUP BY x",
     "SELECT x, count(*) FROM r JOIN t ON r.x = t.y GROUP BY x", True),
    ("SELECT expected_count() FROM e LEFT JOIN s ON e.a = s.a", "SELECT count(*) FROM e LEFT JOIN s ON e.a = s.a",
     False),
    ("SELECT expected_count() FROM (SELECT DISTINCT a FROM s) d JOIN e ON e.a = d.a",
     "SELECT count(*) FROM (SELECT DISTINCT a FROM s) d JOIN e ON e.a = d.a", False),
    ("SELECT expected_count() FROM (SELECT DISTINCT e.a FROM e JOIN s ON e.a = s.a UNION SELECT y FROM t) d",
     "SELECT count(*) FROM (SELECT DISTINCT e.a FROM e JOIN s ON e.a = s.a UNION SELECT y FROM t) d", False),
    ("WITH w AS (SELECT a, y FROM s) SELECT y, expected_count() FROM e JOIN w ON e.a = w.a WHERE b >= (SELECT min(y) "
     "FROM w) GROUP BY y",
     "WITH w AS (SELECT a, y FROM s) SELECT y, count(*) FROM e JOIN w ON e.a = w.a WHERE b >= (SELECT min(y) FROM w) "
     "GROUP BY y", True),
]  # fmt: skip


def world_means(database: Database, world: World, queries: list[str]) -> list[dict[Any, float]]:
    means: list[dict[Any, float]] = [defaultdict(float) for _ in queries]
    for weight in played(database, world):
        for mean, sql in zip(means, queries, strict=True):
            for *key, value in database.ask(sql):
                mean[key[0] if key else None] += weight * float(value)
    return means


@pytest.mark.parametrize(("kind", "seed"), [("duckdb", 0), ("sqlite", 1), ("sqlite", 5), ("postgres", 2)])
def test_expected_values_are_those_of_the_worlds(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    world = random_world(seed, 3)
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    create(database, world)
    found = declared(database, world)
    got = [found.sql(sql, guarantee="exact").arrow().to_pylist() for sql, _, _ in EXPECTED]
    want = world_means(database, world, [sql for _, sql, _ in EXPECTED])
    for (sql, _, grouped), rows, means in zip(EXPECTED, got, want, strict=True):
        values = {(next(iter(row.values())) if grouped else None): tuple(row.values())[int(grouped)] for row in rows}
        for key in {*values, *means}:
            assert values.get(key, 0.0) == pytest.approx(means.get(key, 0.0), abs=1e-9), (sql, key)


def test_expected_values_say_when_time_was_up(db: sharpdnf.ProbDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows that are added up, those from 1 did not make it. Rows with one reason need no counting."""
    counted = []
    several = "SELECT expected_count() FROM edge WHERE EXISTS (SELECT 1 FROM edge f WHERE f.src = edge.src)"

    def late(batch: Batch, options: Options) -> Counts:
        counted.append(len(batch))
        counts = count_with_progress(batch, options)
        counts.met[:2] = False
        return counts

    monkeypatch.setattr(expected, "count_with_progress", late)
    grouped = several.replace("SELECT expected", "SELECT src, expected") + " GROUP BY src ORDER BY src"
    assert db.sql(grouped).counts.met.tolist() == [False, True, True]
    assert not db.sql(several).met
    monkeypatch.setattr(database_module, "count_some", lambda batch, _, options: late(batch, options))
    assert db.sql(several).prob.tolist() == [1.0]
    assert counted == [2, 2, 2]  # its one answer is certain: nothing else is counted


def test_expected_values_that_are_refused(db: sharpdnf.ProbDB) -> None:
    for sql in (
        "SELECT src, expected_count() FROM edge",
        "SELECT expected_count() FROM edge GROUP BY src",
        "SELECT src + dst, expected_count() FROM edge GROUP BY src",
        "SELECT src % 2 AS src, expected_count() FROM edge GROUP BY src",
        "SELECT expected_count(), src FROM edge GROUP BY 1",
        "SELECT expected_count(DISTINCT src) FROM edge",
        "SELECT expected_count() + 1 FROM edge",
        "SELECT DISTINCT src, expected_count() FROM edge GROUP BY src",
        "SELECT expected_count() FROM edge HAVING prob() > 2",
        "SELECT expected_count() FROM edge ORDER BY prob() DESC LIMIT 0",
    ):
        with pytest.raises(SQLError):
            db.sql(sql)
