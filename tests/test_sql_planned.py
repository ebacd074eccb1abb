"""A plan that was made before is used again only while every name in it means what it meant."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

import sharpdnf
from sharpdnf.sql import database as database_module

QUERY = "SELECT DISTINCT v.a FROM v JOIN s ON v.a = s.a"


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect(config={"threads": 1})
    found.execute("CREATE TABLE e (a INTEGER, b INTEGER, p DOUBLE)")
    found.execute("INSERT INTO e VALUES (1, 1, 0.5), (2, 1, 0.25), (3, 2, 0.75)")
    found.execute("CREATE TABLE s (a INTEGER)")
    found.execute("INSERT INTO s VALUES (1), (2), (3)")
    found.execute("CREATE VIEW v AS SELECT a FROM e WHERE b = 1")
    return found


def probabilities(db: sharpdnf.ProbDB, query: str = QUERY) -> dict[int, float]:
    answers = db.sql(query, guarantee="exact")
    return dict(zip(answers.arrow().column(0).to_pylist(), answers.prob.round(12).tolist(), strict=True))


def declared(connection: duckdb.DuckDBPyConnection) -> sharpdnf.ProbDB:
    db = sharpdnf.connect(connection)
    db.uncertain("e", prob="p")
    return db


def test_a_query_is_planned_twice_and_then_no_more(
    connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, planned = declared(connection), []
    make: Callable[..., object] = database_module.make_plan

    def counted(*args: object, **options: object) -> object:
        planned.append(args[0])
        return make(*args, **options)

    monkeypatch.setattr(database_module, "make_plan", counted)
    for _ in range(5):
        assert probabilities(db) == {1: 0.5, 2: 0.25}
    assert len(planned) == 2
    connection.execute("UPDATE e SET p = 0.125 WHERE a = 1")  # rows are compared all the same
    assert probabilities(db) == {1: 0.125, 2: 0.25}
    connection.execute("DELETE FROM s WHERE a = 1")
    assert probabilities(db) == {2: 0.25}


CHANGES: dict[str, tuple[list[str], dict[int, float]]] = {
    "another view": (["CREATE OR REPLACE VIEW v AS SELECT a FROM e WHERE b = 2"], {3: 0.75}),
    "a view renamed": (["ALTER VIEW v RENAME TO w", "CREATE VIEW v AS SELECT a FROM e"], {1: 0.5, 2: 0.25, 3: 0.75}),
    "a temporary table in front": (["CREATE TEMP TABLE s AS SELECT 2 AS a"], {2: 0.25}),
    "a temporary view in front": (["CREATE TEMP VIEW v AS SELECT 3 AS a"], {3: 1.0}),
    "another schema": (["CREATE SCHEMA x", "CREATE TABLE x.s AS SELECT 1 AS a",
                        "CREATE VIEW x.v AS SELECT a FROM main.e", "SET search_path = 'x'"], {1: 0.5}),
    "a column more": (["ALTER TABLE e ADD COLUMN z INTEGER"], {1: 0.5, 2: 0.25}),
    "a column of another type": (["ALTER TABLE s ALTER a TYPE BIGINT"], {1: 0.5, 2: 0.25}),
    "rolled back": (["BEGIN", "DROP TABLE s", "CREATE TABLE s AS SELECT 2 AS a", "ROLLBACK"], {1: 0.5, 2: 0.25}),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore::sharpdnf.errors.NoUncertainTable")
def test_changes_of_the_catalog(connection: duckdb.DuckDBPyConnection, change: str) -> None:
    db = declared(connection)
    for _ in range(3):
        assert probabilities(db) == {1: 0.5, 2: 0.25}
    statements, want = CHANGES[change]
    for statement in statements:
        connection.execute(statement)
    for _ in range(3):
        assert probabilities(db) == want


def test_what_was_in_front_goes_away(connection: duckdb.DuckDBPyConnection) -> None:
    db = declared(connection)
    connection.execute("CREATE TEMP TABLE s AS SELECT 2 AS a")
    for _ in range(3):
        assert probabilities(db) == {2: 0.25}
    connection.execute("DROP TABLE temp.s")
    assert probabilities(db) == {1: 0.5, 2: 0.25}
    connection.execute("BEGIN")
    connection.execute("CREATE TEMP TABLE s AS SELECT 2 AS a")
    for _ in range(3):
        assert probabilities(db) == {2: 0.25}
    connection.execute("ROLLBACK")
    db.refresh()
    for _ in range(3):
        assert probabilities(db) == {1: 0.5, 2: 0.25}


def test_a_change_that_another_connection_commits_later(connection: duckdb.DuckDBPyConnection) -> None:
    """The numbers of the catalog grow when something is made, which is seen before it is committed."""
    db, other = declared(connection), connection.cursor()
    assert probabilities(db) == {1: 0.5, 2: 0.25}
    other.execute("BEGIN")
    other.execute("CREATE OR REPLACE VIEW v AS SELECT a FROM e WHERE b = 2")
    for _ in range(3):
        assert probabilities(db) == {1: 0.5, 2: 0.25}
    other.execute("COMMIT")
    for _ in range(3):
        assert probabilities(db) == {3: 0.75}
    other.execute("BEGIN")
    other.execute("DROP TABLE s")
    other.execute("CREATE TABLE s AS SELECT 4 AS a")
    for _ in range(3):
        assert probabilities(db) == {3: 0.75}
    other.execute("COMMIT")
    assert probabilities(db) == {}


def test_a_macro_that_takes_over_a_function(connection: duckdb.DuckDBPyConnection) -> None:
    db = declared(connection)
    for _ in range(3):
        assert probabilities(db, "SELECT abs(a) FROM e WHERE a = 1") == {1: 0.5}
    connection.execute("CREATE MACRO abs(x) AS (SELECT max(a) FROM e)")
    with pytest.raises(sharpdnf.SharpDNFError, match="user-defined function abs"):
        db.sql("SELECT abs(a) FROM e WHERE a = 1", way="lineage")


def test_a_macro_that_another_connection_commits_later(connection: duckdb.DuckDBPyConnection) -> None:
    """The end of a transaction takes no number of the catalog."""
    db, other = declared(connection), connection.cursor()
    query = "SELECT abs(a) FROM e WHERE a = 1"
    other.execute("BEGIN")
    other.execute("CREATE MACRO abs(x) AS (SELECT max(a) FROM e)")
    for _ in range(3):
        assert probabilities(db, query) == {1: 0.5}
    other.execute("COMMIT")
    with pytest.raises(sharpdnf.SharpDNFError, match="user-defined function abs"):
        db.sql(query, way="lineage")


def test_a_dropped_macro_comes_back_by_a_rollback(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE MACRO abs(x) AS (SELECT max(a) FROM e)")
    db = declared(connection)
    query = "SELECT abs(a) FROM e WHERE a = 1"
    connection.execute("BEGIN")
    connection.execute("DROP MACRO abs")
    for _ in range(3):
        assert probabilities(db, query) == {1: 0.5}
    connection.execute("ROLLBACK")
    with pytest.raises(sharpdnf.SharpDNFError, match="user-defined function abs"):
        db.sql(query, way="lineage")


def test_columns_that_another_connection_renames(connection: duckdb.DuckDBPyConnection) -> None:
    """The table keeps its number and how many columns it has."""
    db, other = declared(connection), connection.cursor()
    connection.execute("CREATE TABLE c AS SELECT 1 AS x, 2 AS y")
    query = "SELECT c.x FROM c, e WHERE e.a = c.x"
    for _ in range(3):
        assert probabilities(db, query) == {1: 0.5}
    other.execute("BEGIN")
    for column, name in (("x", "z"), ("y", "x"), ("z", "y")):
        other.execute(f"ALTER TABLE c RENAME {column} TO {name}")
    for _ in range(3):
        assert probabilities(db, query) == {1: 0.5}
    other.execute("COMMIT")
    for _ in range(3):
        assert probabilities(db, query) == {2: 0.25}


ABSENCE = "SELECT a FROM e WHERE NOT EXISTS (SELECT 1 FROM e AS f WHERE f.b = e.b AND f.a > e.a)"


def test_queries_with_stages_in_turns(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their temporary tables take numbers of the catalog, but nobody else's."""
    db, planned = declared(connection), []
    make: Callable[..., object] = database_module.make_plan

    def counted(*args: object, **options: object) -> object:
        planned.append(args[0])
        return make(*args, **options)

    for _ in range(2):
        assert probabilities(db) == {1: 0.5, 2: 0.25}
        assert probabilities(db, ABSENCE) == {1: 0.375, 2: 0.25, 3: 0.75}
    monkeypatch.setattr(database_module, "make_plan", counted)
    kept = db.backend._functions._known  # type: ignore[attr-defined]
    for _ in range(3):
        assert probabilities(db) == {1: 0.5, 2: 0.25}
        assert probabilities(db, ABSENCE) == {1: 0.375, 2: 0.25, 3: 0.75}
    assert not planned and db.backend._functions._known is kept  # type: ignore[attr-defined]
    connection.execute("UPDATE e SET p = 0.5 WHERE a = 2")
    assert probabilities(db, ABSENCE) == {1: 0.25, 2: 0.5, 3: 0.75}
    assert probabilities(db) == {1: 0.5, 2: 0.5}
    connection.execute("CREATE MACRO greatest(x) AS 1")
    db.backend.state(frozenset(["e"]))
    assert db.backend._functions._known is not kept  # type: ignore[attr-defined]


ROWS = "SELECT DISTINCT e.b FROM e JOIN e AS f ON e.b = f.b"
"""It reads nothing but uncertain rows, so no transaction is begun for it."""


@pytest.mark.parametrize("query", [ROWS, "SELECT e.b FROM e JOIN s ON s.a = e.a"])
def test_rows_that_change(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    db, other = declared(connection), connection.cursor()
    for _ in range(3):
        assert probabilities(db, query) == {1: 0.625, 2: 0.75}
    connection.execute("UPDATE e SET p = 0.25 WHERE a = 3")
    assert probabilities(db, query) == {1: 0.625, 2: 0.25}
    other.execute("BEGIN")
    other.execute("UPDATE e SET p = 0.5 WHERE a = 3")
    for _ in range(2):
        assert probabilities(db, query) == {1: 0.625, 2: 0.25}
    other.execute("COMMIT")
    for _ in range(2):
        assert probabilities(db, query) == {1: 0.625, 2: 0.5}
    connection.execute("BEGIN")
    connection.execute("DELETE FROM e WHERE a = 1")
    for _ in range(2):
        assert probabilities(db, query) == {1: 0.25, 2: 0.5}
    connection.execute("ROLLBACK")
    for _ in range(2):
        assert probabilities(db, query) == {1: 0.625, 2: 0.5}
    connection.execute("DROP TABLE e")
    connection.execute("CREATE TABLE e AS SELECT 1 AS a, 7 AS b, 0.125::DOUBLE AS p")
    for _ in range(2):
        assert probabilities(db, query) == {7: 0.125}


def test_declarations_change(connection: duckdb.DuckDBPyConnection) -> None:
    db = declared(connection)
    query = "SELECT s.a FROM s WHERE s.a < 3"
    with pytest.warns(sharpdnf.errors.NoUncertainTable):
        for _ in range(3):
            assert probabilities(db, query) == {1: 1.0, 2: 1.0}
    connection.execute("ALTER TABLE s ADD COLUMN q DOUBLE DEFAULT 0.5")
    db.uncertain("s", prob="q")
    for _ in range(3):
        assert probabilities(db, query) == {1: 0.5, 2: 0.5}
    db.forget("s")
    with pytest.warns(sharpdnf.errors.NoUncertainTable):
        assert probabilities(db, query) == {1: 1.0, 2: 1.0}


def test_another_file_under_the_same_name(tmp_path: object) -> None:
    for name, p in (("one", 0.5), ("two", 0.25)):
        with duckdb.connect(f"{tmp_path}/{name}.duckdb") as file:
            file.execute(f"CREATE TABLE s AS SELECT 1 AS a, {p} AS p")
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{tmp_path}/one.duckdb' AS other (READ_ONLY)")
    connection.execute("CREATE TABLE e AS SELECT 1 AS a, 0.5 AS p")
    db = declared(connection)
    query = "SELECT e.a + CAST(100 * s.p AS INTEGER) FROM e, other.s"
    for _ in range(3):
        assert probabilities(db, query) == {51: 0.5}
    connection.execute("DETACH other")
    connection.execute(f"ATTACH '{tmp_path}/two.duckdb' AS other (READ_ONLY)")
    for _ in range(3):
        assert probabilities(db, query) == {26: 0.5}
