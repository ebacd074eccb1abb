"""Negation, outer joins and conditions over aggregates, against the original SQL in every world."""

from __future__ import annotations

import pytest
from sql_negations import ABSENCE, AGGREGATES, SUBQUERIES
from sql_servers import Database
from sql_shapes import Shape
from sql_worlds import counted_answers, create, declared, differences, exact_answers, expected_answers, random_world

WORLDS = [("duckdb", 0, 3), ("sqlite", 1, 3), ("sqlite", 2, 4), ("postgres", 3, 3)]


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    return request.param, request.getfixturevalue("address") if request.param == "postgres" else None


def check_shapes(kind: tuple[str, str | None], seed: int, rows: int, shapes: list[Shape]) -> None:
    """Lineage and counts of every shape are those of the worlds."""
    world = random_world(seed, rows)
    database = Database(*kind)
    create(database, world)
    db = declared(database, world)
    mine = [shape for shape in shapes if kind[0] in shape.on]
    got = [(exact_answers(db, shape.sql), counted_answers(db, shape.sql)) for shape in mine]
    want = expected_answers(database, world, [shape.world or shape.sql for shape in mine])
    database.close()
    wrong = [
        f"{shape.sql}\n    " + "\n    ".join(lines)
        for shape, ways, right in zip(mine, got, want, strict=True)
        for way in ways
        if (lines := differences(way, right))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("kind", "seed", "rows"), WORLDS, indirect=["kind"])
def test_absence_is_that_of_the_worlds(kind: tuple[str, str | None], seed: int, rows: int) -> None:
    check_shapes(kind, seed, rows, ABSENCE)


@pytest.mark.parametrize(("kind", "seed", "rows"), WORLDS, indirect=["kind"])
def test_conditions_over_aggregates_are_those_of_the_worlds(kind: tuple[str, str | None], seed: int, rows: int) -> None:
    check_shapes(kind, seed, rows, AGGREGATES)


@pytest.mark.parametrize(("kind", "seed", "rows"), WORLDS, indirect=["kind"])
def test_subqueries_that_stand_for_values_are_those_of_the_worlds(
    kind: tuple[str, str | None], seed: int, rows: int
) -> None:
    check_shapes(kind, seed, rows, SUBQUERIES)
