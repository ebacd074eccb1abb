"""Arguments and options that several commands share: how they are named, explained and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="formulas, gzipped or not; - is standard input")]
File = Annotated[str, typer.Argument(metavar="FILE", help="a formula, gzipped or not; - is standard input")]
Epsilon = Annotated[float, typer.Option("-e", "--epsilon", help="tolerance, relative or additive")]
Delta = Annotated[float, typer.Option("-d", "--delta", help="probability that the tolerance is missed")]
Seed = Annotated[int | None, typer.Option("-s", "--seed", min=0, help="same seed, same answer")]
Dialect = Annotated[str | None, typer.Option(help="sharpdnf, mcc or pysdd; default: told by the weights")]
Guarantee = Annotated[str | None, typer.Option(help="exact, relative, additive, bounds or none; default: the engine's")]
EngineName = Annotated[str, typer.Option(help="auto, or one of `sharpdnf engines`")]
Timeout = Annotated[float | None, typer.Option(min=0, help="seconds; then the best answer so far, exit code 3")]
Threads = Annotated[int | None, typer.Option(min=1, help="default: all cores; the answer is the same for any number")]
Options = Annotated[list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="option of the engine")]


def split_options(options: Sequence[str] | None) -> dict[str, str]:
    """Splits KEY=VALUE pairs into a dictionary of texts; a key that is given twice is an error."""
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
    """Splits KEY=VALUE pairs; a value that looks like a number, true, false or none is read as one, others as text."""
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
