"""Queries that analysts write over record linkage, sensors, networks, sales and facts: what the worlds say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from sql_servers import Database
from sql_worlds import Row, Table, World, create, declared, differences, plain, played, refill

from sharpdnf.sql import ProbDB

TEXT = (Path(__file__).parent / "sql" / "analysts.sql").read_text()
LINES = [line for line in TEXT.splitlines() if not line.startswith("--")]
QUERIES = [query.strip() for query in "\n".join(LINES).split(";\n") if query.strip()]


def database_of_analysts() -> World:
    """Few rows, so that all worlds of every table can be listed."""
    text = ("varchar", "varchar")
    return World(
        {
            "person": Table(("id", "name", "city"), [(1, "ann", "Bonn"), (2, "bob", "Bonn"), (3, "cy", "Kiel")],
                            types=("integer", *text)),
            "match": Table(("a", "b", "score"), [(1, 2, 90), (1, 3, 60), (2, 3, 40)], [0.9, 0.5, 0.25]),
            "reading": Table(("room", "hour", "celsius"), [("x", 1, 19), ("x", 2, 26), ("y", 1, 22), ("y", 2, 23)],
                             [0.5, 0.75, 0.9, 0.25], types=("varchar", "integer", "integer")),
            "link": Table(("a", "b"), [(1, 2), (2, 3), (3, 1), (1, 3)], [0.5, 0.5, 0.25, 0.75]),
            "sale": Table(("shop", "item", "amount"),
                          [("A", "tea", 10), ("A", "cup", 20), ("B", "tea", 15), ("B", "jam", 5)],
                          [0.5, 0.9, 0.75, 0.25], types=(*text, "integer")),
            "fact": Table(("subject", "relation", "object"),
                          [("ann", "lives in", "Bonn"), ("ann", "lives in", "Kiel"), ("ann", "works in", "Kiel"),
                           ("Bonn", "part of", "NRW")],
                          [0.6, 0.4, 0.5, 0.9], types=(*text, "varchar")),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def analysts() -> Iterator[tuple[Database, World, ProbDB]]:
    database, world = Database("duckdb"), database_of_analysts()
    create(database, world)
    yield database, world, declared(database, world)
    database.close()


def worlds_say(database: Database, world: World, sql: str) -> dict[Row, float]:
    """The probability of every row, by the worlds of the tables that a query names."""
    named = World({n: t for n, t in world.tables.items() if t.prob is not None and re.search(rf"\b{n}\b", sql)})
    found: dict[Row, float] = defaultdict(float)
    for weight in played(database, named):
        for row in {tuple(plain(v) for v in row) for row in database.ask(sql)}:
            found[row] += weight
    refill(database, named)
    return found


def test_there_are_enough_queries_of_every_kind() -> None:
    """At least 104 different ones, at least 15 about each of the five tables."""
    assert len(set(QUERIES)) == len(QUERIES) >= 104
    for table in ("match", "reading", "link", "sale", "fact"):
        assert len([sql for sql in QUERIES if re.search(rf"\b{table}\b", sql)]) >= 15, table


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_analysts_are_answered_as_the_worlds_say(analysts: tuple[Database, World, ProbDB], number: int) -> None:
    database, world, db = analysts
    sql = QUERIES[number]
    want = worlds_say(database, world, sql)
    answers = db.sql(sql, aggregates="rows")
    assert answers.met and set(answers.counts.guarantee) <= {"exact"}, answers.plan()
    rows = answers.arrow().select(range(len(answers.labels))).to_pylist()
    got = dict(zip([tuple(plain(v) for v in row.values()) for row in rows], answers.prob.tolist(), strict=True))
    assert len(got) == len(rows), "an answer came twice"
    assert not differences(got, want), answers.plan()
