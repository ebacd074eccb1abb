"""Expected values that the database adds up by itself, against the mean over all worlds."""

from __future__ import annotations

import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import create, declared, expected_answers, random_world, refill

from sharpdnf.sql.summed import SummedAnswers

SHAPES = [
    ("{}(*), {}(b) FROM e", True),
    ("{}(*), {}(e.b - u.c) FROM e JOIN u ON e.a = u.a", True),
    ("{}(*), {}(x) FROM r WHERE x > 1", True),
    ("{}(*), {}(e.b * s.y) FROM e, s, r WHERE e.a = s.a AND r.k = e.b", True),
    ("{}(*), {}(b) FROM ve", False),
    ("{}(*), {}(q.b) FROM e q JOIN e w ON q.a = w.b", False),
    ("{}(*), {}(b) FROM e WHERE EXISTS (SELECT 1 FROM u WHERE u.a = e.a)", False),
    ("{}(*), {}(q.x) FROM r q JOIN r w ON q.k = w.k", False),
    ("{}(*), {}(b) FROM e WHERE a > 100", True),
]


@pytest.mark.parametrize("kind", BACKENDS)
def test_expected_values_are_the_means_of_the_worlds(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(7, 4)
    create(database, world)
    db = declared(database, world)
    truth = expected_answers(database, world, [f"SELECT {s.format('count', 'sum')}" for s, _ in SHAPES])
    refill(database, world)
    for (shape, pushed), worlds in zip(SHAPES, truth, strict=True):
        answers = db.sql(f"SELECT {shape.format('expected_count', 'expected_sum')}")
        assert isinstance(answers, SummedAnswers) == pushed, shape
        row = answers.arrow().to_pylist()[0]
        for i, name in enumerate(("expected_count", "expected_sum")):
            mean = sum(prob * float(values[i] or 0) for values, prob in worlds.items())
            assert row[name] == pytest.approx(mean, abs=1e-9), shape
            assert row[f"{name}_lower"] - 1e-9 <= mean <= row[f"{name}_upper"] + 1e-9
    database.close()
