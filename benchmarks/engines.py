"""`make bench`: every engine's time beside its error, against one pass over the literals measured in the same run.

Writes benchmarks/results/engines.csv (one row per formula and engine), engines_pepin.csv where pepin is at hand,
engines_targets.csv, engines.md and engines.png; the last two are functions of the others. Times are processor seconds
on one thread, the least of several repeats that take turns with the pass, so that other work on the machine counts
less. `--quick` takes under a minute and writes nothing unless `--write` is given.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from engines_growth import growth, large_file
from engines_pepin import pepin_rows
from engines_report import FAMILIES, Row, Target, cell_targets, write_all

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.front import count
from sharpdnf.engines.registry import discover, find
from sharpdnf.engines.sampling import successes_needed
from sharpdnf.errors import SharpDNFError
from sharpdnf.estimate import Estimate
from sharpdnf.generate import WIDTHS, PaperSpec, paper

SIZES = (1_000, 5_000, 10_000, 15_000)
EPSILON, DELTA = 0.1, 0.05
REFERENCE_EPSILON = 0.005
APART = ("auto", "conditioned", "sampling", "exact-cnf")  # in every cell; and one whose work is another process's
OTHERS = [name for name in discover() if name not in APART]
OTHER_CELLS = ((1_000, 3), (1_000, 13), (5_000, 8), (15_000, 3), (15_000, 13), (15_000, 34))
Run = Callable[[], object]


def processor_seconds(run: Run, times: int = 1) -> float:
    start = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - start) / times


def in_turns(runs: dict[str, Run], repeats: int) -> dict[str, float]:
    """The least seconds of each, measured in turns; what is short is repeated within a measurement."""
    best = {name: processor_seconds(run) for name, run in runs.items()}
    for _ in range(repeats):
        for name, run in runs.items():
            times = max(1, min(50, int(2e-4 / max(best[name], 1e-7))))
            best[name] = min(best[name], processor_seconds(run, times))
    return best


def formula(n: int, w: int, family: str, index: int) -> DNF:
    rng = np.random.default_rng([n, w, family == "privileged", index])
    return paper(PaperSpec(n, math.ceil(0.75 * n), w, privileged=family == "privileged"), rng)


def sample_kernel(dnf: DNF, seed: int) -> tuple[int, float]:
    """The native part of ``sampling``: the plan and the draws. (draws, log S')"""
    found = _native.sample(
        *dnf.arrays,
        seed=seed,
        successes=successes_needed(EPSILON, DELTA),
        max_draws=2**62,
        threads=1,
        seconds=math.inf,
        estimator=0,
        marginals=False,
    )
    return found.draws, found.log_scale


def kernel_log_prob(dnf: DNF, seed: int) -> tuple[int, float]:
    """(draws, log P) as the engine makes it of the kernel's draws."""
    draws, log_scale = sample_kernel(dnf, seed)
    return draws, min(0.0, log_scale + math.log((successes_needed(EPSILON, DELTA) - 1) / (draws - 1)))


def relative_error(log_prob: float, log_reference: float) -> float:
    return abs(math.expm1(log_prob - log_reference))


def measure_formula(dnf: DNF, w: int, family: str, seed: int, repeats: int) -> Iterator[Row]:
    """The fast engines, their kernels, one pass and an empty call, in turns."""
    empty = DNF.from_clauses([])

    def call(engine: str) -> Estimate:
        return count(dnf, engine=engine, epsilon=EPSILON, delta=DELTA, rng=seed, threads=1)

    runs: dict[str, Run] = {
        "pass": lambda: _native.clause_probs(*dnf.arrays),
        "empty call": lambda: count(empty, rng=1),
        "sampling kernel": lambda: sample_kernel(dnf, seed),
        "conditioned kernel": lambda: _native.conditioned(*dnf.arrays, variables=8, seconds=math.inf),
        "sampling": lambda: call("sampling"),
        "auto": lambda: call("auto"),
        "conditioned": lambda: call("conditioned"),
    }
    seconds = in_turns(runs, repeats)
    reference = count(dnf, epsilon=REFERENCE_EPSILON, delta=DELTA, rng=99, threads=1).log_prob
    nothing = 0, math.nan
    answers = {"pass": nothing, "empty call": nothing, "sampling kernel": kernel_log_prob(dnf, seed)}
    answers["conditioned kernel"] = 0, _native.conditioned(*dnf.arrays, variables=8, seconds=math.inf)
    for engine in ("sampling", "auto", "conditioned"):
        estimate = call(engine)
        answers[engine] = estimate.samples, estimate.log_prob
    for name, (samples, log_prob) in answers.items():
        error = relative_error(log_prob, reference)
        passes = seconds[name] / seconds["pass"]
        yield Row(name, family, dnf.num_vars, dnf.num_clauses, w, 1, seconds[name], samples, error, passes)


def measure_others(dnf: DNF, w: int, family: str) -> Iterator[Row]:
    """The slower engines, once: klm as the paper states it, and those without a relative guarantee."""
    one_pass = in_turns({"pass": lambda: _native.clause_probs(*dnf.arrays)}, 5)["pass"]
    reference = count(dnf, epsilon=REFERENCE_EPSILON, delta=DELTA, rng=99, threads=1).log_prob
    for name in OTHERS:
        timeout = 0.2 if find(name).guarantees[0] == "exact" else 60.0
        try:
            start = time.process_time()
            estimate = count(dnf, engine=name, rng=1, threads=1, timeout=timeout)
            seconds = time.process_time() - start
        except (SharpDNFError, ImportError):
            continue
        error = relative_error(estimate.log_prob, reference)
        n, m = dnf.num_vars, dnf.num_clauses
        yield Row(name, family, n, m, w, 1, seconds, estimate.samples, error, seconds / one_pass)


def warm_up() -> None:
    """Imports what the engines import at their first call, and says which cannot run here."""
    for name in OTHERS:
        try:
            find(name)
            count(formula(1_000, 3, "plain", 99), engine=name, rng=1, threads=1, timeout=60.0)
        except (SharpDNFError, ImportError) as why:
            print(f"{name}: not measured ({why})", flush=True)


def klm_check_ns(repeats: int) -> Target:
    """Nanoseconds of one clause check of ``klm`` at n = 15,000, w = 3, plain and privileged: the worse."""
    trials, worst = 400_000, 0.0  # a few milliseconds: some repeats fall into a quiet moment of the machine
    for family in ("plain", "privileged"):
        arrays = formula(15_000, 3, family, 0).arrays
        run = functools.partial(_native.klm, *arrays, trials=trials, seed=1, seconds=math.inf)
        worst = max(worst, min(processor_seconds(run) for _ in range(repeats)) / trials * 1e9)
    return Target("klm: ns a clause check, n=15K w=3", worst, "<=", 20.0)


def threads_gain(repeats: int) -> Target:
    """Wall time of one thread over that of two, where there is work for two: epsilon 0.02 at n = 15,000, w = 13."""
    dnf = formula(15_000, 13, "plain", 0)
    best = {1: math.inf, 2: math.inf}
    for _ in range(repeats):
        for threads in (1, 2):
            start = time.perf_counter()
            count(dnf, engine="sampling", epsilon=0.02, rng=1, threads=threads)
            best[threads] = min(best[threads], time.perf_counter() - start)
    return Target("sampling: two threads, times faster by the wall clock", best[1] / best[2], "info", math.nan)


def machine() -> str:
    model = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores"


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells, small growth: under a minute")
    parser.add_argument("--write", action="store_true", help="write the results of a quick run too")
    parser.add_argument("--formulas", type=int, default=3, help="formulas a cell")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    quick, repeats = options.quick, 3 if options.quick else 5
    formulas = 1 if quick else options.formulas
    sizes, widths = ((1_000, 15_000), (3, 13, 34)) if quick else (SIZES, WIDTHS)
    rows: list[Row] = []
    targets: list[Target] = []
    words = "`pepin` was not reached."

    def save(*, say: bool = False) -> None:
        out = None if quick and not options.write else options.out
        write_all(rows, cell_targets(rows) + targets, words, commit(), machine(), out, say=say)

    for n in sizes:
        for w in widths:
            for family in FAMILIES:
                for index in range(formulas):
                    rows += measure_formula(formula(n, w, family, index), w, family, 1_000 * index + w, repeats)
            print(f"n={n:,} w={w} done", flush=True)
    targets += [klm_check_ns(6 * repeats), threads_gain(2 if quick else 5)]
    save()
    warm_up()
    for n, w in OTHER_CELLS[:1] if quick else OTHER_CELLS:
        for family in FAMILIES:
            for index in range(formulas):
                rows += measure_others(formula(n, w, family, index), w, family)
        print(f"other engines n={n:,} w={w} done", flush=True)
    save()
    grown, slopes = growth(10**5 if quick else 10**7)
    rows += grown
    targets += slopes
    save()
    targets += large_file(10**5 if quick else 10**7)
    save()
    kept = options.out / "engines_pepin.csv"
    against, compared, words = pepin_rows([34] if quick else [3, 13, 34], kept, commit(), machine())
    rows += against
    targets += compared
    save(say=True)


if __name__ == "__main__":
    main()
