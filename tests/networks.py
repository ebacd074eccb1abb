"""What the tests of networks share: formulas of the paper's family, and rows as an evaluation measures them."""

from __future__ import annotations

import math

import numpy as np

from sharpdnf import DNF
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.paper.records import Row


def formula(n: int = 60, w: int = 3, seed: int = 0) -> DNF:
    """A formula without privileged variables, of which simplification leaves most to the network."""
    return paper(PaperSpec(n, (3 * n) // 4, w, privileged=False), np.random.default_rng(seed))


def held_out(count: int = 4000, spread: float = 0.1) -> list[Row]:
    """Rows whose log residuals are normal with the given spread, over values and sizes."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(count):
        log_prediction, n = -float(rng.exponential(2.0)), (50, 500, 2500, 10_000)[i % 4]
        log_label = log_prediction + spread * float(rng.normal())
        known = ("paper", "ab", "structure", i, 0, n, n, 3, "plain", 0.005, log_label, log_prediction)
        rows.append(Row(*known, -math.inf, 0.0, 0.05, 0.0, 0.0, 0.0))
    return rows
