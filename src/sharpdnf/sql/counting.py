"""The one place where formulas are counted, and the columns that come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.dnf import DNF, Batch, FloatArray, IntArray
from sharpdnf.engines.front import make_seed
from sharpdnf.engines.many import count_many
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.circuit_batch import Conditioned, Countable, some
from sharpdnf.sql.emit.lineage import select
from sharpdnf.sql.emit.tails import Tails

Progress = Callable[[int, int], None]
SUMMARY = "summary"
"""One answer a group, with the distribution of its aggregates; the alternative is one for every row: "rows"."""
CHUNK = 2_000
"""How many formulas are counted between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ``ProbDB.sql`` was asked for."""

    guarantee: str | None = None
    epsilon: float = 0.1
    delta: float = 0.05
    rng: Any = None
    deadline: float | None = None
    threads: int | None = None
    engine: str = "auto"
    progress: Progress | None = None
    numbers: IntArray | None = None
    """Where only some answers are counted: their places among all answers, which decide their draws. None counts all.
    """
    aggregates: str = SUMMARY

    @property
    def timeout(self) -> float | None:
        """The seconds that are left until the deadline; None if there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def replace(self, **changes: Any) -> Options:
        return replace(self, **changes)


@dataclass(slots=True)
class Counts:
    """Columns with one entry per formula."""

    prob: FloatArray
    lower: FloatArray
    upper: FloatArray
    guarantee: npt.NDArray[np.object_]
    engine: npt.NDArray[np.object_]
    met: npt.NDArray[np.bool_]
    near_cut: npt.NDArray[np.bool_] | None = None

    def take(self, index: IntArray) -> Counts:
        """The entries of these formulas."""
        near = None if self.near_cut is None else self.near_cut[index]
        return Counts(
            self.prob[index],
            self.lower[index],
            self.upper[index],
            self.guarantee[index],
            self.engine[index],
            self.met[index],
            near,
        )


@dataclass(frozen=True, slots=True)
class Remote:
    """Answers whose lineage is on other machines, with bounds that are known of them here."""

    count: Callable[[Options], Counts]
    """Counts the answers of these numbers where they are."""
    lower: FloatArray
    upper: FloatArray

    def __len__(self) -> int:
        return len(self.lower)

    def take(self, wanted: IntArray) -> Remote:
        """These answers."""
        return Remote(self.count, self.lower[wanted], self.upper[wanted])


def count_batch(batch: Countable | Remote, options: Options) -> Counts:
    """Counts every formula; delta holds for each of them."""
    if not len(batch):
        return empty()
    if isinstance(batch, Remote):
        return batch.count(options)
    if not isinstance(batch, Batch):
        from sharpdnf.sql.circuit_counting import count_circuits, count_tails
        from sharpdnf.sql.evidence import count_conditioned

        if isinstance(batch, Tails):
            return count_tails(batch)
        return count_conditioned(batch, options) if isinstance(batch, Conditioned) else count_circuits(batch, options)
    table = count_many(
        in_order(batch),
        guarantee=options.guarantee,
        epsilon=options.epsilon,
        delta=options.delta,
        rng=options.rng,
        timeout=options.timeout,
        threads=options.threads,
        engine=options.engine,
        numbers=options.numbers,
    )
    lower, upper = (np.array(table[name], dtype=np.float64) for name in ("lower", "upper"))
    return Counts(
        np.array(table["prob"], dtype=np.float64),
        np.maximum(lower, np.asarray(table["certified_lower"])),
        np.minimum(upper, np.asarray(table["certified_upper"])),
        np.array(table["guarantee"], dtype=object),
        np.array(table["engine"], dtype=object),
        np.array(table["met"], dtype=bool),
    )


def in_order(batch: Batch) -> Batch:
    """The batch with the clauses of every formula sorted by their literals.

    A database hands rows over in any order, another one from run to run where it works in parallel. Sorted, they give
    the same draws for the same seed, on every database.
    """
    dnf = batch.dnf
    order = _native.clause_order(batch.formula_indptr, dnf.indptr, dnf.literals)
    if not len(order):
        return batch
    taken = Clauses(dnf.indptr, dnf.literals).take(order)
    return Batch(DNF.trusted(taken.indptr, taken.literals, dnf.prob, names=dnf.names), batch.formula_indptr)


def count_with_progress(batch: Countable, options: Options) -> Counts:
    """As ``count_batch``, reporting (done, all) after every chunk of formulas."""
    if options.progress is None or len(batch) <= CHUNK or not isinstance(batch, Batch):
        counts = count_batch(batch, options)
        if options.progress is not None:
            options.progress(len(batch), len(batch))
        return counts
    seed, progress = make_seed(options.rng), options.progress
    parts = []
    for start in range(0, len(batch), CHUNK):
        chunk = np.arange(start, min(start + CHUNK, len(batch)))
        parts.append(count_batch(select(batch, chunk), options.replace(rng=seed, numbers=chunk)))
        progress(int(chunk[-1]) + 1, len(batch))
    return concatenate(parts)


def count_some(batch: Countable, kept: IntArray, options: Options) -> Counts:
    """As ``count_with_progress``, for the formulas ``kept`` alone; their draws are those that they have among all."""
    if len(kept) == len(batch):
        return count_with_progress(batch, options)
    return count_batch(some(batch, kept), options.replace(numbers=kept))


def concatenate(parts: list[Counts]) -> Counts:
    """The columns of all parts, one part after the other."""
    return Counts(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("prob", "lower", "upper", "guarantee", "engine", "met")
        )
    )


def empty() -> Counts:
    """The columns of an empty batch: no formula, so no entry."""
    nothing, words = np.zeros(0), np.zeros(0, dtype=object)
    return Counts(nothing, nothing, nothing, words, words, np.zeros(0, dtype=bool))


def certain(count: int) -> Counts:
    """Answers that hold in every world."""
    one = np.ones(count)
    return Counts(one, one, one, np.full(count, "exact", object), np.full(count, "certain", object), one.astype(bool))
