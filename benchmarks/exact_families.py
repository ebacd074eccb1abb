"""Structured formulas for the exact methods: the families that ``exact.py`` measures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf import DNF, read
from sharpdnf.generate import generate

Instance = tuple[str, str, Callable[[], DNF]]
"""(family, name, how to make it)."""


def shuffled(clauses: list[list[int]], prob: np.ndarray[Any, Any], rng: np.random.Generator) -> DNF:
    """The formula with variables numbered and clauses listed at random: names and order must not help."""
    names = rng.permutation(len(prob)) + 1
    renamed = [[int(math.copysign(names[abs(x) - 1], x)) for x in clauses[i]] for i in rng.permutation(len(clauses))]
    other = np.empty(len(prob))
    other[names - 1] = prob
    return DNF.from_clauses(renamed, other, num_vars=len(prob))


def grid(rows: int, cols: int) -> DNF:
    """Variables are nodes, clauses are edges."""
    rng = np.random.default_rng([rows, cols])
    node = np.arange(rows * cols).reshape(rows, cols) + 1
    down = zip(node[:-1].ravel(), node[1:].ravel(), strict=True)
    right = zip(node[:, :-1].ravel(), node[:, 1:].ravel(), strict=True)
    clauses = [[int(a), int(b)] for a, b in itertools.chain(down, right)]
    return shuffled(clauses, rng.uniform(0.01, 0.1, rows * cols), rng)


def chain(length: int, shuffle: bool) -> DNF:
    rng = np.random.default_rng(length)
    clauses = [[i + 1, i + 2] for i in range(length)]
    prob = rng.uniform(0.1, 0.5, length + 1) / math.sqrt(length)
    return shuffled(clauses, prob, rng) if shuffle else DNF.from_clauses(clauses, prob)


def join(left: int, right: int, density: float, skewed: bool) -> DNF:
    """R(x), S(x, y), T(y); skewed: a pair's density falls with the numbers of x and y, as popular keys do."""
    rng = np.random.default_rng([left, right, skewed])
    clauses, n = [], left + right
    for x, y in itertools.product(range(left), range(right)):
        chance = density if not skewed else min(1.0, 4.0 * density / ((x + 1) * (y + 1)) ** 0.7)
        if rng.random() < chance:
            n += 1
            clauses.append([x + 1, n, left + y + 1])
    return shuffled(clauses, rng.uniform(0.05, 0.5, n), rng)


def windows(length: int, width: int, stride: int) -> DNF:
    """Wide clauses over variables in a row, each a stride further on, with random signs so that nothing is merged."""
    rng = np.random.default_rng([length, width, stride])
    rows = [np.arange(first, first + width) + 1 for first in range(0, length - width + 1, stride)]
    clauses = [[int(x) for x in row * rng.choice([-1, 1], width)] for row in rows]
    return shuffled(clauses, rng.uniform(0.3, 0.7, length), rng)


def clause_grid(rows: int, cols: int, common: int) -> DNF:
    """Clauses are the nodes of a grid; two neighbours have so many variables in common, with signs of their own."""
    rng = np.random.default_rng([rows, cols, common])
    node = np.arange(rows * cols).reshape(rows, cols)
    down = zip(node[:-1].ravel(), node[1:].ravel(), strict=True)
    right = zip(node[:, :-1].ravel(), node[:, 1:].ravel(), strict=True)
    clauses: list[list[int]] = [[] for _ in range(rows * cols)]
    variables = itertools.count(1)
    for pair in itertools.chain(down, right):
        for v in itertools.islice(variables, common):
            for c in pair:
                clauses[c].append(v * int(rng.choice([-1, 1])))
    return shuffled(clauses, rng.uniform(0.3, 0.7, next(variables) - 1), rng)


def paths(size: int) -> DNF:
    """All ways through a directed grid from corner to corner; variables are its edges."""
    rng = np.random.default_rng(size)
    edges: dict[Any, int] = {}
    clauses: list[list[int]] = []

    def walk(i: int, j: int, path: list[int]) -> None:
        if i == j == size - 1:
            clauses.append(path)
        for a, b in ((i + 1, j), (i, j + 1)):
            if a < size and b < size:
                walk(a, b, [*path, edges.setdefault((i, j, a, b), len(edges) + 1)])

    walk(0, 0, [])
    return shuffled(clauses, rng.uniform(0.5, 0.9, len(edges)), rng)


def fault_tree(seed: int, most: int) -> DNF:
    """The minimal cut sets of a random coherent tree with shared events and 2-out-of-n gates, at most ``most``."""
    rng = np.random.default_rng(seed)
    while True:
        events = int(rng.integers(40, 120))

        def cuts(depth: int, events: int = events) -> set[frozenset[int]]:
            if depth == 0 or rng.random() < 0.15:
                return {frozenset([int(rng.integers(events)) + 1])}
            parts = [cuts(depth - 1) for _ in range(int(rng.integers(2, 5)))]
            kind = rng.random()
            if kind < 0.55:
                return minimal(set().union(*parts))
            if kind < 0.8:
                return minimal(
                    {a | b for a in parts[0] for b in parts[1]} if len(parts[0]) * len(parts[1]) < most else parts[0]
                )
            pairs = (a | b for x, y in itertools.combinations(parts, 2) for a in x for b in y)
            return minimal(set(itertools.islice(pairs, most)))

        found = cuts(6)
        if most // 20 < len(found) <= most:
            used = sorted(set().union(*found))
            place = {v: i + 1 for i, v in enumerate(used)}
            clauses = [[place[v] for v in sorted(cut)] for cut in found]
            return shuffled(clauses, 10.0 ** rng.uniform(-4, -1, len(used)), rng)


def minimal(cuts: set[frozenset[int]]) -> set[frozenset[int]]:
    kept: set[frozenset[int]] = set()
    holding: dict[int, list[frozenset[int]]] = {}
    for cut in sorted(cuts, key=len):
        if any(other <= cut for v in cut for other in holding.get(v, ())):
            continue
        kept.add(cut)
        holding.setdefault(min(cut), []).append(cut)
    return kept


def lineage(seed: int) -> DNF:
    """Of a query R(x), S(x, y), T(y, z), U(z) over skewed keys: 305 to 27,778 rows of the join, each a clause."""
    rng = np.random.default_rng([seed, 11])
    target = round(305 * (27_778 / 305) ** rng.random())
    keys = max(20, target // 3)

    def skewed(count: int, exponent: float) -> np.ndarray[Any, Any]:
        return np.minimum(rng.zipf(exponent, count) - 1, keys - 1)

    exponent = float(rng.uniform(1.4, 2.2))
    links = {(int(y), int(z)) for y, z in zip(rng.permutation(keys), skewed(keys, exponent), strict=True)}
    follows: dict[int, list[int]] = {}
    for y, z in links:
        follows.setdefault(y, []).append(z)
    names: dict[Any, int] = {}
    clauses: list[list[int]] = []
    seen: set[tuple[int, int]] = set()
    while len(clauses) < target:
        x, y = int(skewed(1, exponent)[0]), int(rng.integers(keys))
        if (x, y) in seen:
            continue
        seen.add((x, y))
        for z in follows.get(y, ()):
            rows = (("R", x), ("S", x, y), ("T", y, z), ("U", z))
            clauses.append([names.setdefault(row, len(names) + 1) for row in rows])
    return shuffled(clauses, rng.uniform(0.01, 0.5, len(names)), rng)


def instances(quick: bool) -> list[Instance]:
    """(family, name, how to make it)."""
    rng = np.random.default_rng
    out: list[Instance] = [
        ("ladder", "100 x 3", lambda: grid(100, 3)),
        ("ladder", "1,000 x 3", lambda: grid(1_000, 3)),
        ("chain", "1,000 as made", lambda: chain(1_000, False)),
        ("chain", "1,000 shuffled", lambda: chain(1_000, True)),
        ("grid", "12 x 12", lambda: grid(12, 12)),
        ("join", "20 x 20, density 0.3", lambda: join(20, 20, 0.3, False)),
        ("join", "200 x 200 skewed", lambda: join(200, 200, 0.3, True)),
        ("random", "3-DNF n=100 m=80", lambda: generate("uniform", rng(7), num_vars=100, num_clauses=80, width=3)),
        ("paper", "n=150 w=3", lambda: generate("paper", rng(3), num_vars=150, num_clauses=113, width=3)),
        ("paper", "n=50 w=5", lambda: generate("paper", rng(4), num_vars=50, num_clauses=38, width=5)),
        ("paths", "directed 7 x 7", lambda: paths(7)),
        ("paths", "examples/network.dnf", lambda: read(Path(__file__).parent.parent / "examples/network.dnf")),
        ("wide clauses", "windows of 30 in 2,000", lambda: windows(2_000, 30, 10)),
        ("wide clauses", "grid 100 x 5", lambda: clause_grid(100, 5, 6)),
        ("wide clauses", "grid 12 x 12", lambda: clause_grid(12, 12, 4)),
        ("fault tree", "seed 1", lambda: fault_tree(1, 2_000)),
        ("fault tree", "seed 2", lambda: fault_tree(2, 20_000)),
        ("fault tree", "seed 3", lambda: fault_tree(3, 30_000)),
    ]
    out += [("lineage", f"seed {seed}", lambda seed=seed: lineage(seed)) for seed in range(1, 6)]  # type: ignore[misc]
    if not quick:
        out += [
            ("ladder", "10,000 x 3", lambda: grid(10_000, 3)),
            ("chain", "100,000 shuffled", lambda: chain(100_000, True)),
            ("paths", "directed 8 x 8", lambda: paths(8)),
        ]
    return out


def from_folder(folder: Path) -> list[Instance]:
    """Every formula file of a folder: data of other people, which is no part of this repository."""
    return [(folder.name, path.stem, lambda path=path: read(path)) for path in sorted(folder.glob("*.dnf"))]  # type: ignore[misc]
