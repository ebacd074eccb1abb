"""From a circuit to a DNF: the same event where that is small, else one that contains it.

Negations are pushed to the variables, then AND is distributed over OR, gate by gate. Where a product or a union would
grow beyond the limit it is *relaxed*: of an AND the rarest parts are kept, an OR becomes true. Every gate is then
contained in its DNF, because AND and OR of gates with pushed negations are monotone in their inputs. So P(circuit) <=
P(relaxed), and a sampler that draws models of the relaxed DNF and tests the circuit misses no model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np

from sharpdnf.algebra import Clause
from sharpdnf.circuit import AND, ATLEAST, FALSE, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.dnf import DNF
from sharpdnf.estimate import Limit

ClauseList = list[Clause]
WORK_PER_LITERAL = 4
"""How many literals all gates together may make, for each literal that the result may have."""


@dataclass(slots=True)
class _TooLarge(Exception):
    """A gate has no DNF within the limit."""


def to_dnf(circuit: Circuit, limit: int) -> DNF | None:
    """The first output as a DNF of at most ``limit`` literals, or None if distributing makes more."""
    flat = as_dnf(circuit)
    if flat is not None:
        return flat if flat.num_literals <= limit else None
    try:
        return _Expansion(circuit, limit, relaxing=False).dnf(False)
    except _TooLarge:
        return None


def relax(circuit: Circuit, limit: int, *, negated: bool = False, within: Limit | None = None) -> tuple[DNF, bool]:
    """(a DNF of at most ``limit`` literals that contains the first output or its negation, whether it is equal).

    At the deadline of ``within`` it is the DNF that is always true.
    """
    for relaxing in (False, True):
        try:
            return _Expansion(circuit, limit, relaxing, within).dnf(negated), not relaxing
        except _TooLarge:
            pass
    return _pack(circuit, [frozenset()]), False


def as_dnf(circuit: Circuit) -> DNF | None:
    """The first output as the DNF that it is, an OR of ANDs of literals; None if it is something else.

    It is read off as it stands, whatever its size, without making a Python object for each clause.
    """
    kind, indptr, inputs = circuit.kind, circuit.indptr, circuit.inputs
    root = int(circuit.outputs[0])
    if kind[root] != OR:
        return None
    literal = np.full(circuit.num_gates, -1, np.int64)
    literal[kind == VAR] = 2 * circuit.arg[kind == VAR].astype(np.int64)
    nots = np.flatnonzero(kind == NOT)
    below = literal[inputs[indptr[nots]]]
    literal[nots] = np.where(below >= 0, below ^ 1, -1)
    clauses = inputs[indptr[root] : indptr[root + 1]]
    single = literal[clauses] >= 0
    if not np.all(single | (kind[clauses] == AND)):
        return None
    starts, ends = indptr[clauses], indptr[clauses + 1]
    widths = np.where(single, 1, ends - starts)
    bounds = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], widths)
    padded = np.append(inputs, 0)
    read = np.where(np.repeat(single, widths), np.repeat(clauses, widths), padded[np.repeat(starts, widths) + within])
    literals = literal[read]
    if np.any(literals < 0):
        return None
    dnf = DNF.from_arrays(bounds, literals.astype(np.int32), circuit.prob, names=circuit.names)
    return DNF.trusted(*dnf.arrays, circuit.log_scale, circuit.names, circuit.notes)


def _pack(circuit: Circuit, clauses: ClauseList) -> DNF:
    rows = [sorted(clause) for clause in clauses]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    literals = np.fromiter(chain.from_iterable(rows), np.int32)
    return DNF.trusted(indptr, literals, circuit.prob, circuit.log_scale, circuit.names, circuit.notes)


class _Expansion:
    """The DNF of every gate that the output needs, in both signs where both are needed."""

    def __init__(self, circuit: Circuit, limit: int, relaxing: bool, within: Limit | None = None) -> None:
        self.circuit, self.limit, self.relaxing, self.within = circuit, limit, relaxing, within or Limit()
        self.budget = WORK_PER_LITERAL * limit + 1_000
        self.found: dict[tuple[int, bool], ClauseList] = {}
        self.kind, self.arg = circuit.kind.tolist(), circuit.arg.tolist()

    def dnf(self, negated: bool) -> DNF:
        return _pack(self.circuit, self.clauses((int(self.circuit.outputs[0]), negated)))

    def clauses(self, root: tuple[int, bool]) -> ClauseList:
        stack = [root]
        while stack:
            node = stack[-1]
            if node not in self.found:
                missing = [child for child in self.children(node) if child not in self.found]
                if missing:
                    stack += missing
                    continue
                if self.within.expired:
                    raise _TooLarge
                self.found[node] = self.combine(node)
            stack.pop()
        return self.found[root]

    def children(self, node: tuple[int, bool]) -> list[tuple[int, bool]]:
        g, negated = node
        read = self.circuit.inputs[self.circuit.indptr[g] : self.circuit.indptr[g + 1]].tolist()
        return [(i, negated != (self.kind[g] == NOT)) for i in read]

    def combine(self, node: tuple[int, bool]) -> ClauseList:
        g, negated = node
        kind = self.kind[g]
        if kind == VAR:
            return [frozenset((2 * self.arg[g] + negated,))]
        if kind in (FALSE, TRUE):
            return [frozenset()] if (kind == TRUE) != negated else []
        parts = [self.found[child] for child in self.children(node)]
        if kind == NOT:
            return parts[0]
        if kind == ATLEAST:  # fewer than k of n are true: at least n - k + 1 are false
            return self.at_least(len(parts) - self.arg[g] + 1 if negated else self.arg[g], parts)
        return self.product(parts) if (kind == AND) != negated else self.union(parts)

    def union(self, parts: list[ClauseList]) -> ClauseList:
        out = list(dict.fromkeys(chain.from_iterable(parts)))
        if frozenset() in out:
            return [frozenset()]
        return out if self.affords(sum(map(len, out))) else [frozenset()]

    def product(self, parts: list[ClauseList]) -> ClauseList:
        """The DNF of an AND: all ways to choose a clause from each part, the smallest parts first.

        When relaxing, the rarest parts come first and those that do not fit are left out. So is a part whose clauses'
        probabilities add up to 1 or more, since for all we know it is certain and makes the product no rarer.
        """
        parts = sorted(parts, key=self.weight if self.relaxing else len)
        out: ClauseList = [frozenset()]
        for part in parts:
            size = len(out) * sum(map(len, part)) + len(part) * sum(map(len, out))
            if (self.relaxing and self.weight(part) >= 1.0) or not self.affords(size):
                continue
            joined = (a | b for a in out for b in part)
            out = list(dict.fromkeys(clause for clause in joined if not any(lit ^ 1 in clause for lit in clause)))
        return out

    def at_least(self, k: int, parts: list[ClauseList]) -> ClauseList:
        """The DNF of "at least k of these parts", part by part: row j holds "at least j of the parts so far".

        Where that is too large it is relaxed to "at least one of them", which contains it.
        """
        if k <= 0:
            return [frozenset()]
        if k > len(parts):
            return []
        if self.relaxing and k * math.comb(len(parts), k) > self.limit // 8:
            return self.union(parts)
        rows: list[ClauseList] = [[frozenset()], *([] for _ in range(k))]
        for part in parts:
            for j in range(k, 0, -1):
                rows[j] = self.union([rows[j], self.product([rows[j - 1], part])])
        return rows[k]

    def affords(self, literals: int) -> bool:
        """Whether that many more literals fit into the limit. If they do not and nothing may be relaxed, it raises."""
        self.budget -= literals
        if literals <= self.limit and (self.budget >= 0 or (self.relaxing and literals <= 64)):
            return True
        if not self.relaxing:
            raise _TooLarge
        return False

    def weight(self, clauses: ClauseList) -> float:
        """The sum of the clauses' probabilities, which bounds that of their union."""
        prob = self.circuit.prob
        total = 0.0
        for clause in clauses:
            total += math.prod(1.0 - prob[lit >> 1] if lit & 1 else prob[lit >> 1] for lit in clause)
        return total
