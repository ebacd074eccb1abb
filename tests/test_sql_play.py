"""Playing worlds: what comes out is what the user's SQL gives in each, on three databases."""

from __future__ import annotations

import pytest
from sql_servers import BACKENDS, Database
from sql_shapes import SHAPES, Shape
from sql_world_shapes import WORLD_SHAPES
from sql_worlds import Row, create, declared, differences, expected_answers, plain, random_world

from sharpdnf.sql import Answers

KINDS = [("duckdb", 0, 3), ("sqlite", 1, 3), ("sqlite", 2, 3), ("postgres", 3, 3)]


def shapes_on(kind: str, shapes: list[Shape]) -> list[Shape]:
    return [shape for shape in shapes if kind in shape.on]


def table_of(answers: Answers) -> dict[Row, float]:
    found: dict[Row, float] = {}
    for row in answers.arrow().to_pylist():
        values = tuple(plain(v) for v in list(row.values())[: len(answers.labels)])
        key = tuple(repr(v) if isinstance(v, list | dict) else v for v in values)
        assert key not in found, f"the answer {key} came twice"
        found[key] = row["prob"]
    return found


def test_there_are_enough_shapes() -> None:
    assert len(WORLD_SHAPES) >= 70
    assert min(len(shapes_on(kind, WORLD_SHAPES)) for kind in BACKENDS) >= 50


@pytest.mark.parametrize(("kind", "seed", "rows"), KINDS)
def test_answers_are_those_of_the_worlds(kind: str, seed: int, rows: int, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(seed, rows)
    create(database, world)
    db = declared(database, world)
    shapes = shapes_on(kind, WORLD_SHAPES) + shapes_on(kind, SHAPES)[::4]
    got = [table_of(db.sql(shape.sql, way="worlds", aggregates="rows")) for shape in shapes]
    want = expected_answers(database, world, [shape.world or shape.sql for shape in shapes])
    database.close()
    wrong = [
        f"{shape.sql}\n    " + "\n    ".join(lines)
        for shape, a, b in zip(shapes, got, want, strict=True)
        if (lines := differences(a, b))
    ]
    assert not wrong, "\n".join(wrong)
