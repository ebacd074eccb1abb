"""Sums and averages of uncertain rows in a condition: the states that the rows of a candidate can lead to.

The rows are taken one after the other. A state is what the aggregates of the rows so far are; each row is there or not,
so every state has at most two successors, and equal states are one. The events of the states exclude each other, so the
condition holds iff one of the last states for which it is TRUE is reached. All candidates take their j-th row at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.emit.gates import Gates
from sharpdnf.sql.refusal import refuse

MOST_STATES = 300_000
"""States of all candidates and rows together; beyond them the query is for worlds."""
EXACT = 2.0**20
"""Values that are whole after multiplication by this add up without rounding, as long as they are small."""
BoolArray = npt.NDArray[np.bool_]
Numbers = tuple[FloatArray, BoolArray]
"""Values, and where they are known: the others are NULL."""


@dataclass(frozen=True, slots=True)
class Column:
    """What one aggregate reads of the rows: values and where they are known; COUNT(*) reads rows that are all known."""

    kind: str
    values: FloatArray
    known: BoolArray


def reached(
    gates: Gates, count: int, owner: IntArray, events: IntArray, columns: list[Column]
) -> tuple[IntArray, IntArray, list[Numbers]]:
    """(candidate, event, the value of each aggregate) of every last state; rows are sorted by their ``owner``."""
    starts = np.searchsorted(owner, np.arange(count + 1))
    widths = np.diff(starts)
    candidate = np.arange(count)
    state: FloatArray = np.zeros((count, 2 * len(columns)))
    event, total = np.full(count, gates.true), 0
    for step in range(int(widths.max(initial=0))):
        open_ = widths[candidate] > step
        row = starts[candidate[open_]] + step
        with_row = _added(state[open_], columns, row)
        reach = gates.both([event[open_], events[row]])
        miss = gates.both([event[open_], gates.negate(events[row])])
        candidate = np.concatenate([candidate[~open_], candidate[open_], candidate[open_]])
        state = np.concatenate([state[~open_], state[open_], with_row])
        event = np.concatenate([event[~open_], miss, reach])
        keys, inverse = np.unique(np.column_stack([candidate, state]), axis=0, return_inverse=True)
        inverse = inverse.ravel()
        order = np.argsort(inverse, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(inverse, minlength=len(keys)))])
        candidate, state = keys[:, 0].astype(np.int64), keys[:, 1:]
        event = gates.one_of(ends, event[order], exclusive=True)
        total += len(keys)
        if total > MOST_STATES:
            refuse("a sum or an average with this many different values in a condition", f"more than {MOST_STATES}")
    return candidate, event, [_value(column, state[:, 2 * i], state[:, 2 * i + 1]) for i, column in enumerate(columns)]


def _added(state: FloatArray, columns: list[Column], row: IntArray) -> FloatArray:
    """The states after these rows: for each aggregate its value so far and how many rows it has seen."""
    after = state.copy()
    for i, column in enumerate(columns):
        value, seen, mine = column.values[row], state[:, 2 * i + 1], column.known[row]
        if column.kind in ("min", "max"):
            extreme = np.minimum if column.kind == "min" else np.maximum
            value = np.where(seen > 0.0, extreme(state[:, 2 * i], value), value)
            after[:, 2 * i] = np.where(mine, value, state[:, 2 * i])
            after[:, 2 * i + 1] = np.maximum(seen, mine)
        else:
            after[:, 2 * i] += np.where(mine & (column.kind != "count"), value, 0.0)
            after[:, 2 * i + 1] += mine
    return after


def _value(column: Column, value: FloatArray, seen: FloatArray) -> Numbers:
    if column.kind == "count":
        return seen, np.ones(len(seen), dtype=bool)
    if column.kind == "avg":
        value = value / np.maximum(seen, 1.0)
    return value, seen > 0.0


def evaluate(node: exp.Expr, names: dict[str, Numbers], size: int) -> Numbers:
    """An arithmetic expression over named columns."""
    if isinstance(node, exp.Paren):
        return evaluate(node.this, names, size)
    if isinstance(node, exp.Column):
        return names[node.name]
    if isinstance(node, exp.Literal):
        return np.full(size, float(node.this)), np.ones(size, dtype=bool)
    if isinstance(node, exp.Neg):
        value, known = evaluate(node.this, names, size)
        return -value, known
    assert isinstance(node, exp.Binary), "binding lets nothing else through"
    (a, known), (b, also) = (evaluate(side, names, size) for side in (node.this, node.expression))
    return OPERATIONS[type(node)](a, b), known & also


OPERATIONS: dict[type[exp.Expr], Callable[[FloatArray, FloatArray], FloatArray]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
}
COMPARISONS: dict[type[exp.Expr], Callable[[FloatArray, FloatArray], BoolArray]] = {
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
}


def compare(kind: type[exp.Expr], left: Numbers, right: Numbers, exact: BoolArray) -> tuple[BoolArray, BoolArray]:
    """(TRUE, FALSE) of a comparison; refused where rounding may have decided it."""
    known = left[1] & right[1]
    a, b = left[0], right[0]
    near = known & (np.abs(a - b) <= 1e-9 * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b))))
    if (near & ((a != b) | ~exact)).any():
        refuse("a sum or an average of fractions at the very edge of a comparison", "rounding would decide it")
    holds = COMPARISONS[kind](a, b)
    return known & holds, known & ~holds


def check_values(read: FloatArray) -> None:
    """Refuses rows, (value, 1 if it is known) for each aggregate, whose values a double does not tell apart."""
    if (read[:, 1::2] < 0.0).any():
        refuse("an aggregate of texts among numbers", "cast them to numbers")
    if not (np.abs(read[:, ::2]) < 2.0**53).all():
        refuse("aggregates of numbers as large as these in a condition", "a double would round them")


def is_short(values: FloatArray) -> BoolArray:
    """Whether a value has few binary digits after the point, so that it is what decimal arithmetic gives, too."""
    scaled = values * EXACT
    short: BoolArray = scaled == np.rint(scaled)
    return short


def adds_exactly(values: FloatArray) -> bool:
    """Whether sums of these values are free of rounding, in any order."""
    scaled = values * EXACT
    return bool(np.isfinite(values).all() and (scaled == np.rint(scaled)).all() and np.abs(values).sum() < 2.0**32)
