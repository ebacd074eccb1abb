"""The lineage of an answer as JSON, as a DOT graph and as an SVG picture: the answer, gates, and the rows they read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from xml.sax.saxutils import escape

from sharpdnf.circuit import AND, ATLEAST, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.dnf import DNF
from sharpdnf.errors import LimitError

MOST_NODES = 600
"""A picture of more could not be read."""
LINE, MARGIN, STEP, ANSWER = 30, 20, 110, 160
"""Pixels between two nodes of a column, around the picture, between two columns, and of the answer's box."""
LETTER = 7.2
"""Pixels of a letter, at most."""
WORDS = {NOT: "not", AND: "and", OR: "or", ATLEAST: "at least"}


@dataclass(slots=True)
class LineageGraph:
    """What a picture shows: node 0 is the answer."""

    labels: list[str] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    """How many arrows lie between a node and the answer, at most; rows stand behind all gates."""
    is_row: list[bool] = field(default_factory=list)
    arrows: list[tuple[int, int, bool]] = field(default_factory=list)
    """(from, to, whether what it points to must be absent)."""

    def add(self, label: str, column: int, *, row: bool = False) -> int:
        """One more node; its number."""
        if len(self.labels) >= MOST_NODES:
            raise LimitError(
                f"a picture of more than {MOST_NODES} nodes could not be read: lineage(i) and lineage_json(i) have all"
            )
        self.labels.append(label)
        self.column.append(column)
        self.is_row.append(row)
        return len(self.labels) - 1


def _names(formula: DNF | Circuit) -> list[str]:
    return list(formula.names) if formula.names is not None else [f"x{v + 1}" for v in range(formula.num_vars)]


def _clauses(dnf: DNF) -> list[list[tuple[int, bool]]]:
    literals = dnf.literals.tolist()
    return [[(lit >> 1, bool(lit & 1)) for lit in literals[a:b]] for a, b in pairwise(dnf.indptr.tolist())]


def _gates(circuit: Circuit) -> list[tuple[int, int, list[int]]]:
    """(kind, argument, inputs) of each gate."""
    inputs, ends = circuit.inputs.tolist(), pairwise(circuit.indptr.tolist())
    kinds, args = circuit.kind.tolist(), circuit.arg.tolist()
    return [(kind, arg, inputs[a:b]) for kind, arg, (a, b) in zip(kinds, args, ends, strict=True)]


def to_json(formula: DNF | Circuit, answer: dict[str, object], prob: float) -> str:
    """``{"answer": {...}, "prob": p, "rows": [{"name", "prob"}], "clauses": [[{"row", "negated"}]]}``.

    The answer holds if all of some clause holds; ``row`` is the place of a row in ``rows``. A circuit has ``gates``
    instead of clauses, ``{"gate", "row" or "inputs" and "least"}`` each after its inputs, and ``output``.
    """
    rows = [{"name": name, "prob": float(p)} for name, p in zip(_names(formula), formula.prob.tolist(), strict=True)]
    said: dict[str, object] = {"answer": answer, "prob": prob, "rows": rows}
    if isinstance(formula, DNF):
        said["clauses"] = [[{"row": v, "negated": negated} for v, negated in clause] for clause in _clauses(formula)]
        return json.dumps(said, default=str)
    gates: list[dict[str, object]] = []
    for kind, arg, inputs in _gates(formula):
        word = {VAR: "row", TRUE: "true"}.get(kind) or WORDS.get(kind, "false")
        gate: dict[str, object] = {"gate": word}
        gate |= {"row": arg} if kind == VAR else {"inputs": inputs} if inputs else {}
        gates.append(gate | ({"least": arg} if kind == ATLEAST else {}))
    return json.dumps(said | {"gates": gates, "output": int(formula.outputs[0])}, default=str)


def graph_of(formula: DNF | Circuit, title: str) -> LineageGraph:
    """The nodes and arrows of a lineage."""
    graph = LineageGraph()
    graph.add(title, 0)
    labels = [f"{name}  {p:.4g}" for name, p in zip(_names(formula), formula.prob.tolist(), strict=True)]
    if isinstance(formula, DNF):
        rows = [graph.add(label, 2, row=True) for label in labels]
        for clause in _clauses(formula):
            gate = graph.add("and", 1)
            graph.arrows += [(0, gate, False), *((gate, rows[v], negated) for v, negated in clause)]
        return graph
    _add_circuit(graph, formula, labels)
    return graph


def _add_circuit(graph: LineageGraph, circuit: Circuit, labels: list[str]) -> None:
    """The gates that the output reads; a NOT is an arrow to what must be absent."""
    gates = _gates(circuit)
    column = {int(circuit.outputs[0]): 1}
    for gate in range(len(gates) - 1, -1, -1):  # inputs come before their readers
        for other in gates[gate][2] if gate in column else ():
            column[other] = max(column.get(other, 0), column[gate] + (gates[gate][0] != NOT))
    last = 1 + max(column.values())
    node: dict[int, tuple[int, bool]] = {}
    for gate in sorted(column):
        kind, arg, inputs = gates[gate]
        if kind == NOT:
            inside, negated = node[inputs[0]]
            node[gate] = (inside, not negated)
            continue
        label = labels[arg] if kind == VAR else "true" if kind == TRUE else WORDS.get(kind, "false")
        label = f"{label} {arg}" if kind == ATLEAST else label
        node[gate] = (graph.add(label, last if kind == VAR else column[gate], row=kind == VAR), False)
        graph.arrows += [(node[gate][0], *node[other]) for other in inputs]
    graph.arrows.append((0, *node[int(circuit.outputs[0])]))


def to_dot(formula: DNF | Circuit, title: str) -> str:
    """A directed graph in the DOT language; arrows to what must be absent are dashed."""
    graph = graph_of(formula, title)
    lines = ["digraph lineage {", "  rankdir=LR;"]
    for number, label in enumerate(graph.labels):
        shape = "box" if number == 0 else "box, style=rounded" if graph.is_row[number] else "ellipse"
        text = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  n{number} [shape={shape}, label="{text}"];')
    lines += [f"  n{a} -> n{b}{' [style=dashed, label=not]' if negated else ''};" for a, b, negated in graph.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(formula: DNF | Circuit, title: str) -> str:
    """The same graph as an SVG picture, laid out in columns: no other program is needed."""
    graph = graph_of(formula, title)
    columns = sorted(set(graph.column))
    members = {c: [n for n, of in enumerate(graph.column) if of == c] for c in columns}
    lines = max(len(inside) for inside in members.values())
    longest = max((len(label) for label, row in zip(graph.labels, graph.is_row, strict=True) if row), default=1)
    wide = int(LETTER * longest) + 20
    left = {c: MARGIN + (ANSWER + 40 + STEP * (i - 1) if i else 0) for i, c in enumerate(columns)}
    width, height = left[columns[-1]] + wide + MARGIN, 2 * MARGIN + LINE * lines
    size = [ANSWER if n == 0 else wide if graph.is_row[n] else 60 for n in range(len(graph.labels))]
    y = {
        n: MARGIN + (place + 0.5) * LINE * lines / len(inside)
        for inside in members.values()
        for place, n in enumerate(inside)
    }
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for a, b, negated in graph.arrows:
        dash = ' stroke-dasharray="4 3"' if negated else ""
        start, end = left[graph.column[a]] + size[a], left[graph.column[b]]
        place = f'x1="{start}" y1="{y[a]:.1f}" x2="{end}" y2="{y[b]:.1f}"'
        parts.append(f'<line {place} stroke="#8aa0b2"{dash}/>')
    for n, label in enumerate(graph.labels):
        text = label if n or len(label) <= 22 else f"{label[:21]}…"
        parts.append(_box(left[graph.column[n]], y[n], size[n], text))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(x: float, y: float, width: float, text: str) -> str:
    return (
        f'<rect x="{x}" y="{y - 11:.1f}" width="{width}" height="22" rx="4" fill="#f0f4f8" stroke="#1b4965"/>'
        f'<text x="{x + 8}" y="{y + 4:.1f}">{escape(text)}</text>'
    )
