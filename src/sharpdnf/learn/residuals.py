"""Intervals from held-out residuals: how far the labels of unseen formulas fell from the network's estimates.

The network's own sigma says nothing about its error: KL(prediction || label) is least at the label's sigma whatever
the error of the mean. So an interval shown to a user comes from quantiles of log label - log estimate on held-out
formulas with a similar estimate and size. It is a summary of past errors on one family, not a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sharpdnf.errors import CheckpointError
from sharpdnf.learn.rows import Row

LEVELS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995)
VALUE_EDGES = (-30.0, -12.0, -5.0, -2.5, -1.0, -0.3, -0.05)
SIZE_EDGES = (100, 1000, 5000)
FEWEST = 40  # residuals below which a cell borrows from all sizes, widened to those it has


@dataclass(frozen=True, slots=True)
class Residuals:
    """Quantiles of the log residual by size (rows) and by estimated log probability (columns)."""

    levels: tuple[float, ...]
    value_edges: tuple[float, ...]
    size_edges: tuple[int, ...]
    quantiles: list[list[list[float] | None]]
    counts: list[list[int]]

    @classmethod
    def fit(cls, rows: Sequence[Row]) -> Residuals:
        """From rows of held-out formulas with positive probability."""
        kept = [row for row in rows if math.isfinite(row.log_label)]
        residual = np.array([row.log_label - row.log_prediction for row in kept], dtype=np.float64)
        value = np.searchsorted(VALUE_EDGES, [row.log_prediction for row in kept])
        size = np.searchsorted(SIZE_EDGES, [row.n for row in kept])
        quantiles: list[list[list[float] | None]] = []
        counts: list[list[int]] = []
        for s in range(len(SIZE_EDGES) + 1):
            quantiles.append([])
            counts.append([])
            for v in range(len(VALUE_EDGES) + 1):
                own = residual[(value == v) & (size == s)]
                counts[-1].append(len(own))
                chosen = own if len(own) >= FEWEST else residual[value == v]
                if len(chosen) < FEWEST:
                    quantiles[-1].append(None)
                    continue
                found = _quantiles(chosen)
                if 0 < len(own) < FEWEST:  # borrowed from other sizes, but never narrower than what was seen here
                    found = [
                        q if level == 0.5 else min(q, float(own.min())) if level < 0.5 else max(q, float(own.max()))
                        for q, level in zip(found, LEVELS, strict=True)
                    ]
                quantiles[-1].append([round(q, 6) for q in found])
        return cls(LEVELS, VALUE_EDGES, SIZE_EDGES, quantiles, counts)

    def interval(self, log_prob: float, num_vars: int, delta: float) -> tuple[float, float]:
        """(log lower, log upper) that held for a share 1 - delta of similar held-out formulas."""
        column = int(np.searchsorted(self.value_edges, log_prob))
        quantiles = self.quantiles[int(np.searchsorted(self.size_edges, num_vars))][column]
        if quantiles is None:
            return -math.inf, 0.0
        low, high = np.interp([delta / 2, 1 - delta / 2], self.levels, quantiles)
        return min(log_prob + float(min(low, 0.0)), 0.0), min(log_prob + float(max(high, 0.0)), 0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, table: Any) -> Residuals:
        try:
            out = cls(**{**table, "levels": tuple(table["levels"])})
            shape = (len(out.size_edges) + 1, len(out.value_edges) + 1, len(out.levels))
            flat = [q for line in out.quantiles for q in line if q is not None]
            if len(out.quantiles) != shape[0] or any(len(line) != shape[1] for line in out.quantiles):
                raise ValueError("wrong number of cells")
            if any(len(q) != shape[2] or not all(map(math.isfinite, q)) or sorted(q) != q for q in flat):
                raise ValueError("quantiles must be finite and increasing")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the table of held-out residuals cannot be read: {error}") from None
        return out


def _quantiles(values: np.ndarray[Any, Any]) -> list[float]:
    """Quantiles pushed outwards by one order statistic, as split conformal prediction asks of a finite sample."""
    ordered, count = np.sort(values), len(values)
    out = []
    for level in LEVELS:
        rank = math.floor(level * (count + 1)) if level < 0.5 else math.ceil(level * (count + 1))
        out.append(float(ordered[min(max(rank - 1, 0), count - 1)]))
    return out
