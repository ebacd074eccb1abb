"""`make bench-neural`: how fast the network is against what the machine can do, in one run.

Prints a line per measurement with its target, and writes benchmarks/results/neural.csv and neural_runtimes.csv.
Every figure is a ratio to something measured in the same run on the same thread; the runtime table is in seconds.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from sharpdnf.dnf import DNF
from sharpdnf.generate import WIDTHS, PaperSpec, UniformSpec, paper, uniform
from sharpdnf.learn.counter import NeuralCounter, shipped
from sharpdnf.learn.graph import Graph
from sharpdnf.learn.inference import run_in_blocks
from sharpdnf.learn.model import Network, NetworkConfig
from sharpdnf.paper.records import Runtime, write_records
from sharpdnf.paper.report import runtime_tables
from sharpdnf.paper.reproduce import measure_runtimes

RESULTS = Path(__file__).parent / "results"
ROWS, REPEATS = 1024, 20


def forward_flops(config: NetworkConfig, n: int, m: int) -> dict[int, float]:
    """Floating-point operations of the network's matrix products over n variables and m clauses, by output width.

    Per literal: M_l every iteration, L_l (three products to 4k) in all but the last. Per conjunction: L_c1 (two) and
    M_c every iteration; L_c2 (one: the disjunction's share is per formula) and M_c in all but the last.
    """
    k, t = config.k, config.iterations
    square, wide = 2 * k * k, 2 * k * 4 * k
    return {
        k: 2 * n * t * 4 * square + m * (2 * t - 1) * 4 * square,
        4 * k: 2 * n * (t - 1) * 3 * wide + m * (2 * t + t - 1) * wide,
    }


def fastest(run: Callable[[], object], runs: int = 5) -> float:
    """Processor seconds of the best of several runs on one thread, so that other work on the machine counts less."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def matmul_seconds(k: int, flops: dict[int, float]) -> float:
    """Seconds that plain float32 products of the network's shapes would take for that many operations."""
    total = 0.0
    for width, amount in flops.items():
        a, b, out = torch.randn(ROWS, k), torch.randn(k, width), torch.empty(ROWS, width)

        def products(a: torch.Tensor = a, b: torch.Tensor = b, out: torch.Tensor = out) -> None:
            for _ in range(REPEATS):
                torch.mm(a, b, out=out)

        total += fastest(products, 5) / REPEATS * amount / (2 * ROWS * k * width)
    return total


def batches() -> dict[str, Graph]:
    """Two training batches: one formula of every width of the paper, and many small narrow ones (fewest edges)."""
    return {
        "all widths": Graph.of([paper(PaperSpec(250, 187, width), np.random.default_rng(width)) for width in WIDTHS]),
        "small, w=5": Graph.of([paper(PaperSpec(100, 75, 5), np.random.default_rng(i)) for i in range(16)]),
    }


def train_step(forward: Callable[[Graph], tuple[torch.Tensor, torch.Tensor]], net: Network, graph: Graph) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-9)
    mean, std = forward(graph)
    (mean.square().mean() + std.mean()).backward()
    optimizer.step()
    net.zero_grad(set_to_none=True)


def peak_ratios(net: Network, graph: Graph) -> dict[str, float]:
    """Share of the matrix-product peak, and speed against PyTorch Geometric, on one batch."""
    from pyg_network import GeometricNetwork

    geometric = GeometricNetwork(net)
    flops = forward_flops(net.config, graph.num_vars, graph.num_clauses)

    def infer() -> None:
        with torch.inference_mode():
            list(run_in_blocks(net, graph))

    def infer_geometric() -> None:
        with torch.inference_mode():
            geometric(graph)

    with torch.inference_mode():
        mine, theirs = net(graph)[0], geometric(graph)[0]
    if not torch.allclose(mine, theirs, atol=1e-3):
        raise SystemExit("the PyTorch Geometric network answers differently: the comparison would mean nothing")
    rounds: list[tuple[float, float, float, float]] = []
    for _ in range(21):  # in turns, and the median of the ratios: the machine may be shared
        peak = matmul_seconds(net.config.k, flops)
        inference, training = fastest(infer, 1), fastest(lambda: train_step(net, net, graph), 1)
        peak = (peak + matmul_seconds(net.config.k, flops)) / 2
        slower = fastest(infer_geometric, 1), fastest(lambda: train_step(geometric, net, graph), 1)
        rounds.append((peak / inference, 3 * peak / training, slower[0] / inference, slower[1] / training))
    names = ("inference, share of matmul peak", "training, share of matmul peak")
    names += ("inference, times faster than PyG", "training, times faster than PyG")
    return dict(zip(names, np.median(rounds, axis=0).tolist(), strict=True))


def literal_slope(counter: NeuralCounter, largest: int) -> float:
    """Slope of log time against log literals, from 10^3 literals up."""
    literals = [10**e for e in range(3, 10) if 10**e <= largest]
    seconds = []
    for size in literals:
        m = size // 13
        dnf = uniform(UniformSpec(max(m * 4 // 3, 13), m, 13), np.random.default_rng(size))
        seconds.append(fastest(lambda dnf=dnf: counter.predict(dnf), 5 if size < 10**5 else 1))  # type: ignore[misc]
    return float(np.polyfit(np.log(literals), np.log(seconds), 1)[0])


def million() -> DNF:
    return paper(PaperSpec(1_000_000, 750_000, 3), np.random.default_rng(0))


def peak_memory_gb() -> float:
    """Peak memory of a process that estimates n = 1,000,000, m = 750,000, w = 3 with the shipped network."""
    done = subprocess.run([sys.executable, __file__, "--million"], check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure_million() -> None:
    _counter().predict(million())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _counter() -> NeuralCounter:
    return NeuralCounter.from_pretrained() if shipped() else NeuralCounter(Network())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million", action="store_true", help="only the memory measurement, in this process")
    parser.add_argument("--quick", action="store_true", help="literals to 10^5, no memory, no runtime table: a minute")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.million:
        measure_million()
        return
    torch.manual_seed(0)
    counter = _counter()
    targets = {
        "inference, share of matmul peak": (">=", 0.60),
        "training, share of matmul peak": (">=", 0.55),
        "inference, times faster than PyG": (">=", 1.2),
        "training, times faster than PyG": (">=", 1.2),
        "slope of time in literals": ("<=", 1.1),
        "GB for n=1,000,000 m=750,000 w=3": ("<=", 8.0),
    }
    measured = {
        f"{name} ({batch})": value
        for batch, graph in batches().items()
        for name, value in peak_ratios(counter.network, graph).items()
    }
    measured["slope of time in literals"] = literal_slope(counter, 10**5 if options.quick else 10**6)
    if not options.quick:
        measured["GB for n=1,000,000 m=750,000 w=3"] = peak_memory_gb()
    RESULTS.mkdir(exist_ok=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, 1 thread"
    with (RESULTS / "neural.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["commit", "machine", "measurement", "value", "target", "met"])
        for name, value in measured.items():
            sign, target = targets[name.partition(" (")[0]]
            met = value >= target if sign == ">=" else value <= target
            writer.writerow([commit(), machine, name, f"{value:.3f}", f"{sign} {target:g}", met])
            print(f"{name:<48} {value:7.2f}   target {sign} {target:g}   {'met' if met else 'NOT MET'}")
    if options.quick:
        return
    runtimes = measure_runtimes(counter.predict, say=lambda line: print(line, file=sys.stderr))
    write_records(RESULTS / "neural_runtimes.csv", runtimes, Runtime)
    print("\n" + runtime_tables(runtimes)[1].markdown())


if __name__ == "__main__":
    main()
