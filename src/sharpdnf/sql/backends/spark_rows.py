"""Lineage rows as Spark hands them over, sorted by answer, in Arrow: where answers begin, and their clauses.

This runs on the executors, too, so it needs neither Spark nor a database.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sharpdnf.sql.backends.columns import filled, floats
from sharpdnf.sql.backends.protocol import LineageRows, Shape
from sharpdnf.sql.backends.rows import sorted_lineage

if TYPE_CHECKING:
    import pyarrow as pa

SORTABLE = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(.*\)|string|binary|date|timestamp|timestamp_ntz|void"
)
"""Types whose values Arrow finds equal exactly if Spark does, but for nan and NULL, of which ``new_answers`` knows.
Strings with a collation have another name."""


def new_answers(table: pa.Table, shown: list[str]) -> npt.NDArray[np.bool_]:
    """bool[rows]: whether the answer of a row is another than that of the row before it; nan and NULL equal
    themselves."""
    import pyarrow as pa
    import pyarrow.compute as pc

    new = np.zeros(len(table), dtype=bool)
    if not len(table):
        return new
    new[0] = True
    for name in shown:
        column = table.column(name)
        if pa.types.is_null(column.type):
            continue
        before, here = column.slice(0, len(table) - 1), column.slice(1)
        differs = pc.fill_null(pc.not_equal(here, before), False).to_numpy()
        if pa.types.is_floating(column.type):
            both = pc.and_(pc.is_nan(here), pc.is_nan(before))
            differs = differs & ~pc.fill_null(both, False).to_numpy()
        new[1:] |= differs | pc.xor(pc.is_null(here), pc.is_null(before)).to_numpy()
    return new


def lineage_rows(table: pa.Table, shape: Shape) -> LineageRows:
    """The clauses of rows that are sorted by answer."""
    shown, measures, lineage, identity = shape.names()
    number = (np.cumsum(new_answers(table, shown)) - 1).astype(np.int32)
    if not shown:
        number = np.zeros(len(table), dtype=np.int32)
    return sorted_lineage(
        [(number, np.zeros(0, dtype=np.uint8))],
        [filled(table.column(name)) for name in lineage],
        [filled(table.column(name)) for name in identity],
        floats(table, measures),
        lambda first: table.select(shown).take(first) if shown else table.select([]),
    )
