"""Declaring a table uncertain: its probabilities are checked, its rows numbered once, its blocks found."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.errors import SQLError, UncertainTableError
from sharpdnf.sql.backends import Backend
from sharpdnf.sql.catalog import ROW_ID, Relation, Uncertain, column, quoted

STAMPS = itertools.count()
SLACK = 1e-9
"""How far above 1 the probabilities of a block may add up by rounding."""
MOST_ROWS = 2**30
"""Literals of 32 bits number no more variables."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One uncertain table with its numbered rows ``base`` to ``base + len(prob) - 1``."""

    name: str
    uncertain: Uncertain
    block_columns: tuple[str, ...]
    base: int
    prob: FloatArray
    block: IntArray
    """Block of each row, numbered from 0 within the table; -1 where rows are independent."""
    seen: tuple[int, float]
    """Rows of the relation and the sum of their probabilities when it was read."""
    stamp: str
    """A SELECT that fails on any other numbering of the rows, such as an older one that a rollback brought back."""


def find_column(relation: Relation, name: str, what: str) -> str:
    """The relation's column of that name, in any case if only one has it."""
    if name in relation.columns:
        return name
    close = [column for column in relation.columns if column.lower() == name.lower()]
    if len(close) != 1:
        known = ", ".join(relation.columns)
        raise UncertainTableError(f"{relation.path[-1]} has no {what} column {name!r}: its columns are {known}")
    return close[0]


def declare(
    backend: Backend, relation: Relation, prob: str, block: tuple[str, ...], base: int, temporary: str
) -> Declared:
    """Checks and numbers the rows of a relation."""
    p = find_column(relation, prob, "probability")
    columns = tuple(find_column(relation, name, "block") for name in block)
    _check_probabilities(backend, relation, p)
    source = backend.materialise(temporary, relation, p, base)
    dialect = backend.dialect
    numbered, mark = backend.temporary(temporary).sql(dialect), f"_sharpdnf_s{next(STAMPS)}"
    backend.execute(f"ALTER TABLE {numbered} ADD COLUMN {mark} INTEGER")
    value = exp.cast(column(p), "DOUBLE")
    rank: exp.Expression = exp.Literal.number(0)
    if columns:
        order = exp.Order(expressions=[exp.Ordered(this=column(c)) for c in columns])
        rank = exp.Window(this=exp.DenseRank(), order=order)
    item = exp.alias_(source.copy(), "_s", table=True, quoted=True)
    select = exp.select(value, rank).from_(item).order_by(column(ROW_ID))
    numbers = backend.numbers(select.sql(dialect), 2)
    probabilities = np.ascontiguousarray(numbers[:, 0])
    blocks = numbers[:, 1].astype(np.int64) - 1
    if base + len(probabilities) >= MOST_ROWS:
        raise UncertainTableError(f"with {relation.path[-1]} there are {MOST_ROWS} uncertain rows or more")
    declared = Declared(
        relation.path[-1], Uncertain(relation, source, p), columns, base, probabilities, blocks,
        measure(backend, relation.table(), p), f"SELECT {mark} FROM {numbered}",
    )  # fmt: skip
    if columns:
        _check_blocks(backend, declared)
    return declared


def measure(backend: Backend, item: exp.Expression, p: str) -> tuple[int, float]:
    """The number of rows and the sum of their probabilities: a cheap sign that data changed."""
    total = exp.Sum(this=exp.cast(column(p), "DOUBLE"))
    select = exp.select(exp.Count(this=exp.Star()), total).from_(item)
    rows, sums = backend.rows(select.sql(backend.dialect))[0]
    return int(rows), float(sums or 0.0)


def current(backend: Backend, relation: Relation) -> Relation | None:
    """The relation of that name as it is now; None if it is gone."""
    parts = tuple(backend.fold(quoted(part)) for part in relation.path)
    return backend.resolve(parts, None)


def is_stale(backend: Backend, declared: Declared) -> bool:
    """Whether the numbered rows are gone (a rollback takes them along) or the data visibly changed since."""
    then = declared.uncertain.relation
    now = current(backend, then) if backend.dialect == "postgres" else then
    if now is None:
        return False  # nothing can read it; if it comes back, it is read again
    star = exp.select(exp.Star()).from_(then.table()).sql(backend.dialect)
    columns = backend.describe(star) if now is then else now.columns
    if now.version != then.version or (columns is not None and columns != then.columns):
        return True
    if backend.describe(declared.stamp) is None:
        return True
    if backend.dialect == "postgres":  # counting means reading the whole table there
        return False
    try:
        pairs = [(measure(backend, then.table(), declared.uncertain.prob), declared.seen)]
    except SQLError:
        return current(backend, then) is not None
    if backend.dialect == "sqlite":
        item = exp.alias_(declared.uncertain.source.copy(), "_s", table=True, quoted=True)
        own = (len(declared.prob), float(declared.prob.sum()))
        pairs.append((measure(backend, item, declared.uncertain.prob), own))
    return any(a[0] != b[0] or abs(a[1] - b[1]) > 1e-9 * (1.0 + abs(b[1])) for a, b in pairs)


def _check_probabilities(backend: Backend, relation: Relation, p: str) -> None:
    """NULL, nan and numbers outside [0, 1] are errors that name the row."""
    bad = [exp.Is(this=column(p), expression=exp.Null())]
    if backend.dialect == "sqlite":
        kind = exp.Anonymous(this="typeof", expressions=[column(p)])
        texts = [exp.Literal.string(name) for name in ("integer", "real")]
        bad.append(exp.Not(this=exp.In(this=kind, expressions=texts)))
    number = exp.cast(column(p), "DOUBLE")
    bad.append(exp.LT(this=number, expression=exp.Literal.number(0)))
    bad.append(exp.GT(this=number.copy(), expression=exp.Literal.number(1)))  # nan is above every number
    select = exp.select(exp.Star()).from_(relation.table()).where(exp.or_(*bad)).limit(1)
    try:
        found = backend.rows(select.sql(backend.dialect))
    except SQLError as error:
        raise UncertainTableError(f"column {p!r} of {relation.path[-1]} is not numeric: {error}") from None
    if found:
        raise UncertainTableError(
            f"{relation.path[-1]} has a row whose probability {p} is not in [0, 1]: "
            f"{describe_row(relation.columns, found[0])}"
        )


def _check_blocks(backend: Backend, declared: Declared) -> None:
    sums = np.bincount(declared.block, weights=declared.prob)
    over = np.flatnonzero(sums > 1.0 + SLACK)
    if not len(over):
        return
    row = declared.base + int(np.flatnonzero(declared.block == over[0])[0])
    values = fetch_rows(backend, declared, [row], declared.block_columns)[row]
    raise UncertainTableError(
        f"the block {describe_row(declared.block_columns, values)} of {declared.name} has probabilities that add up "
        f"to {sums[over[0]]:.12g}: exclusive rows cannot exceed 1"
    )


def fetch_rows(
    backend: Backend, declared: Declared, numbers: list[int], columns: tuple[str, ...]
) -> dict[int, tuple[Any, ...]]:
    """The values of numbered rows."""
    item = exp.alias_(declared.uncertain.source.copy(), "_s", table=True, quoted=True)
    select = exp.select(column(ROW_ID), *(column(c) for c in columns)).from_(item)
    wanted = exp.In(this=column(ROW_ID), expressions=[exp.Literal.number(n) for n in numbers])
    found = backend.rows(select.where(wanted).sql(backend.dialect))
    return {int(row[0]): row[1:] for row in found}


def describe_row(columns: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """``a=1, b=2``."""
    return ", ".join(f"{name}={value}" for name, value in zip(columns, values, strict=True))
