"""ORDER BY of the outermost query. It is done here, after counting, since it may name probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.plan import SortKey


def order_of(
    order_by: tuple[SortKey, ...], shown: Any, counts: Counts, expected: list[tuple[int, Expected]]
) -> IntArray | None:
    """The places of the answers in the order that ORDER BY asks for, or None if the query has no ORDER BY.

    ``shown`` is an Arrow table with the answers' columns. Values are sorted as the database would sort them, which is
    not always Arrow's order: see the comments.
    """
    if not order_by:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    table = shown.append_column("_prob", pa.array(counts.prob))
    for i, (_, value) in enumerate(expected):
        table = table.append_column(f"_e{i}", pa.array(value.value))
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
