"""Networks: what an answer costs beside what it promises, on large random graphs, grids and public topologies.

The sampler's cost is told in passes over the links. A pass is one gather of a double from both ends of every link,
the least of several in the same run and process: the cheapest thing that can be called looking at all links. Public
topologies are read from a folder of .graphml files (``--topologies``), which is not part of this repository; where
graphillion is installed it answers the same all-terminal question, in a process of its own with a time limit.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.fronts import network
from sharpdnf.fronts.links import LinkNetwork, read_network

RESULTS = Path(__file__).parent / "results"
SEEDS = 3
TARGET_PASSES = 200
"""What the sampler may cost at (0.1, 0.05), in passes over the links."""
SECONDS = 600.0
"""The time limit of one answer, by the clock."""
RIVAL_SECONDS = 20
RIVAL_NODES = 20
"""graphillion is asked about topologies of at least this many nodes: below, both take milliseconds."""
RIVAL = """
import json, sys, time
from graphillion import GraphSet
links, nodes = json.load(sys.stdin)
started = time.process_time()
GraphSet.set_universe([tuple(link) for link in links])
answer = GraphSet.reliability({tuple(link): 0.99 for link in links}, nodes)
print(json.dumps([answer, time.process_time() - started]))
"""
COLUMNS = (
    *("part", "graph", "nodes", "links", "asked", "engine", "met", "answer", "lower", "upper", "samples", "seconds"),
    *("passes", "width", "graphillion", "graphillion_seconds"),
)
Row = dict[str, Any]


def random_network(links: int, p: float, directed: bool = False, node_prob: float | None = None) -> LinkNetwork:
    """Five links a node, so that most nodes are in one component at the probabilities used here."""
    rng = np.random.default_rng(links)
    ends = rng.integers(links // 5, size=(links, 2))
    works = None if node_prob is None else dict.fromkeys(np.unique(ends).tolist(), node_prob)
    return read_network(np.column_stack([ends, np.full(links, p)]), directed=directed, node_prob=works)


def grid(side: int, p: float) -> LinkNetwork:
    across = [(i * side + j, i * side + j + 1, p) for i in range(side) for j in range(side - 1)]
    return read_network(across + [(i * side + j, (i + 1) * side + j, p) for i in range(side - 1) for j in range(side)])


def seconds_of_a_pass(graph: LinkNetwork) -> float:
    """The least of several gathers of a double over all links, from both of their ends."""
    values, best = np.random.default_rng(0).random(graph.num_nodes), math.inf
    for _ in range(7):
        started = time.process_time()
        float((values[graph.tail] * values[graph.head] * graph.prob).sum())
        best = min(best, time.process_time() - started)
    return best


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    return call(), time.process_time() - started


def row(part: str, name: str, graph: LinkNetwork, asked: str, **options: Any) -> Row:
    """One reliability: what was promised, its interval, and its cost in seconds of the processor."""
    answer, seconds = timed(lambda: network.reliability(graph, **options, threads=1, timeout=SECONDS))
    rare = options.get("of") == "complement"
    shown = ("complement", "complement_lower", "complement_upper") if rare else ("prob", "lower", "upper")
    value, lower, upper = (getattr(answer, field) for field in shown)
    return {
        "part": part, "graph": name, "nodes": graph.num_nodes, "links": graph.num_links, "asked": asked,
        "engine": answer.engine, "met": answer.met, "answer": f"{value:.8g}", "lower": f"{lower:.8g}",
        "upper": f"{upper:.8g}", "samples": answer.samples, "seconds": f"{seconds:.3f}",
        "width": answer.info.get("width", ""),
    }  # fmt: skip


def large(links: int) -> Iterator[Row]:
    """Graphs that are only ever sampled, with their cost in passes."""
    relative = "relative (0.1, 0.05)"
    kinds: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("", {}, {}),
        ("directed, ", {"directed": True}, {}),
        ("nodes 0.9, ", {"node_prob": 0.9}, {}),
        ("8 hops, ", {}, {"hops": 8}),
        ("10 hops, ", {}, {"hops": 10}),
    ]
    for kind, made, options in kinds:
        for p in (0.3, 0.6, 0.95):
            graph = random_network(links, p, **made)
            one = seconds_of_a_pass(graph)
            # The node that comes last in the list has few links, and of a directed graph none that leads to it.
            last = int(graph.head[links // 2]) if graph.directed else graph.num_nodes - 1
            ends = {"source": graph.nodes[0], "target": graph.nodes[last]}
            for seed in range(SEEDS if not kind else 1):
                found = row("large", f"random, {kind}p={p}", graph, relative, **ends, **options, rng=seed)
                yield {**found, "passes": f"{float(found['seconds']) / one:.0f}"}
    yield from whole(random_network(links, 0.6))


def whole(graph: LinkNetwork) -> Iterator[Row]:
    """All nodes at once, and the expected number of nodes."""
    one, common = seconds_of_a_pass(graph), {"nodes": graph.num_nodes, "links": graph.num_links, "part": "large"}
    asked: dict[str, Any] = {"epsilon": 0.1, "delta": 0.05, "rng": 1, "threads": 1}
    table, seconds = timed(lambda: network.reached(graph, graph.nodes[0], **asked))
    yield {
        **common, "graph": "random, p=0.6, every node", "asked": "additive (0.1, 0.05) each", "engine": "reach",
        "met": table["met"], "answer": f"mean {table['prob'].mean():.6g}", "samples": table["samples"],
        "seconds": f"{seconds:.3f}", "passes": f"{seconds / one:.0f}",
    }  # fmt: skip
    found, seconds = timed(lambda: network.expected_reached(graph, graph.nodes[0], **asked))
    yield {
        **common, "graph": "random, p=0.6, expected number", "asked": "additive (0.1, 0.05) of the nodes",
        "engine": "reach", "met": found.met, "answer": f"{found.value:.8g}", "lower": f"{found.lower:.8g}",
        "upper": f"{found.upper:.8g}", "samples": found.samples, "seconds": f"{seconds:.3f}",
        "passes": f"{seconds / one:.0f}",
    }  # fmt: skip


def grids() -> Iterator[Row]:
    for side in (6, 8, 10, 12):
        graph = grid(side, 0.9)
        ends = {"source": 0, "target": side * side - 1}
        yield row("grid", f"{side} x {side}", graph, "exact, all nodes", guarantee="exact")
        yield row("grid", f"{side} x {side}", graph, "exact, two corners", guarantee="exact", **ends)
    for p in (1.0 - 1.6e-5, 1.0 - 2.2e-5):
        graph = grid(20, p)
        asked = {"guarantee": "relative", "of": "complement", "rng": 1}
        yield row("rare failure", f"20 x 20, links fail with {1 - p:.2g}", graph, "1 - R, all nodes", **asked)
        corners = {"source": 0, "target": 399}
        yield row(
            "rare failure", f"20 x 20, links fail with {1 - p:.2g}", graph, "1 - R, two corners", **asked, **corners
        )


def topologies(folder: Path) -> Iterator[Row]:
    """Every network of a folder, its largest component, links that work with 0.99: all nodes, and two far ones."""
    import networkx as nx

    for path in sorted(folder.rglob("*.graphml")):
        graph = nx.Graph(nx.read_graphml(path))
        graph.remove_edges_from(nx.selfloop_edges(graph))
        if graph.number_of_edges() == 0:
            continue
        graph = graph.subgraph(max(nx.connected_components(graph), key=len))
        read = read_network([(u, v, 0.99) for u, v in graph.edges()])
        found = row("topology", path.stem, read, "exact, all nodes", guarantee="exact")
        if read.num_nodes >= RIVAL_NODES:
            found |= rival([list(edge) for edge in graph.edges()], list(graph))
        yield found
        first = next(iter(graph))
        last = list(nx.bfs_tree(graph, first))[-1]
        yield row("topology", path.stem, read, "exact, two nodes", guarantee="exact", source=first, target=last)


def rival(links: list[list[str]], nodes: list[str]) -> Row:
    """What graphillion answers to the all-terminal question, or why it does not."""
    try:
        ran = subprocess.run(
            [sys.executable, "-c", RIVAL], input=json.dumps([links, nodes]), capture_output=True, text=True,
            timeout=RIVAL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"graphillion": f"not in {RIVAL_SECONDS} s", "graphillion_seconds": ""}
    if ran.returncode != 0:
        return {"graphillion": (ran.stderr.strip().splitlines() or ["ended"])[-1][:60], "graphillion_seconds": ""}
    answer, seconds = json.loads(ran.stdout)
    return {"graphillion": f"{answer:.8g}", "graphillion_seconds": f"{seconds:.3f}"}


def summary(rows: list[Row]) -> list[str]:
    """The sentences that stand above the table."""
    passes = [float(r["passes"]) for r in rows if r["part"] == "large" and "relative" in r["asked"]]
    out = []
    if passes:
        met = sum(x <= TARGET_PASSES for x in passes)
        out.append(
            f"Relative answers at (0.1, 0.05): {met} of {len(passes)} within {TARGET_PASSES} passes, the median "
            f"{np.median(passes):.0f}, the most {max(passes):.0f}. An answer R needs 385 / R worlds, 512 to a search."
        )
    public = [r for r in rows if r["part"] == "topology"]
    if public:
        slow = max(public, key=lambda r: float(r["seconds"]))
        wide = [r for r in public if r["width"] != "" and int(r["width"]) <= 12]
        out.append(
            f"Public topologies: {sum(bool(r['met']) for r in public)} of {len(public)} answers exact, the largest of "
            f"{max(r['nodes'] for r in public)} nodes; the slowest is {slow['graph']} ({slow['nodes']} nodes, width "
            f"{slow['width']}) with {slow['seconds']} s; of width up to 12 the slowest took "
            f"{max(float(r['seconds']) for r in wide):.3f} s."
        )
        both = [r for r in public if r.get("graphillion_seconds")]
        none = [r for r in public if r.get("graphillion") and not r["graphillion_seconds"]]
        if both:
            apart = max(abs(float(r["graphillion"]) - float(r["answer"])) for r in both)
            ours, its = (sum(float(r[c]) for r in both) for c in ("seconds", "graphillion_seconds"))
            out.append(
                f"graphillion answered {len(both)} of the {len(both) + len(none)} it was asked, at most {apart:.1g} "
                f"apart from ours, in {its:.2f} s where we took {ours:.2f} s."
            )
    return out


def write(rows: list[Row]) -> None:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    with (RESULTS / "network.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*COLUMNS, "commit", "machine"], restval="")
        writer.writeheader()
        writer.writerows({**r, "commit": commit.stdout.strip(), "machine": machine} for r in rows)
    shown = [r for r in rows if r["part"] != "topology" or r["nodes"] >= 100]
    lines = [
        "# Networks", "",
        "Written by `make bench-network`; seconds are those of one processor. A pass is one gather of a",
        "double from both ends of every link, measured in the same run. Topologies below 100 nodes are in the CSV.",
        "", *(line for sentence in summary(rows) for line in (sentence, "")),
        "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|",
    ]  # fmt: skip
    lines += ["| " + " | ".join(str(r.get(name, "")) for name in COLUMNS) + " |" for r in shown]
    (RESULTS / "network.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=1_000_000, help="links of the random graphs")
    parser.add_argument("--topologies", type=Path, help="a folder of .graphml files")
    asked = parser.parse_args()
    rows: list[Row] = []
    parts = [large(asked.links), grids()] + ([topologies(asked.topologies)] if asked.topologies else [])
    for part in parts:
        for found in part:
            rows.append(found)
            print(f"{found['part']}: {found['graph']}, {found['asked']}: {found['seconds']} s", file=sys.stderr)
    write(rows)


if __name__ == "__main__":
    main()
