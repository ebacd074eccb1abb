"""Probabilistic logic programs: every query of a ProbLog program, with a guarantee.

>>> from sharpdnf import problog
>>> answers = problog.query("0.4::heads(1). 0.6::heads(2). both :- heads(1), heads(2). query(both).")
>>> round(answers["both"].prob, 12)
0.24

A program becomes a ``Circuit`` with an output for each query (``ground``), evidence a condition. One whose circles
are too large for that is sampled with its circles (``native/kernels/fixpoint.hpp``), or only bounded. ``learn`` finds
the probabilities of a program from examples (``learning``).
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, Never

import numpy as np

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.engines.front import Seed, count, make_limit, make_rng
from sharpdnf.engines.registry import refuse_options
from sharpdnf.engines.sampling import Draws, draws_needed, from_draws, successes_needed
from sharpdnf.errors import InvalidProgram
from sharpdnf.estimate import GUARANTEES, Estimate, Limit, check_tolerance, exact_estimate
from sharpdnf.fronts.ground import FALSE, TRUE, Program, bracket, read_program, to_circuit
from sharpdnf.fronts.learning import Learned, learn

MAX_WORLDS = 1 << 34
UNLIMITED = 2**62
CONTRADICTION = "the evidence cannot hold: it contradicts the program"
ROUNDING = 1e-14
"""By how much the quotient of certified bounds is widened: more than the roundings of its few operations."""


def query(
    program: str | Path,
    *,
    guarantee: str | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    **unknown: Never,
) -> dict[str, Estimate]:
    """P(query | evidence) of every query of a program, by the query's text.

    ``program`` is the text of a program, or the path of a file. Without a ``guarantee`` an answer is exact where the
    program compiles within a small budget and relative where it does not. At ``timeout`` seconds what is not answered
    comes back with its bounds and ``met=False``; a program that does not end grounding until then is an error.
    """
    refuse_options(query, unknown)
    if guarantee is not None and guarantee not in GUARANTEES:
        raise ValueError(f"unknown guarantee {guarantee!r}: choose from {', '.join(GUARANTEES)}")
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    ground = read_program(program, limit)
    return answer(ground, guarantee=guarantee, epsilon=epsilon, delta=delta, rng=rng, limit=limit)


def answer(
    program: Program, *, guarantee: str | None, epsilon: float, delta: float, rng: Seed, limit: Limit
) -> dict[str, Estimate]:
    """Answers every query of a ground program."""
    generator, seed = make_rng(rng)
    circuit = to_circuit(program)
    if circuit is None:
        if guarantee in ("exact", "bounds"):
            return _bracketed(program, guarantee, seed, limit)
        return _sampled(program, guarantee or "relative", epsilon, delta, generator, limit, seed)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "threads": limit.threads}
    return _counted(program, circuit, guarantee, asked, seed, limit)


def _counted(
    program: Program, circuit: Circuit, guarantee: str | None, asked: dict[str, Any], seed: int, limit: Limit
) -> dict[str, Estimate]:
    """Outputs 0 .. q - 1 are "query and evidence", output q is the evidence: their quotients are the answers."""
    from sharpdnf.analysis import conditional

    outputs = [circuit[i] for i in range(circuit.num_outputs)]
    given, certain = outputs[-1], program.evidence == TRUE
    if not certain and count(given, guarantee="bounds", timeout=_left(limit)).log_upper == -math.inf:
        raise InvalidProgram(CONTRADICTION)
    out = {}
    for number, (name, _) in enumerate(program.queries):
        rest = {**asked, "guarantee": guarantee, "rng": seed + number, "timeout": _left(limit)}
        out[name] = count(outputs[number], **rest) if certain else conditional(outputs[number], given, **rest)
    return out


def _bracketed(program: Program, guarantee: str, seed: int, limit: Limit) -> dict[str, Estimate]:
    """Certified bounds of a program whose circles are too large to be unrolled to their end."""
    started = time.perf_counter()
    circuit = bracket(program)
    shares = 4 * len(program.queries)
    found = []
    for number in range(shares):
        left = None if math.isinf(limit.deadline) else limit.seconds_left / (shares - number)
        one = count(circuit[number], guarantee="bounds", timeout=left)
        found.append((one.certified_lower, one.certified_upper))
    out = {}
    for number, (name, _) in enumerate(program.queries):
        (yes, _), (_, most_yes), (no, _), (_, most_no) = found[4 * number : 4 * number + 4]
        if most_yes + most_no == 0.0:
            raise InvalidProgram(CONTRADICTION)
        # P(query | evidence) = yes / (yes + no) grows with "yes" and falls with "no".
        lower = yes / (yes + most_no) if yes > 0.0 else 0.0
        upper = most_yes / (most_yes + no) if most_yes > 0.0 else 0.0
        out[name] = _between(max(0.0, lower * (1.0 - ROUNDING)), min(1.0, upper * (1.0 + ROUNDING)), guarantee).replace(
            seed=seed, seconds=time.perf_counter() - started
        )
    return out


def _between(lower: float, upper: float, guarantee: str) -> Estimate:
    """An estimate that says no more than that P lies between two numbers."""
    log_lower, log_upper, log_prob = (
        math.log(x) if x > 0.0 else -math.inf for x in (lower, upper, (lower + upper) / 2)
    )
    return Estimate(
        log_prob=log_prob,
        guarantee="bounds",
        engine="unrolled",
        delta=0.0,
        met=guarantee == "bounds",
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
    )


def _left(limit: Limit) -> float | None:
    return None if math.isinf(limit.deadline) else limit.seconds_left


def _sampled(
    program: Program, guarantee: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit, seed: int
) -> dict[str, Estimate]:
    """Worlds of the program as it is, circles included; those in which the evidence does not hold do not count."""
    started = time.perf_counter()
    relative = guarantee == "relative"
    k = successes_needed(epsilon, delta) if relative else UNLIMITED
    most = UNLIMITED if relative else draws_needed(epsilon, delta)
    gates = [gate for _, gate in program.queries]
    drawn = _native.fixpoint(
        *program.arrays,
        outputs=gates,
        evidence=-1 if program.evidence == TRUE else program.evidence,
        seed=int(rng.integers(2**63)),
        successes=k,
        trials=most,
        max_worlds=MAX_WORLDS,
        seconds=limit.seconds_left,
    )
    out = {}
    info = {"worlds": drawn.worlds, "accepted": drawn.accepted, "in circles": drawn.in_circles}
    tallies = zip(drawn.trials.tolist(), drawn.successes.tolist(), drawn.done.tolist(), strict=True)
    for (name, gate), (trials, successes, done) in zip(program.queries, tallies, strict=True):
        if gate in (FALSE, TRUE):
            out[name] = exact_estimate(0.0 if gate == TRUE else -math.inf, "trivial", seed=seed)
            continue
        draws = Draws(trials, successes, bool(done))
        found = from_draws(draws, "fixpoint", guarantee=guarantee, epsilon=epsilon, delta=delta, info=info)
        out[name] = found.replace(seed=seed, seconds=time.perf_counter() - started)
    return out


__all__ = ["Learned", "answer", "learn", "query"]
