"""The front door for circuits: what ``count`` and ``count_many`` do with them.

Circuits over one set of variables are counted in one pass over the draws, thousands of outputs at once; how a single
output is counted says ``circuit_auto``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit, stacked
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.dnf import DNF, IntArray, require_dnf
from sharpdnf.engines.circuit_auto import CircuitAsked, bounded, check_engine, count_output
from sharpdnf.engines.circuit_sampling import cut_short, draw, relative_estimate, sample_additive
from sharpdnf.engines.front import Seed, count, make_limit, make_rng
from sharpdnf.engines.sampling import successes_needed
from sharpdnf.errors import InvalidFormula
from sharpdnf.estimate import OF, Estimate, Limit, check_tolerance, log1mexp_towards, model_count

MANY_WORK, MANY_SCAN = 20_000, 200_000_000
"""Where many outputs are counted, each is bounded first by looking at about MANY_WORK gate inputs. With more than
MANY_SCAN gates in all even that takes too long and is left out."""
COUNT_WORK = 50_000_000
"""How many gate inputs may be looked at for the exact number of models if no exact answer was asked for."""
MANY_DRAWS = 1 << 18
"""How many draws all outputs share; outputs that are too rare for so few are then counted one by one."""


def count_circuit(
    circuit: Circuit,
    *,
    guarantee: str | None = None,
    of: str = "prob",
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    memory: int | None = None,
    engine: str = "auto",
    **options: Any,
) -> Estimate:
    """What ``count`` does for a circuit. An engine that knows only DNFs gets the circuit as one, if that is small."""
    started = time.perf_counter()
    wanted = check_engine(engine, guarantee, options)
    if wanted is None:
        common: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rng": rng, "timeout": timeout, **options}
        dnf = one_output(circuit).to_dnf()
        return count(dnf, engine=engine, threads=threads, memory=memory, guarantee=guarantee, of=of, **common)
    check_tolerance(epsilon, delta)
    turn = check_of(of) and wanted == "relative"
    limit = make_limit(timeout, threads, memory)
    generator, seed = make_rng(rng)
    asked = CircuitAsked(engine, wanted, epsilon, delta, int(generator.integers(2**63)), limit, **options)
    found = count_output(one_output(circuit).negated() if turn else one_output(circuit), asked)
    return finish(circuit, turned(found) if turn else found, wanted, seed, limit, started)


def check_of(of: str) -> bool:
    """Whether a relative guarantee is to be about 1 - P."""
    if of not in OF:
        raise ValueError(f"of must be one of {', '.join(OF)}, not {of!r}")
    return of == "complement"


def turned(estimate: Estimate) -> Estimate:
    """The estimate of an event from that of its negation."""
    return estimate.replace(
        of="prob" if estimate.guarantee == "exact" else "complement",
        log_prob=estimate.log_complement,
        log_lower=estimate.log_complement_lower,
        log_upper=estimate.log_complement_upper,
        log_complement=estimate.log_prob,
        log_complement_lower=estimate.log_lower,
        log_complement_upper=estimate.log_upper,
        log_certified_lower=log1mexp_towards(estimate.log_certified_upper, -1),
        log_certified_upper=log1mexp_towards(estimate.log_certified_lower, 1),
    )


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
    of: str = "prob",
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    memory: int | None = None,
    engine: str = "auto",
    numbers: Sequence[int] | IntArray | None = None,
    **options: Any,
) -> tuple[list[Estimate], int]:
    """What ``count_many`` does for circuits: (an answer for every output of every circuit, in order; the seed)."""
    wanted = check_engine(engine, guarantee, options)
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads, memory)
    _, seed = make_rng(rng)

    def stream(number: int) -> int:
        return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> np.uint64(1))

    total = sum(len(circuit) for circuit in circuits)
    places = [int(number) for number in (range(total) if numbers is None else numbers)]
    if len(places) != total or any(number < 0 for number in places):
        raise ValueError(f"numbers must be one whole number, not negative, for each of {total} outputs")
    if wanted is None:
        common: dict[str, Any] = {"guarantee": guarantee, "of": of, "epsilon": epsilon, "delta": delta, **options}
        common |= {"memory": memory}
        dnfs = [circuit[i].to_dnf() for circuit in circuits for i in range(len(circuit))]
        out = []
        for number, dnf in zip(places, dnfs, strict=True):
            left = None if timeout is None else limit.seconds_left
            out.append(count(dnf, rng=stream(number), timeout=left, threads=threads, engine=engine, **common))
        return out, seed
    turn = check_of(of) and wanted == "relative"
    asked = CircuitAsked(engine, wanted, epsilon, delta, stream(0), limit, **options)
    chosen = [circuit.negated() for circuit in circuits] if turn else circuits
    found = count_outputs(chosen, asked, stream, places) if total else []
    return [turned(estimate) for estimate in found] if turn else found, seed


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


def count_outputs(
    circuits: Sequence[Circuit], asked: CircuitAsked, stream: Callable[[int], int], numbers: Sequence[int]
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
            found = bounded(circuit, asked, MANY_WORK + 4 * min(circuit.num_inputs, MANY_WORK))
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


def _draw_together(circuit: Circuit, asked: CircuitAsked) -> list[Estimate]:
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
