"""Parameters: every value comes back as it was given, whatever is in it, on three databases."""

from __future__ import annotations

import datetime
import sqlite3
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest

import sharpdnf
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.parameters import with_values

VALUES: list[Any] = [
    None, 0, -5, 2**62, 0.1, -1e-300, 1e300, "", "it's", "a\\b'", "$1 ? :x %s -- /*", 'x"y', b"\x00\xff'",
    datetime.date(2024, 2, 29), "ü€", np.int64(3), np.float64(0.25),
]  # fmt: skip
TYPED: list[Any] = [True, datetime.datetime(2024, 1, 2, 3, 4, 5, 678), datetime.time(1, 2, 3), Decimal("-1.50"), [1, 2]]


def test_duckdb_gives_back_what_was_given() -> None:
    connection = duckdb.connect()
    for value in [*VALUES, *TYPED]:
        found = connection.execute(with_values("SELECT ?", [value], "duckdb")).fetchall()[0][0]
        assert found == value, value


def test_sqlite_gives_back_what_was_given() -> None:
    connection = sqlite3.connect(":memory:")
    for value in VALUES:
        found = connection.execute(with_values("SELECT :v", {"v": value}, "sqlite")).fetchone()[0]
        assert found == (str(value) if isinstance(value, datetime.date) else value)
    with pytest.raises(SQLError, match="no lists"):
        with_values("SELECT ?", [[1]], "sqlite")


def test_postgres_gives_back_what_was_given(address: str) -> None:
    import psycopg

    with psycopg.connect(address) as connection:
        for setting in ("on", "off"):
            connection.execute(f"SET standard_conforming_strings = {setting}")
            for value in [*VALUES, *TYPED]:
                found = connection.execute(with_values("SELECT %s", [value], "postgres")).fetchone()  # type: ignore[call-overload]
                assert found is not None and found[0] == value


@pytest.mark.parametrize(("sql", "params", "dialect", "want"), [
    ("SELECT ?, '?', \"?\", x /* ? */ -- ?\n, ?", [1, 2], "duckdb", "SELECT 1, '?', \"?\", x /* ? */ -- ?\n, 2"),
    ("SELECT $2, $1, a$1, $$ ? $1 $$", ["x", 2], "duckdb", "SELECT 2, 'x', a$1, $$ ? $1 $$"),
    ("SELECT $v + $v, x::int", {"v": 3}, "duckdb", "SELECT 3 + 3, x::int"),
    ("SELECT ?2, ?1, [?], `?`", [1, 2], "sqlite", "SELECT 2, 1, [?], `?`"),
    ("SELECT :a, @b, $c", {"a": 1, "b": 2, "c": 3}, "sqlite", "SELECT 1, 2, 3"),
    ("SELECT %s, %(x)s", {"x": 1}, "postgres", None),
    ("SELECT x %% %s, '50%%', E'\\'%s', y::text", [2], "postgres", "SELECT x % 2, '50%', E'\\'%s', y::text"),
    ("SELECT %(n)s", {"n": None}, "postgres", "SELECT NULL"),
])  # fmt: skip
def test_marks(sql: str, params: Any, dialect: str, want: str | None) -> None:
    if want is None:
        with pytest.raises(SQLError, match="params must be a list"):
            with_values(sql, params, dialect)
        return
    assert with_values(sql, params, dialect) == want


@pytest.mark.parametrize(("sql", "params", "says"), [
    ("SELECT ?, ?", [1], "mark for value 2"),
    ("SELECT ?", [1, 2], "no mark for the parameter 2"),
    ("SELECT $x", {"y": 1}, "which params does not have"),
    ("SELECT $x", [1], "must be a dict"),
    ("SELECT 'a\0b'", ["a\0b"], "NUL|no mark"),
])  # fmt: skip
def test_mistakes(sql: str, params: Any, says: str) -> None:
    with pytest.raises(SQLError, match=says):
        with_values(sql, params, "duckdb")


def test_a_query_with_parameters(db: sharpdnf.ProbDB) -> None:
    found = db.sql("SELECT dst, prob() FROM edge WHERE src = ? ORDER BY dst LIMIT ?", [1, 1])
    assert len(found) == 1 and found.prob[0] == db.sql("SELECT dst FROM edge WHERE src = 1 ORDER BY dst").prob[0]
    with pytest.raises(TypeError, match="of type object"):
        db.sql("SELECT dst FROM edge WHERE src = ?", [object()])
