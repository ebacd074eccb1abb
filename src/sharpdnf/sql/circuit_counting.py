"""Counting answers whose lineage is a circuit: closed forms for all at once, then one by one.

What is asked for decides: without a guarantee each answer gets the strongest that it can have at small cost, exact by a
closed form or a short compilation, else relative, else (where the event is too rare for that) additive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.engines.circuit_auto import FIRST_OPERATIONS, FIRST_WORK, WORK_PER_INPUT, CircuitAsked, bounded
from sharpdnf.engines.circuit_eliminate import eliminate_circuit
from sharpdnf.engines.circuit_sampling import draw, relative_estimate, sample_additive
from sharpdnf.engines.circuits import MANY_DRAWS
from sharpdnf.engines.front import count, make_limit, make_seed
from sharpdnf.engines.sampling import successes_needed
from sharpdnf.estimate import Estimate
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.emit.circuit_batch import Circuits
from sharpdnf.sql.emit.independent_gates import closed_forms
from sharpdnf.sql.emit.tails import Tails

ROUNDING = 1e-12
"""Relative error of a closed form beyond its factors', as an interval that surely holds."""


def count_circuits(batch: Circuits, options: Options) -> Counts:
    """The probability of every answer; delta holds for each of them."""
    size = len(batch)
    prob, lower, upper, met = np.zeros(size), np.zeros(size), np.ones(size), np.ones(size, dtype=bool)
    counts = Counts(prob, lower, upper, np.full(size, "exact", object), np.full(size, "closed form", object), met)
    todo = np.arange(size)
    if options.engine == "auto":
        closed = closed_forms(batch.gates, batch.outputs, batch.rows)
        done = closed.known[batch.outputs]
        prob[done] = closed.true[batch.outputs[done]]
        lower[done] = prob[done] * (1.0 - ROUNDING)
        upper[done] = np.minimum(1.0, prob[done] * (1.0 + ROUNDING))
        todo = np.flatnonzero(~done)
    seed = make_seed(options.rng)
    numbers = np.arange(size) if options.numbers is None else options.numbers
    for place, i in enumerate(todo):
        found = _one(batch.circuit(int(i))[0], options, _stream(seed, int(numbers[i])))
        prob[i] = found.prob
        lower[i] = max(found.lower, found.certified_lower)
        upper[i] = min(found.upper, found.certified_upper)
        counts.guarantee[i], counts.engine[i], met[i] = found.guarantee, found.engine, found.met
        if options.progress is not None and place % 64 == 63:
            options.progress(size - len(todo) + place + 1, size)
    return counts


def count_tails(batch: Tails) -> Counts:
    """The probability of every answer that is a tail of independent events."""
    prob, size = batch.prob(), len(batch)
    low, high = prob * (1.0 - ROUNDING), np.minimum(1.0, prob * (1.0 + ROUNDING))
    promise, engine = (np.full(size, word, dtype=object) for word in ("exact", "closed form"))
    return Counts(prob, low, high, promise, engine, np.ones(size, dtype=bool))


def _stream(seed: int, number: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _one(circuit: Circuit, options: Options, seed: int) -> Estimate:
    asked: dict[str, Any] = {"epsilon": options.epsilon, "delta": options.delta, "threads": options.threads}
    if options.guarantee is None and options.engine == "auto":
        return _strongest(circuit, options, seed)
    return count(
        circuit, guarantee=options.guarantee, rng=seed, timeout=options.timeout, engine=options.engine, **asked
    )


def _strongest(circuit: Circuit, options: Options, seed: int) -> Estimate:
    """Exact where a short compilation or elimination decides it; else relative from a limited number of draws."""
    limit = make_limit(options.timeout, options.threads)
    epsilon, delta = options.epsilon, options.delta
    asked = CircuitAsked("auto", "relative", epsilon, delta, seed, limit)
    found = bounded(circuit, asked, FIRST_WORK + WORK_PER_INPUT * circuit.num_inputs)
    if found.guarantee == "exact":
        return found
    narrow = eliminate_circuit(circuit, limit, FIRST_OPERATIONS)
    if narrow is not None:
        return narrow
    needed = successes_needed(epsilon, delta / 2.0)
    tally = draw(circuit, seed=seed, successes=needed, max_draws=MANY_DRAWS, limit=limit)
    if int(tally.successes[0]) >= needed:
        return relative_estimate(tally, 0, epsilon, delta, needed)
    return sample_additive(circuit, seed=seed + 1, epsilon=epsilon, delta=delta / 2.0, limit=limit)[0]
