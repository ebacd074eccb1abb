"""Counting circuits: what each guarantee means where there is no polynomial scheme.

``exact`` compiles, with pyganak on the Tseitin CNF where that fails; ``bounds`` compiles for a while. ``relative`` and
``additive`` first give a small budget to bounds; a circuit that is a small DNF goes to the engines for DNFs; the rest
is sampled. Relative sampling takes turns with ever longer compiling: whichever ends first answers, so a failure of the
sampler has probability delta at most. Choices count operations, never seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit, stacked
from sharpdnf.circuit_compile import Interval, bound_circuit, compile_circuit
from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.circuit_cnf import count_cnf
from sharpdnf.engines.circuit_sampling import (
    LANES,
    Cover,
    Tally,
    cut_short,
    draw,
    relative_estimate,
    sample_additive,
)
from sharpdnf.engines.counting import Seed, count, make_limit, make_rng
from sharpdnf.engines.dtree import bounds_meet
from sharpdnf.engines.registry import require_dnf
from sharpdnf.engines.sampling import UNLIMITED, successes_needed
from sharpdnf.errors import InvalidFormula, MissingExtra, did_you_mean
from sharpdnf.estimate import SERVES, Estimate, Limit, check_tolerance, exact_estimate, model_count
from sharpdnf.relax import as_dnf, relax

SMALL_DNF = 20_000
"""Literals of a DNF that is handed to the engines for DNFs, or drawn from."""
FIRST_WORK, WORK_PER_INPUT = 300_000, 16
"""Gate inputs looked at for bounds before anything is sampled: about ten milliseconds."""
BOUNDS_WORK = 20_000_000
"""The same where bounds are asked for without a time limit: about half a second."""
MANY_WORK, MANY_SCAN = 20_000, 200_000_000
"""The same for each output of many, and the gates that all of them together may be looked through for that."""
COUNT_WORK = 50_000_000
"""The same for an integer that nobody asked for."""
MANY_DRAWS = 1 << 18
"""Draws that all outputs share before those that are too rare for it are counted one by one."""
COVER_PAYS = math.log(0.5)
"""Drawing from a DNF that contains the event pays where its scale S' is below this."""
GUARANTEES = {
    "auto": ("relative", "additive", "exact", "bounds", "none"),
    "compile": ("exact", "relative", "additive", "bounds"),
    "sampling": ("relative", "additive"),
    "exact-cnf": ("exact",),
}
ESTIMATORS = ("auto", "direct", "coverage")


def count_circuit(
    circuit: Circuit,
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
    """What ``count`` does for a circuit. An engine that knows only DNFs gets the circuit as one, if that is small."""
    started = time.perf_counter()
    wanted = check_engine(engine, guarantee, options)
    common: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if wanted is None:
        common |= {"rng": rng, "timeout": timeout, "threads": threads, "guarantee": guarantee}
        return count(one_output(circuit).to_dnf(), engine=engine, **common, **options)
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, seed = make_rng(rng)
    asked = Asked(engine, wanted, epsilon, delta, int(generator.integers(2**63)), limit, **options)
    return finish(circuit, count_output(one_output(circuit), asked), wanted, seed, limit, started)


def finish(circuit: Circuit, estimate: Estimate, wanted: str, seed: int, limit: Limit, started: float) -> Estimate:
    """The estimate with the number of models, the weighted count, the seed and the time."""
    models = circuit_models(circuit, estimate, wanted, limit)
    return estimate.replace(
        seed=seed,
        log_wmc=estimate.log_prob + circuit.log_scale,
        count=model_count(estimate.log_prob, circuit.num_vars) if models is None else models,
        seconds=time.perf_counter() - started,
        info={**estimate.info, "normalised": list(circuit.notes)} if circuit.notes else estimate.info,
    )


def count_circuits(
    circuits: Sequence[Circuit],
    *,
    guarantee: str | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: str = "auto",
    **options: Any,
) -> tuple[list[Estimate], int]:
    """(what ``count_many`` finds for every output of every circuit, in order, and the seed)."""
    wanted = check_engine(engine, guarantee, options)
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    _, seed = make_rng(rng)

    def stream(number: int) -> int:
        return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> np.uint64(1))

    total = sum(len(circuit) for circuit in circuits)
    if wanted is None:
        dnfs = [circuit[i].to_dnf() for circuit in circuits for i in range(len(circuit))]
        common: dict[str, Any] = {"guarantee": guarantee, "epsilon": epsilon, "delta": delta, "engine": engine}
        left = None if timeout is None else limit.seconds_left
        return [
            count(dnf, rng=stream(i), timeout=left, threads=threads, **common, **options) for i, dnf in enumerate(dnfs)
        ], seed
    asked = Asked(engine, wanted, epsilon, delta, stream(0), limit, **options)
    return count_outputs(circuits, asked, stream, range(total)) if total else [], seed


def as_circuits(batch: Circuit | Sequence[DNF | Circuit]) -> list[Circuit] | None:
    """What ``count_many`` is given, as circuits; None if no circuit is among it."""
    if isinstance(batch, Circuit):
        return [batch]
    if not any(isinstance(item, Circuit) for item in batch):
        return None
    return [item if isinstance(item, Circuit) else Circuit.from_dnf(require_dnf(item)) for item in batch]


def one_output(circuit: Circuit) -> Circuit:
    if circuit.num_outputs != 1:
        raise InvalidFormula(
            f"the circuit has {circuit.num_outputs} outputs: count one, as circuit[i], or all with count_many"
        )
    return circuit


@dataclass(frozen=True, slots=True)
class Asked:
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
    for option in options:
        if option not in own:
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


def count_output(circuit: Circuit, asked: Asked) -> Estimate:
    """The probability of a circuit's only output. Seeds, limits and counts of models are the front door's matter."""
    if asked.engine == "exact-cnf":
        return count_cnf(circuit, asked.limit)
    if asked.engine == "sampling":
        return _sampled(circuit, asked)
    if asked.engine == "compile":
        return _compiled(circuit, asked, asked.work)
    if asked.guarantee == "exact":
        return _because(_exact(circuit, asked), "exact was asked for")
    if asked.guarantee == "bounds":
        work = BOUNDS_WORK if math.isinf(asked.limit.deadline) else None
        return _because(_relaxed_bounds(circuit, _compiled(circuit, asked, work)), "an interval was asked for")
    return _auto(circuit, asked)


def _auto(circuit: Circuit, asked: Asked) -> Estimate:
    flat = as_dnf(circuit)
    if flat is not None:
        return _because(_count_dnf(flat, asked), "the circuit is a DNF as it stands")
    found = _compiled(circuit, asked, FIRST_WORK + WORK_PER_INPUT * circuit.num_inputs)
    if found.met and found.guarantee != "bounds":
        return _because(found, "a small compilation decides it")
    dnf, equal = relax(circuit, SMALL_DNF)
    if _impossible(dnf):
        return _because(exact_estimate(-math.inf, "relax"), "it lies in a DNF of probability 0")
    if equal:
        return _because(clipped(_count_dnf(dnf, asked), found), "the circuit is a small DNF")
    cover = _cover(dnf)
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


def _cover(dnf: DNF, estimator: str = "auto") -> Cover | None:
    """The DNF to draw from, if its scale is worth it."""
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


def _impossible(dnf: DNF) -> bool:
    return dnf.num_clauses == 0 or bool(np.all(dnf.clause_log_probs() == -math.inf))


def _count_dnf(dnf: DNF, asked: Asked) -> Estimate:
    limit = asked.limit
    timeout = None if math.isinf(limit.deadline) else limit.seconds_left
    options: dict[str, Any] = {"epsilon": asked.epsilon, "delta": asked.delta, "rng": asked.seed}
    return count(dnf, guarantee=asked.guarantee, timeout=timeout, threads=limit.threads, **options)


# --- exact and bounds ---------------------------------------------------------------------------------------------


def _compiled(circuit: Circuit, asked: Asked, work: int | None) -> Estimate:
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


def _of_interval(found: Interval, guarantee: str, epsilon: float) -> Estimate:
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


def _exact(circuit: Circuit, asked: Asked) -> Estimate:
    """By compiling; with a time limit half of it, and pyganak gets the rest. Bounds of both hold."""
    dnf = as_dnf(circuit)
    if dnf is not None:
        return _count_dnf(dnf, asked)
    limit = asked.limit
    half = limit if math.isinf(limit.deadline) else replace(limit, deadline=limit.deadline - limit.seconds_left / 2.0)
    found = _compiled(circuit, replace(asked, limit=half), None)
    if found.met:
        return found
    try:
        other = count_cnf(circuit, limit)
    except MissingExtra:
        other = found
    if other.met or limit.expired:
        return clipped(other, found) if other.met else found
    again = _compiled(circuit, asked, None)
    return again if again.met else clipped(again, found)


def _relaxed_bounds(circuit: Circuit, found: Estimate) -> Estimate:
    """Narrowed by a DNF that contains the event and one that contains its negation."""
    if found.guarantee == "exact":
        return found
    upper = certified_bounds(relax(circuit, SMALL_DNF)[0])[1]
    missing = certified_bounds(relax(circuit, SMALL_DNF, negated=True)[0])[1]
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


def _sampled(circuit: Circuit, asked: Asked) -> Estimate:
    dnf = relax(circuit, SMALL_DNF)[0]
    if _impossible(dnf):
        return exact_estimate(-math.inf, "relax")
    cover = _cover(dnf, asked.estimator)
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


def _relative(circuit: Circuit, asked: Asked, cover: Cover | None, found: Estimate) -> Estimate:
    """Draws and compiles in turns, each turn four times as long as the one before, until one of them has the answer."""
    k = successes_needed(asked.epsilon, asked.delta)
    tally: Tally | None = None
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
            compiled = _compiled(circuit, asked, work)
            found = found if found.met else compiled
            if compiled.met and compiled.guarantee != "bounds":
                return compiled
        if asked.limit.expired:
            return clipped(cut_short(tally, 0, asked.delta), found)
        work *= 4


# --- many ---------------------------------------------------------------------------------------------------------


def count_outputs(
    circuits: Sequence[Circuit], asked: Asked, stream: Callable[[int], int], numbers: Sequence[int]
) -> list[Estimate]:
    """An answer for every output of every circuit, in order; ``delta`` holds for each.

    Circuits over one set of variables share their draws: a variable's words depend on the seed and the block alone, so
    an answer does not depend on the others. ``stream(i)`` is the seed of output i where it is counted on its own.
    """
    flat = [circuit[i] for circuit in circuits for i in range(circuit.num_outputs)]
    singles = [replace(asked, seed=stream(number)) for number in numbers]
    shared = stacked(circuits) if asked.guarantee in ("relative", "additive", "none") else None
    if shared is None or asked.engine not in ("auto", "sampling") or asked.estimator != "auto":
        return [count_output(circuit, own) for circuit, own in zip(flat, singles, strict=True)]
    out: dict[int, Estimate] = {}
    if asked.engine == "auto" and sum(circuit.num_gates for circuit in flat) <= MANY_SCAN:
        for i, circuit in enumerate(flat):
            found = _compiled(circuit, asked, MANY_WORK + 4 * min(circuit.num_inputs, MANY_WORK))
            if found.met and found.guarantee != "bounds":
                out[i] = found
    left = [i for i in range(len(flat)) if i not in out]
    if left:
        gates = shared.outputs[np.array(left)]
        rest = Circuit.trusted(*shared.arrays, gates, shared.prob, shared.log_scale, shared.names)
        out |= dict(zip(left, _draw_together(rest, asked), strict=True))
    for i in [i for i in left if not out[i].met and not asked.limit.expired]:
        out[i] = count_output(flat[i], replace(singles[i], delta=asked.delta / 2.0)).replace(delta=asked.delta)
    return [out[i] for i in range(len(flat))]


def _draw_together(circuit: Circuit, asked: Asked) -> list[Estimate]:
    """One pass over the draws for all outputs; relative answers that it is too short for come back with met False.

    Those are drawn again on their own, so each of the two runs has half of delta.
    """
    common: dict[str, Any] = {"seed": asked.seed, "limit": asked.limit}
    if asked.guarantee != "relative":
        return sample_additive(circuit, epsilon=asked.epsilon, delta=asked.delta, **common)
    k = successes_needed(asked.epsilon, asked.delta / 2.0)
    tally = draw(circuit, successes=k, max_draws=MANY_DRAWS, **common)
    out = []
    for i in range(circuit.num_outputs):
        if int(tally.successes[i]) >= k:
            out.append(relative_estimate(tally, i, asked.epsilon, asked.delta, k))
        else:
            out.append(cut_short(tally, i, asked.delta / 2.0).replace(delta=asked.delta))
    return out


def circuit_models(circuit: Circuit, estimate: Estimate, wanted: str, limit: Limit) -> int | None:
    """The number of models as an integer, where the answer is exact and all probabilities are 1/2."""
    if estimate.guarantee != "exact" or not np.all(circuit.prob == 0.5):
        return None
    if isinstance(estimate.count, int):
        return estimate.count
    compiled = compile_circuit(circuit, limit, work=None if wanted == "exact" else COUNT_WORK)
    return None if compiled is None else compiled.count(limit)
