"""Recursion over uncertain links as a network: every answer against the query in every possible world."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import Row, Table, World, create, expected_answers, plain, refill

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql import Answers, ProbDB, connect

STEP = "SELECT e.b FROM w JOIN e ON e.a = w.n"
BOTH = "SELECT CASE WHEN e.a = w.n THEN e.b ELSE e.a END FROM w JOIN e ON e.a = w.n OR e.b = w.n"
SHAPES = [
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT n FROM w",
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT w.n AS reached FROM w ORDER BY reached DESC",
    f"WITH RECURSIVE w(n) AS (SELECT 2 UNION {STEP}) SELECT 1 FROM w WHERE n = 3",
    f"WITH RECURSIVE w(n) AS (SELECT 2 UNION {STEP}) SELECT 'yes' AS found FROM w WHERE 2 = w.n",
    f"WITH RECURSIVE w(n) AS (SELECT 9 UNION {STEP}) SELECT n FROM w WHERE n = 3",
    "WITH RECURSIVE w AS (SELECT 1 AS n UNION SELECT b FROM e, w WHERE n = a) SELECT DISTINCT n FROM w",
    "WITH RECURSIVE w(n) AS (SELECT 3 UNION SELECT x.a FROM e x CROSS JOIN w AS y WHERE (y.n = x.b)) SELECT n FROM w",
]
BOTH_WAYS = [
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {BOTH}) SELECT n FROM w",
    f"WITH RECURSIVE w(n) AS (SELECT 3 UNION {BOTH}) SELECT 1 FROM w WHERE n = 1",
]
OTHERS = [
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT count(*) FROM w",
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT n FROM w WHERE n > 1",
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT 1 FROM w",
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP} AND e.b > 1) SELECT n FROM w",
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT w.n FROM w JOIN e ON e.a = w.n",
    f"WITH RECURSIVE w(n) AS (SELECT 1 UNION {STEP}) SELECT n FROM w ORDER BY n LIMIT 1",
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT e.b + 0 FROM w JOIN e ON e.a = w.n) SELECT n FROM w",
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT e.b FROM w JOIN e ON e.a < w.n) SELECT n FROM w",
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT e.b FROM w JOIN v AS e ON e.a = w.n) SELECT n FROM w",
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT c.b FROM w JOIN c ON c.a = w.n) SELECT w.n FROM w, e",
]


def links(rng: random.Random, *, nulls: bool, names: str | None = None) -> Table:
    """Seven links between few nodes, with loops, copies and probabilities of 0 and 1."""
    nodes: list[Any] = [1, 2, 3, 4] if names is None else list(names)
    pairs = [tuple(rng.choice([*nodes, *([None] if nulls else [])]) for _ in range(2)) for _ in range(7)]
    prob = [rng.choice([0.0, 1.0, 0.5, 0.3, 0.9]) for _ in pairs]
    return Table(("a", "b"), pairs, prob, types=None if names is None else ("text", "text"))


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    kind = request.param
    found = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    yield found
    found.close()


def opened(database: Database, world: World) -> ProbDB:
    refill(database, world)
    db = connect(database.connection)
    db.uncertain("e", prob="p")
    return db


def table_of(answers: Answers) -> dict[Row, float]:
    rows = [tuple(plain(v) for v in list(row.values())[: len(answers.labels)]) for row in answers.arrow().to_pylist()]
    return dict(zip(rows, answers.counts.prob.tolist(), strict=True))


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_the_worlds(database: Database, seed: int, nulls: bool) -> None:
    world = World({"e": links(random.Random(seed), nulls=nulls)})
    create(database, world)
    queries = SHAPES + ([] if nulls else BOTH_WAYS)
    expected = expected_answers(database, world, queries)
    with opened(database, world) as db:
        for query, wanted in zip(queries, expected, strict=True):
            answers = db.sql(query)
            assert answers.route.way == "network", str(answers.route)
            assert set(answers.counts.guarantee) <= {"exact"}
            possible = {row: p for row, p in table_of(answers).items() if p > 0.0}
            assert possible == pytest.approx({row: p for row, p in wanted.items() if p > 0.0}, abs=1e-9), query


def test_texts_are_nodes_too(database: Database) -> None:
    world = World({"e": links(random.Random(5), nulls=False, names="xyz")})
    create(database, world)
    query = "WITH RECURSIVE w(n) AS (SELECT 'x' UNION SELECT e.b FROM w JOIN e ON e.a = w.n) SELECT n FROM w"
    (expected,) = expected_answers(database, world, [query])
    with opened(database, world) as db:
        answers = db.sql(query)
        assert answers.route.way == "network"
        assert {r: p for r, p in table_of(answers).items() if p > 0} == pytest.approx(
            {r: p for r, p in expected.items() if p > 0}, abs=1e-9
        )


def test_other_recursion_goes_by_worlds_and_is_right(database: Database) -> None:
    world = World(
        {"e": links(random.Random(3), nulls=False), "c": Table(("a", "b"), [(1, 2)])},
        ["CREATE VIEW v AS SELECT b AS a, a AS b FROM e"],
    )
    create(database, world)
    expected = expected_answers(database, world, OTHERS)
    with opened(database, world) as db:
        for query, wanted in zip(OTHERS, expected, strict=True):
            answers = db.sql(query, aggregates="rows")
            assert answers.route.way == "worlds", query
            assert "network" in dict(answers.route.refusals)
            assert table_of(answers) == pytest.approx(dict(wanted), abs=1e-9), query


@pytest.mark.parametrize("how", ["block", "types", "collation", "null"])
def test_data_that_are_no_network_go_by_worlds(how: str) -> None:
    database = Database("sqlite")
    types = {"types": ("integer", "text"), "collation": ("text collate nocase",) * 2}.get(how, ("integer", "integer"))
    rows: list[Row] = [(1, 2), (2, 3), (1, 3)]
    query, block = BOTH_WAYS[0], None
    if how == "null":
        rows.append((None, 3))
    if how == "block":
        query, block = SHAPES[0], ("a",)
    if how == "types":
        query = SHAPES[0]
    if how == "collation":
        rows = [("x", "y"), ("Y", "z"), ("x", "q")]
        query = "WITH RECURSIVE w(n) AS (SELECT 'x' UNION SELECT e.b FROM w JOIN e ON e.a = w.n) SELECT n FROM w"
    world = World({"e": Table(("a", "b"), rows, [0.5, 0.4, 0.3, 0.2][: len(rows)], block, types)})
    create(database, world)
    (expected,) = expected_answers(database, world, [query])
    refill(database, world)
    with connect(database.connection) as db:
        db.uncertain("e", prob="p", block=block)
        answers = db.sql(query)
        assert (answers.route.way, answers.route.refusals[-1][0]) == ("worlds", "network")
        shown = {str(row[0]): p for row, p in table_of(answers).items()}  # mixed types are shown as texts
        assert shown == pytest.approx({str(row[0]): p for row, p in expected.items()}, abs=1e-9)
        with pytest.raises(UnsupportedSQL):
            db.sql(query, way="network")


def test_many_links_are_answered_within_their_promise() -> None:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        "CREATE TABLE e AS SELECT (i * 7919) % 400 AS a, (i * 104729 + i // 400) % 400 AS b, 0.4 AS p "
        "FROM range(3000) t(i)"
    )
    with connect(connection) as db:
        db.uncertain("e", prob="p")
        query = f"WITH RECURSIVE w(n) AS (SELECT 0 UNION {STEP}) SELECT n FROM w"
        one = db.sql(f"{query} WHERE n = 7", delta=1e-6, rng=1)
        every = db.sql(query, epsilon=0.05, delta=1e-6, rng=1)
        assert one.route.way == every.route.way == "network"
        assert one.counts.guarantee[0] == "relative" and set(every.counts.guarantee) <= {"additive", "exact"}
        row = every.arrow().to_pylist().index(next(r for r in every.arrow().to_pylist() if r["n"] == 7))
        assert every.counts.prob[row] == pytest.approx(one.counts.prob[0], rel=0.1, abs=0.05)
        assert (every.counts.lower <= every.counts.prob).all() and (every.counts.prob <= every.counts.upper).all()


def test_changed_rows_are_seen() -> None:
    database = Database("sqlite")
    create(database, World({"e": Table(("a", "b"), [(1, 2)], [0.5])}))
    with connect(database.connection) as db:
        db.uncertain("e", prob="p")
        assert table_of(db.sql(SHAPES[0])) == pytest.approx({(1,): 1.0, (2,): 0.5})
        database.run("UPDATE e SET p = 0.25")
        database.run("INSERT INTO e VALUES (2, 3, 0.5)")
        assert table_of(db.sql(SHAPES[0])) == pytest.approx({(1,): 1.0, (2,): 0.25, (3,): 0.125})
