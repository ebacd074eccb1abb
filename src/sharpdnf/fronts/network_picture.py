"""A network as a picture: nodes laid out by forces, links coloured by how much they matter; as SVG, or PNG.

The layout is that of Fruchterman and Reingold (1991): links pull, nodes push, and what moves cools down. Importance
spans powers of ten, so colours follow its logarithm: pale is a thousandth of the greatest or less, red the greatest.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import LimitError, needs_extra
from sharpdnf.fronts.links import LinkNetwork

SIZE, MARGIN = 900, 60
MAX_NODES = 2_000
DECADES = 3
"""How many powers of ten lie between the palest colour and the reddest."""
SCALE = ((0.80, 0.83, 0.88), (0.98, 0.75, 0.35), (0.78, 0.11, 0.14))
"""The colours of the scale, as red, green and blue: from pale grey over amber to red."""
INK, TEXT = "#1b4965", "#222"


def lay_out(network: LinkNetwork, seed: int = 0, steps: int = 300) -> FloatArray:
    """float64[n, 2]: a place in the unit square for every node; the same every time."""
    n = network.num_nodes
    if n > MAX_NODES:
        raise LimitError(f"a picture of {n:,} nodes could not be read: draw at most {MAX_NODES:,}")
    place = np.random.default_rng(seed).random((n, 2))
    ideal = 0.9 / np.sqrt(max(n, 1))
    tail, head = network.tail, network.head
    for step in range(steps if n > 1 else 0):
        apart = place[:, None, :] - place[None, :, :]
        distance = np.maximum((apart**2).sum(axis=2), 1e-12)
        move = (apart * (ideal**2 / distance)[:, :, None]).sum(axis=1)
        along = place[tail] - place[head]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / ideal)[:, None]
        np.add.at(move, tail, -pull)
        np.add.at(move, head, pull)
        length = np.maximum(np.sqrt((move**2).sum(axis=1)), 1e-9)
        place += move / length[:, None] * np.minimum(length, 0.1 * (1.0 - step / steps))[:, None]
    low, high = place.min(axis=0), place.max(axis=0)
    unit: FloatArray = (place - low) / np.where(high > low, high - low, 1.0)
    return unit


def strength(importance: float, most: float) -> float:
    """Where a link stands on the scale of colours, from 0 (a thousandth of the greatest importance, or less) to 1."""
    if importance <= 0.0 or most <= 0.0:
        return 0.0
    return min(1.0, max(0.0, 1.0 + math.log10(importance / most) / DECADES))


def colour(place: float) -> str:
    """The colour at a place on the scale, from 0 to 1."""
    place = min(max(place, 0.0), 1.0) * (len(SCALE) - 1)
    first = min(int(place), len(SCALE) - 2)
    mixed = [a + (b - a) * (place - first) for a, b in zip(SCALE[first], SCALE[first + 1], strict=True)]
    return "#" + "".join(f"{round(255 * part):02x}" for part in mixed)


def draw_svg(network: LinkNetwork, importance: FloatArray, terminals: tuple[int, ...]) -> str:
    """The picture as the text of an SVG file."""
    place = MARGIN + (lay_out(network) * (1, -1) + (0, 1)) * (SIZE - 2 * MARGIN)  # y grows downwards here
    most = float(importance.max(initial=0.0))
    radius = max(3.0, min(12.0, 180.0 / math.sqrt(network.num_nodes)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE + 40}" font-family="sans-serif">',
        f'<rect width="{SIZE}" height="{SIZE + 40}" fill="white"/>',
    ]
    if network.directed:
        parts.append(
            '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="14" markerHeight="14" '
            f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker>'
        )
    for e in np.argsort(importance, kind="stable"):  # the most important links are drawn last, on top
        parts.append(_svg_link(network, int(e), float(importance[e]), most, place, radius))
    marked = set(terminals)
    parts += [_svg_node(str(name), place[v], radius, v in marked) for v, name in enumerate(network.nodes)]
    if network.num_nodes <= 80:
        parts += [_svg_name(str(name), place[v], radius, v in marked) for v, name in enumerate(network.nodes)]
    return "\n".join([*parts, _svg_legend(most), "</svg>\n"])


def _svg_link(network: LinkNetwork, e: int, importance: float, most: float, place: FloatArray, radius: float) -> str:
    (x1, y1), (x2, y2) = place[network.tail[e]], place[network.head[e]]
    names = f"{network.nodes[network.tail[e]]} {'→' if network.directed else '–'} {network.nodes[network.head[e]]}"
    length = max(math.hypot(x2 - x1, y2 - y1), 1e-9)
    x2, y2 = x2 - (x2 - x1) * radius / length, y2 - (y2 - y1) * radius / length
    share = strength(importance, most)
    title = f"<title>{escape(names)}: p = {network.prob[e]:.6g}, importance {importance:.4g}</title>"
    style = f'fill="none" stroke="{colour(share)}" stroke-width="{1.5 + 4 * share:.1f}"'
    if network.tail[e] == network.head[e]:
        size = 0.9 * radius
        return f'<circle cx="{x1:.1f}" cy="{y1 - radius - size / 2:.1f}" r="{size:.1f}" {style}>{title}</circle>'
    arrow = ' marker-end="url(#arrow)"' if network.directed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}{arrow}>{title}</line>'


def _svg_node(name: str, place: FloatArray, radius: float, marked: bool) -> str:
    x, y = place
    fill = INK if marked else "white"
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}" stroke="{INK}">'
        f"<title>{escape(name)}</title></circle>"
    )


def _svg_name(name: str, place: FloatArray, radius: float, marked: bool) -> str:
    """A short name stands in its node, a longer one beside it, on the side where there is room."""
    x, y = place
    if len(name) <= 2:
        dx, anchor, fill = 0.0, "middle", "white" if marked else TEXT
    else:
        left = x > SIZE - 2 * MARGIN
        dx, anchor, fill = (-radius - 3, "end", TEXT) if left else (radius + 3, "start", TEXT)
    text = f'<text x="{x + dx:.1f}" y="{y + 4:.1f}" font-size="11" text-anchor="{anchor}"'
    shown = f' fill="{fill}">{escape(name[:40])}</text>'
    # A white rim keeps a name readable across links; it is a text of its own, as not every reader knows paint-order.
    rim = f'{text} fill="white" stroke="white" stroke-width="3">{escape(name[:40])}</text>' if len(name) > 2 else ""
    return rim + text + shown


def _svg_legend(most: float) -> str:
    box = '<rect x="{}" y="{}" width="4" height="12" fill="{}"/>'
    steps = [box.format(MARGIN + 4 * i, SIZE + 2, colour(i / 49)) for i in range(50)]
    text = '<text x="{}" y="{}" font-size="11" fill="{}" text-anchor="{}">{}</text>'
    marks = [
        text.format(MARGIN + 200 * i / DECADES, SIZE + 28, TEXT, "middle", f"{most * 10.0 ** (i - DECADES):.2g}")
        for i in range(DECADES + 1)
    ]
    words = text.format(MARGIN + 230, SIZE + 12, TEXT, "start", "importance of a link; dark nodes are the terminals")
    return "".join([*steps, *marks, words])


def draw_png(network: LinkNetwork, importance: FloatArray, terminals: tuple[int, ...], path: Path) -> None:
    """Draws the picture of ``draw_svg`` as a PNG file."""
    place, most = lay_out(network), float(importance.max(initial=0.0))
    with needs_extra("a PNG picture (SVG needs nothing)", "train"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap, LogNorm
        from matplotlib.figure import Figure
    figure = Figure(figsize=(9, 9.6), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    for e in np.argsort(importance, kind="stable"):
        share, ends = strength(float(importance[e]), most), place[[network.tail[e], network.head[e]]]
        tint, width = colour(share), 1.0 + 3.0 * share
        if network.directed:
            style = {"arrowstyle": "-|>", "shrinkA": 6, "shrinkB": 6, "color": tint, "lw": width}
            axis.annotate("", ends[1], ends[0], arrowprops=style)
        else:
            axis.plot(ends[:, 0], ends[:, 1], zorder=1, color=tint, lw=width)
    marked = np.isin(np.arange(network.num_nodes), terminals)
    size = max(12.0, min(90.0, 9000.0 / network.num_nodes))
    axis.scatter(place[:, 0], place[:, 1], s=size, c=np.where(marked, INK, "white"), edgecolors=INK, zorder=2)
    if network.num_nodes <= 80:
        for name, (x, y) in zip(network.nodes, place, strict=True):
            axis.annotate(
                str(name)[:40].replace("$", r"\$"), (x, y), xytext=(6, 5), textcoords="offset points", fontsize=8
            )
    axis.set_axis_off()
    top = most or 1.0
    from matplotlib.cm import ScalarMappable

    scale = ScalarMappable(LogNorm(top * 10.0**-DECADES, top), LinearSegmentedColormap.from_list("importance", SCALE))
    figure.colorbar(
        scale,
        ax=axis,
        orientation="horizontal",
        shrink=0.4,
        aspect=30,
        pad=0.01,
        label="importance of a link; dark nodes are the terminals",
    )
    figure.savefig(path, dpi=120)
