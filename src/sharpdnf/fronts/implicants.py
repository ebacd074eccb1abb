"""Prime implicants: what a tree with negations has instead of minimal cut sets.

An implicant is a set of events that happen and events that do not, which is enough for the top event; it is prime if
none of its members can be left out. Without negations the prime implicants are the minimal cut sets.

The circuit becomes an ordered decision diagram f = (x, f1, f0). Its primes (Coudert and Madre, DAC 1992) are those of
f1 f0, which do not need x, and those of f1 with x and of f0 with "not x" that are none of f1 f0. They are kept in a
``CutSets`` diagram over literals, so that millions of them are counted and added up without being listed.
"""

from __future__ import annotations

import numpy as np

from sharpdnf.circuit import AND, ATLEAST, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.dnf import IntArray
from sharpdnf.errors import LimitError
from sharpdnf.estimate import Limit
from sharpdnf.fronts.cutsets import CutSets, depth_first

MAX_NODES = 1_000_000
"""The most nodes of all diagrams together; as plain Python objects they take some hundred megabytes."""
MAX_EVENTS = 250
"""The most events below a top: the diagrams are walked by recursion, which goes a few calls deeper for each event."""
LOOK = 1024
"""How many nodes are made between two looks at the clock."""


def find_implicants(circuit: Circuit, limit: Limit, max_nodes: int = MAX_NODES) -> CutSets:
    """The prime implicants of the first output over literals: 2 v is variable v, 2 v + 1 its negation."""
    if circuit.num_vars > MAX_EVENTS:
        raise LimitError(f"prime implicants are found for at most {MAX_EVENTS} events, not {circuit.num_vars}")
    order = depth_first(circuit)
    makers = _Diagrams(limit, max_nodes)
    root = makers.primes(_decide(circuit, order, makers))
    return makers.exported(root, order)


def _decide(circuit: Circuit, order: IntArray, makers: _Diagrams) -> int:
    """The decision diagram of the first output."""
    level = np.empty(circuit.num_vars, dtype=np.int64)
    level[order] = np.arange(circuit.num_vars)
    value: list[int] = []
    for g in range(int(circuit.outputs[0]) + 1):
        kind, read = int(circuit.kind[g]), [value[h] for h in circuit.inputs[circuit.indptr[g] : circuit.indptr[g + 1]]]
        if kind == VAR:
            value.append(makers.node(int(level[circuit.arg[g]]), 1, 0))
        elif kind == NOT:
            value.append(makers.ite(read[0], 0, 1))
        elif kind in (AND, OR):
            out = int(kind == AND)
            for child in read:
                out = makers.ite(out, child, 0) if kind == AND else makers.ite(out, 1, child)
            value.append(out)
        elif kind == ATLEAST:
            value.append(_at_least(read, int(circuit.arg[g]), makers))
        else:
            value.append(int(kind == TRUE))
    return value[-1]


def _at_least(read: list[int], k: int, makers: _Diagrams) -> int:
    """Row by row: have[j] is "at least j of those so far"."""
    have = [1] + [0] * max(k, 0)
    for child in read:
        for j in range(k, 0, -1):
            have[j] = makers.ite(child, have[j - 1], have[j])
    return have[k] if k > 0 else 1


class _Diagrams:
    """Nodes (level, high, low) that are made once; 0 and 1 are no set and the empty set, or false and true.

    In a decision diagram a level is a variable's; in a family of sets of literals levels 2 v and 2 v + 1 are those of
    variable v, and a node is left out if its high branch is 0.
    """

    def __init__(self, limit: Limit, max_nodes: int) -> None:
        self.limit, self.max_nodes = limit, max_nodes
        self.nodes: list[tuple[int, int, int]] = [(1 << 40, 0, 0), (1 << 40, 1, 1)]
        self.known: dict[tuple[int, int, int], int] = {}
        self.done: dict[tuple[str, int, int, int], int] = {}

    def node(self, level: int, high: int, low: int) -> int:
        found = self.known.get((level, high, low))
        if found is not None:
            return found
        if len(self.nodes) >= self.max_nodes or (len(self.nodes) % LOOK == 0 and self.limit.expired):
            raise LimitError(
                "the prime implicants do not fit into the time limit or the limit of nodes; the probability and the "
                "importances of the top event do not need them"
            )
        self.nodes.append((level, high, low))
        self.known[level, high, low] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def ite(self, f: int, g: int, h: int) -> int:
        """If f then g else h, of decision diagrams."""
        if f < 2:
            return g if f else h
        if g == h:
            return g
        if (g, h) == (1, 0):
            return f
        key = ("ite", f, g, h)
        if key not in self.done:
            top = min(self.nodes[x][0] for x in (f, g, h))
            high, low = (self.ite(*(self._branch(x, top, side) for x in (f, g, h))) for side in (1, 2))
            self.done[key] = high if high == low else self.node(top, high, low)
        return self.done[key]

    def _branch(self, x: int, level: int, side: int) -> int:
        return self.nodes[x][side] if self.nodes[x][0] == level else x

    def primes(self, f: int) -> int:
        """The prime implicants of a decision diagram, as a family."""
        if f < 2:
            return f
        key = ("primes", f, 0, 0)
        if key not in self.done:
            level, high, low = self.nodes[f]
            without = self.primes(self.ite(high, low, 0))
            with_, against = (self.less(self.primes(x), without) for x in (high, low))
            rest = self.member(2 * level + 1, against, without)
            self.done[key] = self.member(2 * level, with_, rest)
        return self.done[key]

    def member(self, level: int, high: int, low: int) -> int:
        """The sets of ``low``, and those of ``high`` with a literal added."""
        return self.node(level, high, low) if high else low

    def less(self, f: int, g: int) -> int:
        """The sets of f that are not in g."""
        if f in (0, g):
            return 0
        if g == 0:
            return f
        key = ("less", f, g, 0)
        if key not in self.done:
            (a, high, low), (b, other_high, other_low) = self.nodes[f], self.nodes[g]
            if b < a:
                self.done[key] = self.less(f, other_low)
            elif a < b:
                self.done[key] = self.member(a, high, self.less(low, g))
            else:
                self.done[key] = self.member(a, self.less(high, other_high), self.less(low, other_low))
        return self.done[key]

    def exported(self, root: int, order: IntArray) -> CutSets:
        """The family with its nodes from the bottom level up, as ``CutSets`` has them."""
        needed, waiting = {0, 1}, [root]
        while waiting:
            x = waiting.pop()
            if x not in needed:
                needed.add(x)
                waiting += self.nodes[x][1:]
        inside = sorted((x for x in needed if x > 1), key=lambda x: -self.nodes[x][0])
        place = {0: 0, 1: 1} | {x: i + 2 for i, x in enumerate(inside)}
        level, high, low = (np.array([self.nodes[x][i] for x in inside], dtype=np.int32) for i in range(3))
        moved = [np.array([place[int(x)] for x in side], dtype=np.int32) for side in (low, high)]
        literals = np.stack([2 * order, 2 * order + 1], axis=1).reshape(-1).astype(np.int64)
        return CutSets(level, moved[0], moved[1], place[root], literals)
