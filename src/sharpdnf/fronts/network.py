"""Networks whose links and nodes work with given probabilities: what is connected, what is reached, what matters?

>>> from sharpdnf import network
>>> bridge = [("a", "b", 0.9), ("a", "c", 0.8), ("b", "c", 0.5), ("b", "d", 0.8), ("c", "d", 0.9)]
>>> round(network.reliability(bridge, "a", "d").prob, 6)
0.9162

Exact answers come from the frontier method (``native/kernels/frontier.hpp``), whose cost grows with the width of the
network and not with its number of paths; where the network is too wide, worlds are drawn 512 at a time
(``native/kernels/reach.hpp``) with the stopping rules of ``sampling``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf import _native
from sharpdnf.engines.counting import Seed, make_limit, make_rng
from sharpdnf.engines.sampling import draws_needed, successes_needed
from sharpdnf.errors import InvalidNetwork, LimitError
from sharpdnf.estimate import GUARANTEES, Estimate, Limit, check_tolerance, exact_estimate, log1mexp, safe_log
from sharpdnf.fronts.frontier import Solved, solve
from sharpdnf.fronts.links import Network, read_network

Table = dict[str, Any]
STATES = 2_000_000
"""States that an exact answer may cost before sampling begins, if no exact answer was asked for."""
EXACT_LINKS = 100_000
"""Networks with more links are sampled unless an exact answer is asked for: they are hardly ever narrow."""
KEPT_NODES = 20_000_000
UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a network: are the terminals connected (from the first to all others, if it is directed)?"""

    network: Network
    terminals: tuple[int, ...]
    hops: int | None = None

    @property
    def by_distance(self) -> bool:
        """Whether direction or distance matters, so that there must be one source and one target."""
        return self.network.directed or self.hops is not None


def reliability(
    edges: Any,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: Any = None,
    *,
    hops: int | None = None,
    guarantee: str | None = None,
    of: str = "prob",
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
) -> Estimate:
    """The probability that the terminals are connected.

    ``source`` and ``target`` ask for two terminals, ``terminals`` for several, neither for all nodes. ``hops`` allows
    only ways of at most so many links. ``edges`` is anything that ``read_network`` takes. Without a ``guarantee`` the
    answer is exact where the network is narrow enough and relative where it is not; ``of="complement"`` makes the
    relative promise about the probability of failure.
    """
    started = time.perf_counter()
    if guarantee is not None and guarantee not in GUARANTEES:
        raise ValueError(f"unknown guarantee {guarantee!r}: choose from {', '.join(GUARANTEES)}")
    if of not in ("prob", "complement"):
        raise ValueError(f"of must be 'prob' or 'complement', not {of!r}")
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, seed = make_rng(rng)
    question = ask(read_network(edges, directed=directed, node_prob=node_prob), source, target, terminals, hops)
    wanted = guarantee or "relative"
    estimate = _answer(question, wanted, of, epsilon, delta, generator, limit)
    return estimate.replace(seed=seed, seconds=time.perf_counter() - started)


def ask(
    network: Network,
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
    if hops is not None and (isinstance(hops, bool) or not isinstance(hops, int) or not 0 <= hops <= 250):
        raise InvalidNetwork(f"hops must be a whole number from 0 to 250, not {hops!r}")
    chosen: tuple[int, ...]
    if source is not None:
        chosen = (network.number(source, "source"), network.number(target, "target"))
    elif terminals is not None:
        chosen = tuple(dict.fromkeys(network.number(node, "terminal") for node in terminals))
        if not chosen:
            raise InvalidNetwork("the list of terminals is empty")
    else:
        chosen = tuple(range(network.num_nodes))
    question = Question(network, tuple(dict.fromkeys(chosen)), hops)
    if question.by_distance and len(question.terminals) > 2:
        kind = "directed network" if network.directed else "limit on hops"
        raise InvalidNetwork(f"a {kind} needs a source and a target: reached() gives all nodes at once")
    return question


def _answer(
    question: Question, guarantee: str, of: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit
) -> Estimate:
    insist = guarantee in ("exact", "bounds")
    solved = None
    if insist or question.network.num_links <= EXACT_LINKS:
        solved = solve(
            question.network, question.terminals, question.hops, limit, states=UNLIMITED if insist else STATES
        )
        if solved.complete or insist or _narrow(solved, guarantee, of, epsilon):
            return _certified(solved, guarantee, of, epsilon)
    estimate = _sampled(question, guarantee, of, epsilon, delta, rng, limit)
    return estimate if solved is None else _clip(estimate, solved)


def _certified(solved: Solved, guarantee: str, of: str, epsilon: float) -> Estimate:
    """The answer of the frontier method: exact, or the bounds at which it stopped."""
    info = {"width": solved.width, "states": solved.states, "blocks": solved.blocks}
    if solved.complete:
        return exact_estimate(solved.log_prob, "frontier", delta=0.0, info=info).replace(**solved.interval())
    met = guarantee == "bounds" or _narrow(solved, guarantee, of, epsilon)
    return Estimate(
        guarantee=guarantee if met else "bounds", engine="frontier", delta=0.0, met=met, info=info,
        epsilon=epsilon if met and guarantee != "bounds" else None, log_prob=solved.log_prob, **solved.interval(),
    )  # fmt: skip


def _narrow(solved: Solved, guarantee: str, of: str, epsilon: float) -> bool:
    """Whether the middle of the certified bounds is within epsilon already."""
    lower, upper = solved.lower, solved.upper
    if of == "complement" and guarantee == "relative":
        lower, upper = 1.0 - upper, 1.0 - lower
    if guarantee == "relative":
        return upper > 0.0 and (upper - lower) / (upper + lower) <= epsilon
    return guarantee == "additive" and (upper - lower) / 2.0 <= epsilon


def _sampled(
    question: Question, guarantee: str, of: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit
) -> Estimate:
    """Worlds are drawn until the stopping rule of the guarantee says that there are enough."""
    failure = of == "complement" and guarantee == "relative"
    wanted = successes_needed(epsilon, delta) if guarantee == "relative" else 0
    most = UNLIMITED if wanted else draws_needed(epsilon, delta)
    drawn = _draw(question, rng, limit, successes=wanted, max_draws=most, of_failure=failure)
    draws, successes, complete = drawn["draws"], drawn["successes"], bool(drawn["complete"])
    if complete and wanted:
        share = (wanted - 1) / (draws - 1)
        low, high = share / (1.0 + epsilon), min(1.0, share / (1.0 - epsilon))
    else:
        share = successes / draws if draws else 0.5
        # What so many draws prove with probability 1 - delta, by Hoeffding's inequality, if the rule was cut short.
        width = epsilon if complete else math.sqrt(math.log(2.0 / delta) / (2.0 * draws)) if draws else 1.0
        low, high = max(0.0, share - width), min(1.0, share + width)
    logs: dict[str, Any] = {"log_prob": safe_log(share), "log_lower": safe_log(low), "log_upper": safe_log(high)}
    if failure:
        logs = {
            "log_prob": log1mexp(logs["log_prob"]), "log_lower": log1mexp(logs["log_upper"]),
            "log_upper": log1mexp(logs["log_lower"]), "log_complement": logs["log_prob"],
            "log_complement_lower": logs["log_lower"], "log_complement_upper": logs["log_upper"],
        }  # fmt: skip
    return Estimate(
        guarantee=guarantee if complete else "none", engine="reach", epsilon=epsilon, delta=delta, samples=draws,
        met=complete, info={"looks": drawn["looks"], "successes": successes, "of": of}, **logs,
    )  # fmt: skip


def _draw(question: Question, rng: np.random.Generator, limit: Limit, **asked: Any) -> Table:
    network = question.network
    both = np.zeros(0, dtype=np.int64) if network.directed else np.arange(network.num_links)
    start_of = np.concatenate([network.tail, network.head[both]])
    order = np.argsort(start_of, kind="stable")
    start = np.zeros(network.num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(start_of, minlength=network.num_nodes), out=start[1:])
    table: Table = _native.reach(
        start,
        np.concatenate([network.head, network.tail[both]])[order],
        np.concatenate([np.arange(network.num_links), both])[order].astype(np.int32),
        network.prob,
        network.node_prob,
        source=question.terminals[0],
        terminals=list(question.terminals),
        hops=-1 if question.hops is None else question.hops,
        seed=int(rng.integers(2**63)),
        count_nodes=asked.pop("count_nodes", False),
        threads=limit.threads,
        seconds=limit.seconds_left,
        **asked,
    )
    return table


def _clip(estimate: Estimate, solved: Solved) -> Estimate:
    """Moves a sampled answer into the certified bounds of an unfinished exact run: towards the truth."""
    log_lower, log_upper = safe_log(solved.lower), safe_log(solved.upper)

    def inside(x: float) -> float:
        return min(max(x, log_lower), log_upper)

    changed = {name: inside(getattr(estimate, name)) for name in ("log_prob", "log_lower", "log_upper")}
    return estimate.replace(log_certified_lower=log_lower, log_certified_upper=log_upper, **changed)


def reached(
    edges: Any,
    source: Hashable,
    directed: bool = False,
    node_prob: Any = None,
    *,
    hops: int | None = None,
    epsilon: float = 0.01,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
) -> Table:
    """The probability that each node is reached from the source, for all nodes at once, within epsilon.

    Columns: node, prob, lower, upper; each interval holds with probability 1 - delta on its own. ``samples`` and
    ``met`` are those of the whole. Their sum is the expected number of nodes that are reached: ``expected_reached``.
    """
    check_tolerance(epsilon, delta)
    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = Question(network, (network.number(source, "source"),), hops)
    generator, _ = make_rng(rng)
    most = draws_needed(epsilon, delta)
    drawn = _draw(
        question, generator, make_limit(timeout, threads), successes=0, max_draws=most, of_failure=False,
        count_nodes=True,
    )  # fmt: skip
    draws = max(int(drawn["draws"]), 1)
    met = bool(drawn["complete"])
    width = epsilon if met else math.sqrt(math.log(2.0 / delta) / (2.0 * draws))
    prob = drawn["reached"] / draws
    return {
        "node": list(network.nodes),
        "prob": prob,
        "lower": np.maximum(prob - width, 0.0),
        "upper": np.minimum(prob + width, 1.0),
        "samples": int(drawn["draws"]),
        "met": met,
    }


def expected_reached(
    edges: Any, source: Hashable, directed: bool = False, node_prob: Any = None, **asked: Any
) -> float:
    """The expected number of nodes that are reached from the source, itself included, by linearity."""
    return float(np.sum(reached(edges, source, directed, node_prob, **asked)["prob"]))


def importance(
    edges: Any,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: Any = None,
    *,
    hops: int | None = None,
    timeout: float | None = None,
) -> Table:
    """How much each link matters, most important first, exactly.

    Columns: link (its row in ``edges``), tail, head, prob, birnbaum (d R / d p: how much more likely the answer is yes
    if the link is up than if it is down), gain (what a perfect link would add) and loss (what losing it would cost).
    """
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
    edges: Any,
    k: int,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: Any = None,
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
    edges: Any,
    path: str | Path,
    source: Hashable = None,
    target: Hashable = None,
    terminals: Iterable[Hashable] | None = None,
    directed: bool = False,
    node_prob: Any = None,
    *,
    hops: int | None = None,
    timeout: float | None = None,
) -> None:
    """Writes a picture of the network, links coloured by their Birnbaum importance, as SVG or PNG by the name's end."""
    from sharpdnf.fronts import picture

    network = read_network(edges, directed=directed, node_prob=node_prob)
    question = ask(network, source, target, terminals, hops)
    slope = _diagram(question, timeout).gradient(network.prob, network.node_prob)[: network.num_links]
    marked = question.terminals if len(question.terminals) < network.num_nodes else ()
    out = Path(path)
    if out.suffix == ".png":
        picture.draw_png(network, slope, marked, out)
    elif out.suffix == ".svg":
        out.write_text(picture.draw_svg(network, slope, marked), encoding="utf-8")
    else:
        raise ValueError(f"a picture's name ends in .svg or .png, not {out.name!r}")


def _diagram(question: Question, timeout: float | None) -> Solved:
    solved = solve(
        question.network,
        question.terminals,
        question.hops,
        make_limit(timeout, 1),
        states=UNLIMITED,
        keep=KEPT_NODES,
        all_links=True,
    )
    if solved.diagrams is None:
        raise LimitError(
            f"the network is {solved.width} nodes wide: its decision diagram did not fit into {KEPT_NODES:,} nodes "
            "or the time limit, so importance cannot be had exactly"
        )
    return solved
