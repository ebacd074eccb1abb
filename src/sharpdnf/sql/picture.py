"""The lineage of an answer as JSON, as a DOT graph and as an SVG picture: the answer, its clauses, the rows in them."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.sax.saxutils import escape

from sharpdnf.dnf import DNF
from sharpdnf.errors import LimitError

MOST_CLAUSES = 300
"""A picture of more could not be read."""
LINE, MARGIN = 30, 20
"""Pixels between two rows of the picture, and around it."""
COLUMNS = (20, 210, 330)
"""Where the answer, the clauses and the rows begin, in pixels."""
LETTER = 7.2
"""Pixels of a letter, at most."""


def clauses_of(dnf: DNF) -> list[list[tuple[int, bool]]]:
    """The clauses as lists of (variable, whether it is negated)."""
    ends = dnf.indptr.tolist()
    literals = dnf.literals.tolist()
    return [[(lit >> 1, bool(lit & 1)) for lit in literals[a:b]] for a, b in pairwise(ends)]


def _names(dnf: DNF) -> list[str]:
    return list(dnf.names) if dnf.names is not None else [f"x{v + 1}" for v in range(dnf.num_vars)]


def to_json(dnf: DNF, answer: dict[str, object], prob: float) -> str:
    """``{"answer": {...}, "prob": p, "rows": [{"name", "prob"}], "clauses": [[{"row", "negated"}]]}``.

    The answer holds if all of some clause holds; ``row`` is the place of a row in ``rows``.
    """
    rows = [{"name": name, "prob": float(p)} for name, p in zip(_names(dnf), dnf.prob.tolist(), strict=True)]
    clauses = [[{"row": v, "negated": negated} for v, negated in clause] for clause in clauses_of(dnf)]
    return json.dumps({"answer": answer, "prob": prob, "rows": rows, "clauses": clauses}, default=str)


def _check_size(dnf: DNF) -> None:
    if dnf.num_clauses > MOST_CLAUSES:
        raise LimitError(
            f"a picture of {dnf.num_clauses:,} clauses could not be read: the limit is {MOST_CLAUSES}; lineage(i) and "
            "lineage_json(i) have all of them"
        )


def to_dot(dnf: DNF, title: str) -> str:
    """A directed graph: arrows from the answer to each clause and on to each row, dashed where it must be absent."""
    _check_size(dnf)
    lines = ["digraph lineage {", "  rankdir=LR;", f"  answer [shape=box, label={_quoted(title)}];"]
    for v, (name, p) in enumerate(zip(_names(dnf), dnf.prob.tolist(), strict=True)):
        lines.append(f"  r{v} [shape=box, style=rounded, label={_quoted(f'{name}  {p:.4g}')}];")
    for c, clause in enumerate(clauses_of(dnf)):
        lines += [f'  c{c} [shape=circle, label="and"];', f"  answer -> c{c};"]
        lines += [f"  c{c} -> r{v}{' [style=dashed, label=not]' if negated else ''};" for v, negated in clause]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def to_svg(dnf: DNF, title: str) -> str:
    """The same graph as an SVG picture, laid out in three columns: no other program is needed."""
    _check_size(dnf)
    clauses, names = clauses_of(dnf), _names(dnf)
    labels = [f"{name}  {p:.4g}" for name, p in zip(names, dnf.prob.tolist(), strict=True)]
    lines = max(len(clauses), len(labels), 1)
    height = 2 * MARGIN + LINE * lines
    width = COLUMNS[2] + MARGIN + int(LETTER * max((len(label) for label in labels), default=1)) + 20

    def middle(place: int, count: int) -> float:
        return MARGIN + (place + 0.5) * LINE * lines / max(count, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    centre = middle(0, 1)
    for c, clause in enumerate(clauses):
        y = middle(c, len(clauses))
        parts.append(_line(COLUMNS[0] + 160, centre, COLUMNS[1] - 12, y))
        for v, negated in clause:
            parts.append(_line(COLUMNS[1] + 12, y, COLUMNS[2], middle(v, len(labels)), dashed=negated))
    for c in range(len(clauses)):
        y = middle(c, len(clauses))
        parts.append(f'<circle cx="{COLUMNS[1]}" cy="{y:.1f}" r="12" fill="#f0f4f8" stroke="#1b4965"/>')
        parts.append(f'<text x="{COLUMNS[1]}" y="{y + 4:.1f}" text-anchor="middle" font-size="10">and</text>')
    parts.append(_box(COLUMNS[0], centre, 160, title if len(title) <= 22 else f"{title[:21]}…"))
    parts += [_box(COLUMNS[2], middle(v, len(labels)), width - COLUMNS[2] - MARGIN, label)
              for v, label in enumerate(labels)]  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{x1}" y1="{y1:.1f}" x2="{x2}" y2="{y2:.1f}" stroke="#8aa0b2"{dash}/>'


def _box(x: float, y: float, width: float, text: str) -> str:
    return (
        f'<rect x="{x}" y="{y - 11:.1f}" width="{width}" height="22" rx="4" fill="#f0f4f8" stroke="#1b4965"/>'
        f'<text x="{x + 8}" y="{y + 4:.1f}">{escape(text)}</text>'
    )
