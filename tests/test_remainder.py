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
from sharpdnf.learn.remainder import FEW, MOST_DECIDED, MOST_SPLIT, SHARE, Remainder  # noqa: E402

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
        found = remainder.combine([log_exact(question) for question in remainder.asked])
        assert math.exp(found) == pytest.approx(float(enumerate_fraction(dnf)), rel=1e-10)
    for without in (seed % 9, 10 + seed % 21):
        large = with_hubs(seed, tuple(rng.choice([-1, 1], 1 + seed % 3).tolist()), without=without)
        remainder = Remainder.about(large)
        assert remainder.asked
        found = remainder.combine([log_exact(question) for question in remainder.asked])
        assert found == pytest.approx(log_exact(large), rel=1e-9)


def test_literals_in_nearly_all_clauses_are_decided_on() -> None:
    for signs in ((1,), (-1,), (1, -1)):
        remainder = Remainder.about(with_hubs(5, signs))
        assert remainder.notes["decided"] == len(signs) <= MOST_DECIDED
        (question,) = remainder.asked
        assert question.num_vars <= OTHERS and int(question.widths.max()) == 2


def test_where_many_clauses_do_without_a_literal_the_network_is_asked_about_both_cases() -> None:
    rng = np.random.default_rng(0)
    for without, questions in ((FEW, 1), (60, 2), (75, 2), (76, 1)):
        clauses = [[1] * (i >= without) + (rng.choice(200, 3, replace=False) + 2).tolist() for i in range(150)]
        remainder = Remainder.about(DNF.from_clauses(clauses, prob=rng.random(201)))
        assert (remainder.decided is not None) == (without <= SHARE * 150)
        assert len(remainder.asked) == questions
        if questions == 2:
            given, otherwise = remainder.asked
            assert given.num_clauses <= 150 and otherwise.num_clauses <= without


def test_the_network_is_asked_about_few_formulas() -> None:
    """Four variables that stand in two thirds of the clauses each: two of them are decided on in each case."""
    rng = np.random.default_rng(1)
    stands = rng.random((400, 4)) < 2 / 3
    others = rng.choice(600, (400, 3)) + 5
    clauses = [
        [*(np.flatnonzero(row) + 1).tolist(), *set(rest.tolist())] for row, rest in zip(stands, others, strict=True)
    ]
    remainder = Remainder.about(DNF.from_clauses(clauses, prob=rng.random(605)))
    assert 1 < len(remainder.asked) <= 2**MOST_SPLIT


def test_the_counter_asks_about_that() -> None:
    torch.manual_seed(0)
    counter = NeuralCounter(Network(NetworkConfig(k=8, iterations=2)))
    for clauses, without, questions in ((60, 3, 1), (160, 70, 2)):
        dnf = with_hubs(7, (1,), clauses, without)
        remainder = Remainder.about(dnf)
        assert len(remainder.asked) == questions
        estimate = counter.predict(dnf)
        answers = [counter.predict(question, factor=False).log_prob for question in remainder.asked]
        assert estimate.log_prob == pytest.approx(remainder.combine(answers), rel=1e-6)
        assert estimate.info["taken out"]["decided"] == 1
        together = counter.predict_many([remainder.asked[0], dnf, DNF.from_clauses([[1]], prob=[0.3]), dnf])
        assert [e.log_prob for e in together[1::2]] == pytest.approx([estimate.log_prob] * 2, rel=1e-5)
        assert together[2].prob == pytest.approx(0.3, rel=1e-12)
