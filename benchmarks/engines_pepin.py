"""Against pepin, if its binary is on PATH: equal nominal guarantee, and equal delivered error.

Its rows have a file of their own, written only when pepin ran: a machine without it keeps those of the last run that
had it, and says of which commit they are.
"""

from __future__ import annotations

import math
import re
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from engines_report import Row, Target, read_rows, write_rows

from sharpdnf.dnf import DNF
from sharpdnf.engines.front import count
from sharpdnf.formats import write
from sharpdnf.generate import PaperSpec, paper

N, SEEDS = 15_000, 5
ANSWER = re.compile(r"weighted no\. solutions: (\S+)")


def weighted(w: int) -> DNF:
    """Probabilities in thousandths: pepin takes fractions of 16-bit numbers."""
    dnf = paper(PaperSpec(N, math.ceil(0.75 * N), w, privileged=False), np.random.default_rng([w, 7]))
    return DNF.trusted(dnf.indptr, dnf.literals, np.clip(np.round(dnf.prob * 1000), 1, 999) / 1000)


def run_pepin(binary: str, dnf: DNF, seed: int = 1) -> tuple[float, float]:
    """(processor seconds, the answer) at (0.1, 0.05)."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "formula.dnf"
        write(dnf, path, dialect="pepin")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [binary, "--epsilon", "0.1", "--delta", "0.05", "--seed", str(seed), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found = ANSWER.search(done.stdout)
    if found is None:
        raise SystemExit("pepin printed no weighted count: is this version 1.4?")
    return seconds, float(found.group(1))


def ours(dnf: DNF, epsilon: float) -> tuple[float, list[float], int]:
    """(least processor seconds of a call over the seeds, the answers, samples)."""
    best, answers, samples = math.inf, [], 0
    for seed in range(SEEDS):
        start = time.process_time()
        estimate = count(dnf, engine="sampling", epsilon=epsilon, delta=0.05, rng=seed, threads=1)
        best = min(best, time.process_time() - start)
        answers.append(estimate.prob)
        samples = estimate.samples
    return best, answers, samples


def compare_pepin(binary: str, widths: list[int]) -> list[Row]:
    rows: list[Row] = []
    for w in widths:
        dnf = weighted(w)
        reference = count(dnf, engine="sampling", epsilon=0.003, delta=0.05, rng=99).prob
        seconds, answer = run_pepin(binary, dnf)
        # One answer is a noisy measure of an error, and a lucky one would ask for an absurd match: pepin's mean
        # relative error at (0.1, 0.05) is about 0.009, and ours is held to the smaller of that and what it showed.
        error = abs(answer / reference - 1)
        matched = min(0.009, max(error, 0.003))
        # |error| of sampling to k successes is sqrt(2 / (pi k)) in the mean, and k about (1.96 / epsilon)^2.
        epsilon = 1.96 / math.sqrt(2.0 / (math.pi * matched**2))
        rows.append(Row("pepin", "plain", N, dnf.num_clauses, w, 1, seconds, 0, error, math.nan))
        for name, asked in (("sampling vs pepin", 0.1), ("sampling at pepin's error", epsilon)):
            best, answers, samples = ours(dnf, asked)
            mine = float(np.mean([abs(a / reference - 1) for a in answers]))
            rows.append(Row(name, "plain", N, dnf.num_clauses, w, 1, best, samples, mine, math.nan))
        print(f"pepin w={w} done", flush=True)
    return rows


def pepin_targets(rows: list[Row], when: str) -> list[Target]:
    def times_faster(name: str) -> list[float]:
        seconds = {r.w: r.seconds for r in rows if r.engine == "pepin"}
        return [seconds[r.w] / r.seconds for r in rows if r.engine == name]

    nominal, delivered = times_faster("sampling vs pepin"), times_faster("sampling at pepin's error")
    return [
        Target(f"pepin{when}: times faster at equal guarantee, least", min(nominal), ">=", 100.0),
        Target(f"pepin{when}: times faster at equal delivered error, median", float(np.median(delivered)), ">=", 10.0),
        Target(f"pepin{when}: times faster at equal delivered error, least", min(delivered), ">=", 1.0),
    ]


def pepin_rows(widths: list[int], path: Path, commit: str, machine: str) -> tuple[list[Row], list[Target], str]:
    """(rows, targets, what to say): measured here if there is a binary, else what ``path`` keeps of an earlier run."""
    binary = shutil.which("pepin")
    if binary is not None:
        rows = compare_pepin(binary, widths)
        if path.parent.is_dir():
            write_rows(path, rows, commit, machine)
        return rows, pepin_targets(rows, ""), f"`pepin` was run on weighted formulas with n = {N:,}."
    if not path.exists():
        return [], [], "No `pepin` binary is on PATH: it was not compared."
    rows, then, there = read_rows(path)
    words = f"No `pepin` binary is on PATH: its rows are of an earlier run, commit {then} on {there}."
    return rows, pepin_targets(rows, f" (earlier run, {then})"), words
