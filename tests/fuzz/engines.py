"""Small formulas with unkind probabilities: every exact way against rational enumeration, every promise kept."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from oracle import enumerate_count, enumerate_fraction, enumerate_influence, enumerate_marginals, log_fraction

import sharpdnf
from sharpdnf import DNF, Estimate, NotMetWarning, count, count_many

UNKIND = [0.0, 1.0, 1e-12, 1e-200, 1.0 - 1e-12, 0.5, 0.1, 0.9, 1e-5, 5e-324, 1.0 - 2.0**-53]


def cases(seed: int) -> Iterator[Any]:
    random_ = random.Random(seed)
    for _ in range(5):
        n, kind = random_.randint(1, 10), random_.random()
        width = random_.randint(1, min(n, 5))
        clauses = []
        for _ in range(random_.randint(1, 16)):
            chosen = random_.sample(range(1, n + 1), random_.randint(min(n, 1), width))
            clauses.append([v if kind < 0.3 or random_.random() < 0.5 else -v for v in chosen])
        plain = random_.random() < 0.3
        prob = [0.5 if plain else random_.choice([random_.random(), random_.choice(UNKIND)]) for _ in range(n)]
        asked = {"epsilon": random_.choice([0.5, 0.2, 0.05]), "rng": random_.randrange(2**32)}
        yield {"clauses": clauses, "prob": prob, "asked": asked}


def check(case: Any) -> bool:
    dnf = DNF.from_clauses(case["clauses"], case["prob"], num_vars=len(case["prob"]))
    truth = enumerate_fraction(dnf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotMetWarning)
        check_counts(dnf, truth, case["asked"])
        check_analysis(dnf, truth)
    return True


def check_counts(dnf: DNF, truth: Fraction, asked: dict[str, Any]) -> None:
    exact = count(dnf, guarantee="exact", timeout=20)
    assert exact.guarantee == "exact" and exact.met
    holds(exact, truth)
    if all(p == 0.5 for p in dnf.prob):
        assert exact.count == enumerate_count(dnf)
    holds(count(dnf, guarantee="bounds"), truth)
    holds(count(dnf, engine="dtree", guarantee="exact"), truth)
    table = count_many([dnf, dnf], guarantee="exact")
    assert np.allclose(table["log_prob"], exact.log_prob, rtol=1e-11, atol=0.0)
    for engine in ("auto", "sampling", "klm"):
        found = count(dnf, engine=engine, guarantee="relative", delta=1e-9, timeout=5, **asked)
        holds(found, truth)
        if found.met and truth:
            assert abs(found.log_prob - log_fraction(truth)) <= -np.log1p(-asked["epsilon"]) + 1e-9, engine
        found = count(dnf, engine="auto", guarantee="relative", of="complement", delta=1e-9, timeout=5, **asked)
        holds(found, truth)
    found = count(dnf, engine="sampling", guarantee="additive", delta=1e-9, timeout=5, **asked)
    assert not found.met or abs(found.prob - float(truth)) <= asked["epsilon"] + 1e-9


def holds(estimate: Estimate, truth: Fraction) -> None:
    """The certified bounds hold surely; at delta = 1e-9 the others do too."""
    assert Fraction(estimate.certified_lower) <= truth <= Fraction(estimate.certified_upper), estimate
    if estimate.guarantee not in ("none", "additive"):
        assert Fraction(estimate.lower) <= truth <= Fraction(estimate.upper), estimate


def check_analysis(dnf: DNF, truth: Fraction) -> None:
    if float(truth) > 1e-290:
        found = sharpdnf.marginals(dnf, exact=True)
        assert np.allclose(found, enumerate_marginals(dnf), rtol=1e-6, atol=1e-9)
        models = sharpdnf.sample_models(dnf, 3, rng=1)
        assert all(any(all((m[abs(x) - 1]) == (x > 0) for x in c) for c in dnf.clauses()) for m in models)
        holds(sharpdnf.conditional(dnf, dnf), Fraction(1))
    assert np.allclose(sharpdnf.influence(dnf, exact=True), enumerate_influence(dnf), rtol=1e-6, atol=1e-9)
