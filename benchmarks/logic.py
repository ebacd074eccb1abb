"""Logic programs beside ProbLog itself: paths in grids and in a random graph, from a program's text to its answer.

Each solver runs in a process of its own under a limit of ``SECONDS`` by the clock; seconds are those of the processor,
of that process and those it starts. Writes results/logic.csv. Run by hand: ``python benchmarks/logic.py``.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np

SECONDS = 60.0
RULES = "path(X, Y) :- edge(X, Y).\npath(X, Y) :- edge(X, Z), path(Z, Y).\n"
SOLVERS = ("ProbLog", "exact", "relative")


def grid(side: int) -> str:
    """Both ways along the links of a grid, from one corner to the other: a program with circles."""
    facts = []
    for row in range(side):
        for column in range(side):
            here = f"n{row}_{column}"
            beside = [f"n{row}_{column + 1}"] * (column + 1 < side) + [f"n{row + 1}_{column}"] * (row + 1 < side)
            facts += [f"0.7::edge({here}, {other}). 0.7::edge({other}, {here})." for other in beside]
    return "\n".join([*facts, RULES, f"query(path(n0_0, n{side - 1}_{side - 1}))."])


def random_graph(edges: int) -> str:
    """Directed edges between random nodes, half as many nodes as edges."""
    rng = np.random.default_rng(1)
    ends = rng.integers(0, edges // 2, size=(edges, 2))
    facts = [f"{p:.2f}::edge(n{a}, n{b})." for (a, b), p in zip(ends, rng.uniform(0.4, 0.9, edges), strict=True)]
    return "\n".join([*facts, RULES, f"query(path(n{ends[0, 0]}, n{ends[-1, 1]}))."])


def solve(solver: str, program: str) -> tuple[float, float, float]:
    """(answer, lower and upper end)."""
    if solver == "ProbLog":
        from problog import get_evaluatable
        from problog.program import PrologString

        (answer,) = get_evaluatable().create_from(PrologString(program)).evaluate().values()
        return float(answer), float(answer), float(answer)
    from sharpdnf import problog

    (found,) = problog.query(program, guarantee=solver, timeout=SECONDS, rng=1).values()
    return (found.prob, found.lower, found.upper) if found.met else (float("nan"), found.lower, found.upper)


def run(solver: str, program: str, sender: object) -> None:
    sys.setrecursionlimit(100_000)
    try:
        answer = solve(solver, program)
    except BaseException as error:
        answer = (float("nan"), type(error).__name__, "")  # type: ignore[assignment]
    times = os.times()
    sender.send((*answer, times.user + times.system + times.children_user + times.children_system))  # type: ignore[attr-defined]


def limited(solver: str, program: str) -> tuple[object, object, object, object]:
    """As ``solve`` in a process of its own, with its processor seconds; "not in 60 s" where it had to be ended."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run, args=(solver, program, there))
    process.start()
    if here.poll(SECONDS + 10.0):
        found = here.recv()
    else:
        found = (f"not in {SECONDS:g} s", "", "", "")
        process.kill()
    process.join()
    return found


def main() -> None:
    programs = [(f"grid {side} x {side}", grid(side)) for side in (3, 4, 5, 6)]
    programs += [(f"random graph, {edges:,} edges", random_graph(edges)) for edges in (100, 10_000)]
    file = Path(__file__).parent / "results" / "logic.csv"
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["program", "solver", "answer", "lower", "upper", "seconds"])
        for name, program in programs:
            for solver in SOLVERS:
                row = [name, solver, *limited(solver, program)]
                print(*row, sep="\t", flush=True)
                table.writerow(row)
                out.flush()


if __name__ == "__main__":
    main()
