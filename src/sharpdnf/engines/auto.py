"""``auto``: asks for a guarantee, not for a method.

What it does is decided in one place, ``native/kernels/auto.hpp``, formula by formula and without a Python object for
any of them: ``count`` is a batch of one. Choices count operations, never seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF, Batch, IntArray
from sharpdnf.engines.registry import engine
from sharpdnf.engines.sampling import ESTIMATORS, draws_needed, successes_needed
from sharpdnf.estimate import COMPLEMENTS, GUARANTEES, OF, Estimate, Limit
from sharpdnf.simplify import NOTES

Columns = dict[str, Any]
METHODS = np.array(["trivial", "simplify", "bounds", "dtree", "sampling", "conditioned", "exact"], dtype=object)
PROMISES, SIDES = np.array(GUARANTEES, dtype=object), np.array(OF, dtype=object)
LOGS = ("log_prob", "log_lower", "log_upper", "log_certified_lower", "log_certified_upper", *COMPLEMENTS)
"""The columns that hold logarithms; each has the name of a field of Estimate."""


def auto_batch(
    batch: Batch,
    *,
    guarantee: str,
    of: str,
    epsilon: float,
    delta: float,
    seed: int,
    numbers: IntArray,
    limit: Limit,
    details: bool = False,
) -> Columns:
    """Counts a batch and returns columns with one entry per formula.

    The draws of formula i depend on the seed and ``numbers[i]`` alone. With ``details`` there is also a list under
    "details": what ``Estimate.info`` says about each answer.
    """
    relative = guarantee == "relative"
    found = _native.count_batch(
        *batch.dnf.arrays,
        batch.formula_indptr,
        seed=_hashed(seed),
        numbers=numbers,
        promise=GUARANTEES.index(guarantee),
        complement=of == "complement",
        epsilon=epsilon,
        delta=delta,
        successes=successes_needed(epsilon, delta) if relative else 0,
        third_successes=successes_needed(epsilon, delta / 3.0) if relative else 0,
        draws=draws_needed(epsilon, delta) if guarantee == "additive" else 0,
        threads=limit.threads,
        seconds=limit.seconds_left,
        memory=limit.memory,
        details=details,
    )
    columns: Columns = {name: getattr(found, name) for name in LOGS}
    columns["guarantee"] = PROMISES[found.guarantee]
    columns["engine"] = METHODS[found.engine]
    columns["samples"] = found.samples
    columns["met"] = found.met.view(np.bool_)
    columns["of"] = SIDES[found.of]
    if details:
        columns["details"] = [_info(*pair) for pair in zip(found.details, columns["engine"], strict=True)]
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
    seed = int(rng.integers(2**63))
    batch = Batch.one(dnf)
    columns = auto_batch(
        batch,
        guarantee=guarantee,
        of="prob",
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        numbers=np.zeros(1, np.int64),
        limit=limit,
        details=True,
    )
    return estimate_of(columns, epsilon, delta)


def estimate_of(columns: Columns, epsilon: float, delta: float) -> Estimate:
    """The Estimate of the first formula of a batch, with its details."""
    row: dict[str, Any] = {name: columns[name][0] for name in ("guarantee", "engine", "of")}
    row |= {name: float(columns[name][0]) for name in LOGS}
    drawn = row["engine"] == "sampling" and (row["guarantee"] != "bounds" or row["of"] == "complement")
    return Estimate(
        **row,
        epsilon=epsilon if row["guarantee"] in ("relative", "additive") else None,
        delta=None if row["guarantee"] == "none" else delta if drawn else 0.0,
        samples=int(columns["samples"][0]),
        met=bool(columns["met"][0]),
        info=columns["details"][0],
    )


def _hashed(seed: int) -> int:
    """Hashes a seed of any size to 64 bits, so that seeds that are close or agree in their last bits share no draws."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _info(details: dict[str, Any], method: str) -> dict[str, Any]:
    notes = {name: n for name, n in zip(NOTES, details.pop("notes"), strict=True) if n}
    if "estimator" in details:
        details["estimator"] = ESTIMATORS[details["estimator"]]
    return {**details, "chosen": method, **({"simplified": notes} if notes else {})}
