"""What an evaluation measures, one record a line of a CSV: the only thing the report reads."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from sharpdnf.errors import CheckpointError
from sharpdnf.files import write_atomically

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Label:
    """The label of one formula under one distribution; ``digest`` is that of the formula's arrays."""

    set: str
    index: int
    shift: int
    digest: str
    epsilon: float
    delta: float
    log_label: float


@dataclass(frozen=True, slots=True)
class Row:
    """One formula under one distribution; estimates are natural logarithms of probabilities.

    ``weights`` is the digest of the network's weights, ``log_lower`` and ``log_upper`` the interval it showed.
    """

    model: str
    weights: str
    set: str
    index: int
    shift: int
    n: int
    m: int
    w: int
    family: str
    epsilon: float
    log_label: float
    log_prediction: float
    log_lower: float
    log_upper: float
    sigma: float
    seconds: float
    log_conditioned: float
    log_independent: float
    log_sampling: float = math.nan
    """What ``sampling`` says at (0.1, 0.05); not a number in files that were written before it was measured."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The network's estimate for one formula after one iteration of message passing."""

    model: str
    formula: int
    log_label: float
    iteration: int
    log_estimate: float


@dataclass(frozen=True, slots=True)
class Runtime:
    """How many seconds an engine took on one formula of the runtime table, the best of ``runs`` runs."""

    engine: str
    n: int
    w: int
    seconds: float
    runs: int


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """The rows of a CSV as records of ``kind`` (Label, Row, Trace or Runtime); a missing file has no rows."""
    if not path.exists():
        return []
    casts = {name: {"int": int, "float": float, "str": str}[text] for name, text in kind.__annotations__.items()}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        casts = {name: cast for name, cast in casts.items() if name in (reader.fieldnames or [])}
        missing = [name for name in _required(kind) if name not in casts]
        if missing:
            raise CheckpointError(f"{path}: no column {', '.join(missing)}: is this a {kind.__name__} file?")
        records = []
        for number, line in enumerate(reader, 2):
            try:
                records.append(kind(**{name: cast(line[name]) for name, cast in casts.items()}))
            except (TypeError, ValueError) as error:
                raise CheckpointError(f"{path}:{number}: {error}") from None
    return records


def _required(kind: type[Any]) -> list[str]:
    """The fields that a record cannot do without."""
    return [field.name for field in fields(kind) if field.default is MISSING]


def write_records(path: Path, records: Sequence[Record], kind: type[Record]) -> None:
    """Writes dataclass records as CSV, in one step: a reader never sees half a file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(kind.__annotations__)
    for record in records:
        values = [getattr(record, name) for name in kind.__annotations__]
        writer.writerow([f"{v:.10g}" if isinstance(v, float) else v for v in values])
    write_atomically(path, text.getvalue().encode())
