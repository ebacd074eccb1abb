"""The command ``sharpdnf sql``: a query over tables with a probability column, its answers as a table or a file."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpdnf.cli.options import Delta, EngineName, Epsilon, Seed
from sharpdnf.cli.program import NOT_MET
from sharpdnf.files import replacing

if TYPE_CHECKING:
    from sharpdnf.sql import Answers, ProbDB

UNFOLDED = 100_000
"""The width in characters of tables that go to a pipe or a file, where no line should be folded."""


def add_commands(app: typer.Typer) -> None:
    """Adds ``sql`` to the main application."""
    app.command("sql")(sql)


def sql(
    query: Annotated[str, typer.Argument(help="one SELECT; - reads it from standard input")],
    db: Annotated[str | None, typer.Option(help="DuckDB or SQLite file, CSV, Parquet or postgresql:// address")] = None,
    uncertain: Annotated[list[str], typer.Option(help="table:probability[:block,columns]; may be repeated")] = [],  # noqa: B006
    table: Annotated[list[str], typer.Option(help="name=file.csv or .parquet; may be repeated")] = [],  # noqa: B006
    given: Annotated[list[str], typer.Option(help="a query known to have an answer; may be repeated")] = [],  # noqa: B006
    given_not: Annotated[list[str], typer.Option(help="a query known to have none; may be repeated")] = [],  # noqa: B006
    guarantee: Annotated[str | None, typer.Option(help="exact, relative, additive or bounds")] = None,
    epsilon: Epsilon = 0.1,
    delta: Delta = 0.05,
    engine: EngineName = "auto",
    timeout: Annotated[float | None, typer.Option(help="seconds for database and counting; then exit code 3")] = None,
    seed: Seed = None,
    aggregates: Annotated[str, typer.Option(help="summary: one row a group; rows: one for each value")] = "summary",
    limit: Annotated[int, typer.Option(min=0, help="how many answers to print")] = 50,
    show_sql: Annotated[bool, typer.Option("--show-sql", help="print the rewritten SQL and stop")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="say which way the query goes, and why, and stop")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="print the answers as CSV")] = False,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object per answer and line")] = False,
    parquet: Annotated[Path | None, typer.Option(help="write the answers as Parquet")] = None,
) -> None:
    """Answer SQL over tables with a probability column.

    Every answer comes with the probability that it is one.
    """
    import sharpdnf

    if csv and json:
        raise typer.BadParameter("--csv and --json both print: ask for one", param_hint="--csv")
    if parquet is not None and not parquet.parent.is_dir():  # better said now than after an hour of counting
        raise typer.BadParameter(f"there is no directory {parquet.parent}", param_hint="--parquet")
    database = sharpdnf.connect(db)
    for entry in table:
        name, separator, path = entry.partition("=")
        if not separator:
            raise typer.BadParameter(f"{entry!r} is not name=file", param_hint="--table")
        database.register(name, path)
    for entry in uncertain:
        _declare(database, entry)
    text = sys.stdin.read() if query == "-" else query
    if show_sql:
        typer.echo(database.rewrite(text))
        return
    if explain:
        typer.echo(str(database.plan(text)))
        return
    options: dict[str, Any] = {
        "guarantee": guarantee,
        "epsilon": epsilon,
        "delta": delta,
        "engine": engine,
        "timeout": timeout,
        "rng": seed,
        "given": given or None,
        "given_not": given_not or None,
        "aggregates": aggregates,
    }
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", sharpdnf.errors.NoUncertainTable)
        answers = _answer(database, text, options)
    for warning in heard:
        typer.echo(f"warning: {warning.message}", err=True)
    if not csv and not json and parquet is None:
        _print(answers, limit)
    _write(answers, csv, json, parquet)
    if not answers.met:
        typer.echo("the guarantee was not met for every answer: the bounds shown are the best known", err=True)
        raise typer.Exit(NOT_MET)


def _declare(database: ProbDB, entry: str) -> None:
    """Declares an uncertain table from ``table:p`` or ``table:p:block,columns``."""
    parts = entry.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise typer.BadParameter(f"{entry!r} is not table:probability[:block,columns]", param_hint="--uncertain")
    block = parts[2].split(",") if len(parts) == 3 else None
    database.uncertain(parts[0], prob=parts[1], block=block)


def _answer(database: ProbDB, query: str, options: dict[str, Any]) -> Answers:
    """Runs the query; on a terminal, with a bar over the answers."""
    if not sys.stderr.isatty():
        return database.sql(query, **options)
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("database", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, description="answers", completed=done, total=total)

        return database.sql(query, progress=progress, **options)


def _print(answers: Answers, limit: int) -> None:
    from rich.console import Console

    if sys.stdout.isatty():
        answers.show(limit)
    else:
        Console(width=UNFOLDED).print(answers.table(limit))


def _plain(value: Any) -> Any:
    """The value with nan and infinities as null, in lists and structures too, because JSON cannot say them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _write(answers: Answers, csv: bool, json: bool, parquet: Path | None) -> None:
    data = answers.arrow()
    if csv:
        import pyarrow.csv

        sys.stdout.flush()
        pyarrow.csv.write_csv(data, sys.stdout.buffer)
    if json:
        import json as encoder

        for row in data.to_pylist():
            typer.echo(encoder.dumps(_plain(row), default=str, allow_nan=False))
    if parquet is not None:
        import pyarrow.parquet

        with replacing(parquet) as file:
            pyarrow.parquet.write_table(data, file)
