"""The generators against their laws: the composition, the placement, the privileged variables, purity, time."""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections import Counter

import appendix
import numpy as np
import pytest
from scipy.stats import arcsine, ks_2samp, kstest

from sharpdnf import DNF, _native
from sharpdnf.errors import InvalidFormula
from sharpdnf.generate import HubSpec, JoinSpec, PaperSpec, ReliabilitySpec, UniformSpec
from sharpdnf.privileged import slots_by_text

pytestmark = pytest.mark.native

generate = importlib.import_module("sharpdnf.generate")  # the module: the package exports a function of that name
PLACEMENTS = ("weighted", "strict")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def occurrences(dnf: DNF) -> np.ndarray:
    return np.bincount(dnf.literals >> 1, minlength=dnf.num_vars)


def chi_square_limit(freedom: int) -> float:
    """Wilson-Hilferty quantile at significance about 1e-7: a red test is a bug."""
    return freedom * (1 - 2 / (9 * freedom) + 5.2 * math.sqrt(2 / (9 * freedom))) ** 3


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("privileged", [False, True])
@pytest.mark.parametrize("width", [3, (2, 7)])
def test_paper_formula_is_as_asked(placement: str, privileged: bool, width: int | tuple[int, int]) -> None:
    dnf = generate.paper(PaperSpec(60, 45, width, privileged, placement=placement), rng())
    low, high = width if isinstance(width, tuple) else (width, width)
    assert (dnf.num_vars, dnf.num_clauses) == (60, 45)
    assert dnf.widths.min() >= low and dnf.widths.max() <= high
    assert occurrences(dnf).min() >= 1 and occurrences(dnf).max() <= 45
    assert dnf.notes == ()  # no literal twice in a clause
    assert dnf.prob.min() >= 0 and dnf.prob.max() < 1


def test_widths_are_uniform_in_their_range() -> None:
    dnf = generate.paper(PaperSpec(1000, 6000, (3, 8), False), rng())
    observed = np.bincount(dnf.widths)[3:9]
    assert ((observed - 1000) ** 2 / 1000).sum() < chi_square_limit(5)


def test_allocation_is_a_uniform_composition() -> None:
    # 7 slots over 4 variables, none with more than m = 3 of them.
    possible = [c for c in itertools.product(range(1, 4), repeat=4) if sum(c) == 7]
    seen: Counter[tuple[int, ...]] = Counter()
    draws, r = 4000, rng(5)
    for _ in range(draws):
        widths = np.array([2, 2, 3], dtype=np.int64)
        placed = _native.generate_paper(widths, 4, 0, 0, True, int(r.integers(2**63)), 1000)
        variables = placed.variables
        assert placed.done
        seen[tuple(np.bincount(variables, minlength=4).tolist())] += 1
    expected = draws / len(possible)
    assert set(seen) <= set(possible)
    assert sum((seen[c] - expected) ** 2 / expected for c in possible) < chi_square_limit(len(possible) - 1)


def test_allocation_is_not_multinomial() -> None:
    """The share of a uniform composition is nearly geometric: its variance is about mean^2, not mean."""
    share = occurrences(generate.paper(PaperSpec(5000, 3750, 21, False), rng()))
    mean = 3750 * 21 / 5000
    assert share.mean() == pytest.approx(mean)
    assert share.var() == pytest.approx((mean - 1) * mean, rel=0.2)


def test_clauses_are_drawn_evenly() -> None:
    spec = PaperSpec(30, 24, 5, False)
    r, hits = rng(1), np.zeros(24)
    for _ in range(400):
        dnf = generate.paper(spec, r)
        top = int(occurrences(dnf).argmax())
        hits += [top in (dnf.literals[a:b] >> 1) for a, b in itertools.pairwise(dnf.indptr)]
    assert ((hits - hits.mean()) ** 2 / hits.mean()).sum() < chi_square_limit(23)


def test_signs_are_balanced_and_privileged_ones_unanimous() -> None:
    plain = generate.paper(PaperSpec(2000, 1500, 8, False), rng())
    assert abs((plain.literals & 1).mean() - 0.5) < 5.5 / (2 * math.sqrt(plain.num_literals))
    dnf = generate.paper(PaperSpec(2000, 1500, 8, True, variant="code"), rng(3))
    top = int(occurrences(dnf).argmax())
    assert occurrences(dnf)[top] > 400  # far above the plain maximum of about 6 ln 2000
    assert len(set((dnf.literals[dnf.literals >> 1 == top] & 1).tolist())) == 1


def test_half_of_the_allocations_succeed() -> None:
    """What r is chosen for: no privileged variable above m, with probability at least 1/2."""
    n, m, w, p, r = 1000, 750, 5, 4, rng(2)
    own = slots_by_text(n, m, m * w, p)
    widths = np.full(m, w, dtype=np.int64)
    tries = [_native.generate_paper(widths, n, p, own, True, int(r.integers(2**63)), 1000).tries for _ in range(200)]
    assert 200 / sum(tries) > 0.5


def test_random_privilege_is_a_fair_coin() -> None:
    r = rng(4)
    heavy = [occurrences(generate.paper(PaperSpec(500, 375, 8), r)).max() > 120 for _ in range(300)]
    assert abs(sum(heavy) - 150) < 5.2 * math.sqrt(75)


@pytest.mark.parametrize("variant", ["text", "number", "code"])
def test_formulas_are_distributed_as_those_of_a_second_implementation(variant: str) -> None:
    source = rng(5)
    spec = PaperSpec(60, 30, 5, variant=variant)  # type: ignore[arg-type]
    ours = [generate.paper(spec, source) for _ in range(400)]
    theirs = [appendix.draw(60, 30, 5, variant, source) for _ in range(400)]

    def largest(dnf: DNF) -> int:
        return int(occurrences(dnf).max())

    def pairs(dnf: DNF) -> int:
        return int((np.bincount(dnf.literals, minlength=120).reshape(-1, 2) > 0).all(axis=1).sum())

    def expected(dnf: DNF) -> float:
        return float(np.exp(dnf.clause_log_probs()).sum())

    def covered(dnf: DNF) -> int:
        """By the two most frequent variables: in the program they avoid each other."""
        top = np.argsort(occurrences(dnf))[-2:]
        return int(np.isin(dnf.literals >> 1, top).reshape(30, 5).any(axis=1).sum())

    for statistic in (largest, pairs, expected, covered):
        found = ks_2samp([statistic(f) for f in ours], [statistic(f) for f in theirs])
        assert found.pvalue > 1e-5, (statistic.__name__, found)


def test_quarter_shifts() -> None:
    dnf = DNF.from_clauses([[1, 2]], prob=[0.1, 0.8])
    shifted = generate.quarter_shifts(dnf)
    expected = [[0.1, 0.8], [0.35, 0.05], [0.6, 0.3], [0.85, 0.55]]
    np.testing.assert_allclose([d.prob for d in shifted], expected)
    assert all(np.array_equal(d.literals, dnf.literals) for d in shifted)


def test_valid_settings() -> None:
    fifty = generate.settings(50)
    assert not [m for w, m in fifty if w == 34] and (21, 13) not in fifty and (21, 19) in fifty
    assert (3, 13) not in fifty and (3, 19) in fifty
    assert len(fifty) == 23
    assert len(generate.settings(100)) == len(generate.settings(5000)) == 29
    assert (3, math.ceil(0.375 * 250)) in generate.settings(250)


@pytest.mark.parametrize("num_vars", [50, 100])
def test_every_setting_can_be_drawn(num_vars: int) -> None:
    for width, num_clauses in generate.settings(num_vars):
        for placement in PLACEMENTS:
            dnf = generate.paper(PaperSpec(num_vars, num_clauses, width, placement=placement), rng(width))
            assert dnf.num_literals == width * num_clauses and occurrences(dnf).min() >= 1


def test_uniform_family() -> None:
    dnf = generate.uniform(UniformSpec(40, 3000, 4), rng())
    assert dnf.notes == () and set(dnf.widths) == {4}
    observed, expected = occurrences(dnf), 3000 * 4 / 40
    assert ((observed - expected) ** 2 / expected).sum() < chi_square_limit(39)
    assert set(generate.uniform(UniformSpec(5, 50, (1, 5)), rng()).widths) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("n", "m", "width", "max_hubs"), [(400, 300, 4, 3), (400, 300, 2, 3), (9, 40, 6, 3), (3, 5, 2, 1)]
)
def test_hub_formula_is_as_asked(n: int, m: int, width: int, max_hubs: int) -> None:
    for seed in range(20):
        dnf = generate.hub(HubSpec(n, m, width, max_hubs), rng(seed))
        assert (dnf.num_vars, dnf.num_clauses, set(dnf.widths.tolist())) == (n, m, {width})
        assert dnf.notes == ()  # no variable twice in a clause
        assert dnf.prob.min() >= 0 and dnf.prob.max() <= 1


def test_hubs_follow_their_law() -> None:
    """Their number, the clauses they stand in, their one sign and their probabilities; n is so large that they show."""
    n, m, least, draws = 600, 200, 0.6, 900
    numbers, missing, probabilities, negated = np.zeros(4), [], [], 0
    for seed in range(draws):
        dnf = generate.hub(HubSpec(n, m, 4, least_share=least), rng(seed))
        share, negative = occurrences(dnf), np.bincount((dnf.literals >> 1)[dnf.literals & 1 == 1], minlength=n)
        hubs = np.flatnonzero(share > 40)
        numbers[len(hubs)] += 1
        assert np.all((negative[hubs] == 0) | (negative[hubs] == share[hubs]))
        negated += int((negative[hubs] > 0).sum())
        missing += (m - share[hubs]).tolist()
        probabilities += dnf.prob[hubs].tolist()
    assert numbers[0] == 0 and ((numbers[1:] - draws / 3) ** 2 / (draws / 3)).sum() < chi_square_limit(2)
    total = len(missing)
    assert abs(negated - total / 2) < 5.2 * math.sqrt(total / 4)
    few = np.bincount([gone for gone in missing if gone <= 3], minlength=4)
    law = np.full(4, 1 / 8) + np.array([0.5, 1, 1, 1]) / (m * (1 - least)) / 2
    assert ((few - total * law) ** 2 / (total * law)).sum() < chi_square_limit(3) + (few.sum() / total > 0.6) * 1e9
    shares = [1 - gone / m for gone in missing if gone > 3]
    assert least - 0.5 / m <= min(shares)
    jitter = rng(1).uniform(-0.5 / m, 0.5 / m, size=len(shares))
    assert kstest(np.array(shares) + jitter, "uniform", (least, 1 - 3.5 / m - least)).pvalue > 1e-6
    assert kstest(probabilities, arcsine.cdf).pvalue > 1e-6


def test_what_is_no_hub_is_uniform() -> None:
    n, m, width = 60, 4000, 5
    dnf = generate.hub(HubSpec(n, m, width, least_share=1.0), rng(2))
    share = occurrences(dnf)
    others = np.flatnonzero(share < m / 2)
    hubs = n - len(others)
    assert 1 <= hubs <= 3 and np.all(share[share >= m / 2] >= m - 3)
    expected = share[others].mean()
    assert ((share[others] - expected) ** 2 / expected).sum() < chi_square_limit(len(others) - 1)
    signs = (dnf.literals & 1)[np.isin(dnf.literals >> 1, others)]
    assert abs(signs.mean() - 0.5) < 5.2 / (2 * math.sqrt(len(signs)))
    plain = [p for seed in range(40) for p in generate.hub(HubSpec(100, 40, 4), rng(seed)).prob]
    assert kstest(plain, "uniform").pvalue > 1e-6


def test_reliability_counts_paths() -> None:
    grid = generate.reliability(ReliabilitySpec(5, 5, prob=0.3), rng())
    assert (grid.num_vars, grid.num_clauses) == (40, 8512)
    square = generate.reliability(ReliabilitySpec(2, 2, prob=0.9), rng())
    assert sorted(len(c) for c in square.clauses()) == [2, 2]
    bridge = [("s", "a", 0.1), ("s", "b", {"prob": 0.2}), ("a", "b"), ("a", "t", 0.4), ("b", "t", {})]
    dnf = generate.reliability(ReliabilitySpec(edges=bridge, source="s", target="t", prob=0.3), rng())
    assert {frozenset(c) for c in dnf.clauses()} == {frozenset(c) for c in ([1, 4], [2, 5], [1, 3, 5], [2, 3, 4])}
    np.testing.assert_allclose(dnf.prob, [0.1, 0.2, 0.3, 0.4, 0.3])
    directed = generate.reliability(ReliabilitySpec(edges=bridge, source="s", target="t", directed=True), rng())
    assert directed.num_clauses == 3
    apart = generate.reliability(ReliabilitySpec(edges=[(1, 2), (3, 4)], source=1, target=4), rng())
    assert apart.num_clauses == 0


def test_join_is_the_lineage() -> None:
    dnf = generate.join(JoinSpec(3, 4, 1.0, 0.5), rng())
    assert (dnf.num_vars, dnf.num_clauses) == (3 + 4 + 12, 12)
    assert dnf.names is not None
    words = {tuple(sorted(dnf.names[abs(lit) - 1] for lit in clause)) for clause in dnf.clauses()}
    assert words == {(f"R[{x}]", f"S[{x}:{y}]", f"T[{y}]") for x in (1, 2, 3) for y in (1, 2, 3, 4)}
    assert set(dnf.prob) == {0.5}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("paper", {"num_vars": 50, "num_clauses": 38, "width": 5}),
        ("paper", {"num_vars": "50", "num_clauses": "38", "width": "3-8", "privileged": "true", "variant": "code"}),
        ("uniform", {"num_vars": 50, "num_clauses": 38, "width": "5"}),
        ("reliability", {"rows": 3, "cols": "4", "prob": "0.5"}),
        ("join", {"density": "0.3"}),
        ("hub", {"num_vars": "40", "num_clauses": "30", "width": "3", "max_hubs": "2"}),
    ],
)
def test_pure_in_spec_and_rng(family: str, options: dict[str, object]) -> None:
    first, again = (generate.generate(family, rng(7), **options) for _ in range(2))
    assert first == again
    if family != "reliability":
        assert first != generate.generate(family, rng(8), **options)


@pytest.mark.speed
@pytest.mark.parametrize(
    ("family", "options", "words"),
    [
        ("papre", {}, "did you mean 'paper'"),
        ("paper", {"num_var": 3}, "did you mean 'num_vars'"),
        ("paper", {"num_vars": 3}, "needs num_clauses, width"),
        ("paper", {"num_vars": "many", "num_clauses": 3, "width": 2}, "'many'"),
        ("paper", {"num_vars": 100, "num_clauses": 25, "width": 3}, "too few"),
        ("paper", {"num_vars": 10, "num_clauses": 25, "width": 11}, "different variables"),
        ("paper", {"num_vars": 40, "num_clauses": 30, "width": 34}, "in 100000 tries"),
        ("paper", {"num_vars": 10, "num_clauses": 25, "width": (5, 3)}, "smaller to a larger"),
        ("paper", {"num_vars": 10, "num_clauses": 25, "width": 3, "variant": "prose"}, "variant"),
        ("paper", {"num_vars": 2**40, "num_clauses": 2**40, "width": 3}, "too many"),
        ("uniform", {"num_vars": 0, "num_clauses": 3, "width": 1}, "num_vars"),
        ("uniform", {"num_vars": 4, "num_clauses": 3, "width": 5}, "different variables"),
        ("reliability", {"rows": 6, "cols": 6, "max_paths": 1000}, "max_paths=1000"),
        ("reliability", {"edges": [(1, 2)], "source": 1, "target": 3}, "target 3"),
        ("reliability", {"edges": [(1, 2, 1.5)], "source": 1, "target": 2}, "1.5"),
        ("reliability", {"edges": [(1,)], "source": 1, "target": 1}, "edge 0"),
        ("reliability", {"rows": 0}, "grid of 0"),
        ("hub", {"num_vars": 50, "num_clauses": 20, "width": 1}, "at least two variables"),
        ("hub", {"num_vars": 6, "num_clauses": 20, "width": 4}, "max_hubs"),
        ("hub", {"num_vars": 50, "num_clauses": 20, "width": 4, "max_hubs": 0}, "max_hubs"),
        ("hub", {"num_vars": 50, "num_clauses": 20, "width": 4, "max_hubs": 1.5}, "must be integers"),
        ("hub", {"num_vars": 50, "num_clauses": 20, "width": 4, "least_share": 0.0}, "least_share"),
        ("hub", {"num_vars": 50, "num_clauses": 20, "width": "3-5"}, "must be integers"),
        ("join", {"density": 2.0}, "density"),
        ("join", {"num_left": 10**6, "num_right": 10**6}, "too large"),
    ],
)
def test_impossible_requests_say_so_quickly(family: str, options: dict[str, object], words: str) -> None:
    start = time.monotonic()
    with pytest.raises((InvalidFormula, ValueError), match=words):
        generate.generate(family, rng(), **options)
    assert time.monotonic() - start < 10


@pytest.mark.speed
def test_a_large_formula_takes_few_passes() -> None:
    """n=15,000, w=34 costs at most 60 times writing its literals once in random order: nothing quadratic."""
    order = rng().permutation(15_000 * 34)
    start = time.perf_counter()
    np.sort(order)
    unit = time.perf_counter() - start
    start = time.perf_counter()
    generate.paper(PaperSpec(15_000, 11_250, 34), rng())
    assert time.perf_counter() - start < 60 * unit


def test_a_seed_stands_for_its_generator() -> None:
    options = {"num_vars": 20, "num_clauses": 10, "width": 3}
    assert generate.generate("uniform", 1, **options) == generate.generate(
        "uniform", np.random.default_rng(1), **options
    )
    for bad in (None, -1, 1.5, "1", True, np.random):
        with pytest.raises(TypeError, match="rng must be a seed"):
            generate.generate("uniform", bad, **options)  # type: ignore[arg-type]
