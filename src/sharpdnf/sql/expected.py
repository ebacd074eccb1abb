"""Expected counts and sums, by linearity: the sum over result rows of P(row exists) times its value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends.protocol import LineageRows
from sharpdnf.sql.backends.rows import sorted_keys
from sharpdnf.sql.counting import Options, count_with_progress
from sharpdnf.sql.emit.lineage import Rows, build


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


def expected_values(
    found: LineageRows,
    values: tuple[tuple[int, str, int | None], ...],
    known: Rows,
    options: Options,
    answers: int,
) -> list[Expected]:
    """One entry per expected value of the select list; arrays have one entry per answer."""
    answer_of_clause = np.repeat(np.arange(len(found.indptr) - 1), np.diff(found.indptr))
    starts, first, order = sorted_keys([answer_of_clause, *found.identity.T])
    answer_of_row, measure_of_row = answer_of_clause[first], found.measures[first]
    formulas = build(found.clauses.take(order), starts, known)
    answer_of_row, measure_of_row = answer_of_row[formulas.possible], measure_of_row[formulas.possible]
    most = int(np.bincount(answer_of_row).max(initial=1))
    counts = count_with_progress(formulas.batch, options.replace(delta=options.delta / most))
    met = np.bincount(answer_of_row, weights=~counts.met, minlength=answers) == 0
    result = []
    for _, label, measure in values:
        x = np.ones(len(answer_of_row)) if measure is None else measure_of_row[:, measure]
        ends = np.minimum(x * counts.lower, x * counts.upper), np.maximum(x * counts.lower, x * counts.upper)
        value, lower, upper = (
            np.bincount(answer_of_row, weights=w, minlength=answers).astype(np.float64)
            for w in (x * counts.prob, *ends)
        )
        result.append(Expected(label, value, lower, upper, met))
    return result
