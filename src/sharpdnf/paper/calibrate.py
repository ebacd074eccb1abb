"""The intervals of a network: its residuals on held-out formulas, fitted and stored beside its weights.

The formulas are of both variants of the generator and of all sizes. Labels are kept, so that new weights are calibrated
in the time that the network itself takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import needs_extra
from sharpdnf.learn.residuals import FEWEST, Hardness, Residuals, cell_of
from sharpdnf.paper.measure import Measurer, Say, measure_set, open_labels
from sharpdnf.paper.records import Row, read_records
from sharpdnf.paper.sets import draw, member, subset

LEVELS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995)
EDGES = ((100.0, 1000.0, 5000.0), (0.15, 0.6), (12.0, 120.0), (-30.0, -12.0, -5.0, -2.5, -1.0, -0.3, -0.05))
"""Where the axes are cut: variables, share of the most frequent one, overlap, estimated log probability."""
LARGER_CELLS = ((0, 1, 2, 3), (0, 1, 3), (0, 3), (1, 3), (3,))
"""The axes in which formulas must be alike, from strict to loose: the first that finds enough of them is taken."""
CALIBRATION: dict[str, dict[str, int]] = {
    "paper": {
        "structure": 654,
        "structure-code": 654,
        "size-10000": 116,
        "size-15000": 116,
        "size-code": 116,
        "fully-privileged": 163,
        "uniform": 163,
    },
    "t32": {"structure": 327, "structure-code": 163, "size-10000": 116, "size-15000": 29, "size-code": 29},
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
    counter.residuals = fit_residuals(rows, [_hardness(row) for row in rows])
    counter.save_pretrained(weights)
    return len(rows)


def _hardness(row: Row) -> Hardness:
    return Hardness.of(draw(member(row.set, row.index, row.shift, CALIBRATION_SEED), CALIBRATION_SEED))


def fit_residuals(rows: Sequence[Row], hardness: Sequence[Hardness]) -> Residuals:
    """Quantiles of log label - log prediction, from rows of held-out formulas with positive probability."""
    kept = [(row, hard) for row, hard in zip(rows, hardness, strict=True) if math.isfinite(row.log_label)]
    residual = np.array([row.log_label - row.log_prediction for row, _ in kept], dtype=np.float64)
    shape = tuple(len(edge) + 1 for edge in EDGES)
    cells = np.array([cell_of(EDGES, hard, row.log_prediction) for row, hard in kept], dtype=np.int64)
    places = np.stack(np.unravel_index(cells, shape)) if kept else np.zeros((len(shape), 0), dtype=np.int64)
    quantiles: list[list[float] | None] = []
    counts: list[int] = []
    for cell in np.ndindex(*shape):
        alike = places == np.array(cell)[:, None]
        own = residual[alike.all(axis=0)]
        larger = (residual[alike[list(axes)].all(axis=0)] for axes in LARGER_CELLS)
        quantiles.append(_fit_cell(own, next((found for found in larger if len(found) >= FEWEST), None)))
        counts.append(len(own))
    return Residuals(LEVELS, EDGES, quantiles, counts)


def _fit_cell(own: FloatArray, enough: FloatArray | None) -> list[float] | None:
    """The quantiles of one cell of the table; None where not even the largest cell around it has enough residuals."""
    if enough is None:
        return None
    found = _quantiles(enough)
    if 0 < len(own) < FEWEST:  # borrowed from others, but never narrower than what was seen here
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
