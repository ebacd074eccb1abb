"""Sampling beside pepin on the shapes where sampling was weak, at equal delivered error; needs ``pepin`` on PATH.

The families of ``sampling_weak.py``, their probabilities rounded to thousandths because pepin takes fractions of 16-bit
numbers. pepin runs at (0.1, 0.05) with several seeds and delivers some mean relative error. Our ``sampling`` is asked
twice to match it: for the epsilon that a plain 0/1 estimator would need ("foreseen"; groups often deliver less error
than that), and for the largest of its doublings whose measured mean error is still at most pepin's ("delivered").
Processor seconds of one thread; what pepin takes on a formula of one clause is taken off its time. Writes
``sampling_pepin.csv`` and ``.md`` into the directory given by ``--out``.
"""

from __future__ import annotations

import argparse
import csv
import math
import shutil
import time
from pathlib import Path

import numpy as np
from engines import commit, machine
from engines_pepin import run_pepin
from sampling_weak import MAKERS

from sharpdnf.dnf import DNF
from sharpdnf.engines.front import count

SEEDS, TARGET = 10, 20.0
COLUMNS = (
    "family", "literals", "pepin_seconds", "pepin_error", "foreseen_seconds", "foreseen_error", "delivered_seconds",
    "delivered_error", "times_foreseen", "times_delivered", "times_equal_guarantee",
)  # fmt: skip


def rounded(dnf: DNF) -> DNF:
    return DNF.trusted(dnf.indptr, dnf.literals, np.clip(np.round(dnf.prob * 1000), 1, 999) / 1000)


def ours(dnf: DNF, epsilon: float, truth: float) -> tuple[float, float]:
    """(mean processor seconds of a call, mean relative error) over the seeds."""
    seconds, errors = 0.0, []
    for seed in range(4 * SEEDS):
        started = time.process_time()
        found = count(dnf, engine="sampling", epsilon=epsilon, delta=0.05, rng=seed, threads=1)
        seconds += time.process_time() - started
        errors.append(abs(found.prob / truth - 1.0))
    return seconds / (4 * SEEDS), float(np.mean(errors))


def measure(binary: str, name: str, literals: int, start: float) -> dict[str, object]:
    dnf = rounded(MAKERS[name](literals, np.random.default_rng([literals, len(name)])))
    truth = count(dnf, epsilon=0.002, delta=0.05, rng=99, threads=1).prob
    runs = [run_pepin(binary, dnf, seed) for seed in range(1, SEEDS + 1)]
    peer = float(np.mean([seconds for seconds, _ in runs])) - start
    error = float(np.mean([abs(answer / truth - 1.0) for _, answer in runs]))
    # |error| of sampling to k successes is sqrt(2 / (pi k)) in the mean, and k about (1.96 / epsilon)^2.
    epsilon = min(0.1, 1.96 * error * math.sqrt(math.pi / 2.0))
    foreseen = delivered = ours(dnf, epsilon, truth)
    while 2.0 * epsilon <= 0.1:
        epsilon *= 2.0
        wider = ours(dnf, epsilon, truth)
        if wider[1] > error:
            break
        delivered = wider
    quick, _ = ours(dnf, 0.1, truth)
    times = (peer / foreseen[0], peer / delivered[0], peer / quick)
    return dict(zip(COLUMNS, (name, dnf.num_literals, peer, error, *foreseen, *delivered, *times), strict=True))


def report(rows: list[dict[str, object]]) -> str:
    least = [min(float(str(r[column])) for r in rows) for column in COLUMNS[8:]]
    lines = [
        "# Sampling beside pepin where sampling was weak",
        "",
        f"Commit {commit()}, {machine()}. Made by `benchmarks/sampling_pepin.py`; pepin 1.4 at (0.1, 0.05),",
        f"{SEEDS} seeds; probabilities in thousandths. Times faster at pepin's error, and at equal guarantee.",
        "Where our error is 0 or next to it, simplification or certified bounds left nothing to draw.",
        "",
        "| family | literals | pepin s | its error | ours s, foreseen | error | ours s, delivered | error "
        "| times, foreseen | times, delivered | times, equal guarantee |",
        "|---" * 11 + "|",
    ]
    for r in rows:
        cells = [f"{float(str(r[c])):.2g}" for c in COLUMNS[2:8]] + [f"{float(str(r[c])):.0f}" for c in COLUMNS[8:]]
        lines.append(f"| {r['family']} | {r['literals']:,} | " + " | ".join(cells) + " |")
    verdict = "reached" if least[1] >= TARGET else "missed"
    lines += ["", f"At least {least[1]:.0f} times pepin at equal delivered error (aim {TARGET:.0f}, {verdict});"]
    return "\n".join([*lines, f"{least[0]:.0f} at the epsilon foreseen, {least[2]:.0f} at equal guarantee.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", help="only families whose name contains this")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000], help="literals, about")
    parser.add_argument("--out", type=Path, help="a directory for the results; nothing is written without")
    options = parser.parse_args()
    binary = shutil.which("pepin")
    if binary is None:
        raise SystemExit("no pepin on PATH")
    least = DNF.from_clauses([[1, 2]], [0.5, 0.5])
    start = min(run_pepin(binary, least, seed)[0] for seed in range(1, SEEDS + 1))
    rows = []
    for name in MAKERS:
        if options.family and not any(part in name for part in options.family):
            continue
        for literals in options.sizes:
            rows.append(measure(binary, name, literals, start))
            print(rows[-1], flush=True)
    text = report(rows)
    print(text)
    if options.out:
        with (options.out / "sampling_pepin.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        (options.out / "sampling_pepin.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
