"""Python rows to Arrow columns and data frames to Python rows, for databases that do not speak Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends import LineageRows, sorted_lineage

if TYPE_CHECKING:
    import pyarrow as pa


def python_columns(rows: list[tuple[Any, ...]], count: int) -> pa.Table:
    """Columns ``_c0``... of the rows; a column of mixed types becomes text."""
    import pyarrow as pa

    columns = {}
    for i in range(count):
        values = [row[i] for row in rows]
        try:
            if {bytes, str} <= {type(value) for value in values}:
                raise pa.ArrowTypeError("Arrow would make all of them bytes")
            columns[f"_c{i}"] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
            columns[f"_c{i}"] = pa.array([None if v is None else str(v) for v in values], type=pa.string())
    return pa.table(columns)


def sorted_flat(flat: IntArray, lineage: int, measures: FloatArray, answers: pa.Table) -> LineageRows:
    """Rows of whole numbers: that of the answer, then lineage, then identity; the answers are in order."""
    columns = [np.ascontiguousarray(flat[:, i], dtype=np.int32) for i in range(flat.shape[1])]
    no_null = np.zeros(0, dtype=np.uint8)
    last = 1 + lineage
    return sorted_lineage([(columns[0], no_null)], columns[1:last], columns[last:], measures, lambda _: answers)


def frame_rows(frame: object) -> tuple[list[str], list[list[Any]]]:
    """The column names and rows of a pandas, polars or Arrow frame, or of a dict of columns."""
    import pyarrow as pa

    if isinstance(frame, pa.Table | pa.RecordBatch | dict) or hasattr(frame, "__arrow_c_stream__"):
        table = pa.table(frame)
    elif hasattr(frame, "to_arrow"):
        table = frame.to_arrow()
    elif type(frame).__module__.startswith("pandas"):
        table = pa.Table.from_pandas(frame, preserve_index=False)
    else:
        raise ValueError(f"register takes a pandas, polars or Arrow frame, not {type(frame).__name__}")
    return list(table.column_names), [list(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
