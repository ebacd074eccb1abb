"""Writes the two pages of the documentation that are made from the program itself, so that they cannot go stale.

docs/reference/configuration.md has every key of a training configuration, from the dataclasses in
``sharpdnf.learn.config`` and their docstrings; it is kept in the repository, and a test holds it to the code.
docs/reference/commands.md has every command and option, from the parsers of ``sharpdnf.cli``; it is made by each build
of the site and not kept.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click
import typer

from sharpdnf.cli import app, load_commands
from sharpdnf.learn.config import (
    DataConfig,
    DatasetConfig,
    HoldConfig,
    LossConfig,
    MixConfig,
    NetworkConfig,
    OptimizerConfig,
    RunConfig,
)

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference"
TABLES = {
    "[network]": NetworkConfig,
    "[data]": DataConfig,
    "[[data.mix]]": MixConfig,
    "[loss]": LossConfig,
    "[optimizer]": OptimizerConfig,
    "[run]": RunConfig,
    "[hold]": HoldConfig,
    "[dataset]": DatasetConfig,
}
"""Each table of an experiment file, as its heading is written in TOML, with the dataclass that holds it."""
KINDS = {
    "integer": "integer", "integer range": "integer", "float": "number", "float range": "number", "text": "text",
    "path": "path", "int": "integer", "int range": "integer", "str": "text", "boolean": "yes or no", "choice": "choice",
}  # fmt: skip
"""The kinds of values that the parsers know, as a person would say them."""
CONFIGURATION_HEAD = """\
# Training configuration

An experiment file is TOML: it says which network is trained, on what, how and for how long, and which dataset
`sharpdnf dataset build` makes. `sharpdnf train experiments/paper.toml` runs one. Every key has a default, so an empty
file is a valid experiment. A key or a table that is not on this page is an error that names the nearest one that is; so
is a value of another type or out of range.

```toml
[network]
k = 64

[run]
steps = 500
seed = 1

[[data.mix]]              # one table for each source of formulas
kind = "paper"
num_vars = [50, 200]
```

A file that begins with `base = "paper.toml"` is that file, beside it, with the keys that it gives itself in place of
the other's; that is how `experiments/t2-1-cycles.toml` trains another network by the same recipe.

A list stands for a range where the meaning below says so. This page is written by `make reference` from
`src/sharpdnf/learn/config.py`.
"""
COMMANDS_HEAD = """\
# Commands

Every command of `sharpdnf`, from its own parsers. `sharpdnf COMMAND -h` prints the same, and
`sharpdnf --install-completion` makes the shell complete commands and options.

| exit code | meaning |
|---|---|
| 0 | answered, and every guarantee was met |
| 1 | an error of ours, or memory ran out |
| 2 | the input or the command is wrong; the message says where |
| 3 | the guarantee was not met within the limit; the best answer and its bounds are printed |
| 130 | stopped by Ctrl-C |

Answers go to standard output, everything else to standard error.
"""


def field_docs(table: type) -> dict[str, str]:
    """The docstring of each field of a dataclass: the string that stands under it."""
    (body,) = (node.body for node in ast.parse(textwrap.dedent(inspect.getsource(table))).body)  # type: ignore[attr-defined]
    found = {}
    for field, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            found[field.target.id] = inspect.cleandoc(below.value.value) if documented else ""
    return found


def type_words(hint: Any) -> str:
    """A type as a person would say it: "integer", "list of 2 numbers"."""
    words = {int: "integer", float: "number", str: "text", bool: "true or false"}
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if dataclasses.is_dataclass(inner[0]):
            return "list of tables"
        one = {int: "integers", float: "numbers", str: "texts", bool: "true or false"}[inner[0]]
        return f"list of {one}" if inner[-1] is Ellipsis else f"list of {len(inner)} {one}"
    return words[hint]


def default_words(value: Any) -> str:
    """A default as it would be written in TOML."""
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return "one table of defaults"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def plain(text: str) -> str:
    """A docstring as one line of Markdown: ``code`` as `code`, pipes escaped for a table."""
    return re.sub(r"\s+", " ", text.replace("``", "`")).replace("|", "\\|").strip()


def configuration_page() -> str:
    """The page about experiment files."""
    parts = [CONFIGURATION_HEAD]
    for heading, table in TABLES.items():
        docs, hints = field_docs(table), get_type_hints(table)
        parts.append(f"## `{heading}`\n\n" + inspect.cleandoc(table.__doc__ or "").replace("``", "`") + "\n")
        rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
        for field in dataclasses.fields(table):
            kind, default = type_words(hints[field.name]), default_words(field.default)
            rows.append(f"| `{field.name}` | {kind} | {default} | {plain(docs[field.name])} |")
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, click.Command]]:
    """(words to type, command) of every command, in the order of the help; a group comes before its commands."""
    load_commands()
    program = typer.main.get_command(app)
    waiting: list[tuple[str, click.Command]] = [("sharpdnf", program)]
    while waiting:
        words, command = waiting.pop(0)
        yield words, command
        inner = getattr(command, "commands", {})
        waiting = [(f"{words} {name}", inner[name]) for name in sorted(inner)] + waiting


def parameter_row(parameter: click.Parameter) -> str:
    """One line of the table of options."""
    flags = " ".join(f"`{flag}`" for flag in [*parameter.opts, *parameter.secondary_opts])
    is_option = isinstance(parameter, click.Option) or parameter.param_type_name == "option"
    flags = flags if is_option else f"`{parameter.make_metavar(click.Context(click.Command('x')))}`"
    switch = bool(getattr(parameter, "is_flag", False))
    kind = "switch" if switch else KINDS[parameter.type.name]
    choices = getattr(parameter.type, "choices", None)
    if choices:
        kind = ", ".join(f"`{choice}`" for choice in choices)
    default = "" if callable(parameter.default) or parameter.default in (None, False, ()) else f"`{parameter.default}`"
    default = "required" if parameter.required else default
    return f"| {flags} | {kind} | {default} | {plain(getattr(parameter, 'help', None) or '')} |"


def commands_page() -> str:
    """The page about the command line."""
    parts = [COMMANDS_HEAD]
    for words, command in commands():
        text = inspect.cleandoc(command.help or "").replace("\f", "").replace("``", "`")
        usage = command.get_usage(click.Context(command, info_name=words)).removeprefix("Usage: ")
        parts.append(f"## `{words}`\n\n{text}\n\n```\n{usage}\n```\n")
        if shown := [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]:
            head = ["| option | value | default | meaning |", "|---|---|---|---|"]
            parts.append("\n".join([*head, *(parameter_row(parameter) for parameter in shown)]) + "\n")
    return "\n".join(parts)


def write_pages() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / "configuration.md").write_text(configuration_page())
    (PAGES / "commands.md").write_text(commands_page())


if __name__ == "__main__":
    write_pages()
