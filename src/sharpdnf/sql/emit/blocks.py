"""Rows that exclude each other, as independent variables.

What: at most one row of a block is there, while all engines count formulas over independent variables. So the rows of
a block with probabilities p_1, ..., p_k (sum at most 1) are chosen one after the other: variable x_j says "row j, if
none before it" and has q_j = p_j / (1 - p_1 - ... - p_{j-1}), and row j becomes the literals "not x_1, ..., not
x_{j-1}, x_j" (the standard reduction of block-independent databases; Suciu, Olteanu, Re, Koch, "Probabilistic
Databases", 2011, section 2.7).

Why two shapes: a row at the end of a chain has k literals. Above ``CHAIN`` rows a balanced binary tree is used, whose
root says "some row of these is there" and whose inner nodes choose left or right, so a row has 1 + log2(k) literals.

Why per formula: only the rows that an answer uses take part, and the order of the chain is that of these rows. So the
variables belong to one formula, and a row is encoded once for each pair (formula, row).

What would break: a variable shared by two formulas would have to mean the same in both, but x_j speaks of the rows
before j, and these are others in another formula. And q_j is right only if the rows of a chain are all of one block
and one formula, in the order in which they stand; ``encode`` therefore wants its pairs sorted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdnf.dnf import FloatArray, IntArray

CHAIN = 8
"""Blocks of at most this many rows (of one formula) become chains, larger ones trees."""
TINY = 1e-300
"""Stands in for a denominator of 0, where the numerator is 0 as well."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Pair i (a row as one formula uses it) stands for the literals ``literals[indptr[i]:indptr[i + 1]]``."""

    indptr: IntArray
    literals: IntArray
    prob: FloatArray
    """float64[variables]: the probabilities of the new variables, which are numbered from 0."""
    pair_of_var: IntArray
    """The pair whose presence a variable decides; -1 for the inner nodes of a tree."""


def encode(formula: IntArray, block: IntArray, prob: FloatArray) -> Encoding:
    """Encodes distinct pairs (formula, row), sorted by formula and block; all arrays have one entry per pair."""
    count = len(formula)
    start_here = np.ones(count, dtype=bool)
    start_here[1:] = (formula[1:] != formula[:-1]) | (block[1:] != block[:-1])
    start = np.flatnonzero(start_here)
    size = np.diff(np.append(start, count))
    group = np.cumsum(start_here) - 1
    first, width = start[group], size[group]
    chained = width <= CHAIN
    parts = [_chains(np.flatnonzero(chained), first, prob)]
    variables = len(parts[0].prob)
    if not chained.all():
        parts.append(_trees(start[size > CHAIN], size[size > CHAIN], prob, variables))
    return _merge(parts, count)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the pairs encoded: literals in any order, and the variables that they are over."""

    pair: IntArray
    """The pair that each literal belongs to."""
    literal: IntArray
    prob: FloatArray
    pair_of_var: IntArray


def _chains(pairs: IntArray, first: IntArray, prob: FloatArray) -> _Part:
    position = pairs - first[pairs]
    before = np.zeros(len(prob))
    for j in range(1, CHAIN):
        here = pairs[position == j]
        before[here] = before[here - 1] + prob[here - 1]
    rest = 1.0 - before[pairs]
    # Rounding may leave a rest that is below p_j. And where a row of probability 1 comes first, the rest is 0 and so
    # are the other p_j: TINY makes these quotients 0.
    q = np.minimum(1.0, prob[pairs] / np.maximum(np.maximum(rest, prob[pairs]), TINY))
    var_of_pair = np.zeros(len(prob), dtype=np.int64)
    var_of_pair[pairs] = np.arange(len(pairs))
    owner, literal = [pairs], [2 * var_of_pair[pairs]]
    for j in range(1, CHAIN):
        later = pairs[position >= j]
        owner.append(later)
        literal.append(2 * var_of_pair[first[later] + j - 1] + 1)
    return _Part(np.concatenate(owner), np.concatenate(literal), q, pairs)


def _trees(start: IntArray, size: IntArray, prob: FloatArray, variables: int) -> _Part:
    """Trees of choices, level by level: the root says "some row of these is there", each inner node left or right."""
    pairs = np.concatenate([np.arange(a, a + n) for a, n in zip(start, size, strict=True)])
    low, high = np.repeat(start, size), np.repeat(start + size, size)
    root = variables + np.repeat(np.arange(len(start)), size)
    total = np.array([prob[a : a + n].sum() for a, n in zip(start, size, strict=True)])
    owner, literal, probs = [pairs], [2 * root], [np.minimum(1.0, total)]
    variables += len(start)
    while True:
        open_ = np.flatnonzero(high - low > 1)
        if not len(open_):
            break
        a, b = low[open_], high[open_]
        middle = (a + b) // 2
        left = pairs[open_] < middle
        heads, node = np.unique(a, return_inverse=True)
        ends = np.zeros(len(heads), dtype=np.int64)
        ends[node] = b
        cuts = (heads + ends) // 2
        lefts = np.array([prob[x:y].sum() for x, y in zip(heads, cuts, strict=True)])
        alls = lefts + np.array([prob[x:y].sum() for x, y in zip(cuts, ends, strict=True)])
        owner.append(pairs[open_])
        literal.append(2 * (variables + node) + ~left)
        probs.append(lefts / np.maximum(alls, TINY))
        variables += len(heads)
        low[open_] = np.where(left, a, middle)
        high[open_] = np.where(left, middle, b)
    prob_of_var = np.concatenate(probs)
    return _Part(np.concatenate(owner), np.concatenate(literal), prob_of_var, np.full(len(prob_of_var), -1))


def _merge(parts: list[_Part], count: int) -> Encoding:
    pair = np.concatenate([part.pair for part in parts])
    order = np.argsort(pair, kind="stable")
    indptr = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(pair, minlength=count), out=indptr[1:])
    return Encoding(
        indptr,
        np.concatenate([part.literal for part in parts])[order],
        np.concatenate([part.prob for part in parts]),
        np.concatenate([part.pair_of_var for part in parts]),
    )
