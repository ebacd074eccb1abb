"""Rows that Spark must not compute twice: Parquet files that are written once, and views over them.

A table of Spark has no fixed order and is computed anew whenever it is read, also when an executor dies in the middle
of a job. A row number must not change then, or a clause would mean another row. So rows are numbered while they are
written: ``monotonically_increasing_id()`` is (partition << 33) + place, and a view over the files closes the gaps.

The files lie in the checkpoint folder of the SparkContext, which all executors see, or, if there is none, in a
temporary folder of this machine, where all executors of ``local`` masters are.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.names import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILURES = (PySparkException, Py4JError)
LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark writes every refused query to these as well, a page of JSON each."""
PLACES = 33
"""How many bits of a number tell the place within its partition."""


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """A block in which PySpark does not write errors to standard error: they are raised, or expected."""
    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


class Store:
    """The files of one connection."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._folder = ""
        self._files: dict[str, str] = {}
        """The files under each view."""
        self._waiting: list[str] = []
        """Files without a view, which finished answers may still read."""
        self.unused: list[str] = []
        """Those of them that nobody reads any more. Whoever notices adds to it, in any thread."""

    def _place(self) -> str:
        """Where rows are stored: a folder that all executors see."""
        if not self._folder:
            context = self._session.sparkContext
            base = context._jsc.sc().getCheckpointDir()
            if base.isDefined():
                self._folder = f"{base.get()}/sharpdnf-{uuid.uuid4().hex}"
            elif not str(context.master).startswith("local"):
                raise SQLError(
                    "numbered rows are stored where all executors see them: name such a folder first, with "
                    "spark.sparkContext.setCheckpointDir('hdfs://...')"
                )
            else:
                self._own = tempfile.TemporaryDirectory(prefix="sharpdnf_spark_")
                self._folder = Path(self._own.name).as_uri()
        return self._folder

    def keep(self, name: str, rows: DataFrame, number: str | None) -> None:
        """Writes rows and makes a view over them; column ``number`` gets values without gaps, as an INT."""
        self.sweep()
        place = f"{self._place()}/{name}-{uuid.uuid4().hex[:8]}"
        if number is not None:
            rows = rows.withColumn(number, rows[number].cast("bigint"))
        rows.write.parquet(place)
        stored = self._session.read.schema(rows.schema).parquet(place)
        if number is not None:
            stored = self._without_gaps(stored, number)
        stored.createOrReplaceTempView(name)
        self._files[name] = place

    def _without_gaps(self, stored: DataFrame, number: str) -> DataFrame:
        """The number of a row: its place in its partition, and the rows of the partitions before."""
        counted = stored.groupBy(stored[number].bitwiseAND(~((1 << PLACES) - 1)).alias("part")).count().toArrow()
        sizes = {part >> PLACES: count for part, count in zip(*(c.to_pylist() for c in counted.columns), strict=True)}
        before, total = [], 0
        for part in range(max(sizes, default=0) + 1):
            before.append(total)
            total += sizes.get(part, 0)
        name = column(number).sql("spark")
        parts = f"array({', '.join(f'{n}L' for n in before)})"
        dense = (
            f"CAST(element_at({parts}, CAST(shiftright({name}, {PLACES}) AS INT) + 1) "
            f"+ ({name} & {(1 << PLACES) - 1}L) AS INT) AS {name}"
        )
        return stored.selectExpr(*(dense if c == number else column(c).sql("spark") for c in stored.columns))

    def leave(self, name: str) -> str:
        """Takes the files from under a view, which somebody drops: they stay until they are ``unused``."""
        place = self._files.pop(name)
        self._waiting.append(place)
        return place

    def sweep(self) -> None:
        """Removes the files whose view was dropped, and what is unused."""
        catalog: Any = self._session._jsparkSession.sessionState().catalog()
        for name in list(self._files):
            if not catalog.getRawTempView(name).isDefined():
                self._remove(self._files.pop(name))
        while self.unused:
            place = self.unused.pop()
            self._waiting.remove(place)
            self._remove(place)

    def _remove(self, place: str) -> None:
        path = self._session._jvm.org.apache.hadoop.fs.Path(place)  # type: ignore[union-attr]
        with contextlib.suppress(*FAILURES):
            path.getFileSystem(self._session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
