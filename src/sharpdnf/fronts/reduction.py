"""Smaller networks with the same reliability: blocks, and links in series and in parallel.

A network is cut at its articulation nodes into blocks (Tarjan 1972). Terminals on both sides of such a node can only
meet through it, so the reliability is the product of those of the blocks between terminals, each with the articulation
nodes it shares as terminals of its own. Within a block parallel links become one, and so do two links and the node
between them where that node has no other link and is no terminal. What a reduced link is made of is kept as a read-once
expression, so derivatives lead back to the original links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray

Ends = tuple[int, int]
"""The numbers of the two nodes that a link joins."""


@dataclass(slots=True)
class Block:
    """One factor of the reliability: links between its own nodes, whose terminals must be connected."""

    links: list[tuple[int, int, int]]
    """The (tail, head, variable) of each link."""
    terminals: set[int]


@dataclass(frozen=True, slots=True)
class Values:
    """The probabilities that each variable is up and that it is down.

    Links side by side may be down with 1e-30: both are kept, since 1 - up would be 0.
    """

    up: FloatArray
    down: FloatArray


@dataclass(slots=True)
class Reduction:
    """The blocks of a network, and what their variables are made of.

    Variables 0 to m - 1 are the links of the network, m to m + n - 1 its nodes; further ones are made: ``made[i]`` is
    (series or parallel, its parts), where parts come before what they make.
    """

    num_links: int
    num_nodes: int
    blocks: list[Block] = field(default_factory=list)
    made: list[tuple[bool, tuple[int, ...]]] = field(default_factory=list)
    needed: list[int] = field(default_factory=list)
    """Variables that must all be true: terminals and articulation nodes that can fail."""
    impossible: bool = False
    """Whether the terminals cannot be connected even if everything works."""

    def make(self, series: bool, parts: Iterable[int]) -> int:
        """A variable for links in series (all are needed) or in parallel (one is enough)."""
        self.made.append((series, tuple(parts)))
        return self.num_links + self.num_nodes + len(self.made) - 1

    def values(self, prob: FloatArray, complement: FloatArray | None = None) -> Values:
        """The probability of every variable, made ones included, from those of links and nodes."""
        up = np.concatenate([prob, np.empty(len(self.made))])
        down = np.concatenate([1.0 - prob if complement is None else complement, np.empty(len(self.made))])
        for i, (series, parts) in enumerate(self.made, start=len(prob)):
            own = list(parts)
            some, none = (down, up) if series else (up, down)  # one part of the kind `some` is enough for it
            none[i] = none[own].prod()
            some[i] = 1.0 if some[own].max() == 1.0 else -math.expm1(sum(math.log1p(-x) for x in some[own]))
        return Values(up, down)

    def push_back(self, values: Values, slope: FloatArray) -> FloatArray:
        """Derivatives by links and nodes from derivatives by all variables, by the chain rule."""
        slope = slope.copy()
        for i in range(len(self.made) - 1, -1, -1):
            series, parts = self.made[i]
            place = self.num_links + self.num_nodes + i
            if slope[place] == 0.0:
                continue
            others = products_of_others((values.up if series else values.down)[list(parts)])
            for part, product in zip(parts, others, strict=True):
                slope[part] += slope[place] * product
        return slope[: self.num_links + self.num_nodes]


def products_of_others(factors: FloatArray) -> FloatArray:
    """The product of all factors but one, for each of them, without division."""
    before = np.cumprod(np.concatenate([[1.0], factors[:-1]])) if len(factors) else np.ones(0)
    after = np.cumprod(np.concatenate([[1.0], factors[:0:-1]]))[::-1] if len(factors) else np.ones(0)
    product: FloatArray = before * after
    return product


def reduce_network(
    tail: npt.NDArray[np.int32],
    head: npt.NDArray[np.int32],
    alive: npt.NDArray[np.bool_],
    fails: npt.NDArray[np.bool_],
    terminals: set[int],
) -> Reduction:
    """The blocks of an undirected network that matter for its terminals, reduced.

    ``alive`` says which links can be up at all, ``fails`` which nodes can be down.
    """
    num_nodes = len(fails)
    out = Reduction(len(tail), num_nodes)
    links = [(int(tail[e]), int(head[e]), int(e)) for e in np.flatnonzero(alive & (tail != head))]
    tree = _blocks_between(num_nodes, links, terminals)
    if tree is None:
        out.impossible = True
        return out
    shared = {node for block in tree for node in block.terminals} | terminals
    out.needed = [out.num_links + node for node in sorted(shared) if fails[node]]
    fails = fails.copy()
    fails[sorted(shared)] = False
    for block in tree:
        out.blocks.append(_series_parallel(block, fails, out))
    return out


def _blocks_between(num_nodes: int, links: list[tuple[int, int, int]], terminals: set[int]) -> list[Block] | None:
    """The biconnected components between terminals, each with its terminals; None if terminals are not connected."""
    neighbours: list[list[tuple[int, int]]] = [[] for _ in range(num_nodes)]
    for i, (u, v, _) in enumerate(links):
        neighbours[u].append((v, i))
        neighbours[v].append((u, i))
    root = min(terminals)
    depth, low, below = [-1] * num_nodes, [0] * num_nodes, [0] * num_nodes
    depth[root], below[root] = 0, 1
    stack: list[int] = []
    used = [False] * len(links)
    walk = [(root, 0, -1)]
    found: list[tuple[list[int], int, int]] = []  # (links, its top node, the child through which it hangs below it)
    while walk:
        u, place, came = walk.pop()
        if place < len(neighbours[u]):
            walk.append((u, place + 1, came))
            v, i = neighbours[u][place]
            if used[i]:
                continue
            used[i] = True
            stack.append(i)
            if depth[v] < 0:
                depth[v] = low[v] = depth[u] + 1
                below[v] = int(v in terminals)
                walk.append((v, 0, i))
            else:
                low[u] = min(low[u], depth[v])
            continue
        if came < 0:
            continue
        parent = links[came][0] if links[came][1] == u else links[came][1]
        low[parent] = min(low[parent], low[u])
        below[parent] += below[u]
        if low[u] >= depth[parent]:
            own = []
            while (i := stack.pop()) != came:
                own.append(i)
            found.append(([*own, came], parent, u))
    if any(depth[t] < 0 for t in terminals):
        return None
    return _with_terminals(links, found, below, len(terminals), terminals)


def _with_terminals(
    links: list[tuple[int, int, int]],
    found: list[tuple[list[int], int, int]],
    below: list[int],
    total: int,
    terminals: set[int],
) -> list[Block]:
    """Keeps the blocks that stand between terminals.

    A node of a block is a terminal of it if a terminal stands there or behind it, seen from the block.
    """
    hanging: dict[int, int] = {}  # terminals below a node, in blocks of which it is the top
    for _, top, child in found:
        hanging[top] = hanging.get(top, 0) + below[child]
    out = []
    for own, top, child in found:
        nodes = {node for i in own for node in links[i][:2]}
        needed = {v for v in nodes if v != top and (v in terminals or hanging.get(v, 0) > 0)}
        if total - below[child] > 0:  # terminals at the top or behind it
            needed.add(top)
        if len(needed) > 1:
            out.append(Block([links[i] for i in own], needed))
    return out


def _series_parallel(block: Block, fails: npt.NDArray[np.bool_], out: Reduction) -> Block:
    """Merges parallel links and dissolves nodes of two links, again and again, in time linear in the links."""
    between: dict[Ends, list[int]] = {}
    for u, v, variable in block.links:
        between.setdefault((min(u, v), max(u, v)), []).append(variable)
    link = {pair: own[0] if len(own) == 1 else out.make(False, own) for pair, own in between.items()}
    around: dict[int, set[int]] = {}
    for u, v in link:
        around.setdefault(u, set()).add(v)
        around.setdefault(v, set()).add(u)
    waiting = [v for v, others in around.items() if len(others) <= 2 and v not in block.terminals]
    while waiting:
        v = waiting.pop()
        others = around.get(v)
        if others is None or len(others) > 2 or v in block.terminals:
            continue
        parts = [link.pop((min(v, u), max(v, u))) for u in others]
        for u in others:
            around[u].discard(v)
        del around[v]
        if len(others) == 2:
            a, b = sorted(others)
            node = [out.num_links + v] if fails[v] else []
            new = out.make(True, [*parts, *node])
            old = link.get((a, b))
            link[a, b] = new if old is None else out.make(False, [old, new])
            around[a].add(b)
            around[b].add(a)
        waiting += [u for u in others if len(around[u]) <= 2 and u not in block.terminals]
    return Block([(u, v, variable) for (u, v), variable in link.items()], block.terminals)
