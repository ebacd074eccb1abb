"""Counting one output of a circuit: what each guarantee means where there is no polynomial scheme.

``exact`` compiles, with pyganak on the Tseitin CNF where that fails; ``bounds`` compiles for a while. ``relative`` and
``additive`` first give a small budget to bounds; a circuit that is a small DNF goes to the engines for DNFs; the rest
is sampled. Relative sampling takes turns with ever longer compiling: whichever ends first answers, so a failure of the
sampler has probability delta at most. Choices count operations, never seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.circuit_compile import bound_circuit
from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.circuit_cnf import count_cnf
from sharpdnf.engines.circuit_eliminate import eliminate_circuit
from sharpdnf.engines.circuit_sampling import (
    LANES,
    Cover,
    DrawTally,
    cut_short,
    draw,
    relative_estimate,
    sample_additive,
)
from sharpdnf.engines.dtree import bounds_meet
from sharpdnf.engines.front import count
from sharpdnf.engines.registry import check_seed
from sharpdnf.engines.sampling import UNLIMITED, successes_needed
from sharpdnf.errors import MissingExtra, did_you_mean
from sharpdnf.estimate import SERVES, Estimate, Limit, exact_estimate
from sharpdnf.relax import as_dnf, relax

SMALL_DNF = 10_000
"""The most literals of a DNF that is counted or drawn from in place of the circuit."""
FIRST_WORK, WORK_PER_INPUT = 300_000, 16
"""How many gate inputs are looked at for bounds before anything is sampled: FIRST_WORK, and WORK_PER_INPUT times the
circuit's own. That takes about ten milliseconds."""
FIRST_OPERATIONS, MOST_OPERATIONS = 5e6, 1e9
"""How many operations elimination may take: FIRST_OPERATIONS before anything is sampled, MOST_OPERATIONS (a second or
two) where an exact answer is asked for."""
BOUNDS_WORK = 20_000_000
"""How many gate inputs are looked at where bounds are asked for without a time limit: about half a second."""
COVER_PAYS = math.log(0.5)
"""The logarithm of the scale S' below which drawing from a DNF that contains the event costs less than direct draws."""
GUARANTEES = {
    "auto": ("relative", "additive", "exact", "bounds", "none"),
    "compile": ("exact", "relative", "additive", "bounds"),
    "eliminate": ("exact",),
    "sampling": ("relative", "additive"),
    "exact-cnf": ("exact",),
}
ESTIMATORS = ("auto", "direct", "coverage")


@dataclass(frozen=True, slots=True)
class CircuitAsked:
    """What is asked about a circuit, checked. ``seed`` is a number of 63 bits for the draws."""

    engine: str
    guarantee: str
    epsilon: float
    delta: float
    seed: int
    limit: Limit
    estimator: str = "auto"
    work: int | None = None


def check_engine(engine: str, guarantee: str | None, options: dict[str, Any]) -> str | None:
    """The guarantee to aim for, or None if the engine is one for DNFs and must be asked with one."""
    if engine not in GUARANTEES:
        return None
    own = {"compile": ("work",), "sampling": ("estimator",)}.get(engine, ())
    for option, value in options.items():
        if option not in own:
            check_seed(option, value)
            hint = did_you_mean(option, own)
            raise ValueError(f"engine {engine!r} has no option {option!r} for circuits{hint}")
    if options.get("estimator", "auto") not in ESTIMATORS:
        raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}, not {options['estimator']!r}")
    wanted = GUARANTEES[engine][0] if guarantee is None else guarantee
    if wanted not in SERVES:
        raise ValueError(f"unknown guarantee {guarantee!r}: choose from {', '.join(SERVES)}")
    if not any(wanted in SERVES[given] for given in GUARANTEES[engine]):
        raise ValueError(f"engine {engine!r} cannot give {wanted!r}: it gives {', '.join(GUARANTEES[engine])}")
    return wanted


def count_output(circuit: Circuit, asked: CircuitAsked) -> Estimate:
    """The probability of a circuit's only output. Seeds, limits and counts of models are the front door's matter."""
    if asked.engine == "exact-cnf":
        return count_cnf(circuit, asked.limit)
    if asked.engine == "sampling":
        return _sampled(circuit, asked)
    if asked.engine == "compile":
        return bounded(circuit, asked, asked.work)
    if asked.engine == "eliminate":
        found = eliminate_circuit(circuit, asked.limit, math.inf)
        return found or bounded(circuit, asked, FIRST_WORK).replace(met=False)
    if asked.guarantee == "exact":
        return _because(_exact(circuit, asked), "exact was asked for")
    if asked.guarantee == "bounds":
        work = BOUNDS_WORK if math.isinf(asked.limit.deadline) else None
        found = _relaxed_bounds(circuit, bounded(circuit, asked, work), asked.limit)
        return _because(found, "an interval was asked for")
    return _auto(circuit, asked)


def _auto(circuit: Circuit, asked: CircuitAsked) -> Estimate:
    flat = as_dnf(circuit)
    if flat is not None:
        return _because(_count_dnf(flat, asked), "the circuit is a DNF as it stands")
    small = bound_circuit(circuit, asked.limit, work=FIRST_WORK + WORK_PER_INPUT * circuit.num_inputs)
    found = _of_interval(small, asked.guarantee, asked.epsilon)  # exact where that is cheap, not only within epsilon
    if found.met and found.guarantee != "bounds":
        return _because(found, "a small compilation decides it")
    narrow = eliminate_circuit(circuit, asked.limit, FIRST_OPERATIONS)
    if narrow is not None:
        return _because(narrow, "the circuit is narrow: elimination takes few operations")
    dnf, equal = relax(circuit, SMALL_DNF, within=asked.limit)
    if impossible(dnf):
        return _because(exact_estimate(-math.inf, "relax"), "it lies in a DNF of probability 0")
    if equal:
        return _because(clipped(_count_dnf(dnf, asked), found), "the circuit is a small DNF")
    cover = cover_of(dnf)
    if asked.guarantee == "relative":
        sampled = _relative(circuit, asked, cover, found)
    else:
        sampled = sample_additive(
            circuit, seed=asked.seed, epsilon=asked.epsilon, delta=asked.delta, limit=asked.limit, cover=cover
        )[0]
    return _because(clipped(sampled, found), _how(cover) if not sampled.info.get("nodes") else "compiling ended first")


def _how(cover: Cover | None) -> str:
    return "drawn directly" if cover is None else "drawn from a DNF that contains the event"


def _because(estimate: Estimate, reason: str) -> Estimate:
    return estimate.replace(info={**estimate.info, "chosen": estimate.engine, "why": reason})


def cover_of(dnf: DNF, estimator: str = "auto") -> Cover | None:
    """The DNF as something to draw from, or None if direct draws are as good (see COVER_PAYS)."""
    if estimator == "direct" or np.any(dnf.widths == 0):
        return None
    log_sum = float(np.logaddexp.reduce(dnf.clause_log_probs()))
    return Cover(dnf) if log_sum < COVER_PAYS or estimator == "coverage" else None


def clipped(estimate: Estimate, bounds: Estimate) -> Estimate:
    """The estimate moved into bounds that hold surely: towards the truth, so that every promise survives.

    One that rests on no draw at all becomes the middle of the bounds.
    """
    lower, upper = bounds.log_certified_lower, bounds.log_certified_upper

    def inside(x: float) -> float:
        return min(max(x, lower), upper)

    blind = not estimate.met and estimate.samples == 0
    return estimate.replace(
        log_prob=log_midpoint(lower, upper) if blind else inside(estimate.log_prob),
        log_lower=inside(estimate.log_lower),
        log_upper=inside(estimate.log_upper),
        log_certified_lower=max(estimate.log_certified_lower, lower),
        log_certified_upper=min(estimate.log_certified_upper, upper),
    )


def impossible(dnf: DNF) -> bool:
    return dnf.num_clauses == 0 or bool(np.all(dnf.clause_log_probs() == -math.inf))


def _count_dnf(dnf: DNF, asked: CircuitAsked) -> Estimate:
    limit = asked.limit
    timeout = None if math.isinf(limit.deadline) else limit.seconds_left
    options: dict[str, Any] = {"epsilon": asked.epsilon, "delta": asked.delta, "rng": asked.seed}
    options |= {"timeout": timeout, "memory": limit.memory, "threads": limit.threads}
    return count(dnf, guarantee=asked.guarantee, **options)


# --- exact and bounds ---------------------------------------------------------------------------------------------


def bounded(circuit: Circuit, asked: CircuitAsked, work: int | None) -> Estimate:
    """The answer of a compilation that may look at so many gate inputs, or its certified bounds."""
    guarantee, epsilon = asked.guarantee, asked.epsilon
    found = bound_circuit(
        circuit,
        asked.limit,
        work=work,
        relative=epsilon if guarantee == "relative" else 0.0,
        additive=epsilon if guarantee in ("additive", "none") else 0.0,
    )
    return _of_interval(found, guarantee, epsilon)


def _of_interval(found: _native.CircuitResult, guarantee: str, epsilon: float) -> Estimate:
    info: dict[str, Any] = {"nodes": found.nodes, "work": found.work, "stopped": found.stopped}
    complement: dict[str, Any] = {
        "log_complement_lower": found.log_complement_lower,
        "log_complement_upper": found.log_complement_upper,
    }
    ends: dict[str, Any] = {"log_lower": found.log_lower, "log_upper": found.log_upper}
    if found.exact:
        complement["log_complement"] = log_midpoint(found.log_complement_lower, found.log_complement_upper)
        middle = log_midpoint(found.log_lower, found.log_upper)
        return exact_estimate(middle, "compile", delta=0.0, info=info, **ends, **complement)
    met = guarantee in ("bounds", "none") or bounds_meet(found.log_lower, found.log_upper, guarantee, epsilon)
    promise = guarantee if met and guarantee not in ("none", "exact") else "bounds"
    return Estimate(
        log_prob=log_midpoint(found.log_lower, found.log_upper, guarantee),
        guarantee=promise,
        engine="compile",
        epsilon=None if promise == "bounds" else epsilon,
        delta=0.0,
        log_certified_lower=found.log_lower,
        log_certified_upper=found.log_upper,
        met=met,
        info=info,
        **ends,
        **complement,
    )


def _exact(circuit: Circuit, asked: CircuitAsked) -> Estimate:
    """The exact answer by compiling. Of a time limit compiling has half and pyganak the rest; at the end of it what
    comes back are the bounds that both have found."""
    dnf = as_dnf(circuit)
    if dnf is not None:
        return _count_dnf(dnf, asked)
    limit = asked.limit
    quick = bounded(circuit, asked, FIRST_WORK + WORK_PER_INPUT * circuit.num_inputs)
    if quick.met:
        return quick
    narrow = eliminate_circuit(circuit, limit, MOST_OPERATIONS)
    if narrow is not None:
        return narrow
    half = limit if math.isinf(limit.deadline) else replace(limit, deadline=limit.deadline - limit.seconds_left / 2.0)
    found = bounded(circuit, replace(asked, limit=half), None)
    if found.met:
        return found
    try:
        other = count_cnf(circuit, limit)
    except MissingExtra:
        other = found
    if other.met or limit.expired:
        return clipped(other, found) if other.met else found
    again = bounded(circuit, asked, None)
    return again if again.met else clipped(again, found)


def _relaxed_bounds(circuit: Circuit, found: Estimate, limit: Limit) -> Estimate:
    """The bounds, narrowed by those of a DNF that contains the event and of one that contains its negation."""
    if found.guarantee == "exact" or limit.expired:
        return found
    upper = certified_bounds(relax(circuit, SMALL_DNF, within=limit)[0])[1]
    missing = certified_bounds(relax(circuit, SMALL_DNF, negated=True, within=limit)[0])[1]
    lower = math.log(-math.expm1(missing)) - 1e-12 if missing < 0.0 else -math.inf
    lower, upper = max(lower, found.log_lower), min(upper, found.log_upper)
    if lower <= found.log_lower and upper >= found.log_upper:
        return found
    return found.replace(
        log_prob=log_midpoint(lower, upper),
        log_lower=lower,
        log_upper=upper,
        log_certified_lower=lower,
        log_certified_upper=upper,
    )


# --- sampling -----------------------------------------------------------------------------------------------------


def _sampled(circuit: Circuit, asked: CircuitAsked) -> Estimate:
    dnf = relax(circuit, SMALL_DNF, within=asked.limit)[0]
    if impossible(dnf):
        return exact_estimate(-math.inf, "relax")
    cover = cover_of(dnf, asked.estimator)
    common: dict[str, Any] = {"seed": asked.seed, "limit": asked.limit, "cover": cover}
    if asked.guarantee == "relative":
        k = successes_needed(asked.epsilon, asked.delta)
        tally = draw(circuit, successes=k, max_draws=UNLIMITED, **common)
        estimate = (
            relative_estimate(tally, 0, asked.epsilon, asked.delta, k)
            if tally.complete[0]
            else cut_short(tally, 0, asked.delta)
        )
    else:
        estimate = sample_additive(circuit, epsilon=asked.epsilon, delta=asked.delta, **common)[0]
    return estimate.replace(info={**estimate.info, "estimator": "direct" if cover is None else "coverage"})


def _relative(circuit: Circuit, asked: CircuitAsked, cover: Cover | None, found: Estimate) -> Estimate:
    """Draws and compiles in turns, each turn four times as long as the one before, until one of them has the answer."""
    k = successes_needed(asked.epsilon, asked.delta)
    tally: DrawTally | None = None
    work = 4 * (FIRST_WORK + WORK_PER_INPUT * circuit.num_inputs)
    # A block of draws reads every gate input and draws every variable, which costs about ten of them.
    per_block = circuit.num_inputs + 10 * circuit.num_vars + 100
    while True:
        draws = LANES * max(8, 2 * work // per_block)
        tally = draw(
            circuit, seed=asked.seed, successes=k, max_draws=draws, limit=asked.limit, cover=cover, so_far=tally
        )
        if int(tally.successes[0]) >= k:
            return relative_estimate(tally, 0, asked.epsilon, asked.delta, k)
        if not asked.limit.expired:
            compiled = bounded(circuit, asked, work)
            found = found if found.met else compiled
            if compiled.met and compiled.guarantee != "bounds":
                return compiled
        if asked.limit.expired:
            return clipped(cut_short(tally, 0, asked.delta), found)
        work *= 4
