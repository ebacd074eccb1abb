"""prob() and expected values where there is no lineage, against the user's SQL in every possible world."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import World, create, declared, expected_answers, plain, played, random_world, refill

import sharpdnf
from sharpdnf.errors import SQLError
from sharpdnf.sql import ProbDB
from sharpdnf.sql.worlds import play as play_module

MEANS = [
    "FROM e",
    "FROM e GROUP BY a",
    "FROM e JOIN u ON e.a = u.a",
    "FROM e JOIN s ON e.a = s.a GROUP BY s.y",
    "FROM r GROUP BY k",
    "FROM (SELECT a, b FROM e ORDER BY a, b LIMIT 2) d",
    "FROM s LEFT JOIN e ON e.a = s.a GROUP BY s.a",
]
COLUMNS = {"FROM e GROUP BY a": "a", "FROM e JOIN s ON e.a = s.a GROUP BY s.y": "s.y", "FROM r GROUP BY k": "k",
           "FROM s LEFT JOIN e ON e.a = s.a GROUP BY s.a": "s.a"}  # fmt: skip


def opened(kind: str, request: pytest.FixtureRequest, seed: int) -> tuple[Database, World, ProbDB]:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(seed, 3)
    create(database, world)
    return database, world, declared(database, world)


def means(database: Database, world: World, queries: list[tuple[str, int]]) -> list[dict[Any, list[float]]]:
    """Of each query with so many keys: group -> the mean of each aggregate over the worlds where it is not NULL; of
    count and sum, the first two: over all worlds."""
    total: list[dict[Any, Any]] = [defaultdict(lambda: np.zeros(5)) for _ in queries]
    there: list[dict[Any, Any]] = [defaultdict(lambda: np.zeros(5)) for _ in queries]
    for weight in played(database, world):
        for number, (sql, keys) in enumerate(queries):
            for row in database.ask(sql):
                key, values = row[:keys], row[keys:]
                total[number][key] += weight * np.array([float(v or 0) for v in values])
                there[number][key] += weight * np.array([v is not None for v in values])
    refill(database, world)
    with np.errstate(invalid="ignore"):
        return [
            {key: [*sums[key][:2], *(sums[key][2:] / some[key][2:])] for key in sums}
            for sums, some in zip(total, there, strict=True)
        ]


AGGREGATES = "{0}count(*) AS n, {0}sum({1}) AS s, {0}avg({1}) AS m, {0}min({1}) AS lo, {0}max({1}) AS hi"


@pytest.mark.parametrize(("kind", "seed"), [("duckdb", 0), ("sqlite", 1), ("postgres", 2)])
def test_expected_values_are_the_means_of_the_worlds(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    database, world, db = opened(kind, request, seed)
    asked = []
    for shape in MEANS:
        key, x = COLUMNS.get(shape), "x" if " r " in shape else "b"
        listed = [f"SELECT {f'{key}, ' if key else ''}{AGGREGATES.format(p, x)} {shape}" for p in ("", "expected_")]
        asked.append((*listed, int(key is not None)))
    truth, ways = means(database, world, [(sql, keys) for sql, _, keys in asked]), set()
    for (_, sql, keys), want in zip(asked, truth, strict=True):
        answers = db.sql(sql)
        ways.add(answers.plan().way)
        found = answers.arrow().select(range(keys + 5)).to_pylist()
        got = {tuple(row.values())[:keys]: list(row.values())[keys:] for row in found}
        assert got.keys() == want.keys(), sql
        for group, values in got.items():
            numbers = [np.nan if v is None else v for v in values]
            assert numbers == pytest.approx(want[group], abs=1e-9, nan_ok=True), (sql, group)
        assert set(answers.counts.guarantee) == {"exact"}
    assert "worlds" in ways and ("closed" in ways or kind == "sqlite")
    database.close()


def test_drawn_worlds_give_a_standard_error_and_no_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    db = sharpdnf.connect()
    db.register("t", pa.table({"x": [1.0, 2.0, 4.0], "p": [0.5, 0.5, 0.5]}), prob="p")
    exact = db.sql("SELECT expected_max(x) AS m, expected_sum(x) AS s FROM t")[0]
    assert exact["m"] == pytest.approx((4 * 4 + 2 * 2 + 1) / 7) and exact["s"] == pytest.approx(3.5)
    monkeypatch.setattr(play_module, "MOST_LISTED", 0)
    sql = "SELECT expected_max(x) AS m, expected_sum(x) AS s FROM t"
    row = db.sql(sql, way="worlds", epsilon=0.03, rng=0)[0]
    for name in ("m", "s"):
        assert 0 < row[f"{name}_stderr"] < 0.2 and abs(row[name] - exact[name]) < 6 * row[f"{name}_stderr"]
        assert row[f"{name}_lower"] is None and row[f"{name}_upper"] is None
    assert row["s_stderr"] == pytest.approx(np.sqrt(21 / 4 / db.sql("SELECT sum(x) FROM t", way="worlds", epsilon=0.03,
        rng=0).spreads[0].draws[0]), rel=0.1)  # fmt: skip


def test_extremes_of_large_groups_are_found_by_sorting() -> None:
    rng = np.random.default_rng(0)
    x, p = rng.uniform(0, 1, 20_000), rng.uniform(0, 1e-3, 20_000)
    db = sharpdnf.connect()
    db.register("t", pa.table({"x": x, "p": p}), prob="p")
    row = db.sql("SELECT expected_max(x) AS m, expected_min(x) AS n FROM t")[0]
    some = 1 - np.prod(1 - p)
    for name, order in (("m", np.argsort(-x)), ("n", np.argsort(x))):
        before = np.concatenate([[1.0], np.cumprod(1 - p[order])[:-1]])
        assert row[name] == pytest.approx((x * 1.0)[order] @ (p[order] * before) / some, rel=1e-9)


CORE = "SELECT a, rank() OVER (ORDER BY a{}) AS n{} FROM e{}"


@pytest.mark.parametrize("kind", BACKENDS)
def test_prob_chooses_among_finished_answers(kind: str, request: pytest.FixtureRequest) -> None:
    database, world, db = opened(kind, request, 1)
    nulls = " NULLS LAST"
    truth = expected_answers(database, world, [CORE.format(nulls, "", "")])[0]
    refill(database, world)

    def ask(items: str, rest: str) -> list[dict[str, Any]]:
        answers = db.sql(CORE.format(nulls, items, rest))
        assert answers.plan().way == "worlds"
        return answers.arrow().to_pylist()

    def rows(found: list[dict[str, Any]]) -> dict[Any, float]:
        return {(plain(row["a"]), row["n"]): row["prob"] for row in found}

    assert rows(ask(", prob()", "")) == pytest.approx(truth)
    cut = sorted(truth.values())[len(truth) // 2] * 0.999
    assert rows(ask("", f" HAVING prob() > {cut}")) == pytest.approx({k: v for k, v in truth.items() if v > cut})
    best = [row["prob"] for row in ask("", " ORDER BY prob() DESC LIMIT 3")]
    assert best == pytest.approx(sorted(truth.values(), reverse=True)[:3])
    middle = [row["prob"] for row in ask("", " ORDER BY prob() LIMIT 2 OFFSET 1")]
    assert middle == pytest.approx(sorted(truth.values())[1:3])
    for row in ask(", 1 - prob() AS q, a + prob() AS v", ""):
        assert row["q"] == pytest.approx(1 - row["prob"])
        assert row["v"] is None if row["a"] is None else row["v"] == pytest.approx(row["a"] + row["prob"])
    order = [(row["n"], -row["prob"]) for row in ask(", prob()", " ORDER BY n, prob() DESC")]
    assert order == sorted(order)
    database.close()


def test_prob_beside_aggregates() -> None:
    db = sharpdnf.connect()
    db.register("t", pa.table({"g": [1, 1, 2, 3], "x": [1, 2, 3, 4], "p": [0.5, 0.5, 0.4, 0.9]}), prob="p")
    for way in ("closed", "worlds"):
        sql = "SELECT g, sum(x) AS s, prob() AS q FROM t GROUP BY g HAVING prob() > 0.5 ORDER BY prob() DESC"
        found = db.sql(sql, way=way)
        assert [(row["g"], row["q"]) for row in found] == [(3, pytest.approx(0.9)), (1, pytest.approx(0.75))]
        assert found.distribution(1, "s").table.column("value").to_pylist() == [1, 2, 3]
        assert found[1]["s_mean"] == pytest.approx(2.0)


def test_drawn_answers_near_a_cut_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    db = sharpdnf.connect()
    db.register("t", pa.table({"g": [1, 2, 3], "p": [0.05, 0.5, 0.95]}), prob="p")
    monkeypatch.setattr(play_module, "MOST_LISTED", 0)
    found = db.sql("SELECT g, prob() FROM t HAVING prob() >= 0.001", way="worlds", rng=0)
    assert [row["near_cut"] for row in found] == [True, False, False]


def test_where_prob_may_not_stand() -> None:
    db = sharpdnf.connect()
    db.register("t", pa.table({"g": [1, 2], "x": ["u", "v"], "p": [0.5, 0.5]}), prob="p")
    for sql, word in (
        ("SELECT g, rank() OVER (ORDER BY g) FROM t WHERE prob() > 0.5", "HAVING prob"),
        ("SELECT expected_avg(g) + 1 FROM t", "alone"),
        ("SELECT expected_avg(x) FROM t", "avg"),
        ("SELECT expected_max(x) FROM t", "no mean"),
        ("SELECT expected_avg(g) FROM t GROUP BY x", "select what is grouped by"),
        ("SELECT DISTINCT x, expected_avg(g) FROM t GROUP BY x", "DISTINCT"),
        ("SELECT expected_min(g) FROM t HAVING prob() > 0.5", "certain"),
        ("SELECT x, count(*) AS n, prob() FROM t GROUP BY x ORDER BY n", "distribution"),
    ):
        with pytest.raises(SQLError, match=word):
            db.sql(sql)
