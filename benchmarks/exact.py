"""Exact answers on structured formulas, beside the public exact counters: ``make bench-exact``.

Every instance goes in turn to our engine, to pyganak and PySDD, to d4 and sharpSAT-TD where they are on PATH, and to a
sketch of min-fill bucket elimination in numpy. Each runs in a process of its own under a limit of processor seconds, so
that other work on the machine decides nothing; times are processor seconds of solving, without start-up and reading.
Rows go to ``results/exact.csv``, the table to ``results/exact.md``.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from exact_families import Instance, from_folder, instances

from sharpdnf import DNF, read, write

RESULTS = Path(__file__).parent / "results"
WALL = 30.0
"""Seconds by the clock for each processor second of the limit, after which a run is cut off and the output says so."""
START_UP = 1.0
"""Processor seconds that starting, importing and reading may take besides."""
Answer = tuple[float | None, float | None, int | None]
"""(probability, seconds, nodes), each None where there is none."""


# --- the competitors: each in a process of its own, which prints one line of JSON ------------------------------------


def run_sharpdnf(dnf: DNF, seconds: float) -> Answer:
    from sharpdnf import count
    from sharpdnf.engines.exact import compile as compile_dnf
    from sharpdnf.estimate import Limit

    count(DNF.from_clauses([[1, 2], [2, 3]]), engine="exact", threads=1)  # modules are loaded at the first call
    started = time.process_time()
    estimate = count(dnf, engine="exact", threads=1)
    spent = time.process_time() - started
    print("answer " + json.dumps([estimate.prob, spent, None]), flush=True)
    compiled = compile_dnf(dnf, Limit(deadline=time.monotonic() + seconds / 4)) if estimate.met else None
    return (estimate.prob if estimate.met else None), spent, (None if compiled is None else compiled.num_nodes)


def run_dtree(dnf: DNF, seconds: float) -> Answer:
    from sharpdnf import count

    started = time.process_time()
    estimate = count(dnf, engine="dtree", guarantee="exact", threads=1)
    return (estimate.prob if estimate.met else None), time.process_time() - started, int(estimate.info.get("nodes", 0))


def run_pyganak(dnf: DNF, seconds: float) -> Answer:
    import pyganak

    counter = pyganak.WeightedCounter(seed=1)
    counter.new_vars(dnf.num_vars)
    counter.add_clauses([[-x for x in clause] for clause in dnf.clauses()])
    for v, p in enumerate(dnf.prob.tolist(), 1):
        counter.set_lit_weight(v, p)
        counter.set_lit_weight(-v, 1.0 - p)
    started = time.process_time()
    miss = counter.count()
    return 1.0 - float(miss), time.process_time() - started, None


def run_pysdd(dnf: DNF, seconds: float) -> Answer:
    from pysdd.sdd import SddManager

    started = time.process_time()
    manager = SddManager(var_count=dnf.num_vars, auto_gc_and_minimize=True)
    whole = manager.false()
    for clause in dnf.clauses():
        term = manager.true()
        for literal in clause:
            term = term & manager.literal(literal)
        whole = whole | term
        whole.ref()
    counter = whole.wmc(log_mode=False)
    for v, p in enumerate(dnf.prob.tolist(), 1):
        counter.set_literal_weight(manager.literal(v), p)
        counter.set_literal_weight(manager.literal(-v), 1.0 - p)
    return float(counter.propagate()), time.process_time() - started, int(whole.size())


def run_sketch(dnf: DNF, seconds: float) -> Answer:
    """Min-fill bucket elimination as anyone would write it: P(no clause is true), table by table."""
    started = time.process_time()
    near: dict[int, set[int]] = {}
    tables: dict[int, list[tuple[list[int], np.ndarray[Any, Any]]]] = {v: [] for v in range(dnf.num_vars)}
    pending: list[tuple[list[int], np.ndarray[Any, Any]]] = []
    for clause in dnf.clauses():
        scope = [abs(x) - 1 for x in clause]
        for v in scope:
            near.setdefault(v, set()).update(scope)
        table = np.ones((2,) * len(scope))
        table[tuple(int(x > 0) for x in clause)] = 0.0
        pending.append((scope, table))
    for v, others in near.items():
        others.discard(v)

    def fill(v: int) -> int:
        return sum(1 for a, b in itertools.combinations(near[v], 2) if b not in near[a])

    scores = {v: fill(v) for v in near}
    for scope, table in pending:
        for v in scope:
            tables[v].append((scope, table))
    log_miss = 0.0
    while near:
        v = min(scores, key=scores.__getitem__)
        around = near.pop(v)
        del scores[v]
        if len(around) > 24 or time.process_time() - started > seconds:
            return None, None, None
        bag = [*sorted(around), v]
        axis = {u: i for i, u in enumerate(bag)}
        product = np.ones((2,) * len(bag))
        for scope, table in tables.pop(v):
            order = sorted(range(len(scope)), key=lambda i: axis[scope[i]])
            shape = [1] * len(bag)
            for i in order:
                shape[axis[scope[i]]] = 2
            product = product * np.transpose(table, order).reshape(shape)
            for u in scope:
                if u != v:
                    tables[u] = [t for t in tables[u] if t[1] is not table]
        message = product[..., 0] * (1.0 - dnf.prob[v]) + product[..., 1] * dnf.prob[v]
        top = float(message.max())
        log_miss += math.log(top) if top > 0.0 else -math.inf
        touched = set(around)
        for a in around:
            near[a].discard(v)
            near[a] |= around - {a}
        for a in around:
            touched |= near[a]
        for a in touched:
            scores[a] = fill(a)
        scaled = message / top
        for u in around:
            tables[u].append((bag[:-1], scaled))
    return 1.0 - math.exp(log_miss), time.process_time() - started, None


def run_command(command: list[str], marker: str) -> Callable[[DNF, float], Answer]:
    """A counter that reads a weighted CNF (of the negation) and prints its count after ``marker``."""

    def run(dnf: DNF, seconds: float) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "negated.cnf"
            lines = [f"p cnf {dnf.num_vars} {dnf.num_clauses}", "c t wmc"]
            for v, p in enumerate(dnf.prob.tolist(), 1):
                lines += [f"c p weight {v} {p!r} 0", f"c p weight -{v} {1.0 - p!r} 0"]
            lines += [" ".join(str(-x) for x in clause) + " 0" for clause in dnf.clauses()]
            path.write_text("\n".join(lines) + "\n")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=seconds, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found = [line.split()[-1] for line in done.stdout.splitlines() if marker in line]
        return (1.0 - float(found[-1]), spent, None) if found else (None, None, None)

    return run


SOLVERS: dict[str, Callable[[DNF, float], Answer]] = {
    "sharpdnf": run_sharpdnf,
    "dtree": run_dtree,
    "sketch": run_sketch,
    "pyganak": run_pyganak,
    "pysdd": run_pysdd,
    "d4": run_command(["d4", "-m", "counting", "--float", "1", "-i"], "s "),
    "sharpSAT-TD": run_command(["sharpSAT", "-WE", "-decot", "1", "-decow", "100", "-tmpdir", "/tmp"], "exact"),
}
ON_PATH = {"d4": "d4", "sharpSAT-TD": "sharpSAT"}


def worker(solver: str, path: str, seconds: float) -> None:
    dnf = read(path)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    prob, spent, nodes = SOLVERS[solver](dnf, seconds)
    print("answer " + json.dumps([prob, spent, nodes]))


def processor_seconds(pid: int) -> float:
    """Used so far by a child process, which may be over but has not been waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(solver: str, path: Path, seconds: float) -> Answer:
    """The solver's answer if it took at most so many processor seconds.

    The parent watches the limit: RLIMIT_CPU would make the child's own clock go by ticks of milliseconds.
    """
    command = [sys.executable, __file__, "--worker", solver, str(path), str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, env=environment)
        while child.poll() is None:
            time.sleep(0.02)
            if processor_seconds(child.pid) > START_UP + seconds:
                child.kill()
            elif time.monotonic() - started > WALL * seconds:
                child.kill()
                print(f"{solver} was cut off by the clock: the machine is too busy for a fair limit", flush=True)
        output.seek(0)
        found = [line.removeprefix("answer ") for line in output if line.startswith("answer ")]
    if not found:
        return None, None, None
    prob, spent, nodes = json.loads(found[-1])
    return (prob, spent, nodes) if spent is not None and spent <= seconds else (None, None, None)


def available() -> list[str]:
    return [name for name in SOLVERS if name not in ON_PATH or shutil.which(ON_PATH[name])]


# --- rows and table -------------------------------------------------------------------------------------------------


def stored(besides: str) -> list[dict[str, Any]]:
    """The rows of the last run, except those of one family."""
    with (RESULTS / "exact.csv").open(newline="") as file:
        rows: list[dict[str, Any]] = [row for row in csv.DictReader(file) if row["family"] != besides]
    for row in rows:
        row |= {key: int(row[key]) for key in ("solved", "agrees") if row[key]}
    return rows


def measure(seconds: float, chosen: Sequence[Instance], rows: list[dict[str, Any]]) -> None:
    """Adds to the rows and writes them and the table after every instance: a run cut short leaves what it has."""
    for family, name, make in chosen:
        dnf = make()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "formula.dnf"
            write(dnf, path)
            answers = {solver: ask(solver, path, seconds) for solver in available()}
        truth = answers["sharpdnf"][0]
        for solver, (prob, spent, nodes) in answers.items():
            solved = prob is not None
            agrees = (
                solved and truth is not None and math.isclose(float(prob or 0.0), truth, rel_tol=1e-6, abs_tol=1e-9)
            )
            rows.append(
                {
                    "family": family, "instance": name, "num_vars": dnf.num_vars, "num_clauses": dnf.num_clauses,
                    "solver": solver, "solved": int(solved), "seconds": "" if spent is None else f"{spent:.5f}",
                    "nodes": "" if nodes is None else nodes, "prob": "" if prob is None else f"{prob:.15g}",
                    "agrees": int(agrees) if solved and truth is not None else "",
                }
            )  # fmt: skip
        print(family, name, {s: a[1] for s, a in answers.items()}, flush=True)
        save(rows, seconds)


def save(rows: list[dict[str, Any]], seconds: float) -> None:
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "exact.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    (RESULTS / "exact.md").write_text(table(rows, seconds))


def table(rows: list[dict[str, Any]], seconds: float) -> str:
    solvers = list(dict.fromkeys(row["solver"] for row in rows))
    lines = [
        f"Processor seconds of solving, one thread ({platform.machine()}); - is not solved in {seconds:g} of them.",
        "Nodes are those of our smallest circuit and the size of the SDD.",
        "",
        "| family | instance | n | m | " + " | ".join(solvers) + " | our nodes | SDD |",
        "|---" * (6 + len(solvers)) + "|",
    ]
    for key in dict.fromkeys((row["family"], row["instance"]) for row in rows):
        by = {row["solver"]: row for row in rows if (row["family"], row["instance"]) == key}
        cells = [f"{float(by[s]['seconds']):.4f}" if by[s]["solved"] else "-" for s in solvers]
        first = by["sharpdnf"]
        sizes = [str(by[s]["nodes"]) if by[s]["nodes"] != "" else "-" for s in ("sharpdnf", "pysdd")]
        lines.append(
            "| " + " | ".join([*key, str(first["num_vars"]), str(first["num_clauses"]), *cells, *sizes]) + " |"
        )
    wrong = [row for row in rows if row["agrees"] == 0]
    lines += ["", f"Answers that differ from ours by more than 1e-6: {len(wrong)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each run")
    parser.add_argument("--family", help="measure this family alone; rows of the others stay as they are stored")
    parser.add_argument("--quick", action="store_true", help="leave the largest instances out")
    parser.add_argument("--folder", type=Path, help="measure the formula files of this folder besides")
    parser.add_argument("--worker", nargs=3, metavar=("SOLVER", "FILE", "SECONDS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        solver, path, seconds = arguments.worker
        worker(solver, path, float(seconds))
        return
    chosen = instances(arguments.quick) + (from_folder(arguments.folder) if arguments.folder else [])
    if arguments.family:
        chosen = [instance for instance in chosen if instance[0] == arguments.family]
    measure(arguments.seconds, chosen, stored(arguments.family) if arguments.family else [])
    print((RESULTS / "exact.md").read_text())


if __name__ == "__main__":
    main()
