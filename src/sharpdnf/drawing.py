"""Pictures as PNG files. matplotlib is loaded only here and only when something is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sharpdnf.errors import needs_extra
from sharpdnf.files import replacing


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure of that size in inches and its axes, ``columns`` of them side by side.

    It belongs to no window, so drawing works without a display and leaves nothing open behind.
    """
    with needs_extra("drawing figures", "train"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns)


def save_figure(figure: Any, path: Path) -> None:
    """Writes the figure as a PNG file, which takes the place of ``path`` when it is complete."""
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=150)
