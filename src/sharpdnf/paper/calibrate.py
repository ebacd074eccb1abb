"""The intervals of a network: its residuals on held-out formulas, fitted and stored beside its weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import needs_extra
from sharpdnf.learn.residuals import Residuals
from sharpdnf.paper.measure import Measurer, Say, measure_set, open_labels
from sharpdnf.paper.rows import Row, read_records
from sharpdnf.paper.sets import subset

LEVELS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995)
VALUE_EDGES = (-30.0, -12.0, -5.0, -2.5, -1.0, -0.3, -0.05)
SIZE_EDGES = (100, 1000, 5000)
FEWEST = 40
"""A cell of the table with fewer residuals than this takes those of all sizes together, and is then widened to cover
at least its own."""
CALIBRATION: dict[str, dict[str, int]] = {
    "paper": {"structure": 654, "size-10000": 29, "size-15000": 29, "fully-privileged": 163, "uniform": 163},
    "t32": {"structure": 163, "size-10000": 15},
}
"""How many formulas of each set the intervals of a network come from; their seed is not that of the tables."""
CALIBRATION_SEED = 1


def calibrate(weights: Path, out: Path, *, jobs: int = 1, say: Say = lambda line: None) -> int:
    """Measures a network on formulas held out for this purpose and stores the quantiles of its residuals.

    They go into the network's config.json; ``out`` keeps the labels and rows. Returns how many formulas there were.
    """
    with needs_extra("calibrating a network", "train"):
        from sharpdnf.learn.counter import NeuralCounter

    counter, model = NeuralCounter.from_pretrained(weights), weights.name
    out.mkdir(parents=True, exist_ok=True)
    labels = open_labels(out, CALIBRATION_SEED)
    measurer = Measurer(str(weights), model, counter, labels, jobs)
    for name, size in CALIBRATION.get(model, CALIBRATION["paper"]).items():
        measure_set(out / "rows.csv", subset(name, size, CALIBRATION_SEED), measurer, say)
    rows = [row for row in read_records(out / "rows.csv", Row) if row.model == model]
    counter.residuals = fit_residuals(rows)
    counter.save_pretrained(weights)
    return len(rows)


def fit_residuals(rows: Sequence[Row]) -> Residuals:
    """Quantiles of log label - log prediction, from rows of held-out formulas with positive probability."""
    kept = [row for row in rows if math.isfinite(row.log_label)]
    residual = np.array([row.log_label - row.log_prediction for row in kept], dtype=np.float64)
    value = np.searchsorted(VALUE_EDGES, [row.log_prediction for row in kept])
    size = np.searchsorted(SIZE_EDGES, [row.n for row in kept])
    quantiles: list[list[list[float] | None]] = []
    counts: list[list[int]] = []
    for s in range(len(SIZE_EDGES) + 1):
        own = [residual[(value == v) & (size == s)] for v in range(len(VALUE_EDGES) + 1)]
        quantiles.append([_fit_cell(cell, residual[value == v]) for v, cell in enumerate(own)])
        counts.append([len(cell) for cell in own])
    return Residuals(LEVELS, VALUE_EDGES, SIZE_EDGES, quantiles, counts)


def _fit_cell(own: FloatArray, all_sizes: FloatArray) -> list[float] | None:
    """The quantiles of one cell of the table; None where even all sizes together have too few residuals."""
    chosen = own if len(own) >= FEWEST else all_sizes
    if len(chosen) < FEWEST:
        return None
    found = _quantiles(chosen)
    if 0 < len(own) < FEWEST:  # borrowed from other sizes, but never narrower than what was seen here
        found = [
            q if level == 0.5 else min(q, float(own.min())) if level < 0.5 else max(q, float(own.max()))
            for q, level in zip(found, LEVELS, strict=True)
        ]
    return [round(q, 6) for q in found]


def _quantiles(values: FloatArray) -> list[float]:
    """Quantiles pushed outwards by one order statistic, as split conformal prediction asks of a finite sample."""
    ordered, count = np.sort(values), len(values)
    out = []
    for level in LEVELS:
        rank = math.floor(level * (count + 1)) if level < 0.5 else math.ceil(level * (count + 1))
        out.append(float(ordered[min(max(rank - 1, 0), count - 1)]))
    return out
