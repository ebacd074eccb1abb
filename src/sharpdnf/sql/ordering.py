"""Which answers are shown, and in which order. It is done here, after counting, since it may name probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.protocol import Backend
from sharpdnf.sql.computed import SortKey, work_out
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.limits import watched
from sharpdnf.sql.outermost import PROB
from sharpdnf.sql.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa


def first_answers(plan: Plan, answers: pa.Table, possible: IntArray) -> IntArray:
    """Which of the possible answers to count: where LIMIT takes the first by their own columns, only those."""
    by_own = bool(plan.order) and all(key.column.startswith("_c") for key in plan.order)
    if plan.last is None or plan.computed.chooses or plan.cuts or not by_own:
        return np.arange(len(possible))
    return np.sort(sorted_by(plan.order, answers.take(possible))[: plan.last])


def choose_answers(
    backend: Backend, plan: Plan, shown: pa.Table, counts: Counts, expected: list[tuple[int, Expected]]
) -> tuple[IntArray | None, pa.Table]:
    """(the places of the answers to show, in order, or None for all as they are; the computed items of these).

    ``shown`` is an Arrow table with the answers' columns, hidden ones included.
    """
    import pyarrow as pa

    order: IntArray | None = None
    items = pa.table({})
    if plan.order or plan.computed.wanted:
        shown = _with_probabilities(shown, counts, expected)
    if plan.computed.wanted:
        with watched(backend):
            order, items = work_out(backend, plan.computed, shown, counts, plan.sql)
    if plan.order and plan.shape.shown and not plan.computed.order:
        again = sorted_by(plan.order, shown if order is None else shown.take(order))
        order = again if order is None else order[again]
        items = items.take(again) if items.num_columns else items
    if plan.limit is not None or plan.offset:
        order = np.arange(len(counts.prob)) if order is None else order
        order, items = order[plan.offset : plan.last], items.slice(plan.offset, plan.limit)
    return order, items


def order_of(
    order_by: tuple[SortKey, ...], shown: pa.Table, counts: Counts, expected: list[tuple[int, Expected]]
) -> IntArray | None:
    """The places of the answers in the order that ORDER BY asks for, or None if the query has no ORDER BY."""
    return sorted_by(order_by, _with_probabilities(shown, counts, expected)) if order_by else None


def _with_probabilities(shown: pa.Table, counts: Counts, expected: list[tuple[int, Expected]]) -> pa.Table:
    import pyarrow as pa

    table = shown.append_column(PROB, pa.array(counts.prob))
    for i, (_, value) in enumerate(expected):
        table = table.append_column(f"_e{i}", pa.array(value.value, from_pandas=True))
    return table


def sorted_by(order_by: tuple[SortKey, ...], table: pa.Table) -> IntArray:
    """The order of the rows of a table of answers by columns of it.

    Values are sorted as the database would sort them, which is not always Arrow's order: see the comments.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = []
    for i, key in enumerate(order_by):
        column, direction = table.column(key.column), "descending" if key.descending else "ascending"
        if pa.types.is_nested(column.type):  # Arrow puts NULLs inside them elsewhere than the database
            raise SQLError(f"ORDER BY cannot sort by a column of type {column.type}")
        name = key.column
        if pa.types.is_dictionary(column.type):  # an ENUM is sorted by the position of the value in its type
            name, places = f"_place{i}", [chunk.indices for chunk in column.chunks]
            table = table.append_column(name, pa.chunked_array(places, type=column.type.index_type))
        table = table.append_column(f"_null{i}", pc.is_null(column))
        keys.append((f"_null{i}", "descending" if key.nulls_first else "ascending"))
        if pa.types.is_floating(column.type):  # to a database nan is above every number, to Arrow always last
            table = table.append_column(f"_nan{i}", pc.is_nan(column))
            keys.append((f"_nan{i}", direction))
        keys.append((name, direction))
    try:
        order: IntArray = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    except pa.ArrowException as error:
        raise SQLError(f"ORDER BY cannot sort these columns: {error}") from None
    return order
