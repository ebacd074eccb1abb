"""Counting the answers of a query: what is shown on the way, and how the work is cut up, changes no number."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sharpdnf import Batch
from sharpdnf.generate import PaperSpec, paper
from sharpdnf.sql import counting, topk
from sharpdnf.sql.counting import Options, count_with_progress

pytestmark = pytest.mark.native


def batch_of(size: int) -> Batch:
    return Batch.of([paper(PaperSpec(120, 90, 8), np.random.default_rng([5, i])) for i in range(size)])


@pytest.mark.parametrize("rng", [3, "generator"])
@pytest.mark.parametrize("chunk", [1, 4, 7])
def test_a_progress_bar_changes_no_answer(monkeypatch: pytest.MonkeyPatch, chunk: int, rng: object) -> None:
    monkeypatch.setattr(counting, "CHUNK", chunk)
    batch, seen = batch_of(10), []

    def options(**more: object) -> Options:
        return Options(rng=np.random.default_rng(8) if rng == "generator" else rng, **more)  # type: ignore[arg-type]

    quiet = count_with_progress(batch, options())
    shown = count_with_progress(batch, options(progress=lambda done, total: seen.append((done, total)), threads=2))
    assert "sampling" in quiet.engine
    for name in ("prob", "lower", "upper", "engine", "guarantee", "met"):
        assert np.array_equal(getattr(quiet, name), getattr(shown, name)), name
    assert seen[-1] == (10, 10) and len(seen) == -(-10 // chunk)


def test_who_is_refined_draws_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer's draws in a round of a top-k question depend on which answer it is, not on who else is left."""
    asked = []

    def count(batch: Batch, options: Options) -> counting.Counts:
        asked.append(options.numbers.tolist())  # type: ignore[union-attr]
        return counting.count_batch(batch, options)

    monkeypatch.setattr(topk, "count_batch", count)
    topk.decide(batch_of(6), (), 2, descending=True, options=Options(rng=1, epsilon=0.02))
    assert asked[0] == list(range(6))
    assert all(set(later) <= set(before) for before, later in itertools.pairwise(asked))
