"""Intervals from held-out residuals cover as often as they say."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

torch = pytest.importorskip("torch")

from networks import held_out  # noqa: E402

from sharpdnf import DNF  # noqa: E402
from sharpdnf.learn.residuals import (  # noqa: E402
    FEWEST,
    Hardness,
    Residuals,
)
from sharpdnf.paper.calibrate import fit_residuals  # noqa: E402
from sharpdnf.paper.records import Row  # noqa: E402


def fitted(rows: list[Row]) -> Residuals:
    return fit_residuals(rows, [Hardness(row.n) for row in rows])


def test_residual_intervals_cover_as_often_as_they_say() -> None:
    residuals = fitted(held_out())
    fresh = held_out(6000)[4000:]
    for delta in (0.05, 0.2):
        inside = 0
        for row in fresh:
            low, high = residuals.interval(row.log_prediction, Hardness(row.n), delta)
            assert low <= row.log_prediction <= high
            inside += low <= min(row.log_label, 0.0) <= high
        assert inside / len(fresh) > 1 - delta - 0.03
    wide, narrow = (residuals.interval(-1.5, Hardness(500), delta) for delta in (0.01, 0.2))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert Residuals.from_json(json.loads(json.dumps(residuals.to_json()))).interval(-1.5, Hardness(500), 0.2) == narrow
    assert fitted(held_out(10)).interval(-1.5, Hardness(500), 0.05) == (-math.inf, 0.0)


def test_a_cell_with_few_residuals_borrows_but_covers_its_own() -> None:
    """Small formulas leave errors of 0.1; the few large ones that were seen were off by 2."""
    small = [row for row in held_out() if row.n < 5000]
    large = [dataclasses.replace(row, n=10_000, log_label=row.log_prediction - 2.0) for row in small[:30]]
    residuals = fitted(small + large)
    assert any(0 < count < FEWEST for count in residuals.counts)
    for row in large:
        low, _ = residuals.interval(row.log_prediction, Hardness(row.n), 0.05)
        assert low <= row.log_label + 1e-5


def test_formulas_with_a_hub_have_intervals_of_their_own() -> None:
    rows = held_out(8000, spread=0.05)
    far = [row.log_prediction + 10 * (row.log_label - row.log_prediction) for row in rows]
    hubs = [dataclasses.replace(row, log_label=label) for row, label in zip(rows, far, strict=True)]
    hard = [Hardness(row.n, degree=0.9) for row in hubs]
    residuals = fit_residuals(rows + hubs, [Hardness(row.n) for row in rows] + hard)
    plain, hub = (residuals.interval(-1.5, Hardness(500, degree), 0.05) for degree in (0.0, 0.9))
    assert hub[0] < plain[0] - 0.3 and plain[1] - plain[0] < 0.3


def test_hardness_by_hand() -> None:
    """Variable 1 in all three clauses; of the others variable 2 is in two, so two clauses share it."""
    hard = Hardness.of(DNF.from_clauses([[1, 2], [-1, 2, 3], [1, 4]], num_vars=9))
    assert hard == Hardness(size=4.0, degree=1.0, overlap=2.0 / 3.0)
    assert Hardness.of(DNF.from_clauses([])) == Hardness(0.0, 0.0, 0.0)


def test_tables_of_the_older_form_are_read() -> None:
    old = {"levels": [0.1, 0.9], "value_edges": [-1.0], "size_edges": [100], "counts": [[50, 60], [70, 80]]}
    old["quantiles"] = [[[-0.1, 0.1], [-0.2, 0.2]], [[-0.3, 0.3], None]]
    residuals = Residuals.from_json(old)
    assert residuals.interval(-2.0, Hardness(500, 0.9, 7.0), 0.2) == pytest.approx((-2.3, -1.7))
    assert residuals.interval(-0.5, Hardness(50), 0.2) == pytest.approx((-0.7, -0.3))
    assert residuals.interval(-0.5, Hardness(500), 0.2) == (-math.inf, 0.0)


def test_an_interval_is_shown_only_for_a_delta_that_the_residuals_earn() -> None:
    """The least and the largest of k residuals hold for 1 - 2 / (k + 1) of new formulas, and for no more."""
    alike = [dataclasses.replace(row, n=500, log_prediction=-1.5) for row in held_out(FEWEST)]
    residuals = fitted(alike)
    assert residuals.interval(-1.5, Hardness(500), 0.05)[0] > -math.inf
    assert residuals.interval(-1.5, Hardness(500), 0.04) == (-math.inf, 0.0)
    many = fitted([dataclasses.replace(row, n=500, log_prediction=-1.5) for row in held_out(400)])
    assert many.interval(-1.5, Hardness(500), 0.01)[0] > -math.inf
    assert many.interval(-1.5, Hardness(500), 0.001) == (-math.inf, 0.0)
