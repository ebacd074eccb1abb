"""Belief propagation: exact on forests, an honest baseline elsewhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracle import enumerate_prob, random_dnf

from sharpdnf import DNF
from sharpdnf.engines.lbp import lbp
from sharpdnf.estimate import Estimate, Limit

pytestmark = pytest.mark.native


def run(dnf: DNF, limit: Limit | None = None, **options: Any) -> Estimate:
    rng = np.random.default_rng(0)
    return lbp(dnf, guarantee="none", epsilon=0.1, delta=0.1, rng=rng, limit=limit or Limit(), **options)


def test_exact_on_forests() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        clauses, n = [[1, 2]], 2
        for _ in range(6):  # each new clause shares one variable with what is there, or none
            shared = [int(rng.integers(1, n + 1)) * int(rng.choice([-1, 1]))] if rng.random() < 0.8 else []
            fresh = int(rng.integers(1, 3))
            clauses.append(shared + [v * int(rng.choice([-1, 1])) for v in range(n + 1, n + 1 + fresh)])
            n += fresh
        dnf = DNF.from_clauses(clauses, rng.uniform(0.05, 0.95, n))
        estimate = run(dnf, tolerance=1e-13)
        assert estimate.info["converged"] and estimate.guarantee == "none"
        assert estimate.prob == pytest.approx(enumerate_prob(dnf), rel=1e-9)


def test_close_on_random_formulas_and_inside_the_certified_bounds() -> None:
    rng = np.random.default_rng(4)
    errors = []
    for _ in range(100):
        dnf = random_dnf(rng, 14, 10, (2, 4))
        estimate = run(dnf)
        assert estimate.log_certified_lower <= estimate.log_prob <= estimate.log_certified_upper
        errors.append(abs(estimate.prob - enumerate_prob(dnf)))
    assert np.mean(errors) < 0.03


def test_small_probabilities_survive() -> None:
    dnf = DNF.from_clauses([[1, 2], [2, 3], [3, 4]], [1e-9] * 4)
    assert run(dnf).log_prob == pytest.approx(math.log(3e-18), abs=1e-3)
    tiny = run(DNF.from_clauses([[1, 2]], [1e-250, 1e-250]))
    assert tiny.log_prob == pytest.approx(-500 * math.log(10), rel=1e-6)


def test_says_when_it_did_not_converge() -> None:
    dnf = random_dnf(np.random.default_rng(5), 14, 30, (2, 3))
    assert not run(dnf, iterations=1).info["converged"]


def test_certain_variables() -> None:
    assert run(DNF.from_clauses([[1, 2], [2, 3]], [1.0, 0.5, 0.0])).prob == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("options", [{"damping": 1.0}, {"damping": -0.1}, {"iterations": 0}])
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        run(DNF.from_clauses([[1]]), **options)


def test_the_deadline_is_said() -> None:
    dnf = random_dnf(np.random.default_rng(5), 14, 30, (2, 3))
    late = run(dnf, limit=Limit(deadline=0.0))
    assert not late.met and late.info["iterations"] == 0
    assert late.log_certified_lower <= late.log_prob <= late.log_certified_upper
    assert run(dnf).met and run(dnf, iterations=1).met
