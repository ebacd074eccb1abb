"""Answers that come as they get better: a first look, coarse rounds, then what was asked for.

Every round is a call of its own with the seed that was given, so the last one is what the library answers with that
seed. An interval that is shown on the way holds with probability 1 - delta on its own; only the last one is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from sharpdnf.estimate import Estimate
from sharpdnf.serve.plain import number

LOOK = 0.25
"""Seconds of the first look, within which most questions are answered."""
COARSE = (0.5, 0.2, 0.05, 0.02)
"""The tolerances on the way to the one that is asked for. Draws grow with its square, so they cost little."""
SHARES = (0.1, 0.3)
"""The parts of the time that is left that rounds take where there is no tolerance: exact answers and bounds."""


class Watcher(Protocol):
    """Who hears of what happens before the end."""

    def event(self, name: str, value: dict[str, Any]) -> None:
        """Something that the client should see."""

    def progress(self, fraction: float | None, text: str) -> None:
        """How far the work is."""


def shrinking(ask: Callable[..., Estimate], promise: dict[str, Any], watcher: Watcher | None) -> Estimate:
    """``ask(**promise)``; the watcher, if there is one, sees ever smaller intervals before."""
    if watcher is None:
        return ask(**promise)
    deadline = time.monotonic() + promise["timeout"]
    found = ask(**{**promise, "timeout": min(LOOK, promise["timeout"])})
    rounds = _rounds(promise)
    for place, (change, share) in enumerate(rounds):
        left = deadline - time.monotonic()
        if found.met or left <= 0.0:
            return found
        watcher.event("answer", {**estimate_json(found), "final": False})
        watcher.progress(place / (len(rounds) + 1), f"round {place + 1} of {len(rounds)}")
        better = ask(**{**promise, **change, "timeout": share * left})
        found = better.replace(met=better.met and not change)
        if better.guarantee == "exact" and better.met:
            return better
    return found


def _rounds(promise: dict[str, Any]) -> list[tuple[dict[str, Any], float]]:
    """(what is asked otherwise than at the end, the part of the time left) of each round; the last is as asked."""
    if promise["guarantee"] in ("exact", "bounds"):
        return [*(({}, share) for share in SHARES), ({}, 1.0)]
    return [*(({"epsilon": e}, 1.0) for e in COARSE if e > 1.5 * promise["epsilon"]), ({}, 1.0)]


def estimate_json(found: Estimate) -> dict[str, Any]:
    """An estimate as the API tells it."""
    low, high = max(found.lower, found.certified_lower), min(found.upper, found.certified_upper)
    return {
        "prob": found.prob,
        "low": min(low, found.prob),
        "high": max(high, found.prob),
        "log_prob": number(found.log_prob),
        "complement": found.complement,
        "guarantee": found.guarantee,
        "promise": found.promise(),
        "met": found.met,
        "engine": found.engine,
        "samples": found.samples,
        "seed": found.seed,
        "seconds": found.seconds,
        "final": True,
    }
