"""P(formula) and its gradient inside torch: sharpdnf.torch beside KLay, at equal formulas, in one run.

`make bench-torch` installs KLay 0.1.2 (klaycircuits), which evaluates diagrams of PySDD. Writes
benchmarks/results/gradients.csv, a row for each set of formulas and batch. Processor seconds on one thread, the least
of five repeats; both modules take probabilities in float32 and return log P with gradients. KLay is measured in its
default, the log semiring ("klay"), and in plain probabilities whose logarithm is taken at the end ("klay_real"), which
is faster and ends at 1e-38; without torch.compile, which took minutes a circuit on a processor. The errors are the
largest of log P and of the gradients, against doubles. To reach: 10 times KLay, forwards and backwards. No layer
written in Python takes less than "torch", a function that does nothing in either direction: where even that would be
less than 10 times as fast as KLay, the formula is too small for the mark.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sharpdnf import DNF, read
from sharpdnf.torch import Probability

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "gradients.csv"
REPEATS, TARGET = 5, 10.0
BATCHES = (1, 100)


def random_formulas(count: int, n: int, m: int, width: int) -> list[DNF]:
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], size=(count, m, width))
    clauses = [[(rng.choice(n, width, replace=False) + 1).tolist() for _ in range(m)] for _ in range(count)]
    signed = [(np.array(own) * sign).tolist() for own, sign in zip(clauses, signs, strict=True)]
    return [DNF.from_clauses(own, num_vars=n) for own in signed]


def grid(side: int) -> list[DNF]:
    """Monotone paths from corner to corner of a grid; a variable is an edge."""
    number: dict[tuple[int, int, int], int] = {}
    clauses = []
    for steps in range(1 << (2 * side - 2)):
        right = [steps >> i & 1 for i in range(2 * side - 2)]
        if sum(right) != side - 1:
            continue
        x = y = 0
        clause = []
        for step in right:
            clause.append(number.setdefault((x, y, step), len(number) + 1))
            x, y = x + step, y + 1 - step
        clauses.append(clause)
    return [DNF.from_clauses(clauses)]


CASES: dict[str, Callable[[], list[DNF]]] = {
    "two clauses": lambda: [DNF.from_clauses([[1, 2], [-1, 3]])],
    "network of 24 links": lambda: [read(HERE.parent / "examples" / "network.dnf")],
    "join of 42 rows": lambda: [read(HERE.parent / "examples" / "join.dnf")],
    "grid of 5 x 5": lambda: grid(5),
    "random, 30 variables, 25 clauses of 3": lambda: random_formulas(1, 30, 25, 3),
    "20 outputs, 20 variables, 10 clauses of 3 each": lambda: random_formulas(20, 20, 10, 3),
}


class Nothing(torch.autograd.Function):
    """The least that a layer costs: one output and one gradient, both zero, of the right shapes."""

    @staticmethod
    def forward(ctx: Any, probs: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(probs)
        return probs.new_zeros(len(probs), 1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (probs,) = ctx.saved_tensors
        return torch.zeros_like(probs)


def klay_circuit(formulas: list[DNF]) -> Any:
    import klay
    from pysdd.sdd import SddManager

    manager = SddManager(var_count=max(f.num_vars for f in formulas), auto_gc_and_minimize=True)
    circuit = klay.Circuit()
    for dnf in formulas:
        node = manager.false()
        for first, last in zip(dnf.indptr[:-1], dnf.indptr[1:], strict=True):
            clause = manager.true()
            for literal in dnf.literals[first:last].tolist():
                clause = clause & manager.literal(-(literal >> 1) - 1 if literal & 1 else (literal >> 1) + 1)
            old, node = node, node | clause
            node.ref()
            old.deref()
        circuit.add_sdd(node)
    circuit.remove_unused_nodes()
    return circuit


def least_seconds(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(REPEATS):
        turns, spent = 0, 0.0
        while spent < 0.02:  # so long that the clock's own grain does not matter
            start = time.process_time()
            run()
            spent += time.process_time() - start
            turns += 1
        times.append(spent / turns)
    return min(times)


def measured(log_prob: Callable[[torch.Tensor], torch.Tensor], probs: torch.Tensor) -> dict[str, Any]:
    rows = probs.clone().requires_grad_()

    def both() -> torch.Tensor:
        rows.grad = None
        log_prob(rows).sum().backward()
        assert rows.grad is not None
        return rows.grad

    with torch.no_grad():
        forward = least_seconds(lambda: log_prob(probs))
        values = log_prob(probs).double()
    return {"forward": forward, "both": least_seconds(both), "values": values, "slopes": both().double()}


def main() -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for name, make in CASES.items():
        formulas = make()
        n = max(f.num_vars for f in formulas)
        module, circuit = Probability(formulas), klay_circuit(formulas)
        assert all(module.exact)
        for batch in BATCHES:
            torch.manual_seed(batch)
            probs = torch.rand(batch, n) * 0.9 + 0.05
            log, real = (circuit.to_torch_module(semiring=name, compile=False) for name in ("log", "real"))
            ours = measured(module, probs)
            theirs = measured(lambda p, m=log: m(p.log(), (-p).log1p()), probs)
            plain = measured(lambda p, m=real: m(p, 1.0 - p).log(), probs)
            least = measured(Nothing.apply, probs)
            truth = probs.double().requires_grad_()
            exact = module(truth)
            exact.sum().backward()
            row: dict[str, object] = {"formulas": name, "rows": batch}
            row |= {"nodes": module.extra_repr().split(", ")[2].split()[0], "klay_nodes": circuit.nb_nodes()}
            for what in ("forward", "both"):
                for who, found in (("", ours), ("klay_", theirs), ("klay_real_", plain), ("torch_", least)):
                    row[f"{who}{what}_ms"] = round(1e3 * found[what], 4)
                row[f"{what}_ratio"] = round(theirs[what] / ours[what], 1)
                row[f"{what}_real_ratio"] = round(plain[what] / ours[what], 1)
            for who, found in (("", ours), ("klay_", theirs)):
                row[f"{who}error"] = f"{float((found['values'] - exact.detach()).abs().max()):.1e}"
                row[f"{who}slope_error"] = f"{float((found['slopes'] - truth.grad).abs().max()):.1e}"
            rows.append(row)
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for what in ("forward", "both"):
        ratios = {f"{row['formulas']}, {row['rows']} rows": float(str(row[f"{what}_ratio"])) for row in rows}
        missed = [f"{name} ({ratio})" for name, ratio in ratios.items() if ratio < TARGET]
        print(f"{what}: to reach {TARGET}, least {min(ratios.values())}; missed: {'; '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
