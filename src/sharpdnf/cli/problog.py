"""The command ``problog``: the queries of a probabilistic logic program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharpdnf.cli.options import Delta, Epsilon, Guarantee, Seed, Threads, Timeout
from sharpdnf.cli.program import NOT_MET, echo


def add_commands(app: typer.Typer) -> None:
    """Adds ``problog`` to the main application."""
    app.command()(problog)


def problog(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a ProbLog program")],
    *,
    guarantee: Guarantee = None,
    epsilon: Epsilon = 0.1,
    delta: Delta = 0.05,
    seed: Seed = None,
    timeout: Timeout = None,
    threads: Threads = None,
    learn: Annotated[
        Path | None,
        typer.Option(metavar="EXAMPLES", help="find the probabilities t(_) from these examples; prints the program"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per query and line")] = False,
) -> None:
    """Answer the queries of a logic program, given its evidence."""
    from sharpdnf.cli import show
    from sharpdnf.fronts.problog import query

    if learn is not None:
        if guarantee is not None:
            raise typer.BadParameter("--learn finds probabilities: it has no guarantee")
        _learn(file, learn, seed, timeout, as_json)
    answers = query(file, guarantee=guarantee, epsilon=epsilon, delta=delta, rng=seed, timeout=timeout, threads=threads)
    width = max(len(name) for name in answers)
    if not as_json:
        echo(show.row_header(width))
    for name, estimate in answers.items():
        echo(show.json_line(name, estimate) if as_json else show.row(name, estimate, width))
    raise typer.Exit(0 if all(estimate.met for estimate in answers.values()) else NOT_MET)


def _learn(file: Path, examples: Path, seed: int | None, timeout: float | None, as_json: bool) -> None:
    """Prints the learned program, or its probabilities as one JSON object."""
    import dataclasses
    import json

    from sharpdnf.fronts.problog import learn

    learned = learn(file, examples, rng=seed, timeout=timeout)
    echo(json.dumps(dataclasses.asdict(learned)) if as_json else learned.program.rstrip())
    raise typer.Exit(0 if learned.met else NOT_MET)
