"""Rows of a lineage query -> one batch of formulas, as arrays from end to end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.dnf import DNF, Batch
from sharpdnf.sql.blocks import Encoding, encode

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
RowArray = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Rows:
    """All uncertain rows of a ProbDB: ``prob[r]`` of row r, ``block[r]`` its block or -1 if it is independent."""

    prob: FloatArray
    block: IntArray

    @cached_property
    def number(self) -> IntArray:
        """0, 1, 2, ...: the row behind a variable where every row is one."""
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


def build(rows: RowArray, indptr: IntArray, known: Rows) -> Formulas:
    """Formula f has a clause for each of ``rows[indptr[f]:indptr[f + 1]]``: these rows together, -1 left out."""
    if known.blocked and bool((known.block[rows[rows >= 0]] >= 0).any()):
        dnf, row_of_var, sizes = _with_blocks(rows, indptr, known)
    else:
        dnf, row_of_var = _independent(rows, known)
        sizes = np.diff(indptr)
    possible = np.flatnonzero(sizes)
    sizes = sizes[possible]
    return Formulas(Batch(dnf, np.concatenate([[0], np.cumsum(sizes)])), row_of_var, possible, sizes)


def _independent(rows: RowArray, known: Rows) -> tuple[DNF, IntArray]:
    """Row r is a variable of its own, shared by all formulas; rows in no clause are variables only if they are few."""
    flat = np.ascontiguousarray(rows, dtype=np.int32).ravel()
    indptr, literals, all_rows, row_of_var = _native.lineage_clauses(flat, *rows.shape, len(known.prob))
    if all_rows:
        return DNF.trusted(indptr, literals, known.prob), known.number
    return DNF.trusted(indptr, literals, known.prob[row_of_var]), row_of_var


def _exclusive(rows: RowArray, present: npt.NDArray[np.bool_], known: Rows) -> npt.NDArray[np.bool_]:
    """bool[clauses]: whether a clause needs two different rows of one block."""
    bad = np.zeros(len(rows), dtype=bool)
    block = np.where(present, known.block[np.where(present, rows, 0)], -1)
    for i in range(rows.shape[1]):
        for j in range(i):
            bad |= (block[:, i] >= 0) & (block[:, i] == block[:, j]) & (rows[:, i] != rows[:, j])
    return bad


def _with_blocks(rows: RowArray, indptr: IntArray, known: Rows) -> tuple[DNF, IntArray, IntArray]:
    """Independent rows as above; a row of a block is a few literals over variables of its formula.

    Clauses that need two rows of one block are left out, so the number of clauses of each formula comes back too.
    """
    formula = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    present = rows >= 0
    keep = ~_exclusive(rows, present, known)
    if not keep.all():
        rows, present, formula = rows[keep], present[keep], formula[keep]
    flat = rows[present]
    formula_of_entry = np.repeat(formula, present.sum(axis=1))
    in_block = known.block[flat] >= 0
    used = np.zeros(len(known.prob), dtype=bool)
    used[flat[~in_block]] = True
    var_of_row = np.cumsum(used) - 1
    shared = int(used.sum())

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

    clause_of_entry = np.repeat(np.arange(len(rows)), present.sum(axis=1))
    ends = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.bincount(clause_of_entry, weights=width, minlength=len(rows)).astype(np.int64), out=ends[1:])
    of_block = np.where(code.pair_of_var >= 0, distinct[2][np.maximum(code.pair_of_var, 0)], -1)
    row_of_var = np.concatenate([np.flatnonzero(used), of_block])
    dnf = DNF.from_arrays(ends, literals.astype(np.int32), np.concatenate([known.prob[used], code.prob]))
    assert dnf.num_clauses == len(rows), "exclusive rows were taken out before"
    return dnf, row_of_var, np.bincount(formula, minlength=len(indptr) - 1)


def select(batch: Batch, wanted: IntArray) -> Batch:
    """The formulas ``wanted`` of a batch, over the same variables."""
    first, last = batch.formula_indptr[wanted], batch.formula_indptr[wanted + 1]
    sizes = last - first
    total = int(sizes.sum())
    clause = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(total)
    widths = batch.dnf.widths[clause]
    indptr = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    entry = np.repeat(batch.dnf.indptr[clause] - indptr[:-1], widths) + np.arange(int(indptr[-1]))
    dnf = DNF.trusted(indptr, batch.dnf.literals[entry], batch.dnf.prob, names=batch.dnf.names)
    return Batch(dnf, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
