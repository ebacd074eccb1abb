"""A network as a picture: nodes laid out by forces, links coloured by how much they matter; as SVG, or PNG.

The layout is that of Fruchterman and Reingold (1991): links pull, nodes push, and what moves cools down.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import LimitError, MissingExtra
from sharpdnf.fronts.links import Network

SIZE, MARGIN = 900, 60
MAX_NODES = 2_000
SCALE = ((0.85, 0.87, 0.91), (0.98, 0.75, 0.35), (0.78, 0.11, 0.14))
"""From pale grey over amber to red."""


def lay_out(network: Network, seed: int = 0, steps: int = 300) -> FloatArray:
    """float64[n, 2]: a place in the unit square for every node; the same every time."""
    n = network.num_nodes
    if n > MAX_NODES:
        raise LimitError(f"a picture of {n:,} nodes could not be read: draw at most {MAX_NODES:,}")
    place = np.random.default_rng(seed).random((n, 2))
    ideal = 0.9 / np.sqrt(max(n, 1))
    tail, head = network.tail, network.head
    for step in range(steps if n > 1 else 0):
        apart = place[:, None, :] - place[None, :, :]
        distance = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-6)
        move = (apart * (ideal**2 / distance**2)[:, :, None]).sum(axis=1)
        along = place[tail] - place[head]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / ideal)[:, None]
        np.add.at(move, tail, -pull)
        np.add.at(move, head, pull)
        length = np.maximum(np.sqrt((move**2).sum(axis=1)), 1e-9)
        place += move / length[:, None] * np.minimum(length, 0.1 * (1.0 - step / steps))[:, None]
    low, high = place.min(axis=0), place.max(axis=0)
    unit: FloatArray = (place - low) / np.where(high > low, high - low, 1.0)
    return unit


def colour(share: float) -> str:
    """The colour of a link whose importance is this share of the greatest."""
    share = min(max(share, 0.0), 1.0) * (len(SCALE) - 1)
    first = min(int(share), len(SCALE) - 2)
    mixed = [a + (b - a) * (share - first) for a, b in zip(SCALE[first], SCALE[first + 1], strict=True)]
    return "#" + "".join(f"{round(255 * part):02x}" for part in mixed)


def draw_svg(network: Network, importance: FloatArray, terminals: tuple[int, ...]) -> str:
    """The picture as the text of an SVG file."""
    place = MARGIN + lay_out(network) * (SIZE - 2 * MARGIN)
    most = float(importance.max(initial=0.0)) or 1.0
    radius = max(3.0, min(12.0, 180.0 / np.sqrt(network.num_nodes)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE + 40}" font-family="sans-serif">',
        f'<rect width="{SIZE}" height="{SIZE + 40}" fill="white"/>',
    ]
    if network.directed:
        parts.append(
            '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker>'
        )
    for e in np.argsort(importance, kind="stable"):  # the most important links are drawn last, on top
        (x1, y1), (x2, y2) = place[network.tail[e]], place[network.head[e]]
        share = importance[e] / most
        names = f"{network.nodes[network.tail[e]]} - {network.nodes[network.head[e]]}"
        length = max(float(np.hypot(x2 - x1, y2 - y1)), 1e-9)
        x2, y2 = x2 - (x2 - x1) * radius / length, y2 - (y2 - y1) * radius / length
        arrow = ' marker-end="url(#arrow)"' if network.directed else ""
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour(share)}" '
            f'stroke-width="{1.5 + 4 * share:.1f}"{arrow}><title>{escape(names)}: p = {network.prob[e]:.6g}, '
            f"importance {importance[e]:.4g}</title></line>"
        )
    for v, (x, y) in enumerate(place):
        fill = "#1b4965" if v in terminals else "white"
        text = "white" if v in terminals else "#222"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" stroke="#1b4965"/>')
        if network.num_nodes <= 80:
            name = escape(str(network.nodes[v]))
            inside = len(name) <= 2
            dx, dy, fill = (0, 4, text) if inside else (radius + 3, 4, "#222")
            anchor = "middle" if inside else "start"
            parts.append(
                f'<text x="{x + dx:.1f}" y="{y + dy:.1f}" font-size="11" fill="{fill}" '
                f'text-anchor="{anchor}">{name}</text>'
            )
    parts.append(_legend(most))
    return "\n".join([*parts, "</svg>\n"])


def _legend(most: float) -> str:
    box = '<rect x="{}" y="{}" width="4" height="12" fill="{}"/>'
    steps = [box.format(MARGIN + 4 * i, SIZE + 5, colour(i / 49)) for i in range(50)]
    ends = (
        f'<text x="{MARGIN}" y="{SIZE + 32}" font-size="11" fill="#222">importance 0</text>'
        f'<text x="{MARGIN + 200}" y="{SIZE + 32}" font-size="11" fill="#222" text-anchor="end">{most:.3g}</text>'
    )
    return "".join(steps) + ends


def draw_png(network: Network, importance: FloatArray, terminals: tuple[int, ...], path: Path) -> None:
    """The same picture as a PNG file."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra("a PNG picture (SVG needs nothing)", "train") from None
    place, most = lay_out(network), float(importance.max(initial=0.0)) or 1.0
    figure, axis = plt.subplots(figsize=(9, 9))
    for e in np.argsort(importance, kind="stable"):
        share, ends = importance[e] / most, place[[network.tail[e], network.head[e]]]
        style = {"color": colour(share), "lw": 1.0 + 3.0 * share}
        if network.directed:
            axis.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "-|>", "shrinkA": 6, "shrinkB": 6, **style})
        else:
            axis.plot(*ends.T, zorder=1, **style)
    marked = np.isin(np.arange(network.num_nodes), terminals)
    axis.scatter(*place.T, s=90, c=np.where(marked, "#1b4965", "white"), edgecolors="#1b4965", zorder=2)
    if network.num_nodes <= 80:
        for name, (x, y) in zip(network.nodes, place, strict=True):
            axis.annotate(str(name), (x, y), xytext=(6, 5), textcoords="offset points", fontsize=8)
    axis.set_axis_off()
    axis.set_title(f"links by importance: grey 0, red {most:.3g}; dark nodes are the terminals", fontsize=10)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
