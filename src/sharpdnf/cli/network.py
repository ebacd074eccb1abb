"""The network command: reliability, importance, links to strengthen, and a picture. Thin: it parses and prints."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sharpdnf.cli.options import Delta, Epsilon, Seed, Timeout


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the main application."""
    app.command("network")(network)


def network(
    edges: Annotated[str, typer.Argument(metavar="EDGES", help="CSV or Parquet, per row two nodes and a probability")],
    source: Annotated[str | None, typer.Option(help="with --target: are these two connected?")] = None,
    target: Annotated[str | None, typer.Option(help="the other terminal")] = None,
    terminals: Annotated[str | None, typer.Option(help="nodes separated by commas; default: all nodes")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="links lead from the first node to the second")] = False,
    hops: Annotated[int | None, typer.Option(min=0, help="count only ways of at most this many links")] = None,
    node_prob: Annotated[str | None, typer.Option(help="CSV of nodes and the probability that each works")] = None,
    reached: Annotated[bool, typer.Option("--reached", help="P(reached from --source) of every node")] = False,
    importance: Annotated[bool, typer.Option("--importance", help="how much each link matters")] = False,
    strengthen: Annotated[int | None, typer.Option(min=1, metavar="K", help="the K links to strengthen first")] = None,
    draw: Annotated[Path | None, typer.Option(help="a picture, .svg or .png, links coloured by importance")] = None,
    guarantee: Annotated[
        str | None, typer.Option(help="exact, relative, additive, bounds; default: exact or relative")
    ] = None,
    of: Annotated[str, typer.Option(help="what a relative guarantee is about: prob or complement")] = "prob",
    epsilon: Epsilon = 0.1,
    delta: Delta = 0.05,
    seed: Seed = None,
    timeout: Timeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per line")] = False,
) -> None:
    """Compute how likely a network of unreliable links is connected.

    Links, and nodes if you like, work with given probabilities. With --source and --target: are these two connected?
    With --terminals: are these? With neither: are all nodes?
    """
    from sharpdnf.fronts import network as front
    from sharpdnf.fronts.links import read_network, read_node_prob

    nodes = None if node_prob is None else read_node_prob(Path(node_prob))
    graph = read_network(edges, directed=directed, node_prob=nodes)
    names = None if terminals is None else [name.strip() for name in terminals.split(",") if name.strip()]
    asked: dict[str, Any] = {
        "guarantee": guarantee,
        "epsilon": epsilon,
        "delta": delta,
        "rng": seed,
        "timeout": timeout,
    }
    if reached:
        if source is None:
            raise typer.BadParameter("--reached needs --source")
        if target is not None or terminals is not None:
            raise typer.BadParameter("--reached is about every node: leave --target and --terminals out")
        with _working("searching"):
            table = front.reached(graph, source, hops=hops, **asked)
        _print_table({name: table[name] for name in ("node", "prob", "lower", "upper")}, as_json)
        if not table["met"]:
            raise typer.Exit(3)
        return
    where: dict[str, Any] = {"source": source, "target": target, "terminals": names, "hops": hops}
    with _working("reliability"):
        answer = front.reliability(graph, **where, of=of, **asked)
    if as_json:
        typer.echo(json.dumps(answer.to_dict()))
    else:
        from sharpdnf.cli.show import estimate_lines

        typer.echo("\n".join(estimate_lines(answer)))
    if importance:
        with _working("importance"):
            table = front.importance(graph, **where, timeout=timeout)
        _print_table(table, as_json)
    if strengthen is not None:
        with _working("links to strengthen"):
            table = front.strengthen(graph, strengthen, **where, timeout=timeout)
        _print_table(table, as_json)
    if draw is not None:
        with _working("drawing"):
            front.draw(graph, draw, **where, timeout=timeout)
        typer.echo(f"the picture is in {draw}", err=True)
    if not answer.met:
        raise typer.Exit(3)


def _working(what: str) -> contextlib.AbstractContextManager[Any]:
    """Says on standard error what is going on, for as long as it takes, if a person is looking."""
    if sys.stderr is None or not sys.stderr.isatty():
        return contextlib.nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"{what} ...")


def _print_table(table: dict[str, Any], as_json: bool) -> None:
    columns = {name: [v.item() if hasattr(v, "item") else v for v in values] for name, values in table.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, default=str))
        return
    from sharpdnf.cli.show import plain_table

    typer.echo(plain_table(rows))
