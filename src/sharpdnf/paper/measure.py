"""A network over a whole set of formulas, in one process or several, so that a killed run goes on where it stopped.

Rows are kept in ``rows.csv`` under the digest of the weights that made them, so new weights are measured anew, and
labels in ``labels.csv`` beside them, whatever network they are held against.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sharpdnf.bulk import backend_chosen, in_any_order
from sharpdnf.engines import sampling
from sharpdnf.learn.stream import pack
from sharpdnf.paper.evaluate import evaluate, sampled
from sharpdnf.paper.labels import Labels
from sharpdnf.paper.records import Label, Row, read_records, write_records
from sharpdnf.paper.sets import SetMember, draw, member

if TYPE_CHECKING:
    from sharpdnf.learn.counter import NeuralCounter

EPSILON, DELTA = 0.005, 0.01
"""The relative error of the labels that networks are held against, and the probability of missing it."""
SAVE_SECONDS = 5.0  # how many seconds of work may be lost when the process is killed, while the file is small
SAVE_SHARE = 0.02  # the share of the time that writing the rows may take: the file of a whole set is large
CHUNK_LITERALS = 50_000  # literals of the formulas that are evaluated together, which also bounds what is lost
Say = Callable[[str], None]


def open_labels(out: Path, seed: int) -> Labels:
    """The labels that are kept beside the results in ``out``, and the sampler that makes those that are missing."""
    return Labels(out / "labels.csv", sampling.label, epsilon=EPSILON, delta=DELTA, seed=seed)


def chunks(members: Sequence[SetMember]) -> list[list[SetMember]]:
    """Members in order of size, cut into chunks, so that formulas of one size go through the network together."""
    ordered = sorted(members, key=lambda m: (m.num_vars, m.width, m.index))
    return pack(ordered, lambda m: m.num_clauses * m.width, CHUNK_LITERALS)


class Measurer:
    """One network against its labels, in this process, in several, or where the caller's joblib backend has workers."""

    def __init__(self, source: str, model: str, counter: NeuralCounter, labels: Labels, jobs: int) -> None:
        self.source, self.model, self.weights, self.labels = source, model, counter.digest[:8], labels
        self.counter, self.jobs = counter, jobs

    def with_interval(self, row: Row) -> Row:
        """A row measured earlier with the interval of now, because the network may have been calibrated since."""
        if self.counter.residuals is None and not math.isnan(row.log_sampling):
            return replace(row, log_lower=-math.inf, log_upper=0.0)
        seed = self.labels.seed
        dnf = draw(member(row.set, row.index, row.shift, seed), seed)
        low, high, _ = self.counter.interval(dnf, min(row.log_prediction, 0.0), 0.05)
        by_sampling = sampled(dnf) if math.isnan(row.log_sampling) else row.log_sampling
        return replace(row, log_lower=low, log_upper=high, log_sampling=by_sampling)

    def rows(self, members: Sequence[SetMember]) -> Iterator[list[Row]]:
        """Yields rows as they are done, and saves the labels that were made on the way."""
        if self.jobs == 1 and not backend_chosen():
            for chunk in chunks(members):
                yield _measure(self.counter, self.labels, self.model, self.weights, chunk)
                self.labels.save()
            return
        place = (self.source, self.labels.path.parent, self.labels.seed)
        work = functools.partial(_measure_in_worker, place, self.model, self.weights)
        for _, (rows, fresh) in in_any_order(work, chunks(members), workers=None if backend_chosen() else self.jobs):
            for new in fresh:
                self.labels.add(new)
            self.labels.save()
            yield rows


@functools.lru_cache(maxsize=1)
def _in_worker(source: str, out: Path, seed: int) -> tuple[NeuralCounter, Labels]:
    """The network and the labels of a worker, loaded with the first chunk that it is given."""
    import torch

    from sharpdnf.learn.counter import NeuralCounter

    torch.set_num_threads(1)
    return NeuralCounter.from_pretrained(source), open_labels(out, seed)


def _measure_in_worker(
    place: tuple[str, Path, int], model: str, weights: str, members: list[SetMember]
) -> tuple[list[Row], list[Label]]:
    counter, labels = _in_worker(*place)
    rows = _measure(counter, labels, model, weights, members)
    fresh, labels.unsaved = labels.unsaved, []
    return rows, fresh


def _measure(
    counter: NeuralCounter, labels: Labels, model: str, weights: str, members: Sequence[SetMember]
) -> list[Row]:
    return evaluate(model, weights, members, labels, predict=counter.predict_many)


def measure_set(path: Path, members: Sequence[SetMember], measurer: Measurer, say: Say, *, keep: bool = False) -> None:
    """Measures those members for which the file has no row of these weights yet.

    Rows of the same set that are not asked for any more are dropped, unless they are to be kept.
    """
    name, wanted = members[0].set, {(member.index, member.shift) for member in members}
    others, own = [], []
    for row in read_records(path, Row):
        if (row.model, row.set) != (measurer.model, name):
            others.append(row)
        elif row.weights == measurer.weights and ((row.index, row.shift) in wanted or keep):
            own.append(measurer.with_interval(row))
    done = {(row.index, row.shift) for row in own}
    missing = [member for member in members if (member.index, member.shift) not in done]
    saved = began = time.monotonic()
    pause = SAVE_SECONDS
    if missing:
        say(f"{measurer.model} on {name}: {len(missing)} formulas to measure, {len(own)} are there")
    try:
        for rows in measurer.rows(missing):
            own += rows
            now, new = time.monotonic(), len(own) - len(done)
            left = (now - began) / new * (len(missing) - new)
            say(f"{measurer.model} on {name}: {new}/{len(missing)} formulas, {left / 60:.0f} min left")
            if now - saved > pause:
                _write_rows(path, others + own)
                saved = time.monotonic()
                pause = max(SAVE_SECONDS, (saved - now) / SAVE_SHARE)
    finally:  # an interrupt loses nothing that was done
        _write_rows(path, others + own)


def _write_rows(path: Path, rows: list[Row]) -> None:
    write_records(path, sorted(rows, key=lambda row: (row.model, row.set, row.index, row.shift)), Row)
