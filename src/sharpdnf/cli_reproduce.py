"""The commands ``reproduce``, ``report`` and ``calibrate``. Thin: they parse, show progress and print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RESULTS = Path("experiments/results")


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the main application."""
    for command in (reproduce, report, calibrate):
        app.command()(command)


def reproduce(
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="structure, size, other, trace or runtime; default all")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="a shipped network or a directory of weights; default all shipped")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="the paper's whole sets (hours) instead of subsets")] = False,
    out: Annotated[Path, typer.Option(help="where rows, tables and figures go; labels there are used again")] = RESULTS,
    seed: Annotated[int, typer.Option(help="of the test formulas and their labels")] = 0,
) -> None:
    """Rebuild the paper's tables and figures: formulas, labels, networks, rows, report."""
    from sharpdnf.reproduce import GROUPS
    from sharpdnf.reproduce import reproduce as run

    written = run(out, groups=sets or tuple(GROUPS), models=model, full=full, seed=seed, say=_say)
    _say_end()
    for path in written:
        typer.echo(path)


def report(
    source: Annotated[Path, typer.Argument(help="a directory with rows.csv, traces.csv, runtimes.csv")] = RESULTS,
    out: Annotated[Path | None, typer.Option(help="where tables and figures go; default beside the rows")] = None,
) -> None:
    """Make the paper's tables and figures from rows alone, without a model."""
    from sharpdnf.report import write_report

    for path in write_report(source, out or source):
        typer.echo(path)


def calibrate(
    weights: Annotated[Path, typer.Argument(help="a directory with config.json and model.safetensors")],
    results: Annotated[Path, typer.Option(help="a directory with the rows.csv of a network of that name")] = RESULTS,
) -> None:
    """Store quantiles of held-out residuals beside a network's weights: its intervals come from them."""
    from sharpdnf.reproduce import calibrate as run

    typer.echo(f"{weights / 'config.json'}: intervals from {run(weights, results)} held-out formulas")


def _say(line: str) -> None:
    if sys.stderr.isatty():
        typer.echo("\r" + line.ljust(60), nl=False, err=True)
    else:
        typer.echo(line, err=True)


def _say_end() -> None:
    if sys.stderr.isatty():
        typer.echo("", err=True)
