"""The command ``marginals``: what a formula says about each of its variables."""

from __future__ import annotations

from typing import Annotated

import typer

from sharpdnf.cli.options import Delta, Dialect, Epsilon, File, Seed, Threads, Timeout
from sharpdnf.cli.program import NOT_MET, echo


def add_commands(app: typer.Typer) -> None:
    """Adds ``marginals`` to the main application."""
    app.command()(marginals)


def marginals(
    file: File,
    *,
    epsilon: Epsilon = 0.02,
    delta: Delta = 0.05,
    seed: Seed = None,
    timeout: Timeout = None,
    threads: Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per variable and line")] = False,
    dialect: Dialect = None,
) -> None:
    """Print P(variable | formula) for every variable."""
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
