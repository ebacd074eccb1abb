"""Distributions of aggregates on Spark: the rows of a group are folded where they lie, and the answers are a DataFrame.

The rows are sorted by group across the cluster (``distributed_lineage.py``), ``closed.py`` folds those of each group on
the executors, and what is said of the answers (HAVING prob(), ORDER BY, LIMIT, expected values) is done there and by
Spark. A group comes with the list of values of each aggregate, so that a distribution can be shown later.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql.answers import COLUMNS, unique_names
from sharpdnf.sql.backends.protocol import Placed, Shape
from sharpdnf.sql.backends.spark_rows import lineage_rows
from sharpdnf.sql.closed import Aggregate, ClosedPlan, check_foldable, folded, value_type
from sharpdnf.sql.computed import Computed
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.distributed_choice import NEAR, collected_answers, counts_in, kept_with, shown_answers
from sharpdnf.sql.distributed_lineage import MOST, sent, setting, sorted_by_answer
from sharpdnf.sql.distributions import QUANTILES, AggregateAnswers, Spread
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.outermost import Cut
from sharpdnf.sql.partitions import RESULT, TooLarge, count_columns, record, whole_answers
from sharpdnf.sql.plan import Plan
from sharpdnf.sql.spoken import EXPECTED_VALUE, ITEM, KEY, Spoken, answers_plan, layout, mean_of, value_places
from sharpdnf.sql.topk import settle
from sharpdnf.sql.ways import Route

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from sharpdnf.sql.database import ProbDB

SURVEY = "part long, answers long, large string, refused string"
SUMMARY_ENDS = ("_mean", "_sd", *(f"_{name}" for _, name in QUANTILES), "_null")
"""The columns of an aggregate: mean and standard deviation, quantiles, and the probability that it is NULL."""


@dataclass(frozen=True)
class Folding:
    """What the executors need to know. It is sent to each of them."""

    shape: Shape
    known: Broadcast[Rows]
    most: int
    keys: tuple[int, ...]
    """The positions of the groups' columns in the query, which name the columns of the answers."""
    aggregates: tuple[Aggregate, ...]
    expected: tuple[tuple[int, str, str], ...] = ()
    """(place among the aggregates, label, function) of each expected value."""
    cuts: tuple[Cut, ...] = ()
    firsts: tuple[int, ...] = ()
    """The number of the first group of each partition."""

    @property
    def shown(self) -> list[int]:
        """The places of the aggregates whose distributions are shown."""
        hidden = {place for place, _, _ in self.expected}
        return [place for place in range(len(self.aggregates)) if place not in hidden]

    def survey(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the partition, how many groups it has, the one that is too large, why it has no closed form."""
        import pyarrow as pa

        groups, large, refused = 0, None, None
        try:
            for table in whole_answers(batches, self.shape.names()[0], self.most):
                found = lineage_rows(table, self.shape)
                groups += len(found.indptr) - 1
                check_foldable(self.aggregates, found, self.known.value)
        except TooLarge as error:
            large = error.answer
        except UnsupportedSQL as error:
            refused = str(error)
        yield pa.record_batch({"part": [_partition()], "answers": [groups],
                               "large": pa.array([large], type=pa.string()),
                               "refused": pa.array([refused], type=pa.string())})  # fmt: skip

    def fold(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The groups of a partition: their columns, number, probability, aggregates and expected values."""
        first = self.firsts[_partition()]
        for table in whole_answers(batches, self.shape.names()[0], self.most):
            found = lineage_rows(table, self.shape)
            possible, counts, spreads = folded(self.aggregates, found, self.known.value)
            numbers = first + possible
            first += len(found.indptr) - 1
            means = [mean_of(spreads[place], label, name, counts) for place, label, name in self.expected]
            if self.cuts:
                kept = settle(counts, self.cuts, None, descending=True)
                possible, numbers, counts = possible[kept], numbers[kept], counts.take(kept)
                spreads = [spread.take(kept) for spread in spreads]
                means = [mean.take(kept) for mean in means]
            answers = found.answers.take(possible).rename_columns([f"_c{key}" for key in self.keys])
            yield record(answers, self._columns(numbers, counts, spreads, means), self.results())

    def _columns(
        self, numbers: IntArray, counts: Counts, spreads: list[Spread], means: list[Expected]
    ) -> dict[str, Any]:
        import pyarrow as pa

        columns = {"_number": numbers, "num_clauses": np.zeros(len(numbers), dtype=np.int64), **count_columns(counts)}
        for place in self.shown:
            spread = spreads[place]
            ends = spread.indptr.astype(np.int32)
            columns[f"_v{place}"] = pa.ListArray.from_arrays(ends, spread.values)
            columns[f"_p{place}"] = pa.ListArray.from_arrays(ends, pa.array(spread.prob))
            summary = spread.summary()
            for end in SUMMARY_ENDS:
                values = summary.get(f"{spread.label}{end}", np.zeros(len(numbers)))
                columns[f"_a{place}{end}"] = pa.array(values, from_pandas=True)
        for i, mean in enumerate(means):
            for end, values in (("", mean.value), ("_lower", mean.lower), ("_upper", mean.upper)):
                columns[f"_e{i}{end}"] = pa.array(values, from_pandas=True)
        return columns

    def results(self) -> list[tuple[str, str]]:
        """(name, type in Spark) of the columns that follow those of a group."""
        found = [*RESULT, *([(NEAR, "boolean")] if self.cuts else [])]
        for place in self.shown:
            kind = {"int64": "long", "double": "double", "bool": "boolean"}[str(value_type(self.aggregates[place]))]
            found += [(f"_v{place}", f"array<{kind}>"), (f"_p{place}", "array<double>")]
            found += [(f"_a{place}{end}", "double") for end in SUMMARY_ENDS]
        return found + [
            (f"_e{i}{end}", "double") for i in range(len(self.expected)) for end in ("", "_lower", "_upper")
        ]


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs on an executor"
    return context.partitionId()


def fold_in_place(
    database: ProbDB, closed: ClosedPlan, spoken: Spoken, placed: Placed, known: Rows, options: Options, route: Route
) -> SparkAggregates:
    """Runs the query for the rows and numbers the groups; UnsupportedSQL if the rows of one are not independent."""
    backend: Any = database.backend
    session, rows_plan, keys = backend.connection, closed.rows, closed.groups.keys
    plan = replace(rows_plan, order=closed.own_order, cuts=(), limit=None, offset=0, computed=Computed(), expected=())
    expected: tuple[tuple[int, str, str], ...] = ()
    if spoken.asked is not None:
        plan = answers_plan(spoken, keys)
        places = {at: place for place, at in enumerate(value_places(spoken, keys))}
        expected = tuple((places[at], label, name) for at, label, name in spoken.expected)
    work = Folding(
        rows_plan.shape, sent(session, known), setting(session, MOST), keys, closed.aggregates, expected, plan.cuts
    )  # fmt: skip
    shown = rows_plan.shape.names()[0]
    rows, told = sorted_by_answer(backend, placed.frame, shown, (work.survey, SURVEY), None)
    refused = [row.refused for row in told if row.refused is not None]
    if refused:
        rows.unpersist()
        raise UnsupportedSQL(refused[0])
    sizes = np.zeros(max((row.part for row in told), default=-1) + 1, dtype=np.int64)
    for row in told:
        sizes[row.part] = row.answers
    work = replace(work, firsts=tuple(np.concatenate([[0], np.cumsum(sizes)]).tolist()))
    answers = SparkAggregates(database, closed, spoken, plan, rows, work, route)
    weakref.finalize(answers, backend.files.unused.extend, placed.files)
    if options.timeout is not None:
        with backend.reported():
            answers.counted().count()
    return answers


class SparkAggregates(AggregateAnswers):
    """Aggregates as a DataFrame of Spark. Everything but ``spark()`` collects them."""

    def __init__(
        self, database: ProbDB, closed: ClosedPlan, spoken: Spoken, plan: Plan, rows: DataFrame, work: Folding,
        route: Route,
    ) -> None:  # fmt: skip
        self._database, self._plan, self._lineage_rows, self._work, self.route = database, plan, rows, work, route
        keys = zip(closed.rows.labels, work.keys, strict=True)
        self._layout = [(KEY, label, at) for label, at in keys] if spoken.asked is None else layout(spoken, work.keys)
        self.labels = tuple(label for kind, label, _ in self._layout if kind != EXPECTED_VALUE)
        self._frame: DataFrame | None = None
        self._table: pa.Table | None = None

    def counted(self) -> DataFrame:
        """All groups that HAVING leaves, under our own names of columns."""
        if self._frame is None:
            own = [kind for _, kind in self._lineage_rows.dtypes[: self._work.shape.shown]]
            fields = [(f"_c{key}", kind) for key, kind in zip(self._work.keys, own, strict=True)]
            schema = ", ".join(f"{name} {kind}" for name, kind in [*fields, *self._work.results()])
            self._frame = self._lineage_rows.mapInArrow(self._work.fold, schema).persist()
        return self._frame

    def _chosen(self) -> DataFrame:
        """The groups that are shown, in order."""
        frame, plan = self.counted(), self._plan
        if plan.top is not None:
            frame = best_exact(frame, plan.top, descending=plan.order[0].descending)
        return shown_answers(self._database.backend.connection, frame, plan)

    def spark(self) -> DataFrame:
        """The groups as a DataFrame of Spark: their columns and expected values, then mean, standard deviation and
        quantiles of each aggregate and the probability that it is NULL, then what is known of the group."""
        frame = self._chosen()
        own = [(label, column_of(kind, place)) for kind, label, place in self._layout]
        values = [(label, f"_e{place}") for kind, label, place in self._layout if kind == EXPECTED_VALUE]
        ends = [(f"{label}{end}", f"{name}{end}") for label, name in values for end in ("_lower", "_upper")]
        names = unique_names([label for label, _ in [*own, *ends]])
        work = self._work
        more = [(f"{work.aggregates[p].label}{end}", f"_a{p}{end}") for p in work.shown for end in SUMMARY_ENDS]
        named = [(name, column) for name, (_, column) in zip(names, [*own, *ends], strict=True)]
        named[len(own) : len(own)] = more
        chosen = [frame[column].alias(name) for name, column in named]
        found = frame.select(*chosen, *(frame[name] for name in (*COLUMNS, NEAR) if name in frame.columns))
        return kept_with(found, self)

    def _here(self) -> pa.Table:
        """The groups that are shown, collected."""
        if self._table is None:
            self._table = collected_answers(self._database.backend, self._chosen(), self._plan)
        return self._table

    @cached_property
    def counts(self) -> Counts:  # type: ignore[override]
        found = counts_in(self._here())
        if not self._plan.cuts and self._plan.top is None:
            found.near_cut = None
        return found

    @property
    def _values(self) -> list[pa.ChunkedArray]:  # type: ignore[override]
        shown = [(kind, place) for kind, _, place in self._layout if kind != EXPECTED_VALUE]
        return [self._here().column(column_of(kind, place)) for kind, place in shown]

    @property
    def _expected(self) -> list[tuple[int, Expected]]:  # type: ignore[override]
        table, found = self._here(), []
        met = np.ones(len(table), dtype=bool)
        for at, (kind, label, place) in enumerate(self._layout):
            if kind == EXPECTED_VALUE:
                value, lower, upper = (table.column(f"_e{place}{end}").to_numpy() for end in ("", "_lower", "_upper"))
                found.append((at, Expected(label, value, lower, upper, met)))
        return found

    @property
    def spreads(self) -> list[Spread]:  # type: ignore[override]
        table, found = self._here(), []
        for place in self._work.shown:
            values, prob = (table.column(f"_{name}{place}").combine_chunks() for name in "vp")
            sizes = values.value_lengths().to_numpy(zero_copy_only=False)
            indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            label = self._work.aggregates[place].label
            found.append(Spread(label, indptr, values.flatten(), np.asarray(prob.flatten().to_numpy())))
        return found

    def unpersist(self) -> None:
        """Frees what the executors keep of these answers, which are computed again when somebody looks."""
        self._lineage_rows.unpersist()
        if self._frame is not None:
            self._frame.unpersist()

    def __repr__(self) -> str:
        return f"SparkAggregates({', '.join(self.labels)}; prob; spark() is a DataFrame)"


def column_of(kind: str, place: int) -> str:
    """The column of our frame behind a column that is shown."""
    return f"{ {KEY: '_c', ITEM: '_x', EXPECTED_VALUE: '_e'}[kind] }{place}"


def best_exact(frame: DataFrame, limit: int, *, descending: bool) -> DataFrame:
    """The k best groups by their probability, which is exact; those that are as good as the k-th and the next one are
    marked, since nothing tells which of them is shown."""
    from pyspark.sql import functions as f

    prob = frame["prob"] if descending else -frame["prob"]
    best = [row[0] for row in frame.select(prob.alias("p")).orderBy(f.col("p").desc()).limit(limit + 1).collect()]
    if len(best) <= limit:
        return frame.withColumn(NEAR, f.lit(False))
    if not limit:
        return frame.withColumn(NEAR, f.lit(False)).limit(0)
    kept = frame.withColumn("_inside", prob > f.lit(best[limit])).filter(prob >= f.lit(best[limit - 1]))
    kept = kept.withColumn(NEAR, ~f.col("_inside"))
    order = f.col("prob").desc() if descending else f.col("prob").asc()
    return kept.orderBy(f.col("_inside").desc(), order, f.col("_number")).limit(limit).drop("_inside")
