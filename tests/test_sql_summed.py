"""Expected values that the database adds up by itself, against the mean over all worlds."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import create, declared, expected_answers, random_world, refill

import sharpdnf
from sharpdnf.sql import database as database_module
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.summed import SummedAnswers

SHAPES = [
    ("{}(*), {}(b) FROM e", True),
    ("{}(*), {}(e.b - u.c) FROM e JOIN u ON e.a = u.a", True),
    ("{}(*), {}(x) FROM r WHERE x > 1", True),
    ("{}(*), {}(e.b * s.y) FROM e, s, r WHERE e.a = s.a AND r.k = e.b", True),
    ("{}(*), {}(b) FROM ve", False),
    ("{}(*), {}(q.b) FROM e q JOIN e w ON q.a = w.b", False),
    ("{}(*), {}(b) FROM e WHERE EXISTS (SELECT 1 FROM u WHERE u.a = e.a)", False),
    ("{}(*), {}(q.x) FROM r q JOIN r w ON q.k = w.k", False),
    ("{}(*), {}(b) FROM e WHERE a > 100", True),
]


@pytest.mark.parametrize("kind", BACKENDS)
def test_expected_values_are_the_means_of_the_worlds(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(7, 4)
    create(database, world)
    db = declared(database, world)
    truth = expected_answers(database, world, [f"SELECT {s.format('count', 'sum')}" for s, _ in SHAPES])
    refill(database, world)
    for (shape, pushed), worlds in zip(SHAPES, truth, strict=True):
        answers = db.sql(f"SELECT {shape.format('expected_count', 'expected_sum')}")
        assert isinstance(answers, SummedAnswers) == pushed, shape
        row = answers.arrow().to_pylist()[0]
        for i, name in enumerate(("expected_count", "expected_sum")):
            mean = sum(prob * float(values[i] or 0) for values, prob in worlds.items())
            assert row[name] == pytest.approx(mean, abs=1e-9), shape
            assert row[f"{name}_lower"] - 1e-9 <= mean <= row[f"{name}_upper"] + 1e-9
    database.close()


GROUPED = {
    "g, {c}, {s}(v) AS s FROM x GROUP BY g ORDER BY g": True,
    "g + 1 AS h, {c} FROM x WHERE v > 0 OR t = 'a' GROUP BY g + 1 ORDER BY n DESC": True,
    "g, {c}, {s}(v * w) AS s FROM x JOIN y ON x.k = y.k GROUP BY g": True,
    "g, d, {c}, {s}(v * w) AS s FROM x, y WHERE x.k = y.k AND (v > 0 OR t = 'a') AND w < 1 GROUP BY g, d": True,
    "d, {c} FROM x, y WHERE v > 0 GROUP BY d": True,
    "t, {c}, {s}(w) AS s FROM x JOIN y ON x.k = y.k AND x.g = y.d GROUP BY t": True,
    "g, {c}, {s}(u) AS s FROM x JOIN z ON x.k = z.k GROUP BY g": True,
    "g, u, {c} FROM x JOIN z USING (k) GROUP BY g, u ORDER BY n LIMIT 2": True,
    "g, {c} FROM x JOIN z ON x.k = z.k JOIN y ON x.k = y.k GROUP BY g": False,
    "g, {c} FROM x JOIN y ON x.k < y.k GROUP BY g": False,
    "w > 0 AS b, {c} FROM x JOIN y ON x.k = y.k GROUP BY w > 0": False,
    "a.g, {c} FROM x AS a JOIN x AS b ON a.k = b.k GROUP BY a.g": False,
    "k, {c} FROM blocks GROUP BY k": False,
    "g, {c} FROM x GROUP BY g HAVING prob() > 0.5": False,
}


def random_tables(seed: int) -> sharpdnf.ProbDB:
    """A few rows with NULLs, and with probabilities 0 and 1 among them."""
    rng, connection = np.random.default_rng(seed), duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE x (k INTEGER, g INTEGER, t VARCHAR, v DOUBLE, p DOUBLE)")
    connection.execute("CREATE TABLE y (k INTEGER, w DOUBLE, d INTEGER, q DOUBLE)")
    connection.execute("CREATE TABLE z AS SELECT range % 3 AS k, range // 2 AS u FROM range(5)")

    def few() -> int | None:
        return None if rng.random() < 0.15 else int(rng.integers(3))

    for _ in range(9):
        row = [few(), few(), "ab"[rng.integers(2)], float(rng.normal()), float(rng.choice([0.0, 0.3, 0.5, 1.0]))]
        connection.execute("INSERT INTO x VALUES (?, ?, ?, ?, ?)", row)
    for _ in range(7):
        connection.execute(
            "INSERT INTO y VALUES (?, ?, ?, ?)", [few(), float(rng.normal()), few(), float(rng.random())]
        )
    connection.execute("CREATE TABLE blocks AS SELECT k, d, q / 10 AS q FROM y")
    db = sharpdnf.connect(connection)
    db.uncertain("x", prob="p")
    db.uncertain("y", prob="0.9 * q")
    db.uncertain("blocks", prob="q", block="d")
    return db


def rounded(answers: Answers) -> list[str]:
    """The answers without their engines, to be compared."""
    columns = [name for name in answers.arrow().column_names if name not in ("engine", "num_clauses")]
    rows = answers.arrow().select(columns).to_pylist()
    return sorted(repr([round(v, 9) if isinstance(v, float) else v for v in row.values()]) for row in rows)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_those_of_the_lineage(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    db = random_tables(seed)
    for shape, pushed in GROUPED.items():
        query = f"SELECT {shape.format(c='expected_count() AS n', s='expected_sum')}"
        monkeypatch.setattr(database_module, "LEAST", 10**9)
        counted = db.sql(query, guarantee="exact")
        monkeypatch.setattr(database_module, "LEAST", 0)
        found = db.sql(query, guarantee="exact")
        assert isinstance(found, SummedAnswers) == pushed, shape
        assert rounded(found) == rounded(counted), shape


def test_values_that_equal_two_others_and_rare_groups_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """'1' and '01' both equal 1; 1 - (1 - 1e-12) has lost the digits of 1e-12."""
    monkeypatch.setattr(database_module, "LEAST", 0)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE x AS SELECT 1 AS k, 0.5 AS p")
    connection.execute("CREATE TABLE y AS SELECT * FROM (VALUES ('1', 0.5), ('01', 0.5)) AS v(k, p)")
    connection.execute("CREATE TABLE rare AS SELECT 1 AS k, 1e-12 AS p")
    db = sharpdnf.connect(connection)
    for table in ("x", "y", "rare"):
        db.uncertain(table, prob="p")
    found = db.sql("SELECT x.k, expected_count() FROM x JOIN y ON x.k = y.k GROUP BY x.k")
    assert found.prob[0] == pytest.approx(0.375) and not isinstance(found, SummedAnswers)
    found = db.sql("SELECT k, expected_count() FROM rare GROUP BY k")
    assert found.prob[0] == pytest.approx(1e-12, rel=1e-9) and not isinstance(found, SummedAnswers)
    one = db.sql("SELECT k, expected_count() FROM x GROUP BY k")
    assert isinstance(one, SummedAnswers) and one.num_clauses.tolist() == [1]
    with pytest.raises(sharpdnf.errors.SQLError, match="added these values up"):
        one.lineage(0)
