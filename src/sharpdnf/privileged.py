"""The privileged variables of the paper's generator: how many there are, how many slots they get, and where these lie.

The appendix of Abboud, Ceylan and Lukasiewicz (AAAI 2020) and the program that its authors published differ in all
three. In formulas of the program one or two variables nearly cover the clauses: those that one of them leaves out are
filled with the next.
"""

from __future__ import annotations

import math

import numpy as np

from sharpdnf.dnf import IntArray, LitArray


def draw_privileged(num_vars: int, variant: str, rng: np.random.Generator) -> float:
    """q n, which rounded up is the number of privileged variables; it is at least 1.

    As printed (``text``): q = Exp(1) mod (ln n / n), so that the number is nearly uniform over 1..ceil(ln n).
    In the program: q = (Exp(1) mod ln n) / n, so that it is mostly one.
    """
    log_n = math.log(num_vars)
    if log_n == 0.0:
        return 1.0
    x = float(rng.exponential())
    share = math.fmod(x, log_n / num_vars) * num_vars if variant == "text" else math.fmod(x, log_n)
    return min(max(share, 1.0), float(num_vars))


def slots_by_text(num_vars: int, num_clauses: int, slots: int, num_privileged: int) -> int:
    """r e: how many of the excess slots e = s - n go to the P privileged variables alone, as the appendix says.

    r is the largest value for which no privileged variable gets more than m slots with probability at least 1/2, by
    the one-sided Chebyshev (Cantelli) bound and a union bound: E[X] + sqrt(2P - 1) sd[X] <= m.
    """
    n, p, excess = num_vars, num_privileged, slots - num_vars
    own = np.arange(excess + 1, dtype=np.float64)
    shared = excess - own
    mean = 1.0 + own / p + shared / n
    # N slots composed uniformly over B boxes, empty ones allowed: variance N (B-1)(N+B) / (B^2 (B+1)) each.
    variance = own * (p - 1) * (own + p) / (p**2 * (p + 1)) + shared * (n - 1) * (shared + n) / (n**2 * (n + 1))
    allowed = np.flatnonzero(mean + np.sqrt((2 * p - 1) * variance) <= num_clauses)
    return int(allowed[-1]) if len(allowed) else 0


def slots_by_program(num_vars: int, num_clauses: int, slots: int, share: float) -> int:
    """r e as the authors' program has it, for ``share`` = q n.

    With c = P / 0.8 - 1 and the variances of multinomial draws, r is the largest value with
    1 + (e/n + c sqrt(e (n-1)) / n) + r e (1-q) / (q n) + sqrt(r) c sqrt(e (q n - 1)) / (q n) <= m,
    a quadratic equation in sqrt(r). There is no square root of c, so the mean comes close to m where P = 1.
    """
    n, excess = num_vars, slots - num_vars
    c = math.ceil(share) / 0.8 - 1.0
    linear = c * math.sqrt(excess * (share - 1.0)) / share
    constant = 1.0 + excess / n - num_clauses + c * math.sqrt(excess * (n - 1)) / n
    square = excess * (1.0 - share / n) / share
    root = linear**2 - 4.0 * constant * square
    if root <= 0.0 or square == 0.0:
        return 0
    r = max((math.sqrt(root) - linear) / (2.0 * square), 0.0) ** 2
    return int(min(r, 1.0) * excess)


def compose(balls: int, boxes: int, rng: np.random.Generator) -> IntArray:
    """int64[boxes]: balls in boxes that may stay empty, all ways equally likely (stars and bars)."""
    bars = np.sort(rng.choice(balls + boxes - 1, boxes - 1, replace=False))
    found: IntArray = np.diff(np.concatenate([[-1], bars, [balls + boxes - 1]])) - 1
    return found


def place_in_runs(degree: IntArray, widths: IntArray, rng: np.random.Generator) -> LitArray | None:
    """int32[slots]: the variable of every slot, clause by clause, as the authors' program places them; None if stuck.

    Variables come by falling degree, in runs that together fill at most one slot of each clause that has ``level`` or
    more empty ones. A run takes first the clauses with more than ``level`` empty slots, which the runs before have
    left out, then random ones with just so many; then the level falls by one.
    """
    order = np.argsort(degree)[::-1]
    ends = np.cumsum(degree[order])
    empty, level = widths.copy(), int(widths.max())
    first_slot = np.cumsum(widths) - widths
    placed = np.empty(int(widths.sum()), dtype=np.int32)
    start = done = 0
    while start < len(order):
        over, exact = np.flatnonzero(empty > level), np.flatnonzero(empty == level)
        stop = int(np.searchsorted(ends, done + len(over) + len(exact), side="right"))
        if stop == start:
            if level == 1:
                return None
            level -= 1
            continue
        run = np.repeat(order[start:stop], degree[order[start:stop]])
        if len(over) > len(run):
            clauses = rng.choice(over, len(run), replace=False)
        else:
            clauses = np.concatenate([over, rng.choice(exact, len(run) - len(over), replace=False)])
            level = max(level - 1, 1)
        empty[clauses] -= 1
        placed[first_slot[clauses] + empty[clauses]] = run
        start, done = stop, done + len(run)
    return placed


def draw_by_program(
    widths: IntArray, num_vars: int, share: float, tries: int, rng: np.random.Generator
) -> tuple[LitArray | None, int]:
    """(the variable of every slot, how many variables are privileged), as in the authors' program.

    The privileged ones are the first; ``share`` is q n, or 0 for a formula that has none. The slots are None if no
    allocation could be placed in ``tries`` tries.
    """
    slots = int(widths.sum())
    own = slots_by_program(num_vars, len(widths), slots, share) if share else 0
    num_privileged = math.ceil(share) if own else 0
    for _ in range(tries):
        degree = 1 + compose(slots - num_vars - own, num_vars, rng)
        if own:
            degree[:num_privileged] += compose(own, num_privileged, rng)
        placed = place_in_runs(degree, widths, rng)
        if placed is not None:
            return placed, num_privileged
    return None, num_privileged
