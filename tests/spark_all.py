"""`make test-spark`: every query shape on Spark against DuckDB's possible worlds, and an executor that is killed.

SPARK_EVERY=1 asks for every shape; by default it is each tenth one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
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
from sharpdnf.sql import connect

EVERY = int(os.environ.get("SPARK_EVERY", "10"))


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as found:
        yield found


@pytest.mark.parametrize("shapes", [SHAPES, ABSENCE, AGGREGATES], ids=["positive", "absence", "aggregates"])
def test_every_shape_is_right_or_refused(session: Any, shapes: list[Shape]) -> None:
    """The shapes of DuckDB whose SQL Spark reads too; what Spark refuses is counted, so that it cannot become all."""
    world = random_world(3, 3)
    database = Database("duckdb")
    create(database, world)
    mine = [shape for shape in shapes if "duckdb" in shape.on][::EVERY]
    want = expected_answers(database, world, [shape.world or shape.sql for shape in mine])
    wrong, refused = [], []
    with declared(session, world) as db:
        for shape, answers in zip(mine, want, strict=True):
            if db.backend.describe(shape.sql) is None:
                refused.append(f"{shape.sql}\n    it is no SQL of Spark's")
                continue
            try:
                lines = differences(counted_answers(db, shape.sql), answers)
            except Exception as error:  # every error is listed, with its query
                (refused if isinstance(error, UnsupportedSQL) else wrong).append(f"{shape.sql}\n    {error}")
                continue
            if lines:
                wrong.append(f"{shape.sql}\n    " + "\n    ".join(lines))
    database.close()
    print("\n".join(["refused:", *refused]))
    assert not wrong, "\n".join(wrong)
    assert len(refused) < len(mine) // 4


def executors(java: int) -> list[int]:
    """The processes of a local cluster's executors under a driver."""
    found = subprocess.run(["ps", "-ewwo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()[1:]]
    return [int(pid) for pid, parent, args in rows if int(parent) == java and "CoarseGrainedExecutorBackend" in args]


def test_an_executor_that_dies_changes_no_answer() -> None:
    """Also that of a negation, whose candidates are numbered: an executor that took its place must find them so."""
    with spark_session("local-cluster[2,1,1024]", **{"spark.executor.memory": "1g"}) as session:
        db, duck = connect(session), connect(duckdb.connect())
        for database in (db, duck):
            database.register("e", graph(), prob="p")
        java = int(session._jvm.java.lang.ProcessHandle.current().pid())
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
