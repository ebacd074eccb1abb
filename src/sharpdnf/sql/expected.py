"""Expected counts and sums, by linearity: the sum over result rows of P(row exists) times its value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends.protocol import Clauses, LineageRows
from sharpdnf.sql.backends.rows import sorted_keys
from sharpdnf.sql.counting import Options, count_batch, count_with_progress
from sharpdnf.sql.emit.lineage import Formulas, Rows, build, possible

ROUNDING = 4e-16
"""Relative error of one multiplication, with room to spare."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One expected value per answer, with bounds that hold with probability 1 - delta."""

    label: str
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    met: npt.NDArray[np.bool_]
    """bool[answers]: whether every probability that was added up kept its guarantee."""
    stderr: FloatArray | None = None
    """One standard error of each value, where it comes from drawn worlds; these have no bounds."""

    def take(self, index: IntArray) -> Expected:
        stderr = None if self.stderr is None else self.stderr[index]
        return Expected(self.label, self.value[index], self.lower[index], self.upper[index], self.met[index], stderr)


@dataclass(frozen=True, slots=True)
class Several:
    """The result rows that exist for several reasons, which are counted: their number, those that can exist at all,
    and the most that one answer has of them."""

    possible: int
    most: int
    first: int = 0
    """The number of the first of them, where lineage comes in pieces."""


def several_reasons(found: LineageRows, known: Rows, options: Options) -> Several:
    """What must be known of all pieces of the lineage before the expected values of one can be found."""
    clauses, starts, answer_of_row, _ = _result_rows(found)
    rest, formulas = _counted_rows(clauses, starts, known, options)
    most = int(np.bincount(answer_of_row[rest]).max(initial=1))
    return Several(len(formulas.possible) if formulas is not None else 0, most)


def expected_values(
    found: LineageRows,
    values: tuple[tuple[int, str, int | None], ...],
    known: Rows,
    options: Options,
    answers: int,
    several: Several | None = None,
) -> list[Expected]:
    """One entry per expected value of the select list; arrays have one entry per answer.

    Where ``found`` is a piece of the lineage, ``several`` says what all of it has.
    """
    clauses, starts, answer_of_row, first = _result_rows(found)
    rows = _row_probabilities(clauses, starts, answer_of_row, known, options, several)
    measure_of_row = found.measures[first]
    met = np.bincount(answer_of_row, weights=~rows.met, minlength=answers) == 0
    result = []
    for _, label, measure in values:
        x = np.ones(len(answer_of_row)) if measure is None else measure_of_row[:, measure]
        ends = np.minimum(x * rows.lower, x * rows.upper), np.maximum(x * rows.lower, x * rows.upper)
        value, lower, upper = (
            np.bincount(answer_of_row, weights=w, minlength=answers).astype(np.float64) for w in (x * rows.prob, *ends)
        )
        result.append(Expected(label, value, lower, upper, met))
    return result


@dataclass(slots=True)
class _Rows:
    """P(row exists) of every result row, its bounds, and whether they keep their guarantee."""

    prob: FloatArray
    lower: FloatArray
    upper: FloatArray
    met: npt.NDArray[np.bool_]


def _result_rows(found: LineageRows) -> tuple[Clauses, IntArray, IntArray, IntArray]:
    """(the clauses sorted by result row, where each row's begin, the answer of each row, the first clause of each)."""
    answer_of_clause = np.repeat(np.arange(len(found.indptr) - 1), np.diff(found.indptr))
    starts, first, order = sorted_keys([answer_of_clause, *found.identity.T])
    return found.clauses.take(order), starts, answer_of_clause[first], first.astype(np.int64)


def _counted_rows(
    clauses: Clauses, starts: IntArray, known: Rows, options: Options
) -> tuple[IntArray, Formulas | None]:
    """The rows that are counted and their formulas: those with several clauses, or all if an engine is named."""
    sizes = np.diff(starts)
    rest = np.flatnonzero(sizes > 1) if options.engine == "auto" else np.arange(len(sizes))
    if not len(rest):
        return rest, None
    sizes = sizes[rest]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    place = np.repeat(starts[:-1][rest] - ends[:-1], sizes) + np.arange(int(ends[-1]))
    return rest, build(clauses.take(place), ends, known)


def _row_probabilities(
    clauses: Clauses, starts: IntArray, answer_of_row: IntArray, known: Rows, options: Options, several: Several | None
) -> _Rows:
    """Row r exists iff one of its clauses ``starts[r]`` to ``starts[r + 1] - 1`` does. One clause is a product."""
    count = len(starts) - 1
    rest, formulas = _counted_rows(clauses, starts, known, options)
    single = np.ones(count, dtype=bool)
    single[rest] = False
    found = _Rows(np.zeros(count), np.zeros(count), np.zeros(count), np.ones(count, dtype=bool))
    alone = starts[:-1][single]
    found.prob[single] = _products(clauses, known)[alone]
    slack = ROUNDING * (np.diff(clauses.indptr)[alone] + 1)
    found.lower[single] = found.prob[single] * (1.0 - slack)
    found.upper[single] = np.minimum(1.0, found.prob[single] * (1.0 + slack))
    if formulas is not None:
        most = several.most if several is not None else int(np.bincount(answer_of_row[rest]).max(initial=1))
        asked = options.replace(delta=options.delta / most)
        if several is not None:
            asked = asked.replace(numbers=several.first + np.arange(len(formulas.possible)))
        counts = (count_with_progress if several is None else count_batch)(formulas.batch, asked)
        rest = rest[formulas.possible]  # the others never exist
        found.prob[rest], found.lower[rest], found.upper[rest] = counts.prob, counts.lower, counts.upper
        found.met[rest] = counts.met
    return found


def _products(clauses: Clauses, known: Rows) -> FloatArray:
    """The probability of every clause: its rows are independent, unless two of one block make it impossible."""
    result = np.ones(len(clauses))
    some = np.flatnonzero(np.diff(clauses.indptr))
    row = clauses.literals >> 1
    if len(some):
        result[some] = np.multiply.reduceat(known.prob[row], clauses.indptr[some])
    if known.blocked and bool((known.block[row] >= 0).any()):
        result[~possible(clauses, known)] = 0.0
    return result
