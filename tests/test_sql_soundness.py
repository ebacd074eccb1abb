"""Every answer's probability against the original SQL in every possible world, on three databases."""

from __future__ import annotations

import pytest
from sql_servers import BACKENDS, Database
from sql_shapes import REFUSED, SHAPES, Shape
from sql_worlds import create, declared, differences, exact_answers, expected_answers, random_world

from sharpdnf.errors import SQLError
from sharpdnf.sql import connect

# DuckDB plans each of the thousands of tiny queries for milliseconds, so its worlds are fewer.
WORLDS = [("duckdb", 0, 3), ("sqlite", 1, 4), ("sqlite", 2, 4), ("postgres", 0, 3), ("postgres", 3, 3)]

REPORTED = ("DuckDB: ", "SQLite: ", "PostgreSQL: ")
"""Errors of the databases' own: what must be refused is refused before they see it."""


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    return request.param, request.getfixturevalue("address") if request.param == "postgres" else None


def shapes_on(kind: str, shapes: list[Shape]) -> list[Shape]:
    return [shape for shape in shapes if kind in shape.on]


def test_there_are_enough_shapes() -> None:
    assert min(len(shapes_on(kind, SHAPES)) for kind in BACKENDS) >= 50


@pytest.mark.parametrize(("kind", "seed", "rows"), WORLDS, indirect=["kind"])
def test_answers_are_those_of_the_worlds(kind: tuple[str, str | None], seed: int, rows: int) -> None:
    world = random_world(seed, rows)
    database = Database(*kind)
    create(database, world)
    db = declared(database, world)
    shapes = shapes_on(kind[0], SHAPES)
    got = [exact_answers(db, shape.sql) for shape in shapes]
    want = expected_answers(database, world, [shape.world or shape.sql for shape in shapes])
    database.close()
    wrong = [
        f"{shape.sql}\n    " + "\n    ".join(lines)
        for shape, a, b in zip(shapes, got, want, strict=True)
        if (lines := differences(a, b))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", BACKENDS, indirect=True)
def test_unsound_shapes_are_refused(kind: tuple[str, str | None]) -> None:
    world = random_world(0)
    database = Database(*kind)
    create(database, world)
    db = declared(database, world)
    passed = []
    for shape in shapes_on(kind[0], REFUSED):
        try:
            exact_answers(db, shape.sql)
        except SQLError as error:
            assert len(str(error)) > 20 and not str(error).startswith(REPORTED), shape.sql
        else:
            passed.append(shape.sql)
    database.close()
    assert not passed, "\n".join(passed)


def test_postgres_relations_that_share_rows(address: str) -> None:
    """Partitions, materialised views, functions and a table made anew are the ways rows get other names."""
    database = Database("postgres", address)
    for sql in (
        "CREATE TABLE m (k int, p float8) PARTITION BY RANGE (k)",
        "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (10)",
        "INSERT INTO m VALUES (1, 0.5)",
        "CREATE MATERIALIZED VIEW copied AS SELECT k FROM m",
        "CREATE FUNCTION hidden() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM world.m'",
        'CREATE TABLE "M" (k int)',
        'INSERT INTO "M" VALUES (7)',
    ):
        database.run(sql)
    db = connect(database.connection)
    db.uncertain("m", prob="p")
    for sql in ("SELECT k FROM m1", "SELECT k FROM copied", "SELECT hidden()", "SELECT m FROM m"):
        with pytest.raises(SQLError):
            db.sql(sql)
    with pytest.raises(SQLError):
        db.uncertain("m1", prob="p")
    assert db.sql('SELECT k FROM "M"').prob.tolist() == [1.0]
    assert db.sql("SELECT k FROM M").prob.tolist() == [0.5]
    database.run("DROP TABLE m CASCADE")
    database.run("CREATE TABLE m AS SELECT 2 AS k, 0.25::float8 AS p")
    assert db.sql("SELECT k FROM m").prob.tolist() == [0.25]
    database.close()
