"""Lineage on Spark, sorted by answer across the cluster: what is counted where it lies.

1. lineage: the rewritten query, kept (``persist``) so that it runs once;
2. shuffle: ``repartitionByRange`` by the answer's columns, sorted within partitions, so that the clauses of an answer
   stand together in one partition and the answers are in order from partition to partition; a few rows go to one;
3. survey: one row for each partition, such as how many answers it has. Nothing else is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.protocol import Placed
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.emit.stages import Decision
from sharpdnf.sql.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

MOST = "spark.sharpdnf.mostClauses", 10_000_000
"""The setting of Spark that limits the clauses of one answer, and its usual value."""
MANY = "spark.sharpdnf.manyClauses", 1_000_000
"""That from which on superfluous clauses are dropped before the rest is moved, if an answer has so many."""
FEW = 10_000
"""Rows that one partition sorts faster than Spark finds out how to spread them."""
Stage = Callable[[str], None]
"""Is told when the lineage, the shuffle and the survey are done."""
Partition = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
"""What is done with the rows of a partition, on an executor."""


def place(backend: Any, plan: Plan) -> Placed:
    """The lineage rows of a plan whose stages have run, as a frame that outlives the stages' names."""
    frame = backend.lineage_frame(plan.sql, plan.shape)
    stages = [step.name for step in plan.steps if not isinstance(step, Decision)]
    names = [*stages, *(name for name, _ in plan.numbered)]
    return Placed(frame, tuple(backend.files.leave(name) for name in names))


def setting(session: Any, named: tuple[str, int]) -> int:
    """The value of one of our settings of Spark."""
    return int(session.conf.get(named[0], str(named[1])))


def sorted_by_answer(
    backend: Any, found: DataFrame, shown: list[str], survey: tuple[Partition, str], lighten: Partition | None,
    stage: Stage = lambda _: None,
) -> tuple[DataFrame, list[Any]]:  # fmt: skip
    """(the rows of a lineage query sorted by answer, what the survey tells of each partition).

    ``survey`` comes with its columns, one of which, ``large``, names an answer that is too large. ``lighten`` drops
    superfluous clauses of a partition before the rows are moved, which is done if an answer has many.
    """
    session = backend.connection
    many = setting(session, MANY)
    found = found.persist()
    try:
        with backend.reported():
            rows, count = found, found.count()
            if lighten is not None and count >= many and _largest(found, shown) >= many:
                rows = found.mapInArrow(lighten, found.schema)
            stage("lineage")
            order = [rows[name].asc_nulls_last() for name in shown]
            if count < FEW:
                rows = rows.coalesce(1).sortWithinPartitions(*order).persist()
            else:
                number = int(session.conf.get("spark.sql.shuffle.partitions"))
                rows = rows.repartitionByRange(number, *order).sortWithinPartitions(*order).persist()
                rows.count()
            stage("shuffle")
            told = rows.mapInArrow(*survey).collect()
            stage("survey")
    finally:
        found.unpersist()
    large = [row.large for row in told if row.large is not None]
    if large:
        rows.unpersist()
        raise SQLError(
            f"the answer ({large[0]}) has more than {setting(session, MOST)} clauses, too many for one executor: set "
            f"{MOST[0]} higher if its memory allows (about 100 bytes a clause), or ask for less, such as one more "
            "column in the select list"
        )
    return rows, told


def _largest(found: DataFrame, shown: list[str]) -> int:
    """How many clauses the largest answer has; they are counted where they are, and only the numbers moved."""
    row = found.groupBy(*shown).count().agg({"count": "max"}).first()
    assert row is not None, "an aggregate has one row"
    return int(row[0] or 0)


KEPT: dict[int, tuple[Rows, Broadcast[Rows]]] = {}
"""The rows that were sent last, by the identity of the session."""


def sent(session: Any, known: Rows) -> Broadcast[Rows]:
    """The probabilities and blocks as executors read them; they are sent once for each reading of the tables."""
    kept = KEPT.get(id(session))
    if kept is None or kept[0] is not known or kept[1]._sc is not session.sparkContext:
        kept = KEPT[id(session)] = (known, session.sparkContext.broadcast(known))
    return kept[1]
