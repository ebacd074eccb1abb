"""The paper's appendix A once more, word for word and slowly: formulas that owe nothing to our generator."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sharpdnf.dnf import DNF


def composition(balls: int, boxes: int, rng: np.random.Generator) -> list[int]:
    """Puts balls into boxes so that no box is empty, all ways equally likely: boxes - 1 bars into balls - 1 gaps."""
    bars = sorted(rng.choice(balls - 1, boxes - 1, replace=False).tolist()) if boxes > 1 else []
    edges = [-1, *bars, balls - 1]
    return [b - a for a, b in itertools.pairwise(edges)]


def spare(slots: int, boxes: int, rng: np.random.Generator) -> list[int]:
    """The same, boxes may stay empty."""
    return [b - 1 for b in composition(slots + boxes, boxes, rng)]


def exclusive_slots(n: int, m: int, excess: int, privileged: int) -> int:
    """The most slots for privileged variables alone with which none gets more than m, by Cantelli and a union bound."""
    for own in range(excess, -1, -1):
        mean = 1 + own / privileged + (excess - own) / n
        variance = own * (privileged - 1) * (own + privileged) / (privileged**2 * (privileged + 1))
        rest = excess - own
        variance += rest * (n - 1) * (rest + n) / (n**2 * (n + 1))
        # P(one exceeds m) <= variance / (variance + (m - mean)^2), and all of them together at most 1/2
        if m >= mean and privileged * variance <= 0.5 * (variance + (m - mean) ** 2):
            return own
    return 0


def draw(n: int, m: int, w: int, variant: str, rng: np.random.Generator) -> DNF:
    """One formula with fixed width; half of them have privileged variables."""
    privileged = 0
    if rng.random() < 0.5:
        x = rng.exponential()
        share = x % (math.log(n) / n) if variant == "text" else (x % math.log(n)) / n
        privileged = max(1, math.ceil(share * n))
    excess = m * w - n
    own = exclusive_slots(n, m, excess, privileged) if privileged else 0
    while True:
        slots = [1 + extra for extra in spare(excess - own, n, rng)]
        for v, extra in enumerate(spare(own, privileged, rng) if privileged else []):
            slots[v] += extra
        if max(slots) <= m and (clauses := assign(slots, m, w, rng)) is not None:
            break
    sign = {v: rng.random() < 0.5 for v in range(privileged)}
    name = rng.permutation(n) + 1
    literals = [[int(name[v]) * (1 if sign.get(v, rng.random() < 0.5) else -1) for v in clause] for clause in clauses]
    return DNF.from_clauses(literals, rng.random(n), num_vars=n)


def assign(slots: list[int], m: int, w: int, rng: np.random.Generator) -> list[list[int]] | None:
    """Frequent variables first, each to different clauses, those with more empty slots preferred; None if stuck."""
    clauses: list[list[int]] = [[] for _ in range(m)]
    empty = np.full(m, float(w))
    for v in sorted(range(len(slots)), key=lambda v: -slots[v]):
        if np.count_nonzero(empty) < slots[v]:
            return None
        for c in rng.choice(m, slots[v], replace=False, p=empty / empty.sum()):
            clauses[c].append(v)
            empty[c] -= 1
    return clauses
