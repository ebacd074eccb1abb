"""Probabilities that are expressions of columns, and uncertain queries and views, against possible worlds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sql_servers import BACKENDS, Database

import sharpdnf
from sharpdnf.errors import SQLError, UncertainTableError

ROWS = [(1, "a", 50, 0.5), (2, "b", 25, 0.5), (2, "a", 100, 0.25), (3, "c", 0, 1.0)]
"""k, name, score, weight"""


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    address = request.getfixturevalue("address") if request.param == "postgres" else None
    found = Database(request.param, address)
    found.run("CREATE TABLE m (k integer, name text, score integer, weight double precision)")
    for row in ROWS:
        found.run(f"INSERT INTO m VALUES {row}")
    yield found
    found.close()


def by_name(db: sharpdnf.ProbDB, table: str = "m") -> dict[str, float]:
    answers = db.sql(f"SELECT name FROM {table}", guarantee="exact")
    return dict(zip(answers.arrow().column("name").to_pylist(), answers.prob.tolist(), strict=True))


@pytest.mark.parametrize(("prob", "value"), [
    ("score / 100", lambda s, w: s / 100),
    ("weight * score / 100", lambda s, w: w * s / 100),
    ("1 - weight * 0.5", lambda s, w: 1 - w / 2),
    ("CASE WHEN score > 30 THEN weight ELSE 0.1 END", lambda s, w: w if s > 30 else 0.1),
])  # fmt: skip
def test_expressions(database: Database, prob: str, value: object) -> None:
    db = sharpdnf.connect(database.connection)
    db.uncertain("m", prob=prob)
    assert callable(value)
    absent: dict[str, float] = {}
    for _, name, score, weight in ROWS:
        absent[name] = absent.get(name, 1.0) * (1.0 - value(score, weight))
    want = {name: 1.0 - rest for name, rest in absent.items() if rest < 1.0}
    assert by_name(db) == pytest.approx(want)
    assert db.sql("SELECT * FROM m").labels == ("k", "name", "score", "weight")  # nothing is hidden
    database.run("UPDATE m SET score = 60 WHERE k = 1")  # a column that only the probability reads
    absent["a"] = (1 - value(60, 0.5)) * (1 - value(100, 0.25))
    assert by_name(db)["a"] == pytest.approx(1.0 - absent["a"])


@pytest.mark.parametrize(("prob", "says"), [
    ("score / 10", r"score / 10 is not in \[0, 1\]: k=1, name=a, score=50"),
    ("score / nothing", "no probability column 'nothing'"),
    ("nothing", "no probability column 'nothing': its columns are k, name, score, weight"),
    ("random()", "not told by the query"),
    ("max(weight)", "aggregate max"),
    ("(SELECT 1)", "nor one expression|one expression"),
    ("weight, score", "nor one expression"),
    ("weight FROM m; DROP TABLE m", "cannot parse"),
    ("weight +", "cannot parse"),
])  # fmt: skip
def test_what_is_no_probability(database: Database, prob: str, says: str) -> None:
    db = sharpdnf.connect(database.connection)
    with pytest.raises(UncertainTableError, match=says):
        db.uncertain("m", prob=prob)
    assert database.ask("SELECT count(*) FROM m") == [(4,)]


def test_an_uncertain_query(database: Database) -> None:
    db = sharpdnf.connect(database.connection)
    db.uncertain("pairs", query="SELECT k, name, score / 200.0 AS p FROM m WHERE score > 0", prob="p", block="k")
    assert by_name(db, "pairs") == pytest.approx({"a": 1 - 0.75 * 0.5, "b": 0.125})
    db.forget("pairs")
    with pytest.raises(SQLError, match="no table or view"):
        db.sql("SELECT name FROM pairs")
    db.uncertain("pairs", query="SELECT name, weight FROM m", prob="weight / 2")
    assert by_name(db, "pairs") == pytest.approx({"a": 1 - 0.75 * 0.875, "b": 0.25, "c": 0.5})
    database.run("UPDATE m SET weight = 0.5 WHERE name = 'c'")
    assert by_name(db, "pairs")["c"] == pytest.approx(0.25)
    with pytest.raises(UncertainTableError, match="over uncertain rows"):
        db.uncertain("m", prob="weight")
    with pytest.raises(SQLError, match="one SELECT"):
        db.uncertain("bad", query="DROP TABLE m", prob="p")
    db.close()
    with pytest.raises(Exception, match="pairs"):
        database.ask("SELECT * FROM pairs")
