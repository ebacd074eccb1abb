"""count_many: thousands of formulas as one batch, in parallel, no Python object per formula in the hot path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF, Batch
from sharpdnf.engines.counting import Seed, count, count_together, make_limit, make_rng
from sharpdnf.engines.registry import check_guarantee, find
from sharpdnf.estimate import GUARANTEES, Estimate, check_tolerance

Table = dict[str, npt.NDArray[Any]]
METHODS = np.array(["trivial", "simplify", "bounds", "dtree", "sampling", "conditioned"], dtype=object)
PROMISES = ("exact", "relative", "additive", "bounds", "none")
LOGS = ("log_prob", "log_lower", "log_upper", "log_certified_lower", "log_certified_upper")
assert PROMISES == GUARANTEES


def count_many(
    batch: Batch | Circuit | Iterable[DNF | Circuit],
    *,
    guarantee: str | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: str = "auto",
    **options: Any,
) -> Table:
    """Counts every formula; returns columns, one entry a formula. ``delta`` holds for each formula on its own.

    A circuit, or circuits among the formulas, have an entry for every output; circuits over one set of variables share
    their draws.

    Columns: prob, lower, upper, certified_lower, certified_upper, their log_ versions, guarantee, engine, samples,
    met, seed (of the whole run, the same in every row). Formula i's draws depend on (seed, i) alone. At ``timeout``
    what is left gets certified bounds, met False.
    """
    check_tolerance(epsilon, delta)
    from sharpdnf.engines.circuits import as_circuits, count_circuits

    batch = batch if isinstance(batch, Batch | Circuit) else list(batch)
    circuits = None if isinstance(batch, Batch) else as_circuits(batch)
    if circuits is not None:
        limits: dict[str, Any] = {"timeout": timeout, "threads": threads, "engine": engine, **options}
        common: dict[str, Any] = {"guarantee": guarantee, "epsilon": epsilon, "delta": delta, "rng": rng}
        return _columns(*count_circuits(circuits, **common, **limits))
    stacked = batch if isinstance(batch, Batch) else Batch.of(batch)  # type: ignore[arg-type]
    if engine != "auto":
        asked = {"guarantee": guarantee, "epsilon": epsilon, "delta": delta, "engine": engine, "threads": threads}
        return _one_by_one(stacked, rng, timeout, {**asked, **options})
    if options:
        raise ValueError(f"auto has no option {next(iter(options))!r}")
    wanted = check_guarantee(find("auto"), guarantee)
    limit = make_limit(timeout, threads)
    _, seed = make_rng(rng)
    table: Table = _native.count_batch(
        *stacked.dnf.arrays,
        stacked.formula_indptr,
        promise=PROMISES.index(wanted),
        epsilon=epsilon,
        delta=delta,
        seed=seed % 2**64,
        threads=limit.threads,
        seconds=limit.seconds_left,
        memory=limit.memory,
    )
    return _finish(table, METHODS[table["engine"]], np.array(PROMISES, dtype=object)[table["guarantee"]], seed)


def _one_by_one(batch: Batch, rng: Seed, timeout: float | None, asked: dict[str, Any]) -> Table:
    limit = make_limit(timeout, asked["threads"])
    generator, seed = make_rng(rng)
    if find(asked["engine"]).run_many is not None:
        estimates = count_together([batch[index] for index in range(len(batch))], generator, limit, asked)
    else:
        estimates = []
        for index in range(len(batch)):
            left = None if timeout is None else limit.seconds_left
            estimates.append(count(batch[index], rng=generator, timeout=left, **asked))
    return _columns(estimates, seed)


def _columns(estimates: list[Estimate], seed: int) -> Table:
    table: Table = {name: np.array([getattr(e, name) for e in estimates], dtype=np.float64) for name in LOGS}
    table["samples"] = np.array([e.samples for e in estimates], dtype=np.int64)
    table["met"] = np.array([e.met for e in estimates], dtype=bool)
    engines, promises = ([getattr(e, name) for e in estimates] for name in ("engine", "guarantee"))
    return _finish(table, np.array(engines, dtype=object), np.array(promises, dtype=object), seed)


def _finish(table: Table, engine: npt.NDArray[Any], guarantee: npt.NDArray[Any], seed: int) -> Table:
    plain = {name.removeprefix("log_"): np.exp(table[name]) for name in LOGS}
    logs = {name: table[name] for name in LOGS}
    rest = {"guarantee": guarantee, "engine": engine, "samples": table["samples"], "met": table["met"].astype(bool)}
    return {**plain, **logs, **rest, "seed": np.full(len(engine), seed)}
