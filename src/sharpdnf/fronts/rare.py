"""Rare failures of wide networks: 1 - R within a factor 1 +- epsilon even where it is 1e-12.

The draws are those of the creation process (``native/kernels/creation.hpp``), whose successes have the probability
P(failure) / B for a certain bound B that is mostly within a small power of the number of nodes of P(failure). What the
frontier method solved is folded in exactly; the other blocks are sampled together, as one network. A node that can fail
joins the ends of its links as one element of several ends, as a link joins two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.engines.sampling import UNLIMITED, from_draws, successes_needed
from sharpdnf.estimate import Estimate, Limit, log1mexp
from sharpdnf.fronts.frontier import Question, Solved

USEFUL = math.log(1.0 / 512.0)
"""The bound on P(failure) must be below this for the method to pay: above it, drawing 512 worlds at once is cheaper."""
LARGEST_RATE = 700.0
"""Elements that fail with probability below exp(-LARGEST_RATE) are taken for perfect: they would add less than the
smallest double."""

Port = tuple[str | int, ...]
"""Where an element ends: ("node", its number), or ("end", node, block, link) at a node that can fail itself."""


@dataclass(frozen=True, slots=True)
class Elements:
    """Links and failing nodes alike: element e joins the nodes ``end[start[e]:start[e + 1]]`` and fails with
    probability exp(-rate[e])."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int32]
    rate: npt.NDArray[np.float64]
    terminal: npt.NDArray[np.uint8]

    @property
    def arrays(
        self,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
        return self.start, self.end, self.rate, self.terminal


def sample_failure(
    question: Question, solved: Solved, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit
) -> Estimate | None:
    """An Estimate whose relative promise is about 1 - R; None where the method does not apply or would be slower."""
    if question.by_distance or solved.reduction.impossible:
        return None
    elements = _elements(question, solved)
    if elements is None:
        return None
    scale = _native.creation_scale(*elements.arrays, seconds=limit.seconds_left)
    if not scale.complete or scale.log_scale > USEFUL:
        return None
    drawn = _native.creation_sample(
        *elements.arrays,
        base=scale.base,
        step=scale.step,
        seed=int(rng.integers(2**63)),
        successes=successes_needed(epsilon, delta),
        max_draws=UNLIMITED,
        threads=limit.threads,
        seconds=limit.seconds_left,
    )
    info = {"log_scale": scale.log_scale, "cut": scale.cut, "looks": drawn.looks, "of": "complement"}
    failure = from_draws(
        drawn, "creation", guarantee="relative", epsilon=epsilon, delta=delta, log_scale=scale.log_scale, info=info
    )
    return _whole(failure, solved)


def _whole(failure: Estimate, solved: Solved) -> Estimate:
    """R = (1 - P(failure of what was sampled)) times what is known: monotone, and no relative error of 1 - R grows."""
    known = solved.log_known

    def reliability(log_failure: float) -> float:
        return min(0.0, known + log1mexp(log_failure))

    certain = reliability(failure.log_certified_upper)
    return failure.replace(
        of="complement",
        log_prob=reliability(failure.log_prob),
        log_lower=reliability(failure.log_upper),
        log_upper=reliability(failure.log_lower),
        log_certified_lower=certain,
        log_certified_upper=known,
        log_complement=_either(known, failure.log_prob),
        log_complement_lower=_either(known, failure.log_lower),
        log_complement_upper=_either(known, failure.log_upper),
    )


def _either(log_known: float, log_failure: float) -> float:
    """The logarithm of the probability of a failure: of the part that works with exp(log_known), or of the rest."""
    return min(0.0, float(np.logaddexp(log1mexp(log_known), log_known + log_failure)))


def _elements(question: Question, solved: Solved) -> Elements | None:
    """The blocks that were not finished as one network; None if nothing is left that can fail or be connected."""
    values, num_links = solved.values, solved.reduction.num_links
    certain = set(solved.reduction.needed)
    same: dict[Port, Port] = {}

    def find(x: Port) -> Port:
        while same.setdefault(x, x) != x:
            same[x] = x = same[same[x]]
        return x

    ends: list[tuple[list[Port], float]] = []
    ports: dict[int, list[Port]] = {}
    terminals: set[int] = set()
    for part in solved.parts:
        if part.complete:  # given that it works, its terminals are one node
            first, *rest = sorted(part.block.terminals)
            for node in rest:
                same[find(("node", node))] = find(("node", first))
            continue
        terminals |= part.block.terminals
        for i, (u, v, variable) in enumerate(part.block.links):
            own: list[Port] = []
            for node in (u, v):
                fails = question.network.node_prob[node] < 1.0 and num_links + node not in certain
                own.append(("end", node, id(part), i) if fails else ("node", node))
                if fails:
                    ports.setdefault(node, []).append(own[-1])
            ends.append((own, float(values.down[variable])))
    ends += [(own, float(values.down[num_links + node])) for node, own in ports.items()]
    for own, down in ends:
        if down < math.exp(-LARGEST_RATE):
            for other in own[1:]:
                same[find(other)] = find(own[0])
    number: dict[Port, int] = {}
    for node in sorted(terminals):
        number.setdefault(find(("node", node)), len(number))
    num_terminals = len(number)
    kept = []
    for own, down in ends:
        joined = list(dict.fromkeys(number.setdefault(find(x), len(number)) for x in own))
        if len(joined) > 1 and math.exp(-LARGEST_RATE) <= down < 1.0:
            kept.append((joined, -math.log(down)))
    if num_terminals < 2 or not kept:
        return None
    start = np.cumsum([0, *(len(joined) for joined, _ in kept)]).astype(np.int64)
    end = np.array([x for joined, _ in kept for x in joined], dtype=np.int32)
    terminal = (np.arange(len(number)) < num_terminals).astype(np.uint8)
    return Elements(start, end, np.array([rate for _, rate in kept]), terminal)
