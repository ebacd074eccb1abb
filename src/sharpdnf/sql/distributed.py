"""Answers that stay a Spark DataFrame: the lineage is sorted by answer across the cluster and counted where it lies.

1. lineage: the rewritten query, kept (``persist``) so that it runs once;
2. shuffle: ``repartitionByRange`` by the answer's columns, sorted within partitions, so that the clauses of an answer
   stand together in one partition and the answers are in order from partition to partition;
3. survey: how many answers each partition has, which gives every answer its number;
4. counting (``partitions.py``), when somebody looks.

Nothing is collected but the survey, one row for each partition.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF, IntArray
from sharpdnf.engines.front import make_seed
from sharpdnf.errors import SQLError
from sharpdnf.sql.absorbed import LEAST
from sharpdnf.sql.answers import COLUMNS, Answers, unique_names
from sharpdnf.sql.backends.protocol import Clauses, Placed
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.emit.lineage import Formulas, Rows, build
from sharpdnf.sql.emit.stages import Decision
from sharpdnf.sql.outermost import PROB
from sharpdnf.sql.partitions import RESULT, Work
from sharpdnf.sql.plan import Plan
from sharpdnf.sql.ways import LINEAGE, Route

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from sharpdnf.sql.database import ProbDB

MOST = "spark.sharpdnf.mostClauses", 10_000_000
"""The setting of Spark that limits the clauses of one answer, and its usual value."""
MANY = "spark.sharpdnf.manyClauses", 1_000_000
"""That from which on superfluous clauses are dropped before the rest is moved, if an answer has so many."""
Stage = Callable[[str], None]


def place(backend: Any, plan: Plan) -> Placed:
    """The lineage rows of a plan whose stages have run, as a frame that outlives the stages' names."""
    frame = backend.lineage_frame(plan.sql, plan.shape)
    stages = [step.name for step in plan.steps if not isinstance(step, Decision)]
    return Placed(frame, tuple(backend.files.leave(name) for name in stages))


def count_in_place(
    database: ProbDB, plan: Plan, placed: Placed, known: Rows, events: Events | None, parts: IntArray | None,
    options: Options, stage: Stage = lambda _: None,
) -> SparkAnswers:  # fmt: skip
    """Runs the lineage query and gives every answer its number; counts at once only if there is a time limit.

    Where the numbers in lineage columns stand for ``events``, these are sent to the executors, as are the events
    ``parts`` that must hold by the evidence. ``stage`` is told when the lineage, the shuffle and the survey are done.
    """
    backend: Any = database.backend
    session, reported = backend.connection, backend.reported
    shown = plan.shape.names()[0]
    found = placed.frame.persist()
    most, many = (int(session.conf.get(name, str(usual))) for name, usual in (MOST, MANY))
    ends = None if options.timeout is None else time.time() + options.timeout
    seeded = options.replace(rng=make_seed(options.rng), deadline=None, progress=None, threads=None)
    told_events = None if events is None else session.sparkContext.broadcast((events, parts))
    work = Work(plan.shape, sent(session, known), seeded, ends, most, told_events, min(many, LEAST))
    try:
        with reported():
            rows = found
            if found.count() >= many and _largest(found, shown) >= many:
                rows = found.mapInArrow(work.lightened, found.schema)
            stage("lineage")
            number = int(session.conf.get("spark.sql.shuffle.partitions"))
            order = [rows[name].asc_nulls_last() for name in shown]
            rows = rows.repartitionByRange(number, *order).sortWithinPartitions(*order).persist()
            rows.count()
            stage("shuffle")
            told = rows.mapInArrow(work.survey, "part long, answers long, large string").collect()
            stage("survey")
    finally:
        found.unpersist()
    large = [row.large for row in told if row.large is not None]
    if large:
        rows.unpersist()
        raise SQLError(
            f"the answer ({large[0]}) has more than {most} clauses, too many for one executor: set {MOST[0]} higher if "
            "its memory allows (about 100 bytes a clause), or ask for less, such as one more column in the select list"
        )
    sizes = np.zeros(max((row.part for row in told), default=-1) + 1, dtype=np.int64)
    for row in told:
        sizes[row.part] = row.answers
    work = replace(work, firsts=tuple(np.concatenate([[0], np.cumsum(sizes)]).tolist()))
    answers = SparkAnswers(database, plan, rows, work, known, database.readings, events)
    weakref.finalize(answers, backend.files.unused.extend, placed.files)
    if ends is not None:
        answers.counted()
    return answers


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


class SparkAnswers(Answers):
    """Answers as a DataFrame of Spark. Everything but ``spark()`` collects them: ``prob``, ``arrow()``, ``show()``."""

    def __init__(
        self, database: ProbDB, plan: Plan, rows: DataFrame, work: Work, known: Rows, reading: int,
        events: Events | None,
    ) -> None:  # fmt: skip
        self._events = events
        self.labels, self._plan, self._lineage_rows, self._work = plan.labels, plan, rows, work
        self._database, self._known, self._reading = database, known, reading
        self._expected, self.route, self.given = [], Route(LINEAGE), False
        self._formulas = None  # type: ignore[assignment]
        self._frame: DataFrame | None = None
        self._table: pa.Table | None = None

    def counted(self) -> DataFrame:
        """The answers with their numbers and what was counted, under our own names of columns."""
        if self._frame is None:
            from pyspark.sql import types as t

            kinds = [t.LongType(), *[t.DoubleType()] * 3, *[t.StringType()] * 2, t.LongType(), t.BooleanType()]
            shown = self._plan.shape.names()[0]
            fields = [self._lineage_rows.schema[name] for name in shown]
            fields += [t.StructField(name, kind) for name, kind in zip(RESULT, kinds, strict=True)]
            self._frame = self._lineage_rows.mapInArrow(self._work.count, t.StructType(fields)).persist()
            if self._work.ends is not None:
                self._frame.count()
        return self._frame

    def spark(self) -> DataFrame:
        """The answers as a DataFrame of Spark, one row per answer: its columns, then prob, lower, upper, guarantee,
        engine, num_clauses. They are counted where the lineage is, when the frame is first read."""
        frame = self.counted()
        columns = [f"_c{place}" for place in self._plan.places]
        names = unique_names(self.labels)
        chosen = [frame[c].alias(name) for c, name in zip(columns, names, strict=True)]
        return self._sorted(frame).select(*chosen, *(frame[name] for name in COLUMNS))

    def _sorted(self, frame: DataFrame) -> DataFrame:
        if not self._plan.order:
            return frame
        keys = []
        for key in self._plan.order:
            column = frame["prob" if key.column == PROB else key.column]
            down = column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
            up = column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()
            keys.append(down if key.descending else up)
        return frame.orderBy(*keys, frame["_number"])

    def _here(self) -> pa.Table:
        """All answers, collected."""
        if self._table is None:
            backend: Any = self._database.backend
            frame = self.counted()
            self._table = backend.collected(self._sorted(frame) if self._plan.order else frame.orderBy("_number"))
        return self._table

    @property
    def counts(self) -> Counts:  # type: ignore[override]
        table = self._here()
        prob, lower, upper = (table.column(name).to_numpy() for name in ("prob", "lower", "upper"))
        guarantee, engine = (np.array(table.column(n).to_pylist(), dtype=object) for n in ("guarantee", "engine"))
        return Counts(prob, lower, upper, guarantee, engine, np.array(table.column("_met").to_pylist(), dtype=bool))

    @property
    def _values(self) -> list[pa.ChunkedArray]:  # type: ignore[override]
        return [self._here().column(f"_c{place}") for place in self._plan.places]

    @property
    def num_clauses(self) -> Any:
        return self._here().column("num_clauses").to_numpy()

    def __repr__(self) -> str:
        return f"SparkAnswers({', '.join(self.labels)}; prob, lower, upper; spark() is a DataFrame)"

    def _clauses(self, index: int) -> Clauses:
        """The clauses of one answer, fetched from where they are."""
        self._check(index)
        number = self._here().column("_number")[index].as_py()
        work = replace(self._work, wanted=number)
        backend: Any = self._database.backend
        table = backend.collected(self._lineage_rows.mapInArrow(work.clauses, "rows array<int>"))
        clauses = table.column("rows").to_pylist()
        ends = np.cumsum([0, *(len(clause) for clause in clauses)]).astype(np.int64)
        return Clauses(ends, np.array([2 * row for clause in clauses for row in clause], dtype=np.int32))

    def _formula(self, index: int) -> tuple[DNF, Any]:
        clauses = self._clauses(index)
        formulas: Formulas = build(clauses, np.array([0, len(clauses)]), self._known)
        return self._renumbered(formulas.batch[0], formulas.row_of_var)

    def _circuit(self, index: int) -> tuple[Circuit, IntArray] | None:
        if self._events is None:
            return None
        clauses, events = self._clauses(index), self._events.branch()
        gates = events.gates.clauses(clauses, events.gate_of)
        output = events.gates.one_of(np.array([0, len(clauses)]), gates)
        return events.gates.circuit(output, self._known)

    def unpersist(self) -> None:
        """Frees what the executors keep of these answers; they cannot be looked at any more if they were not
        collected."""
        self._lineage_rows.unpersist()
        if self._frame is not None:
            self._frame.unpersist()
