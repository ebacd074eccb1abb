"""Formulas that people count and no network of the paper was trained on: to see what it says of them.

Joins and fault trees are made up, networks are the paths through random layers of links, lineage is of queries over
graphs of real people that networkx brings along.
"""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.errors import needs_extra

MOST_CLAUSES = 4000


def joins(rng: np.random.Generator) -> DNF:
    """Is there an answer to R(x), S(x, y), T(y)? The query on which probabilistic databases are hard."""
    left, right = (int(size) for size in rng.integers(8, 60, 2))
    present = np.argwhere(rng.random((left, right)) < rng.uniform(0.05, 0.6))
    pairs = present if len(present) else np.zeros((1, 2), dtype=np.int64)
    clauses = [[1 + int(x), 1 + left + int(y), 1 + left + right + i] for i, (x, y) in enumerate(pairs)]
    return DNF.from_clauses(clauses, rng.uniform(0.0, rng.uniform(0.1, 1.0), left + right + len(pairs)))


def networks(rng: np.random.Generator) -> DNF:
    """Is there a way through layers of nodes? A clause is a path, a variable a link that is there or not."""
    width, layers = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    number: dict[tuple[int, int, int], int] = {}
    clauses = []
    kept = rng.random((layers + 1, width, width)) < 0.8
    kept[:, 0, 0] = True  # one way at least
    for nodes in product(range(width), repeat=layers):
        steps = list(zip(range(layers + 1), (0, *nodes), (*nodes, 0), strict=True))
        if all(kept[step] for step in steps):
            clauses.append([number.setdefault(step, len(number) + 1) for step in steps])
    return DNF.from_clauses(clauses[:MOST_CLAUSES], rng.uniform(rng.uniform(0.2, 0.9), 1.0, len(number)))


def fault_trees(rng: np.random.Generator) -> DNF:
    """The cut sets of redundant systems: each has two or three trains of parts, some of them common to all systems."""
    common = int(rng.integers(2, 6))
    clauses: list[list[int]] = []
    parts = common
    for _ in range(int(rng.integers(3, 12))):
        trains = []
        for _ in range(int(rng.integers(2, 4))):
            own = list(range(parts + 1, parts + 1 + int(rng.integers(2, 7))))
            parts += len(own)
            trains.append([*own, int(rng.integers(1, common + 1))])
        clauses += [sorted(set(cut)) for cut in product(*trains)]
    return DNF.from_clauses(clauses[:MOST_CLAUSES], 10.0 ** rng.uniform(-4.0, -0.7, parts))


def lineage(rng: np.random.Generator) -> DNF:
    """Which two people are connected within three steps, which one stands in a triangle? Friendships are uncertain."""
    with needs_extra("formulas from real graphs", "train"):
        import networkx

    graphs = (
        networkx.karate_club_graph,
        networkx.les_miserables_graph,
        networkx.davis_southern_women_graph,
        networkx.florentine_families_graph,
    )
    graph = networkx.convert_node_labels_to_integers(graphs[int(rng.integers(len(graphs)))]())
    number = {frozenset(edge): i + 1 for i, edge in enumerate(graph.edges)}
    clauses: list[list[int]] = []
    if rng.integers(2):
        for node in rng.permutation(len(graph)).tolist():
            for a, b in combinations(graph[node], 2):
                if frozenset((a, b)) in number:
                    clauses.append([number[frozenset(edge)] for edge in ((node, a), (node, b), (a, b))])
            if clauses:
                break
    while not clauses:
        source, target = (int(node) for node in rng.choice(len(graph), 2, replace=False))
        for path in networkx.all_simple_paths(graph, source, target, cutoff=3):
            clauses.append([number[frozenset(edge)] for edge in pairwise(path)])
    return DNF.from_clauses(clauses[:MOST_CLAUSES], rng.uniform(0.0, 1.0, len(number)))


OUTSIDE = {"joins": joins, "networks": networks, "fault-trees": fault_trees, "lineage": lineage}
"""The families by the names of their sets."""
