"""The command ``sharpdnf faulttree``: top events, importance, cut sets, uncertainty and sequences of a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpdnf.cli.options import Delta, Epsilon, Seed
from sharpdnf.cli.program import NOT_MET, complain

if TYPE_CHECKING:
    from sharpdnf.estimate import Estimate
    from sharpdnf.fronts.faulttree import CutSetTable, FaultTree

APPROXIMATION_NODES = 1_000_000
"""The most nodes that the diagram of cut sets may have where only the approximations need it: about a second."""


def add_commands(app: typer.Typer) -> None:
    """Adds ``faulttree`` to the main application."""
    app.command("faulttree")(faulttree)


def faulttree(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Open-PSA XML, Aralia text or a list of cut sets")],
    top: Annotated[str | None, typer.Option(help="a top event or a sequence; default: all")] = None,
    mission_time: Annotated[float | None, typer.Option(min=0, help="for failure rates, usually in hours")] = None,
    importance: Annotated[bool, typer.Option("--importance", help="how much each basic event matters")] = False,
    cut_sets: Annotated[int | None, typer.Option(min=1, metavar="N", help="list the likeliest N cut sets")] = None,
    implicants: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="list the likeliest N prime implicants of a tree with NOT")
    ] = None,
    order: Annotated[int | None, typer.Option(min=1, help="only cut sets of at most this many events")] = None,
    cutoff: Annotated[float | None, typer.Option(min=0, max=1, help="only cut sets at least this likely")] = None,
    uncertainty: Annotated[int | None, typer.Option(min=2, metavar="N", help="draw uncertain numbers N times")] = None,
    guarantee: Annotated[str, typer.Option(help="exact, relative, additive or bounds")] = "exact",
    epsilon: Epsilon = 0.1,
    delta: Delta = 0.05,
    seed: Seed = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="seconds for each result; then exit code 3")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object per top event or sequence")] = False,
) -> None:
    """Compute a fault tree's top event and what contributes to it."""
    from sharpdnf.fronts import faulttree as front

    tree = front.read(files[0], *files[1:])
    for note in tree.notes:
        typer.echo(f"note: {note}", err=True)
    names = [top] if top is not None else [*tree.tops, *tree.sequence_names]
    asked = {"guarantee": guarantee, "epsilon": epsilon, "delta": delta, "rng": seed}
    results = [tree.probability(name, mission_time, timeout=timeout, **asked) for name in names]
    code = 0 if all(result.met for result in results) else NOT_MET
    for i, (name, result) in enumerate(zip(names, results, strict=True)):
        report = _Report(tree, name, {"mission_time": mission_time, "timeout": timeout})
        report.probability(result)
        report.approximations()
        if cut_sets is not None or order is not None or cutoff is not None:
            report.cut_sets(cut_sets or 20, order, cutoff)
        if implicants is not None:
            report.implicants(implicants)
        if importance:
            report.importance()
        if uncertainty is not None:
            report.uncertainty(uncertainty, seed)
        code = code or report.code
        typer.echo(json.dumps(report.found, allow_nan=False) if as_json else "\n" * (i > 0) + "\n".join(report.lines))
    raise typer.Exit(code)


class _Report:
    """The results of one top event, as lines of text and as an object for JSON.

    A result that a limit cut short is reported as missing, and the exit code becomes 3.
    """

    def __init__(self, tree: FaultTree, name: str, asked: dict[str, Any]) -> None:
        self.tree, self.name, self.asked = tree, name, asked
        self.lines: list[str] = []
        self.found: dict[str, Any] = {"top": name}
        self.code = 0

    def probability(self, result: Estimate) -> None:
        self.found |= result.to_dict()
        self.line("top event" if self.name in self.tree.tops else "sequence", self.name)
        promise = result.guarantee if result.met else f"{result.guarantee}, the guarantee asked for was not met"
        self.line("probability", f"{result.prob:.9g}  in [{result.lower:.9g}, {result.upper:.9g}]  ({promise})")

    def approximations(self) -> None:
        """What is usually computed from cut sets, to compare with the result. If there is no time for it, that is said
        and the exit code stays as it is."""
        from sharpdnf.errors import InvalidFormula, LimitError

        try:
            sets = self.tree.cut_sets(limit=0, top=self.name, max_nodes=APPROXIMATION_NODES, **self.asked)
        except (InvalidFormula, LimitError) as error:
            self.found["cut_sets"] = None
            self.line("cut sets", str(error))
            return
        self.found["cut_sets"] = {"total": sets.total, "rare_event": sets.rare_event, "mcub": sets.mcub}
        self.line("cut sets", f"{sets.total}")
        self.line("rare event", f"{sets.rare_event:.9g}  (the sum of the cut sets)")
        if sets.mcub is not None:
            self.line("MCUB", f"{sets.mcub:.9g}  (the min-cut upper bound)")

    def cut_sets(self, limit: int, order: int | None, cutoff: float | None) -> None:
        self._list("cut sets", lambda: self.tree.cut_sets(order, cutoff, limit, top=self.name, **self.asked))

    def implicants(self, limit: int) -> None:
        self._list("prime implicants", lambda: self.tree.prime_implicants(limit, top=self.name, **self.asked))

    def _list(self, what: str, find: Callable[[], CutSetTable]) -> None:
        from sharpdnf.errors import LimitError

        try:
            sets = find()
        except LimitError as error:
            return self.cut_short(what, error)
        joint = " " if what == "cut sets" else ", "  # "not b" has a space of its own
        rows = [
            {"prob": prob, "share": share, "order": size, "events": joint.join(events)}
            for events, size, prob, share in zip(sets.events, sets.order, sets.prob, sets.share, strict=True)
        ]
        key = what.replace(" ", "_")
        place = "listed" if what == "cut sets" else key
        self.found[place] = {"total": sets.total, "rare_event": sets.rare_event, key: _plain(rows)}
        kind = "minimal cut sets" if what == "cut sets" else what
        self.lines += ["", f"{len(sets)} of {sets.total} {kind}", *_table(rows)]

    def importance(self) -> None:
        from sharpdnf.errors import LimitError

        try:
            table = self.tree.importance(self.name, **self.asked)
        except LimitError as error:
            return self.cut_short("importance", error)
        columns = [column.tolist() for column in table.values()]
        rows = [dict(zip(table, values, strict=True)) for values in zip(*columns, strict=True)]
        self.found["importance"] = _plain(rows)
        by = rows[0]["fussell_vesely_by"] if rows else ""
        shown = [{key: value for key, value in row.items() if key != "fussell_vesely_by"} for row in rows]
        drawn = "sampled, " if any(row["error"] for row in rows) else ""
        self.lines += ["", f"importance ({drawn}Fussell-Vesely by {by})", *_table(shown)]

    def uncertainty(self, samples: int, seed: int | None) -> None:
        from sharpdnf.errors import LimitError

        try:
            found = self.tree.uncertainty(samples, seed, top=self.name, **self.asked)
        except LimitError as error:
            return self.cut_short("uncertainty", error)
        quantiles = {f"{q:.0%}": value for q, value in found.quantiles.items()}
        numbers = {"mean": found.mean, "sd": found.sd, **quantiles, "std_error": found.std_error}
        self.found["uncertainty"] = {**numbers, "samples": samples, "clipped": found.clipped, "seed": found.seed}
        self.lines += ["", f"uncertainty, {samples} draws", *_table([numbers])]
        if found.clipped:
            self.lines.append(f"{found.clipped} drawn probabilities lay outside [0, 1] and were moved to its end")

    def cut_short(self, what: str, error: Exception) -> None:
        self.code = NOT_MET
        self.found[what.replace(" ", "_")] = None
        complain(error)

    def line(self, label: str, text: str) -> None:
        self.lines.append(f"{label:<12}{text}")


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with nan and infinities as null, because JSON cannot say them."""
    return [
        {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()} for row in rows
    ]


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines with the columns under each other: numbers to the right, names to the left."""
    if not rows:
        return ["none"]
    cells = [{key: f"{v:.6g}" if isinstance(v, float) else str(v) for key, v in row.items()} for row in rows]
    width = {key: max(len(key), *(len(cell[key]) for cell in cells)) for key in rows[0]}

    def pad(key: str, text: str) -> str:
        return f"{text:<{width[key]}}" if isinstance(rows[0][key], str) else f"{text:>{width[key]}}"

    head = "  ".join(pad(key, key) for key in rows[0]).rstrip()
    return [head, *("  ".join(pad(key, text) for key, text in cell.items()).rstrip() for cell in cells)]
