"""The learning commands: ``dataset build`` and ``train``. Thin: they parse, show progress and print."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharpdnf.errors import ConfigError, needs_extra

if TYPE_CHECKING:
    from sharpdnf.learn.config import Config
    from sharpdnf.learn.train import Report


def add_commands(app: typer.Typer) -> None:
    """Adds the learning commands to the main application."""
    app.command("train")(train)
    datasets = typer.Typer(help="Build sets of labelled formulas, as Parquet files.", no_args_is_help=True)
    datasets.command("build")(build_dataset)
    app.add_typer(datasets, name="dataset")


def train(
    experiment: Annotated[Path, typer.Argument(help="an experiment file, such as experiments/paper.toml")],
    out: Annotated[Path | None, typer.Option(help="run directory; an interrupted run there is resumed")] = None,
) -> None:
    """Train a network, or go on with a run that was interrupted.

    A run that is started again on the same directory is resumed bit for bit. An experiment that goes on from another
    (run.init names its file) trains that one first, in the directory beside.
    """
    from sharpdnf.engines.sampling import label
    from sharpdnf.learn.config import read_config

    with needs_extra("training", "train"):
        from sharpdnf.learn.train import train as run

    directory = out or Path("experiments/runs") / experiment.stem
    for stage, config in _stages(experiment, read_config):
        own = directory if stage == experiment else directory.parent / stage.stem
        before = config.run.init
        init = str(directory.parent / Path(before).stem) if before.endswith(".toml") else before
        typer.echo(f"{stage} in {own}", err=True)
        run(replace(config, run=replace(config.run, init=init)), own, label, _show)
    typer.echo(f"\nthe trained network is in {directory / 'final'}, the best by validation in {directory / 'best'}")


def _stages(experiment: Path, read_config: Callable[[Path], Config]) -> list[tuple[Path, Config]]:
    """The experiments to run, in order: those that this one goes on from come first."""
    stages = [(experiment, read_config(experiment))]
    while (init := stages[0][1].run.init).endswith(".toml"):
        if any(Path(init).resolve() == stage.resolve() for stage, _ in stages):
            raise ConfigError(f"{stages[0][0]}: run.init goes round in a circle to {init}")
        stages.insert(0, (Path(init), read_config(Path(init))))
    return stages


def _show(report: Report) -> None:
    within = " ".join(f"{t:.2f}:{100 * share:.1f}%" for t, share in report.validation.items() if t < 0.12)
    left = f"{report.seconds_left / 60:.0f} min left" if math.isfinite(report.seconds_left) else ""
    line = (
        f"step {report.step}/{report.steps}  loss {report.loss:.4f}  {within}  "
        f"{report.formulas_per_second:.1f} formulas/s  {left}"
    )
    line = report.doing or line
    end = "\r" if sys.stderr.isatty() else "\n"
    typer.echo(line.ljust(100) + end, nl=False, err=True)


def build_dataset(
    experiment: Annotated[Path, typer.Argument(help="an experiment file with a [dataset] table")],
    out: Annotated[Path | None, typer.Option(help="where to put the dataset; default: as the file says")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="how many processes to use; default: one per core")] = None,
) -> None:
    """Generate and label formulas; started again, go on where it was."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    from sharpdnf.learn.config import read_config
    from sharpdnf.paper.build import build
    from sharpdnf.paper.labels import LABELLERS

    config = read_config(experiment).dataset
    directory = out or Path(config.directory)
    text = TextColumn("{task.description}"), TextColumn("formulas  {task.fields[left]}")
    with Bar(text[0], BarColumn(), MofNCompleteColumn(), text[1], console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, left="")
        for split, done, total, seconds_left in build(config, directory, LABELLERS[config.labels], workers):
            left = f"{seconds_left / 60:.0f} min left" if math.isfinite(seconds_left) and done < total else ""
            bar.update(task, description=split, completed=done, total=total, left=left)
    typer.echo(f"the dataset is in {directory}")
