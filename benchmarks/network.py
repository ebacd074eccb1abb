"""Networks: a graph of many links sampled, in passes over its links, and grids solved exactly, with error and time.

A pass is one gather over all links, measured in the same run, so that the figure does not depend on the machine.
"""

from __future__ import annotations

import argparse
import csv
import math
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.fronts import network
from sharpdnf.fronts.links import Network, read_network

RESULTS = Path(__file__).parent / "results"
SEEDS = 3
TARGET_PASSES = 200
"""What the sampler may cost at (0.1, 0.05), in passes over the links."""


def random_network(links: int, p: float) -> Network:
    """Five links a node, so that most nodes are in one component at the probabilities used here."""
    rng = np.random.default_rng(links)
    ends = rng.integers(links // 5, size=(links, 2))
    return read_network(np.column_stack([ends, np.full(links, p)]))


def grid(side: int, p: float) -> Network:
    across = [(i * side + j, i * side + j + 1, p) for i in range(side) for j in range(side - 1)]
    return read_network(across + [(i * side + j, (i + 1) * side + j, p) for i in range(side - 1) for j in range(side)])


def seconds_of_a_pass(graph: Network) -> float:
    """The least of several gathers of a double over all links, from both of their ends."""
    values, best = np.random.default_rng(0).random(graph.num_nodes), math.inf
    for _ in range(7):
        started = time.process_time()
        float((values[graph.tail] * values[graph.head] * graph.prob).sum())
        best = min(best, time.process_time() - started)
    return best


def row(name: str, graph: Network, method: str, **asked: Any) -> dict[str, Any]:
    """One answer: what was promised, its interval, and its cost in seconds of the processor and in passes."""
    one = seconds_of_a_pass(graph)
    started = time.process_time()
    answer = network.reliability(graph, **asked, threads=1)
    seconds = time.process_time() - started
    return {
        "graph": name, "nodes": graph.num_nodes, "links": graph.num_links, "asked": method, "engine": answer.engine,
        "met": answer.met, "prob": f"{answer.prob:.6g}", "complement": f"{answer.complement:.6g}",
        "lower": f"{answer.lower:.6g}", "upper": f"{answer.upper:.6g}", "samples": answer.samples,
        "seconds": f"{seconds:.3f}", "passes": f"{seconds / one:.1f}",
    }  # fmt: skip


def measure(links: int) -> list[dict[str, Any]]:
    out = []
    for p in (0.3, 0.6, 0.95):
        graph = random_network(links, p)
        ends = {"source": graph.nodes[0], "target": graph.nodes[-1]}
        for seed in range(SEEDS):
            out.append(row(f"random p={p}", graph, "relative (0.1, 0.05)", **ends, guarantee="relative", rng=seed))
    for side in (8, 10):
        out.append(row(f"grid {side} x {side}", grid(side, 0.9), "exact", guarantee="exact"))
    asked = {"guarantee": "relative", "of": "complement", "rng": 1}
    out.append(row("grid 16 x 16", grid(16, 1.0 - 1e-5), "relative (0.1, 0.05) of 1 - R", **asked))
    return out


def write(rows: list[dict[str, Any]]) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    with (RESULTS / "network.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "commit", "machine"])
        writer.writeheader()
        writer.writerows({**r, "commit": commit.stdout.strip(), "machine": machine} for r in rows)
    sampled = [float(r["passes"]) for r in rows if r["engine"] == "reach"]
    lines = ["# Networks", "", "Written by `make bench-network`; seconds are those of one processor, a pass is one"]
    lines += [
        "gather over all links in the same run.",
        "",
        "| " + " | ".join(rows[0]) + " |",
        "|---" * len(rows[0]) + "|",
    ]
    lines += ["| " + " | ".join(str(value) for value in r.values()) + " |" for r in rows]
    if sampled:
        lines += ["", f"Most passes of a sampled answer: {max(sampled):.0f} (to reach: {TARGET_PASSES})."]
    (RESULTS / "network.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=1_000_000, help="links of the random graphs")
    write(measure(parser.parse_args().links))
