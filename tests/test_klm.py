"""The paper's sampler keeps its promise with the paper's number of trials."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_sampling import HARD, failures, too_many

from sharpdnf.engines.klm import klm, trials_needed
from sharpdnf.estimate import Limit


@pytest.mark.parametrize("name", ["overlap", "shared", "mixed signs", "one clause"])
def test_klm_keeps_its_promise(name: str) -> None:
    epsilon, delta, seeds = 0.5, 0.3, 600

    def run(rng: np.random.Generator) -> float:
        return klm(HARD[name], guarantee="relative", epsilon=epsilon, delta=delta, rng=rng, limit=Limit()).log_prob

    assert failures(run, HARD[name], epsilon, seeds) <= too_many(seeds, delta)


def test_klm_trials_are_the_papers() -> None:
    assert trials_needed(100, 0.1, 0.05) == math.ceil(8 * 1.1 * 100 * math.log(40) / 0.01)
