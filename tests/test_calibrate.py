"""Intervals from held-out residuals cover as often as they say."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

torch = pytest.importorskip("torch")

from networks import held_out  # noqa: E402

from sharpdnf.learn.residuals import Residuals  # noqa: E402
from sharpdnf.paper.calibrate import FEWEST, fit_residuals  # noqa: E402


def test_residual_intervals_cover_as_often_as_they_say() -> None:
    residuals = fit_residuals(held_out())
    fresh = held_out(6000)[4000:]
    for delta in (0.05, 0.2):
        inside = 0
        for row in fresh:
            low, high = residuals.interval(row.log_prediction, row.n, delta)
            assert low <= row.log_prediction <= high
            inside += low <= min(row.log_label, 0.0) <= high
        assert inside / len(fresh) > 1 - delta - 0.03
    wide, narrow = (residuals.interval(-1.5, 500, delta) for delta in (0.01, 0.2))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert Residuals.from_json(json.loads(json.dumps(residuals.to_json()))).interval(-1.5, 500, 0.2) == narrow
    assert fit_residuals(held_out(10)).interval(-1.5, 500, 0.05) == (-math.inf, 0.0)


def test_a_cell_with_few_residuals_borrows_but_covers_its_own() -> None:
    """Small formulas leave errors of 0.1; the few large ones that were seen were off by 2."""
    small = [row for row in held_out() if row.n < 5000]
    large = [dataclasses.replace(row, n=10_000, log_label=row.log_prediction - 2.0) for row in small[:30]]
    residuals = fit_residuals(small + large)
    assert any(0 < count < FEWEST for count in residuals.counts[-1])
    for row in large:
        low, _ = residuals.interval(row.log_prediction, row.n, 0.05)
        assert low <= row.log_label + 1e-5
