"""Which answers are shown, and in which order, where the answers are a DataFrame of Spark.

HAVING prob() is decided for each answer where its lineage is (``partitions.py``). For ORDER BY prob() LIMIT k the
executors first tell bounds that cost one pass; Spark finds the k-th best of them, and only the answers that may be
better are known on the driver, by their numbers and bounds. Those are decided as on the other databases (``topk.py``),
each round counted on the executors, so the k best are the same ones. LIMIT by other columns needs the numbers of the
first answers. Expressions of prob(), ORDER BY and OFFSET are Spark's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.engines.front import make_seed
from sharpdnf.sql.computed import ANSWERS, SortKey
from sharpdnf.sql.counting import Counts, Options, Remote
from sharpdnf.sql.outermost import NUMBER, PROB
from sharpdnf.sql.partitions import Work
from sharpdnf.sql.plan import Plan
from sharpdnf.sql.topk import decide

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

NEAR = "near_cut"
CountSome = Callable[[Work], "pa.Table"]
"""Runs a piece of work and collects what was counted, without the answers' own columns."""


def counts_in(table: pa.Table) -> Counts:
    """The counts among the columns of a table of answers."""
    prob, lower, upper = (table.column(name).to_numpy() for name in ("prob", "lower", "upper"))
    guarantee, engine = (np.array(table.column(n).to_pylist(), dtype=object) for n in ("guarantee", "engine"))
    met = np.array(table.column("_met").to_pylist(), dtype=bool)
    near = np.array(table.column(NEAR).to_pylist(), dtype=bool) if NEAR in table.column_names else None
    return Counts(prob, lower, upper, guarantee, engine, met, near)


def with_choice(backend: Any, rows: DataFrame, plan: Plan, work: Work, options: Options, count_some: CountSome) -> Work:
    """The work for those answers alone that can be shown, as far as that can be told before all are counted."""
    if plan.top is not None:
        return _best(backend, rows, plan, work, options, count_some)
    by_own = all(key.column.startswith("_c") for key in plan.order)
    if plan.last is None or plan.computed.chooses or plan.cuts or not by_own:
        return replace(work, cuts=plan.cuts)
    if not plan.order:
        return work.only(backend.connection, np.arange(min(plan.last, work.firsts[-1])))
    shown = plan.shape.names()[0]
    kinds = ", ".join(f"{name} {kind}" for name, kind in rows.dtypes if name in shown)
    named = rows.mapInArrow(work.named, f"{kinds}, _number long")
    first = named.orderBy(*sort_columns(named, plan.order), named["_number"]).limit(plan.last).select("_number")
    return work.only(backend.connection, np.sort(_numbers(backend.collected(first))))


def _numbers(table: pa.Table) -> IntArray:
    return np.asarray(table.column("_number").to_numpy(), dtype=np.int64)


def _best(backend: Any, rows: DataFrame, plan: Plan, work: Work, options: Options, count_some: CountSome) -> Work:
    """The k best answers by their probability, counted as far as the question needs."""
    session, limit = backend.connection, plan.top
    assert limit is not None
    descending = plan.order[0].descending
    numbers, lower, upper = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
    if limit:
        found = replace(work, cuts=plan.cuts, descending=descending)
        bounds = rows.mapInArrow(found.bounds, "_number long, lower double, upper double, sure double, may double")
        bounds = bounds.persist()
        sure = bounds.orderBy(bounds["sure"].desc()).limit(limit).agg({"sure": "min", "*": "count"})
        ((least, many),) = zip(*(c.to_pylist() for c in backend.collected(sure).columns), strict=True)
        table = backend.collected(bounds.filter(bounds["may"] >= least) if many == limit else bounds)
        bounds.unpersist()
        table = table.sort_by("_number")
        numbers, lower, upper = _numbers(table), *(table.column(n).to_numpy() for n in ("lower", "upper"))

    def count(asked: Options) -> Counts:
        assert asked.numbers is not None
        seeded = asked.replace(rng=make_seed(asked.rng), numbers=None, progress=None, deadline=None, threads=None)
        counted = count_some(replace(work, options=seeded).only(session, asked.numbers))
        return counts_in(counted.sort_by("_number"))

    counts, kept = decide(
        Remote(count, lower.copy(), upper.copy()), plan.cuts, limit, descending=descending,
        options=options.replace(numbers=numbers), among=work.firsts[-1],
    )  # fmt: skip
    return work.only(session, numbers[kept], counts.take(kept))


def sort_columns(frame: DataFrame, order: tuple[SortKey, ...]) -> list[Column]:
    """The keys of ORDER BY as columns of a frame of answers."""
    keys = []
    for key in order:
        column = frame["prob" if key.column == PROB else key.column]
        down = column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
        up = column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()
        keys.append(down if key.descending else up)
    return keys


def shown_answers(session: Any, frame: DataFrame, plan: Plan) -> DataFrame:
    """The answers that are shown, in the order that is asked for; computed items are ``_x0``..."""
    if plan.computed.wanted:
        frame = _worked_out(session, frame, plan)
    if not plan.computed.order and (plan.order or plan.last is not None or plan.offset):
        frame = frame.orderBy(*sort_columns(frame, plan.order), frame["_number"])
    if plan.offset:
        frame = frame.offset(plan.offset)
    return frame if plan.limit is None else frame.limit(plan.limit)


def collected_answers(backend: Any, frame: DataFrame, plan: Plan) -> pa.Table:
    """The answers that are shown, on the driver: in the order of the query, or else of their numbers."""
    ordered = plan.order or plan.last is not None or plan.offset
    table: pa.Table = backend.collected(frame)
    return table if ordered else table.sort_by("_number")


def kept_with(frame: DataFrame, answers: object) -> DataFrame:
    """The frame, which keeps the answers from being forgotten: then the files that it may have to read again go."""
    frame.__dict__["_sharpdnf_answers"] = answers
    return frame


def _worked_out(session: Any, frame: DataFrame, plan: Plan) -> DataFrame:
    from pyspark.sql import functions as f

    computed = plan.computed
    if computed.chooses:
        near = f.expr(computed.near("spark"))
        frame = frame.withColumn(NEAR, near | frame[NEAR] if NEAR in frame.columns else near)
    frame = frame.withColumn(PROB, frame["prob"]).withColumn(NUMBER, frame["_number"])
    frame.createOrReplaceTempView(ANSWERS)
    try:
        found: DataFrame = session.sql(computed.query("spark", whole=True))
        return found
    finally:
        session.catalog.dropTempView(ANSWERS)
