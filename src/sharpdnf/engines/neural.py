"""``neural``: the paper's learned counter. One pass of the network, linear in the literals, without a guarantee.

The estimate and its interval (quantiles of held-out residuals, not a guarantee) are clipped to bounds that surely
hold, so that a formula far from the training family at least gets an answer that is not impossible.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.errors import MissingExtra
from sharpdnf.estimate import Estimate, Limit

if TYPE_CHECKING:
    from sharpdnf.learn.counter import NeuralCounter

MEMORY_GB = 8.0


class _OutOfTime(Exception):
    """The deadline passed between two blocks of nodes."""


@functools.lru_cache(maxsize=4)
def load(weights: str | None) -> NeuralCounter:
    """The counter of that name or path, loaded once a process."""
    try:
        from sharpdnf.learn.counter import NeuralCounter
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("sharpdnf"):
            raise
        raise MissingExtra("the neural engine", "neural") from None
    return NeuralCounter.from_pretrained(weights)


@engine(
    "neural", guarantees=("none",), summary="the paper's trained network; linear time, no guarantee", extra="neural"
)
def neural(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    weights: str | None = None,
    memory_gb: float = MEMORY_GB,
) -> Estimate:
    """``weights`` names a shipped network or a directory; ``memory_gb`` is what the estimate may take."""
    counter = load(weights)
    counter.memory = int(memory_gb * 2**30)
    log_lower, log_upper = certified_bounds(dnf)

    def check_deadline() -> None:
        if limit.expired:
            raise _OutOfTime

    try:
        estimate = counter.predict(dnf, delta=delta, after_block=check_deadline)
    except _OutOfTime:
        return Estimate(
            log_prob=log_midpoint(log_lower, log_upper), guarantee="none", engine="neural", met=False,
            log_lower=log_lower, log_upper=log_upper, log_certified_lower=log_lower, log_certified_upper=log_upper,
            info={"reason": "timeout before the network had finished: the answer is the middle of certified bounds"},
        )  # fmt: skip
    clipped = float(np.clip(estimate.log_prob, log_lower, log_upper))
    info = {"weights": weights or "paper", **estimate.info, "clipped to certified bounds": clipped != estimate.log_prob}
    return estimate.replace(
        log_prob=clipped,
        delta=delta,
        log_lower=min(max(estimate.log_lower, log_lower), clipped),
        log_upper=max(min(estimate.log_upper, log_upper), clipped),
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        info=info,
    )
