"""The exact side of networks: reductions, an order of the links, the frontier method, and derivatives.

Each block of the reduced network becomes a decision diagram over its links, as a ``Compiled``: evaluated under any
probabilities, forwards and backwards. The reliability is the product over blocks; its complement is put together from
the complements of the blocks, so that 1 - R is right to many digits where R is almost 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import FloatArray
from sharpdnf.estimate import Limit, safe_log
from sharpdnf.fronts.links import Network
from sharpdnf.fronts.reduction import Block, Reduction, reduce_network

STARTS = 24
"""Nodes from which an order of the links is tried."""
UNIT = 2.0**-53
"""The relative rounding error of one operation on doubles."""


@dataclass(slots=True)
class Diagram:
    """One block as a decision diagram: variable i of it is variable ``of[i]`` of the reduction."""

    compiled: Compiled
    of: npt.NDArray[np.int64]


@dataclass(slots=True)
class Solved:
    """What the frontier method found: bounds on the reliability that meet when it came to its end."""

    reduction: Reduction
    lower: float = 1.0
    upper: float = 1.0
    log_complement: float = -math.inf
    """log(1 - R), where the run came to its end"""
    complete: bool = True
    width: int = 0
    states: int = 0
    blocks: int = 0
    diagrams: list[Diagram] | None = field(default_factory=list)
    """The blocks as diagrams, if they were kept"""

    @property
    def log_prob(self) -> float:
        return safe_log(self.lower if self.complete else (self.lower + self.upper) / 2.0)

    @property
    def error(self) -> float:
        """How far rounding can have moved the sums, relatively: all terms are positive, a rounding each."""
        return 4.0 * UNIT * (self.states + 64)

    def interval(self) -> dict[str, Any]:
        """The certified interval, by the names that an Estimate has for it."""
        down, up = math.log1p(-self.error), math.log1p(self.error)
        lower, upper = min(0.0, safe_log(self.lower) + down), min(0.0, safe_log(self.upper) + up)
        out = {"log_lower": lower, "log_upper": upper, "log_certified_lower": lower, "log_certified_upper": upper}
        if self.complete:
            out |= {"log_complement": self.log_complement, "log_complement_lower": self.log_complement + down}
            out |= {"log_complement_upper": min(0.0, self.log_complement + up)}
        return out

    def evaluate(self, link_prob: FloatArray, node_prob: FloatArray) -> float:
        """The reliability under other probabilities."""
        values = self.reduction.values(np.concatenate([link_prob, node_prob]))
        if self.reduction.impossible:
            return 0.0
        total = sum(safe_log(values[v]) for v in self.reduction.needed)
        assert self.diagrams is not None
        return math.exp(total + sum(float(d.compiled.evaluate(values[d.of])[0]) for d in self.diagrams))

    def gradient(self, link_prob: FloatArray, node_prob: FloatArray) -> FloatArray:
        """float64[m + n]: d R / d p of every link, then of every node."""
        values = self.reduction.values(np.concatenate([link_prob, node_prob]))
        slope = np.zeros(len(values))
        if self.reduction.impossible:
            return slope[: len(link_prob) + len(node_prob)]
        assert self.diagrams is not None
        factors = [float(values[v]) for v in self.reduction.needed]
        found = [d.compiled.gradient(values[d.of]) for d in self.diagrams]
        factors += [math.exp(log_prob) for log_prob, _ in found]
        others = _products_of_others(factors)
        for i, variable in enumerate(self.reduction.needed):
            slope[variable] += others[i]
        for i, (diagram, (_, own)) in enumerate(zip(self.diagrams, found, strict=True), len(self.reduction.needed)):
            np.add.at(slope, diagram.of, others[i] * own)
        return self.reduction.push_back(values, slope)


def _products_of_others(factors: Sequence[float]) -> FloatArray:
    """The product of all factors but one, for each of them, without division."""
    before = np.concatenate([[1.0], np.cumprod(factors)[:-1]]) if factors else np.ones(0)
    after = np.concatenate([np.cumprod(factors[::-1])[:-1][::-1], [1.0]]) if factors else np.ones(0)
    product: FloatArray = before * after
    return product


def solve(
    network: Network,
    terminals: tuple[int, ...],
    hops: int | None,
    limit: Limit,
    *,
    states: int,
    keep: int = 0,
    all_links: bool = False,
) -> Solved:
    """Runs the frontier method within a number of states and the limits; ``keep`` diagrams of so many nodes.

    ``all_links`` keeps links of probability 0 too, for derivatives and for other probabilities.
    """
    by_distance = network.directed or hops is not None
    if by_distance and len(terminals) == 2:
        reduction = _between(network, terminals, hops, all_links)
    else:
        alive = (network.prob > 0.0) | all_links
        reduction = reduce_network(network.tail, network.head, alive, network.node_prob < 1.0, set(terminals))
    out = Solved(reduction)
    if reduction.impossible or (hops == 0 and len(terminals) > 1):
        out.lower = out.upper = 0.0
        out.log_complement = 0.0
        reduction.impossible = True
        return out
    values = reduction.values(np.concatenate([network.prob, network.node_prob]))
    log_yes = sum(safe_log(values[v]) for v in reduction.needed)
    log_upper, log_not_no = log_yes, log_yes
    out.blocks = len(reduction.blocks)
    for block in reduction.blocks:
        run, of = _run(block, network, reduction, terminals, values, hops, limit, states - out.states, keep)
        out.width, out.states = max(out.width, run["width"]), out.states + run["states"]
        out.complete &= bool(run["complete"])
        log_yes += safe_log(run["yes"])
        log_upper += safe_log(run["yes"] if run["complete"] else 1.0 - run["no"])
        log_not_no += math.log1p(-min(run["no"], 1.0)) if run["no"] < 1.0 else -math.inf
        if run["kept"] and out.diagrams is not None:
            compiled = Compiled(run["kind"], run["a"], run["b"], run["var"], np.zeros(0, dtype=np.int32), len(of))
            out.diagrams.append(Diagram(compiled, of))
        else:
            out.diagrams = None
    out.lower, out.upper = math.exp(log_yes), math.exp(log_upper)
    if out.complete:
        out.log_complement = safe_log(-math.expm1(log_not_no))
    return out


def _run(
    block: Block,
    network: Network,
    reduction: Reduction,
    terminals: tuple[int, ...],
    values: FloatArray,
    hops: int | None,
    limit: Limit,
    states: int,
    keep: int,
) -> tuple[dict[str, Any], npt.NDArray[np.int64]]:
    """The native run of one block, and which variable of the reduction each of its variables is."""
    by_distance = network.directed or hops is not None
    number: dict[int, int] = {}
    for node in terminals if by_distance else ():
        number[node] = len(number)  # the source is 0 and the target 1
    for u, v, _ in block.links:
        number.setdefault(u, len(number))
        number.setdefault(v, len(number))
    tail = np.array([number[u] for u, _, _ in block.links], dtype=np.int32)
    head = np.array([number[v] for _, v, _ in block.links], dtype=np.int32)
    degree = np.bincount(np.concatenate([tail, head]), minlength=len(number))
    spread = np.linspace(0, len(number) - 1, min(STARTS, len(number))).astype(np.int64)
    ends = [number[node] for node in sorted(block.terminals)[:4]]
    starts = dict.fromkeys([*ends, *np.argsort(degree, kind="stable")[:4].tolist(), *spread.tolist()])
    order = _native.frontier_order(len(number), tail, head, list(starts), limit.seconds_left)
    if len(order) != len(tail):  # no time for an order: then none is better than another
        order = np.arange(len(tail))
    of = np.array([block.links[i][2] for i in order] + [reduction.num_links + node for node in number], dtype=np.int64)
    terminal = np.array([node in block.terminals for node in number], dtype=np.uint8)
    needed = set(reduction.needed)
    can_fail = [network.node_prob[v] < 1.0 and reduction.num_links + v not in needed for v in number]
    run: dict[str, Any] = _native.frontier(
        tail[order],
        head[order],
        np.full(len(order), not network.directed, dtype=np.uint8),
        terminal,
        np.array(can_fail, dtype=np.uint8),
        values[of],
        partition=not by_distance,
        hops=-1 if hops is None else hops,
        keep_nodes=keep,
        max_states=max(states, 1),
        memory=limit.memory,
        seconds=limit.seconds_left,
    )
    return run, of


def _between(network: Network, terminals: tuple[int, ...], hops: int | None, all_links: bool) -> Reduction:
    """The links on some way from the source to the target as one block, those that run side by side merged.

    Directed links in series are merged too, unless their number counts.
    """
    source, target = terminals
    out = Reduction(network.num_links, network.num_nodes)
    both = not network.directed
    usable = np.flatnonzero(((network.prob > 0.0) | all_links) & (network.tail != network.head))
    tail, head = network.tail[usable].tolist(), network.head[usable].tolist()
    forward, backward = _reach(tail, head, source, both), _reach(head, tail, target, both)
    useful = forward & backward
    if source not in useful or target not in useful:
        out.impossible = True
        return out
    between: dict[tuple[int, int], list[int]] = {}
    for u, v, e in zip(tail, head, usable.tolist(), strict=True):
        # A link back into the source or out of the target is on no shortest way.
        if u in useful and v in useful and (both or (v != source and u != target)):
            between.setdefault((min(u, v), max(u, v)) if both else (u, v), []).append(e)
    link = {pair: own[0] if len(own) == 1 else out.make(False, own) for pair, own in between.items()}
    if network.directed and hops is None:
        _merge_series(link, {source, target}, network.node_prob < 1.0, out)
    out.needed = [out.num_links + node for node in sorted(terminals) if network.node_prob[node] < 1.0]
    out.blocks = [Block([(u, v, variable) for (u, v), variable in link.items()], {source, target})]
    return out


def _merge_series(
    link: dict[tuple[int, int], int], terminals: set[int], fails: npt.NDArray[np.bool_], out: Reduction
) -> None:
    """Dissolves directed nodes with one link in and one link out."""
    into: dict[int, set[int]] = {}
    outof: dict[int, set[int]] = {}
    for u, v in link:
        outof.setdefault(u, set()).add(v)
        into.setdefault(v, set()).add(u)
    waiting = [v for v in into if v in outof]
    while waiting:
        v = waiting.pop()
        if v in terminals or len(into.get(v, ())) != 1 or len(outof.get(v, ())) != 1:
            continue
        (u,), (w,) = into[v], outof[v]
        parts = [link.pop((u, v)), link.pop((v, w))]
        outof[u].discard(v)
        into[w].discard(v)
        del into[v], outof[v]
        if u != w:
            new = out.make(True, [*parts, *([out.num_links + v] if fails[v] else [])])
            old = link.get((u, w))
            link[u, w] = new if old is None else out.make(False, [old, new])
            outof[u].add(w)
            into[w].add(u)
        waiting += [u, w]


def _reach(tail: list[int], head: list[int], start: int, both: bool) -> set[int]:
    neighbours: dict[int, list[int]] = {}
    for u, v in zip(tail, head, strict=True):
        neighbours.setdefault(u, []).append(v)
        if both:
            neighbours.setdefault(v, []).append(u)
    seen, waiting = {start}, [start]
    while waiting:
        for v in neighbours.get(waiting.pop(), ()):
            if v not in seen:
                seen.add(v)
                waiting.append(v)
    return seen
