"""Uncertain tables that change: an answer is about the data as they are when the query runs, or it is an error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sql_servers import BACKENDS, Database

import sharpdnf
from sharpdnf.errors import NoUncertainTable, SQLError, UncertainTableError

QUERY = "SELECT a, b FROM e ORDER BY a, b"


class Case:
    """A table e(a, b, p) and its ProbDB."""

    def __init__(self, kind: str, address: str | None, table: str = "TABLE") -> None:
        self.database = Database(kind, address)
        self.run = self.database.run
        self.run(f"CREATE {table} e (a INTEGER, b INTEGER, p DOUBLE PRECISION)")
        self.run("INSERT INTO e VALUES (1, 10, 0.5), (2, 20, 0.25), (3, 30, 0.0)")
        self.run("CREATE TABLE other (a INTEGER)")
        self.db = sharpdnf.connect(self.database.connection)
        self.db.uncertain("e", prob="p")

    def found(self, query: str = QUERY) -> list[tuple[Any, ...]]:
        answers = self.db.sql(query)
        rows = [tuple(row.values()) for row in answers.arrow().to_pylist()]
        return [(*row[: len(answers.labels)], row[len(answers.labels)]) for row in rows]

    def check(self) -> None:
        """The answers are the rows of the table now, under each query that reads all or some of its columns."""
        want = self.database.ask("SELECT a, b, p FROM e WHERE p > 0 ORDER BY a, b")
        assert self.found() == [(a, b, pytest.approx(p)) for a, b, p in want]
        assert self.found("SELECT b FROM e ORDER BY b") == sorted((b, pytest.approx(p)) for _, b, p in want)


@pytest.fixture(params=BACKENDS)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    address = request.getfixturevalue("address") if request.param == "postgres" else None
    found = Case(request.param, address)
    yield found
    found.database.close()


CHANGES = {
    "insert": ["INSERT INTO e VALUES (4, 40, 0.75)"],
    "probability": ["UPDATE e SET p = 0.125 WHERE a = 1"],
    "a tiny change of a probability": ["UPDATE e SET p = 0.50000000000000011 WHERE a = 1"],
    "probability from 0": ["UPDATE e SET p = 0.5 WHERE a = 3"],
    "probability to 0": ["UPDATE e SET p = 0 WHERE a = 1"],
    "another column": ["UPDATE e SET b = 11 WHERE a = 1"],
    "swapped probabilities": ["UPDATE e SET p = 0.75 - p WHERE a < 3"],
    "swapped values": ["UPDATE e SET b = 30 - b WHERE a < 3"],
    "delete": ["DELETE FROM e WHERE a = 1"],
    "as many other rows": ["DELETE FROM e WHERE a = 1", "INSERT INTO e VALUES (7, 70, 0.5)"],
    "twins": ["DELETE FROM e", "INSERT INTO e VALUES (1, 10, 0.5), (1, 11, 0.5), (2, 20, 0.25)"],
    "all deleted": ["DELETE FROM e"],
    "made anew": ["DROP TABLE e", "CREATE TABLE e (a INTEGER, b INTEGER, p DOUBLE PRECISION)",
                  "INSERT INTO e VALUES (2, 10, 0.5), (1, 20, 0.25)"],
    "a column more": ["ALTER TABLE e ADD COLUMN c INTEGER DEFAULT 5", "UPDATE e SET b = 12 WHERE a = 1"],
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changed_rows_are_read_again(case: Case, change: str) -> None:
    case.check()
    for statement in CHANGES[change]:
        case.run(statement)
    case.check()


@pytest.mark.parametrize("change", ["insert", "swapped probabilities", "another column", "as many other rows"])
def test_transactions_and_rollbacks(case: Case, change: str) -> None:
    """Also if the rows were read again inside the transaction, so that the rollback takes the numbered rows along."""
    for asked_inside in (False, True):
        case.check()
        case.run("BEGIN")
        for statement in CHANGES[change]:
            case.run(statement)
        if asked_inside:
            case.check()
            case.run("SAVEPOINT s") if case.database.kind != "duckdb" else None
            case.run("UPDATE e SET b = b + 1")
            case.check()
            case.run("ROLLBACK TO SAVEPOINT s") if case.database.kind != "duckdb" else None
            case.check()
        case.run("ROLLBACK")
        case.check()
    case.run("BEGIN")
    for statement in CHANGES[change]:
        case.run(statement)
    case.check()
    case.run("COMMIT")
    case.check()


def test_truncated_tables(case: Case) -> None:
    if case.database.kind == "sqlite":
        pytest.skip("SQLite has no TRUNCATE")
    case.run("TRUNCATE e")
    assert case.found() == []


def test_changes_of_another_connection(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    import sqlite3

    import duckdb
    import psycopg

    whole = duckdb.connect(config={"threads": 1})
    sqlite_file = tmp_path / "t.sqlite"
    address = request.getfixturevalue("address")
    pairs = [
        (whole, whole.cursor()),
        (sqlite3.connect(sqlite_file, isolation_level=None), sqlite3.connect(sqlite_file, isolation_level=None)),
        (psycopg.connect(address, autocommit=True), psycopg.connect(address, autocommit=True)),
    ]
    for connection, other in pairs:
        other.execute("DROP TABLE IF EXISTS far")
        other.execute("CREATE TABLE far AS SELECT 1 AS a, CAST(0.5 AS DOUBLE PRECISION) AS p")
        with sharpdnf.connect(connection) as db:
            db.uncertain("far", prob="p")
            assert db.sql("SELECT a FROM far").prob.tolist() == [0.5]
            other.execute("UPDATE far SET a = 2")
            assert db.sql("SELECT a FROM far").arrow()["a"].to_pylist() == [2]
            other.execute("BEGIN")
            other.execute("UPDATE far SET p = 0.25")
            assert db.sql("SELECT a FROM far").prob.tolist() == [0.5]  # not before it is committed
            other.execute("COMMIT")
            assert db.sql("SELECT a FROM far").prob.tolist() == [0.25]
        other.execute("DROP TABLE far")
        other.close()
        connection.close()


@pytest.mark.parametrize("bad", ["1.5", "-0.5", "NULL"])
def test_a_probability_that_becomes_none(case: Case, bad: str) -> None:
    case.run(f"UPDATE e SET p = {bad} WHERE a = 1")
    for _ in range(2):
        with pytest.raises(UncertainTableError, match=r"not in \[0, 1\].*a=1"):
            case.found()
    case.run("UPDATE e SET p = 0.5 WHERE a = 1")
    case.check()


def test_a_block_that_grows_beyond_one(case: Case) -> None:
    case.db.uncertain("e", prob="p", block="b")
    case.check()
    case.run("UPDATE e SET b = 10")
    assert case.found("SELECT a FROM e ORDER BY a") == [(1, 0.5), (2, 0.25)]
    case.run("UPDATE e SET p = 0.75")
    with pytest.raises(UncertainTableError, match="the block b=10 of e"):
        case.found("SELECT a FROM e")


def test_views_over_changing_tables(case: Case) -> None:
    case.run("CREATE TABLE base AS SELECT a, b, p FROM e")
    case.run("CREATE VIEW v AS SELECT a, b, p FROM base WHERE a < 9")
    case.db.uncertain("v", prob="p")
    query = "SELECT a, b FROM v ORDER BY a"
    assert case.found(query) == [(1, 10, 0.5), (2, 20, 0.25)]
    case.run("UPDATE base SET b = 30 - b WHERE a < 3")
    assert case.found(query) == [(1, 20, 0.5), (2, 10, 0.25)]


def test_files_that_change(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,p\n1,0.5\n2,0.25\n")
    db = sharpdnf.connect()
    db.register("f", str(file), prob="p")
    assert db.sql("SELECT a FROM f ORDER BY a").prob.tolist() == [0.5, 0.25]
    file.write_text("a,p\n7,0.5\n2,0.25\n")
    assert db.sql("SELECT a FROM f ORDER BY a").prob.tolist() == [0.25, 0.5]


def test_duckdb_values_that_are_equal_and_differ() -> None:
    database = Database("duckdb")
    database.run("CREATE TABLE e AS SELECT INTERVAL 1 MONTH AS i, 0.0::DOUBLE AS z, [INTERVAL 1 MONTH] AS n, 0.5 AS p")
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    changes = {"i": "INTERVAL 30 DAY AS i", "z": "'-0.0'::DOUBLE AS z", "n": "[INTERVAL 30 DAY] AS n"}
    for column, change in changes.items():
        query = f"SELECT CAST({column} AS VARCHAR) AS c FROM e"
        before = db.sql(query).arrow()["c"].to_pylist()
        database.run(f"CREATE TEMP TABLE copy AS SELECT * REPLACE ({change}) FROM e")
        database.run("DELETE FROM e")  # an update leaves the value that is equal
        database.run("INSERT INTO e FROM copy")
        database.run("DROP TABLE copy")
        assert db.sql(query).arrow()["c"].to_pylist() == [database.ask(query)[0][0]] != before


def test_only_what_a_query_reads_is_looked_at(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other uncertain tables, and in DuckDB and PostgreSQL other columns, cost a query nothing."""
    for i in range(4):
        case.run(f"CREATE TABLE more{i} AS SELECT a, p FROM e")
        case.db.uncertain(f"more{i}", prob="p")
    asked: list[list[str]] = []
    whole, compared = case.db.backend.contents_query, case.db.backend.contents
    looked: list[int] = []

    def contents_query(item: Any, columns: Any, prob: Any) -> str:
        asked.append([name for name, _ in columns])
        return whole(item, columns, prob)

    def contents(queries: Sequence[str]) -> list[object]:
        looked.append(len(queries))
        return compared(queries)

    monkeypatch.setattr(case.db.backend, "contents_query", contents_query)
    monkeypatch.setattr(case.db.backend, "contents", contents)
    case.found("SELECT a FROM e ORDER BY a")
    assert asked == ([] if case.database.kind == "sqlite" else [["a", "p"]] * 2)  # the copy once, and the table
    case.found("SELECT a FROM e ORDER BY a")
    assert looked == ([0, 0] if case.database.kind == "sqlite" else [1, 1, 1])


def test_answers_keep_their_names_while_other_tables_change(case: Case) -> None:
    """The rows of an answer are told apart from those that were read later, also of the same table."""
    case.run("CREATE TABLE f AS SELECT a, p FROM e")
    case.db.uncertain("f", prob="p")
    old, other = case.db.sql("SELECT b FROM e ORDER BY b"), case.db.sql("SELECT a FROM f ORDER BY a")
    assert [reason.row for reason in old.explain(0)] == ["e(a=1, b=10)"]
    case.run("UPDATE e SET b = 11 WHERE a = 1")
    new = case.db.sql("SELECT b FROM e ORDER BY b")
    assert [reason.row for reason in new.explain(0)] == ["e(a=1, b=11)"]
    with pytest.raises(SQLError, match="ask it again"):
        old.explain(0)
    if case.database.kind != "sqlite":  # it counts changes of the whole database
        assert [reason.row for reason in other.explain(0)] == ["f(a=1)"]


def test_numbers_do_not_run_out(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpdnf.sql.declarations.SPARE", 10)
    for i in range(20):
        case.run(f"UPDATE e SET b = b + {i + 1}")
        case.check()
    assert len(case.db.known_rows().prob) < 20


def test_a_query_after_close_is_an_error(case: Case) -> None:
    answers = case.db.sql(QUERY)
    case.db.close()
    case.db.close()
    for ask in (lambda: case.db.sql(QUERY), lambda: case.db.rewrite(QUERY), lambda: answers.explain(0),
                lambda: case.db.uncertain("e", prob="p"), case.db.refresh):  # fmt: skip
        with pytest.raises(SQLError, match="closed"):
            ask()
    assert len(case.database.ask("SELECT a FROM e")) == 3  # the connection is the caller's


def test_a_query_without_uncertain_rows_warns(case: Case) -> None:
    with pytest.warns(NoUncertainTable, match=r"none of the uncertain tables \(e\)"):
        assert case.db.sql("SELECT 1 AS one").prob.tolist() == [1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case.check()
        assert sharpdnf.connect(case.database.connection).sql("SELECT 1 AS one").prob.tolist() == [1.0]


def test_a_renamed_table_is_an_error(case: Case) -> None:
    """Under its new name its rows would count as certain, also beside a table that is uncertain."""
    case.run("CREATE TABLE f AS SELECT a, p FROM e")
    case.db.uncertain("f", prob="p")
    case.run("ALTER TABLE e RENAME TO g")
    for query in ("SELECT a FROM g", "SELECT f.a FROM f JOIN g ON f.a = g.a"):
        with pytest.raises(SQLError, match=r"'e' is gone.*forget\('e'\)"):
            case.found(query)
    case.run("CREATE VIEW e AS SELECT a, b, p FROM g")
    with pytest.raises(SQLError, match="'e' has become something else"):
        case.found("SELECT a FROM f")
    case.db.forget("e")
    case.db.uncertain("g", prob="p")
    assert case.found("SELECT f.a FROM f JOIN g ON f.a = g.a ORDER BY f.a") == [(1, 0.25), (2, 0.0625)]
    with pytest.raises(SQLError, match="no uncertain table is called 'nope'"):
        case.db.forget("nope")


def test_a_failed_declaration_leaves_nothing(case: Case) -> None:
    lists = {
        "duckdb": "SELECT table_name FROM duckdb_tables() WHERE temporary",
        "sqlite": "SELECT name FROM sqlite_temp_schema",
        "postgres": "SELECT relname FROM pg_class WHERE relpersistence = 't' AND relname LIKE '%sharpdnf%'",
    }
    case.run("CREATE TABLE bad AS SELECT 1 AS k, CAST(0.75 AS DOUBLE PRECISION) AS p UNION ALL SELECT 1, 0.5")
    before = case.database.ask(lists[case.database.kind])
    for inside in (False, True):
        if inside:
            case.run("BEGIN")
        with pytest.raises(UncertainTableError, match=r"add up to 1\.25"):
            case.db.uncertain("bad", prob="p", block="k")
        assert case.database.ask(lists[case.database.kind]) == before
    case.run("ROLLBACK")
    case.check()


def test_one_snapshot(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever is committed between the check and the query is not in the answer, or all of it is."""
    if case.database.kind == "sqlite":
        pytest.skip("a writer waits for the reader")
    other: Any
    if case.database.kind == "duckdb":
        other = case.database.connection.cursor()
    else:
        import psycopg

        other = psycopg.connect(case.database.connection.info.dsn, autocommit=True)
        other.execute("SET search_path = world")
    case.run("INSERT INTO other VALUES (1), (2)")
    whole = case.db._run

    def run(*arguments: Any) -> Any:
        other.execute("UPDATE e SET b = 99")
        other.execute("DELETE FROM other")
        return whole(*arguments)

    monkeypatch.setattr(case.db, "_run", run)
    query = "SELECT e.b FROM e JOIN other o ON o.a = e.a ORDER BY e.b"
    assert case.found(query) == [(10, 0.5), (20, 0.25)]
    monkeypatch.undo()
    assert case.found(query) == []
    other.close()


def test_registering_again_is_noticed() -> None:
    db = sharpdnf.connect()
    db.register("t", pa.table({"a": [1], "p": [0.5]}), prob="p")
    db.register("t", pa.table({"a": [2], "p": [0.25]}))
    assert db.sql("SELECT a FROM t").prob.tolist() == [0.25]
