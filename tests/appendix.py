"""The paper's appendix A once more, word for word and slowly, and what its authors' program does instead: formulas that
owe nothing to our generator."""

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


def exclusive_slots_of_the_program(n: int, m: int, excess: int, share: float) -> int:
    """The most slots that the program's bound allows, found by bisection; ``share`` is q n."""

    def reach(r: float) -> float:
        c = 1 / (0.8 / math.ceil(share)) - 1
        mean = 1 + (1 - r) * excess / n + r * excess / share
        return mean + c * math.sqrt(excess * (n - 1)) / n + c * math.sqrt(r * excess * (share - 1)) / share

    if reach(1.0) <= m or reach(0.0) > m:
        return excess if reach(1.0) <= m else 0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if reach(middle) <= m else (low, middle)
    return int(low * excess)


def draw(n: int, m: int, w: int, variant: str, rng: np.random.Generator) -> DNF:
    """One formula with fixed width; half of them have privileged variables."""
    privileged, share = 0, 0.0
    if rng.random() < 0.5:
        x = rng.exponential()
        share = max(1.0, n * (x % (math.log(n) / n) if variant == "text" else (x % math.log(n)) / n))
        privileged = math.ceil(share)
    excess = m * w - n
    own = 0
    if privileged:
        by_program = variant == "code"
        own = exclusive_slots_of_the_program(n, m, excess, share) if by_program else 0
        own = own if by_program else exclusive_slots(n, m, excess, privileged)
    place = assign_in_runs if variant == "code" else assign
    while True:
        slots = [1 + extra for extra in spare(excess - own, n, rng)]
        for v, extra in enumerate(spare(own, privileged, rng) if privileged else []):
            slots[v] += extra
        if max(slots) <= m and (clauses := place(slots, m, w, rng)) is not None:
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


def assign_in_runs(slots: list[int], m: int, w: int, rng: np.random.Generator) -> list[list[int]] | None:
    """Frequent variables first, in runs that fill no clause twice; what a run leaves out the next one fills first."""
    clauses: list[list[int]] = [[] for _ in range(m)]
    waiting = sorted(range(len(slots)), key=lambda v: -slots[v])
    level = w
    while waiting:
        over = [c for c in range(m) if w - len(clauses[c]) > level]
        exact = [c for c in range(m) if w - len(clauses[c]) == level]
        run: list[int] = []
        while waiting and len(run) + slots[waiting[0]] <= len(over) + len(exact):
            run += [waiting[0]] * slots[waiting.pop(0)]
        if not run:
            if level == 1:
                return None
            level -= 1
        elif len(over) > len(run):
            for v, c in zip(run, rng.choice(over, len(run), replace=False), strict=True):
                clauses[c].append(v)
        else:
            chosen = over + rng.choice(exact, len(run) - len(over), replace=False).tolist()
            for v, c in zip(run, chosen, strict=True):
                clauses[c].append(v)
            level = max(1, level - 1)
    return clauses
