"""Certified intervals hold the exact rational truth, and 1 - P has as many digits as P: formulas made to break both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from sharpdnf import DNF, count, count_many
from sharpdnf.engines.bounds import log_midpoint
from sharpdnf.engines.dtree import compile as compile_dnf
from sharpdnf.estimate import Estimate, exact_estimate
from sharpdnf.simplify import simplify

pytestmark = pytest.mark.native

UNKIND = [1e-300, 1e-20, 3e-17, 1e-12, 0.1, 0.3, 0.5, 0.7, 0.9, 1 - 1e-12, 1 - 2**-52, 1 - 2**-53]


def exact(dnf: DNF) -> Fraction:
    """P as a rational: the probabilities are the doubles that the formula holds, nothing is rounded."""
    compiled = compile_dnf(dnf, tables=False)
    assert compiled is not None
    return compiled.fraction([Fraction(float(p)) for p in dnf.prob])


def log(value: Fraction) -> Decimal:
    """Its natural logarithm to 60 digits, also where the value is nearly 1."""
    if not value:
        return Decimal("-Infinity")
    with localcontext() as context:
        context.prec = 100
        missing = 1 - value
        if missing < Fraction(1, 10**30):
            x = Decimal(missing.numerator) / Decimal(missing.denominator)
            return -(x + x * x / 2 + x * x * x / 3)
        return (Decimal(value.numerator) / Decimal(value.denominator)).ln()


def log1m(value: Decimal) -> Decimal:
    """log(1 - e^value)."""
    with localcontext() as context:
        context.prec = 400
        return (1 - value.exp()).ln()


def holds(low: float, truth: Fraction, high: float) -> bool:
    """Whether a log interval has the truth in it."""
    return Decimal(low) <= log(truth) <= Decimal(high)


def check(estimate: Estimate, truth: Fraction) -> None:
    """The intervals hold the truth, as logarithms and as doubles, of P and of 1 - P."""
    assert holds(estimate.log_certified_lower, truth, estimate.log_certified_upper)
    assert holds(estimate.log_lower, truth, estimate.log_upper)
    assert Fraction(estimate.certified_lower) <= truth <= Fraction(estimate.certified_upper)
    assert holds(estimate.log_complement_lower, 1 - truth, estimate.log_complement_upper)
    assert Fraction(estimate.complement_lower) <= 1 - truth <= Fraction(estimate.complement_upper)


def check_digits(estimate: Estimate, truth: Fraction, digits: float = 1e-12) -> None:
    """P and 1 - P are right to a relative 1e-12, and the interval is no wider than that either."""
    assert estimate.guarantee == "exact"
    for found, low, high, value in (
        (estimate.log_prob, estimate.log_lower, estimate.log_upper, truth),
        (estimate.log_complement, estimate.log_complement_lower, estimate.log_complement_upper, 1 - truth),
    ):
        if value == 0:
            continue
        assert abs(Decimal(found) - log(value)) <= Decimal(digits) * max(1, abs(log(value)))
        assert high - low <= 4 * digits * max(1.0, abs(low))


def random_formula(rng: np.random.Generator) -> DNF:
    n, m = int(rng.integers(2, 9)), int(rng.integers(1, 12))
    clauses = []
    for _ in range(m):
        variables = rng.choice(n, size=int(rng.integers(1, min(n, 4) + 1)), replace=False)
        clauses.append([int(v + 1) * (1 if rng.random() < 0.6 else -1) for v in variables])
    return DNF.from_clauses(clauses, rng.choice(UNKIND, size=n))


def long_chain(links: int, p: float) -> DNF:
    """x1 x2 or x2 x3 or ...: neither independent nor read-once."""
    return DNF.from_clauses([[v, v + 1] for v in range(1, links + 1)], np.full(links + 1, p))


def grid(side: int, p: float, q: float) -> DNF:
    """Every row and every column of a square: deep Shannon expansions."""
    cells = np.arange(1, side * side + 1).reshape(side, side)
    clauses = [[int(x) for x in line] for line in [*cells, *cells.T]]
    return DNF.from_clauses(clauses, np.where(np.arange(side * side) % 2 == 0, p, q))


FORMULAS: dict[str, Callable[[], DNF]] = {
    "many nearly certain": lambda: DNF.from_clauses([[v] for v in range(1, 20)], np.full(19, 0.75)),
    "one nearly certain": lambda: DNF.from_clauses([[1, 2], [3]], [1 - 1e-12, 1 - 2**-53, 1e-30]),
    "negated and unlikely": lambda: DNF.from_clauses([[-1, -2], [-2, -3], [-1, 3]], [1e-20, 3e-17, 1e-18]),
    "chain near 1": lambda: long_chain(60, 0.9),
    "chain of certainty": lambda: long_chain(30, 1 - 1e-9),
    "chain near 0": lambda: long_chain(60, 1e-200),
    "rows and columns": lambda: grid(5, 0.9, 0.95),
    "rows and columns near 1": lambda: grid(4, 1 - 1e-12, 0.99),
    "factor near 1": lambda: DNF.from_clauses([[1, 2], [1, 3], [1, -4, 5]], [1 - 1e-13, 0.5, 0.4, 0.3, 0.7]),
    "two parts near 1": lambda: DNF.from_clauses(
        [[1, 2], [2, 3], [1, 3], [4, 5], [5, 6], [4, 6]], np.full(6, 1 - 1e-7)
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("tables", [True, False])
def test_the_d_tree_knows_p_and_its_complement(name: str, tables: bool) -> None:
    dnf = FORMULAS[name]()
    truth = exact(dnf)
    estimate = count(dnf, engine="dtree", guarantee="exact", tables=tables)
    check(estimate, truth)
    check_digits(estimate, truth)


@pytest.mark.parametrize("name", FORMULAS)
def test_every_exact_way_holds_the_truth(name: str) -> None:
    dnf = FORMULAS[name]()
    truth = exact(dnf)
    estimate = count(dnf, guarantee="exact")
    check(estimate, truth)
    check_digits(estimate, truth)
    table = count_many([dnf], guarantee="exact")
    assert holds(table["log_certified_lower"][0], truth, table["log_certified_upper"][0])
    assert table["log_prob"][0] == pytest.approx(float(log(truth)), rel=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("nodes", [1, 3, 10])
def test_unfinished_trees_hold_the_truth(name: str, nodes: int) -> None:
    dnf = FORMULAS[name]()
    check(count(dnf, engine="dtree", guarantee="bounds", nodes=nodes, tables=False), exact(dnf))


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("name", FORMULAS)
def test_one_pass_bounds_hold_the_truth(name: str, pairs: bool) -> None:
    dnf = FORMULAS[name]()
    check(count(dnf, engine="bounds", pairs=pairs), exact(dnf))


def test_random_formulas_with_unkind_probabilities() -> None:
    rng = np.random.default_rng(5)
    formulas = [random_formula(rng) for _ in range(400)]
    table = count_many(formulas, guarantee="exact")
    for i, dnf in enumerate(formulas):
        truth = exact(dnf)
        for estimate in (
            count(dnf, guarantee="exact"),
            count(dnf, engine="dtree", guarantee="exact", tables=i % 2 == 0),
        ):
            check(estimate, truth)
            check_digits(estimate, truth)
        check(count(dnf, engine="bounds"), truth)
        check(count(dnf, engine="dtree", guarantee="bounds", nodes=1, tables=False), truth)
        assert holds(table["log_certified_lower"][i], truth, table["log_certified_upper"][i])


@pytest.mark.parametrize(("p", "m"), [(1e-20, 10**6), (1e-17, 10**6), (3e-10, 10**5), (1e-3, 20_000), (0.5, 1000)])
def test_a_million_small_clauses_add_up(p: float, m: int) -> None:
    """1 - (1 - p)^m: folded in as components, in the batch, and as one pass of bounds."""
    dnf = DNF.from_arrays(np.arange(m + 1), 2 * np.arange(m, dtype=np.int32), np.full(m, p))
    with localcontext() as context:
        context.prec = 80
        log_complement = (1 - Decimal(p)).ln() * m
        log_prob = log1m(log_complement)
    found = count(dnf, guarantee="exact")
    for estimate in (found, count(dnf, engine="bounds"), count(dnf, engine="dtree", guarantee="exact")):
        assert Decimal(estimate.log_certified_lower) <= log_prob <= Decimal(estimate.log_certified_upper)
        low, high = Decimal(estimate.log_complement_lower), Decimal(estimate.log_complement_upper)
        assert low <= log_complement <= high
    assert found.log_prob == pytest.approx(float(log_prob), rel=1e-13, abs=1e-13)
    assert found.log_complement == pytest.approx(float(log_complement), rel=1e-12)
    table = count_many([dnf], guarantee="exact")
    assert table["log_prob"][0] == pytest.approx(float(log_prob), rel=1e-13, abs=1e-13)
    assert Decimal(table["log_certified_lower"][0]) <= log_prob <= Decimal(table["log_certified_upper"][0])


def test_a_complement_below_the_smallest_double() -> None:
    """P is 1 within any double; 1 - P = 1e-360 is known all the same."""
    dnf = DNF.from_clauses([[v] for v in range(1, 37)], np.full(36, 1 - 1e-10))
    log_complement = 36 * math.log(1 - (1 - 1e-10))
    for estimate in (count(dnf), count(dnf, engine="dtree", guarantee="exact")):
        assert estimate.prob == 1.0
        assert estimate.log_complement == pytest.approx(log_complement, rel=1e-12)
        assert estimate.log_complement_lower <= estimate.log_complement <= estimate.log_complement_upper
        assert estimate.log_lower < 0.0


def test_a_tree_that_stops_early_says_so() -> None:
    """Thousands of clauses over shared variables: P is 1 to 1e-12 long before the tree is done."""
    rng = np.random.default_rng(1)
    clauses = [[int(v) + 1 for v in rng.choice(400, size=3, replace=False)] for _ in range(4000)]
    dnf = DNF.from_clauses(clauses, np.full(400, 0.6))
    estimate = count(dnf, engine="dtree", guarantee="exact", timeout=20)
    assert estimate.guarantee == "exact"
    assert estimate.certified_upper - estimate.certified_lower <= 1.1e-12
    assert estimate.certified_lower < estimate.certified_upper == 1.0
    assert estimate.log_complement_upper - estimate.log_complement_lower > 0.1  # 1 - P is not known, and that is said


@pytest.mark.parametrize("mu", [1e-300, 1e-20, 0.25, 0.5, 0.75, 1 - 1e-9, 1 - 1e-15])
def test_the_fold_keeps_the_digits_of_the_complement(mu: float) -> None:
    """F ((1 - M) + M mu) and (1 - F) + F M (1 - mu) with F and M near 0 and near 1."""
    for f, m in itertools.product([1e-30, 0.5, 1 - 1e-13], [1e-12, 0.5, 1 - 1e-14]):
        factor, hit, rest = Fraction(f), Fraction(m), Fraction(mu)
        simple = simplify(DNF.from_clauses([[1, 2], [1, 3]], [f, m, mu]), solve=False)
        assert simple.dnf.num_clauses == 0
        truth = factor * (1 - (1 - hit) * (1 - rest))
        log_p, log_q = simple.whole(-math.inf, 0.0)
        assert abs(Decimal(log_p) - log(truth)) <= Decimal("1e-14") * max(1, abs(log(truth)))
        assert abs(Decimal(log_q) - log(1 - truth)) <= Decimal("1e-14") * max(1, abs(log(1 - truth)))
        assert Decimal(simple.whole(-math.inf, 0.0, -1)[0]) <= log(truth) <= Decimal(simple.whole(-math.inf, 0.0, 1)[0])


def test_compiled_formulas_know_the_complement_too() -> None:
    dnf = long_chain(60, 0.9)
    compiled = compile_dnf(dnf)
    assert compiled is not None
    truth = exact(dnf)
    found = float(compiled.evaluate(dnf.prob)[0])
    assert found == pytest.approx(float(log(truth)), rel=1e-13)


def test_the_middle_has_the_digits_of_the_complement() -> None:
    assert log_midpoint(-3e-18, -1e-18) == pytest.approx(-2e-18, rel=1e-12)
    assert log_midpoint(-3e-18, -1e-18, "additive") == pytest.approx(-2e-18, rel=1e-12)
    assert log_midpoint(-math.inf, -1.0) == pytest.approx(-1.0 - math.log(2))
    assert log_midpoint(-2000.0, 0.0) == pytest.approx(-2000.0 + math.log(2))


def test_a_changed_probability_takes_its_complement_along() -> None:
    estimate = exact_estimate(-1e-20, "x")
    assert estimate.complement == pytest.approx(1e-20)
    changed = estimate.replace(log_prob=-1e-10, log_lower=-2e-10)
    assert changed.complement == pytest.approx(1e-10)
    assert changed.complement_upper == pytest.approx(2e-10)
    assert changed.log_complement_lower == estimate.log_complement_lower
    assert changed.to_dict()["log_complement"] == changed.log_complement
