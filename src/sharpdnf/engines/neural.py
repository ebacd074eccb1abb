"""``neural``: the paper's learned counter. One pass of the network, linear in the literals, without a guarantee.

What simplification takes out is computed, and the network answers for the rest.

The estimate and its interval (quantiles of held-out residuals, not a guarantee) are clipped to bounds that surely
hold, so that a formula far from the training family at least gets an answer that is not impossible.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.errors import needs_extra
from sharpdnf.estimate import Estimate, Limit

if TYPE_CHECKING:
    from sharpdnf.learn.counter import NeuralCounter

MEMORY_GB = 8.0


class _OutOfTime(Exception):
    """The deadline passed between two blocks of nodes."""


@functools.lru_cache(maxsize=4)
def load(weights: str | None) -> NeuralCounter:
    """The counter of that name or path, loaded once a process."""
    with needs_extra("the neural engine", "neural"):
        from sharpdnf.learn.counter import NeuralCounter
    return NeuralCounter.from_pretrained(weights)


def neural_many(
    dnfs: Sequence[DNF],
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    weights: str | None = None,
    memory_gb: float = MEMORY_GB,
) -> list[Estimate]:
    """Formulas of similar size go through the network together; at the deadline the rest get certified bounds."""
    counter = load(weights)
    from sharpdnf.learn.counter import node_batches

    counter.memory = int(memory_gb * 2**30)

    def check_deadline() -> None:
        if limit.expired:
            raise _OutOfTime

    out: dict[int, Estimate] = {}
    for batch in node_batches(dnfs):
        formulas = [dnfs[i] for i in batch]
        try:
            estimates: list[Estimate | None] = list(
                counter.predict_batch(formulas, delta=delta, after_block=check_deadline)
            )
        except _OutOfTime:
            estimates = [None] * len(batch)
        for i, estimate in zip(batch, estimates, strict=True):
            out[i] = _clip(estimate, dnfs[i], delta, weights or "paper", limit)
    return [out[i] for i in range(len(dnfs))]


@engine(
    "neural",
    guarantees=("none",),
    summary="the paper's network; linear time, no guarantee",
    simplify=False,  # the counter does it, and shows the interval of formulas like the whole
    extra="neural",
    run_many=neural_many,
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
    """``weights`` names a shipped network or a directory; ``memory_gb`` is what the estimate may take.

    The first call of a process loads the tensor library, a second or two that no deadline can cut short.
    """
    return neural_many(
        [dnf],
        guarantee=guarantee,
        epsilon=epsilon,
        delta=delta,
        rng=rng,
        limit=limit,
        weights=weights,
        memory_gb=memory_gb,
    )[0]


def _clip(estimate: Estimate | None, dnf: DNF, delta: float, weights: str, limit: Limit) -> Estimate:
    """The network's estimate inside bounds that surely hold; their middle if there was no time for an estimate."""
    log_lower, log_upper = certified_bounds(dnf, seconds=limit.seconds_left)
    if estimate is None:
        return Estimate(
            log_prob=log_midpoint(log_lower, log_upper),
            guarantee="none",
            engine="neural",
            met=False,
            log_lower=log_lower,
            log_upper=log_upper,
            log_certified_lower=log_lower,
            log_certified_upper=log_upper,
            info={"reason": "timeout before the network had finished: the answer is the middle of certified bounds"},
        )
    clipped = float(np.clip(estimate.log_prob, log_lower, log_upper))
    return estimate.replace(
        log_prob=clipped,
        delta=delta,
        log_lower=min(max(estimate.log_lower, log_lower), clipped),
        log_upper=max(min(estimate.log_upper, log_upper), clipped),
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        info={"weights": weights, **estimate.info, "clipped to certified bounds": clipped != estimate.log_prob},
    )
