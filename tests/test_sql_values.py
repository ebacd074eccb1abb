"""Values and types as SQLite and PostgreSQL have them: affinities, collations, text and blobs, JSON, rollbacks."""

from __future__ import annotations

from typing import Any

import pytest
from sql_servers import Database
from sql_worlds import Table, World, create, declared, differences, exact_answers, expected_answers

import sharpdnf
from sharpdnf.errors import UnsupportedSQL

TYPES = ("integer", "text", "")
VALUES = [(1, "1", 1), (2, "a", "2"), (3, "A", "a"), (10, "10", 2.0)]
VIEWS = [
    "CREATE VIEW w AS SELECT i + 0 AS i, t || '' AS t, n, coalesce(n, 0) AS m, p FROM base",
    "CREATE VIEW d AS SELECT i + 0 AS i, t, coalesce(n, 0) AS m FROM s",
]


@pytest.mark.parametrize("table", ["w", "k"])
def test_sqlite_affinities_survive_copies(table: str) -> None:
    """A view's expression has no affinity, but a column of a copy has one; a table without rowid is copied too."""
    database = Database("sqlite")
    for sql in (
        "CREATE TABLE base (i integer, t text, n, p real)",
        "CREATE TABLE k (i integer PRIMARY KEY, t text, n, p real) WITHOUT ROWID",
        "CREATE TABLE s (i integer, t text, n)",
        *VIEWS,
    ):
        database.run(sql)
    for i, t, n in VALUES:
        for name in ("base", "k"):
            database.connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, 0.5)", (i, t, n))
        database.connection.execute("INSERT INTO s VALUES (?, ?, ?)", (i, t, n))
    db = sharpdnf.connect(database.connection)
    db.uncertain(table, prob="p")
    for a in ("i", "t", "n"):
        for b in ("i", "t", "n"):
            sql = f"SELECT s.i, e.i FROM {table} AS e JOIN s ON e.{a} = s.{b}"
            want = set(database.ask(sql))
            assert set(exact_answers(db, sql)) == want, sql
            counted = db.sql(sql.replace("s.i, e.i", "expected_count()"), guarantee="exact").arrow().to_pylist()[0]
            assert counted["expected_count"] == pytest.approx(len(want) / 2), sql
    for a in ("i", "t", "m"):
        for b in ("i", "t", "n"):
            sql = f"SELECT count(*) FROM {table} AS e, d JOIN s ON d.{a} = s.{b}"
            counted = db.sql(sql.replace("count(*)", "expected_count()")).arrow().to_pylist()[0]
            assert counted["expected_count"] == pytest.approx(database.ask(sql)[0][0] / 2), sql


def test_sqlite_collations_in_expected_values() -> None:
    database = Database("sqlite")
    for sql in (
        "CREATE TABLE s (b text COLLATE NOCASE)",
        "INSERT INTO s VALUES ('X'), ('y'), ('Y')",
        "CREATE VIEW v AS SELECT b FROM s",
        "CREATE TABLE e (a text, p real)",
        "INSERT INTO e VALUES ('x', 0.5)",
    ):
        database.run(sql)
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    assert db.sql("SELECT expected_count() FROM e JOIN s ON s.b = 'y'").arrow()["expected_count"].to_pylist() == [1.0]
    with pytest.raises(UnsupportedSQL, match="collations"):
        db.sql("SELECT expected_count() FROM e JOIN v ON v.b = 'y'")


def test_sqlite_text_and_blobs() -> None:
    database = Database("sqlite")
    world = World({"e": Table(("a",), [("x",), (1,)], [0.5, 0.25], types=("",))})
    create(database, world)
    database.run("INSERT INTO e VALUES (x'78', 0.75)")
    for factory in (str, bytes, lambda raw: "?"):
        database.connection.text_factory = factory
        answers = declared(database, world).sql("SELECT a FROM e")
        assert dict(zip(answers.arrow()["a"].to_pylist(), answers.prob, strict=True)) == {
            "1": 0.25,
            "x": 0.5,
            "b'x'": 0.75,
        }
        assert database.connection.text_factory is factory


def test_postgres_json_is_shown_as_it_is(address: str) -> None:
    database = Database("postgres", address)
    database.run("CREATE TABLE e (j jsonb, p float8)")
    database.run("""INSERT INTO e VALUES ('{"k": 1}', 0.5), ('{"m": [2]}', 0.5), ('null', 0.5), (NULL, 0.5)""")
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    shown = db.sql("SELECT j FROM e").arrow()["j"].to_pylist()
    assert sorted(shown, key=str) == [None, "null", '{"k": 1}', '{"m": [2]}']
    database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_a_rollback_brings_back_the_old_rows(kind: str, request: pytest.FixtureRequest) -> None:
    """Also where rows and probabilities add up to what they were."""
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = World({"e": Table(("a", "k"), [(1, 1), (2, 1)], [0.3, 0.7], block=("k",))})
    create(database, world)
    db = declared(database, world)

    def found() -> dict[Any, float]:
        return exact_answers(db, "SELECT a FROM e")

    before = expected_answers(database, world, ["SELECT a FROM e"])[0]
    database.run("DELETE FROM e")
    database.run("INSERT INTO e VALUES (1, 1, 0.3), (2, 1, 0.7)")
    db.refresh()
    database.run("BEGIN")
    database.run("UPDATE e SET p = 1 - p")
    db.refresh()
    assert differences(found(), before)
    database.run("ROLLBACK")
    db.sql("SELECT a FROM e")
    assert not differences(found(), before)
    database.close()


def test_postgres_types_of_strings(address: str) -> None:
    """In a set operation a string has the type of the other side, in a subquery it is text."""
    database = Database("postgres", address)
    world = World(
        {
            "e": Table(("a", "d"), [(1, "ab"), (2, "x")], [0.5, 0.25], types=("integer", "char(4)")),
            "s": Table(("a", "d"), [(1, "ab"), (2, "x")], types=("integer", "char(4)")),
        }
    )
    create(database, world)
    queries = [
        "SELECT rtrim(q.d) FROM (SELECT d FROM e INTERSECT SELECT 'ab ') q",
        "SELECT rtrim(q.d) FROM (SELECT 'ab ' AS d FROM e INTERSECT SELECT d FROM s) q",
        "SELECT rtrim(q.d) FROM (SELECT d FROM e EXCEPT SELECT 'ab ') q",
        "SELECT a FROM s WHERE d IN (SELECT 'ab ' FROM e WHERE e.a = s.a)",
        "SELECT a FROM s WHERE d IN (SELECT 'ab' FROM e WHERE e.a = s.a)",
        "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM (SELECT 'ab ' AS v FROM e WHERE e.a = s.a) q WHERE q.v = s.d)",
    ]
    db = declared(database, world)
    got = [exact_answers(db, sql) for sql in queries]
    want = expected_answers(database, world, queries)
    database.close()
    assert [differences(a, b) for a, b in zip(got, want, strict=True)] == [[]] * len(queries)
    assert [len(b) for b in want] == [1, 1, 1, 0, 1, 0]
