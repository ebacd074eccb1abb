"""Is a formula recognisably one of those that the network was trained and calibrated on?

Quantiles of past errors say something about formulas drawn like those that made the errors, and nothing about others.
Every generator of the training data gives clauses of one width, a fair coin for each sign, a uniform probability for
each variable and degrees that are a uniform composition of the literals (the paper's) or independent draws; a few
variables, privileged or hubs, stand apart with one sign in many clauses. Clauses share variables by chance, or as where
the authors' program placed them, in runs. The tests below look for just that. Each
refuses a formula of the family with probability 10^-3 at most. What passes may still be unlike the family in ways that
nobody looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sharpdnf.dnf import DNF, FloatArray, IntArray

VARS, CLAUSES, WIDTHS = (20, 20_000), (10, 20_000), (1, 34)
"""The smallest and largest sizes that training and calibration saw, with little room beyond."""
APART_DEGREE = 6  # a variable in this many clauses, always with one sign, may be privileged or a hub
MOST_APART = 4  # this many more of them than the paper's generator gives, ceil(ln n), are left out of the tests
STANDARD_ERRORS = 4.0
"""How far a share or a mean may be from its expectation before a formula is taken to be of another family."""
FAREST = 2.2
"""The limit in the test of Kolmogorov and Smirnov: sqrt(n) times the largest distance to the uniform law exceeds x with
probability about 2 exp(-2 x^2)."""


FEWEST_MEETINGS = 30.0
"""In how many clauses variables of one run must meet by chance before it says anything that they do not."""
PAIRS = 2000  # how many pairs of clauses that share a variable are looked at, to see whether they share more


@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables that occur and do not stand apart: which, degrees, how many of these are negated, probabilities."""

    kept: IntArray
    degree: IntArray
    negated: IntArray
    prob: FloatArray


def unlike_training(dnf: DNF) -> str | None:
    """Why the formula is not recognisably of the training family, as a clause to follow "because"; None if it is."""
    sizes = (("variables", dnf.num_vars, VARS), ("clauses", dnf.num_clauses, CLAUSES))
    for name, size, (low, high) in sizes:
        if not low <= size <= high:
            return f"it has {size:,} {name}, not {low:,} to {high:,}"
    narrow, wide = int(dnf.widths.min()), int(dnf.widths.max())
    if narrow < wide:
        return f"its clauses have {narrow} to {wide} literals, not all the same number"
    if not WIDTHS[0] <= wide <= WIDTHS[1]:
        return f"its clauses have {wide} literals, not {WIDTHS[0]} to {WIDTHS[1]}"
    plain = _without_those_apart(dnf)
    return _signs(plain) or _probabilities(plain) or _degrees(plain, wide) or _neighbours(dnf, plain, wide)


def _without_those_apart(dnf: DNF) -> _Variables:
    degree = np.bincount(dnf.literals >> 1, minlength=dnf.num_vars)
    negated = np.bincount(dnf.literals >> 1, weights=dnf.literals & 1, minlength=dnf.num_vars).astype(np.int64)
    candidates = np.flatnonzero((degree >= APART_DEGREE) & ((negated == 0) | (negated == degree)))
    most = math.ceil(math.log(dnf.num_vars)) + MOST_APART
    kept = degree > 0
    kept[candidates[np.argsort(degree[candidates], kind="stable")[::-1][:most]]] = False
    return _Variables(np.flatnonzero(kept), degree[kept], negated[kept], dnf.prob[kept])


def _signs(plain: _Variables) -> str | None:
    """Tests that signs look like fair coins: about half of all literals negated, few variables always with one sign."""
    total, negated = int(plain.degree.sum()), int(plain.negated.sum())
    if abs(negated - total / 2) > STANDARD_ERRORS * math.sqrt(total) / 2:
        return f"{negated / max(total, 1):.0%} of its literals are negated, not about half"
    repeated = plain.degree >= 2
    chance = np.exp2(1.0 - plain.degree[repeated])
    alike = (plain.negated[repeated] == 0) | (plain.negated[repeated] == plain.degree[repeated])
    expected, spread = float(chance.sum()), math.sqrt(float((chance * (1.0 - chance)).sum()))
    if int(alike.sum()) > expected + STANDARD_ERRORS * (spread + 1.0):
        return "nearly all of its variables occur with one sign only"
    return None


def _probabilities(plain: _Variables) -> str | None:
    """Tests that probabilities are uniform between 0 and 1, by the test of Kolmogorov and Smirnov."""
    ordered, n = np.sort(plain.prob), len(plain.prob)
    if n == 0:
        return "too few of its variables are alike"
    steps = np.arange(n + 1) / n
    distance = max(float((steps[1:] - ordered).max()), float((ordered - steps[:-1]).max()))
    if math.sqrt(n) * distance > FAREST:
        return "its probabilities are not spread evenly between 0 and 1"
    return None


def _degrees(plain: _Variables, width: int) -> str | None:
    """Tests that the variance of the degrees lies between those of the two generators, with much room beyond because
    geometric degrees have long tails."""
    n, mean, variance = len(plain.degree), float(plain.degree.mean()), float(plain.degree.var())
    composition = mean * (mean - 1.0)
    independent = mean * max(1.0 - width / n, 0.0)
    least, most = sorted((composition, independent))
    room = 1.0 + 12.0 / math.sqrt(n)
    if variance < least / (2.0 * room) - 0.1 or variance > 2.0 * room * most + 1.0:
        return "its variables occur too evenly or too unevenly"
    return None


def _neighbours(dnf: DNF, plain: _Variables, width: int) -> str | None:
    """Tests that clauses that share a variable share others only as often as if these were drawn by their degrees.

    Where variables come in groups, as the edges in one corner of a network or rows that join, clauses share many.
    """
    chosen = plain.kept[plain.degree >= 2]
    chosen = chosen[:: max(1, len(chosen) // PAIRS)]
    variables = (dnf.literals >> 1).reshape(-1, width)
    order = np.argsort(variables, axis=None, kind="stable")
    first = np.searchsorted(variables.ravel()[order], chosen)
    own = np.zeros(dnf.num_vars, dtype=bool)
    own[plain.kept] = True
    one, other = (variables[order[first + place] // width] for place in (0, 1))
    alike = (one[:, :, None] == other[:, None, :]) & own[one][:, :, None]
    shared = int(alike.sum()) - len(chosen)
    expected = len(chosen) * (width - 1) ** 2 * float(((plain.degree / dnf.num_literals) ** 2).sum())
    if shared > 2.0 * expected + 3.0 * STANDARD_ERRORS * math.sqrt(expected + 1.0) and not _in_runs(dnf, width):
        return "its variables come in groups that share clauses"
    return None


def _in_runs(dnf: DNF, width: int) -> bool:
    """Whether variables lie as the authors' program places them (``privileged.place_in_runs``).

    By falling degree they come in runs of at most one slot a clause, so that no two of a run meet in a clause. Which
    run a variable is of is not known where its degree is that of a run's border; those are left out. By chance a run
    with s slots would have s^2 / 2m meetings.
    """
    degree = np.bincount(dnf.literals >> 1, minlength=dnf.num_vars)
    order = np.argsort(degree, kind="stable")[::-1]
    falling = degree[order]
    ends, run_of = np.cumsum(falling), np.full(dnf.num_vars, -1)
    start = 0
    for run in range(width - 1):
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + dnf.num_clauses, side="right"))
        if stop in (start, len(order)):
            break
        own = (falling[start:stop] > falling[stop]) & (start == 0 or falling[start:stop] < falling[start - 1])
        run_of[order[start:stop][own]] = run
        start = stop
    runs = np.sort(run_of[dnf.literals >> 1].reshape(-1, width), axis=1)
    meetings = int(((runs[:, 1:] == runs[:, :-1]) & (runs[:, 1:] >= 0)).sum())
    slots = np.bincount(runs[runs >= 0], minlength=1).astype(np.float64)
    by_chance = float((slots**2).sum()) / (2 * dnf.num_clauses)
    return by_chance >= FEWEST_MEETINGS and meetings == 0
