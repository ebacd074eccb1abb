"""What ``auto`` gives by default over many families: how often the exact number, and in how many milliseconds.

Run by ``make bench-exact``. Every formula is counted with no option but a seed; the time is the processor time of the
second of two calls. Rows go to ``results/auto.csv``, the table by families to ``results/auto.md``.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from exact import RESULTS
from exact_families import chain, fault_tree, grid, join, paths

from sharpdnf import DNF, count, read
from sharpdnf.generate import generate, settings

HEAD = """`count(formula)` with no option, processor time, one thread.
The share of exact answers over all depends on the mix:
an earlier one of 248 formulas, 116 of them of the paper's family instead of 58, gave 51 % when it was last measured."""
EXAMPLES = Path(__file__).parent.parent / "examples"


def formulas() -> Iterator[tuple[str, DNF]]:
    """(family, formula), 248 of them; each is made from its own seed."""
    for n in (50, 100, 250, 500, 1_000):
        for width, m in dict(settings(n)).items():  # the most clauses that the paper has for a width
            for privileged in (False, True):
                rng = np.random.default_rng([n, width, privileged])
                asked = {"num_vars": n, "num_clauses": m, "width": width, "privileged": privileged}
                yield f"paper {'privileged' if privileged else 'plain'}", generate("paper", rng, **asked)
    for seed in range(24):
        rng = np.random.default_rng([1, seed])
        n = (20, 50, 100, 300)[seed % 4]
        ratio = (0.5, 1.0, 2.0)[seed % 3]
        yield "uniform", generate("uniform", rng, num_vars=n, num_clauses=int(ratio * n), width=3 + seed % 2)
    for seed in range(24):
        rng = np.random.default_rng([2, seed])
        size = (5, 10, 20, 40)[seed % 4]
        yield "join", generate("join", rng, num_left=size, num_right=size, density=(0.1, 0.3)[seed % 2])
    for seed in range(24):
        rng = np.random.default_rng([3, seed])
        rows, cols = ((3, 3), (3, 4), (4, 4), (3, 5))[seed % 4]
        yield "reliability", generate("reliability", rng, rows=rows, cols=cols)
    for seed in range(24):
        rng = np.random.default_rng([4, seed])
        n = (50, 100, 300, 1_000)[seed % 4]
        yield "hub", generate("hub", rng, num_vars=n, num_clauses=n // 2, width=4)
    for cols in (2, 3, 4, 5):
        for rows in (10, 30, 100, 300, 1_000):
            yield "ladder", grid(rows, cols)
    for length in (10, 20, 30, 50, 100, 200, 300, 500, 1_000, 3_000):
        yield "chain", chain(length, shuffle=False)
        yield "chain", chain(length, shuffle=True)
    for size in range(4, 13):
        yield "grid", grid(size, size)
    for left, density in ((10, 0.1), (10, 0.2), (20, 0.1), (20, 0.3), (50, 0.05), (100, 0.03)):
        yield "join, shuffled", join(left, left, density, False)
    for left in (10, 20, 35, 50, 75, 100, 150, 200):
        yield "join, skewed", join(left, left, 0.3, True)
    for size in range(2, 8):
        yield "paths", paths(size)
    for seed in range(1, 25):
        yield "fault tree", fault_tree(seed, 500)
    yield "network", read(EXAMPLES / "network.dnf")


def milliseconds(dnf: DNF) -> tuple[float, Any]:
    for _ in range(2):
        started = time.process_time()
        found = count(dnf, rng=1, threads=1)
        spent = time.process_time() - started
    return 1e3 * spent, found


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| family | formulas | exact | median ms | 95 % of them ms | most ms |", "|---|---|---|---|---|---|"]
    groups = [*dict.fromkeys(row["family"] for row in rows), "all"]
    for family in groups:
        group = [row for row in rows if family in (row["family"], "all")]
        ms = [row["ms"] for row in group]
        share = np.mean([row["exact"] for row in group])
        cells = [f"{np.median(ms):.2f}", f"{np.quantile(ms, 0.95):.2f}", f"{max(ms):.2f}"]
        lines.append("| " + " | ".join([family, str(len(group)), f"{100 * share:.0f} %", *cells]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    folder = parser.parse_args().out
    rows: list[dict[str, Any]] = []
    for family, dnf in formulas():
        ms, found = milliseconds(dnf)
        rows.append(
            {
                "family": family, "num_vars": dnf.num_vars, "num_clauses": dnf.num_clauses,
                "literals": dnf.num_literals, "exact": int(found.guarantee == "exact"), "engine": found.engine,
                "ms": round(ms, 4),
            }
        )  # fmt: skip
    folder.mkdir(exist_ok=True, parents=True)
    with (folder / "auto.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    text = f"{HEAD}\n\n{table(rows)}"
    (folder / "auto.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
