"""Rows of a lineage query -> one batch of formulas, as arrays from end to end.

Without blocks this is a renaming: an uncertain row is a variable, shared by all answers, and the clauses stay as the
database gave them. With blocks (``_with_blocks``) there are three kinds of arrays, and each step maps one to the next:
an *entry* is one uncertain row in one clause; a *pair* is one (formula, row of a block), however many entries have it;
a *literal* is what ``blocks.py`` makes of a pair, several for each. Entries of independent rows become one literal over
variables shared by all formulas, entries of block rows become the literals of their pair over variables that only
their formula has; the latter are numbered behind the former.

What would break: a clause that needs two rows of one block is impossible, as its literals contradict each other. It
must be left out first: ``DNF.from_arrays`` would drop it without telling, and where the formulas begin among the
clauses would be wrong. And ``width`` and ``starts`` must follow the order of the entries, or literals end up in another
clause, which no later check could see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import DNF, Batch, FloatArray, IntArray
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.blocks import Encoding, encode


@dataclass(frozen=True)
class Rows:
    """All uncertain rows of a ProbDB: ``prob[r]`` of row r, ``block[r]`` its block or -1 if it is independent."""

    prob: FloatArray
    block: IntArray

    @cached_property
    def number(self) -> IntArray:
        """int64[rows]: 0, 1, 2, ..., the row behind each variable where every row is a variable."""
        return np.arange(len(self.prob))

    @cached_property
    def blocked(self) -> bool:
        return bool((self.block >= 0).any())


@dataclass(frozen=True, slots=True)
class Formulas:
    """One formula per answer (or per result row, for expected values)."""

    batch: Batch
    row_of_var: IntArray
    """The uncertain row behind a variable; -1 for an inner choice of a large block."""
    possible: IntArray
    """Which of the formulas asked for have a clause left, in order: the others are false in every world."""
    num_clauses: IntArray


def build(clauses: Clauses, indptr: IntArray, known: Rows) -> Formulas:
    """Makes the formulas of a lineage query: formula f has the clauses ``indptr[f]`` to ``indptr[f + 1] - 1``."""
    if int(clauses.literals.max(initial=-1)) >= 2 * len(known.prob):
        raise ValueError("a clause names a row number beyond the known rows")
    if known.blocked and bool((known.block[clauses.literals >> 1] >= 0).any()):
        dnf, row_of_var, sizes = _with_blocks(clauses, indptr, known)
    else:
        dnf, row_of_var = _independent(clauses, known)
        sizes = np.diff(indptr)
    possible = np.flatnonzero(sizes)
    sizes = sizes[possible]
    return Formulas(Batch(dnf, np.concatenate([[0], np.cumsum(sizes)])), row_of_var, possible, sizes)


def _independent(clauses: Clauses, known: Rows) -> tuple[DNF, IntArray]:
    """Makes every row a variable of its own, shared by all formulas.

    With many clauses all known rows are variables, which needs no renumbering; with few, only the rows that occur.
    """
    if len(known.prob) <= len(clauses):
        return DNF.trusted(clauses.indptr, clauses.literals, known.prob), known.number
    used, var = _numbered(clauses.literals >> 1, known)
    return DNF.trusted(clauses.indptr, 2 * var[clauses.literals >> 1], known.prob[used]), used


def _numbered(rows: npt.NDArray[np.int32], known: Rows) -> tuple[IntArray, npt.NDArray[np.int32]]:
    """(the rows that occur, in order; int32[known rows]: the place of each among them)."""
    occurs = np.zeros(len(known.prob), dtype=bool)
    occurs[rows] = True
    return np.flatnonzero(occurs), np.cumsum(occurs, dtype=np.int32) - np.int32(1)


def possible(clauses: Clauses, known: Rows) -> npt.NDArray[np.bool_]:
    """bool[clauses]: whether a clause can hold, which it cannot if it needs two rows of one block."""
    block = known.block[clauses.literals >> 1]
    clause = np.repeat(np.arange(len(clauses)), np.diff(clauses.indptr))
    blocks = int(block.max()) + 1
    pair, times = np.unique((clause * blocks + block)[block >= 0], return_counts=True)
    possible = np.ones(len(clauses), dtype=bool)
    possible[pair[times > 1] // blocks] = False
    return possible


def _with_blocks(clauses: Clauses, indptr: IntArray, known: Rows) -> tuple[DNF, IntArray, IntArray]:
    """Makes formulas where some rows are in blocks (the module's docstring tells how).

    Returns the clauses, the row of each variable and the number of clauses of each formula, since impossible clauses
    are left out.
    """
    formula = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    keep = possible(clauses, known)
    if not keep.all():
        clauses, formula = clauses.take(np.flatnonzero(keep)), formula[keep]
    flat = clauses.literals >> 1
    formula_of_entry = np.repeat(formula, np.diff(clauses.indptr))
    in_block = known.block[flat] >= 0
    used, var_of_row = _numbered(flat[~in_block], known)
    shared = len(used)

    pairs = np.stack([formula_of_entry, known.block[flat], flat])[:, in_block]
    order = np.lexsort(pairs[::-1])
    ordered = pairs[:, order]
    new = np.ones(ordered.shape[1], dtype=bool)
    new[1:] = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    distinct = ordered[:, new]
    code: Encoding = encode(distinct[0], distinct[1], known.prob[distinct[2]])
    pair_of_entry = np.empty(ordered.shape[1], dtype=np.int64)
    pair_of_entry[order] = np.cumsum(new) - 1

    width = np.ones(len(flat), dtype=np.int64)
    width[in_block] = np.diff(code.indptr)[pair_of_entry]
    starts = np.cumsum(width) - width
    literals = np.empty(int(width.sum()), dtype=np.int64)
    literals[starts[~in_block]] = 2 * var_of_row[flat[~in_block]]
    lengths = width[in_block]
    inside = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    target = np.repeat(starts[in_block], lengths) + inside
    literals[target] = code.literals[np.repeat(code.indptr[pair_of_entry], lengths) + inside] + 2 * shared

    ends = np.concatenate([[0], np.cumsum(width)])[clauses.indptr]
    of_block = np.where(code.pair_of_var >= 0, distinct[2][np.maximum(code.pair_of_var, 0)], -1)
    row_of_var = np.concatenate([used, of_block])
    dnf = DNF.from_arrays(ends, literals.astype(np.int32), np.concatenate([known.prob[used], code.prob]))
    assert dnf.num_clauses == len(clauses), "exclusive rows were taken out before"
    return dnf, row_of_var, np.bincount(formula, minlength=len(indptr) - 1)


def select(batch: Batch, wanted: IntArray) -> Batch:
    """The formulas ``wanted`` of a batch, over the same variables."""
    first, last = batch.formula_indptr[wanted], batch.formula_indptr[wanted + 1]
    sizes = last - first
    clause = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    taken = Clauses(batch.dnf.indptr, batch.dnf.literals).take(clause)
    dnf = DNF.trusted(taken.indptr, taken.literals, batch.dnf.prob, names=batch.dnf.names)
    return Batch(dnf, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
