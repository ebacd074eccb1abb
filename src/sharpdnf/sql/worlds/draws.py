"""Which uncertain rows exist in which world: every world with its weight, or worlds drawn at random.

Rows that exclude each other share one uniform number and have disjoint intervals of it; an independent row is alone
with its number. So blocks and independent rows are drawn alike, and listed alike: an alternative each, and "none".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray, IntArray

MOST_LISTED = 2**14
"""The most worlds that are listed one by one, which is as many as 14 independent rows have."""
SLACK = 1e-9
"""The probabilities of a block that add up to 1 may miss it by this much through rounding."""
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Choices:
    """Uncertain rows, ordered by the choice that decides about them."""

    rows: IntArray
    """The numbers of the rows."""
    choice: IntArray
    """The choice of each row, numbered from 0 without gaps, in order."""
    prob: FloatArray
    low: FloatArray
    high: FloatArray
    """A row exists in the worlds in which the uniform number of its choice is in [low, high)."""
    certain: IntArray
    """The numbers of rows that exist in every world."""

    @property
    def num_choices(self) -> int:
        return int(self.choice[-1]) + 1 if len(self.choice) else 0

    def alternatives(self) -> IntArray:
        """int64[choices]: how many alternatives each has, "none of its rows" among them where that is possible."""
        count = np.bincount(self.choice, minlength=self.num_choices)
        return count + (self._rest() > 0.0)

    def _rest(self) -> FloatArray:
        """The probability of each choice that none of its rows exists."""
        total = np.bincount(self.choice, weights=self.prob, minlength=self.num_choices)
        return np.where(total < 1.0 - SLACK, 1.0 - total, 0.0)

    def num_worlds(self) -> int:
        """How many worlds there are; MOST_LISTED + 1 stands for all larger numbers."""
        found = 1
        for count in self.alternatives().tolist():
            found *= count
            if found > MOST_LISTED:
                return MOST_LISTED + 1
        return found

    def listed(self, first: int, last: int) -> tuple[FloatArray, BoolArray]:
        """(weight, bool[worlds, rows]: which rows exist) of the worlds ``first`` to ``last - 1``."""
        world = np.arange(first, last)
        weight = np.ones(len(world))
        present = np.zeros((len(world), len(self.rows)), dtype=bool)
        starts = np.searchsorted(self.choice, np.arange(self.num_choices + 1))
        rest = self._rest()
        for c, count in enumerate(self.alternatives().tolist()):
            world, digit = np.divmod(world, count)
            mine = slice(int(starts[c]), int(starts[c + 1]))
            size = mine.stop - mine.start
            present[:, mine] = digit[:, None] == np.arange(size)
            weight *= np.append(self.prob[mine], rest[c])[digit]
        return weight, present

    def drawn(self, rng: np.random.Generator, worlds: int) -> BoolArray:
        """bool[worlds, rows]: which rows exist in the next worlds of a random source."""
        uniform = rng.random((worlds, self.num_choices))[:, self.choice]
        found: BoolArray = (self.low <= uniform) & (uniform < self.high)
        return found


def make_choices(rows: IntArray, prob: FloatArray, block: IntArray) -> Choices:
    """The choices behind rows with these probabilities and blocks (-1: independent); all arrays have one entry a row.

    Rows that are left out of a block count as "none": so rows that cannot matter need not be given.
    """
    certain = prob >= 1.0
    rows_open, p, b = rows[~certain], prob[~certain], block[~certain]
    known = int(b.max(initial=-1)) + 1
    key = np.where(b >= 0, b, known + np.arange(len(b)))
    order = np.argsort(key, kind="stable")
    rows_open, p, key = rows_open[order], p[order], key[order]
    starts = np.ones(len(key), dtype=bool)
    starts[1:] = key[1:] != key[:-1]
    choice = np.cumsum(starts) - 1
    ends = np.cumsum(p)
    first = np.flatnonzero(starts)
    before = (ends - p)[first][choice] if len(p) else p
    alone = np.bincount(choice)[choice] == 1 if len(p) else starts
    high = np.where(alone, p, np.minimum(ends - before, 1.0))  # sums over many rows are rounded
    low = np.where(starts, 0.0, np.concatenate([[0.0], high[:-1]]))
    return Choices(rows_open, choice, p, low, np.maximum(high, low), rows[certain])
