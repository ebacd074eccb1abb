"""The oracle of the test suite: enumeration of all assignments, for formulas small enough to enumerate.

Nothing here shares code with the engines: a formula's truth table is built by looking at every assignment.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from sharpdnf import DNF

FloatArray = npt.NDArray[np.float64]
MAX_VARS = 22  # of the variables that occur


def truth_table(dnf: DNF) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """(bool[2^k], int64[k]): the table over the k variables that occur; bit j of the index is variable used[j]."""
    used = np.unique(dnf.literals >> 1).astype(np.int64)
    if len(used) > MAX_VARS:
        raise ValueError(f"{len(used)} variables are too many to enumerate")
    axis = {int(v): len(used) - 1 - j for j, v in enumerate(used)}
    table = np.zeros((2,) * len(used), dtype=bool)
    rows = zip(dnf.indptr[:-1], dnf.indptr[1:], strict=True)
    for clause in {tuple(dnf.literals[a:b].tolist()) for a, b in rows}:
        cube: list[slice | int] = [slice(None)] * len(used)
        for literal in clause:
            cube[axis[literal >> 1]] = 1 - (literal & 1)
        table[tuple(cube)] = True
    return table.ravel(), used


def _assignment_probs(prob: FloatArray, used: npt.NDArray[np.int64]) -> FloatArray:
    """float64[2^k]: the probability of every assignment to ``used``."""
    out = np.ones(1)
    for v in used:
        out = np.concatenate([out * (1.0 - prob[v]), out * prob[v]])
    return out


def enumerate_prob(dnf: DNF) -> float:
    """P(formula) by enumeration, in doubles."""
    table, used = truth_table(dnf)
    return float(np.sum(_assignment_probs(dnf.prob, used)[table]))


def enumerate_fraction(dnf: DNF) -> Fraction:
    """P(formula) as an exact rational: each probability is the rational its double stands for."""
    table, used = truth_table(dnf)
    values = [Fraction(int(bit)) for bit in table]
    for v in used:  # folds the lowest bit of the index away
        p = Fraction(float(dnf.prob[v]))
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [low * (1 - p) + high * p if low != high else low for low, high in pairs]
    return values[0]


def enumerate_log_prob(dnf: DNF) -> float:
    """log P(formula), right however small."""
    return log_fraction(enumerate_fraction(dnf))


def log_fraction(value: Fraction) -> float:
    if value <= 0:
        return -math.inf
    if value > Fraction(1, 2):
        return math.log1p(-float(1 - value))
    shift = max(0, value.denominator.bit_length() - value.numerator.bit_length())
    return math.log(float(value * 2**shift)) - shift * math.log(2.0)  # logs of huge integers would cancel


def enumerate_count(dnf: DNF) -> int:
    """The number of satisfying assignments over all of the formula's variables."""
    table, used = truth_table(dnf)
    return int(np.sum(table)) << (dnf.num_vars - len(used))


def enumerate_marginals(dnf: DNF) -> FloatArray:
    """float64[n]: P(variable | formula); variables that do not occur keep their probability."""
    table, used = truth_table(dnf)
    weight = _assignment_probs(dnf.prob, used) * table
    index = np.arange(len(table))
    out = np.array(dnf.prob)
    for j, v in enumerate(used):
        out[v] = np.sum(weight[(index >> j) & 1 == 1]) / np.sum(weight)
    return out


def enumerate_influence(dnf: DNF) -> FloatArray:
    """float64[n]: d P(formula) / d prob[v] = P(formula | v) - P(formula | not v)."""
    table, used = truth_table(dnf)
    index = np.arange(len(table))
    out = np.zeros(dnf.num_vars)
    for j, v in enumerate(used):
        rest = np.array(dnf.prob)
        rest[v] = 1.0
        high = np.sum(_assignment_probs(rest, used)[table & ((index >> j) & 1 == 1)])
        rest[v] = 0.0
        low = np.sum(_assignment_probs(rest, used)[table & ((index >> j) & 1 == 0)])
        out[v] = high - low
    return out


PLAIN_PROBS = st.sampled_from([0.5, 0.1, 0.9, 0.25, 0.6])
ANY_PROBS = st.one_of(
    PLAIN_PROBS, st.floats(0.0, 1.0, allow_nan=False), st.sampled_from([0.0, 1.0, 1e-12, 1e-200, 1.0 - 1e-12])
)


@st.composite
def dnfs(
    draw: st.DrawFn,
    *,
    max_vars: int = 8,
    max_clauses: int = 10,
    max_width: int = 5,
    min_clauses: int = 0,
    min_width: int = 0,
    probs: st.SearchStrategy[float] = PLAIN_PROBS,
    unate: bool = False,
) -> DNF:
    """Small formulas; ``unate`` makes every variable occur with one sign only."""
    n = draw(st.integers(1, max_vars))
    flip = draw(st.lists(st.booleans(), min_size=n, max_size=n)) if unate else None
    variable = st.integers(1, n)
    widths = st.integers(min(min_width, n), min(max_width, n))
    clauses = []
    for _ in range(draw(st.integers(min_clauses, max_clauses))):
        size = draw(widths)
        chosen = draw(st.lists(variable, min_size=size, max_size=size, unique=True))
        if flip is None:
            clauses.append([v if draw(st.booleans()) else -v for v in chosen])
        else:
            clauses.append([-v if flip[v - 1] else v for v in chosen])
    return DNF.from_clauses(clauses, draw(st.lists(probs, min_size=n, max_size=n)), num_vars=n)


def random_dnf(rng: np.random.Generator, n: int, m: int, width: int | tuple[int, int], unate: bool = False) -> DNF:
    """m clauses over n variables, distinct variables per clause, probabilities uniform in (0.05, 0.95)."""
    low, high = (width, width) if isinstance(width, int) else width
    flip = rng.integers(0, 2, n)
    clauses = []
    for _ in range(m):
        chosen = rng.choice(n, size=rng.integers(low, high + 1), replace=False)
        signs = flip[chosen] if unate else rng.integers(0, 2, len(chosen))
        clauses.append([int(v + 1) * (-1 if s else 1) for v, s in zip(chosen, signs, strict=True)])
    return DNF.from_clauses(clauses, rng.uniform(0.05, 0.95, n), num_vars=n)
