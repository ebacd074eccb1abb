"""Conditions over sums: the states that rows lead to, and what has too many of them."""

from __future__ import annotations

import pytest

import sharpdnf


@pytest.fixture
def sales() -> sharpdnf.ProbDB:
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 2 AS g, 2.0 ** i AS x, 0.1 * i AS f, 0.5 AS p FROM range(60) r(i)")
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
