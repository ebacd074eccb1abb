"""The curves of a training run, loss and validation over the steps, as a picture of its log.csv."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.drawing import new_figure, save_figure

SHARES = {"val_02": "within 0.02", "val_05": "within 0.05", "val_10": "within 0.10", "val_15": "within 0.15"}
"""The columns of the log that hold shares of validation formulas, and how the picture names them."""


def draw_curves(log: Path, path: Path) -> bool:
    """Draws the log into a PNG file; returns whether it did.

    Nothing is drawn before the log has two rows, or where matplotlib is not installed: a picture is no reason to end
    a run that may have taken hours.
    """
    if find_spec("matplotlib") is None or not log.exists():
        return False
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if len(rows) < 2:
        return False
    step = _column(rows, "step")
    figure, (left, right) = new_figure(10, 4, columns=2)
    for name, label in (("loss", "answer"), ("dense", "dense supervision")):
        values = _column(rows, name)
        shown = values > 0.0  # the axis is logarithmic; an unused loss is 0 throughout
        if shown.any():
            left.plot(step[shown], values[shown], label=label, linewidth=1.2)
    left.set(xlabel="step", ylabel="loss, mean over the steps of a log row", yscale="log", title="Training loss")
    if left.lines:
        left.legend()
    for name, label in SHARES.items():
        values = _column(rows, name)
        shown = np.isfinite(values)
        if shown.any():
            right.plot(step[shown], 100.0 * values[shown], label=label, linewidth=1.2, marker=".", markersize=4)
    right.set(xlabel="step", ylabel="validation formulas (%)", ylim=(0, 102), title="Accuracy on the validation slice")
    if right.lines:
        right.legend(loc="lower right")
    save_figure(figure, path)
    return True


def _column(rows: list[dict[str, str]], name: str) -> FloatArray:
    """float64[rows]: one column of the log; nan where a row has no value."""
    return np.array([float(row.get(name) or "nan") for row in rows])
