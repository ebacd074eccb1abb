"""Python rows to Arrow columns, data frames to Python rows, and dates that neither Python nor pandas can hold."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.protocol import LineageRows
from sharpdnf.sql.backends.rows import sorted_lineage

if TYPE_CHECKING:
    import pyarrow as pa


UNITS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
ERA = 146_097
"""The number of days in 400 years, after which the calendar repeats."""
EPOCH = datetime.date(1970, 1, 1).toordinal()


def readable(column: pa.ChunkedArray, label: str) -> pa.ChunkedArray:
    """The column as Python can show it: as it is, or as the text that DuckDB writes.

    It becomes text if a value is infinite, before year 1, after year 9999, or the time 24:00. Arrow can hold these, but
    Python and pandas cannot: they fail, or show another value.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_nested(kind):
        try:
            column.to_pylist()
        except (OverflowError, ValueError) as error:
            raise SQLError(f"a value of column {label!r} cannot be shown: {error}; cast it to VARCHAR") from None
        return column
    if not (pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_time64(kind)):
        return column
    whole = column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(kind) else column.cast(pa.int64())
    limits = pc.min_max(whole).as_py()
    if limits["min"] is None:
        return column
    scale = 1 if pa.types.is_date32(kind) else UNITS[kind.unit] * 86400
    first, end = (0, 1) if pa.types.is_time64(kind) else (1 - EPOCH, datetime.date.max.toordinal() + 1 - EPOCH)
    if first * scale <= limits["min"] and limits["max"] < end * scale:
        return column
    return pa.chunked_array([pa.array([None if v is None else _date_text(v, kind) for v in whole.to_pylist()])])


def _date_text(value: int, kind: pa.DataType) -> str:
    import pyarrow as pa

    largest = 2**31 - 1 if pa.types.is_date32(kind) else 2**63 - 1
    if abs(value) == largest:
        return "infinity" if value > 0 else "-infinity"
    if pa.types.is_date32(kind):
        return _day_text(value)
    unit = UNITS[kind.unit]
    days, rest = (0, value) if pa.types.is_time64(kind) else divmod(value, 86400 * unit)
    seconds, part = divmod(rest, unit)
    digits = len(str(unit)) - 1
    fraction = f".{part:0{digits}}".rstrip("0") if part else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
    if pa.types.is_time64(kind):
        return clock
    return f"{_day_text(days)} {clock}{'+00' if kind.tz else ''}"


def _day_text(days: int) -> str:
    """A day, counted from 1970, in any year."""
    eras, day = divmod(days + EPOCH - 1, ERA)
    date = datetime.date.fromordinal(day + 1)
    year = date.year + 400 * eras
    shown = f"{year:04}" if year > 0 else f"{1 - year:04}"
    return f"{shown}-{date.month:02}-{date.day:02}{'' if year > 0 else ' (BC)'}"


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
    """Lineage from rows of whole numbers: the number of the answer, then lineage, then identity columns.

    Equal numbers stand together, in the order of ``answers``.
    """
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


def filled(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """int32[rows]: the column with -1 in place of NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pc.fill_null(column, -1) if column.null_count else column
    numbers: npt.NDArray[np.int32] = whole.cast(pa.int32()).to_numpy()
    return numbers


def floats(table: pa.Table, names: list[str]) -> FloatArray:
    """float64[rows, names]: the columns with 0 in place of NULL, because sum() skips NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    out = np.empty((len(table), len(names)))
    for i, name in enumerate(names):
        out[:, i] = pc.fill_null(table.column(name).cast(pa.float64()), 0.0).to_numpy()
    return out
