"""Evidence for queries that go by worlds: the worlds in which it holds, against enumeration and against lineage."""

from __future__ import annotations

from collections import defaultdict

import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import Row, World, create, declared, differences, plain, played, random_world, refill

from sharpdnf.errors import SQLError
from sharpdnf.sql import connect

FIRST = "SELECT a, b FROM (SELECT a, b, row_number() OVER (ORDER BY b, a) AS n FROM e) AS q WHERE n = 1"
ASKED: list[tuple[str, list[str], list[str]]] = [
    (FIRST, ["SELECT 1 FROM u WHERE c > 1"], []),
    ("SELECT a FROM e ORDER BY a LIMIT 1", ["SELECT 1 FROM e WHERE b = 2"], ["SELECT 1 FROM u WHERE c = 1"]),
    ("SELECT DISTINCT a FROM e", [FIRST.replace("n = 1", "n = 2")], []),
    ("SELECT a FROM e WHERE b > (SELECT avg(c) FROM u)", ["SELECT 1 FROM r WHERE x > 1"], []),
]


def conditioned(database: Database, world: World, sql: str, given: list[str], given_not: list[str]) -> dict[Row, float]:
    found: dict[Row, float] = defaultdict(float)
    total = 0.0
    for weight in played(database, world):
        if all(database.ask(q) for q in given) and not any(database.ask(q) for q in given_not):
            total += weight
            for row in {tuple(plain(v) for v in row) for row in database.ask(sql)}:
                found[row] += weight
    return {row: weight / total for row, weight in found.items()}


@pytest.mark.parametrize("kind", BACKENDS)
def test_all_worlds_under_evidence(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(3, 3)
    world.tables["u"].rows, world.tables["u"].prob = [(1, 2), (2, 1)], [0.5, 0.25]
    world.tables["e"].rows, world.tables["e"].prob = [(1, 2), (2, 3), (3, 1)], [0.5, 0.25, 0.9]
    world.tables["r"].rows, world.tables["r"].prob = [(1, 2), (1, 1)], [0.3, 0.5]
    create(database, world)
    db = declared(database, world)
    truth = [conditioned(database, world, *asked) for asked in ASKED]
    refill(database, world)
    for (sql, given, given_not), want in zip(ASKED, truth, strict=True):
        answers = db.sql(sql, given=given, given_not=given_not)
        rows = answers.arrow().select(range(len(answers.labels))).to_pylist()
        got = dict(zip([tuple(plain(v) for v in row.values()) for row in rows], answers.prob.tolist(), strict=True))
        assert want and not differences(got, want), sql
        assert set(answers.counts.guarantee) == {"exact"} and answers.given
    database.close()


def test_expected_values_and_distributions_under_evidence() -> None:
    database = Database("duckdb")
    database.run("CREATE TABLE t AS SELECT range AS x, 0.5 AS p FROM range(1, 4)")
    db = connect(database.connection)
    db.uncertain("t", prob="p")
    known = (
        "SELECT 1 FROM t WHERE x >= 2"  # 6 of the 8 worlds, in which x = 2 and x = 3 stand 4 times each, x = 1 3 times
    )
    row = db.sql("SELECT expected_sum(x) AS s FROM t", given=known)[0]
    assert row["s"] == pytest.approx((4 * 2 + 4 * 3 + 3 * 1) / 6)
    row = db.sql("SELECT count(*) AS n FROM t", given=known)[0]
    assert row["n_mean"] == pytest.approx((4 + 4 + 3) / 6)
    with pytest.raises(SQLError, match="impossible"):
        db.sql("SELECT count(*) AS n FROM t", given="SELECT 1 FROM t WHERE x > 5")
    database.close()


def test_drawn_worlds_under_evidence_agree_with_lineage() -> None:
    database = Database("duckdb")
    database.run("CREATE TABLE t AS SELECT range AS x, range % 5 AS g, 0.1 + (range % 8) / 20.0 AS p FROM range(40)")
    db = connect(database.connection)
    db.uncertain("t", prob="p")
    query, known = "SELECT DISTINCT g FROM t WHERE x < 15 ORDER BY g", "SELECT 1 FROM t WHERE x IN (1, 9)"
    exact = db.sql(query, given=known, guarantee="exact")
    drawn = db.sql(query, given=known, way="worlds", epsilon=0.1, delta=1e-6, rng=0)
    assert set(exact.counts.guarantee) == {"exact"} and set(drawn.counts.guarantee) == {"additive"} and drawn.met
    assert abs(exact.prob - drawn.prob).max() <= 0.1
    assert ((drawn.counts.lower <= exact.prob) & (exact.prob <= drawn.counts.upper)).all()
    with pytest.raises(SQLError, match="too rare"):
        db.sql(query, given="SELECT 1 FROM t HAVING count(*) > 39", way="worlds", epsilon=0.4, delta=0.2, rng=0)
    database.close()
