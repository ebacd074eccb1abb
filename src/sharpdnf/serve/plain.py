"""Values as JSON can say them: what it has no word for becomes text, and what is no number becomes null."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

EXACT = 2**53
"""Whole numbers beyond this are not exact in a browser, which reads numbers as doubles: they are sent as text."""


def cell(value: Any) -> Any:
    """A value of a table. Numbers that JSON does not know are words, so that they are not taken for NULL."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): cell(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cell(item) for item in value]
    return str(value)


def number(value: Any) -> float | None:
    """A probability or another measure; null where there is none."""
    found = float(value)
    return found if math.isfinite(found) else None


def numbers(values: Iterable[Any]) -> list[float | None]:
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def rows_of(table: Any) -> list[list[Any]]:
    """The rows of an Arrow table."""
    columns = [[cell(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def encoded(value: Any) -> bytes:
    """JSON in UTF-8; a number that JSON does not know is an error of ours."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
