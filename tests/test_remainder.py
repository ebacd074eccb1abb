"""What remains for the network: what is computed and what remains give the formula's probability together."""

import math

import numpy as np
import pytest
from oracle import enumerate_fraction

torch = pytest.importorskip("torch")

from sharpdnf import DNF, count  # noqa: E402
from sharpdnf.generate import HubSpec, UniformSpec, hub, uniform  # noqa: E402
from sharpdnf.learn.counter import NeuralCounter  # noqa: E402
from sharpdnf.learn.model import Network, NetworkConfig  # noqa: E402
from sharpdnf.learn.remainder import FEW, MOST_DECIDED, Remainder  # noqa: E402

OTHERS = 30


def with_hubs(seed: int, signs: tuple[int, ...], clauses: int = 60, without: int = 3) -> DNF:
    """Variables 1, 2, ... stand with these signs in all of the clauses but ``without``, beside two others of thirty."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(clauses):
        others = (rng.choice(OTHERS, 2, replace=False) + len(signs) + 1) * rng.choice([-1, 1], 2)
        out.append([sign * (v + 1) for v, sign in enumerate(signs)] * (i >= without) + others.tolist())
    return DNF.from_clauses(out, prob=rng.random(OTHERS + len(signs)))


def log_exact(dnf: DNF) -> float:
    return count(dnf, guarantee="exact").log_prob


@pytest.mark.parametrize("seed", range(40))
def test_the_parts_make_the_whole(seed: int) -> None:
    """Small formulas against enumeration, and larger ones, of which something remains, against the exact engine."""
    rng = np.random.default_rng(seed)
    one = hub(HubSpec(int(rng.integers(8, 13)), int(rng.integers(8, 30)), int(rng.integers(2, 5)), 2, 0.7), rng)
    other = uniform(UniformSpec(int(rng.integers(4, 10)), int(rng.integers(1, 12)), int(rng.integers(1, 4))), rng)
    for dnf in (one, other, one.with_prob(np.where(rng.random(one.num_vars) < 0.2, 1.0, 0.3))):
        remainder = Remainder.about(dnf)
        found = remainder.combine(log_exact(remainder.dnf))
        assert math.exp(found) == pytest.approx(float(enumerate_fraction(dnf)), rel=1e-10)
    large = with_hubs(seed, tuple(rng.choice([-1, 1], 1 + seed % 3).tolist()), without=seed % 9)
    remainder = Remainder.about(large)
    assert remainder.dnf.num_clauses
    assert remainder.combine(log_exact(remainder.dnf)) == pytest.approx(log_exact(large), rel=1e-9)


def test_literals_in_nearly_all_clauses_are_decided_on() -> None:
    for signs in ((1,), (-1,), (1, -1)):
        remainder = Remainder.about(with_hubs(5, signs))
        assert remainder.notes["decided"] == len(signs) <= MOST_DECIDED
        assert remainder.dnf.num_vars <= OTHERS and int(remainder.dnf.widths.max()) == 2


def test_what_too_many_clauses_do_without_is_left_to_the_network() -> None:
    rng = np.random.default_rng(0)
    for without, decided in ((FEW, 1), (FEW + 1, 0)):
        clauses = [[1] * (i >= without) + (rng.choice(200, 3, replace=False) + 2).tolist() for i in range(150)]
        dnf = DNF.from_clauses(clauses, prob=rng.random(201))
        assert len(Remainder.about(dnf).decided) == decided
    assert Remainder.about(with_hubs(3, (1,), without=15)).decided
    assert not Remainder.about(with_hubs(3, (1,), without=16)).decided  # more than a quarter of its clauses


def test_the_counter_asks_about_that() -> None:
    torch.manual_seed(0)
    counter = NeuralCounter(Network(NetworkConfig(k=8, iterations=2)))
    dnf = with_hubs(7, (1,))
    remainder = Remainder.about(dnf)
    assert remainder.decided and remainder.dnf.num_clauses
    estimate = counter.predict(dnf)
    of_rest = counter.predict(remainder.dnf, factor=False).log_prob
    assert estimate.log_prob == pytest.approx(remainder.combine(of_rest), rel=1e-6)
    assert estimate.info["taken out"]["decided"] == len(remainder.decided)
    assert counter.predict_many([dnf, remainder.dnf])[0].log_prob == pytest.approx(estimate.log_prob, rel=1e-5)
