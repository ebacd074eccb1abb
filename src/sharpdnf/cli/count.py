"""The commands ``count``, of formulas in files, and ``engines``, the list of the algorithms that count."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpdnf.cli.options import (
    Delta,
    Dialect,
    EngineName,
    Epsilon,
    Files,
    Guarantee,
    Options,
    Seed,
    Threads,
    Timeout,
    parse_options,
)
from sharpdnf.cli.program import BAD_INPUT, NOT_MET, complain, echo
from sharpdnf.errors import SharpDNFError

if TYPE_CHECKING:
    from sharpdnf.circuit import Circuit
    from sharpdnf.dnf import DNF


def add_commands(app: typer.Typer) -> None:
    """Adds ``count`` and ``engines`` to the main application."""
    app.command()(count)
    app.command()(engines)


def count(
    files: Files,
    *,
    epsilon: Epsilon = 0.1,
    delta: Delta = 0.05,
    seed: Seed = None,
    guarantee: Guarantee = None,
    of: Annotated[
        str, typer.Option(help="what a relative guarantee is about: prob, or complement for 1 - probability")
    ] = "prob",
    engine: EngineName = "auto",
    timeout: Timeout = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per formula, a line each")] = False,
    as_mcc: Annotated[bool, typer.Option("--mcc", help="print the model counting competition's lines")] = False,
    dialect: Dialect = None,
    option: Options = None,
) -> None:
    """Print the probability of each formula and what is promised."""
    import sharpdnf
    from sharpdnf.cli import show

    if as_json and as_mcc:
        raise typer.BadParameter("choose one of --json and --mcc")
    ask: dict[str, Any] = {"guarantee": guarantee, "of": of, "epsilon": epsilon, "delta": delta, "rng": seed}
    ask |= {"timeout": timeout, "threads": threads, "engine": engine, **parse_options(option)}
    width = max(4, *(len(name) for name in files))
    code, rows = 0, 0
    with Progress(len(files)) as progress:
        for file in files:
            try:
                read = formulas(file, dialect)
                several = len(files) > 1 or len(read) > 1
                answers = [(name, dnf, sharpdnf.count(dnf, **ask)) for name, dnf in read]
            except SharpDNFError as error:
                if isinstance(error, ValueError):  # a mistake in the request, so the other files would fail as well
                    raise
                progress.complain(error)
                code = worst(code, BAD_INPUT)
                continue
            lines = []
            for name, dnf, estimate in answers:
                if as_json:
                    lines.append(show.json_line(name, estimate))
                elif as_mcc:
                    lines += [f"c o file {name}"] * several + [show.competition_lines(dnf, estimate)]
                elif several:
                    lines += [show.row_header(width)] * (rows == 0) + [show.row(name, estimate, width)]
                else:
                    lines.append(show.block(name, dnf, estimate))
                rows += 1
                code = worst(code, 0 if estimate.met else NOT_MET)
            progress.say("\n".join(lines))
    raise typer.Exit(code)


def formulas(file: str, dialect: str | None) -> list[tuple[str, DNF | Circuit]]:
    """The formulas of a file and what to call them: a DNF, or every output of a circuit."""
    from sharpdnf import circuit_formats, formats

    if dialect is not None or file == "-" or not circuit_formats.looks_like_circuit(file):
        return [(file, formats.read(file, dialect))]
    circuit = circuit_formats.read_circuit(file)
    if circuit.num_outputs == 1:
        return [(file, circuit)]
    names = circuit.output_names or [str(i) for i in range(circuit.num_outputs)]
    return [(f"{file}[{name}]", circuit[i]) for i, name in enumerate(names)]


def engines(
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per engine and line")] = False,
) -> None:
    """List the counting algorithms and what they promise."""
    import json

    from sharpdnf.engines.registry import discover

    for name, engine in discover().items():
        if as_json:
            fields = {"engine": name, "guarantees": engine.guarantees, "options": list(engine.options)}
            echo(json.dumps({**fields, "extra": engine.extra, "summary": engine.summary}))
            continue
        echo(f"{name:<12}{engine.summary}")
        echo(f"{'':<12}guarantee: {', '.join(engine.guarantees)}")
        if engine.options:
            echo(f"{'':<12}options:   {', '.join(engine.options)}")
        if engine.extra:
            echo(f"{'':<12}install:   pip install 'sharpdnf[{engine.extra}]'")


def worst(first: int, second: int) -> int:
    """The more serious of two exit codes: bad input, then an unmet guarantee, then success."""
    return max(first, second, key=(0, NOT_MET, BAD_INPUT).index)


class Progress:
    """A bar on standard error while several files are counted, only if that is a terminal."""

    def __init__(self, total: int) -> None:
        self.bar: Any = None
        if total > 1 and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
            self.task = self.bar.add_task("counting", total=total)

    def __enter__(self) -> Progress:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def say(self, answer: str) -> None:
        self._aside(lambda: echo(answer))

    def complain(self, error: Exception) -> None:
        self._aside(lambda: complain(error))

    def _aside(self, speak: Callable[[], None]) -> None:
        """Speaks with the bar out of the way, then moves it on."""
        if self.bar is None:
            return speak()
        self.bar.stop()
        speak()
        self.bar.advance(self.task)
        self.bar.start()
