"""Probabilities and gradients of many probability vectors at once, beside KLay: ``python benchmarks/compiled.py``.

Equal formulas: ours are compiled by ``exact``, KLay gets the SDD that PySDD makes of the same formula, as its users do,
and its faster semiring. A batch has 100 rows; forward gives log P of every row, backward d P / d p as well. One
thread each, in turns, processor seconds, the least of several repeats. Needs ``klaycircuits`` and ``pysdd``. Writes
``results/compiled.csv`` and ``results/compiled.md``.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import exact_families as families
import numpy as np
from engines import commit, machine

from sharpdnf import DNF, read
from sharpdnf.engines.exact import compile as compile_dnf
from sharpdnf.generate import generate

RESULTS = Path(__file__).parent / "results"
ROWS, REPEATS, CALLS, TARGET = 100, 7, 5, 10.0
FORMULAS: dict[str, Callable[[], DNF]] = {
    "examples/network.dnf": lambda: read(Path(__file__).parent.parent / "examples/network.dnf"),
    "chain of 30": lambda: families.chain(30, False),
    "join 5 x 5, density 0.5": lambda: families.join(5, 5, 0.5, False),
    "grid 4 x 4": lambda: families.grid(4, 4),
    "paper, n = 50, w = 5": lambda: generate("paper", np.random.default_rng(4), num_vars=50, num_clauses=38, width=5),
}


def klay_modules(dnf: DNF) -> tuple[dict[str, Any], int]:
    """KLay's modules of the formula by semiring, and the size of the SDD."""
    import klay
    from pysdd.sdd import SddManager

    manager = SddManager(var_count=dnf.num_vars, auto_gc_and_minimize=True)
    whole = manager.false()
    for clause in dnf.clauses():
        term = manager.true()
        for literal in clause:
            term = term & manager.literal(literal)
        whole = whole | term
        whole.ref()
    circuit = klay.Circuit()
    circuit.add_sdd(whole)
    modules = {semiring: circuit.to_torch_module(semiring=semiring, compile=False) for semiring in ("real", "log")}
    return modules, int(whole.size())


def klay_runs(module: Any, semiring: str, probs: np.ndarray[Any, Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """(forward, forward and backward) on the batch."""
    import torch

    rows = torch.tensor(probs, requires_grad=True)

    def value() -> Any:
        if semiring == "log":
            return module(torch.log(rows), torch.log1p(-rows)).exp()
        return module(rows, 1.0 - rows)

    def forward() -> Any:
        with torch.no_grad():
            return value().numpy().ravel()

    def backward() -> Any:
        rows.grad = None
        value().sum().backward()
        assert rows.grad is not None
        return rows.grad.numpy()

    return forward, backward


def least_seconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Processor seconds of a call of each, in turns of a few calls, so that caches are warm for all; the least."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(REPEATS):
        for name, call in calls.items():
            started = time.process_time()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.process_time() - started) / CALLS)
    return best


def measure(name: str, dnf: DNF) -> dict[str, Any]:
    compiled = compile_dnf(dnf)
    assert compiled is not None
    modules, sdd_size = klay_modules(dnf)
    probs = np.random.default_rng(1).uniform(0.05, 0.95, (ROWS, dnf.num_vars))
    calls: dict[str, Callable[[], Any]] = {
        "ours forward": lambda: compiled.evaluate(probs),
        "ours gradient": lambda: compiled.gradient(probs),
    }
    for semiring, module in modules.items():
        forward, backward = klay_runs(module, semiring, probs)
        calls[f"{semiring} forward"], calls[f"{semiring} gradient"] = forward, backward
    truth, slopes = compiled.gradient(probs)
    error = max(
        float(np.abs(calls["real forward"]() - np.exp(truth)).max()),
        float(np.abs(calls["real gradient"]() - slopes).max()),
    )
    if error > 1e-9:
        raise SystemExit(f"{name}: KLay's answers differ from ours by {error}")
    found = least_seconds(calls)
    row: dict[str, Any] = {"formula": name, "nodes": compiled.num_nodes, "sdd": sdd_size, "difference": f"{error:.1e}"}
    for kind in ("forward", "gradient"):
        peer = min(found[f"real {kind}"], found[f"log {kind}"])
        row[f"ours_{kind}_ms"] = f"{1e3 * found[f'ours {kind}']:.3f}"
        row[f"klay_{kind}_ms"] = f"{1e3 * peer:.3f}"
        row[f"{kind}_times"] = f"{peer / found[f'ours {kind}']:.0f}"
    return row


def table(rows: list[dict[str, Any]]) -> str:
    least = min(float(row[f"{kind}_times"]) for row in rows for kind in ("forward", "gradient"))
    lines = [
        "# Gradients in batches, beside KLay",
        "",
        f"Commit {commit()}, {machine()}. Made by `benchmarks/compiled.py`: {ROWS} rows of probabilities, one thread,",
        "processor milliseconds, the least of several turns; KLay 0.1.2 on PySDD's SDD in its faster semiring.",
        "",
        "| formula | our nodes | SDD | ours forward | KLay | times | ours with gradient | KLay | times |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        cells = [r["formula"], r["nodes"], r["sdd"]]
        for kind in ("forward", "gradient"):
            cells += [r[f"ours_{kind}_ms"], r[f"klay_{kind}_ms"], r[f"{kind}_times"]]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    verdict = "reached" if least >= TARGET else "missed"
    return "\n".join([*lines, "", f"At least {least:.0f} times KLay (aim: {TARGET:.0f} times, {verdict}).", ""])


def main() -> None:
    import torch

    torch.set_num_threads(1)
    rows = []
    for name, make in FORMULAS.items():
        rows.append(measure(name, make()))
        print(rows[-1], flush=True)
    with (RESULTS / "compiled.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    (RESULTS / "compiled.md").write_text(table(rows), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
