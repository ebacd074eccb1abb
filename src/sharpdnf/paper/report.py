"""Rows -> the tables and figures of Abboud, Ceylan and Lukasiewicz (AAAI 2020). Never loads a model.

A row is one formula under one distribution: what :mod:`sharpdnf.paper.evaluate` writes. Every table prints the
paper's figure, ours with a 95 % Wilson interval, and beside both the engines ``sampling`` (at epsilon = 0.1, delta =
0.05) and ``conditioned`` and the independent-clause formula 1 - prod(1 - p(C)), because the additive metric is trivial
where answers are near zero (w >= 21).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.drawing import new_figure, save_figure
from sharpdnf.errors import CheckpointError
from sharpdnf.files import write_atomically
from sharpdnf.paper.published import (
    PAPER_BY_N,
    PAPER_BY_WIDTH,
    PAPER_OTHER_SETS,
    PAPER_OVERALL,
    PAPER_RUNTIMES,
    PAPER_SIZE,
    PAPER_SIZE_BY_WIDTH,
    RUNTIME_SIZES,
    THRESHOLDS,
    Accuracies,
)
from sharpdnf.paper.records import Row, Runtime, Trace, read_records

SOURCES: dict[str, str] = {
    "log_prediction": "network",
    "log_sampling": "sampling",
    "log_conditioned": "conditioned",
    "log_independent": "independent clauses",
}

SET_TITLES = {
    "train": "Training Set",
    "structure": "Test Set",
    "fully-privileged": "Fully Privileged",
    "uniform": "Meel et al.",
    "structure-code": "variant code, as the Test Set",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text cells. ``number`` is the paper's number, or a letter for a table that the paper does not have."""

    number: str
    title: str
    header: tuple[str, ...]
    lines: list[tuple[str, ...]]
    note: str = ""

    def markdown(self) -> str:
        parts = [f"### Table {self.number}. {self.title}", ""]
        if not self.lines:
            return "\n".join([*parts, "No rows were measured for this table.", ""])
        parts += ["| " + " | ".join(self.header) + " |", "|" + " --- |" * len(self.header)]
        parts += ["| " + " | ".join(line) + " |" for line in self.lines]
        return "\n".join([*parts, "", *([self.note, ""] if self.note else [])])


def wilson(hits: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """The Wilson score interval of a proportion at 95 %."""
    if total == 0:
        return 0.0, 1.0
    share, scale = hits / total, 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return (centre - half if hits > 0 else 0.0), (centre + half if hits < total else 1.0)


def errors(rows: Sequence[Row], source: str) -> FloatArray:
    """float64[rows]: |estimate - label| as probabilities."""
    estimate = np.array([getattr(row, source) for row in rows], dtype=np.float64)
    label = np.array([row.log_label for row in rows], dtype=np.float64)
    error: FloatArray = np.abs(np.exp(np.minimum(estimate, 0.0)) - np.exp(np.minimum(label, 0.0)))
    return error


def measured_sources(rows: Sequence[Row]) -> dict[str, str]:
    """Those of SOURCES that were measured for every row."""
    return {source: title for source, title in SOURCES.items() if not any(math.isnan(getattr(r, source)) for r in rows)}


def _accuracy_lines(name: str, rows: Sequence[Row], paper: Accuracies) -> list[tuple[str, ...]]:
    """The lines of one group of formulas: the paper's figures, ours with their intervals, and the engines."""
    if not rows:
        return []
    lines = [(name, "paper", "", *(f"{value:.2f}" for value in paper))]
    for source, title in measured_sources(rows).items():
        error = errors(rows, source)
        cells = []
        for threshold in THRESHOLDS:
            hits = int((error <= threshold).sum())
            low, high = wilson(hits, len(rows))
            interval = f" [{100 * low:.1f}, {100 * high:.1f}]" if source == "log_prediction" else ""
            cells.append(f"{100 * hits / len(rows):.2f}{interval}")
        lines.append(("", title, str(len(rows)), *cells))
    return lines


def _accuracy_table(
    number: str, title: str, groups: Iterable[tuple[str, Sequence[Row], Accuracies]], note: str = ""
) -> Table:
    header = ("data", "estimate", "formulas", *(f"within {t:.2f}" for t in THRESHOLDS))
    lines = [line for name, rows, paper in groups for line in _accuracy_lines(name, rows, paper)]
    return Table(number, f"Accuracy (%) {title}", header, lines, note)


ABLATIONS = {"t2": ("8", "9", "T=2"), "t32": ("10", "11", "T=32")}
"""The networks with tables of their own in the paper: the numbers of these, and what they are called."""


def accuracy_tables(rows: Sequence[Row]) -> list[Table]:
    """Tables 2 to 6 and 8 to 12 of the paper, and A; those of the full network once more for every other network."""
    measured = {row.model for row in rows}
    others = sorted(measured - {"paper", *ABLATIONS})
    mains = ["paper", *others] if "paper" in measured or not others else others
    tables = [table for model in mains for table in _main_tables(model, [row for row in rows if row.model == model])]
    for model, (overall, by_size, name) in ABLATIONS.items():
        own = [row for row in rows if row.model == model]
        tables += [
            _overall_table(
                overall, own, PAPER_OVERALL[model], f"on the training and structure evaluation sets, {name}"
            ),
            _size_table(by_size, own, PAPER_SIZE[model], f"on size generalisation formulas, {name}"),
        ]
    return tables


def _of(rows: Sequence[Row], *sets: str) -> list[Row]:
    return [row for row in rows if row.set in sets]


def _overall_table(number: str, rows: Sequence[Row], paper: dict[str, Accuracies], title: str) -> Table:
    return _accuracy_table(number, title, [(SET_TITLES[s], _of(rows, s), paper[s]) for s in paper])


def _size_table(number: str, rows: Sequence[Row], paper: dict[int, Accuracies], title: str) -> Table:
    return _accuracy_table(number, title, [(f"n={n}", _of(rows, f"size-{n}"), paper[n]) for n in paper])


def _width_table(number: str, rows: Sequence[Row], paper: dict[tuple[int, ...], Accuracies], title: str) -> Table:
    groups = []
    for widths, figures in paper.items():
        groups.append((f"w={','.join(map(str, widths))}", [row for row in rows if row.w in widths], figures))
    return _accuracy_table(number, title, groups)


def _main_tables(model: str, rows: Sequence[Row]) -> list[Table]:
    """Tables 2 to 6, 12 and A for one network; that of the paper needs no name."""
    name = "" if model == "paper" else f", network `{model}`"
    structure, size = _of(rows, "structure"), _of(rows, *(f"size-{n}" for n in PAPER_SIZE["paper"]))
    by_n = [(f"n={n}", [row for row in structure if row.n == n], PAPER_BY_N[n]) for n in PAPER_BY_N]
    other = [(SET_TITLES[s], _of(rows, s), PAPER_OTHER_SETS[s]) for s in PAPER_OTHER_SETS]
    code = [(SET_TITLES["structure-code"], _of(rows, "structure-code"), PAPER_OVERALL["paper"]["structure"])]
    for n, figures in PAPER_SIZE["paper"].items():
        code.append((f"variant code, n = {n:,}", [r for r in _of(rows, "size-code") if r.n == n], figures))
    wide = [r for r in _of(rows, "size-code") if r.w == 13]
    code.append(("variant code, w = 13 at these sizes", wide, PAPER_SIZE_BY_WIDTH[13,]))
    overall, sizes = PAPER_OVERALL["paper"], PAPER_SIZE["paper"]
    by_width, size_by_width = PAPER_BY_WIDTH, PAPER_SIZE_BY_WIDTH
    return [
        _overall_table("2", rows, overall, f"on the training and structure evaluation sets{name}"),
        _accuracy_table("3", f"over the structure test set by number of variables{name}", by_n),
        _width_table("4", structure, by_width, f"over the structure test set by clause width{name}"),
        _size_table("5", rows, sizes, f"on size generalisation formulas{name}"),
        _width_table("6", size, size_by_width, f"on size generalisation formulas by clause width{name}"),
        _accuracy_table("12", f"over other synthetic sets{name}", other),
        _accuracy_table("A", f"over the paper's family, variant `code` of the generator{name}", code),
    ]


def coverage_table(rows: Sequence[Row]) -> Table:
    """How often an interval was shown with the network's estimate, and how often the label lay in it.

    Formulas that simplification answers alone, which have no sigma, say nothing about the network's intervals: their
    answers are exact, and a sampled label lies beside them.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.set), []).append(row)
    lines: list[tuple[str, ...]] = []
    for (model, name), group in sorted(groups.items()):
        asked = [row for row in group if not math.isnan(row.sigma)]
        shown = [row for row in asked if row.log_lower > -math.inf or row.log_upper < 0.0]
        cells = ["-", "-"]
        if shown:
            inside = sum(row.log_lower <= row.log_label <= row.log_upper for row in shown)
            low, high = wilson(inside, len(shown))
            width = np.median([math.exp(row.log_upper) - math.exp(row.log_lower) for row in shown])
            cells = [f"{100 * inside / len(shown):.1f} [{100 * low:.1f}, {100 * high:.1f}]", f"{width:.3f}"]
        error = f"{float(np.mean(errors(group, 'log_prediction'))):.3f}"
        share = f"{100 * len(shown) / len(asked):.1f}" if asked else "-"
        lines.append((model, name, str(len(group)), str(len(asked)), share, *cells, error))
    header = (
        "network",
        "set",
        "formulas",
        "network asked",
        "interval shown (%)",
        "label inside (%)",
        "median width",
        "mean error",
    )
    note = (
        "Intervals at 95 %, from residuals on formulas of another seed than these. They are no guarantee. A formula "
        "that is not recognisably of the training family gets none, and the answer says why: joins, networks, fault "
        "trees and lineage are such families. Label inside is of the intervals that were shown. The network is not "
        "asked about a formula that simplification answers alone."
    )
    return Table("B", "How often an interval is shown with an estimate, and how often it held", header, lines, note)


def runtime_tables(runtimes: Sequence[Runtime]) -> list[Table]:
    """Tables 7 and 13: seconds by n and width at m = 0.75 n, and who wins each cell."""
    seconds = {(r.engine, r.n, r.w): r.seconds for r in runtimes}
    engines = list(dict.fromkeys(r.engine for r in runtimes))
    note = (
        "KLM (Xeon E5-2640v3, one core) and GNN (P100) are the paper's figures from other hardware; the rest was "
        "measured on the same formulas in one run, in processor seconds. In bold the fastest of what was measured here."
    )

    def lines(widths: Iterable[int]) -> list[tuple[str, ...]]:
        out: list[tuple[str, ...]] = []
        for w in widths:
            for name, figures in PAPER_RUNTIMES[w].items():
                out.append((f"w={w}" if name == "KLM" else "", f"paper's {name}", *(f"{x:g}" for x in figures)))
            best = [min(seconds.get((e, n, w), math.inf) for e in engines) for n in RUNTIME_SIZES]
            for e in engines:
                cells = [seconds.get((e, n, w)) for n in RUNTIME_SIZES]
                shown = [
                    "" if x is None else f"**{x:.3g}**" if x == top else f"{x:.3g}"
                    for x, top in zip(cells, best, strict=True)
                ]
                out.append(("", e, *shown))
        return out

    header = ("width", "algorithm", *(f"n={n}" for n in RUNTIME_SIZES))
    return [
        Table("7", "Runtimes (s), w = 3 and 34, m = 0.75 n", header, lines((3, 34)) if runtimes else [], note),
        Table(
            "13",
            "Runtimes (s), all widths, m = 0.75 n",
            header,
            lines(PAPER_RUNTIMES) if runtimes else [],
            f"{note} {who_wins(runtimes)}",
        ),
    ]


def who_wins(runtimes: Sequence[Runtime]) -> str:
    """A sentence for each rival: in how many cells the network is faster, and how many times as long it takes."""
    seconds = {(r.engine, r.n, r.w): r.seconds for r in runtimes}
    cells = [(n, w) for engine, n, w in seconds if engine == "neural"]
    sentences = []
    for rival in dict.fromkeys(engine for engine, _, _ in seconds if engine != "neural"):
        both = [(n, w) for n, w in cells if (rival, n, w) in seconds]
        ratios = [seconds["neural", n, w] / seconds[rival, n, w] for n, w in both]
        if ratios:
            won = sum(ratio < 1 for ratio in ratios)
            sentences.append(
                f"The network is faster than `{rival}` in {won} of {len(both)} cells; "
                f"it takes {np.median(ratios):,.0f} times as long in the median "
                f"({min(ratios):,.1f} to {max(ratios):,.1f})."
            )
    return " ".join(sentences)


def tidy_accuracies(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One record per (model, set, n, w, source, threshold): hits, total, share and its interval."""
    groups: dict[tuple[str, str, int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.set, row.n, row.w), []).append(row)
    records = []
    for (model, name, n, w), group in sorted(groups.items()):
        for source, title in measured_sources(group).items():
            error = errors(group, source)
            for threshold in THRESHOLDS:
                hits = int((error <= threshold).sum())
                low, high = wilson(hits, len(group))
                record = {"model": model, "set": name, "n": n, "w": w, "estimate": title, "threshold": threshold}
                figures = {"hits": hits, "formulas": len(group), "share": hits / len(group), "low": low, "high": high}
                records.append(record | figures)
    return records


def heat_map(rows: Sequence[Row], path: Path) -> None:
    """Figure 3: where the network's estimates fall against the labels, and beside it how often they are how close.

    The paper prints its heat map without numbers, so its accuracies of Table 2 stand beside ours instead.
    """
    figure, (left, right) = new_figure(10.6, 4.6, columns=2)
    from matplotlib import colors

    label = np.exp([row.log_label for row in rows])
    estimate = np.exp(np.minimum([row.log_prediction for row in rows], 0.0))
    bins = np.linspace(0.0, 1.0, 61)
    counts, _, _ = np.histogram2d(label, estimate, bins=[bins, bins])
    # Logarithmic grey that starts visible: most labels lie within a cell of 0 or 1, and single formulas matter too.
    shades = colors.LinearSegmentedColormap.from_list("shades", ["0.75", "black"])
    scale = colors.LogNorm(1, max(counts.max(), 2))
    shown = np.ma.masked_equal(counts.T, 0)
    image = left.imshow(shown, origin="lower", extent=(0, 1, 0, 1), cmap=shades, norm=scale, aspect="equal")
    left.plot([0, 1], [0, 1], color="tab:red", linewidth=0.8, linestyle="--", label="estimate = label")
    left.legend(loc="upper left")
    figure.colorbar(image, ax=left, label="formulas in the cell", format="%d")
    left.set(xlabel="label", ylabel="network", title=f"Figure 3: structure test set, {len(rows)} formulas")
    close = np.sort(errors(rows, "log_prediction"))
    share = 100.0 * np.arange(1, len(close) + 1) / len(close)
    right.step([0.0, *close, 0.2], [0.0, *share, 100.0], where="post", color="black", label="here")
    paper = PAPER_OVERALL["paper"]["structure"]
    right.plot(THRESHOLDS, paper, "D", color="tab:red", label="the paper, Table 2")
    for threshold, value in zip(THRESHOLDS, paper, strict=True):
        ours = 100.0 * float(np.mean(close <= threshold))
        note = f"paper {value:.2f}\nhere {ours:.2f}"
        right.annotate(note, (threshold, value), xytext=(14, -32), textcoords="offset points", ha="center", fontsize=8)
    right.set(xlim=(0, 0.17), ylim=(0, 104), xlabel="additive error", ylabel="formulas within it (%)")
    right.set_title("How close the estimates are")
    right.legend(loc="lower right")
    save_figure(figure, path)


def trace_figure(traces: Sequence[Trace], path: Path) -> None:
    """Figure 4: the estimate after every iteration, red small and blue high; the label in the last column."""
    formulas, iterations = sorted({t.formula for t in traces}), sorted({t.iteration for t in traces})
    grid = np.full((len(formulas), len(iterations) + 1), np.nan)
    for t in traces:
        grid[formulas.index(t.formula), iterations.index(t.iteration)] = math.exp(min(t.log_estimate, 0.0))
        grid[formulas.index(t.formula), -1] = math.exp(min(t.log_label, 0.0))
    figure, axes = new_figure(6.4, 4.8)
    image = axes.imshow(grid, cmap="RdBu", vmin=0.0, vmax=1.0, aspect="auto")
    axes.axvline(len(iterations) - 0.5, color="black", linewidth=2)
    axes.set_xticks(range(len(iterations) + 1), [str(i) for i in iterations] + ["label"])
    axes.set_yticks(range(0, len(formulas), 2), [str(f) for f in formulas[::2]])
    axes.set(xlabel="message-passing iteration", ylabel="formula", title="Figure 4: estimates over the iterations")
    figure.colorbar(image, label="probability")
    save_figure(figure, path)


def write_report(source: Path, out: Path) -> list[Path]:
    """Tables and figures from the CSVs in ``source`` (rows, traces, runtimes) into ``out``; returns what it wrote."""
    rows = read_records(source / "rows.csv", Row)
    traces, runtimes = read_records(source / "traces.csv", Trace), read_records(source / "runtimes.csv", Runtime)
    if not (rows or traces or runtimes):
        raise CheckpointError(
            f"{source}: no rows in rows.csv, traces.csv or runtimes.csv: run sharpdnf reproduce first"
        )
    out.mkdir(parents=True, exist_ok=True)
    tables = accuracy_tables(rows) + runtime_tables(runtimes) + [coverage_table(rows)]
    tables.sort(key=lambda table: (not table.number.isdigit(), table.number.rjust(2)))
    parts = ["# The paper's tables and figures, measured here", "", _preamble(rows), ""]
    parts += [table.markdown() for table in tables]
    written = [out / "report.md", out / "tables.csv"]
    main = "paper" if any(row.model == "paper" for row in rows) else rows[0].model if rows else ""
    structure = [row for row in rows if row.model == main and row.set == "structure"]
    if structure:
        written.append(out / "figure3.png")
        heat_map(structure, written[-1])
        parts += ["![Figure 3](figure3.png)", ""]
    if traces:
        written.append(out / "figure4.png")
        trace_figure(traces, written[-1])
        parts += ["![Figure 4](figure4.png)", ""]
    write_atomically(written[0], "\n".join(parts).encode())
    records, text = tidy_accuracies(rows), io.StringIO(newline="")
    writer = csv.DictWriter(text, list(records[0]) if records else ["model"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_atomically(written[1], text.getvalue().encode())
    return written


def _preamble(rows: Sequence[Row]) -> str:
    """How many formulas of which set, and how tight their labels are."""
    sizes: dict[tuple[str, str], int] = {}
    for row in rows:
        sizes[row.model, row.set] = sizes.get((row.model, row.set), 0) + 1
    counted = "; ".join(f"{model} on {name}: {size}" for (model, name), size in sorted(sizes.items()))
    made = sorted({(row.model, row.weights) for row in rows})
    weights = ", ".join(f"{model} {digest}" for model, digest in made)
    epsilon = ", ".join(f"{e:g}" for e in sorted({row.epsilon for row in rows}))
    return (
        f"Formulas measured: {counted or 'none'}. Weights (sha256): {weights or '-'}. "
        f"Labels: relative error {epsilon or '-'} (0 is exact). In brackets "
        "95 % Wilson intervals. Where a set is smaller than the paper's it is a seeded stratified subset with one "
        "distribution per formula. Training draws fresh formulas of the training composition, so the lines of the "
        "Training Set are formulas drawn like those, not formulas seen. `network` is what `predict` answers: the "
        "network is asked about what is left of a formula after simplification, and after literals that stand in all "
        "clauses but a few were decided on (Table B says how often something was left). `sampling` is the engine with "
        "a guarantee, "
        "here within 10 % but for 5 % of the formulas; `conditioned` is an engine (no guarantee, "
        "deterministic, linear time); `independent clauses` is 1 - prod(1 - p(C))."
    )
