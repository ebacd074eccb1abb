"""The front door: trivial formulas, seeding, simplification, limits and timing, once for all engines."""

from __future__ import annotations

import math
import operator
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF, Batch, IntArray, require_dnf
from sharpdnf.engines.bounds import certified_bounds, clip
from sharpdnf.engines.registry import Engine, check_guarantee, check_options, find
from sharpdnf.estimate import OF, Estimate, Limit, check_tolerance, exact_estimate, log1mexp, model_count
from sharpdnf.simplify import Simplified, simplify, trivial_log_prob

Seed = int | np.random.Generator | None
COMPILE_WORK = 10_000_000
"""Operations that each exact method may spend on the exact number of models where the caller did not ask for an exact
answer: bounds that meet may have been cheap to find, while a circuit that counts the models need not be."""


def count(
    dnf: DNF | Circuit,
    *,
    guarantee: str | None = None,
    of: str = "prob",
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    memory: int | None = None,
    threads: int | None = None,
    engine: str = "auto",
    **options: Any,
) -> Estimate:
    """The probability that ``dnf`` is true, with the guarantee asked for.

    ``guarantee`` is "exact", "relative" (within a factor 1 +- epsilon with probability 1 - delta), "additive",
    "bounds" (a certain interval) or "none"; None means the engine's own, relative for ``auto``. With
    ``of="complement"`` a relative guarantee is about 1 - P, the probability that it is false: where P is near 1 a
    factor of P says little. At ``timeout`` seconds, or when an exact method has used ``memory`` bytes (2 GiB unless
    told), the best answer so far comes back with ``met=False`` and its certified bounds.
    """
    if isinstance(dnf, Circuit):
        from sharpdnf.engines.circuits import count_circuit

        limits: dict[str, Any] = {"timeout": timeout, "threads": threads, "memory": memory, "engine": engine, **options}
        return count_circuit(dnf, guarantee=guarantee, of=of, epsilon=epsilon, delta=delta, rng=rng, **limits)
    started = time.perf_counter()
    asked = Asked.check(engine, guarantee, of, epsilon, delta, options)
    limit = make_limit(timeout, threads, memory)
    seed = make_seed(rng)
    require_dnf(dnf)
    if asked.engine.run_batch is not None:
        estimate = _batch_of_one(dnf, asked, seed, limit)
    else:
        estimate = count_list(Batch.one(dnf), asked, seed, np.zeros(1, dtype=np.int64), limit)[0]
    return _finish(dnf, estimate, asked.guarantee, seed, limit, started)


@dataclass(frozen=True, slots=True)
class Asked:
    """What ``count`` and ``count_many`` were asked for, checked."""

    engine: Engine
    guarantee: str
    of: str
    epsilon: float
    delta: float
    options: dict[str, Any]

    @property
    def common(self) -> dict[str, Any]:
        """The arguments that are passed to every engine that takes single formulas or lists of them."""
        return {"guarantee": self.guarantee, "epsilon": self.epsilon, "delta": self.delta, **self.options}

    @classmethod
    def check(
        cls, engine: str, guarantee: str | None, of: str, epsilon: float, delta: float, options: dict[str, Any]
    ) -> Asked:
        found = find(engine)
        check_options(found, options)
        wanted = check_guarantee(found, guarantee)
        check_tolerance(epsilon, delta)
        if of not in OF:
            raise ValueError(f"of must be one of {', '.join(OF)}, not {of!r}")
        if of == "complement" and wanted == "relative" and found.run_batch is None:
            raise ValueError(
                f"engine {engine!r} gives a relative guarantee on P only: for one on 1 - P choose engine='auto'"
            )
        return cls(found, wanted, of, epsilon, delta, options)


def _batch_of_one(dnf: DNF, asked: Asked, seed: int, limit: Limit) -> Estimate:
    from sharpdnf.engines.auto import estimate_of

    assert asked.engine.run_batch is not None
    columns = asked.engine.run_batch(
        Batch.one(dnf),
        guarantee=asked.guarantee,
        of=asked.of,
        epsilon=asked.epsilon,
        delta=asked.delta,
        seed=seed,
        numbers=np.zeros(1, dtype=np.int64),
        limit=limit,
        details=True,
        **asked.options,
    )
    return estimate_of(columns, asked.epsilon, asked.delta)


def make_limit(timeout: float | None, threads: int | None, memory: int | None = None) -> Limit:
    """``timeout`` seconds from now; ``threads`` None means all cores this process may use, ``memory`` is in bytes."""
    if timeout is not None and not timeout >= 0.0:
        raise ValueError(f"timeout must not be negative, not {timeout}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    if memory is not None and operator.index(memory) < 0:
        raise ValueError(f"memory must not be negative, not {memory}")
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    limit = Limit(deadline=deadline, threads=threads or available_cores())
    return limit if memory is None else replace(limit, memory=operator.index(memory))


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_seed(rng: Seed) -> int:
    """The seed as an int: the caller's, one drawn from the caller's Generator, or a fresh one.

    Whatever the caller passed, the answer can be repeated from this int.
    """
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if rng is None:
        return int.from_bytes(os.urandom(7), "little")
    seed = operator.index(rng)
    if seed < 0:
        raise ValueError(f"a seed must not be negative, not {seed}")
    return seed


def make_rng(rng: Seed) -> tuple[np.random.Generator, int]:
    """A generator, and the seed from which it can be made again."""
    seed = make_seed(rng)
    return np.random.Generator(np.random.SFC64(seed)), seed


def _stream(seed: int, number: int) -> np.random.Generator:
    """The draws of formula ``number``: they depend on it and the seed alone, however the work is cut up."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(number,))))


def count_list(batch: Batch, asked: Asked, seed: int, numbers: IntArray, limit: Limit) -> list[Estimate]:
    """The answers of an engine that takes formulas one by one or as a list; formula i has the number ``numbers[i]``.

    Only the first ones, at least one, if the deadline comes before they have all been taken up.
    """
    found = asked.engine
    out: list[Estimate] = []
    together: list[tuple[int, DNF, Simplified | None]] = []  # what an engine that takes lists gets in one call
    for i in range(len(batch)):
        if i and limit.expired:
            break
        ready, dnf, simple = _prepare(batch[i], found, limit)
        if ready is None and found.run_many is None:
            stream = _stream(seed, int(numbers[i]))
            ready = _complete(found.run(dnf, rng=stream, limit=limit, **asked.common), dnf, simple, limit)
        elif ready is None:
            together.append((i, dnf, simple))
            ready = exact_estimate(0.0, "pending")
        out.append(ready.replace(of=asked.of))
    if together:
        assert found.run_many is not None
        stream = _stream(seed, int(numbers[together[0][0]]))
        ran = found.run_many([dnf for _, dnf, _ in together], rng=stream, limit=limit, **asked.common)
        for (i, dnf, simple), estimate in zip(together, ran, strict=True):
            out[i] = _complete(estimate, dnf, simple, limit).replace(of=asked.of)
    return out


def _prepare(dnf: DNF, found: Engine, limit: Limit) -> tuple[Estimate | None, DNF, Simplified | None]:
    """(the answer if no engine is needed for it, the formula for the engine, how its answer becomes the whole's)."""
    log_prob = trivial_log_prob(dnf)
    if log_prob is not None:
        why = "no clause" if log_prob else "an empty clause"
        return exact_estimate(log_prob, "trivial", info={"why": why}), dnf, None
    if not found.simplify or (found.counts_models and _even(dnf)):
        return None, dnf, None
    simple = simplify(dnf, seconds=limit.seconds_left)
    if simple.dnf.num_clauses:
        return None, simple.dnf, simple
    solved = exact_estimate(-math.inf, "simplify", info={"why": "simplification decides it", **_notes(simple)})
    return put_together(solved, simple), dnf, simple


def _complete(estimate: Estimate, dnf: DNF, simple: Simplified | None, limit: Limit) -> Estimate:
    """The answer for the whole formula from the engine's answer for what was left of it.

    An engine's answer without certified bounds gets them here.
    """
    if not estimate.met and estimate.log_certified_lower == -math.inf:
        estimate = clip(estimate, *certified_bounds(dnf, seconds=limit.seconds_left))
    if simple is None:
        return estimate
    return put_together(estimate, simple).replace(count=None, info={**estimate.info, **_notes(simple)})


def _notes(simple: Simplified) -> dict[str, Any]:
    return {"simplified": simple.notes} if simple.notes else {}


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
    return bool((dnf.prob == 0.5).all())


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
    from sharpdnf.engines.exact import compile as compile_dnf

    compiled = compile_dnf(dnf, limit, operations=work)
    return None if compiled is None else compiled.count(limit)
