"""The command line: a thin shell over the library. Only the cli modules print or exit.

Exit codes: 0 answered, 1 internal error, 2 bad input or usage, 3 the guarantee was not met in the limit (the best
answer and its bounds are printed, if there is one), 130 interrupted. Errors go to standard error; standard output holds
answers only.
Everything heavy is imported inside the commands, so that help costs no more than typer.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpdnf.errors import SharpDNFError, SQLTimeout

if TYPE_CHECKING:
    from sharpdnf.circuit import Circuit
    from sharpdnf.dnf import DNF

EXTENSIONS = ("cli_faulttree", "cli_learn", "cli_reproduce", "cli_sql")  # each adds its commands with add_commands(app)
INTERNAL, BAD_INPUT, NOT_MET, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141

app = typer.Typer(
    name="sharpdnf",
    help="The probability that a weighted DNF is true: exact, with a guarantee, or learned.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="formulas, gzipped or not; - is standard input")]
File = Annotated[str, typer.Argument(metavar="FILE", help="a formula, gzipped or not; - is standard input")]
Epsilon = Annotated[float, typer.Option("-e", "--epsilon", help="tolerance, relative or additive")]
Delta = Annotated[float, typer.Option("-d", "--delta", help="probability of missing it")]
Seed = Annotated[int | None, typer.Option("-s", "--seed", min=0, help="same seed, same answer")]
Dialect = Annotated[str | None, typer.Option(help="sharpdnf, mcc or pysdd; default: told by the weights")]
Guarantee = Annotated[str | None, typer.Option(help="exact, relative, additive, bounds or none; default: the engine's")]
EngineName = Annotated[str, typer.Option(help="auto, or one of `sharpdnf engines`")]
Timeout = Annotated[float | None, typer.Option(min=0, help="seconds; then the best answer so far, exit code 3")]
Threads = Annotated[int | None, typer.Option(min=1, help="default: all cores; the answer does not depend on it")]
Options = Annotated[list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="of the engine")]


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if show:
        import sharpdnf

        typer.echo(f"sharpdnf {sharpdnf.__version__}")
        raise typer.Exit


@app.command()
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
    as_json: Annotated[bool, typer.Option("--json", help="one object a line, the fields of Estimate")] = False,
    as_mcc: Annotated[bool, typer.Option("--mcc", help="the lines of the model counting competition")] = False,
    dialect: Dialect = None,
    option: Options = None,
) -> None:
    """The probability of each formula, and its guarantee."""
    import sharpdnf
    from sharpdnf import show

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
                if isinstance(error, ValueError):  # a mistake in the request, not in this file
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


@app.command()
def marginals(
    file: File,
    *,
    epsilon: Epsilon = 0.02,
    delta: Delta = 0.05,
    seed: Seed = None,
    timeout: Timeout = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="one object a variable and line")] = False,
    dialect: Dialect = None,
) -> None:
    """P(variable | formula) for every variable."""
    import json

    from sharpdnf import formats
    from sharpdnf.analysis import posterior

    dnf = formats.read(file, dialect)
    given = posterior(dnf, epsilon=epsilon, delta=delta, rng=seed, timeout=timeout, threads=threads)
    names = dnf.names or tuple(str(v) for v in range(1, dnf.num_vars + 1))
    width = max(8, *(len(name) for name in names)) if names else 8
    head = f"{'variable':<{width}}  {'prior':>10}  {'given the formula':>17}  {'std. error':>10}"
    lines = [] if as_json else [head]
    columns = (dnf.prob.tolist(), given.prob.tolist(), given.std_error.tolist())
    for name, prior, updated, error in zip(names, *columns, strict=True):
        if as_json:
            lines.append(json.dumps({"variable": name, "prior": prior, "prob": updated, "std_error": error}))
        else:
            lines.append(f"{name:<{width}}  {prior:>10.6g}  {updated:>17.6g}  {error:>10.2g}")
    if lines:
        echo("\n".join(lines))
    raise typer.Exit(0 if given.met else NOT_MET)


@app.command()
def generate(
    family: Annotated[str, typer.Argument(help="paper, uniform, reliability or join")],
    out: Annotated[str, typer.Argument(help="file to write, gzipped if it ends in .gz; - is standard output")] = "-",
    *,
    num_vars: Annotated[int | None, typer.Option("-n", "--num-vars", min=0)] = None,
    num_clauses: Annotated[int | None, typer.Option("-m", "--num-clauses", min=0)] = None,
    width: Annotated[str | None, typer.Option("-w", "--width", help="literals a clause: 5, or 3-8")] = None,
    seed: Seed = None,
    dialect: Annotated[str, typer.Option(help="sharpdnf, pepin, mcc, pysdd or cnf-negation")] = "sharpdnf",
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", metavar="KEY=VALUE", help="of the family, such as rows=5 or edges=FILE"),
    ] = None,
) -> None:
    """A random or structured formula from a seed."""
    import numpy as np

    from sharpdnf.generate import generate as draw

    seed = int.from_bytes(os.urandom(4), "little") if seed is None else seed
    short = {"num_vars": num_vars, "num_clauses": num_clauses, "width": width}
    spec: dict[str, Any] = {key: str(value) for key, value in short.items() if value is not None}
    spec |= split_options(option)
    dnf = draw(family, np.random.default_rng(seed), **spec)
    words = " ".join(f"{key}={value}" for key, value in spec.items())
    deliver(dnf, out, dialect, f"c sharpdnf generate {family} {words} seed={seed}\n")


@app.command()
def convert(
    file: File,
    out: Annotated[str, typer.Argument(help="file to write, gzipped if it ends in .gz; - is standard output")] = "-",
    source: Annotated[
        str | None, typer.Option("--from", help="sharpdnf, mcc or pysdd; default: told by the weights")
    ] = None,
    to: Annotated[str, typer.Option("--to", help="sharpdnf, pepin, mcc, pysdd or cnf-negation")] = "sharpdnf",
) -> None:
    """Rewrite a formula, or its negation as a CNF."""
    from sharpdnf import formats

    deliver(formats.read(file, source), out, to)


@app.command()
def simplify(
    file: File,
    out: Annotated[str, typer.Argument(help="file to write, gzipped if it ends in .gz; - is standard output")] = "-",
    dialect: Dialect = None,
) -> None:
    """What is left to count, and how it gives the answer."""
    from sharpdnf import formats
    from sharpdnf.simplify import simplify as shrink

    dnf = formats.read(file, dialect)
    simple = shrink(dnf)
    comment = (
        "c mu is the probability of this formula; that of the original is F ((1 - M) + M mu) with\n"
        f"c log F = {simple.log_factor!r}, log(1 - M) = {simple.log_hit!r}, log M = {simple.log_miss!r}\n"
    )
    deliver(simple.dnf, out, "sharpdnf", comment)
    before, after = f"{dnf.num_clauses} clauses", f"{simple.dnf.num_clauses} clauses"
    done = ", ".join(f"{key} {number}" for key, number in simple.notes.items()) or "nothing to do"
    typer.echo(f"{file}: {before} -> {after} ({done})", err=True)


@app.command()
def engines(
    as_json: Annotated[bool, typer.Option("--json", help="one object an engine and line")] = False,
) -> None:
    """The counting algorithms and what they promise."""
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


def deliver(dnf: DNF, out: str, dialect: str, comment: str = "") -> None:
    """Writes the formula, with a comment line on standard output or first in the file."""
    from sharpdnf import formats

    if out == "-":
        lines = formats.encode(dnf, dialect)
        sys.stdout.buffer.write(comment.encode())
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    else:
        formats.write(dnf, out, dialect, comment)


def split_options(options: Sequence[str] | None) -> dict[str, str]:
    """key=value pairs; a key twice is an error."""
    out: dict[str, str] = {}
    for text in options or ():
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key.isidentifier():
            raise typer.BadParameter(f"expected KEY=VALUE, not {text!r}", param_hint="-o")
        if key in out:
            raise typer.BadParameter(f"{key} is given twice", param_hint="-o")
        out[key] = value.strip()
    return out


def parse_options(options: Sequence[str] | None) -> dict[str, Any]:
    """The same with numbers, true, false and none as such."""
    words = {"true": True, "false": False, "none": None}

    def value(text: str) -> Any:
        if text.lower() in words:
            return words[text.lower()]
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        return text

    return {key: value(text) for key, text in split_options(options).items()}


def worst(first: int, second: int) -> int:
    """The exit code of several files: bad input before an unmet guarantee before success."""
    return max(first, second, key=(0, NOT_MET, BAD_INPUT).index)


def echo(text: str) -> None:
    """Prints an answer at once, so that an interrupt loses nothing that was done."""
    print(text, flush=True)


class ClosedOutput(io.TextIOWrapper):
    """Standard output where the shell closed it (``>&-``): an answer that nobody can read is an error."""

    def __init__(self) -> None:
        super().__init__(io.BufferedWriter(_Closed()), write_through=True)


class _Closed(io.RawIOBase):
    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError("standard output is closed: there is nowhere to write the answer")


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


def complain(error: BaseException | str) -> None:
    typer.echo(f"sharpdnf: {error}", err=True)


def guard(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its errors as messages and exit codes."""

    @functools.wraps(command)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except (SharpDNFError, ValueError) as error:
            complain(error)
            raise typer.Exit(NOT_MET if isinstance(error, SQLTimeout) else BAD_INPUT) from None
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None
        except OSError as error:
            complain(error)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except MemoryError:
            complain("out of memory")
            raise typer.Exit(INTERNAL) from None

    return guarded


def guard_all(group: typer.Typer) -> None:
    for command in group.registered_commands:
        if command.callback is not None and not hasattr(command.callback, "__wrapped__"):
            command.callback = guard(command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            guard_all(inner.typer_instance)


@functools.cache
def load_extensions() -> None:
    for name in EXTENSIONS:
        if importlib.util.find_spec(f"sharpdnf.{name}") is not None:
            importlib.import_module(f"sharpdnf.{name}").add_commands(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point ``sharpdnf``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    sys.stdout = sys.stdout or ClosedOutput()
    try:
        if not words or words[0] not in own:
            load_extensions()
        guard_all(app)
        # An exact count of a formula with 15,000 variables has more digits than Python's default limit.
        sys.set_int_max_str_digits(0)
        app(args=words, prog_name="sharpdnf")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # it was said; the interpreter's own flush at exit must not complain again
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if isinstance(sys.stdout, ClosedOutput):
                sys.stdout = os.fdopen(nowhere, "w")
            else:
                os.dup2(nowhere, sys.stdout.fileno())


if __name__ == "__main__":
    main()
