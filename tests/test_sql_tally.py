"""Conditions over sums: the states that rows lead to, and what has too many of them."""

from __future__ import annotations

import pytest

import sharpdnf


@pytest.fixture
def sales() -> sharpdnf.ProbDB:
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 2 AS g, 2.0 ** i AS x, 0.1 * i AS f, 0.5 AS p FROM range(50) r(i)")
    db = sharpdnf.connect(connection)
    db.uncertain("t", prob="p")
    return db


def test_too_many_sums_go_by_worlds(sales: sharpdnf.ProbDB) -> None:
    found = sales.sql("SELECT g FROM t GROUP BY g HAVING sum(x) > 1000", epsilon=0.2, rng=1)
    assert found.route is not None and found.route.way == "worlds" and "different values" in str(found.route)


def test_fractions_at_the_edge_go_by_worlds(sales: sharpdnf.ProbDB) -> None:
    found = sales.sql("SELECT g FROM t WHERE f < 0.8 GROUP BY g HAVING sum(f) >= 0.6", epsilon=0.2, rng=1)
    assert found.route is not None and found.route.way == "worlds" and "rounding" in str(found.route)


def test_independent_rows_have_sums_in_closed_form(sales: sharpdnf.ProbDB) -> None:
    found = sales.sql("SELECT g FROM t WHERE x < 64 GROUP BY g HAVING sum(x) > 20 ORDER BY g")
    assert set(found.counts.engine) == {"closed form"}
    # Even: 1, 4, 16 sum to more than 20 only with 16 and 4 and 1 (21): 1/8. Odd: 2, 8, 32: with 32 (1/2).
    assert found.prob.tolist() == pytest.approx([1 / 8, 1 / 2])


@pytest.mark.parametrize("condition", ["max(word) > max(other)", "max(large) > min(large)", "max(day) > min(day)"])
def test_what_a_double_does_not_hold_goes_by_worlds(condition: str) -> None:
    """As numbers '10' is above '9' and 2^53 + 1 is 2^53, and a date is none: texts, large numbers and dates differ."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (g INT, word VARCHAR, other VARCHAR, large BIGINT, day DATE, p DOUBLE)")
    connection.execute("INSERT INTO t VALUES (1, '10', '9', 9007199254740993, '2020-01-01', 0.5)")
    connection.execute("INSERT INTO t VALUES (1, '10', '9', 9007199254740992, '2020-01-02', 0.5)")
    db = sharpdnf.connect(connection)
    db.uncertain("t", prob="p")
    found = db.sql(f"SELECT g FROM t GROUP BY g HAVING {condition}")
    assert found.route is not None and found.route.way == "worlds"
    assert found.prob.tolist() == ([0.25] if "word" not in condition else [])


def test_texts_in_sqlite_are_no_numbers() -> None:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (g INT, x, p REAL)")
    connection.executemany("INSERT INTO t VALUES (1, ?, 0.5)", [("3",), (1,)])
    db = sharpdnf.connect(connection)
    db.uncertain("t", prob="p")
    found = db.sql("SELECT g FROM t GROUP BY g HAVING sum(x) > 2")
    assert found.route is not None and found.route.way == "worlds" and found.prob.tolist() == [0.5]
