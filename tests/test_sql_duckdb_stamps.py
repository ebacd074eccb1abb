"""Stamps of DuckDB's catalog: every change of others begins a new epoch, and no change of ours does."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from sharpdnf.sql.backends.duckdb_stamps import Stamps, steps


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect(config={"threads": 1})
    found.execute("CREATE TABLE t (a INTEGER)")
    found.execute("CREATE VIEW v AS SELECT a FROM t")
    found.execute("CREATE MACRO m(x) AS x")
    return found


def warm(connection: duckdb.DuckDBPyConnection) -> Stamps:
    """DuckDB makes some entries of its catalog when they are first needed."""
    stamps = Stamps(connection)
    for _ in range(3):
        stamps.look()
    return stamps


def test_looking_changes_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    stamps = warm(connection)
    epoch = stamps.epoch
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("SELECT a FROM v").fetchall()
    for _ in range(3):
        assert stamps.look() is not None
    assert stamps.epoch == epoch


def test_what_we_make_is_no_change(connection: duckdb.DuckDBPyConnection) -> None:
    stamps = warm(connection)
    epoch, step = stamps.epoch, steps()
    for _ in range(3):
        connection.execute("CREATE TEMP TABLE ours AS SELECT t.a, 1 AS b, 'x' AS c FROM t, range(3)")
        stamps.take_account(step.table)
        connection.register("frame", pa.table({"a": [1], "b": ["x"]}))
        stamps.take_account(step.frame)
        stamps.look()
        connection.unregister("frame")
        stamps.take_account(step.no_frame)
        connection.execute("DROP TABLE IF EXISTS temp.main.ours")
        stamps.take_account(step.no_table)
        stamps.look()
        assert stamps.epoch == epoch
    for statement in ("BEGIN", "CREATE TEMP TABLE ours AS SELECT 1 AS a", "DROP TABLE ours", "COMMIT"):
        connection.execute(statement)
    stamps.take_account(step.table + step.no_table)
    stamps.look()
    assert stamps.epoch == epoch


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE x (a INTEGER)", "DROP TABLE t CASCADE", "ALTER TABLE t ADD COLUMN b INTEGER",
        "ALTER TABLE t RENAME a TO b", "ALTER TABLE t ALTER a TYPE BIGINT", "CREATE OR REPLACE VIEW v AS SELECT 2 AS a",
        "DROP VIEW v", "CREATE MACRO n(x) AS x", "DROP MACRO m", "CREATE TEMP MACRO m(x) AS 2", "CREATE SCHEMA x",
        "ATTACH ':memory:' AS x", "CREATE TYPE mood AS ENUM ('a')", "CREATE TEMP TABLE t AS SELECT 1 AS a",
    ],
)  # fmt: skip
@pytest.mark.parametrize("ours", [False, True])
def test_every_change_of_others_is_seen(connection: duckdb.DuckDBPyConnection, statement: str, ours: bool) -> None:
    stamps = warm(connection)
    epoch = stamps.epoch
    if ours:
        connection.execute("CREATE TEMP TABLE ours AS SELECT 1 AS a")
        stamps.take_account(steps().table)
    connection.execute(statement)
    if ours:
        connection.execute("DROP TABLE ours")
        stamps.take_account(steps().no_table)
    stamps.look()
    assert stamps.epoch == epoch + 1


def test_other_connections_and_rollbacks(connection: duckdb.DuckDBPyConnection) -> None:
    stamps = warm(connection)
    epoch = stamps.epoch
    assert stamps.alone()
    other = connection.cursor()
    assert not stamps.alone()
    other.execute("CREATE MACRO n(x) AS x")
    stamps.look()
    assert stamps.epoch == epoch + 1
    stamps.lose()
    stamps.look()
    assert stamps.epoch == epoch + 2
    other.close()
    assert stamps.alone()
