"""Intervals from held-out residuals: how far the labels of unseen formulas fell from the network's estimates.

The network's own sigma says nothing about its error: KL(prediction || label) is least at the label's sigma whatever
the error of the mean. So an interval shown to a user comes from quantiles of log label - log estimate on held-out
formulas with a similar estimate and size. It is a summary of past errors on one family, not a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sharpdnf.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Residuals:
    """Quantiles of the log residual by size (rows) and by estimated log probability (columns)."""

    levels: tuple[float, ...]
    value_edges: tuple[float, ...]
    size_edges: tuple[int, ...]
    quantiles: list[list[list[float] | None]]
    counts: list[list[int]]

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
