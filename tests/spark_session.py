"""A SparkSession for the tests and the tables of a world in it; tests skip, with a reason, where Spark cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sql_worlds import Table, World

from sharpdnf.errors import SQLError
from sharpdnf.sql import ProbDB, connect
from sharpdnf.sql.source import check_java


@contextmanager
def spark_session(master: str = "local[2]", **settings: str) -> Iterator[Any]:
    """A session of two shuffle partitions, without a page; it is stopped at the end.

    It does not compile its queries to Java, nor what Java interprets to the fastest code: over tiny tables both take
    longer than they save.
    """
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        check_java()
    except SQLError as error:
        pytest.skip(str(error))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for name, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **settings,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def fill(session: Any, name: str, table: Table) -> None:
    """Makes a table of a world a temporary view."""
    kinds = ", ".join(f"{column} int" for column in table.columns) + (", p double" if table.prob is not None else "")
    prob = table.prob or []
    rows = [(*row, *prob[i : i + 1]) for i, row in enumerate(table.rows)]
    session.createDataFrame(rows, kinds).coalesce(1).createOrReplaceTempView(name)


def declared(session: Any, world: World) -> ProbDB:
    """A ProbDB over the tables and views of a world."""
    for view in ("ve", "vv", "vs"):
        session.catalog.dropTempView(view)
    for name, table in world.tables.items():
        fill(session, name, table)
    for view in world.views:
        session.sql(view.replace("CREATE VIEW", "CREATE TEMP VIEW"))
    db = connect(session)
    for name, table in world.tables.items():
        if table.prob is not None:
            db.uncertain(name, prob="p", block=table.block)
    return db
