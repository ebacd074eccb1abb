"""Which formulas the network's interval may be shown for: those drawn like its training data, and no others."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest

from sharpdnf import DNF, formats
from sharpdnf.generate import HubSpec, PaperSpec, UniformSpec, quarter_shifts, settings
from sharpdnf.learn.family import unlike_training
from sharpdnf.paper import sets

generate = importlib.import_module("sharpdnf.generate")
EXAMPLES = Path(__file__).parent.parent / "examples"


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def share_recognised(formulas: list[DNF]) -> float:
    return sum(unlike_training(dnf) is None for dnf in formulas) / len(formulas)


@pytest.mark.parametrize("name", list(sets.SETS))
def test_the_sets_of_the_paper_are_recognised(name: str) -> None:
    examples = sets.subset(name, 20 if name.startswith("size") else 400, seed=5)
    assert share_recognised([sets.draw(what, 5) for what in examples]) >= 0.99


@pytest.mark.parametrize("privileged", [False, True])
@pytest.mark.parametrize("variant", ["text", "number", "code"])
@pytest.mark.parametrize("placement", ["weighted", "strict"])
def test_every_way_of_the_papers_generator_is_recognised(variant: str, placement: str, privileged: bool) -> None:
    formulas = []
    for n in (50, 100, 250, 1000, 5000):
        for seed, (width, m) in itertools.product(range(max(1, 500 // n)), settings(n)):
            formulas += quarter_shifts(
                generate.paper(PaperSpec(n, m, width, privileged, variant, placement), rng(seed))
            )
    assert share_recognised(formulas) >= 0.99


def test_hubs_are_recognised() -> None:
    r, formulas = rng(), []
    for _ in range(500):
        n, m = (round(float(np.exp(r.uniform(np.log(low), np.log(high))))) for low, high in ((20, 2000), (20, 8000)))
        formulas.append(generate.hub(HubSpec(n, m, int(r.choice([2, 3, 4, 5, 6, 8]))), r))
    assert share_recognised(formulas) >= 0.99


def flipped(dnf: DNF, seed: int) -> DNF:
    """The same formula with every other variable or so called by its negation: as hard, and as unlike the family."""
    flips = rng(seed).integers(2, size=dnf.num_vars, dtype=np.int32)
    return DNF.from_arrays(dnf.indptr, dnf.literals ^ flips[dnf.literals >> 1], dnf.prob)


def with_random_signs(clauses: np.ndarray, num_vars: int, seed: int) -> DNF:
    """Clauses of one width over these variables, with the signs and probabilities of the family."""
    r, (m, width) = rng(seed), clauses.shape
    literals = 2 * clauses + r.integers(2, size=clauses.shape)
    return DNF.from_arrays(np.arange(m + 1) * width, literals.ravel().astype(np.int32), r.random(num_vars))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("reliability", {}),
        ("reliability", {"rows": 5, "cols": 5, "prob": 0.9}),
        ("join", {}),
        ("join", {"num_left": 50, "num_right": 100, "density": 0.05}),
        ("join", {"prob": 0.5}),
    ],
)
def test_what_users_meet_is_not_recognised(family: str, options: dict[str, object]) -> None:
    for seed in range(20):
        dnf = generate.generate(family, rng(seed), **options)
        assert unlike_training(dnf) is not None
        assert unlike_training(flipped(dnf, seed)) is not None


def test_the_shipped_example_is_not_recognised() -> None:
    reason = unlike_training(formats.read(str(EXAMPLES / "network.dnf")))
    assert reason == "its clauses have 6 to 14 literals, not all the same number"


@pytest.mark.parametrize("length", [20, 100, 1000])
def test_chains_are_not_recognised(length: int) -> None:
    """x1 x2 | x2 x3 | ... as it stands, flipped, and even with the family's signs; and a single clause."""
    clauses = np.arange(length)[:, None] + np.arange(2)
    plain = DNF.from_clauses((clauses + 1).tolist(), rng().random(length + 1))
    for seed in range(20):
        for dnf in (plain, flipped(plain, seed), with_random_signs(clauses, length + 1, seed)):
            assert unlike_training(dnf) is not None
    assert unlike_training(DNF.from_clauses([list(range(1, length + 1))], rng().random(length))) is not None


def test_groups_of_variables_are_not_recognised() -> None:
    for seed in range(20):
        r = rng(seed)
        groups = [[10 * g + r.choice(10, 3, replace=False) for _ in range(8)] for g in range(40)]
        reason = unlike_training(with_random_signs(np.sort(np.concatenate(groups), axis=1), 400, seed))
        assert reason == "its variables come in groups that share clauses"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.with_prob(np.full(f.num_vars, 0.5)), "probabilities"),
        (lambda f: f.with_prob(f.prob**3), "probabilities"),
        (lambda f: f.with_prob(0.2 * f.prob), "probabilities"),
        (lambda f: DNF.from_arrays(f.indptr, f.literals & ~1, f.prob), "0% of its literals are negated"),
        (lambda f: flipped(DNF.from_arrays(f.indptr, f.literals & ~1, f.prob), 1), "one sign only"),
        (lambda f: DNF.from_clauses([*f.clauses()[:-1], f.clauses()[-1][:-1]], f.prob), "2 to 3 literals"),
        (lambda f: DNF.from_clauses(f.clauses()[:9], f.prob), "9 clauses"),
    ],
)
def test_one_thing_unlike_the_family_is_enough(change: object, words: str) -> None:
    for seed in range(5):
        dnf = generate.paper(PaperSpec(300, 225, 3, False), rng(seed))
        assert unlike_training(dnf) is None
        assert words in str(unlike_training(change(dnf)))  # type: ignore[operator]


def test_sizes_far_outside_are_not_recognised() -> None:
    assert "10 variables" in str(unlike_training(generate.uniform(UniformSpec(10, 20, 3), rng())))
    assert "30,000 variables" in str(unlike_training(generate.uniform(UniformSpec(30_000, 20_000, 3), rng())))
    assert "40 literals" in str(unlike_training(generate.uniform(UniformSpec(500, 300, 40), rng())))
