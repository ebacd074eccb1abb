"""Rows and traces hold what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_labels import one_quarter

from sharpdnf import DNF
from sharpdnf.estimate import Estimate
from sharpdnf.paper import evaluate, sets
from sharpdnf.paper.labels import Labels


def test_rows_hold_what_was_measured(tmp_path: Path) -> None:
    labels = Labels(tmp_path / "labels.csv", one_quarter, epsilon=0.005, delta=0.01)
    examples = sets.subset("fully-privileged", 10)

    def predict(dnfs: Sequence[DNF]) -> list[Estimate]:
        return [
            Estimate(log_prob=-float(dnf.num_vars), guarantee="none", engine="x", info={"sigma": 0.5}, seconds=0.1)
            for dnf in dnfs
        ]

    rows = evaluate.evaluate("net", "ab12", examples, labels, predict=predict, conditioned=lambda dnf: -1.0)
    assert len(rows) == len(examples)
    by_index = {row.index: row for row in rows}
    for what in examples:
        row = by_index[what.index]
        assert (row.n, row.m, row.w, row.family) == (what.num_vars, what.num_clauses, what.width, "privileged")
        assert row.weights == "ab12" and (row.log_lower, row.log_upper) == (-math.inf, 0.0)
        assert row.log_prediction == -row.n and row.log_conditioned == -1.0 and row.sigma == 0.5
        assert row.log_label == pytest.approx(math.log(0.25)) and row.seconds == 0.1


def test_independent_clause_formula() -> None:
    dnf = DNF.from_clauses([[1, 2], [-3]], prob=[0.5, 0.4, 0.9])
    assert math.exp(evaluate.log_independent(dnf)) == pytest.approx(1 - 0.8 * 0.9)
    tiny = DNF.from_clauses([[1, 2], [3, 4]], prob=[1e-200] * 4)
    assert evaluate.log_independent(tiny) == pytest.approx(math.log(2) + 2 * math.log(1e-200))
    assert evaluate.log_independent(DNF.from_clauses([[1]], prob=[1.0])) == 0.0
    assert evaluate.log_independent(DNF.from_clauses([])) == -math.inf


def test_figure_four_spans_the_answers(tmp_path: Path) -> None:
    targets = iter(np.linspace(0.001, 0.999, 60))
    labels = Labels(
        tmp_path / "l.csv", lambda dnf, **options: (math.log(next(targets)), None), epsilon=0.005, delta=0.01
    )
    chosen = evaluate.figure_members(sets.subset("structure", 60)[:60], labels)
    answers = [math.exp(label.log_label) for _, _, label in chosen]
    assert len(chosen) == 21 and len({what.index for what, _, _ in chosen}) == 21
    np.testing.assert_allclose(answers, np.linspace(1, 0, 21), atol=0.02)
    step = Estimate(log_prob=-1.0, guarantee="none", engine="x")
    traces = evaluate.trace_rows("net", chosen, lambda dnf: [step] * 8)
    assert len(traces) == 21 * 8 and {t.iteration for t in traces} == set(range(1, 9))
