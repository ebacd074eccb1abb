"""The commands that make a formula file: ``generate``, ``convert`` and ``simplify``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpdnf.cli.options import Dialect, File, Seed, split_options

if TYPE_CHECKING:
    from sharpdnf.dnf import DNF


def add_commands(app: typer.Typer) -> None:
    """Adds ``generate``, ``convert`` and ``simplify`` to the main application."""
    for command in (generate, convert, simplify):
        app.command()(command)


def generate(
    family: Annotated[str, typer.Argument(help="paper, uniform, hub, reliability or join")],
    out: Annotated[str, typer.Argument(help="file to write, gzipped if it ends in .gz; - is standard output")] = "-",
    *,
    num_vars: Annotated[int | None, typer.Option("-n", "--num-vars", min=0, help="how many variables")] = None,
    num_clauses: Annotated[int | None, typer.Option("-m", "--num-clauses", min=0, help="how many clauses")] = None,
    width: Annotated[str | None, typer.Option("-w", "--width", help="literals per clause: 5, or 3-8")] = None,
    seed: Seed = None,
    dialect: Annotated[str, typer.Option(help="sharpdnf, pepin, mcc, pysdd or cnf-negation")] = "sharpdnf",
    option: Annotated[
        list[str] | None,
        typer.Option("-o", "--option", metavar="KEY=VALUE", help="option of the family, such as rows=5 or edges=FILE"),
    ] = None,
) -> None:
    """Make a random or structured formula from a seed."""
    import numpy as np

    from sharpdnf.generate import generate as draw

    seed = int.from_bytes(os.urandom(4), "little") if seed is None else seed
    short = {"num_vars": num_vars, "num_clauses": num_clauses, "width": width}
    spec: dict[str, Any] = {key: str(value) for key, value in short.items() if value is not None}
    spec |= split_options(option)
    dnf = draw(family, np.random.default_rng(seed), **spec)
    words = " ".join(f"{key}={value}" for key, value in spec.items())
    deliver(dnf, out, dialect, f"c sharpdnf generate {family} {words} seed={seed}\n")


def convert(
    file: File,
    out: Annotated[str, typer.Argument(help="file to write, gzipped if it ends in .gz; - is standard output")] = "-",
    source: Annotated[
        str | None, typer.Option("--from", help="sharpdnf, mcc or pysdd; default: told by the weights")
    ] = None,
    to: Annotated[str, typer.Option("--to", help="sharpdnf, pepin, mcc, pysdd or cnf-negation")] = "sharpdnf",
) -> None:
    """Write a formula in another format, or its negation as a CNF."""
    from sharpdnf import formats

    deliver(formats.read(file, source), out, to)


def simplify(
    file: File,
    out: Annotated[str, typer.Argument(help="file to write, gzipped if it ends in .gz; - is standard output")] = "-",
    dialect: Dialect = None,
) -> None:
    """Write what is left to count, and how it gives the answer."""
    from sharpdnf import formats
    from sharpdnf.simplify import simplify as shrink

    dnf = formats.read(file, dialect)
    simple = shrink(dnf)
    fold = simple.fold
    comment = (
        "c mu is the probability of this formula; that of the original is F ((1 - M) + M mu) with\n"
        f"c log F = {fold.log_factor!r}, log(1 - M) = {fold.log_hit!r}, log M = {fold.log_miss!r}\n"
    )
    deliver(simple.dnf, out, "sharpdnf", comment)
    before, after = f"{dnf.num_clauses} clauses", f"{simple.dnf.num_clauses} clauses"
    done = ", ".join(f"{key} {number}" for key, number in simple.notes.items()) or "nothing to do"
    typer.echo(f"{file}: {before} -> {after} ({done})", err=True)


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
