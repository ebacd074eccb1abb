"""The ways to an answer together: where several can answer one query they agree with each other and with the worlds.

Random queries of every construct, a fixed slice of what ``make fuzz`` draws; and a few that are known to have several
ways, so that it is noticed if one is lost.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from sql_servers import BACKENDS, Database
from sql_wide import disagreements, wide_query
from sql_worlds import World, create, declared, random_world

from sharpdnf.sql import ProbDB
from sharpdnf.sql.distributions import AggregateAnswers
from sharpdnf.sql.ways import CIRCUIT, LINEAGE, NETWORK, WORLDS

SEVERAL = [
    ("SELECT e.a, u.c FROM e JOIN u ON e.a = u.a", (LINEAGE, CIRCUIT, WORLDS)),
    ("SELECT a FROM e UNION SELECT c FROM u INTERSECT SELECT y FROM s", (LINEAGE, CIRCUIT, WORLDS)),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM r WHERE x = s.y) OR a IN (SELECT a FROM e)",
     (LINEAGE, CIRCUIT, WORLDS)),
    ("WITH w AS (SELECT a, b FROM e) SELECT x.a FROM w x JOIN w y ON x.b = y.a", (LINEAGE, CIRCUIT, WORLDS)),
    ("SELECT a FROM e EXCEPT SELECT c FROM u", (CIRCUIT, WORLDS)),
    ("SELECT a FROM s WHERE a NOT IN (SELECT x FROM r)", (CIRCUIT, WORLDS)),
    ("SELECT s.a, e.b FROM s LEFT JOIN e ON e.a = s.a", (CIRCUIT, WORLDS)),
    ("SELECT a FROM e GROUP BY a HAVING sum(b) > 2 AND count(*) < 3", (CIRCUIT, WORLDS)),
    ("SELECT a FROM s WHERE y > (SELECT avg(b) FROM e)", (CIRCUIT, WORLDS)),
    ("WITH RECURSIVE w(n) AS (SELECT 1 UNION SELECT e.b FROM w JOIN e ON e.a = w.n) SELECT n FROM w",
     (NETWORK, WORLDS)),
]  # fmt: skip
RANDOM = {"duckdb": 6, "sqlite": 30, "postgres": 12}


def database_of(kind: str, request: pytest.FixtureRequest) -> Database:
    return Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about queries that read no uncertain table
        yield


@pytest.mark.parametrize("kind", BACKENDS)
def test_several_ways_to_one_answer(kind: str, request: pytest.FixtureRequest) -> None:
    database = database_of(kind, request)
    wrong, ways = disagreements(database, random_world(4, 3), [sql for sql, _ in SEVERAL])
    database.close()
    assert not wrong, "\n".join(wrong)
    assert [tuple(found) for found in ways] == [expected for _, expected in SEVERAL]


@pytest.mark.parametrize("kind", BACKENDS)
def test_random_queries_of_every_construct(kind: str, request: pytest.FixtureRequest) -> None:
    """One world each; a query that the database itself does not take, such as of types that do not fit, is left out."""
    database = database_of(kind, request)
    world = random_world(11, 3)
    create(database, world)
    queries = []
    for seed in range(RANDOM[kind]):
        try:
            database.ask(wide_query(seed, kind))
        except Exception:
            continue
        queries.append(wide_query(seed, kind))
    database.close()
    database = database_of(kind, request)
    wrong, ways = disagreements(database, world, queries)
    database.close()
    assert not wrong, "\n".join(wrong)
    assert len(queries) >= 0.8 * RANDOM[kind] and all(ways), [q for q, w in zip(queries, ways, strict=True) if not w]


def test_what_the_database_does_not_take_rewritten_goes_another_way(address: str) -> None:
    """PostgreSQL takes a bare NULL in a table of candidates for a text, which does not go with numbers."""
    database = Database("postgres", address)
    sql = "SELECT a, b FROM e EXCEPT SELECT s.a, NULL FROM s LEFT JOIN u ON s.a = u.a"
    wrong, ways = disagreements(database, random_world(3, 3), [sql])
    database.close()
    assert not wrong and ways[0], wrong


def exact(db: ProbDB, sql: str, way: str, column: str) -> dict[object, float]:
    """Value -> probability of the rows that a query can give, or of one distribution."""
    answers = db.sql(sql, way=way)
    assert isinstance(answers, AggregateAnswers) and len(answers) == 1
    spread = answers.distribution(0, column).arrow().to_pydict()
    return dict(zip(spread["value"], spread["prob"], strict=True))


@pytest.fixture
def counted() -> Iterator[tuple[Database, World, ProbDB]]:
    database, world = Database("duckdb"), random_world(5, 4)
    create(database, world)
    yield database, world, declared(database, world)
    database.close()


def test_distributions_by_closed_forms_by_worlds_as_rows_and_by_circuits(
    counted: tuple[Database, World, ProbDB],
) -> None:
    _, _, db = counted
    sql = "SELECT count(*) AS n FROM e"
    closed, worlds = (exact(db, sql, way, "n") for way in ("closed", "worlds"))
    rows = db.sql(sql, aggregates="rows")
    listed = dict(zip(rows.arrow().column("n").to_pylist(), rows.prob.tolist(), strict=True))
    asked = {}
    for value in closed:
        found = db.sql(f"SELECT 1 AS one WHERE (SELECT count(*) FROM e) = {value}", way="circuit", guarantee="exact")
        asked[value] = float(found.prob.sum())
    assert len(closed) >= 3
    for other in (worlds, listed, asked):
        assert closed == pytest.approx(other)


def test_expected_values_by_linearity_by_closed_forms_and_by_worlds(counted: tuple[Database, World, ProbDB]) -> None:
    _, _, db = counted
    linear = db.sql("SELECT expected_count() AS n, expected_sum(b) AS s FROM e", way="lineage")[0]
    closed = db.sql("SELECT count(*) AS n, sum(b) AS s FROM e", way="closed")[0]
    worlds = db.sql("SELECT count(*) AS n, sum(b) AS s FROM e", way="worlds")[0]
    for name in ("n_mean", "s_mean", "n_sd", "s_sd", "s_null"):
        assert closed[name] == pytest.approx(worlds[name]), name
    assert linear["n"] == pytest.approx(closed["n_mean"])
    assert linear["s"] == pytest.approx(closed["s_mean"] * (1.0 - closed["s_null"]))
