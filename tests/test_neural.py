"""The neural engine: certified bounds around the network's estimate, deadlines, batches."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from networks import formula  # noqa: E402

from sharpdnf import DNF, count, count_many  # noqa: E402
from sharpdnf.engines.registry import find  # noqa: E402
from sharpdnf.errors import LimitError  # noqa: E402
from sharpdnf.estimate import Limit  # noqa: E402
from sharpdnf.learn.counter import NeuralCounter  # noqa: E402


def run_engine(dnf: DNF, *, deadline: float = math.inf, **options: object) -> object:
    return find("neural").run(
        dnf, guarantee="none", epsilon=0.1, delta=0.05, rng=np.random.default_rng(0), limit=Limit(deadline), **options
    )


def test_engine_clips_to_certified_bounds(counter: NeuralCounter, tmp_path: Path) -> None:
    counter.save_pretrained(tmp_path)
    clauses = [[i % 30 + 1, 7 * i % 31 + 1, 11 * i % 37 + 1] for i in range(80)]
    estimate = run_engine(DNF.from_clauses(clauses, [0.01] * 37), weights=str(tmp_path))
    assert estimate.prob < 0.02
    assert estimate.info["clipped to certified bounds"]
    assert estimate.certified_lower <= estimate.lower <= estimate.prob <= estimate.upper <= estimate.certified_upper
    assert estimate.guarantee == "none" and estimate.info["weights"] == str(tmp_path)


def test_engine_stops_at_the_deadline_with_its_bounds(counter: NeuralCounter, tmp_path: Path) -> None:
    counter.save_pretrained(tmp_path)
    estimate = run_engine(formula(500), deadline=0.0, weights=str(tmp_path))
    assert not estimate.met and estimate.certified_lower <= estimate.prob <= estimate.certified_upper
    with pytest.raises(LimitError):
        run_engine(formula(500), weights=str(tmp_path), memory_gb=0.01)


def test_count_many_batches_and_agrees_with_count(counter: NeuralCounter, tmp_path: Path) -> None:
    counter.save_pretrained(tmp_path)
    dnfs = [formula(40, 5, seed) for seed in range(6)]
    dnfs += [DNF.from_clauses([], num_vars=2), DNF.from_clauses([[]]), DNF.from_clauses([[1], [2]])]
    together = count_many(dnfs, engine="neural", weights=str(tmp_path))
    alone = [count(dnf, engine="neural", weights=str(tmp_path)) for dnf in dnfs]
    np.testing.assert_allclose(together["prob"], [e.prob for e in alone], atol=1e-5)
    np.testing.assert_allclose(together["upper"], [e.upper for e in alone], atol=1e-5)
    late = count_many(dnfs, engine="neural", weights=str(tmp_path), timeout=0.0)
    assert not late["met"][:6].any() and np.all(late["lower"] <= late["upper"])
    with pytest.raises(ValueError, match="did you mean 'weights'"):
        count_many(dnfs, engine="neural", weight="paper")
