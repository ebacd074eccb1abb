"""Groups that are there iff at least so many of their rows are, where the rows are independent: no circuit is needed.

The probability of such a group is the tail of a sum of independent events, which one pass over the group's rows gives.
The circuit of an answer is made when somebody asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends.protocol import LineageRows
from sharpdnf.sql.emit.gates import Gates
from sharpdnf.sql.emit.lineage import Rows


@dataclass(frozen=True, slots=True)
class Tails:
    """One answer a group: at least ``needed`` of its rows, ``row[indptr[g]:indptr[g + 1]]``, are there."""

    needed: int
    indptr: IntArray
    row: npt.NDArray[np.int32]
    rows: Rows

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, wanted: IntArray) -> Tails:
        """These answers."""
        sizes = np.diff(self.indptr)[wanted]
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        place = np.repeat(self.indptr[wanted] - ends[:-1], sizes) + np.arange(int(ends[-1]))
        return Tails(self.needed, ends, self.row[place], self.rows)

    def circuit(self, number: int, rows: Rows | None = None) -> tuple[Circuit, IntArray]:
        """The circuit of one answer over its own variables, and the uncertain row behind each (-1: none).

        ``rows`` are the same rows with other probabilities."""
        mine = self.row[self.indptr[number] : self.indptr[number + 1]].astype(np.int64)
        gates = Gates(len(self.rows.prob))
        output = gates.at_least(np.array([self.needed]), np.array([0, len(mine)]), mine)
        return gates.circuit(output, rows or self.rows)

    def prob(self) -> FloatArray:
        """The probability of every answer."""
        needed = np.full(len(self), self.needed)
        return _native.at_least(needed, self.indptr, self.row, self.rows.prob)[0]


def tails_of(found: LineageRows, needed: int, known: Rows) -> tuple[Tails, IntArray] | None:
    """The groups that have enough rows, and which they are; None if the rows of a group are not independent."""
    row, groups = found.clauses.literals >> 1, len(found.indptr) - 1
    if len(row) != len(found.clauses) or (known.blocked and bool((known.block[row] >= 0).any())):
        return None
    if _native.repeats(found.indptr, row, len(known.prob)):
        return None
    whole = Tails(needed, found.indptr, row, known)
    possible = np.flatnonzero(np.diff(found.indptr) >= needed)
    return (whole if len(possible) == groups else whole.take(possible)), possible
