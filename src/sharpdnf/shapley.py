"""How the truth of a formula is shared out among its variables: Banzhaf and Shapley values.

The variables are players, and a coalition wins if the formula is true when exactly its members are. The Banzhaf value
of x is how often x makes a difference to a coalition of the others drawn by fair coins; the Shapley value is how often
it makes one to those who came before it in a random order. With f(t) = d P / d p_x where every variable has the
probability t, the first is f(1/2) and the second the integral of f from 0 to 1 (Owen, "Multilinear extensions of
games", 1972). f is a polynomial of degree n - 1, so the rule of Gauss and Legendre with n / 2 points gives the integral
exactly, but for rounding: a formula that compiles has exact Shapley values. Others are sampled.
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np

from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.engines.front import Seed, make_limit, make_rng
from sharpdnf.errors import NotMetWarning
from sharpdnf.estimate import check_tolerance
from sharpdnf.sensitivity import Influence, compile_within, exact_influence

TOGETHER = 2_000_000
"""Probabilities of one evaluation under many vectors: 16 MB."""
MOST_POINTS = 2_000
"""Points of the integral beyond which sampling is quicker."""
SAMPLE_SECONDS = 20.0
"""For drawing orders, where no timeout says less."""
BATCH = 64
"""Orders that are drawn between two looks at the clock."""


def banzhaf(
    dnf: DNF, *, epsilon: float = 0.05, delta: float = 0.05, rng: Seed = None, timeout: float | None = None
) -> Influence:
    """The Banzhaf value of every variable.

    Exact where the formula compiles; else all of them are within epsilon with probability 1 - delta.
    """
    check_tolerance(epsilon, delta)
    compiled = compile_within(dnf, make_limit(timeout, None))
    if compiled is not None:
        return exact_influence(shares_of(compiled, dnf.num_vars, "banzhaf"), dnf.names)
    return _sampled(dnf, epsilon, delta, make_rng(rng)[0], timeout, orders=False)


def shapley(
    dnf: DNF, *, epsilon: float = 0.05, delta: float = 0.05, rng: Seed = None, timeout: float | None = None
) -> Influence:
    """The Shapley value of every variable: they add up to 1 if the formula is not a tautology and can be true.

    Exact where the formula compiles and has at most 4,000 variables; else all of them are within epsilon with
    probability 1 - delta, by Hoeffding's inequality.
    """
    check_tolerance(epsilon, delta)
    points = (dnf.num_vars + 1) // 2
    compiled = compile_within(dnf, make_limit(timeout, None)) if points <= MOST_POINTS else None
    if compiled is not None:
        return exact_influence(shares_of(compiled, dnf.num_vars, "shapley"), dnf.names)
    return _sampled(dnf, epsilon, delta, make_rng(rng)[0], timeout, orders=True)


def shares_of(compiled: Compiled, num_vars: int, measure: str) -> FloatArray:
    """float64[n]: the Banzhaf or Shapley values of a compiled formula."""
    if measure == "banzhaf":
        return compiled.gradient(np.full(num_vars, 0.5))[1]
    total = np.zeros(num_vars)
    if not num_vars:
        return total
    points = (num_vars + 1) // 2
    place, weight = np.polynomial.legendre.leggauss(points)
    place, weight = (place + 1.0) / 2.0, weight / 2.0
    step = max(1, TOGETHER // num_vars)
    for start in range(0, points, step):
        some = slice(start, start + step)
        probs = np.repeat(place[some, None], num_vars, axis=1)
        total += weight[some] @ np.atleast_2d(compiled.gradient(probs)[1])
    return total


def _sampled(
    dnf: DNF, epsilon: float, delta: float, rng: np.random.Generator, timeout: float | None, *, orders: bool
) -> Influence:
    """Means of differences in [-1, 1], or [0, 1] where nothing is negated, with intervals by Hoeffding's inequality.

    In a random order every variable is met after those before it; under fair coins each is flipped alone.
    """
    n = dnf.num_vars
    wide = 2.0 if bool((dnf.literals & 1).any()) else 1.0
    needed = math.ceil(wide**2 * math.log(2 * max(n, 1) / delta) / (2.0 * epsilon**2))
    until = time.monotonic() + (SAMPLE_SECONDS if timeout is None else timeout)
    total, squares, drawn = np.zeros(n), np.zeros(n), 0
    difference = _along_an_order if orders else _of_each_flip
    while drawn < needed and (drawn == 0 or time.monotonic() < until):
        for _ in range(min(BATCH, needed - drawn)):
            found = difference(dnf, rng)
            total += found
            squares += found**2
            drawn += 1
    mean = total / drawn
    half = wide * math.sqrt(math.log(2 * max(n, 1) / delta) / (2.0 * drawn))
    stderr = np.sqrt(np.maximum(squares / drawn - mean**2, 0.0) / drawn)
    met = drawn >= needed
    if not met:
        message = f"there was time for {drawn} of {needed} draws: the values are known to within {half:.2g} only"
        warnings.warn(message, NotMetWarning, stacklevel=3)
    low = -1.0 if wide > 1.0 else 0.0
    return Influence(
        mean, stderr, np.maximum(mean - half, low), np.minimum(mean + half, 1.0), False, drawn, met=met, names=dnf.names
    )


class _Clauses:
    """How many literals of each clause are false, while variables change one by one."""

    def __init__(self, dnf: DNF) -> None:
        clause = np.repeat(np.arange(dnf.num_clauses), np.diff(dnf.indptr))
        order = np.argsort(dnf.literals >> 1, kind="stable")
        self.clause, self.negative = clause[order], (dnf.literals & 1)[order].astype(bool)
        self.start = np.searchsorted((dnf.literals >> 1)[order], np.arange(dnf.num_vars + 1))
        self.dnf, self.all_clauses = dnf, clause

    def begin(self, world: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Starts from a world."""
        false = world[self.dnf.literals >> 1] == (self.dnf.literals & 1).astype(bool)
        self.false = np.bincount(self.all_clauses[false], minlength=self.dnf.num_clauses)
        self.true = int((self.false == 0).sum())

    def flip(self, variable: int, *, on: bool) -> int:
        """Sets a variable; how many clauses are true now."""
        mine = slice(self.start[variable], self.start[variable + 1])
        clauses, change = self.clause[mine], np.where(self.negative[mine] == on, 1, -1)
        before = int((self.false[clauses] == 0).sum())
        self.false[clauses] += change
        self.true += int((self.false[clauses] == 0).sum()) - before
        return self.true


def _along_an_order(dnf: DNF, rng: np.random.Generator) -> FloatArray:
    """float64[n]: what each variable changes when it joins those before it."""
    state, found = _Clauses(dnf), np.zeros(dnf.num_vars)
    state.begin(np.zeros(dnf.num_vars, dtype=bool))
    positive = not bool((dnf.literals & 1).any())
    before = state.true > 0
    for variable in rng.permutation(dnf.num_vars).tolist():
        if positive and before:
            break  # nothing can make it false again
        now = state.flip(variable, on=True) > 0
        found[variable] = float(now) - float(before)
        before = now
    return found


def _of_each_flip(dnf: DNF, rng: np.random.Generator) -> FloatArray:
    """float64[n]: what each variable changes beside a random coalition of the others."""
    state, found = _Clauses(dnf), np.zeros(dnf.num_vars)
    world = rng.random(dnf.num_vars) < 0.5
    state.begin(world)
    for variable, on in enumerate(world.tolist()):
        here = state.true > 0
        there = state.flip(variable, on=not on) > 0
        found[variable] = float(here) - float(there) if on else float(there) - float(here)
        state.flip(variable, on=on)
    return found
