"""Worlds in other processes give what they give here, to the last digit, or are played here."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sharpdnf.sql import ProbDB, connect
from sharpdnf.sql.worlds import play

joblib = pytest.importorskip("joblib")
RANKED = """
SELECT e.a, row_number() OVER (ORDER BY e.a, e.b, c.t) AS place, c.t
FROM e JOIN other.c ON c.n = e.a JOIN v ON v.n = e.a WHERE e.b < 8
"""
"""A window function has no lineage; certain rows come from a table in another schema and from a view."""


def database(kind: str = "BIGINT") -> ProbDB:
    connection = duckdb.connect()
    connection.execute(
        f"CREATE SCHEMA other; CREATE TABLE other.c AS SELECT range::{kind} n, 'x' || range t FROM range(5)"
    )
    connection.execute("CREATE VIEW v AS SELECT n FROM other.c WHERE n < 4")
    db = connect(connection)
    rng = np.random.default_rng(0)
    rows = {"a": rng.integers(0, 5, 30), "b": rng.integers(0, 9, 30), "p": rng.random(30)}
    db.register("e", pa.table(rows), prob="p")
    return db


def played(kind: str = "BIGINT", **asked: Any) -> dict[str, list[Any]]:
    found = database(kind).sql(RANKED, rng=5, epsilon=0.08, **asked)
    assert found.plan().way == "worlds"
    return dict(found.arrow().to_pydict())


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each piece came back from another process."""
    seen: list[bool] = []
    original = play.play_elsewhere

    def noted(*given: Any) -> Any:
        for place, table in original(*given):
            seen.append(table is not None)
            yield place, table

    monkeypatch.setattr(play, "play_elsewhere", noted)
    return seen


def test_worlds_are_the_same_in_any_number_of_processes(elsewhere: list[bool]) -> None:
    here = played()
    assert not elsewhere
    done: list[tuple[int, int]] = []
    for workers in (1, 2):
        with joblib.parallel_config(backend="loky", n_jobs=workers):
            assert played(progress=lambda *seen: done.append(seen)) == here
    assert len(elsewhere) > 8 and all(elsewhere)
    assert done[-1][0] == done[-1][1]


def test_what_cannot_be_sent_is_played_here(elsewhere: list[bool]) -> None:
    """A HUGEINT is another type after it was Arrow."""
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert played("HUGEINT") == played()
    assert all(elsewhere) and len(elsewhere) == 8, "those of the second query alone"


def test_a_time_limit_keeps_the_worlds_that_were_played() -> None:
    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = database().sql(RANKED, rng=5, epsilon=0.01, timeout=3.0)
    assert found.counts.lower.min() >= 0.0 and (found.met or found.counts.guarantee[0] == "additive")
