"""count_many: thousands of formulas as one batch, in parallel, no Python object per formula in the hot path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF, Batch, IntArray
from sharpdnf.engines.auto import LOGS, auto_batch
from sharpdnf.engines.front import Asked, Seed, count_list, make_limit, make_seed
from sharpdnf.estimate import Estimate, Limit

Table = dict[str, npt.NDArray[Any]]
SMALLEST = 2.0**-1074  # the least double above 0


def count_many(
    batch: Batch | Circuit | Iterable[DNF | Circuit],
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
    numbers: IntArray | None = None,
    **options: Any,
) -> Table:
    """Counts every formula as ``count`` does; returns columns with one entry per formula. ``delta`` holds for each.

    Columns: prob, lower, upper, certified_lower, certified_upper, complement, complement_lower, complement_upper,
    their log_ versions, guarantee, of, engine, samples, met, seed (of the whole run, the same in every row).

    Formula i's draws depend on the seed and on ``numbers[i]`` alone, by default i: who counts some formulas of a
    batch, or all of them in parts, passes the places they have in the whole and gets the same answers. Number 0 draws
    as ``count`` does. At ``timeout`` what is left gets certified bounds, met False.

    A circuit, or circuits among the formulas, have an entry for every output; circuits over one set of variables share
    their draws, by the seed alone.
    """
    from sharpdnf.engines.circuits import as_circuits, count_circuits

    if isinstance(batch, Circuit) or not isinstance(batch, Batch):
        batch = batch if isinstance(batch, Circuit) else list(batch)
        circuits = as_circuits(batch)
        if circuits is not None:
            limits: dict[str, Any] = {"timeout": timeout, "threads": threads, "memory": memory, "numbers": numbers}
            common: dict[str, Any] = {"guarantee": guarantee, "of": of, "epsilon": epsilon, "delta": delta, "rng": rng}
            return _table(*count_circuits(circuits, engine=engine, **common, **limits, **options))
    asked = Asked.check(engine, guarantee, of, epsilon, delta, options)
    limit = make_limit(timeout, threads, memory)
    seed = make_seed(rng)
    stacked = batch if isinstance(batch, Batch) else Batch.of(batch)  # type: ignore[arg-type]
    places = np.arange(len(stacked)) if numbers is None else np.ascontiguousarray(numbers)
    if places.shape != (len(stacked),) or places.dtype.kind not in "iu" or np.any(places < 0):
        raise ValueError(f"numbers must be one whole number, not negative, for each of {len(stacked)} formulas")
    places = places.astype(np.int64, copy=False)
    if asked.engine.run_batch is not None:
        columns = asked.engine.run_batch(
            stacked,
            guarantee=asked.guarantee,
            of=of,
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            numbers=places,
            limit=limit,
            **options,
        )
    else:
        columns = _columns(count_list(stacked, asked, seed, places, limit))
        if len(columns["met"]) < len(stacked):
            late = _late(stacked, len(columns["met"]), asked, limit)
            columns = {name: np.concatenate([columns[name], late[name]]) for name in columns}
    return _with_plain(columns, seed)


def _table(estimates: list[Estimate], seed: int) -> Table:
    return _with_plain(_columns(estimates), seed)


def _with_plain(columns: Table, seed: int) -> Table:
    plain = {name.removeprefix("log_"): _exp(columns[name], name) for name in LOGS}
    order = (*LOGS, "guarantee", "of", "engine", "samples", "met")
    return {**plain, **{name: columns[name] for name in order}, "seed": np.full(len(columns["met"]), seed)}


def _exp(logs: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.float64]:
    """The numbers themselves, a lower end rounded down and an upper end up, as the fields of Estimate are.

    They move outwards by two units in the last place: by a factor, and for numbers below the normal ones by a sum.
    """
    values: npt.NDArray[np.float64] = np.exp(logs)
    if name.endswith("lower"):
        values *= 1.0 - 2.0**-51
        values -= 2.0 * SMALLEST
        np.maximum(values, 0.0, out=values)
        values[logs == 0.0] = 1.0
    elif name.endswith("upper"):
        values *= 1.0 + 2.0**-51
        values += 2.0 * SMALLEST
        np.minimum(values, 1.0, out=values)
        values[logs == -np.inf] = 0.0
    return values


def _late(batch: Batch, first: int, asked: Asked, limit: Limit) -> Table:
    """Certified bounds, in one pass, for the formulas from ``first`` on, to which the deadline left no time."""
    clause = batch.formula_indptr[first]
    literal = batch.dnf.indptr[clause]
    rest = DNF.trusted(batch.dnf.indptr[clause:] - literal, batch.dnf.literals[literal:], batch.dnf.prob)
    table: Table = auto_batch(
        Batch(rest, batch.formula_indptr[first:] - clause), guarantee="bounds", of=asked.of, epsilon=asked.epsilon,
        delta=asked.delta, seed=0, numbers=np.arange(len(batch) - first), limit=limit,
    )  # fmt: skip
    exact = table["guarantee"] == "exact"
    table["met"] = exact | (asked.guarantee == "bounds")
    table["engine"][~exact] = asked.engine.name
    return table


def _columns(estimates: list[Estimate]) -> Table:
    table: Table = {name: np.array([getattr(e, name) for e in estimates], dtype=np.float64) for name in LOGS}
    table["samples"] = np.array([e.samples for e in estimates], dtype=np.int64)
    table["met"] = np.array([e.met for e in estimates], dtype=bool)
    for name in ("guarantee", "of", "engine"):
        table[name] = np.array([getattr(e, name) for e in estimates], dtype=object)
    return table
