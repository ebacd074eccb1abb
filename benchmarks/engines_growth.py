"""Growth with the number of literals, memory at 10^7 of them, and the speed of reading."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from engines_report import Row, Target

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.front import count
from sharpdnf.formats import read, write
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.simplify import simplify

WIDTH, RATIO = 21, 0.45  # the sum of clause probabilities stays below 1: the problem does not get easier as it grows

# Run by a process of its own, so that its peak is that of the work and of nothing else.
COUNT_FILE = """
import json, pathlib, re, sys, time
from sharpdnf import count, read
from sharpdnf.simplify import simplify
start = time.process_time()
dnf = read(sys.argv[1])
simplify(dnf)
estimate = count(dnf, engine="sampling", epsilon=0.1, delta=0.05, rng=1, threads=1)
seconds = time.process_time() - start
peak = re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())  # getrusage counts the parent too
print(json.dumps({"literals": dnf.num_literals, "met": estimate.met, "seconds": seconds, "gb": int(peak[1]) / 2**20}))
"""


def sized(literals: int) -> DNF:
    """A formula of the paper's plain family with about that many literals: n about 0.1 of them."""
    m = literals // WIDTH
    return paper(PaperSpec(math.ceil(m / RATIO), m, WIDTH, privileged=False), np.random.default_rng(literals))


def grouped(literals: int) -> DNF:
    """As many literals in clauses of neighbouring variables, as lineage and paths come: memory is read in order."""
    m = literals // WIDTH
    n = math.ceil(m / RATIO)
    rng = np.random.default_rng(literals)
    start = np.sort(rng.integers(0, max(1, n - 4 * WIDTH), size=m))
    variables = start[:, None] + np.cumsum(rng.integers(1, 5, size=(m, WIDTH)), axis=1) - 1
    signed = 2 * variables + rng.integers(2, size=(m, WIDTH))
    indptr = np.arange(m + 1, dtype=np.int64) * WIDTH
    return DNF.trusted(indptr, signed.astype(np.int32).ravel(), rng.random(n))


def growth(largest: int) -> tuple[list[Row], list[Target]]:
    """Processor seconds from 10^4 literals up, and the slope of their logarithms."""
    rows: list[Row] = []
    for family, make in (("growth, paper", sized), ("growth, neighbours", grouped)):
        size = 10_000
        while size <= largest:
            rows += _measure(make(size), family, repeats=7 if size <= 10**5 else 3 if size < 10**7 else 2)
            print(f"{family}: {size:,} literals done", flush=True)
            size *= 10 if largest > 10**6 else 3
    targets = []
    for family in ("growth, paper", "growth, neighbours"):
        for engine in ("pass", "sampling", "simplify", "conditioned", "bounds"):
            mine = [r for r in rows if r.engine == engine and r.family == family]
            slope = float(np.polyfit(np.log([r.m * r.w for r in mine]), np.log([r.seconds for r in mine]), 1)[0])
            name = f"{family}: slope of log time in log literals, {engine}"
            targets.append(Target(name, slope, "info" if engine == "pass" else "<=", 1.1))
    return rows, targets


def _measure(dnf: DNF, family: str, repeats: int) -> list[Row]:
    runs: dict[str, Callable[[], object]] = {
        "pass": lambda: _native.clause_probs(*dnf.arrays),
        "simplify": lambda: simplify(dnf),
        "sampling": lambda: count(dnf, engine="sampling", rng=1, threads=1),
        "conditioned": lambda: count(dnf, engine="conditioned"),
        "bounds": lambda: count(dnf, engine="bounds"),
    }
    best = dict.fromkeys(runs, math.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    n, m = dnf.num_vars, dnf.num_clauses
    return [Row(name, family, n, m, WIDTH, 1, s, 0, math.nan, s / best["pass"]) for name, s in best.items()]


def large_file(literals: int) -> list[Target]:
    """A file of that many literals: the peak of a process that reads, simplifies and counts it; the speed of reading.

    The same bytes are copied in memory for comparison.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "large.dnf"
        write(sized(literals), path)
        done = subprocess.run([sys.executable, "-c", COUNT_FILE, str(path)], capture_output=True, text=True, check=True)
        text = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        copied = np.empty_like(text)
        best = {"read": math.inf, "copy": math.inf}
        for _ in range(3):
            start = time.process_time()
            np.copyto(copied, text)
            best["copy"] = min(best["copy"], time.process_time() - start)
            start = time.process_time()
            read(path)
            best["read"] = min(best["read"], time.process_time() - start)
    seen = json.loads(done.stdout)
    if not seen["met"]:
        raise SystemExit("the large formula was not counted within its guarantee")
    name = f"{seen['literals']:,} literals read, simplified, counted"
    return [
        Target(f"{name}: GB at the peak", seen["gb"], "<=", 4.0),
        Target(f"{name}: processor seconds", seen["seconds"], "info", math.nan),
        Target("reading: MB a processor second", text.nbytes / best["read"] / 1e6, ">=", 100.0),
        Target("reading: times a copy of the same bytes in memory", best["read"] / best["copy"], "info", math.nan),
    ]
