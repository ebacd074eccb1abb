"""The direct sampler of circuits: gate inputs x lanes a second on one core, and exact answers beside it.

Called by `make bench`. Writes benchmarks/results/circuits.csv: one row a circuit. Processor seconds, the least of five
repeats. To reach: 3e9 gate inputs x lanes a second.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path

import numpy as np

from sharpdnf import Builder, Circuit, _native
from sharpdnf.circuit_compile import bound_circuit
from sharpdnf.estimate import Limit

RESULTS = Path(__file__).parent / "results" / "circuits.csv"
LANES, BLOCKS, TARGET = 512, 200, 3e9
NO_COVER = (np.zeros(1, np.int64), np.zeros(0, np.int32))


def tangle(num_vars: int, gates: int, width: int, kinds: tuple[str, ...], seed: int = 0) -> Circuit:
    """Gates that read earlier ones at random, a third of them negated; the last fifty are outputs."""
    rng = np.random.default_rng(seed)
    b = Builder()
    pool = [b.var(None, float(p)) for p in rng.random(num_vars)]
    for _ in range(gates):
        read = [pool[int(i)] for i in rng.integers(0, len(pool), width)]
        read = [~gate if rng.random() < 0.3 else gate for gate in read]
        kind = str(rng.choice(kinds))
        pool.append(b.atleast(width // 2, *read) if kind == "atleast" else getattr(b, kind)(*read))
    return b.build(*pool[-50:])


def reach(length: int, width: int = 3) -> Circuit:
    """Reachability through layers: deep, narrow, and no small DNF."""
    b = Builder()
    layer = [b.const(True)] * width
    for step in range(length):
        edge = [[b.var(f"{step} {i} {j}", 0.7) for j in range(width)] for i in range(width)]
        layer = [b.or_(*(layer[i] & edge[i][j] for i in range(width) if abs(i - j) < 2)) for j in range(width)]
    return b.build(layer[0])


def majority(n: int) -> Circuit:
    b = Builder()
    return b.build(b.atleast(n // 2, *(b.var(None, p) for p in np.linspace(0.1, 0.9, n))))


CIRCUITS = {
    "and/or, 100 variables, 1,000 gates": lambda: tangle(100, 1_000, 4, ("and_", "or_")),
    "and/or, 1,000 variables, 3,000 gates": lambda: tangle(1_000, 3_000, 3, ("and_", "or_")),
    "at least 4 of 8, 100 variables, 1,000 gates": lambda: tangle(100, 1_000, 8, ("atleast",)),
    "at least 8 of 16, 1,000 variables, 1,000 gates": lambda: tangle(1_000, 1_000, 16, ("atleast",)),
    "reachability, 100 layers of 3": lambda: reach(100),
    "at least 50 of 100": lambda: majority(100),
}


def throughput(circuit: Circuit) -> float:
    """Gate inputs x lanes a second, random numbers included."""
    best = np.inf
    for _ in range(5):
        start = time.process_time()
        found = _native.circuit_sample(
            *circuit.arrays, circuit.prob, circuit.outputs, *NO_COVER, seed=1, first_block=0, successes=2**62,
            max_draws=LANES * BLOCKS, threads=1, seconds=60.0, marginals=False,
        )  # fmt: skip
        best = min(best, time.process_time() - start)
    return float(found.operations * LANES / best)


def main() -> None:
    rows = []
    for name, make in CIRCUITS.items():
        circuit = make()
        rate = throughput(circuit)
        start = time.process_time()
        found = bound_circuit(circuit, Limit(deadline=time.monotonic() + 5.0))
        seconds = time.process_time() - start
        exact = f"exact in {seconds:.3f} s, {found.nodes} nodes" if found.exact else f"bounds after {seconds:.1f} s"
        verdict = "reached" if rate >= TARGET else "MISSED"
        print(f"{name:<48} {rate:9.3g} gate inputs x lanes / s ({verdict}: {TARGET:.0e})   {exact}")
        rows.append(
            [name, circuit.num_vars, circuit.num_inputs, f"{rate:.4g}", found.exact, found.nodes, f"{seconds:.4f}"]
        )
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["circuit", "variables", "inputs", "inputs_lanes_per_second", "exact", "nodes", "seconds"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
