"""Rows that WHERE leaves out are in no world: more queries are exact, and the answers stay those of the worlds."""

from __future__ import annotations

import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import Table, World, create, declared, differences, expected_answers, plain, random_world

import sharpdnf

SHAPES = [
    "SELECT a, row_number() OVER (ORDER BY a, b) AS n FROM e WHERE b > 1 AND a IS NOT NULL",
    "SELECT a, count(*) OVER () AS n FROM e x WHERE x.b = 2 OR x.b IS NULL",
    "SELECT s.a, count(*) OVER () AS n FROM s JOIN e ON e.a = s.a WHERE e.b IN (1, 2) AND s.y > 0",
    "SELECT e.a, u.c, count(*) OVER () AS n FROM e LEFT JOIN u ON u.a = e.a WHERE u.c > 1 OR e.b = 1",
    "SELECT e.a, count(*) OVER () AS n FROM e LEFT JOIN u ON u.a = e.a WHERE u.c IS NULL AND e.b > 1",
    "SELECT s.a, count(*) OVER () AS n FROM s LEFT JOIN e ON e.a = s.a WHERE e.b IS NULL",
    "SELECT x.a, y.b, count(*) OVER () AS n FROM e x, e y WHERE x.b = 1 AND y.b = 2",
    "SELECT a, count(*) OVER () AS n FROM ve WHERE b > 1",
    "SELECT n, count(*) OVER () AS m FROM vv",
    "SELECT k, max(x) OVER () AS m FROM r WHERE x = 2",
    "SELECT s.a, (SELECT max(b) FROM e WHERE e.a = s.a AND b < 3) AS m, count(*) OVER () AS n FROM s WHERE y > 1",
    "SELECT a, count(*) OVER () AS n FROM e WHERE b BETWEEN 1 AND 2 UNION ALL SELECT a, c FROM u WHERE NOT c = 1",
]


@pytest.mark.parametrize(("kind", "seed"), [("duckdb", 11), ("sqlite", 12), ("postgres", 13)])
def test_the_answers_are_those_of_the_worlds(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(seed)
    create(database, world)
    db = declared(database, world)
    got = []
    for sql in SHAPES:
        found = db.sql(sql, aggregates="rows")
        assert found.route.way == "worlds" and set(found.counts.guarantee) <= {"exact"}, sql
        rows = found.arrow().select(range(len(found.labels))).to_pylist()
        shown = [tuple(plain(v) for v in row.values()) for row in rows]
        got.append(dict(zip(shown, found.prob.tolist(), strict=True)))
    want = expected_answers(database, world, SHAPES)
    database.close()
    wrong = {sql: lines for sql, a, b in zip(SHAPES, got, want, strict=True) if (lines := differences(a, b))}
    assert not wrong


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_few_rows_of_many_are_listed(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    rows = [(i % 10, i) for i in range(60)]
    create(database, World({"big": Table(("g", "x"), rows, [0.5] * 60)}))
    db = sharpdnf.connect(database.connection)
    db.uncertain("big", prob="p")
    first = "SELECT x FROM big WHERE g = 3 ORDER BY x LIMIT 1"
    found = db.sql(first)
    assert found.route.way == "worlds" and set(found.counts.guarantee) == {"exact"}
    assert found.prob.tolist() == [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]
    assert set(db.sql("SELECT x FROM big ORDER BY x LIMIT 1", rng=1).counts.guarantee) == {"additive"}
    given = db.sql(first, given="SELECT 1 FROM big WHERE g = 3 AND x > 50")  # x = 53 is there
    assert given.prob.tolist() == [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125]
    database.close()
