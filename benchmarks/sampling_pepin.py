"""Sampling beside pepin on the shapes where sampling was weak, at equal delivered error; needs ``pepin`` on PATH.

The families of ``sampling_weak.py``, their probabilities rounded to thousandths because pepin takes fractions of 16-bit
numbers. pepin runs at (0.1, 0.05) with several seeds and delivers some mean relative error; our ``sampling`` is asked
for the epsilon that delivers as much, and its own mean error stands beside it. Processor seconds of one thread, those
of pepin with the start of its process and reading. Writes ``sampling_pepin.csv`` and ``.md`` into the directory given
by ``--out``.
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

SEEDS, TARGET = 3, 20.0
COLUMNS = (
    "family", "literals", "pepin_seconds", "pepin_error", "epsilon", "our_seconds", "our_error", "times",
    "times_equal_guarantee",
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


def measure(binary: str, name: str, literals: int) -> dict[str, object]:
    dnf = rounded(MAKERS[name](literals, np.random.default_rng([literals, len(name)])))
    truth = count(dnf, epsilon=0.002, delta=0.05, rng=99, threads=1).prob
    runs = [run_pepin(binary, dnf, seed) for seed in range(1, SEEDS + 1)]
    peer = float(np.mean([seconds for seconds, _ in runs]))
    error = float(np.mean([abs(answer / truth - 1.0) for _, answer in runs]))
    # |error| of sampling to k successes is sqrt(2 / (pi k)) in the mean, and k about (1.96 / epsilon)^2.
    epsilon = min(0.1, 1.96 * max(error, 1e-3) * math.sqrt(math.pi / 2.0))
    seconds, own = ours(dnf, epsilon, truth)
    quick, _ = ours(dnf, 0.1, truth)
    values = (name, dnf.num_literals, peer, error, epsilon, seconds, own, peer / seconds, peer / quick)
    return dict(zip(COLUMNS, values, strict=True))


def report(rows: list[dict[str, object]]) -> str:
    least = min(float(str(r["times"])) for r in rows)
    lines = [
        "# Sampling beside pepin where sampling was weak",
        "",
        f"Commit {commit()}, {machine()}. Made by `benchmarks/sampling_pepin.py`; pepin 1.4 at (0.1, 0.05),",
        f"{SEEDS} seeds; probabilities in thousandths. Times faster at pepin's error, and at equal guarantee.",
        "",
        "| family | literals | pepin s | its error | our epsilon | ours s | our error | times | at equal guarantee |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        cells = [f"{float(str(r[c])):.4g}" for c in COLUMNS[2:7]] + [f"{float(str(r[c])):.0f}" for c in COLUMNS[7:]]
        lines.append(f"| {r['family']} | {r['literals']:,} | " + " | ".join(cells) + " |")
    verdict = "reached" if least >= TARGET else "missed"
    return "\n".join([*lines, "", f"At least {least:.0f} times pepin at its error (aim {TARGET:.0f}, {verdict}).", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", help="only families whose name contains this")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000], help="literals, about")
    parser.add_argument("--out", type=Path, help="a directory for the results; nothing is written without")
    options = parser.parse_args()
    binary = shutil.which("pepin")
    if binary is None:
        raise SystemExit("no pepin on PATH")
    rows = []
    for name in MAKERS:
        if options.family and not any(part in name for part in options.family):
            continue
        for literals in options.sizes:
            rows.append(measure(binary, name, literals))
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
