"""How likely it is that the terminals of a network are connected, with the promise that was asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sharpdnf import _native
from sharpdnf.engines.sampling import UNLIMITED, draws_needed, from_draws, successes_needed
from sharpdnf.estimate import Estimate, Limit, exact_estimate, log1mexp
from sharpdnf.fronts.frontier import Budget, Question, Solved, solve
from sharpdnf.fronts.rare import sample_failure

STATES = 2_000_000
"""How many states an exact answer may cost before sampling begins, if no exact answer was asked for."""
EXACT_LINKS = 100_000
"""Networks with more links are sampled unless an exact answer is asked for: they are hardly ever narrow."""


@dataclass(frozen=True, slots=True)
class Promise:
    """How good an answer must be."""

    guarantee: str
    epsilon: float
    delta: float
    of: str = "prob"
    """What a relative guarantee is about: the reliability, or its complement."""

    @property
    def of_failure(self) -> bool:
        return self.of == "complement" and self.guarantee == "relative"


def answer_connection(question: Question, asked: Promise, rng: np.random.Generator, limit: Limit) -> Estimate:
    """Exact where the network is narrow enough, else certified bounds that are close enough, else drawn."""
    insist = asked.guarantee in ("exact", "bounds")
    solved = None
    if insist or question.network.num_links <= EXACT_LINKS:
        solved = solve(question, limit, Budget(states=UNLIMITED if insist else STATES))
        if solved.complete or insist or _narrow(solved, asked):
            return _certified(solved, asked)
    estimate = None
    if asked.of_failure and solved is not None:
        estimate = sample_failure(question, solved, asked.epsilon, asked.delta, rng, limit)
    if estimate is None:
        estimate = sample_connection(question, asked, rng, limit)
    return estimate if solved is None else _clip(estimate, solved)


def _certified(solved: Solved, asked: Promise) -> Estimate:
    """The answer of the frontier method: exact, or the bounds at which it stopped."""
    info = {"width": solved.width, "states": solved.states, "blocks": len(solved.parts)}
    if solved.complete:
        return exact_estimate(solved.log_prob, "frontier", delta=0.0, info=info).replace(**solved.interval())
    met = asked.guarantee == "bounds" or _narrow(solved, asked)
    return Estimate(
        guarantee=asked.guarantee if met else "bounds",
        engine="frontier",
        delta=0.0,
        met=met,
        info=info,
        epsilon=asked.epsilon if met and asked.guarantee != "bounds" else None,
        log_prob=solved.log_prob,
        **solved.interval(),
    )


def _narrow(solved: Solved, asked: Promise) -> bool:
    """Whether the middle of the certified bounds is within epsilon already."""
    interval = solved.interval()
    lower, upper = math.exp(interval["log_lower"]), math.exp(interval["log_upper"])
    if asked.of_failure:
        lower, upper = -math.expm1(interval["log_upper"]), -math.expm1(interval["log_lower"])
    if asked.guarantee == "relative":
        return lower > 0.0 and (upper - lower) / 2.0 <= 0.999 * asked.epsilon * lower
    return asked.guarantee == "additive" and (upper - lower) / 2.0 <= 0.999 * asked.epsilon


def sample_connection(question: Question, asked: Promise, rng: np.random.Generator, limit: Limit) -> Estimate:
    """Worlds are drawn until the stopping rule of the guarantee says that there are enough."""
    relative = asked.guarantee == "relative"
    drawn = draw_worlds(
        question,
        rng,
        limit,
        successes=successes_needed(asked.epsilon, asked.delta) if relative else 0,
        max_draws=UNLIMITED if relative else draws_needed(asked.epsilon, asked.delta),
        of_failure=asked.of_failure,
    )
    if drawn.impossible:
        return exact_estimate(-math.inf, "reach", delta=0.0, info={"why": "no way leads to a terminal"})
    estimate = from_draws(
        drawn,
        "reach",
        guarantee=asked.guarantee,
        epsilon=asked.epsilon,
        delta=asked.delta,
        info={"looks": drawn.looks, "of": asked.of},
    )
    if not asked.of_failure:
        return estimate
    return estimate.replace(  # a success of the draws is a failure of the network
        of="complement",
        log_prob=estimate.log_complement,
        log_lower=log1mexp(estimate.log_upper),
        log_upper=log1mexp(estimate.log_lower),
        log_certified_upper=0.0,
        log_complement=estimate.log_prob,
        log_complement_lower=estimate.log_lower,
        log_complement_upper=estimate.log_upper,
    )


def draw_worlds(
    question: Question,
    rng: np.random.Generator,
    limit: Limit,
    *,
    successes: int,
    max_draws: int,
    of_failure: bool,
    count_nodes: bool = False,
) -> _native.ReachSample:
    """Worlds, searched from the source, until so many successes or draws."""
    network = question.network
    return _native.reach(
        network.tail,
        network.head,
        network.directed,
        network.prob,
        network.node_prob,
        source=question.terminals[0],
        terminals=list(question.terminals),
        hops=-1 if question.hops is None else question.hops,
        seed=int(rng.integers(2**63)),
        successes=successes,
        max_draws=max_draws,
        of_failure=of_failure,
        count_nodes=count_nodes,
        threads=limit.threads,
        seconds=limit.seconds_left,
    )


def _clip(estimate: Estimate, solved: Solved) -> Estimate:
    """Moves a sampled answer into the certified bounds of an unfinished exact run: towards the truth."""
    sure = solved.interval()
    log_lower = max(sure["log_certified_lower"], estimate.log_certified_lower)
    log_upper = min(sure["log_certified_upper"], estimate.log_certified_upper)

    def inside(x: float) -> float:
        return float(min(max(x, log_lower), log_upper))

    changed = {name: inside(getattr(estimate, name)) for name in ("log_prob", "log_lower", "log_upper")}
    return estimate.replace(log_certified_lower=log_lower, log_certified_upper=log_upper, **changed)
