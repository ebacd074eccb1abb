"""The paper's experiments from end to end: formulas, labels, networks, rows, report.

Unless ``full`` is asked for, the sets are seeded stratified subsets, whose sizes the report states. What is measured is
kept (see ``measure``): a run that was killed goes on, and new weights are measured anew.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.errors import CheckpointError, needs_extra
from sharpdnf.estimate import Estimate
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.paper.evaluate import figure_members, run_engine, trace_rows
from sharpdnf.paper.measure import Measurer, Say, measure_set, open_labels
from sharpdnf.paper.outside import OUTSIDE
from sharpdnf.paper.published import PAPER_RUNTIMES, RUNTIME_SIZES
from sharpdnf.paper.records import Runtime, Trace, write_records
from sharpdnf.paper.report import write_report
from sharpdnf.paper.sets import subset
from sharpdnf.streams import Stream, random_stream

GROUPS: dict[str, tuple[str, ...]] = {
    "training": ("train",),
    "structure": ("structure",),
    "size": ("size-10000", "size-15000"),
    "other": ("fully-privileged", "uniform"),
    "code": ("structure-code", "size-code"),
    "outside": tuple(OUTSIDE),
    "trace": (),
    "runtime": (),
}
"""What can be asked for, and the sets of formulas it needs."""
SUBSET = {
    "train": 327,
    "structure": 1308,
    "size-10000": 348,
    "size-15000": 116,
    "fully-privileged": 327,
    "uniform": 327,
    "structure-code": 327,
    "size-code": 464,
    **dict.fromkeys(OUTSIDE, 100),
}
"""How many formulas of each set are measured, unless everything is asked for."""
SUBSETS: dict[str, dict[str, int]] = {
    "t2": {"train": 327, "structure": 1308, "size-10000": 348, "size-15000": 116},
    "t32": {"train": 327, "structure": 1308, "size-10000": 348, "size-15000": 116},
}
"""The same for the ablations, which are measured on the paper's own sets only."""


def reproduce(
    out: Path,
    *,
    groups: Sequence[str] = tuple(GROUPS),
    models: Sequence[str] | None = None,
    full: bool = False,
    limit: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    say: Say = lambda line: None,
) -> list[Path]:
    """Measures the groups with the networks (default: all that are shipped) and writes CSVs, tables and figures.

    ``jobs`` processes take the formulas in turn; runtimes are measured by one. ``limit`` is for a first look: about so
    many formulas of each set, and of runtimes and traces the small ones; rows that are there already stay.
    """
    with needs_extra("reproducing the paper", "train"):
        from sharpdnf.learn.counter import NeuralCounter, shipped
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"no set {unknown[0]!r}: choose from {', '.join(GROUPS)}")
    chosen = list(models or shipped())
    if not chosen:
        raise CheckpointError("no network is shipped with this build: name a directory of weights")
    counters = {model_name(name): NeuralCounter.from_pretrained(name) for name in chosen}
    if len(counters) < len(chosen):
        raise ValueError("two of the networks have the same name, and rows are kept by name: rename a directory")
    out.mkdir(parents=True, exist_ok=True)
    labels = open_labels(out, seed)
    for name, (model, counter) in zip(chosen, counters.items(), strict=True):
        sizes = SUBSETS.get(model, SUBSET)
        wanted = {s: subset(s, None if full else sizes[s], seed) for g in groups for s in GROUPS[g] if s in sizes}
        measurer = Measurer(name, model, counter, labels, jobs)
        for members in wanted.values():
            if limit is not None and limit < len(members):  # from small to large, from the middle of each part
                members = [members[int((i + 0.5) * len(members) / limit)] for i in range(limit)]  # noqa: PLW2901
            measure_set(out / "rows.csv", members, measurer, say, keep=limit is not None)
    main = next(iter(counters)) if "paper" not in counters else "paper"
    if "trace" in groups:
        largest = 500 if limit is None else 100
        pool = [m for m in subset("structure", SUBSET["structure"], seed) if m.num_vars <= largest]
        traces = trace_rows(main, figure_members(pool, labels), counters[main].trace)
        write_records(out / "traces.csv", traces, Trace)
        labels.save()
    if "runtime" in groups:
        measured = RUNTIME_SIZES if limit is None else RUNTIME_SIZES[:1]
        runtimes = measure_runtimes(counters[main].predict, seed=seed, sizes=measured, say=say)
        write_records(out / "runtimes.csv", runtimes, Runtime)
    return write_report(out, out)


def model_name(source: str) -> str:
    """What the rows of a network are called: its directory, and for ``run/best`` and ``run/final`` the run's too."""
    path = Path(source)
    return f"{path.parent.name}/{path.name}" if path.name in ("best", "final") and path.parent.name else path.name


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
        "sampling": (functools.partial(run_engine, "sampling"), 5),
        "conditioned": (functools.partial(run_engine, "conditioned"), 5),
    }
    out = []
    for run, _ in engines.values():  # one call ahead, so that loading at first use does not count
        run(paper(PaperSpec(100, 75, 5), np.random.default_rng(0)))
    for width in PAPER_RUNTIMES:
        for n in sizes:
            dnf = paper(PaperSpec(n, 3 * n // 4, width), random_stream(seed, Stream.RUNTIME_FORMULA, n, width))
            for name, (run, runs) in engines.items():
                out.append(Runtime(name, n, width, min(_seconds(run, dnf) for _ in range(runs)), runs))
            say(f"runtimes: n={n} w={width}")
    return out


def _seconds(run: Callable[[DNF], Estimate], dnf: DNF) -> float:
    start = time.process_time()
    run(dnf)
    return time.process_time() - start
