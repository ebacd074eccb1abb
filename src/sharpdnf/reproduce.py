"""The paper's experiments from end to end: formulas, labels, networks, rows, report.

Without ``full`` the sets are seeded stratified subsets, whose sizes the report states. What was labelled once is kept
in ``labels.csv`` beside the results, and every finished (network, set) is written at once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines import sampling
from sharpdnf.engines.registry import find
from sharpdnf.errors import CheckpointError, MissingExtra
from sharpdnf.estimate import Estimate, Limit
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.learn.composition import subset
from sharpdnf.learn.evaluate import Labels, evaluate, figure_examples, trace_rows
from sharpdnf.learn.residuals import Residuals
from sharpdnf.learn.rows import Row, Runtime, Trace, read_records, write_records
from sharpdnf.report import PAPER_RUNTIMES, RUNTIME_SIZES, write_report

EPSILON, DELTA = 0.005, 0.01
GROUPS: dict[str, tuple[str, ...]] = {
    "structure": ("train", "structure"),
    "size": ("size-10000", "size-15000"),
    "other": ("fully-privileged", "uniform"),
    "trace": (),
    "runtime": (),
}
"""What can be asked for, and the sets of formulas it needs."""
SUBSETS: dict[str, dict[str, int]] = {
    "paper": {
        "train": 163, "structure": 654, "size-10000": 29, "size-15000": 29, "fully-privileged": 163, "uniform": 163,
    },
    "t2": {"train": 163, "structure": 327, "size-10000": 29, "size-15000": 29},
    "t32": {"train": 41, "structure": 81, "size-10000": 10, "size-15000": 6},
}  # fmt: skip
"""Formulas by network and set when not everything is run; other networks are measured like ``paper``."""
Say = Callable[[str], None]


def reproduce(
    out: Path,
    *,
    groups: Sequence[str] = tuple(GROUPS),
    models: Sequence[str] | None = None,
    full: bool = False,
    seed: int = 0,
    say: Say = lambda line: None,
) -> list[Path]:
    """Measures the groups with the networks (default: all that are shipped) and writes CSVs, tables and figures."""
    try:
        from sharpdnf.learn.counter import NeuralCounter, shipped
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("sharpdnf"):
            raise
        raise MissingExtra("reproducing the paper", "train") from None
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"no set {unknown[0]!r}: choose from {', '.join(GROUPS)}")
    chosen = list(models or shipped())
    if not chosen:
        raise CheckpointError("no network is shipped with this build: name a directory of weights")
    counters = {Path(name).name: NeuralCounter.from_pretrained(name) for name in chosen}
    out.mkdir(parents=True, exist_ok=True)
    labels = Labels(out / "labels.csv", label, epsilon=EPSILON, delta=DELTA, seed=seed)
    for model, counter in counters.items():
        sizes = SUBSETS.get(model, SUBSETS["paper"])
        for name in (name for group in groups for name in GROUPS[group] if name in sizes):
            examples = subset(name, None if full else sizes[name], seed)
            progress = functools.partial(_show, say, f"{model} on {name}")
            rows = evaluate(
                model, examples, labels, predict=counter.predict_many, conditioned=conditioned, progress=progress
            )
            _replace(out / "rows.csv", rows, Row, lambda row, key=(model, name): (row.model, row.set) == key)  # type: ignore[misc]
    main = next(iter(counters)) if "paper" not in counters else "paper"
    if "trace" in groups:
        pool = [what for what in subset("structure", SUBSETS["paper"]["structure"], seed) if what.num_vars <= 500]
        traces = trace_rows(main, figure_examples(pool, labels), counters[main].trace)
        write_records(out / "traces.csv", traces, Trace)
    if "runtime" in groups:
        runtimes = measure_runtimes(counters[main].predict, seed=seed, say=say)
        write_records(out / "runtimes.csv", runtimes, Runtime)
    return write_report(out, out)


def calibrate(weights: Path, results: Path) -> int:
    """Puts the quantiles of a network's held-out residuals into its config.json; returns how many rows there were.

    The rows are those of ``results`` for the network of that directory's name, the training set left out.
    """
    from sharpdnf.learn.counter import NeuralCounter

    counter = NeuralCounter.from_pretrained(weights)
    rows = [row for row in read_records(results / "rows.csv", Row) if row.model == weights.name and row.set != "train"]
    if not rows:
        raise CheckpointError(f"{results / 'rows.csv'} has no rows of a network {weights.name!r}: reproduce them first")
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
            dnf = paper(PaperSpec(n, 3 * n // 4, width), np.random.default_rng([seed, n, width]))
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


def _show(say: Say, what: str, done: int, total: int) -> None:
    say(f"{what}: {done}/{total} formulas")


def _replace(path: Path, rows: list[Row], kind: type[Row], stale: Callable[[Row], bool]) -> None:
    """Puts new rows in the place of those measured before."""
    kept = [row for row in read_records(path, kind) if not stale(row)]
    write_records(path, sorted(kept + rows, key=lambda row: (row.model, row.set, row.index, row.shift)), kind)
