"""The declared tables of a connection: read anew when they change, numbered whole or not at all, dropped in the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sql_edges import EDGES, TWO_STEPS
from sql_servers import Database

import sharpdnf
from sharpdnf.errors import SQLError
from sharpdnf.sql import declarations as declarations_module


def test_changed_data_is_read_again(db: sharpdnf.ProbDB) -> None:
    connection = db.backend.connection  # type: ignore[attr-defined]
    connection.execute("CREATE TABLE n AS SELECT 1 AS a, 0.5::DOUBLE AS p")
    db.uncertain("n", prob="p")
    connection.execute("INSERT INTO n VALUES (2, 0.25)")
    assert db.sql("SELECT a FROM n").prob.tolist() == [0.5, 0.25]
    connection.execute("UPDATE n SET p = 0.75 WHERE a = 1")
    assert db.sql("SELECT a FROM n").prob.tolist() == [0.75, 0.25]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_closing_leaves_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    """The connection is the caller's, so it stays open; one that connect opened is closed."""
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    with sharpdnf.connect(database.connection) as found:
        found.register("n", pa.table({"a": [1], "p": [0.5]}), prob="p")
        numbered = found.backend.temporary(found.declared._copies[0]).sql(found.backend.dialect.name)
        assert len(database.ask(f"SELECT * FROM {numbered}")) == 1
    assert database.ask("SELECT a FROM n") == [(1,)]
    with pytest.raises(SQLError):
        found.backend.rows(f"SELECT * FROM {numbered}")
    with sharpdnf.connect() as own:
        own.register("n", pa.table({"a": [1], "p": [0.5]}), prob="p")
    with pytest.raises(SQLError):
        own.sql("SELECT a FROM n")


def test_rows_that_were_numbered_by_halves_are_numbered_again(
    db: sharpdnf.ProbDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables; while both are read again, Ctrl-C comes after the first."""
    db.register("other", pa.table({"a": [1, 2], "p": [0.25, 0.125]}), prob="p")
    db.register("edge", pa.table(EDGES).slice(0, 2))
    whole, calls = declarations_module.declare, []

    def stop(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args)

    monkeypatch.setattr(declarations_module, "declare", stop)
    with pytest.raises(KeyboardInterrupt):
        db.refresh()
    monkeypatch.undo()
    db.register("edge", pa.table(EDGES))
    assert db.sql("SELECT a FROM other").prob == pytest.approx([0.25, 0.125])
    assert db.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
