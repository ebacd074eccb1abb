"""Answers that stay a Spark DataFrame: each is counted where its lineage lies (``distributed_lineage.py``).

Counting (``partitions.py``) happens when somebody looks; which answers are shown, ``distributed_choice.py`` decides.
Nothing is collected but what a choice among the answers needs.
"""

from __future__ import annotations

import time
import weakref
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.dnf import DNF, IntArray
from sharpdnf.engines.front import make_seed
from sharpdnf.errors import SQLError
from sharpdnf.sql.absorbed import LEAST
from sharpdnf.sql.answers import COLUMNS, Answers, unique_names
from sharpdnf.sql.backends.protocol import Clauses, Placed
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.distributed_choice import NEAR, collected_answers, counts_in, kept_with, shown_answers, with_choice
from sharpdnf.sql.distributed_lineage import MANY, MOST, Stage, sent, setting, sorted_by_answer
from sharpdnf.sql.emit.circuit_batch import Circuits
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.emit.lineage import Formulas, Rows, build
from sharpdnf.sql.expected import Expected, Several
from sharpdnf.sql.partitions import RESULT, Work
from sharpdnf.sql.plan import Plan
from sharpdnf.sql.ways import LINEAGE, Route

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sharpdnf.sql.database import ProbDB
    from sharpdnf.sql.module import Lineage

FETCHED = "spark.sharpdnf.mostFetched", 1_000_000
"""The setting of Spark that limits how many clauses are brought here at once, and its usual value."""
SURVEY = "part long, answers long, large string, several long, most long"


def count_in_place(
    database: ProbDB, plan: Plan, placed: Placed, known: Rows, events: Events | None, parts: IntArray | None,
    options: Options, stage: Stage = lambda _: None,
) -> SparkAnswers:  # fmt: skip
    """Runs the lineage query and gives every answer its number; counts at once only if there is a time limit, or if the
    k best are asked for.

    Where the numbers in lineage columns stand for ``events``, these are sent to the executors, as are the events
    ``parts`` that must hold by the evidence. ``stage`` is told when the lineage, the shuffle and the survey are done.
    """
    backend: Any = database.backend
    session = backend.connection
    ends = None if options.timeout is None else time.time() + options.timeout
    seeded = options.replace(rng=make_seed(options.rng), deadline=None, progress=None, threads=None)
    told_events = None if events is None else session.sparkContext.broadcast((events, parts))
    work = Work(
        plan.shape, sent(session, known), seeded, ends, setting(session, MOST), told_events,
        min(setting(session, MANY), LEAST), expected=plan.expected,
    )  # fmt: skip
    lighten = None if plan.expected else work.lightened  # the same clause twice may be two rows of the result
    shown = plan.shape.names()[0]
    rows, told = sorted_by_answer(backend, placed.frame, shown, (work.survey, SURVEY), lighten, stage)
    work = _surveyed(work, told)
    answers = SparkAnswers(database, plan, rows, work, known, database.readings, events)
    answers.choose(options)
    weakref.finalize(answers, backend.files.unused.extend, placed.files)
    if ends is not None:
        answers.counted()
    return answers


def _surveyed(work: Work, told: list[Any]) -> Work:
    """The work, with the number of the first answer of each partition and what expected values must know."""
    sizes, several = np.zeros((2, max((row.part for row in told), default=-1) + 1), dtype=np.int64)
    for row in told:
        sizes[row.part], several[row.part] = row.answers, row.several
    firsts, before = (np.concatenate([[0], np.cumsum(values)]).tolist() for values in (sizes, several))
    most = max((row.most for row in told), default=1)
    rows = tuple(Several(int(n), most, first) for n, first in zip(several, before[:-1], strict=True))
    return replace(work, firsts=tuple(firsts), several=rows)


def _column(place: int) -> str:
    """The column behind a label: of the answer itself, or a computed item."""
    return f"_c{place}" if place >= 0 else f"_x{-1 - place}"


class SparkAnswers(Answers):
    """Answers as a DataFrame of Spark. Everything but ``spark()`` collects them: ``prob``, ``arrow()``, ``show()``."""

    def __init__(
        self, database: ProbDB, plan: Plan, rows: DataFrame, work: Work, known: Rows, reading: int,
        events: Events | None,
    ) -> None:  # fmt: skip
        self._events = events
        self.labels, self._plan, self._lineage_rows, self._work = plan.labels, plan, rows, work
        self._database, self._known, self._reading = database, known, reading
        self.route, self.given = Route(LINEAGE), False
        self._formulas = None  # type: ignore[assignment]
        self._frame: DataFrame | None = None
        self._table: pa.Table | None = None
        self._fetched: dict[int, Clauses] = {}

    def choose(self, options: Options) -> None:
        """Finds out which answers are counted at all, where LIMIT says so."""
        backend: Any = self._database.backend

        def count_some(work: Work) -> pa.Table:
            return backend.collected(self._counted(work).select(*(name for name, _ in RESULT)))

        with backend.reported():
            self._work = with_choice(backend, self._lineage_rows, self._plan, self._work, options, count_some)

    def _counted(self, work: Work) -> DataFrame:
        shown = set(self._plan.shape.names()[0])
        fields = [(name, kind) for name, kind in self._lineage_rows.dtypes if name in shown] + work.results()
        return self._lineage_rows.mapInArrow(work.count, ", ".join(f"{name} {kind}" for name, kind in fields))

    def counted(self) -> DataFrame:
        """The answers with their numbers and what was counted, under our own names of columns."""
        if self._frame is None:
            self._frame = self._counted(self._work).persist()
            if self._work.ends is not None:
                self._frame.count()
        return self._frame

    def _chosen(self) -> DataFrame:
        """Those that are shown, in order."""
        return shown_answers(self._database.backend.connection, self.counted(), self._plan)

    def spark(self) -> DataFrame:
        """The answers as a DataFrame of Spark, one row per answer: its columns, expected values with their bounds, then
        prob, lower, upper, guarantee, engine, num_clauses, and near_cut where prob() chooses. They are counted where
        the lineage is, when the frame is first read."""
        frame = self._chosen()
        columns = list(zip(self.labels, map(_column, self._plan.places), strict=True))
        values = [(place, label, f"_e{i}") for i, (place, label, _) in enumerate(self._plan.expected)]
        for place, label, name in values:
            columns.insert(place, (label, name))
        columns += [(f"{label}{end}", f"{name}{end}") for _, label, name in values for end in ("_lower", "_upper")]
        names = unique_names([label for label, _ in columns])
        chosen = [frame[c].alias(name) for name, (_, c) in zip(names, columns, strict=True)]
        found = frame.select(*chosen, *(frame[name] for name in (*COLUMNS, NEAR) if name in frame.columns))
        return kept_with(found, self)

    def _here(self) -> pa.Table:
        """The answers that are shown, collected."""
        if self._table is None:
            self._table = collected_answers(self._database.backend, self._chosen(), self._plan)
        return self._table

    @cached_property
    def counts(self) -> Counts:  # type: ignore[override]
        found = counts_in(self._here())
        if not self._plan.cuts and self._plan.top is None and (found.guarantee == "exact").all():
            found.near_cut = None  # an expression chose among exact probabilities
        return found

    @property
    def _expected(self) -> list[tuple[int, Expected]]:  # type: ignore[override]
        table, met = self._here(), self.counts.met
        found = []
        for i, (place, label, _) in enumerate(self._plan.expected):
            value, lower, upper = (table.column(f"_e{i}{end}").to_numpy() for end in ("", "_lower", "_upper"))
            found.append((place, Expected(label, value, lower, upper, met)))
        return found

    @property
    def _values(self) -> list[pa.ChunkedArray]:  # type: ignore[override]
        return [self._here().column(_column(place)) for place in self._plan.places]

    @property
    def num_clauses(self) -> Any:
        return self._here().column("num_clauses").to_numpy()

    def __repr__(self) -> str:
        return f"SparkAnswers({', '.join(self.labels)}; prob, lower, upper; spark() is a DataFrame)"

    def _fetch(self, numbers: IntArray) -> None:
        """Brings the clauses of these answers here, in one job; those that are here are not fetched again."""
        missing = np.setdiff1d(numbers, list(self._fetched))
        if not len(missing):
            return
        backend: Any = self._database.backend
        size = int(self.num_clauses[np.isin(self._numbers, missing)].sum())
        most = setting(backend.connection, FETCHED)
        if size > most:
            raise SQLError(
                f"this lineage has {size} clauses, and no more than {most} are fetched from the executors: ask for "
                f"fewer answers, with WHERE or LIMIT, or set {FETCHED[0]} higher if the memory here allows"
            )
        work = replace(self._work, wanted=missing)
        schema = "_number long, rows array<int>"
        table = backend.collected(self._lineage_rows.mapInArrow(work.clauses, schema)).combine_chunks()
        rows, number = table.column("rows").combine_chunks(), table.column("_number").to_numpy()
        sizes = rows.value_lengths().to_numpy(zero_copy_only=False)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        whole = Clauses(ends, (2 * rows.flatten().to_numpy()).astype(np.int32))
        order = np.argsort(number, kind="stable")
        starts, stops = (np.searchsorted(number[order], missing, side=side) for side in ("left", "right"))
        for answer, start, stop in zip(missing.tolist(), starts, stops, strict=True):
            self._fetched[answer] = whole.take(order[start:stop])

    @property
    def _numbers(self) -> IntArray:
        """int64[answers]: the number of each answer among all of the query."""
        return np.asarray(self._here().column("_number").to_numpy(), dtype=np.int64)

    def _clauses(self, index: int) -> Clauses:
        """The clauses of one answer, fetched from where they are."""
        self._check(index)
        number = int(self._numbers[index])
        self._fetch(np.array([number]))
        return self._fetched[number]

    def _lineages(self) -> list[Lineage]:
        self._fetch(self._numbers)
        return super()._lineages()

    def _formula(self, index: int) -> tuple[DNF, Any]:
        clauses = self._clauses(index)
        formulas: Formulas = build(clauses, np.array([0, len(clauses)]), self._known)
        return self._renumbered(formulas.batch[0], formulas.row_of_var)

    def _circuits(self, index: int) -> tuple[Circuits, int] | None:
        if self._events is None:
            return None
        clauses, events = self._clauses(index), self._events.branch()
        gates = events.gates.clauses(clauses, events.gate_of)
        output = events.gates.one_of(np.array([0, len(clauses)]), gates)
        return Circuits(events.gates, output, self._known), 0

    def unpersist(self) -> None:
        """Frees what the executors keep of these answers; they cannot be looked at any more if they were not
        collected."""
        self._lineage_rows.unpersist()
        if self._frame is not None:
            self._frame.unpersist()
