"""The program ``sharpdnf``: the application that the command modules add to, its exit codes and its errors.

Exit codes: 0 answered, 1 internal error, 2 bad input or usage, 3 the guarantee was not met in the limit (the best
answer and its bounds are printed, if there is one), 130 interrupted. Errors go to standard error; standard output holds
answers only.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from sharpdnf.errors import SharpDNFError, SQLTimeout

MODULES = ("count", "formulas", "analysis", "faulttree", "learn", "network", "problog", "reproduce", "sql", "serve")
"""The modules of this package that add commands with ``add_commands(app)``, those that must start fastest first."""
INTERNAL, BAD_INPUT, NOT_MET, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141

app = typer.Typer(
    name="sharpdnf",
    help="Probabilities of formulas, networks, fault trees, logic programs and SQL answers: exact, with a guarantee, "
    "or learned.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False) -> None:
    if show:
        import sharpdnf

        typer.echo(f"sharpdnf {sharpdnf.__version__}")
        raise typer.Exit


def names(group: typer.Typer) -> set[str]:
    """The words that the application understands as commands so far."""
    commands = {command.name or command.callback.__name__ for command in group.registered_commands if command.callback}
    return commands | {inner.name for inner in group.registered_groups if inner.name}


@functools.cache
def add_module(name: str) -> None:
    importlib.import_module(f"sharpdnf.cli.{name}").add_commands(app)


def load_commands(wanted: str | None = None) -> None:
    """Adds the commands, module by module; stops as soon as ``wanted`` is among them, so that counting starts fast."""
    for name in MODULES:
        if wanted in names(app):
            return
        add_module(name)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point ``sharpdnf``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    sys.stdout = sys.stdout or ClosedOutput()
    try:
        load_commands(words[0] if words else None)
        guard_all(app)
        # An exact count of a formula with 15,000 variables has more digits than Python's default limit.
        sys.set_int_max_str_digits(0)
        app(args=words, prog_name="sharpdnf")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # already reported: the interpreter's own flush at exit must not complain again
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if isinstance(sys.stdout, ClosedOutput):
                sys.stdout = os.fdopen(nowhere, "w")
            else:
                os.dup2(nowhere, sys.stdout.fileno())


def complain(error: BaseException | str) -> None:
    typer.echo(f"sharpdnf: {error}", err=True)


def guard(command: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command so that its errors become messages on standard error and exit codes."""

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
