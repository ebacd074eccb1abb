"""Intervals from held-out residuals: how far the labels of unseen formulas fell from the network's estimates.

The network's own sigma says nothing about its error: KL(prediction || label) is least at the label's sigma whatever
the error of the mean. So an interval shown to a user comes from quantiles of log label - log estimate on held-out
formulas that are alike: in size, in what else makes formulas hard for the network, and in the estimate. It is a summary
of past errors on one family, not a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.errors import CheckpointError

FEWEST = 40
"""A cell with fewer residuals than this takes those of a larger one, and is then widened to cover at least its own."""


@dataclass(frozen=True, slots=True)
class Hardness:
    """What makes a formula hard for the network."""

    size: float
    """How many variables occur."""
    degree: float = 0.0
    """The share of the clauses in which the most frequent variable stands."""
    overlap: float = 0.0
    """How many other clauses share one of its other variables with a clause, in the mean; counted for each variable."""

    @classmethod
    def of(cls, dnf: DNF) -> Hardness:
        degree = np.sort(np.bincount(dnf.literals >> 1).astype(np.float64)) if dnf.num_literals else np.zeros(1)
        clauses = max(1, dnf.num_clauses)
        overlap = float((degree[:-1] * np.maximum(degree[:-1] - 1.0, 0.0)).sum()) / clauses
        return cls(float((degree > 0.0).sum()), float(degree[-1]) / clauses, overlap)


@dataclass(frozen=True, slots=True)
class Residuals:
    """Quantiles of the log residual in cells of alike formulas.

    ``edges`` cut the four axes: size, degree, overlap (see Hardness), and the estimated log probability. ``quantiles``
    and ``counts`` have an entry for each cell, the last axis running fastest; None where too few formulas were seen.
    """

    levels: tuple[float, ...]
    edges: tuple[tuple[float, ...], ...]
    quantiles: list[list[float] | None]
    counts: list[int]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(edge) + 1 for edge in self.edges)

    def interval(self, log_prob: float, hardness: Hardness, delta: float) -> tuple[float, float]:
        """(log lower, log upper) that held for a share 1 - delta of alike held-out formulas; (-inf, 0) if unknown.

        From k residuals, the least and the largest hold for 1 - 2 / (k + 1) of new formulas: less delta is not earned.
        """
        cell = cell_of(self.edges, hardness, log_prob)
        quantiles = self.quantiles[cell]
        least_delta = max(2.0 / (max(self.counts[cell], FEWEST) + 1), 2.0 * self.levels[0])
        if quantiles is None or delta < least_delta:
            return -math.inf, 0.0
        low, high = np.interp([delta / 2, 1 - delta / 2], self.levels, quantiles)
        return min(log_prob + float(min(low, 0.0)), 0.0), min(log_prob + float(max(high, 0.0)), 0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, table: Any) -> Residuals:
        try:
            edges: tuple[tuple[float, ...], ...]
            if "value_edges" in table:  # written before degree and overlap were looked at
                edges = (tuple(table["size_edges"]), (), (), tuple(table["value_edges"]))
                quantiles = [q for line in table["quantiles"] for q in line]
                counts = [c for line in table["counts"] for c in line]
            else:
                edges = tuple(tuple(edge) for edge in table["edges"])
                quantiles, counts = table["quantiles"], table["counts"]
            out = cls(tuple(table["levels"]), edges, quantiles, counts)
            cells = math.prod(out.shape)
            if len(edges) != 4 or len(quantiles) != cells or len(counts) != cells:
                raise ValueError("wrong number of cells")
            found = [q for q in quantiles if q is not None]
            if any(len(q) != len(out.levels) or not all(map(math.isfinite, q)) or sorted(q) != q for q in found):
                raise ValueError("quantiles must be finite and increasing")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the table of held-out residuals cannot be read: {error}") from None
        return out


def cell_of(edges: tuple[tuple[float, ...], ...], hardness: Hardness, log_prob: float) -> int:
    """The number of the cell of a formula with this estimate."""
    axes = (hardness.size, hardness.degree, hardness.overlap, log_prob)
    places = tuple(int(np.searchsorted(edge, value)) for edge, value in zip(edges, axes, strict=True))
    return int(np.ravel_multi_index(places, tuple(len(edge) + 1 for edge in edges)))
