"""Networks whose links and nodes work with given probabilities: what is connected, what is reached, what matters?

>>> from sharpdnf import network
>>> bridge = [("a", "b", 0.9), ("a", "c", 0.8), ("b", "c", 0.5), ("b", "d", 0.8), ("c", "d", 0.9)]
>>> round(network.reliability(bridge, "a", "d").prob, 6)
0.941

Exact answers come from the frontier method (``frontier``), whose cost grows with the width of the network and not with
its number of paths. Where the network is too wide, worlds are drawn 512 at a time (``native/kernels/reach.hpp``) with
the stopping rules of ``sampling``; a relative promise about rare failures comes from the creation process (``rare``).
``connection`` chooses between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.engines.front import Seed, make_limit, make_rng
from sharpdnf.engines.registry import refuse_options
from sharpdnf.engines.sampling import UNLIMITED, anytime_width, draws_needed
from sharpdnf.errors import InvalidNetwork, LimitError
from sharpdnf.estimate import Estimate, Limit, check_tolerance
from sharpdnf.fronts.connection import STATES, Promise, answer_connection, draw_worlds
from sharpdnf.fronts.frontier import Budget, Question, Solved, solve
from sharpdnf.fronts.links import Edges, LinkNetwork, NodeProb, read_network

Table = dict[str, Any]
GUARANTEES = ("exact", "relative", "additive", "bounds")
EXACT_PAIRS = 1_000_000
"""The largest product of nodes and links for which ``reached`` tries to be exact, which it does node by node."""
KEPT_NODES = 20_000_000


def reliability(
    edges: Edges,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: NodeProb = None,
    *,
    hops: int | None = None,
    guarantee: str | None = None,
    of: str = "prob",
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    **unknown: Never,
) -> Estimate:
    """The probability that the terminals are connected.

    ``source`` and ``target`` ask for two terminals, ``terminals`` for several, neither for all nodes. ``hops`` allows
    only ways of at most so many links. ``edges`` is anything that ``read_network`` takes. Without a ``guarantee`` the
    answer is exact where the network is narrow enough and relative where it is not; ``of="complement"`` makes the
    relative promise about the probability of failure. At ``timeout`` seconds the best answer so far comes back with
    ``met=False`` and its certified bounds.
    """
    refuse_options(reliability, unknown)
    started = time.perf_counter()
    if guarantee is not None and guarantee not in GUARANTEES:
        raise ValueError(f"unknown guarantee {guarantee!r}: choose from {', '.join(GUARANTEES)}")
    if of not in ("prob", "complement"):
        raise ValueError(f"of must be 'prob' or 'complement', not {of!r}")
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, seed = make_rng(rng)
    question = ask(read_network(edges, directed=directed, node_prob=node_prob), source, target, terminals, hops)
    estimate = answer_connection(question, Promise(guarantee or "relative", epsilon, delta, of), generator, limit)
    return estimate.replace(seed=seed, seconds=time.perf_counter() - started)


def ask(
    network: LinkNetwork,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    hops: int | None = None,
) -> Question:
    """Checks what is asked, and finds the numbers of the terminals."""
    if terminals is not None and (source is not None or target is not None):
        raise InvalidNetwork("name either a source and a target, or terminals, not both")
    if (source is None) != (target is None):
        raise InvalidNetwork("a source needs a target, and a target a source")
    if source is not None:
        chosen = (network.number(source, "source"), network.number(target, "target"))
        if chosen[0] == chosen[1]:
            raise InvalidNetwork(f"the source and the target are the same node {source!r:.80}")
        return Question(network, chosen, _checked_hops(hops))
    if network.directed or hops is not None:
        kind = "directed network" if network.directed else "limit on hops"
        raise InvalidNetwork(f"a {kind} needs a source and a target: reached() gives all nodes at once")
    if terminals is None:
        return Question(network, tuple(range(network.num_nodes)))
    if isinstance(terminals, str):
        raise InvalidNetwork(f"terminals is a list of nodes, not the text {terminals!r:.80}")
    several = tuple(dict.fromkeys(network.number(node, "terminal") for node in terminals))
    if len(several) < 2:
        raise InvalidNetwork("at least two different terminals are needed")
    return Question(network, several)


def _checked_hops(hops: int | None) -> int | None:
    if hops is not None and (isinstance(hops, bool) or not isinstance(hops, int) or not 0 <= hops <= 250):
        raise InvalidNetwork(f"hops must be a whole number from 0 to 250, not {hops!r:.80}")
    return hops


def reached(
    edges: Edges,
    source: Hashable,
    directed: bool = False,
    node_prob: NodeProb = None,
    *,
    hops: int | None = None,
    guarantee: str | None = None,
    epsilon: float = 0.01,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    **unknown: Never,
) -> Table:
    """The probability that each node is reached from the source, for all nodes at once.

    Columns: node, prob, lower, upper, exact. ``guarantee`` is "exact" or "additive": within epsilon, each interval with
    probability 1 - delta on its own. Without one, nodes that are quickly solved are exact and the others additive.
    ``samples``, ``seed`` and ``met`` are those of the whole. The sum is the expected number of nodes that are reached:
    ``expected_reached``.
    """
    refuse_options(reached, unknown)
    if guarantee not in (None, "exact", "additive"):
        raise ValueError(f"reached() is 'exact' or 'additive', not {guarantee!r}")
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, seed = make_rng(rng)
    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = Question(network, (network.number(source, "source"),), _checked_hops(hops))
    lower, upper, exact = _reached_exactly(question, limit, insist=guarantee == "exact")
    prob, samples, met = (lower + upper) / 2.0, 0, bool(exact.all())
    if not met and guarantee != "exact":
        mean, samples, met = _reached_sampled(question, draws_needed(epsilon, delta), generator, limit)
        width = epsilon if met else anytime_width(samples, delta)
        prob = np.where(exact, prob, np.clip(mean, lower, upper))
        lower = np.where(exact, lower, np.clip(mean - width, lower, upper))
        upper = np.where(exact, upper, np.clip(mean + width, lower, upper))
    table: Table = {"node": list(network.nodes), "prob": prob, "lower": lower, "upper": upper, "exact": exact}
    return {**table, "samples": samples, "seed": seed, "met": met}


def _reached_exactly(question: Question, limit: Limit, insist: bool) -> tuple[FloatArray, FloatArray, Any]:
    """(lower, upper, whether they are the exact answer) for every node: the frontier method, one target at a time."""
    network, (source,) = question.network, question.terminals
    lower, upper = np.zeros(network.num_nodes), np.ones(network.num_nodes)
    exact = np.zeros(network.num_nodes, dtype=bool)
    lower[source] = upper[source] = network.node_prob[source]
    exact[source] = True
    if not insist and network.num_nodes * network.num_links > EXACT_PAIRS:
        return lower, upper, exact
    states = UNLIMITED if insist else STATES
    for node in range(network.num_nodes):
        if node == source or limit.expired or states <= 0:
            continue
        solved = solve(Question(network, (source, node), question.hops), limit, Budget(states=states))
        interval = solved.interval()
        lower[node], upper[node] = math.exp(interval["log_lower"]), math.exp(interval["log_upper"])
        exact[node] = solved.complete
        if solved.complete:
            lower[node], upper[node] = max(lower[node] - 2**-53, 0.0), min(upper[node] + 2**-53, 1.0)
        states -= solved.states
    return lower, upper, exact


def _reached_sampled(
    question: Question, draws: int, rng: np.random.Generator, limit: Limit
) -> tuple[FloatArray, int, bool]:
    drawn = draw_worlds(question, rng, limit, successes=0, max_draws=draws, of_failure=False, count_nodes=True)
    return drawn.reached / max(drawn.draws, 1), drawn.draws, drawn.complete


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected number and what is promised about it, with the names of an Estimate."""

    value: float
    """The expected number."""
    lower: float
    """The lower end of the interval, which holds with probability 1 - delta; surely where it is exact."""
    upper: float
    """The upper end of that interval."""
    guarantee: str
    """What is promised, as in an Estimate."""
    epsilon: float | None
    """The tolerance that is promised; None where the number is exact."""
    delta: float
    """The probability with which the promise may fail."""
    samples: int
    """How many worlds were drawn; 0 where the number is exact."""
    seed: int
    """The seed that repeats the answer when it is passed as ``rng``."""
    met: bool
    """Whether the guarantee that was asked for is kept."""


def expected_reached(
    edges: Edges,
    source: Hashable,
    directed: bool = False,
    node_prob: NodeProb = None,
    *,
    hops: int | None = None,
    guarantee: str | None = None,
    epsilon: float = 0.01,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    **unknown: Never,
) -> Expectation:
    """The expected number of nodes that are reached from the source, itself included.

    Exact where ``reached`` is; otherwise within ``epsilon`` times the number of nodes, with probability 1 - delta.
    """
    refuse_options(expected_reached, unknown)
    if guarantee not in (None, "exact", "additive"):
        raise ValueError(f"expected_reached() is 'exact' or 'additive', not {guarantee!r}")
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, seed = make_rng(rng)
    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = Question(network, (network.number(source, "source"),), _checked_hops(hops))
    lower, upper, exact = _reached_exactly(question, limit, insist=guarantee == "exact")
    low, high = float(lower.sum()), float(upper.sum())
    if exact.all() or guarantee == "exact":
        met = bool(exact.all())
        return Expectation((low + high) / 2.0, low, high, "exact" if met else "bounds", None, 0.0, 0, seed, met)
    # The number of nodes reached, over all nodes, lies in [0, 1]: Hoeffding's inequality.
    wanted = math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))
    mean, samples, met = _reached_sampled(question, wanted, generator, limit)
    width = network.num_nodes * (epsilon if met else anytime_width(samples, delta))
    value = float(np.clip(mean.sum(), low, high)) if samples else (low + high) / 2.0
    return Expectation(
        value,
        max(low, value - width),
        min(high, value + width),
        "additive" if met else "none",
        epsilon,
        delta,
        samples,
        seed,
        met,
    )


def importance(
    edges: Edges,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: NodeProb = None,
    *,
    hops: int | None = None,
    timeout: float | None = None,
    **unknown: Never,
) -> Table:
    """How much each link matters, most important first, exactly.

    Columns: link (its row in ``edges``), tail, head, prob, birnbaum (d R / d p: how much more likely the answer is yes
    if the link is up than if it is down), gain (what a perfect link would add) and loss (what losing it would cost).
    """
    refuse_options(importance, unknown)
    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = ask(network, source, target, terminals, hops)
    solved = _diagram(question, timeout)
    slope = solved.gradient(network.prob, network.node_prob)[: network.num_links]
    order = np.argsort(-slope, kind="stable")
    return {
        "link": order,
        "tail": [network.nodes[i] for i in network.tail[order]],
        "head": [network.nodes[i] for i in network.head[order]],
        "prob": network.prob[order],
        "birnbaum": slope[order],
        "gain": ((1.0 - network.prob) * slope)[order],
        "loss": (network.prob * slope)[order],
    }


def strengthen(
    edges: Edges,
    k: int,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: NodeProb = None,
    *,
    to: float = 1.0,
    hops: int | None = None,
    timeout: float | None = None,
) -> Table:
    """The k links to strengthen first: one after the other, always the one whose rise to ``to`` brings most.

    Columns: link, tail, head, prob, reliability (with this link and those before it strengthened).
    """
    if not 0.0 <= to <= 1.0:
        raise ValueError(f"to must be a probability, not {to}")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = ask(network, source, target, terminals, hops)
    solved = _diagram(question, timeout)
    prob = network.prob.copy()
    chosen, value = [], []
    for _ in range(min(k, network.num_links)):
        rise = np.maximum(to - prob, 0.0) * solved.gradient(prob, network.node_prob)[: network.num_links]
        best = int(np.argmax(rise))
        if rise[best] <= 0.0:
            break
        prob[best] = max(to, prob[best])
        chosen.append(best)
        value.append(solved.evaluate(prob, network.node_prob))
    return {
        "link": np.array(chosen, dtype=np.int64),
        "tail": [network.nodes[network.tail[i]] for i in chosen],
        "head": [network.nodes[network.head[i]] for i in chosen],
        "prob": network.prob[chosen],
        "reliability": np.array(value),
    }


def draw(
    edges: Edges,
    path: str | Path,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: NodeProb = None,
    *,
    hops: int | None = None,
    timeout: float | None = None,
) -> None:
    """Writes a picture of the network, links coloured by their Birnbaum importance, as SVG or PNG by the name's end."""
    from sharpdnf.fronts import network_picture

    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = ask(network, source, target, terminals, hops)
    slope = _diagram(question, timeout).gradient(network.prob, network.node_prob)[: network.num_links]
    marked = question.terminals if len(question.terminals) < network.num_nodes else ()
    out = Path(path)
    if out.suffix == ".png":
        network_picture.draw_png(network, slope, marked, out)
    elif out.suffix == ".svg":
        out.write_text(network_picture.draw_svg(network, slope, marked), encoding="utf-8")
    else:
        raise ValueError(f"a picture's name ends in .svg or .png, not {out.name!r}")


def _diagram(question: Question, timeout: float | None) -> Solved:
    solved = solve(question, make_limit(timeout, 1), Budget(keep=KEPT_NODES, all_links=True))
    if not solved.kept:
        raise LimitError(
            f"the network is {solved.width} nodes wide: its decision diagram did not fit into {KEPT_NODES:,} nodes "
            "or the time limit, so importance cannot be had exactly"
        )
    return solved


__all__ = [
    "Expectation",
    "draw",
    "expected_reached",
    "importance",
    "reached",
    "reliability",
    "strengthen",
]
