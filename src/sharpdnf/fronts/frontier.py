"""The exact side of networks: reductions, an order of the links, the frontier method, and derivatives.

Each block of the reduced network becomes a decision diagram over its links, as a ``Compiled``: evaluated under any
probabilities, forwards and backwards. The reliability is the product over blocks; its complement is put together from
the complements of the blocks, so that 1 - R is right to many digits where R is almost 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import FloatArray
from sharpdnf.estimate import UNIT, Limit, log1mexp, safe_log
from sharpdnf.fronts.links import LinkNetwork
from sharpdnf.fronts.reduction import Block, Reduction, Values, products_of_others, reduce_network

STARTS = 24
"""How many nodes are tried as the start of an order of the links."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a network: are the terminals connected (from the first to all others, if it is directed)?"""

    network: LinkNetwork
    terminals: tuple[int, ...]
    hops: int | None = None

    @property
    def by_distance(self) -> bool:
        """Whether direction or distance matters, so that there must be one source and one target."""
        return self.network.directed or self.hops is not None


@dataclass(frozen=True, slots=True)
class Budget:
    """How much an exact run may cost."""

    states: int = 2**62
    """How many states of the frontier may be visited in all."""
    keep: int = 0
    """A diagram is kept, for derivatives and other probabilities, if it has at most this many nodes."""
    all_links: bool = False
    """Whether links of probability 0 are kept too, for derivatives and for other probabilities."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the frontier method found out about one block: its terminals are connected (yes) or not (no)."""

    block: Block
    yes: float
    no: float
    complete: bool
    width: int
    states: int
    diagram: Compiled | None
    of: npt.NDArray[np.int64]
    """Variable i of the diagram is variable ``of[i]`` of the reduction."""


@dataclass(slots=True)
class Solved:
    """What the frontier method found: bounds on the reliability that meet when it came to its end."""

    reduction: Reduction
    values: Values
    parts: list[Part] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return all(part.complete for part in self.parts)

    @property
    def width(self) -> int:
        return max((part.width for part in self.parts), default=0)

    @property
    def states(self) -> int:
        return sum(part.states for part in self.parts)

    @property
    def kept(self) -> bool:
        return all(part.diagram is not None for part in self.parts)

    @property
    def log_known(self) -> float:
        """log P(all that must work, and all blocks that were finished, work)."""
        done = [part for part in self.parts if part.complete]
        # log(1 - no) has more digits than log(yes) where a block hardly ever fails.
        logs = [safe_log(part.yes) if part.yes < part.no else math.log1p(-min(part.no, 1.0)) for part in done]
        return sum(logs) + sum(safe_log(float(self.values.up[v])) for v in self.reduction.needed)

    @property
    def log_lower(self) -> float:
        if self.reduction.impossible:
            return -math.inf
        return self.log_known + sum(safe_log(part.yes) for part in self.parts if not part.complete)

    @property
    def log_upper(self) -> float:
        if self.reduction.impossible:
            return -math.inf
        return self.log_known + sum(safe_log(1.0 - part.no) for part in self.parts if not part.complete)

    @property
    def log_prob(self) -> float:
        """The logarithm of the reliability, or of the middle of the bounds where the method did not come to its end."""
        return self.log_lower if self.complete else safe_log((math.exp(self.log_lower) + math.exp(self.log_upper)) / 2)

    def interval(self) -> dict[str, Any]:
        """The certified interval, by the names that an Estimate has for it.

        All terms of the sums are positive, and each is rounded once: that is how far rounding can have moved them.
        """
        error = 4.0 * UNIT * (self.states + 8 * len(self.values.up) + 64)
        down, up = math.log1p(-error), math.log1p(error)
        lower, upper = self.log_lower + down, min(0.0, self.log_upper + up)
        out = {"log_lower": lower, "log_upper": upper, "log_certified_lower": lower, "log_certified_upper": upper}
        if self.complete:
            other = log1mexp(self.log_prob)
            out |= {"log_complement": other, "log_complement_lower": other + down}
            out |= {"log_complement_upper": min(0.0, other + up)}
            # R and 1 - R bound each other; near 1 the interval that follows from 1 - R is the narrower one.
            lower = max(lower, log1mexp(out["log_complement_upper"]) - 4.0 * UNIT)
            upper = min(upper, log1mexp(out["log_complement_lower"]) + 4.0 * UNIT)
            out |= {"log_lower": lower, "log_upper": upper, "log_certified_lower": lower, "log_certified_upper": upper}
        return out

    def evaluate(self, link_prob: FloatArray, node_prob: FloatArray) -> float:
        """The reliability under other probabilities."""
        if self.reduction.impossible:
            return 0.0
        up = self.reduction.values(np.concatenate([link_prob, node_prob])).up
        total = sum(safe_log(float(up[v])) for v in self.reduction.needed)
        for part in self.parts:
            assert part.diagram is not None
            total += float(part.diagram.evaluate(up[part.of])[0])
        return math.exp(total)

    def gradient(self, link_prob: FloatArray, node_prob: FloatArray) -> FloatArray:
        """float64[m + n]: d R / d p of every link, then of every node."""
        values = self.reduction.values(np.concatenate([link_prob, node_prob]))
        slope = np.zeros(len(values.up))
        if self.reduction.impossible:
            return slope[: len(link_prob) + len(node_prob)]
        needed = self.reduction.needed
        found = [part.diagram.gradient(values.up[part.of]) for part in self.parts if part.diagram is not None]
        assert len(found) == len(self.parts)
        others = products_of_others(np.array([*values.up[needed], *(math.exp(log_prob) for log_prob, _ in found)]))
        slope[needed] += others[: len(needed)]
        for part, (_, own), rest in zip(self.parts, found, others[len(needed) :], strict=True):
            np.add.at(slope, part.of, rest * own)
        return self.reduction.push_back(values, slope)


def solve(question: Question, limit: Limit, budget: Budget | None = None) -> Solved:
    """Runs the frontier method on every block, small ones first, within the budget and the limits."""
    budget = budget or Budget()
    network, terminals = question.network, question.terminals
    if question.by_distance and len(terminals) == 2:
        reduction = _between(question, budget.all_links)
    else:
        alive = (network.prob > 0.0) | budget.all_links
        reduction = reduce_network(network.tail, network.head, alive, network.node_prob < 1.0, set(terminals))
    reduction.impossible |= question.hops == 0 and len(terminals) > 1
    out = Solved(reduction, reduction.values(np.concatenate([network.prob, network.node_prob])))
    if not reduction.impossible:
        for block in sorted(reduction.blocks, key=lambda block: len(block.links)):
            out.parts.append(_run(block, question, out, limit, budget))
    return out


def _run(block: Block, question: Question, so_far: Solved, limit: Limit, budget: Budget) -> Part:
    """Runs the frontier method on one block."""
    network, reduction, values = question.network, so_far.reduction, so_far.values
    number: dict[int, int] = {}
    for node in question.terminals if question.by_distance else ():
        number[node] = len(number)  # the source is 0 and the target 1
    for u, v, _ in block.links:
        number.setdefault(u, len(number))
        number.setdefault(v, len(number))
    tail = np.array([number[u] for u, _, _ in block.links], dtype=np.int32)
    head = np.array([number[v] for _, v, _ in block.links], dtype=np.int32)
    order = _order(tail, head, [number[node] for node in sorted(block.terminals)[:4]], len(number), limit)
    of = np.array([block.links[i][2] for i in order] + [reduction.num_links + node for node in number], dtype=np.int64)
    needed = set(reduction.needed)
    can_fail = [network.node_prob[v] < 1.0 and reduction.num_links + v not in needed for v in number]
    run = _native.frontier(
        tail[order],
        head[order],
        np.full(len(order), not network.directed, dtype=np.uint8),
        np.array([node in block.terminals for node in number], dtype=np.uint8),
        np.array(can_fail, dtype=np.uint8),
        values.up[of],
        values.down[of],
        partition=not question.by_distance,
        hops=-1 if question.hops is None else question.hops,
        keep_nodes=budget.keep,
        max_states=max(budget.states - so_far.states, 1),
        memory=limit.memory,
        seconds=limit.seconds_left,
    )
    diagram = Compiled.from_native(run.diagram, len(of))
    return Part(block, run.yes, run.no, run.complete, run.width, run.states, diagram, of)


def _order(
    tail: npt.NDArray[np.int32], head: npt.NDArray[np.int32], ends: list[int], num_nodes: int, limit: Limit
) -> npt.NDArray[np.int32]:
    """The best order of the links from several starts: terminals, nodes of few links, and some of all."""
    degree = np.bincount(np.concatenate([tail, head]), minlength=num_nodes)
    spread = np.linspace(0, num_nodes - 1, min(STARTS, num_nodes)).astype(np.int64)
    starts = dict.fromkeys([*ends, *np.argsort(degree, kind="stable")[:4].tolist(), *spread.tolist()])
    order = _native.frontier_order(num_nodes, tail, head, list(starts), limit.seconds_left)
    return (
        order if len(order) == len(tail) else np.arange(len(tail), dtype=np.int32)
    )  # at the deadline the search gives no order; any is right


def _between(question: Question, all_links: bool) -> Reduction:
    """The links on some way from the source to the target as one block, those that run side by side merged.

    Directed links in series are merged too, unless their number counts.
    """
    network, (source, target) = question.network, question.terminals
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
    if network.directed and question.hops is None:
        _merge_series(link, {source, target}, network.node_prob < 1.0, out)
    out.needed = [out.num_links + node for node in sorted((source, target)) if network.node_prob[node] < 1.0]
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
