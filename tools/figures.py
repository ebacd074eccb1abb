"""Draws the figures of the documentation as SVG, from runs made here and from committed results.

``python tools/figures.py`` draws all of them into docs/figures, or those named. Runs have fixed seeds, and nothing here
looks at the clock, so the same program draws the same pictures.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa

import sharpdnf
from sharpdnf import network
from sharpdnf.drawing import new_figure

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "figures"
OURS, OTHER, BAD, SOFT = "#3b6fb6", "#8a8f98", "#c8453b", "#dfe7f2"
FIGURE: dict[str, Callable[[], str]] = {}
"""What draws each figure, by its name."""


def figure(draw: Callable[[], str]) -> Callable[[], str]:
    FIGURE[draw.__name__] = draw
    return draw


def as_svg(made: Any) -> str:
    """A figure of matplotlib as the text of an SVG file, without a date, so that it stays the same."""
    out = io.StringIO()
    made.savefig(out, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def rows(path: str) -> list[dict[str, str]]:
    with (ROOT / path).open(newline="") as file:
        return list(csv.DictReader(file))


def answers_at_three_tolerances(event: sharpdnf.DNF | sharpdnf.Circuit) -> str:
    """400 sampled answers at each of three tolerances: where they fall, how many miss, what they cost."""
    truth = sharpdnf.count(event, guarantee="exact").prob
    made, axes = new_figure(9.0, 2.8, 3)
    asked: dict[str, Any] = {"engine": "sampling", "guarantee": "relative"}
    for ax, epsilon in zip(axes, (0.2, 0.1, 0.05), strict=True):
        found = [sharpdnf.count(event, epsilon=epsilon, rng=seed, **asked) for seed in range(400)]
        error = np.array([answer.prob / truth - 1.0 for answer in found])
        missed = np.abs(error) > epsilon
        place = np.arange(len(error))
        ax.axhspan(-epsilon, epsilon, color=SOFT)
        ax.axhline(0.0, color=OTHER, linewidth=0.8)
        ax.plot(place[~missed], error[~missed], ".", color=OURS, markersize=3)
        ax.plot(place[missed], error[missed], ".", color=BAD, markersize=5)
        draws = np.mean([answer.samples for answer in found])
        ax.set_title(f"epsilon {epsilon:g}: {missed.sum()} of 400 miss,\n{draws:,.0f} draws each", fontsize=10)
        ax.set_ylim(-0.4, 0.4)
        ax.set_xlabel("run")
    axes[0].set_ylabel("answer / truth - 1")
    return as_svg(made)


@figure
def epsilon_delta() -> str:
    """A rare event that can only be drawn directly, so that the promise is used up: 9 or more of 20 parts fail."""
    names = [f"part{i}" for i in range(20)]
    event = sharpdnf.Circuit.parse(f"atleast(9, {', '.join(names)})", dict.fromkeys(names, 0.25))
    return answers_at_three_tolerances(event)


@figure
def epsilon_delta_dnf() -> str:
    """A formula of the paper's family, where most draws succeed and errors stay far below the promise."""
    return answers_at_three_tolerances(sharpdnf.read(ROOT / "examples" / "paper_100.dnf"))


@figure
def guarantees() -> str:
    """One formula asked in five ways: the answer and the interval that comes with it."""
    formula = sharpdnf.read(ROOT / "examples" / "paper_100.dnf")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("exact", {"guarantee": "exact"}),
        ("relative, epsilon 0.1", {"guarantee": "relative", "engine": "sampling", "rng": 1}),
        ("additive, epsilon 0.02", {"guarantee": "additive", "engine": "sampling", "epsilon": 0.02, "rng": 1}),
        ("bounds", {"guarantee": "bounds", "engine": "bounds"}),
        ("none (conditioned)", {"engine": "conditioned"}),
    ]
    made, ax = new_figure(7.5, 2.6)
    truth = sharpdnf.count(formula, guarantee="exact").prob
    ax.axvline(truth, color=OTHER, linewidth=0.8)
    for place, (_, options) in enumerate(asked):
        answer = sharpdnf.count(formula, **options)
        sure = answer.guarantee in ("exact", "bounds")
        if answer.guarantee != "none":
            ax.plot([answer.lower, answer.upper], [place, place], color=OURS, linewidth=6, alpha=0.9 if sure else 0.4)
        if answer.guarantee != "bounds":
            ax.plot(answer.prob, place, "o", color="black", markersize=4)
    ax.set_yticks(range(len(asked)), [name for name, _ in asked])
    ax.invert_yaxis()
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("probability; the line is the exact answer")
    return as_svg(made)


@figure
def cost_of_epsilon() -> str:
    """How many draws a relative guarantee takes, by epsilon and by delta."""
    formula = sharpdnf.read(ROOT / "examples" / "paper_100.dnf")
    made, ax = new_figure(5.5, 3.2)
    epsilons = [0.3, 0.2, 0.1, 0.05, 0.02, 0.01]
    for delta, style in ((0.05, "o-"), (1e-3, "s--"), (1e-6, "^:")):
        draws = [
            sharpdnf.count(formula, engine="sampling", epsilon=epsilon, delta=delta, rng=1).samples
            for epsilon in epsilons
        ]
        ax.loglog(epsilons, draws, style, color=OURS, label=f"delta {delta:g}", markersize=4)
    ax.set_xlabel("epsilon")
    ax.set_ylabel("draws")
    ax.legend(frameon=False)
    ax.invert_xaxis()
    return as_svg(made)


@figure
def sampling_passes() -> str:
    """The sampling kernel on the paper's family, in passes over the literals, from the committed benchmark."""
    found = [row for row in rows("benchmarks/results/engines.csv") if row["engine"] == "sampling kernel"]
    widths = sorted({int(row["w"]) for row in found})
    sizes = sorted({int(row["n"]) for row in found})
    made, ax = new_figure(6.5, 3.2)
    for n, shade in zip(sizes, np.linspace(0.35, 1.0, len(sizes)), strict=True):
        passes = [
            np.median([float(row["passes"]) for row in found if int(row["w"]) == w and int(row["n"]) == n])
            for w in widths
        ]
        ax.plot(range(len(widths)), passes, "o-", color=OURS, alpha=float(shade), label=f"n = {n:,}", markersize=4)
    ax.set_xticks(range(len(widths)), [str(w) for w in widths])
    ax.set_xlabel("literals in a clause")
    ax.set_ylabel("passes over the literals")
    ax.set_ylim(0.0, None)
    ax.legend(frameon=False)
    return as_svg(made)


@figure
def exact_solvers() -> str:
    """Processor seconds of exact solvers, from the committed benchmark; what is not solved stands at the top."""
    found = rows("benchmarks/results/exact.csv")
    names = list(dict.fromkeys((row["family"], row["instance"]) for row in found))
    solvers = {"sharpdnf": ("o", OURS), "pyganak": ("s", OTHER), "pysdd": ("^", "#b98b2f")}
    made, ax = new_figure(8.0, 3.8)
    for solver, (mark, colour) in solvers.items():
        seconds = []
        for family, instance in names:
            of = [r for r in found if (r["family"], r["instance"], r["solver"]) == (family, instance, solver)]
            seconds.append(float(of[0]["seconds"]) if of and of[0]["solved"] == "1" else 15.0)
        above = 4 if solver == "sharpdnf" else 3  # so that what we do not solve either is seen
        ax.semilogy(
            range(len(names)), seconds, mark, color=colour, label=solver, markersize=6, alpha=0.85, zorder=above
        )
    ax.axhspan(10.0, 22.0, color=SOFT)
    ax.text(len(names) - 0.4, 15.0, "not solved\nin 8 seconds", va="center", fontsize=8, color=OTHER)
    ax.set_xlim(-0.5, len(names) - 0.5)
    labels = [f"{family}, {instance}" for family, instance in names]
    ax.set_xticks(range(len(names)), labels, rotation=40, ha="right", fontsize=8)
    ax.set_ylabel("processor seconds")
    ax.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    return as_svg(made)


@figure
def network_errors() -> str:
    """Errors of the shipped network and of the engine ``conditioned`` by size, from the committed rows."""
    found = [row for row in rows("experiments/results/rows.csv") if row["model"] == "paper"]
    found = [row for row in found if row["set"] in ("structure", "size-10000", "size-15000")]
    sizes = sorted({int(row["n"]) for row in found})
    made, axes = new_figure(8.5, 3.2, 2)
    for ax, column, name in zip(axes, ("log_prediction", "log_conditioned"), ("network", "conditioned"), strict=True):
        for place, n in enumerate(sizes):
            own = [row for row in found if int(row["n"]) == n]
            error = np.sort([abs(np.exp(float(row[column])) - np.exp(float(row["log_label"]))) for row in own])
            for share, shade in ((0.5, 1.0), (0.9, 0.6), (1.0, 0.25)):
                value = max(float(error[max(0, int(np.ceil(share * len(error))) - 1)]), 1e-6)
                ax.semilogy(place, value, "o", color=OURS, alpha=shade, markersize=6)
        for limit in (0.02, 0.15):
            ax.axhline(limit, color=OTHER, linewidth=0.7, linestyle=":")
        ax.set_title(f"{name}: median, 90 % and worst", fontsize=10)
        ax.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes], rotation=45, fontsize=8)
        ax.set_ylim(5e-7, 1.0)
        ax.set_xlabel("variables")
    axes[0].set_ylabel("error of the probability")
    return as_svg(made)


@figure
def iterations() -> str:
    """How the network's estimate moves with the iterations, for formulas with different answers, from the traces."""
    found = [row for row in rows("experiments/results/traces.csv") if row["model"] == "paper"]
    made, ax = new_figure(5.5, 3.2)
    for formula in sorted({row["formula"] for row in found}, key=int):
        own = sorted((row for row in found if row["formula"] == formula), key=lambda row: int(row["iteration"]))
        label = np.exp(float(own[0]["log_label"]))
        (line,) = ax.plot(
            [int(row["iteration"]) for row in own], [np.exp(float(row["log_estimate"])) for row in own], "o-",
            markersize=3,
        )  # fmt: skip
        ax.plot(int(own[-1]["iteration"]) + 0.5, label, "_", color=line.get_color(), markersize=14, markeredgewidth=2)
    ax.set_xlabel("iteration; the dashes at the end are the labels")
    ax.set_ylabel("estimate of the probability")
    ax.set_ylim(-0.03, 1.03)
    return as_svg(made)


@figure
def auto_families() -> str:
    """Which share of formulas ``auto`` answers exactly, and in how many milliseconds, from the committed benchmark."""
    found = rows("benchmarks/results/auto.csv")
    families = [name for name in dict.fromkeys(row["family"] for row in found) if name != "network"]
    made, axes = new_figure(8.5, 3.4, 2)
    own = [[row for row in found if row["family"] == family] for family in families]
    axes[0].barh(families, [100 * np.mean([float(row["exact"]) for row in some]) for some in own], color=OURS)
    axes[0].set_xlabel("answered exactly, %")
    axes[0].invert_yaxis()
    axes[1].barh(families, [np.median([float(row["ms"]) for row in some]) for some in own], color=OTHER)
    axes[1].set_xlabel("median milliseconds")
    axes[1].set_yticks([])
    axes[1].invert_yaxis()
    return as_svg(made)


@figure
def backbone() -> str:
    """examples/backbone.csv with its links coloured by importance."""
    target = FIGURES / "backbone.svg"
    network.draw(ROOT / "examples" / "backbone.csv", target, "Lisbon", "Berlin")
    return target.read_text()


@figure
def lineage() -> str:
    """The lineage of an answer that has two reasons with a row in common."""
    db = sharpdnf.connect()
    match = {"who": ["ann", "ann", "bob"], "account": ["A1", "A2", "A1"], "p": [0.9, 0.4, 0.3]}
    buy = {"account": ["A1", "A2"], "item": ["tea", "tea"], "p": [0.8, 0.7]}
    db.register("match", pa.table(match), prob="p")
    db.register("buy", pa.table(buy), prob="p")
    return db.sql("SELECT DISTINCT item FROM match JOIN buy USING (account)").lineage_svg(0)


def main(names: list[str]) -> None:
    mpl.rcParams.update({"svg.hashsalt": "sharpdnf", "font.size": 9, "axes.spines.top": False})
    mpl.rcParams["axes.spines.right"] = False
    FIGURES.mkdir(parents=True, exist_ok=True)
    for name in names or list(FIGURE):
        (FIGURES / f"{name}.svg").write_text(FIGURE[name](), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
