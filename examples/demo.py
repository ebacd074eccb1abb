"""Counts the bundled examples with every engine that fits, and one formula of 15,000 variables."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import sharpdnf
from sharpdnf.errors import SharpDNFError
from sharpdnf.generate import PaperSpec, paper

HERE = Path(__file__).parent
PROMISE = {
    "exact": "exact",
    "relative": "within 10 % (95 %)",
    "additive": "within 0.1 (95 %)",
    "bounds": "interval, certain",
    "none": "none",
}
NOT_MET = "NOT MET: cut by time"


def formulas() -> dict[str, sharpdnf.DNF]:
    """The bundled files, and a generated formula with privileged variables."""
    bundled = {path.stem: sharpdnf.read(path) for path in sorted(HERE.glob("*.dnf"), key=lambda p: p.stat().st_size)}
    large = paper(PaperSpec(15_000, 11_250, 13, privileged=True), np.random.default_rng(7))
    return {**bundled, "paper family": large}


def number(x: float, log: float) -> str:
    return f"{x:.6f}" if log > -9.0 or x == 0.0 else f"10^{log / np.log(10):.2f}"


def main() -> None:
    network = find_spec("torch") is not None and find_spec("safetensors") is not None
    table = Table(title="The probability that each formula is true", title_justify="left")
    for column in ("formula", "n", "m", "engine", "answer", "lower", "upper", "guarantee", "ms"):
        table.add_column(column, justify="left" if column in ("formula", "engine", "guarantee") else "right")
    for name, dnf in formulas().items():
        large = dnf.num_vars > 1000
        engines = ["auto", "sampling", "conditioned"] if large else ["auto", "dtree", "klm"]
        engines += ["neural"] if network else []
        for engine in engines:
            sharpdnf.count(dnf, engine=engine, rng=2)  # the first call loads code and weights
            e = sharpdnf.count(dnf, engine=engine, rng=2, timeout=30)
            chosen = f"{engine} ({e.engine})" if e.engine != engine else engine
            row = [name, str(dnf.num_vars), str(dnf.num_clauses), chosen, number(e.prob, e.log_prob)]
            row += [
                number(e.lower, e.log_lower),
                number(e.upper, e.log_upper),
                PROMISE[e.guarantee] if e.met else NOT_MET,
                f"{e.seconds * 1e3:.2f}",
            ]
            table.add_row(*row, end_section=engine == engines[-1])
    console = Console(width=118)
    console.print(table)
    console.print("lower and upper hold with the guarantee's probability. Times are of this machine, now; `make bench`")
    console.print("compares them properly.")
    if network:
        console.print("For the network they are an interval from held-out errors, which is not a guarantee.")
    else:
        console.print("pip install 'sharpdnf[neural]' adds the paper's neural network to this table.", markup=False)


if __name__ == "__main__":
    try:
        main()
    except SharpDNFError as error:
        raise SystemExit(f"demo: {error}") from error
