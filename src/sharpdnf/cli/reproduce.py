"""The commands ``reproduce``, ``report`` and ``calibrate``. Thin: they parse, show progress and print."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

RESULTS, CALIBRATION = Path("experiments/results"), Path("experiments/calibration")


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the main application."""
    for command in (reproduce, report, calibrate):
        app.command()(command)


def reproduce(
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="training, structure, size, other, code, outside, trace, runtime; default all"),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="a shipped network or a directory of weights; default all shipped")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="the paper's whole sets (hours to days) instead of subsets")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="a first look: so many formulas of each set; 2 take half a minute"),
    ] = None,
    out: Annotated[Path, typer.Option(help="where rows, tables and figures go; labels there are used again")] = RESULTS,
    seed: Annotated[int, typer.Option(help="the seed of the test formulas and their labels")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="processes that measure; 0 means one per core")] = 0,
) -> None:
    """Measure again what the paper's tables and figures show.

    Formulas are generated and labelled, the networks estimate them, and the rows become tables and figures.
    What is measured is kept in --out: run it again after a kill and it goes on, with new weights it measures anew.
    """
    from sharpdnf.paper.reproduce import GROUPS
    from sharpdnf.paper.reproduce import reproduce as run

    written = run(
        out,
        groups=sets or tuple(GROUPS),
        models=model,
        full=full,
        limit=limit,
        seed=seed,
        jobs=jobs or os.cpu_count() or 1,
        say=_say,
    )
    _say_end()
    for path in written:
        typer.echo(path)


def report(
    source: Annotated[Path, typer.Argument(help="a directory with rows.csv, traces.csv, runtimes.csv")] = RESULTS,
    out: Annotated[Path | None, typer.Option(help="where tables and figures go; default beside the rows")] = None,
) -> None:
    """Draw the paper's tables and figures from measured rows."""
    from sharpdnf.paper.report import write_report

    for path in write_report(source, out or source):
        typer.echo(path)


def calibrate(
    weights: Annotated[Path, typer.Argument(help="a directory with config.json and model.safetensors")],
    out: Annotated[Path, typer.Option(help="where labels and rows are kept, to be used again")] = CALIBRATION,
    jobs: Annotated[int, typer.Option(min=0, help="processes that measure; 0 means one per core")] = 0,
) -> None:
    """Fit the intervals that a network shows with its estimates.

    They are quantiles of its residuals on held-out formulas, and are stored beside its weights.
    The formulas are of another seed than those of the tables, which say how often the intervals held.
    """
    from sharpdnf.paper.calibrate import calibrate as run

    count = run(weights, out, jobs=jobs or os.cpu_count() or 1, say=_say)
    _say_end()
    typer.echo(f"{weights / 'config.json'}: intervals from {count} held-out formulas")


def _say(line: str) -> None:
    if sys.stderr.isatty():
        typer.echo("\r" + line.ljust(60), nl=False, err=True)
    else:
        typer.echo(line, err=True)


def _say_end() -> None:
    if sys.stderr.isatty():
        typer.echo("", err=True)
