"""Writes the tables of the model cards from experiments/results/report.md: each card has those of its own network."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "experiments" / "results" / "report.md"
HEADING = "## Measured on the paper's sets\n"
SOURCE = (
    "From `experiments/results/rows.csv` (labels at epsilon 0.005, seeded stratified subsets, 95 % Wilson intervals).\n"
)
CARDS = {
    "paper": (ROOT / "src" / "sharpdnf" / "weights" / "paper" / "README.md", ("2", "5", "6", "12", "A")),
    "t2": (ROOT / "experiments" / "weights" / "t2" / "README.md", ("8", "9")),
    "t32": (ROOT / "experiments" / "weights" / "t32" / "README.md", ("10", "11")),
}
"""The card of each network, and the tables of the report that are about this network alone."""


def tables_of(report: str) -> dict[str, str]:
    """The tables of the report by their number, each with its heading and what is said below it."""
    found = {}
    for part in report.split("\n### Table ")[1:]:
        table = part.split("\n## ")[0].split("\n![")[0].rstrip()
        found[part.partition(".")[0]] = f"### Table {table}\n"
    return found


def own_rows(table: str, network: str) -> str:
    """A table over all networks with the rows of one of them."""
    lines = table.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| ---"))
    kept = [line for line in lines[head + 1 :] if not line.startswith("|") or line.startswith(f"| {network} |")]
    return "\n".join(lines[: head + 1] + kept) + "\n"


def written(network: str) -> str:
    """The card of a network with the tables of the report as it is now."""
    card, numbers = CARDS[network]
    tables = tables_of(REPORT.read_text())
    said = card.read_text().partition(HEADING)[0]
    return said + HEADING + "\n".join([SOURCE, *(tables[n] for n in numbers), own_rows(tables["B"], network)])


if __name__ == "__main__":
    for name, (path, _) in CARDS.items():
        path.write_text(written(name))
