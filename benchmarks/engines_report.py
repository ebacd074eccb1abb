"""The rows of the engines' benchmark as CSV, Markdown and a figure: functions of the rows alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.paper.published import PAPER_RUNTIMES

PAPER_SIZES = (1_000, 5_000, 10_000, 15_000)
FAMILIES = ("plain", "privileged")
EVERYWHERE = ("pass", "empty call", "sampling kernel", "conditioned kernel", "sampling", "auto", "conditioned")


@dataclass(frozen=True, slots=True)
class Row:
    engine: str
    family: str
    n: int
    m: int
    w: int
    threads: int
    seconds: float
    samples: int
    error: float
    """|answer / reference - 1|, nan where there is none."""
    passes: float
    """seconds / those of one native pass over the literals, in the same run."""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    value: float
    sign: str
    """"<=" or ">=", or "info" for a figure without a target."""
    target: float

    @property
    def verdict(self) -> str:
        if self.sign == "info":
            return "-"
        met = self.value <= self.target if self.sign == "<=" else self.value >= self.target
        return "met" if met else "NOT MET"

    @property
    def asked(self) -> str:
        return "-" if self.sign == "info" else f"{self.sign} {self.target:g}"


def cell_targets(rows: list[Row]) -> list[Target]:
    """Worst formula over all cells, and the worst cell by its median formula."""
    kernel = [r for r in rows if r.engine == "sampling kernel" and r.family in FAMILIES and r.n >= 5_000]
    conditioned = [r for r in rows if r.engine == "conditioned kernel" and r.n == 15_000]
    by_cell = [[r.passes for r in kernel if (r.n, r.w, r.family) == cell] for cell in {_cell(r) for r in kernel}]
    calls = [r.passes for r in rows if r.engine == "sampling" and r.family in FAMILIES and r.n == 1_000]
    empty = [r.passes for r in rows if r.engine == "empty call" and r.n == 1_000]
    sampled = [r.error for r in rows if r.engine == "sampling" and r.family in FAMILIES]
    return [
        Target("sampling kernel, n>=5K: passes, worst formula", max(r.passes for r in kernel), "<=", 150.0),
        Target("sampling kernel, n>=5K: passes, worst cell by its median", max(map(np.median, by_cell)), "<=", 60.0),
        Target("sampling kernel, n>=5K: passes, median", float(np.median([r.passes for r in kernel])), "<=", 60.0),
        Target(
            "sampling call, n=1K: passes beyond an empty call, worst formula",
            max(c - e for c, e in zip(calls, empty, strict=True)),
            "<=",
            100.0,
        ),
        Target(
            "conditioned kernel (K=8), n=15K: passes, worst formula", max(r.passes for r in conditioned), "<=", 20.0
        ),
        Target("sampling call: mean relative error at (0.1, 0.05)", float(np.mean(sampled)), "<=", 0.1),
        Target("sampling call: share of errors above 0.1", float(np.mean(np.array(sampled) > 0.1)), "<=", 0.05),
    ]


def _cell(row: Row) -> tuple[int, int, str]:
    return row.n, row.w, row.family


def target_table(targets: list[Target]) -> str:
    lines = ["| target | measured | asked | |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {t.name} | {t.value:.3g} | {t.asked} | {t.verdict} |" for t in targets])


def cell_table(rows: list[Row]) -> str:
    """Seconds and passes a cell beside the paper's figures."""
    lines = [
        "| w | n | pass (us) | sampling kernel (ms) | in passes: median, worst | sampling call (ms) | relative error "
        "| auto (ms) | conditioned (ms) | its error | paper's KLM (s)* | paper's GNN on a P100 (s)* |",
        "|" + "---|" * 12,
    ]
    for w in sorted({r.w for r in rows if r.family in FAMILIES}):
        for column, n in enumerate(PAPER_SIZES):
            cell = [r for r in rows if r.n == n and r.w == w and r.family in FAMILIES]
            if not any(r.engine == "sampling kernel" for r in cell):
                continue
            seconds, error = _median_of(cell, "seconds"), _median_of(cell, "error")
            passes = [r.passes for r in cell if r.engine == "sampling kernel"]
            paper = PAPER_RUNTIMES[w]
            lines.append(
                f"| {w} | {n // 1000}K | {seconds('pass') * 1e6:.0f} | {seconds('sampling kernel') * 1e3:.2f} "
                f"| {np.median(passes):.0f}, {max(passes):.0f} | {seconds('sampling') * 1e3:.2f} "
                f"| {error('sampling'):.3f} | {seconds('auto') * 1e3:.2f} | {seconds('conditioned') * 1e3:.2f} "
                f"| {error('conditioned'):.2g} | {paper['KLM'][column]:.2f} | {paper['GNN'][column]:.3f} |"
            )
    return "\n".join(lines)


def _median_of(cell: list[Row], field: str) -> Callable[[str], float]:
    def median(engine: str) -> float:
        return float(np.median([getattr(r, field) for r in cell if r.engine == engine]))

    return median


def other_table(rows: list[Row]) -> str:
    """Engines measured on some cells only: medians over a cell's formulas, and the worst error."""
    first = ("klm", "dtree", "bounds", "lbp", "neural")  # then those that came later
    last = ("pepin", "sampling vs pepin", "sampling at pepin's error")
    lines = [
        "| engine | family | n | w | formulas | seconds | samples | relative error: median | worst | passes |",
        "|" + "---|" * 10,
    ]
    cells = {(r.engine, *_cell(r)): None for r in rows if r.engine not in EVERYWHERE and r.family in FAMILIES}
    names = [*first, *sorted({cell[0] for cell in cells} - {*first, *last}), *last]
    for engine, n, w, family in sorted(cells, key=lambda cell: (names.index(cell[0]), *cell[1:])):
        mine = [r for r in rows if (r.engine, *_cell(r)) == (engine, n, w, family)]
        seconds, samples, error, passes = (
            float(np.median([getattr(r, field) for r in mine])) for field in ("seconds", "samples", "error", "passes")
        )
        lines.append(
            f"| {engine} | {family} | {n:,} | {w} | {len(mine)} | {seconds:.4g} | {samples:,.0f} | {error:.2g} "
            f"| {max(r.error for r in mine):.2g} | {'' if math.isnan(passes) else f'{passes:,.0f}'} |"
        )
    return "\n".join(lines)


def write_all(
    rows: list[Row], targets: list[Target], words: str, commit: str, machine: str, out: Path | None, *, say: bool = True
) -> None:
    tables = target_table(targets), cell_table(rows), other_table(rows)
    text = (
        f"# Engines\n\nCommit {commit}; {machine}; one thread; processor seconds, the least of several repeats taken "
        "in turns with one native pass over the literals (`clause_probs`). Relative guarantee (0.1, 0.05), m = 0.75 n, "
        f"reference at epsilon 0.005. {words}\n\n## Targets\n\n{tables[0]}\n\n## The paper's 24 cells, plain and "
        f"privileged together\n\n{tables[1]}\n\n\\* other hardware: KLM on a Haswell E5-2640v3, the GNN on a P100; "
        f"from the paper's appendix.\n\n## Other engines, and pepin\n\n`dtree` was stopped after 0.2 s: its answer is "
        f"the middle of certified bounds, as is that of `bounds`.\n\n{tables[2]}\n"
    )
    if say:
        print(text)
    if out is None:
        return
    out.mkdir(exist_ok=True)
    (out / "engines.md").write_text(text + "\n![errors beside times](engines.png)\n", encoding="utf-8")
    write_rows(out / "engines.csv", [r for r in rows if "pepin" not in r.engine], commit, machine)
    _write_csv(
        out / "engines_targets.csv",
        ["commit", "machine", "measurement", "value", "target", "verdict"],
        ([commit, machine, t.name, f"{t.value:.4g}", t.asked, t.verdict] for t in targets),
    )
    draw(rows, out / "engines.png")


def write_rows(path: Path, rows: list[Row], commit: str, machine: str) -> None:
    lines = ([commit, machine, *(f"{x:.6g}" if isinstance(x, float) else x for x in astuple(r))] for r in rows)
    _write_csv(path, ["commit", "machine", *(f.name for f in fields(Row))], lines)


def read_rows(path: Path) -> tuple[list[Row], str, str]:
    """(rows, commit, machine) of a file that ``write_rows`` made."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    kinds = {"str": str, "int": int, "float": float}
    rows = [Row(**{f.name: kinds[str(f.type)](line[f.name]) for f in fields(Row)}) for line in lines]
    return rows, lines[0]["commit"], lines[0]["machine"]


def _write_csv(path: Path, head: list[str], lines: Iterable[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(lines)


STYLES = {
    "sampling": ("C0", "o"), "auto": ("C1", "s"), "conditioned": ("C2", "^"), "klm": ("C3", "D"),
    "neural": ("C4", "P"), "bounds": ("C5", "v"), "lbp": ("C6", "X"), "pepin": ("C7", "*"),
}  # fmt: skip
ZERO = 1e-8
"""Where an error of exactly zero is drawn: a row of its own below the axis of logarithms."""


def draw(rows: list[Row], path: Path) -> None:
    """Times and errors by width at n = 15,000, and time against literals, with one legend below all three."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (times, errors, growth) = plt.subplots(1, 3, figsize=(15, 5.4))
    mine = {e: [r for r in rows if r.engine == e and r.n == 15_000 and r.family in FAMILIES] for e in STYLES}
    mine = {engine: found for engine, found in mine.items() if found}
    _draw_times(times, mine)
    _draw_errors(errors, mine)
    _draw_growth(growth, rows)
    handles, labels = times.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0.0, 0.06, 1.0, 1.0))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_times(axis: Any, mine: dict[str, list[Row]]) -> None:
    """The median over the formulas of a width, with the whole range as a bar."""
    for engine, found in mine.items():
        widths = sorted({r.w for r in found})
        points = [[r.seconds for r in found if r.w == w] for w in widths]
        middle = [float(np.median(p)) for p in points]
        spread = [[m - min(p) for m, p in zip(middle, points, strict=True)]]
        spread += [[max(p) - m for m, p in zip(middle, points, strict=True)]]
        colour, marker = STYLES[engine]
        axis.errorbar(widths, middle, yerr=spread, color=colour, marker=marker, capsize=2, label=engine)
    widths = list(PAPER_RUNTIMES)
    for name, dash, label in (("KLM", "--", "paper's KLM (Haswell)"), ("GNN", "-.", "paper's GNN (P100)")):
        axis.plot(widths, [PAPER_RUNTIMES[w][name][3] for w in widths], color="0.5", ls=dash, label=label)
    axis.set(xscale="log", yscale="log", xlabel="clause width w", ylabel="processor seconds for one formula")
    axis.set_title("Time, n = 15,000, m = 11,250")
    axis.set_xticks(widths, [str(w) for w in widths])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def _draw_errors(axis: Any, mine: dict[str, list[Row]]) -> None:
    """Every formula is a point; engines stand side by side at each width, and errors of zero on the lowest line."""
    widths = list(PAPER_RUNTIMES)
    for place, (engine, found) in enumerate(mine.items()):
        shift = (place - (len(mine) - 1) / 2) * 0.09
        x = [widths.index(r.w) + shift for r in found]
        y = [r.error if r.error > 10 * ZERO else ZERO for r in found]
        colour, marker = STYLES[engine]
        axis.plot(x, y, color=colour, marker=marker, ls="", ms=5, alpha=0.7)
    axis.axhline(0.1, color="0.4", lw=1)
    axis.text(-0.45, 0.125, "epsilon = 0.1", color="0.3", fontsize=8)
    axis.axhline(ZERO * 4, color="0.4", lw=1, ls=":")
    axis.set(yscale="log", ylim=(ZERO / 3, 3.0), xlabel="clause width w", ylabel="relative error of the answer")
    axis.set_title("Error, the same formulas")
    axis.set_xticks(range(len(widths)), [str(w) for w in widths])
    decades = [10.0**d for d in range(-7, 1)]
    axis.set_yticks([ZERO, *decades], ["none", *(f"$10^{{{d}}}$" for d in range(-7, 1))])
    axis.minorticks_off()
    axis.grid(alpha=0.3, axis="y")


def _draw_growth(axis: Any, rows: list[Row]) -> None:
    colours = {"sampling": "C0", "simplify": "C8", "conditioned": "C2", "bounds": "C5", "pass": "0.4"}
    for family, line in (("growth, paper", "-"), ("growth, neighbours", ":")):
        for engine, colour in colours.items():
            found = [r for r in rows if r.engine == engine and r.family == family]
            shown = {"pass": "one pass"}.get(engine, engine) if line == "-" else None
            points = [r.m * r.w for r in found], [r.seconds for r in found]
            if found:
                axis.plot(*points, color=colour, ls=line, marker=".", label=shown)
    if axis.lines:
        axis.set(xscale="log", yscale="log", xlabel="literals in the formula", ylabel="processor seconds")
        axis.set_title("Growth (dotted: clauses of neighbouring variables)")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="upper left")
