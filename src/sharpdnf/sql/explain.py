"""Which uncertain rows matter for an answer: P(answer | row) - P(answer | no row) of all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from sharpdnf.analysis import count_weights, influence
from sharpdnf.dnf import DNF, FloatArray, IntArray, LitArray
from sharpdnf.sql.backends import Clauses
from sharpdnf.sql.lineage import Rows, build

TOGETHER = 2_000_000
"""Probabilities of one evaluation under many vectors: 16 MB."""


def influences(clauses: Clauses, known: Rows, **asked: Any) -> tuple[IntArray, FloatArray]:
    """(rows, P(answer | row) - P(answer | no row) of each) for all rows that matter to one answer.

    Those are the rows in its clauses and the others of their blocks, whose presence excludes them.
    An independent row is a variable, so its influence is d P / d p: one pass gives all of them. A row of a block is a
    conjunction of choices: given the row they are all made, the others of its block are absent, and the formula is
    evaluated under these probabilities. Exact where the formula compiles, else estimated as ``asked``.
    """
    rows = np.unique(clauses.literals >> 1).astype(np.int64)
    if not len(rows) or not np.diff(clauses.indptr).all():  # a certain answer needs no row
        return rows, np.zeros(len(rows))
    others, first_of_other = _alternatives(rows, known)
    rows = np.union1d(rows, others[first_of_other])
    used = (2 * rows).astype(clauses.literals.dtype)
    # One more clause for each row shows how the row is encoded; beside the clauses' own only alternatives come in.
    more = clauses.indptr[-1] + np.arange(1, len(used) + 1)
    both = Clauses(np.concatenate([clauses.indptr, more]), np.concatenate([clauses.literals, used]))
    whole, literals = _split(build(both, np.array([0, len(both)]), known).batch[0], len(rows))
    found = np.zeros(len(rows))
    in_block = known.block[rows] >= 0
    if not in_block.all():
        slopes = influence(whole, **asked)
        found[~in_block] = [slopes[literals[i][0] >> 1] for i in np.flatnonzero(~in_block)]
    if in_block.any():
        chosen = np.flatnonzero(in_block)
        found[chosen] = _of_blocks(whole, [literals[i] for i in chosen], known.prob[rows[chosen]], asked)
    # Given an alternative with probability q the rest of its block is absent, so P(F | row) is the same for all of a
    # block, and with P(F) the influence (P(F | row) - P(F)) / (1 - q): one of them tells those of the others.
    kept = np.flatnonzero(first_of_other != np.arange(len(others)))
    firsts = others[first_of_other[kept]]
    rest = 1.0 - known.prob[others[kept]]
    scale = np.where(rest > 0.0, (1.0 - known.prob[firsts]) / np.where(rest > 0.0, rest, 1.0), 0.0)
    spread = np.clip(found[np.searchsorted(rows, firsts)] * scale, -1.0, 1.0)
    return np.concatenate([rows, others[kept]]), np.concatenate([found, spread])


def _alternatives(rows: IntArray, known: Rows) -> tuple[IntArray, IntArray]:
    """(the other rows of the blocks of ``rows``, ordered by block; the place of the least probable of each's block)."""
    blocks = np.unique(known.block[rows])
    others = np.setdiff1d(np.flatnonzero(np.isin(known.block, blocks[blocks >= 0])), rows)
    others = others[np.lexsort((known.prob[others], known.block[others]))]
    _, first, inverse = np.unique(known.block[others], return_index=True, return_inverse=True)
    return others, first[inverse]


def _split(dnf: DNF, singles: int) -> tuple[DNF, list[LitArray]]:
    """The formula without its last clauses, and the literals of these."""
    last = dnf.num_clauses - singles
    tails = [dnf.literals[a:b] for a, b in zip(dnf.indptr[last:-1], dnf.indptr[last + 1 :], strict=True)]
    return DNF(dnf.indptr[: last + 1].copy(), dnf.literals[: dnf.indptr[last]].copy(), dnf.prob), tails


def _of_blocks(whole: DNF, literals: list[LitArray], prob: FloatArray, asked: dict[str, Any]) -> FloatArray:
    """P(F | no row) follows from P(F) = p P(F | row) + (1 - p) P(F | no row), and for p = 1 from an empty block."""
    plain = float(np.exp(count_weights(whole, whole.prob[None, :], **asked))[0])
    step = max(1, TOGETHER // max(1, whole.num_vars))
    out = np.empty(len(literals))
    for start in range(0, len(literals), step):
        some = range(start, min(start + step, len(literals)))
        given, without = (np.repeat(whole.prob[None, :], len(some), axis=0) for _ in range(2))
        for place, i in enumerate(some):
            given[place, literals[i] >> 1] = (literals[i] & 1) == 0
            positive = literals[i][(literals[i] & 1) == 0]
            without[place, positive[0] >> 1] = 0.0  # the row's own choice in a chain, the root of a tree
        p = prob[start : start + len(some)]
        here = np.exp(count_weights(whole, given, **asked))
        rest = (plain - p * here) / np.where(p < 1.0, 1.0 - p, 1.0)
        if (p == 1.0).any():
            rest[p == 1.0] = np.exp(count_weights(whole, without[p == 1.0], **asked))
        out[start : start + len(some)] = here - np.clip(rest, 0.0, 1.0)
    return out
