"""The front door: trivial formulas, seeding, simplification, limits and timing, once for all engines."""

from __future__ import annotations

import math
import operator
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF
from sharpdnf.engines.auto import clip
from sharpdnf.engines.bounds import certified_bounds
from sharpdnf.engines.registry import Engine, check_guarantee, check_options, find, require_dnf
from sharpdnf.estimate import Estimate, Limit, check_tolerance, exact_estimate, log1mexp, model_count
from sharpdnf.simplify import Simplified, simplify, trivial_log_prob

Seed = int | np.random.Generator | None
COMPILE_WORK = 50_000_000
"""Literals looked at for an integer that nobody asked for: bounds that meet to rounding are cheap, their circuit need
not be."""


def count(
    dnf: DNF | Circuit,
    *,
    guarantee: str | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: str = "auto",
    **options: Any,
) -> Estimate:
    """The probability that ``dnf`` is true, with the guarantee asked for.

    ``guarantee`` is "exact", "relative" (within a factor 1 +- epsilon with probability 1 - delta), "additive",
    "bounds" (a certain interval) or "none"; None means the engine's own, relative for ``auto``. At ``timeout``
    seconds the best answer so far comes back with ``met=False`` and its certified bounds.
    """
    if isinstance(dnf, Circuit):
        from sharpdnf.engines.circuits import count_circuit

        limits: dict[str, Any] = {"timeout": timeout, "threads": threads, "engine": engine, **options}
        return count_circuit(dnf, guarantee=guarantee, epsilon=epsilon, delta=delta, rng=rng, **limits)
    started = time.perf_counter()
    found = find(engine)
    check_options(found, options)
    wanted = check_guarantee(found, guarantee)
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, seed = make_rng(rng)
    require_dnf(dnf)
    asked = {"guarantee": wanted, "epsilon": epsilon, "delta": delta, "rng": generator, "limit": limit, **options}
    log_prob = trivial_log_prob(dnf)
    if log_prob is not None:
        estimate = exact_estimate(log_prob, "trivial", info={"why": "no clause" if log_prob else "an empty clause"})
    elif found.simplify and not (found.counts_models and _even(dnf)):
        estimate = _run_simplified(dnf, found, asked)
    else:
        estimate = found.run(dnf, **asked)
    return _finish(dnf, estimate, wanted, seed, limit, started)


def make_limit(timeout: float | None, threads: int | None) -> Limit:
    """``timeout`` seconds from now; ``threads`` None means all cores this process may use."""
    if timeout is not None and not timeout >= 0.0:
        raise ValueError(f"timeout must not be negative, not {timeout}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    return Limit(deadline=deadline, threads=threads or available_cores())


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_rng(rng: Seed) -> tuple[np.random.Generator, int]:
    """(generator, the seed that makes it). A Generator gives one seed, so every answer can be repeated from an int."""
    if isinstance(rng, np.random.Generator):
        seed = int(rng.integers(2**63))
    elif rng is None:
        seed = int.from_bytes(os.urandom(7), "little")
    else:
        seed = operator.index(rng)
        if seed < 0:
            raise ValueError(f"a seed must not be negative, not {seed}")
    return np.random.Generator(np.random.SFC64(seed)), seed


def _run_simplified(dnf: DNF, found: Engine, asked: dict[str, Any]) -> Estimate:
    limit: Limit = asked["limit"]
    simple = simplify(dnf, seconds=limit.seconds_left)
    notes = {"simplified": simple.notes} if simple.notes else {}
    if simple.dnf.num_clauses == 0:
        estimate = put_together(exact_estimate(-math.inf, "simplify"), simple)
        return estimate.replace(info={**notes, "why": "simplification decides it"})
    estimate = found.run(simple.dnf, **asked)
    if not estimate.met and estimate.log_certified_lower == -math.inf:
        estimate = clip(estimate, *certified_bounds(simple.dnf, seconds=limit.seconds_left))
    return put_together(estimate, simple).replace(count=None, info={**estimate.info, **notes})


def count_together(
    dnfs: Sequence[DNF], rng: np.random.Generator, limit: Limit, asked: dict[str, Any]
) -> list[Estimate]:
    """What ``count`` does, for an engine that takes many formulas at once: those simplification leaves go together."""
    options = {k: v for k, v in asked.items() if k not in ("guarantee", "epsilon", "delta", "engine", "threads")}
    found = find(asked["engine"])
    check_options(found, options)
    wanted = check_guarantee(found, asked["guarantee"])
    simple = [simplify(dnf, seconds=limit.seconds_left) for dnf in dnfs]
    left = [i for i, s in enumerate(simple) if s.dnf.num_clauses > 0 and trivial_log_prob(s.dnf) is None]
    common = {"guarantee": wanted, "epsilon": asked["epsilon"], "delta": asked["delta"], "rng": rng, "limit": limit}
    assert found.run_many is not None
    ran = dict(zip(left, found.run_many([simple[i].dnf for i in left], **common, **options), strict=True))
    out = []
    for i, s in enumerate(simple):
        log_prob = trivial_log_prob(s.dnf)
        rest = exact_estimate(-math.inf if log_prob is None else log_prob, "simplify") if i not in ran else ran[i]
        out.append(put_together(rest, s))
    return out


def put_together(estimate: Estimate, simple: Simplified) -> Estimate:
    """The whole formula's estimate from that of what simplification left."""
    if simple.alone:
        return estimate
    log_prob, log_complement = simple.whole(estimate.log_prob, estimate.log_complement)
    log_lower, log_complement_upper = simple.whole(estimate.log_lower, estimate.log_complement_upper, -1)
    log_upper, log_complement_lower = simple.whole(estimate.log_upper, estimate.log_complement_lower, 1)
    sure = estimate.log_certified_lower, estimate.log_certified_upper
    log_certified_lower, _ = simple.whole(sure[0], log1mexp(sure[0]), -1)
    log_certified_upper, _ = simple.whole(sure[1], log1mexp(sure[1]), 1)
    return estimate.replace(
        log_prob=log_prob,
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=log_certified_lower,
        log_certified_upper=log_certified_upper,
        log_complement=log_complement,
        log_complement_lower=log_complement_lower,
        log_complement_upper=log_complement_upper,
    )


def _finish(dnf: DNF, estimate: Estimate, wanted: str, seed: int, limit: Limit, started: float) -> Estimate:
    info = {**estimate.info, "normalised": list(dnf.notes)} if dnf.notes else estimate.info
    return estimate.replace(
        seed=seed,
        log_wmc=estimate.log_prob + dnf.log_scale,
        count=_model_count(dnf, estimate, wanted, limit),
        seconds=time.perf_counter() - started,
        info=info,
    )


def _even(dnf: DNF) -> bool:
    return bool(np.all(dnf.prob == 0.5))


def _model_count(dnf: DNF, estimate: Estimate, wanted: str, limit: Limit) -> int | float:
    """2^n P: an exact integer where the engine is exact and all probabilities are 1/2; inf beyond a double.

    Asked for exact, the integer gets what is left of the limit; at the deadline, or where exactness came by itself and
    the integer does not, it is a double.
    """
    if estimate.guarantee == "exact" and _even(dnf):
        if isinstance(estimate.count, int):
            return estimate.count
        if estimate.log_prob == -math.inf:
            return 0
        if estimate.log_prob == 0.0 and estimate.engine == "trivial":
            return 1 << dnf.num_vars
        models = _exact_models(dnf, None if wanted == "exact" else COMPILE_WORK, limit)
        if models is not None:
            return models
    return model_count(estimate.log_prob, dnf.num_vars)


def _exact_models(dnf: DNF, work: int | None, limit: Limit) -> int | None:
    from sharpdnf.engines.dtree import compile as compile_dnf

    compiled = compile_dnf(dnf, limit, work=work)
    return None if compiled is None else compiled.count(limit)
