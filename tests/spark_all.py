"""`make test-spark`: every query shape on Spark against DuckDB's possible worlds, and an executor that is killed."""

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
from sql_servers import Database
from sql_shapes import SHAPES
from sql_worlds import create, differences, exact_answers, expected_answers, random_world
from test_sql_spark import PATHS, graph

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql import connect


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as found:
        yield found


def test_every_shape_is_right_or_refused(session: Any) -> None:
    """The shapes of DuckDB whose SQL Spark reads too; what Spark refuses is counted, so that it cannot become all."""
    world = random_world(3, 3)
    database = Database("duckdb")
    create(database, world)
    shapes = [shape for shape in SHAPES if "duckdb" in shape.on]
    want = expected_answers(database, world, [shape.world or shape.sql for shape in shapes])
    wrong, refused = [], []
    with declared(session, world) as db:
        for shape, answers in zip(shapes, want, strict=True):
            try:
                lines = differences(exact_answers(db, shape.sql), answers)
            except Exception as error:  # every error is listed, with its query
                (refused if isinstance(error, UnsupportedSQL) else wrong).append(f"{shape.sql}\n    {error}")
                continue
            if lines:
                wrong.append(f"{shape.sql}\n    " + "\n    ".join(lines))
    database.close()
    print("\n".join(["refused:", *refused]))
    assert not wrong, "\n".join(wrong)
    assert len(refused) < len(shapes) // 4


def executors(java: int) -> list[int]:
    """The processes of a local cluster's executors under a driver."""
    found = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in found.splitlines()[1:]]
    return [int(pid) for pid, parent, args in rows if int(parent) == java and "CoarseGrainedExecutorBackend" in args]


def test_an_executor_that_dies_changes_no_answer() -> None:
    with spark_session("local-cluster[2,1,1024]", **{"spark.executor.memory": "1g"}) as session:
        db = connect(session)
        db.register("e", graph(), prob="p")
        duck = connect(duckdb.connect())
        duck.register("e", graph(), prob="p")
        want = duck.sql(PATHS, rng=7).arrow().to_pydict()
        java = int(session._jvm.java.lang.ProcessHandle.current().pid())
        killed: list[int] = []

        def kill() -> None:
            time.sleep(1.0)
            killed.append(executors(java)[0])
            os.kill(killed[0], signal.SIGKILL)

        answers = db.sql(PATHS, rng=7)
        killer = threading.Thread(target=kill)
        killer.start()
        got = answers.arrow().to_pydict()
        killer.join()
        assert killed and got == want
        assert db.sql(PATHS, rng=7).arrow().to_pydict() == want, "with the executors that are left"
