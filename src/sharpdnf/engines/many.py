"""count_many: thousands of formulas as one batch, in parallel, no Python object per formula in the hot path."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf.bulk import backend_chosen, in_any_order, num_workers
from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF, Batch, IntArray
from sharpdnf.engines.auto import LOGS, auto_batch
from sharpdnf.engines.front import Asked, Seed, count_list, make_limit, make_seed
from sharpdnf.estimate import Estimate, Limit

Table = dict[str, npt.NDArray[Any]]
PARTS_PER_WORKER = 4
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

    Inside ``with joblib.parallel_config(backend="dask")`` (or "ray", or "loky") the formulas are counted by the workers
    of that backend, with the same answers; otherwise here, in ``threads`` threads.

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
    if len(stacked) > 1 and backend_chosen():
        columns = _count_in_workers(stacked, asked, seed, places, limit)
    else:
        columns = _count_here(stacked, asked, seed, places, limit)
    return _with_plain(columns, seed)


def _count_here(batch: Batch, asked: Asked, seed: int, numbers: IntArray, limit: Limit) -> Table:
    """The columns of a batch that is counted in this process, in as many threads as the limit says."""
    if asked.engine.run_batch is not None:
        table: Table = asked.engine.run_batch(
            batch,
            guarantee=asked.guarantee,
            of=asked.of,
            epsilon=asked.epsilon,
            delta=asked.delta,
            seed=seed,
            numbers=numbers,
            limit=limit,
            **asked.options,
        )
        return table
    columns = _columns(count_list(batch, asked, seed, numbers, limit))
    if len(columns["met"]) == len(batch):
        return columns
    return _joined([columns, _late(batch, len(columns["met"]), asked, limit)])


@dataclass(frozen=True)
class _Work:
    """What every part of a batch needs to be counted elsewhere; the deadline is on the clock that hosts share."""

    asked: Asked
    seed: int
    deadline: float
    memory: int

    def __call__(self, part: tuple[Batch, IntArray]) -> Table:
        seconds = max(0.0, self.deadline - time.time())
        limit = make_limit(None if math.isinf(seconds) else seconds, 1, self.memory)
        return _count_here(part[0], self.asked, self.seed, part[1], limit)


def _count_in_workers(batch: Batch, asked: Asked, seed: int, numbers: IntArray, limit: Limit) -> Table:
    """The same columns from the workers of the joblib backend that the caller has chosen.

    Parts have about equal numbers of literals, several for each worker, so that no worker waits long for another.
    """
    work = _Work(asked, seed, time.time() + limit.seconds_left, limit.memory)
    count = min(len(batch), PARTS_PER_WORKER * num_workers())
    literals = batch.dnf.indptr[batch.formula_indptr]
    cuts = np.searchsorted(literals, np.linspace(0, literals[-1], count + 1)[1:-1])
    ends = np.unique(np.concatenate([[0], cuts, [len(batch)]]))
    parts = [(_part(batch, a, b), numbers[a:b]) for a, b in pairwise(ends.tolist())]
    done = dict(in_any_order(work, parts))
    return _joined([done[place] for place in range(len(parts))])


def _part(batch: Batch, first: int, last: int) -> Batch:
    """Formulas ``first`` to ``last`` (without it) of a batch."""
    clauses = batch.formula_indptr[first : last + 1]
    indptr = batch.dnf.indptr[clauses[0] : clauses[-1] + 1]
    dnf = DNF.trusted(indptr - indptr[0], batch.dnf.literals[indptr[0] : indptr[-1]], batch.dnf.prob)
    return Batch(dnf, clauses - clauses[0])


def _joined(tables: list[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


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
    table: Table = auto_batch(
        _part(batch, first, len(batch)),
        guarantee="bounds",
        of=asked.of,
        epsilon=asked.epsilon,
        delta=asked.delta,
        seed=0,
        numbers=np.arange(len(batch) - first),
        limit=limit,
    )
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
