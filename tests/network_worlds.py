"""Every world of a small network at once: the oracle that the tests of networks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Link = tuple[int, int, float]


@dataclass
class Case:
    """A small network and a question about it."""

    links: list[Link]
    node_prob: dict[int, float]
    directed: bool
    hops: int | None
    terminals: list[int]
    two: bool

    @property
    def asked(self) -> dict[str, Any]:
        out: dict[str, Any] = {"directed": self.directed, "node_prob": self.node_prob or None, "hops": self.hops}
        if self.two:
            return out | {"source": self.terminals[0], "target": self.terminals[1]}
        return out | {"terminals": self.terminals}

    def with_link(self, link: int, prob: float) -> Case:
        links = list(self.links)
        links[link] = (*links[link][:2], prob)
        return Case(links, self.node_prob, self.directed, self.hops, self.terminals, self.two)


def nodes_of(links: list[Link]) -> list[int]:
    return list(dict.fromkeys(node for link in links for node in link[:2]))


def worlds(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """(probability of every world, bool[worlds, nodes]: reached from the first terminal within the hops)."""
    names = nodes_of(case.links)
    place = {name: i for i, name in enumerate(names)}
    failing = [name for name in names if case.node_prob.get(name, 1.0) < 1.0]
    chance = np.array([p for *_, p in case.links] + [case.node_prob[name] for name in failing])
    up = (np.arange(2 ** len(chance))[:, None] >> np.arange(len(chance)) & 1).astype(bool)
    weight = np.where(up, chance, 1.0 - chance).prod(axis=1)
    works = np.ones((len(up), len(names)), dtype=bool)
    for i, name in enumerate(failing):
        works[:, place[name]] = up[:, len(case.links) + i]
    reached = np.zeros_like(works)
    first = place[case.terminals[0]]
    reached[:, first] = works[:, first]
    for _ in range(len(names) if case.hops is None else case.hops):
        before = reached.copy()
        for e, (u, v, _) in enumerate(case.links):
            reached[:, place[v]] |= before[:, place[u]] & up[:, e] & works[:, place[v]]
            if not case.directed:
                reached[:, place[u]] |= before[:, place[v]] & up[:, e] & works[:, place[u]]
    return weight, reached


def failure(case: Case) -> float:
    """1 - R, a sum of positive numbers."""
    weight, reached = worlds(case)
    names = nodes_of(case.links)
    return float(weight[~reached[:, [names.index(t) for t in case.terminals]].all(axis=1)].sum())


def reliability(case: Case) -> float:
    weight, reached = worlds(case)
    names = nodes_of(case.links)
    return float(weight[reached[:, [names.index(t) for t in case.terminals]].all(axis=1)].sum())


def random_case(rng: np.random.Generator) -> Case | None:
    """Loops, links side by side, probabilities of 0 and 1, nodes that fail; None if there is nothing to ask."""
    num_nodes = int(rng.integers(2, 8))
    links = []
    for _ in range(int(rng.integers(1, 10))):
        u, v = (int(x) for x in rng.integers(num_nodes, size=2))
        links.append((u, v, float(rng.choice([rng.random(), rng.random(), 1.0 - 1e-9 * rng.random(), 1.0, 0.0]))))
    names = nodes_of(links)
    if len(names) < 2:
        return None
    order = [names[i] for i in rng.permutation(len(names))]
    some = order[: int(rng.integers(3))] if rng.random() < 0.4 else []
    node_prob = {node: float(rng.choice([rng.random(), rng.random(), 0.0, 1.0])) for node in some}
    directed, hops = bool(rng.integers(2)), int(rng.integers(0, 5)) if rng.random() < 0.3 else None
    rng.shuffle(order)
    two = directed or hops is not None or rng.random() < 0.5
    terminals = order[: 2 if two else int(rng.integers(2, len(names) + 1))]
    return Case(links, node_prob, directed, hops, terminals, two)
