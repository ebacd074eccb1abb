"""Minimal cut sets of a circuit without negation: a decision diagram of all of them, never a list unless asked.

The diagram (``native/kernels/cutsets.hpp``) holds tens of millions of sets in thousands of nodes; their number, the
rare-event sum and the min-cut upper bound come from one sweep over its levels, and the likeliest sets first from a
search along its best paths.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import NOT, VAR, Circuit
from sharpdnf.dnf import FloatArray
from sharpdnf.errors import LimitError
from sharpdnf.estimate import Limit

MAX_NODES = 10_000_000
"""The most nodes that a diagram may have while it is built: about a gigabyte with its tables."""
POWERS = 512
"""How many terms of the logarithm's series the min-cut upper bound adds up at most."""
NEAR_ONE = 0.95
"""Cut sets at least this likely are listed one by one, since the series would converge too slowly for them."""
MANY_NEAR_ONE = 10_000
NEGLIGIBLE = 1e-17
SWEEP_CELLS = 1 << 22
"""How many numbers one sweep over the diagram may hold when it computes several powers at once."""


@dataclass(frozen=True, slots=True, eq=False)
class CutSets:
    """Minimal cut sets as a zero-suppressed decision diagram.

    Node ``i + 2`` stands for the sets of ``lo[i]`` and those of ``hi[i]`` with variable ``variables[level[i]]`` added;
    node 0 is no set, node 1 the empty set. Children come first, level by level.
    """

    level: npt.NDArray[np.int32]
    lo: npt.NDArray[np.int32]
    hi: npt.NDArray[np.int32]
    root: int
    variables: npt.NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        return len(self.level)

    def count(self) -> int:
        """How many cut sets there are."""
        ones = np.ones((len(self.variables), 1))
        found = float(self._sweep(ones)[self.root, 0])
        if found < 2.0**53:  # no node below it has more sets, so every sum was exact
            return int(found)
        return int(self._sweep(np.ones(ones.shape, dtype=object))[self.root, 0])

    def rare_event(self, prob: FloatArray) -> float:
        """The sum of the cut sets' probabilities, which is at least the probability that one of them happens."""
        return float(self._sweep(prob[self.variables][:, None])[self.root, 0])

    def min_cut_upper_bound(self, prob: FloatArray) -> float | None:
        """1 - prod (1 - P(C)) over all cut sets C; None where too many of them are nearly certain.

        -log(1 - x) = x + x^2 / 2 + x^3 / 3 + ..., and the sum of x^k over all cut sets is one sweep. Sets that are
        nearly certain are listed and taken out of it.
        """
        if self.root == 0:
            return 0.0
        certain: list[float] = []
        for _, chance in self.likeliest(prob):
            if chance >= 1.0:
                return 1.0
            if chance < NEAR_ONE:
                break
            certain.append(chance)
            if len(certain) > MANY_NEAR_ONE:
                return None
        total, first = 0.0, 1
        width = int(np.clip(SWEEP_CELLS // (self.num_nodes + 2), 1, 32))
        while first <= POWERS:
            k = np.arange(first, first + width)
            sums = self._sweep(prob[self.variables][:, None] ** k)[self.root]
            sums = np.maximum(sums - sum(chance**k for chance in certain), 0.0)
            total += float((sums / k).sum())
            if sums[-1] <= NEGLIGIBLE * total:  # what follows is less than that, times 1 / (1 - NEAR_ONE)
                break
            first += width
        return -math.expm1(sum(math.log1p(-chance) for chance in certain) - total)

    def likeliest(self, prob: FloatArray | None = None) -> Iterator[tuple[tuple[int, ...], float]]:
        """(variables, probability) of one cut set after the other, in falling probability.

        Without probabilities the smallest come first, each with probability nan.
        """
        weight = np.full(len(self.variables), -1.0)
        if prob is not None:
            with np.errstate(divide="ignore"):
                weight = np.log(prob[self.variables])
        best = self._best(weight)
        number = itertools.count()
        waiting: list[tuple[float, int, float, int, tuple[int, ...]]] = []

        def later(so_far: float, node: int, chosen: tuple[int, ...]) -> None:
            if node:
                heapq.heappush(waiting, (-(so_far + best[node]), next(number), so_far, node, chosen))

        later(0.0, self.root, ())
        while waiting:
            _, _, so_far, node, chosen = heapq.heappop(waiting)
            while node > 1:
                low, high, level = int(self.lo[node - 2]), int(self.hi[node - 2]), int(self.level[node - 2])
                taken = so_far + weight[level]
                if low and best[low] + so_far >= best[high] + taken:
                    later(taken, high, (*chosen, level))
                    node = low
                else:
                    later(so_far, low, chosen)
                    node, so_far, chosen = high, taken, (*chosen, level)
            variables = tuple(int(v) for v in self.variables[list(chosen)])
            yield variables, math.nan if prob is None else math.prod(float(prob[v]) for v in variables)

    def _levels(self) -> Iterator[tuple[int, int, int]]:
        """(first node, node after the last, level) of each level, from the bottom."""
        edges = np.flatnonzero(np.diff(self.level)) + 1
        bounds = [0, *edges.tolist(), self.num_nodes]
        for start, end in itertools.pairwise(bounds):
            if end > start:
                yield start, end, int(self.level[start])

    def _sweep(self, weight: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """[nodes + 2, k]: the sum over the sets of a node of the product of their variables' ``weight[level, k]``."""
        value = np.zeros((self.num_nodes + 2, weight.shape[1]), dtype=weight.dtype)
        value[1] = 1
        for start, end, level in self._levels():
            value[start + 2 : end + 2] = value[self.lo[start:end]] + weight[level] * value[self.hi[start:end]]
        return value

    def _best(self, weight: FloatArray) -> FloatArray:
        """float64[nodes + 2]: the largest sum of weights among the sets of each node."""
        best = np.full(self.num_nodes + 2, -math.inf)
        best[1] = 0.0
        for start, end, level in self._levels():
            best[start + 2 : end + 2] = np.maximum(best[self.lo[start:end]], weight[level] + best[self.hi[start:end]])
        return best


def is_coherent(circuit: Circuit) -> bool:
    """Whether the first output reads no NOT gate."""
    return not np.any(circuit.kind[reached(circuit)] == NOT)


def reached(circuit: Circuit) -> npt.NDArray[np.bool_]:
    """bool[gates]: the gates that the first output needs."""
    out = np.zeros(circuit.num_gates, dtype=np.bool_)
    first, bounds = int(circuit.outputs[0]), circuit.indptr.tolist()
    out[first] = True
    for gate in range(first, -1, -1):
        if out[gate]:
            out[circuit.inputs[bounds[gate] : bounds[gate + 1]]] = True
    return out


def restricted(circuit: Circuit) -> Circuit:
    """The circuit of the first output over the variables that it depends on, in their order."""
    kept = np.flatnonzero(reached(circuit))
    kind, arg = circuit.kind[kept], circuit.arg[kept].copy()
    place = np.zeros(circuit.num_gates, dtype=np.int32)
    place[kept] = np.arange(len(kept))
    variables = np.unique(arg[kind == VAR])
    arg[kind == VAR] = np.searchsorted(variables, arg[kind == VAR])
    pieces = [circuit.inputs[circuit.indptr[g] : circuit.indptr[g + 1]] for g in kept.tolist()]
    indptr = np.concatenate([[0], np.cumsum(np.diff(circuit.indptr)[kept])]).astype(np.int64)
    names = None if circuit.names is None else tuple(circuit.names[v] for v in variables.tolist())
    inputs, output = place[np.concatenate(pieces)], place[circuit.outputs[:1]]
    return Circuit(kind, arg, indptr, inputs, output, circuit.prob[variables], 0.0, names)


def find_cut_sets(
    circuit: Circuit,
    *,
    order: int | None = None,
    cutoff: float | None = None,
    limit: Limit | None = None,
    max_nodes: int = MAX_NODES,
) -> CutSets:
    """The minimal cut sets of the first output, which must be coherent.

    They are all of them, or those of at most ``order`` events and of probability at least ``cutoff``; because of
    rounding, cut sets a hair below ``cutoff`` may still be among them.
    """
    variables = depth_first(circuit)
    level = np.empty(circuit.num_vars, dtype=np.int32)
    level[variables] = np.arange(circuit.num_vars)
    found = _native.cut_sets(
        *circuit.arrays,
        circuit.prob,
        output=int(circuit.outputs[0]),
        level=level,
        order=-1 if order is None else min(order, 2**31 - 2),
        log_cutoff=-math.inf if not cutoff else math.log(cutoff),
        max_nodes=max_nodes,
        seconds=(limit or Limit()).seconds_left,
    )
    if found.stopped != "done":
        why = "the time limit" if found.stopped == "time" else f"the limit of {max_nodes} nodes"
        raise LimitError(
            f"the minimal cut sets do not fit into {why}: ask for those up to an order or above a cut-off; "
            "the probability of the top event does not need them"
        )
    return CutSets(found.level, found.lo, found.hi, found.root, variables)


def depth_first(circuit: Circuit) -> npt.NDArray[np.int64]:
    """int64[n]: the variables in the order in which a walk from the output, left to right, meets them; then the rest.

    Events that belong together stand together in a tree, and should in the diagram.
    """
    seen = np.zeros(circuit.num_gates, dtype=np.bool_)
    found: list[int] = []
    waiting = [int(circuit.outputs[0])]
    while waiting:
        gate = waiting.pop()
        if seen[gate]:
            continue
        seen[gate] = True
        if circuit.kind[gate] == VAR:
            found.append(int(circuit.arg[gate]))
        waiting += circuit.inputs[circuit.indptr[gate] : circuit.indptr[gate + 1]].tolist()[::-1]
    rest = np.setdiff1d(np.arange(circuit.num_vars), found)
    return np.concatenate([np.array(found, dtype=np.int64), rest]).astype(np.int64)
