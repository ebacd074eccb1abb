"""``auto``: asks for a guarantee, not for a method.

What it does is decided in one place, ``native/kernels/auto.hpp``, formula by formula and without a Python object for
any of them: ``count`` is a batch of one. Choices count operations, never seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.dnf import DNF, Batch
from sharpdnf.engines.registry import engine
from sharpdnf.engines.sampling import ESTIMATORS, hoeffding_draws, successes_needed
from sharpdnf.estimate import COMPLEMENTS, GUARANTEES, OF, Estimate, Limit
from sharpdnf.simplify import NOTES

Columns = dict[str, Any]
METHODS = np.array(["trivial", "simplify", "bounds", "dtree", "sampling", "conditioned"], dtype=object)
LOGS = ("log_prob", "log_lower", "log_upper", "log_certified_lower", "log_certified_upper", *COMPLEMENTS)
"""Columns of logarithms, named as the fields of Estimate."""


def auto_batch(
    batch: Batch,
    *,
    guarantee: str,
    of: str,
    epsilon: float,
    delta: float,
    keys: npt.NDArray[np.uint64],
    limit: Limit,
    details: bool = False,
) -> Columns:
    """Columns with one entry a formula; formula i's draws come from ``keys[i]`` alone.

    ``details`` adds a list under "details": what ``info`` says of each answer.
    """
    relative = guarantee == "relative"
    columns: Columns = _native.count_batch(
        *batch.dnf.arrays,
        batch.formula_indptr,
        keys,
        promise=GUARANTEES.index(guarantee),
        complement=of == "complement",
        epsilon=epsilon,
        delta=delta,
        successes=successes_needed(epsilon, delta) if relative else 0,
        third_successes=successes_needed(epsilon, delta / 3.0) if relative else 0,
        draws=hoeffding_draws(epsilon, delta),
        threads=limit.threads,
        seconds=limit.seconds_left,
        memory=limit.memory,
        details=details,
    )
    columns["engine"] = METHODS[columns["engine"]]
    columns["guarantee"] = np.array(GUARANTEES, dtype=object)[columns["guarantee"]]
    columns["of"] = np.array(OF, dtype=object)[columns["of"]]
    columns["met"] = columns["met"].astype(bool)
    if details:
        columns["details"] = [_info(*pair) for pair in zip(columns["details"], columns["engine"], strict=True)]
    return columns


@engine(
    "auto",
    guarantees=("relative", "additive", "exact", "bounds", "none"),
    summary="the cheapest engine that keeps the promise",
    simplify=False,
    run_batch=auto_batch,
)
def auto(
    dnf: DNF,
    *,
    guarantee: str,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
) -> Estimate:
    keys = rng.integers(2**64, size=1, dtype=np.uint64)
    batch = Batch(dnf, np.array([0, dnf.num_clauses]))
    columns = auto_batch(
        batch, guarantee=guarantee, of="prob", epsilon=epsilon, delta=delta, keys=keys, limit=limit, details=True
    )
    return estimate_of(columns, epsilon, delta)


def estimate_of(columns: Columns, epsilon: float, delta: float) -> Estimate:
    """The first formula's answer, with its details."""
    row = {name: columns[name][0] for name in ("guarantee", "engine", "of")}
    drawn = row["engine"] == "sampling" and (row["guarantee"] != "bounds" or row["of"] == "complement")
    return Estimate(
        **row,
        **{name: float(columns[name][0]) for name in LOGS},
        epsilon=epsilon if row["guarantee"] in ("relative", "additive") else None,
        delta=None if row["guarantee"] == "none" else delta if drawn else 0.0,
        samples=int(columns["samples"][0]),
        met=bool(columns["met"][0]),
        info=columns["details"][0],
    )


def _info(details: dict[str, Any], method: str) -> dict[str, Any]:
    notes = {name: n for name, n in zip(NOTES, details.pop("notes"), strict=True) if n}
    if "estimator" in details:
        details["estimator"] = ESTIMATORS[details["estimator"]]
    return {**details, "chosen": method, **({"simplified": notes} if notes else {})}
