"""Playing worlds: what comes out is what the user's SQL gives in each, on three databases."""

from __future__ import annotations

import math

import pytest
from sql_servers import BACKENDS, Database
from sql_shapes import SHAPES, Shape
from sql_world_shapes import WORLD_SHAPES
from sql_worlds import (
    Row,
    World,
    create,
    declared,
    differences,
    expected_answers,
    plain,
    random_world,
    refill,
)

from sharpdnf.errors import SQLError, SQLTimeout
from sharpdnf.sql import Answers, ProbDB
from sharpdnf.sql.worlds import play as play_module
from sharpdnf.sql.worlds.stage import DuckDBStage, SQLiteStage

KINDS = [("duckdb", 0, 3), ("sqlite", 1, 3), ("sqlite", 2, 3), ("postgres", 3, 3)]


def shapes_on(kind: str, shapes: list[Shape]) -> list[Shape]:
    return [shape for shape in shapes if kind in shape.on]


def table_of(answers: Answers) -> dict[Row, float]:
    found: dict[Row, float] = {}
    for row in answers.arrow().to_pylist():
        key = tuple(plain(v) for v in list(row.values())[: len(answers.labels)])
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


def small(kind: str = "sqlite") -> tuple[Database, World, ProbDB]:
    database, world = Database(kind), random_world(1, 4)
    create(database, world)
    return database, world, declared(database, world)


QUERY = "SELECT a, rank() OVER (ORDER BY a) FROM e"


def test_drawn_intervals_hold_as_often_as_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 150 seeds times the answers: more misses than the binomial law allows with probability 1e-9 are a bug."""
    database, world, db = small()
    truth = expected_answers(database, world, [QUERY])[0]
    refill(database, world)
    monkeypatch.setattr(play_module, "MOST_LISTED", 0)
    delta, missed = 0.2, dict.fromkeys(truth, 0)
    for seed in range(150):
        answers = db.sql(QUERY, epsilon=0.15, delta=delta, rng=seed)
        assert answers.met and set(answers.counts.guarantee) == {"additive"}
        found = dict(zip(table_of(answers), zip(answers.counts.lower, answers.counts.upper, strict=True), strict=True))
        for row, prob in truth.items():
            low, high = found.get(row, (0.0, 0.15))  # what was never seen is estimated as 0
            missed[row] += not low - 1e-12 <= prob <= high + 1e-12
    most = next(k for k in range(151) if sum(math.comb(150, j) * delta**j * (1 - delta) ** (150 - j)
                                             for j in range(k + 1, 151)) < 1e-9)  # fmt: skip
    assert max(missed.values()) <= most < 75
    assert max(missed.values()) > 0, "so wide an interval could not fail"


def test_the_same_seed_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, db = small()
    monkeypatch.setattr(play_module, "MOST_LISTED", 0)
    first, second, third = (table_of(db.sql(QUERY, rng=seed, epsilon=0.2)) for seed in (1, 1, 2))
    assert first == second != third


def test_a_guarantee_that_drawn_worlds_cannot_give_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, db = small()
    for guarantee in ("exact", "relative", "bounds", "additive"):
        assert set(db.sql(QUERY, guarantee=guarantee).counts.guarantee) == {"exact"}
    monkeypatch.setattr(play_module, "MOST_LISTED", 0)
    for guarantee in ("exact", "relative", "bounds"):
        with pytest.raises(SQLError, match="additive"):
            db.sql(QUERY, guarantee=guarantee)
    with pytest.raises(SQLError, match="worlds"):
        db.sql(QUERY, engine="sampling")


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("reason", [KeyboardInterrupt(), SQLTimeout("late")])
def test_what_is_cut_short_keeps_what_it_knows(
    listed: bool, reason: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, world, db = small()
    truth = expected_answers(database, world, [QUERY])[0]
    refill(database, world)
    if not listed:
        monkeypatch.setattr(play_module, "MOST_LISTED", 0)
    played, one = [], SQLiteStage.play_one

    def stopped(self: SQLiteStage, number: int) -> None:
        if len(played) == 5:
            raise reason
        played.append(number)
        one(self, number)

    monkeypatch.setattr(SQLiteStage, "play_one", stopped)
    answers = db.sql(QUERY, rng=0, delta=1e-6)
    assert not answers.met and answers.num_worlds == 5  # type: ignore[attr-defined]
    assert set(answers.counts.guarantee) == {"bounds" if listed else "additive"}
    for (row, _), low, high in zip(table_of(answers).items(), answers.counts.lower, answers.counts.upper, strict=True):
        assert low - 1e-12 <= truth[row] <= high + 1e-12
    played[:] = range(5)
    with pytest.raises(type(reason)):  # not a single world is known
        db.sql(QUERY)


def test_worlds_that_the_database_mixes_up_are_played_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that got LATERAL wrong would be noticed: two worlds are compared with themselves alone."""
    _, _, db = small("duckdb")
    want, alone = table_of(db.sql(QUERY)), []
    one = DuckDBStage.play_one

    def counted(self: DuckDBStage, number: int) -> None:
        alone.append(number)
        one(self, number)

    monkeypatch.setattr(DuckDBStage, "play_one", counted)
    monkeypatch.setattr(DuckDBStage, "agrees", lambda self, world: False)
    assert table_of(db.sql(QUERY)) == pytest.approx(want) and len(alone) > 1


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_nothing_is_left_behind(kind: str) -> None:
    database, _, db = small(kind)
    rows = [database.ask(f"SELECT * FROM {name} ORDER BY 1, 2, 3") for name in ("e", "u", "r")]
    db.sql(QUERY)
    listed = {"duckdb": "SELECT table_name FROM duckdb_tables()", "sqlite": "SELECT name FROM sqlite_temp_schema"}
    names = {row[0] for row in database.ask(listed[kind])}
    assert not {name for name in names if "world" in name or "found" in name or "pairs" in name}
    assert rows == [database.ask(f"SELECT * FROM {name} ORDER BY 1, 2, 3") for name in ("e", "u", "r")]


def test_what_no_world_can_answer_is_refused(db: ProbDB) -> None:
    for sql, word in (
        ("SELECT src, random() FROM edge", "random"),
        ("SELECT src FROM edge TABLESAMPLE 10%", "sampling"),
        ("SELECT rowid FROM edge", "rowid"),
        ("SELECT *, p FROM edge QUALIFY row_number() OVER (ORDER BY src) = 1", "write the columns out"),
        ("SELECT src FROM query('SELECT src FROM edge')", "query"),
    ):
        with pytest.raises(SQLError, match=word):
            db.sql(sql)
