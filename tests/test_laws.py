"""Every registered engine faces the same laws under every guarantee it declares; a wrong one must fail them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from oracle import enumerate_log_prob

from sharpdnf import DNF, Estimate, count, count_many
from sharpdnf.engines.registry import Engine, discover
from sharpdnf.errors import MissingExtra
from sharpdnf.estimate import GUARANTEES, SERVES, Limit
from sharpdnf.generate import JoinSpec, PaperSpec, ReliabilitySpec, UniformSpec, join, paper, reliability, uniform

pytestmark = pytest.mark.native

DELTA = 1e-6  # a red test is a bug, not luck
EPSILON = 0.1
ENGINES = discover()


def random_formula(rng: np.random.Generator, *, tiny: bool = False) -> DNF:
    n, m = int(rng.integers(1, 10)), int(rng.integers(1, 15))
    clauses = []
    for _ in range(m):
        variables = rng.choice(n, size=int(rng.integers(1, min(n, 5) + 1)), replace=False) + 1
        clauses.append([int(v) * int(rng.choice([-1, 1])) for v in variables])
    prob = rng.random(n) * (10.0 ** -rng.integers(20, 60) if tiny else 1.0)
    return DNF.from_clauses(clauses, prob, num_vars=n)


FORMULAS = [random_formula(np.random.default_rng([7, i])) for i in range(12)]
FORMULAS += [
    DNF.from_clauses([[1]], [0.3]),
    DNF.from_clauses([[1, 2], [-1, -2]], [0.25, 0.5]),
    DNF.from_clauses([[1, v] for v in range(2, 12)], np.full(11, 0.05)),  # a variable shared by all clauses
    DNF.from_clauses([[v] for v in range(1, 13)], np.full(12, 0.01)),  # disjoint
    DNF.from_clauses([[1, 2, 3, v] for v in range(4, 14)], np.full(13, 0.6)),  # near-duplicates
    DNF.from_clauses([[1, 2], [2, 3], [3, 1]], [0.0, 1.0, 0.5]),  # certain variables
]


def run(found: Engine, guarantee: str, dnf: DNF, *, seed: int = 1, threads: int = 1) -> Estimate:
    rng = np.random.default_rng(seed)
    limit = Limit(threads=threads)
    return found.run(dnf, guarantee=guarantee, epsilon=EPSILON, delta=DELTA, rng=rng, limit=limit)


def check_promise(found: Engine, guarantee: str, dnf: DNF) -> None:
    """What the estimate declares is true of the oracle's answer, and serves what was asked."""
    estimate = run(found, guarantee, dnf)
    if not estimate.met:
        assert "below" in estimate.info["stopped"]  # the one refusal, and even then the bounds hold
    assert guarantee in SERVES[estimate.guarantee] or not estimate.met
    truth = enumerate_log_prob(dnf)
    slack = 1e-9
    assert estimate.log_certified_lower <= truth + slack
    assert estimate.log_certified_upper >= truth - slack
    if truth == -math.inf:
        assert estimate.log_prob == -math.inf or found.guarantees == ("none",)
        return
    ratio = math.exp(estimate.log_prob - truth)
    if estimate.guarantee == "exact":
        assert ratio == pytest.approx(1.0, rel=1e-9)
    elif estimate.guarantee == "relative":
        assert abs(ratio - 1.0) <= EPSILON
    elif estimate.guarantee == "additive":
        assert abs(estimate.prob - math.exp(truth)) <= EPSILON
    if estimate.guarantee != "none":
        assert estimate.log_lower - slack <= truth <= estimate.log_upper + slack
        assert estimate.log_lower - slack <= estimate.log_prob <= estimate.log_upper + slack
    assert estimate.log_prob <= 0.0


def law_promise(found: Engine, guarantee: str) -> None:
    for dnf in FORMULAS:
        check_promise(found, guarantee, dnf)


def law_same_seed(found: Engine, guarantee: str) -> None:
    for dnf in FORMULAS[:6]:
        answers = {run(found, guarantee, dnf, seed=5, threads=threads).log_prob for threads in (1, 1, 2, 3)}
        assert len(answers) == 1


def law_invariant(found: Engine, guarantee: str) -> None:
    """Clause order, repetition, renaming and flipping change the formula's looks, not the promise."""
    rng = np.random.default_rng(3)
    for dnf in FORMULAS[:10]:
        clauses = dnf.clauses()
        n = dnf.num_vars
        order = rng.permutation(len(clauses))
        names = rng.permutation(n) + 1
        signs = rng.choice([-1, 1], n)
        prob = np.empty(n)
        prob[names - 1] = np.where(signs > 0, dnf.prob, 1.0 - dnf.prob)
        other = [[int(np.sign(x) * signs[abs(x) - 1] * names[abs(x) - 1]) for x in clauses[i]] for i in order]
        looks = DNF.from_clauses(other, prob, num_vars=n)
        assert enumerate_log_prob(looks) == pytest.approx(enumerate_log_prob(dnf), rel=1e-9, abs=1e-12)
        check_promise(found, guarantee, looks)
        if found.guarantees != ("none",):
            repeated = DNF.from_clauses(clauses + clauses[:2], dnf.prob, num_vars=n)
            check_promise(found, guarantee, repeated)


def law_tiny(found: Engine, guarantee: str) -> None:
    """Answers far below the smallest double come out right."""
    for i in range(8):
        dnf = random_formula(np.random.default_rng([11, i]), tiny=True)
        positive = DNF.from_clauses([[abs(x) for x in c] for c in dnf.clauses()], dnf.prob, num_vars=dnf.num_vars)
        check_promise(found, guarantee, positive)


def law_untouched(found: Engine, guarantee: str) -> None:
    dnf = FORMULAS[0]
    before = [array.copy() for array in dnf.arrays]
    run(found, guarantee, dnf)
    assert all(np.array_equal(a, b) for a, b in zip(before, dnf.arrays, strict=True))


LAWS = [law_promise, pytest.param(law_same_seed, marks=pytest.mark.threads), law_invariant, law_tiny, law_untouched]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("name", "guarantee"), [(name, own) for name in ENGINES for own in ENGINES[name].guarantees])
def test_laws(name: str, guarantee: str, law) -> None:
    try:
        law(ENGINES[name], guarantee)
    except MissingExtra as missing:
        pytest.skip(str(missing))


def test_the_registry_holds_every_engine_of_the_design() -> None:
    assert {"auto", "dtree", "klm", "sampling", "bounds", "conditioned", "exact-cnf", "lbp", "neural"} <= set(
        discover()
    )


# --- values without a guarantee: what `conditioned` is, exactly and on the paper's family ----------------------------


def law_exact_where_all_is_conditioned(found: Engine) -> None:
    """Conditioned on every variable nothing is left to approximate, however small the probabilities are."""
    formulas = [dnf for dnf in FORMULAS if dnf.num_vars <= 12]
    formulas += [random_formula(np.random.default_rng([13, i]), tiny=i % 2 == 0) for i in range(60)]
    for dnf in formulas:
        truth = enumerate_log_prob(dnf)
        got = found.run(
            dnf, guarantee="none", epsilon=EPSILON, delta=DELTA, rng=np.random.default_rng(1), limit=Limit(),
            variables=12,
        ).log_prob  # fmt: skip
        assert got == truth or got == pytest.approx(truth, rel=1e-9, abs=1e-9)


def law_close_on_the_papers_family(found: Engine) -> None:
    """The README's claim for n = 50 to 5,000: 99.8 % of the answers within 0.02, all of them within 0.05."""
    errors = []
    for i in range(40):
        n, width = (50, 100, 250, 500)[i % 4], (3, 5, 8, 13)[i // 4 % 4]
        dnf = paper(PaperSpec(n, 3 * n // 4, width), np.random.default_rng([17, i]))
        reference = count(dnf, epsilon=0.01, delta=DELTA, rng=i)
        errors.append(abs(run(found, "none", dnf).prob - reference.prob) - 0.01 * reference.prob)
    assert max(errors) <= 0.05
    assert np.mean(np.array(errors) <= 0.02) >= 0.95


VALUE_LAWS = [law_exact_where_all_is_conditioned, law_close_on_the_papers_family]


@pytest.mark.parametrize("law", VALUE_LAWS)
def test_values_of_conditioned(law) -> None:
    law(ENGINES["conditioned"])


def test_a_wrong_approximation_fails_the_laws_of_values() -> None:
    conditioned = ENGINES["conditioned"]

    def independent(dnf: DNF, **asked) -> Estimate:  # as if no variable were shared
        return conditioned.run(dnf, **{**asked, "variables": 0})

    def flat(dnf: DNF, **asked) -> Estimate:
        asked.pop("variables", None)
        estimate = conditioned.run(dnf, **asked)
        return estimate.replace(log_prob=min(0.0, estimate.log_prob + math.log(1.2)))

    with pytest.raises(AssertionError):
        law_exact_where_all_is_conditioned(replace(conditioned, run=independent))
    for law in VALUE_LAWS:
        with pytest.raises(AssertionError):
            law(replace(conditioned, run=flat))


# --- one formula or many: the same answer -----------------------------------------------------------------------------

COLUMNS = [
    *("prob", "lower", "upper", "certified_lower", "certified_upper", "complement", "complement_lower"),
    *("complement_upper", "log_prob", "log_lower", "log_upper", "log_certified_lower", "log_certified_upper"),
    *("log_complement", "log_complement_lower", "log_complement_upper", "guarantee", "of", "engine", "samples"),
    *("met", "seed"),
]


def assorted() -> list[DNF]:
    """Trivial, small and middle-sized formulas of every generator."""

    def rng(i: int) -> np.random.Generator:
        return np.random.default_rng([19, i])

    found = [DNF.from_clauses([]), DNF.from_clauses([[]], num_vars=2), *FORMULAS]
    found += [random_formula(rng(i), tiny=i % 3 == 0) for i in range(20)]
    found += [uniform(UniformSpec(n, m, w), rng(n + m)) for n in (12, 40, 90) for m in (10, 60) for w in (2, 4, (3, 7))]
    found += [paper(PaperSpec(n, 3 * n // 4, w), rng(n + w)) for n in (60, 300) for w in (3, 5, 8)]
    found += [reliability(ReliabilitySpec(3, 3 + i, prob), rng(i)) for i in (0, 1) for prob in (0.5, 0.95)]
    found += [join(JoinSpec(8, 8, 0.3), rng(5)), join(JoinSpec(20, 20, 0.2, 0.5), rng(6))]
    found += [d.with_prob(rng(8).random(d.num_vars)) for d in found[-10:]]
    return found


def plain() -> DNF:
    """n = 1,000, w = 13 without weights: two ways of choosing bounds once gave [0.085, 0.089] and [0.015, 0.089]."""
    dnf = paper(PaperSpec(1000, 750, 13), np.random.default_rng(1))
    return dnf.with_prob(np.full(dnf.num_vars, 0.5))


def law_one_is_a_batch_of_one(one, many, formulas: list[DNF], **asked) -> None:
    for i, dnf in enumerate(formulas):
        estimate, table = one(dnf, rng=i, **asked), many([dnf], rng=i, **asked)
        assert sorted(table) == sorted(COLUMNS)
        for name in COLUMNS:
            got, want = getattr(estimate, name), table[name][0]
            if f"log_{name}" in COLUMNS:  # numpy's exp and math's differ in the last bit
                assert got == pytest.approx(want, rel=1e-15, abs=0.0), (i, name)
            else:
                assert got == want, (i, name)


@pytest.mark.parametrize(
    ("name", "guarantee"), [(name, g) for name in ENGINES for g in GUARANTEES if ENGINES[name].serves(g)]
)
def test_one_is_a_batch_of_one(name: str, guarantee: str) -> None:
    formulas = [*assorted(), plain()] if name == "auto" else assorted()[::4]
    if guarantee == "exact" or name in ("dtree", "exact", "exact-cnf"):  # they take their time
        formulas = [dnf for dnf in formulas if dnf.num_vars <= 20]
    try:
        law_one_is_a_batch_of_one(count, count_many, formulas, engine=name, guarantee=guarantee)
    except MissingExtra as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("asked", [{"of": "complement"}, {"epsilon": 0.002, "guarantee": "additive"}, {"epsilon": 0.4}])
def test_one_is_a_batch_of_one_whatever_is_asked(asked: dict) -> None:
    formulas = assorted()[::2] if "of" in asked else [*assorted(), plain()]
    law_one_is_a_batch_of_one(count, count_many, formulas, **asked)


def test_two_ways_of_choosing_fail_the_law() -> None:
    def otherwise(dnfs: list[DNF], **asked) -> dict:
        return count_many(dnfs, **{**asked, "rng": asked["rng"] + 1})

    with pytest.raises(AssertionError):
        law_one_is_a_batch_of_one(count, otherwise, assorted())


def test_a_wrong_engine_fails_the_laws() -> None:
    sampling = ENGINES["sampling"]

    def biased(dnf: DNF, **asked) -> Estimate:
        estimate = sampling.run(dnf, **asked)
        return estimate.replace(log_prob=min(0.0, estimate.log_prob + math.log(1.25)))

    def shifted(dnf: DNF, **asked) -> Estimate:
        estimate = sampling.run(dnf, **asked)
        return estimate.replace(log_prob=math.log(estimate.prob + 1.5 * EPSILON), log_upper=0.0)

    def boastful(dnf: DNF, **asked) -> Estimate:
        return ENGINES["bounds"].run(dnf, **asked).replace(guarantee="none")

    def careless(dnf: DNF, **asked) -> Estimate:
        return sampling.run(dnf, **{**asked, "rng": np.random.default_rng()})

    with pytest.raises(AssertionError):
        law_promise(replace(sampling, run=biased), "relative")
    with pytest.raises(AssertionError):
        law_promise(replace(sampling, run=shifted), "additive")
    with pytest.raises(AssertionError):
        law_promise(replace(ENGINES["bounds"], run=boastful), "bounds")
    with pytest.raises(AssertionError):
        law_same_seed(replace(sampling, run=careless), "relative")
