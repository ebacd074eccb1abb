"""The paper's experiments from end to end: formulas, labels, networks, rows, report.

Without ``full`` the sets are seeded stratified subsets, whose sizes the report states. Labels are kept in
``labels.csv`` beside the results, whatever network they are held against, and rows in ``rows.csv`` under the digest of
the weights that made them: a run that was killed goes on, and new weights measure anew.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines import sampling
from sharpdnf.engines.registry import find
from sharpdnf.errors import CheckpointError, needs_extra
from sharpdnf.estimate import Estimate, Limit
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.learn.composition import Example, draw, example, subset
from sharpdnf.learn.evaluate import Labels, chunks, evaluate, figure_examples, trace_rows
from sharpdnf.learn.residuals import Residuals
from sharpdnf.learn.rows import Label, Row, Runtime, Trace, read_records, write_records
from sharpdnf.learn.workers import worker_pool
from sharpdnf.report import PAPER_RUNTIMES, RUNTIME_SIZES, write_report
from sharpdnf.streams import Stream, random_stream

if TYPE_CHECKING:
    from sharpdnf.learn.counter import NeuralCounter

EPSILON, DELTA = 0.005, 0.01
SAVE_SECONDS = 20.0  # what a kill may lose
GROUPS: dict[str, tuple[str, ...]] = {
    "structure": ("train", "structure"),
    "size": ("size-10000", "size-15000"),
    "other": ("fully-privileged", "uniform"),
    "code": ("structure-code", "size-code"),
    "trace": (),
    "runtime": (),
}
"""What can be asked for, and the sets of formulas it needs."""
SUBSETS: dict[str, dict[str, int]] = {
    "paper": {
        "train": 327, "structure": 1308, "size-10000": 116, "size-15000": 116, "fully-privileged": 327, "uniform": 327,
        "structure-code": 327, "size-code": 58,
    },
    "t2": {"train": 163, "structure": 327, "size-10000": 58, "size-15000": 58},
    "t32": {"train": 41, "structure": 163, "size-10000": 15, "size-15000": 15},
}  # fmt: skip
"""Formulas by network and set when not everything is run; other networks are measured like ``paper``."""
CALIBRATION: dict[str, dict[str, int]] = {
    "paper": {"structure": 654, "size-10000": 29, "size-15000": 29, "fully-privileged": 163, "uniform": 163},
    "t32": {"structure": 163, "size-10000": 15},
}
"""Formulas behind the intervals, of another seed than those of the tables."""
CALIBRATION_SEED = 1
Say = Callable[[str], None]


def reproduce(
    out: Path,
    *,
    groups: Sequence[str] = tuple(GROUPS),
    models: Sequence[str] | None = None,
    full: bool = False,
    seed: int = 0,
    jobs: int = 1,
    say: Say = lambda line: None,
) -> list[Path]:
    """Measures the groups with the networks (default: all that are shipped) and writes CSVs, tables and figures.

    ``jobs`` processes take the formulas in turn; runtimes are measured by one.
    """
    with needs_extra("reproducing the paper", "train"):
        from sharpdnf.learn.counter import NeuralCounter, shipped
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"no set {unknown[0]!r}: choose from {', '.join(GROUPS)}")
    chosen = list(models or shipped())
    if not chosen:
        raise CheckpointError("no network is shipped with this build: name a directory of weights")
    counters = {Path(name).name: NeuralCounter.from_pretrained(name) for name in chosen}
    if len(counters) < len(chosen):
        raise ValueError("two of the networks have one name, which their rows go by: rename a directory")
    out.mkdir(parents=True, exist_ok=True)
    labels = _labels(out, seed)
    for name, (model, counter) in zip(chosen, counters.items(), strict=True):
        sizes = SUBSETS.get(model, SUBSETS["paper"])
        wanted = {s: subset(s, None if full else sizes[s], seed) for g in groups for s in GROUPS[g] if s in sizes}
        with _Measurer(name, model, counter, labels, jobs) as measurer:
            for examples in wanted.values():
                _measure_set(out / "rows.csv", examples, measurer, say)
    main = next(iter(counters)) if "paper" not in counters else "paper"
    if "trace" in groups:
        pool = [what for what in subset("structure", SUBSETS["paper"]["structure"], seed) if what.num_vars <= 500]
        traces = trace_rows(main, figure_examples(pool, labels), counters[main].trace)
        write_records(out / "traces.csv", traces, Trace)
        labels.save()
    if "runtime" in groups:
        runtimes = measure_runtimes(counters[main].predict, seed=seed, say=say)
        write_records(out / "runtimes.csv", runtimes, Runtime)
    return write_report(out, out)


def calibrate(weights: Path, out: Path, *, jobs: int = 1, say: Say = lambda line: None) -> int:
    """Measures a network on held-out formulas of their own and puts the quantiles of its residuals into its
    config.json; returns how many formulas there were. ``out`` keeps the labels and rows.
    """
    with needs_extra("calibrating a network", "train"):
        from sharpdnf.learn.counter import NeuralCounter

    counter, model = NeuralCounter.from_pretrained(weights), weights.name
    out.mkdir(parents=True, exist_ok=True)
    labels = _labels(out, CALIBRATION_SEED)
    with _Measurer(str(weights), model, counter, labels, jobs) as measurer:
        for name, size in CALIBRATION.get(model, CALIBRATION["paper"]).items():
            _measure_set(out / "rows.csv", subset(name, size, CALIBRATION_SEED), measurer, say)
    rows = [row for row in read_records(out / "rows.csv", Row) if row.model == model]
    counter.residuals = Residuals.fit(rows)
    counter.save_pretrained(weights)
    return len(rows)


def label(dnf: DNF, rng: np.random.Generator) -> float:
    """log P(formula) by the sampler, at relative error EPSILON."""
    return sampling.label(dnf, epsilon=EPSILON, delta=DELTA, rng=rng)[0]


def conditioned(dnf: DNF) -> float:
    """log P(formula) as the ``conditioned`` engine estimates it."""
    return _run("conditioned", dnf).log_prob


def measure_runtimes(
    predict: Callable[[DNF], Estimate],
    *,
    seed: int = 0,
    sizes: Iterable[int] = RUNTIME_SIZES,
    say: Say = lambda line: None,
) -> list[Runtime]:
    """Tables 7 and 13: the network beside ``sampling`` at (0.1, 0.05) and ``conditioned``, on the same formulas.

    Processor seconds, so that other work on the machine counts less.
    """
    engines: dict[str, tuple[Callable[[DNF], Estimate], int]] = {
        "neural": (predict, 1),
        "sampling": (functools.partial(_run, "sampling"), 5),
        "conditioned": (functools.partial(_run, "conditioned"), 5),
    }
    out = []
    for run, _ in engines.values():  # what is loaded at first use is no part of the times
        run(paper(PaperSpec(100, 75, 5), np.random.default_rng(0)))
    for width in PAPER_RUNTIMES:
        for n in sizes:
            dnf = paper(PaperSpec(n, 3 * n // 4, width), random_stream(seed, Stream.RUNTIME_FORMULA, n, width))
            for name, (run, runs) in engines.items():
                out.append(Runtime(name, n, width, min(_seconds(run, dnf) for _ in range(runs)), runs))
            say(f"runtimes: n={n} w={width}")
    return out


def _run(name: str, dnf: DNF) -> Estimate:
    engine = find(name)
    guarantee, rng, limit = engine.guarantees[0], np.random.default_rng(0), Limit(threads=1)
    return engine.run(dnf, guarantee=guarantee, epsilon=0.1, delta=0.05, rng=rng, limit=limit)


def _seconds(run: Callable[[DNF], Estimate], dnf: DNF) -> float:
    start = time.process_time()
    run(dnf)
    return time.process_time() - start


def _labels(out: Path, seed: int) -> Labels:
    return Labels(out / "labels.csv", label, epsilon=EPSILON, delta=DELTA, seed=seed)


class _Measurer:
    """One network against its labels, in this process or in several."""

    def __init__(self, source: str, model: str, counter: NeuralCounter, labels: Labels, jobs: int) -> None:
        self.model, self.weights, self.labels = model, counter.digest[:8], labels
        self.counter, self.pool, self.open = counter, None, contextlib.ExitStack()
        if jobs > 1:
            start = (source, labels.path.parent, labels.seed)
            self.pool = self.open.enter_context(worker_pool(jobs, _start_worker, start))

    def __enter__(self) -> _Measurer:
        return self

    def __exit__(self, *error: object) -> None:
        self.open.close()

    def with_interval(self, row: Row) -> Row:
        """A row measured earlier, with the interval that would be shown now: calibration may have come between."""
        if self.counter.residuals is None:
            return replace(row, log_lower=-math.inf, log_upper=0.0)
        seed = self.labels.seed
        dnf = draw(example(row.set, row.index, row.shift, seed), seed)
        low, high, _ = self.counter.interval(dnf, min(row.log_prediction, 0.0), 0.05)
        return replace(row, log_lower=low, log_upper=high)

    def rows(self, examples: Sequence[Example]) -> Iterator[list[Row]]:
        """Rows as they are done; what was labelled on the way is saved with them."""
        if self.pool is None:
            for chunk in chunks(examples):
                yield _measure(self.counter, self.labels, self.model, self.weights, chunk)
                self.labels.save()
            return
        tasks = [self.pool.submit(_measure_in_worker, self.model, self.weights, chunk) for chunk in chunks(examples)]
        for task in as_completed(tasks):
            rows, fresh = task.result()
            for new in fresh:
                self.labels.add(new)
            self.labels.save()
            yield rows


_workers: list[tuple[NeuralCounter, Labels]] = []  # in a process of the pool: its own


def _start_worker(source: str, out: Path, seed: int) -> None:
    import torch

    from sharpdnf.learn.counter import NeuralCounter

    torch.set_num_threads(1)
    _workers.append((NeuralCounter.from_pretrained(source), _labels(out, seed)))


def _measure_in_worker(model: str, weights: str, examples: list[Example]) -> tuple[list[Row], list[Label]]:
    counter, labels = _workers[0]
    rows = _measure(counter, labels, model, weights, examples)
    fresh, labels.unsaved = labels.unsaved, []
    return rows, fresh


def _measure(
    counter: NeuralCounter, labels: Labels, model: str, weights: str, examples: Sequence[Example]
) -> list[Row]:
    return evaluate(model, weights, examples, labels, predict=counter.predict_many, conditioned=conditioned)


def _measure_set(path: Path, examples: Sequence[Example], measurer: _Measurer, say: Say) -> None:
    """Measures what the file has not got from these weights, and drops rows of the set that are not asked for."""
    name, wanted = examples[0].set, {(what.index, what.shift) for what in examples}
    others, own = [], []
    for row in read_records(path, Row):
        if (row.model, row.set) != (measurer.model, name):
            others.append(row)
        elif row.weights == measurer.weights and (row.index, row.shift) in wanted:
            own.append(measurer.with_interval(row))
    done = {(row.index, row.shift) for row in own}
    missing = [what for what in examples if (what.index, what.shift) not in done]
    saved = began = time.monotonic()
    try:
        for rows in measurer.rows(missing):
            own += rows
            now = time.monotonic()
            left = (now - began) / (len(own) - len(done)) * (len(examples) - len(own))
            say(f"{measurer.model} on {name}: {len(own)}/{len(examples)} formulas, {left / 60:.0f} min left")
            if now - saved > SAVE_SECONDS:
                _write_rows(path, others + own)
                saved = now
    finally:  # an interrupt loses nothing that was done
        _write_rows(path, others + own)


def _write_rows(path: Path, rows: list[Row]) -> None:
    write_records(path, sorted(rows, key=lambda row: (row.model, row.set, row.index, row.shift)), Row)
