"""Closed forms against worlds, which play the query itself: the same distributions, group by group."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sql_servers import Database
from sql_worlds import create, declared, random_world

import sharpdnf
from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql.distributions import AggregateAnswers

NUMERIC = ("duckdb", "postgres")
SHAPES: list[tuple[str, tuple[str, ...]]] = [
    ("SELECT a, count(*) AS n FROM e GROUP BY a ORDER BY a", ("duckdb", "sqlite", "postgres")),
    ("SELECT count(*) AS n, sum(b) AS s, avg(b) AS m FROM e", ("duckdb", "sqlite", "postgres")),
    ("SELECT a, count(b) AS n, sum(b) AS s FROM e GROUP BY 1", ("duckdb", "sqlite", "postgres")),
    ("SELECT min(b) AS lo, max(b) AS hi FROM e", NUMERIC),
    ("SELECT a, min(b) AS lo, max(b) AS hi, avg(b) AS m FROM e GROUP BY a", NUMERIC),
    ("SELECT bool_and(b > 1) AS every_one, bool_or(b > 2) AS some FROM e", NUMERIC),
    ("SELECT count(*) FILTER (WHERE b > 1) AS n, sum(b) FILTER (WHERE a > 1) AS s FROM e", NUMERIC),
    ("SELECT k, count(*) AS n, sum(x) AS s FROM r GROUP BY k", ("duckdb", "sqlite", "postgres")),
    ("SELECT count(*) AS n, sum(x) AS s, max(x) AS hi, min(x) AS lo, avg(x) AS m FROM r", NUMERIC),
    ("SELECT s.y, count(*) AS n, sum(e.b) AS s FROM e JOIN s ON e.a = s.a GROUP BY s.y", ("duckdb", "sqlite")),
    ("SELECT sum(b - 2) AS s, sum(b * 0.1) AS d FROM e WHERE a IS NOT NULL", NUMERIC),
    ("SELECT count(*) AS n FROM e WHERE a > 100", ("duckdb", "sqlite", "postgres")),
    ("SELECT k, avg(x) AS m FROM r GROUP BY k", ("duckdb", "sqlite", "postgres")),
    ("SELECT count(x) AS n, sum(k) AS s FROM r WHERE x > 1", ("duckdb", "sqlite", "postgres")),
    ("SELECT count(*) AS n, sum(a) AS s FROM ve", ("duckdb", "sqlite", "postgres")),
]


def rows_of(answers: AggregateAnswers) -> dict[Any, dict[str, Any]]:
    keys = len(answers.labels)
    found = {}
    for row in answers.arrow().to_pylist():
        values = list(row.items())
        found[tuple(v for _, v in values[:keys])] = {
            k: math.nan if v is None else float(v) for k, v in values[keys:] if k not in ("guarantee", "engine")
        }
    return found


@pytest.mark.parametrize(("kind", "seed"), [("duckdb", 0), ("duckdb", 5), ("sqlite", 1), ("postgres", 2)])
def test_closed_forms_agree_with_worlds(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(seed, 4)
    create(database, world)
    db = declared(database, world)
    for sql, on in SHAPES:
        if kind not in on:
            continue
        closed, worlds = (db.sql(sql, way=way) for way in ("closed", "worlds"))
        assert isinstance(closed, AggregateAnswers) and isinstance(worlds, AggregateAnswers)
        a, b = rows_of(closed), rows_of(worlds)
        assert a.keys() == b.keys(), sql
        for key, values in a.items():
            assert values == pytest.approx(b[key], abs=1e-9, nan_ok=True), (sql, key)
        for spread in closed.spreads:
            for i in range(len(closed)):
                one, two = (r.distribution(i, spread.label).arrow().to_pydict() for r in (closed, worlds))
                same = [None if v is None else float(v) for v in two["value"]]
                assert [None if v is None else float(v) for v in one["value"]] == pytest.approx(same), sql
                assert one["prob"] == pytest.approx(two["prob"], abs=1e-9), sql
    database.close()


def test_rows_that_depend_on_each_other_go_to_worlds(db: sharpdnf.ProbDB) -> None:
    sql = "SELECT count(*) AS n FROM edge e JOIN edge f ON e.dst = f.src"
    with pytest.raises(UnsupportedSQL, match="independent"):
        db.sql(sql, way="closed")
    answers = db.sql(sql)
    assert answers.plan().way == "worlds"
    assert [way for way, _ in answers.plan().refusals] == ["lineage", "circuit", "closed", "network"]


def test_large_groups() -> None:
    """100,000 rows of one group: mean and variance of the count and the sum are those of independent rows."""
    rng = np.random.default_rng(0)
    p, x = rng.uniform(0.0, 1.0, 100_000), rng.integers(0, 3, 100_000)
    db = sharpdnf.connect()
    db.register("t", pa.table({"x": x, "p": p}), prob="p")
    row = db.sql("SELECT count(*) AS n, sum(x) AS s FROM t").arrow().to_pylist()[0]
    assert row["n_mean"] == pytest.approx(p.sum(), rel=1e-9)
    assert row["n_sd"] ** 2 == pytest.approx((p * (1 - p)).sum(), rel=1e-9)
    assert row["s_mean"] == pytest.approx((p * x).sum(), rel=1e-9)
    assert row["s_sd"] ** 2 == pytest.approx((p * (1 - p) * x**2).sum(), rel=1e-9)
    assert row["guarantee"] == "exact"
