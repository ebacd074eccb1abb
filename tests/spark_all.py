"""`make test-spark`: every query shape on Spark against DuckDB's possible worlds, and an executor that is killed.

It runs every shape on one machine with two threads (``local[2]``) and each fifth on a small cluster of two executors
(``local-cluster``), where the same jobs go to other processes; one session each. SPARK_EVERY=10 asks for each tenth
shape on the one and each fiftieth on the other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from spark_session import declared, spark_session
from sql_negations import ABSENCE, AGGREGATES
from sql_servers import Database
from sql_shapes import SHAPES, Shape
from sql_worlds import counted_answers, create, differences, expected_answers, random_world
from test_sql_spark import NEGATED, PATHS, graph

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql import ProbDB, connect, distributed_lineage

EVERY = int(os.environ.get("SPARK_EVERY", "1"))
FEWER = 5
"""The cluster is asked for each fifth of these shapes."""
PIECE = 20
"""Shapes of one test: few enough that progress is seen and a failure is not lost among hundreds."""
FAMILIES = {
    name: [shape for shape in shapes if "duckdb" in shape.on][::EVERY]
    for name, shapes in {"positive": SHAPES, "absence": ABSENCE, "aggregates": AGGREGATES}.items()
}
PIECES = [
    pytest.param(shapes[first : first + PIECE], id=f"{name}-{first}")
    for name, shapes in FAMILIES.items()
    for first in range(0, len(shapes), PIECE)
]
ALONE, CLUSTER = "local[2]", "local-cluster[2,1,1024]"
MASTERS = {ALONE: {"spark.sql.adaptive.enabled": "false"}, CLUSTER: {"spark.executor.memory": "1g"}}
"""Adaptive execution cuts a query into more jobs, which over tiny tables cost most; the cluster keeps it."""


@dataclass
class Place:
    """A session, the tables of a world in it, and what was refused of how many shapes."""

    session: Any
    db: ProbDB
    asked: int = 0
    refused: int = 0


@pytest.fixture(scope="module", params=list(MASTERS))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with spark_session(request.param, **MASTERS[request.param]) as session, declared(session, random_world(3, 3)) as db:
        yield Place(session, db)


@pytest.mark.parametrize("shapes", PIECES)
def test_every_shape_is_right_or_refused(place: Place, shapes: list[Shape]) -> None:
    """The shapes of DuckDB whose SQL Spark reads too."""
    if place.session.sparkContext.master == CLUSTER:
        shapes = shapes[::FEWER]
    world = random_world(3, 3)
    database = Database("duckdb")
    create(database, world)
    want = expected_answers(database, world, [shape.world or shape.sql for shape in shapes])
    database.close()
    wrong, refused = [], []
    for shape, answers in zip(shapes, want, strict=True):
        if place.db.backend.describe(shape.sql) is None:
            refused.append(f"{shape.sql}\n    it is no SQL of Spark's")
            continue
        try:
            lines = differences(counted_answers(place.db, shape.sql), answers)
        except Exception as error:  # every error is listed, with its query
            (refused if isinstance(error, UnsupportedSQL) else wrong).append(f"{shape.sql}\n    {error}")
            continue
        if lines:
            wrong.append(f"{shape.sql}\n    " + "\n    ".join(lines))
    place.asked, place.refused = place.asked + len(shapes), place.refused + len(refused)
    print("\n".join(["refused:", *refused]))
    assert not wrong, "\n".join(wrong)


def test_few_shapes_were_refused(place: Place) -> None:
    """It stands behind the shapes: a back end that refused everything would have passed."""
    assert 4 * place.refused <= place.asked, f"{place.refused} of {place.asked}"


def executors(java: int) -> list[int]:
    """The processes of a local cluster's executors under a driver."""
    found = subprocess.run(["ps", "-ewwo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()[1:]]
    return [int(pid) for pid, parent, args in rows if int(parent) == java and "CoarseGrainedExecutorBackend" in args]


def test_an_executor_that_dies_changes_no_answer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a negation, whose candidates are numbered: an executor that took its place must find them so."""
    if place.session.sparkContext.master != CLUSTER:
        pytest.skip("one process: there is no executor to kill")
    monkeypatch.setattr(distributed_lineage, "FEW", 0)  # else one executor alone would have all rows
    with connect(place.session) as db, connect(duckdb.connect()) as duck:
        for database in (db, duck):
            database.register("e", graph(), prob="p")
        java = int(place.session._jvm.java.lang.ProcessHandle.current().pid())
        for sql in (PATHS, NEGATED):
            want = duck.sql(sql, rng=7).prob
            answers = db.sql(sql, rng=7)
            killed: list[int] = []

            def kill(killed: list[int] = killed) -> None:
                time.sleep(1.0)
                killed.append(executors(java)[0])
                os.kill(killed[0], signal.SIGKILL)

            killer = threading.Thread(target=kill)
            killer.start()
            got = answers.prob
            killer.join()
            assert killed and got == pytest.approx(want, rel=1e-12)
        assert db.sql(PATHS, rng=7).prob.tolist() == duck.sql(PATHS, rng=7).prob.tolist(), "with those that are left"
