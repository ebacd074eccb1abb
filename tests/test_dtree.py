"""The d-tree: exact against enumeration, bounds at every moment, polynomial where it must be, limits that hold."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    ANY_PROBS,
    dnfs,
    enumerate_count,
    enumerate_fraction,
    enumerate_influence,
    enumerate_log_prob,
    enumerate_marginals,
    enumerate_prob,
    random_dnf,
)

from sharpdnf import DNF, count
from sharpdnf.compiled import Compiled
from sharpdnf.engines.dtree import compile as compile_dnf
from sharpdnf.engines.dtree import dtree
from sharpdnf.estimate import Estimate, Limit
from sharpdnf.generate import generate

pytestmark = pytest.mark.native


def run(dnf: DNF, guarantee: str = "exact", epsilon: float = 0.1, seconds: float = 60.0, **options: Any) -> Estimate:
    limit = options.pop("limit", None) or Limit(deadline=time.monotonic() + seconds)
    rng = np.random.default_rng(0)
    return dtree(dnf, guarantee=guarantee, epsilon=epsilon, delta=0.05, rng=rng, limit=limit, **options)


def compiled(dnf: DNF, **options: Any) -> Compiled:
    circuit = compile_dnf(dnf, **options)
    assert circuit is not None
    return circuit


@settings(max_examples=200, deadline=None)
@given(dnfs(min_clauses=1, max_vars=7, probs=ANY_PROBS), st.booleans())
def test_exact_against_rationals(dnf: DNF, tables: bool) -> None:
    estimate = run(dnf, tables=tables)
    assert estimate.guarantee == "exact" and estimate.met
    truth = enumerate_log_prob(dnf)
    assert estimate.log_prob == truth or math.isclose(estimate.log_prob, truth, rel_tol=1e-9, abs_tol=1e-11)


@settings(max_examples=150, deadline=None)
@given(dnfs(min_clauses=1, min_width=1, max_vars=9, max_clauses=14, probs=ANY_PROBS), st.integers(1, 12))
def test_bounds_hold_at_every_moment(dnf: DNF, nodes: int) -> None:
    estimate = run(dnf, "bounds", nodes=nodes, tables=False)
    truth = enumerate_prob(dnf)
    assert estimate.certified_lower <= truth * (1 + 1e-9) + 1e-300
    assert estimate.certified_upper >= truth * (1 - 1e-9)


@settings(max_examples=100, deadline=None)
@given(dnfs(min_clauses=1, max_vars=8, max_clauses=12), st.booleans())
def test_circuits_against_enumeration(dnf: DNF, tables: bool) -> None:
    circuit = compiled(dnf, tables=tables)
    assert circuit.count() == enumerate_count(dnf)
    assert circuit.fraction([Fraction(float(p)) for p in dnf.prob]) == enumerate_fraction(dnf)
    other = np.linspace(0.05, 0.95, dnf.num_vars)
    rows = np.exp(circuit.evaluate(np.stack([dnf.prob, other])))
    assert rows == pytest.approx([enumerate_prob(dnf), enumerate_prob(dnf.with_prob(other))], rel=1e-9)
    assert circuit.gradient(other)[1] == pytest.approx(enumerate_influence(dnf.with_prob(other)), abs=1e-12)
    assert circuit.marginals(other) == pytest.approx(enumerate_marginals(dnf.with_prob(other)), rel=1e-9)


def test_more_clauses_and_both_rules_agree() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        dnf = random_dnf(rng, 16, int(rng.integers(10, 60)), (2, 6), unate=bool(rng.integers(2)))
        truth = enumerate_prob(dnf)
        assert run(dnf).prob == pytest.approx(truth, rel=1e-10)
        assert run(dnf, tables=False).prob == pytest.approx(truth, rel=1e-10)
        assert compiled(dnf).count() == enumerate_count(dnf)


@pytest.mark.speed
@pytest.mark.parametrize("width", [4, 8, 18])
def test_twenty_variables_ten_thousand_clauses(width: int) -> None:
    dnf = random_dnf(np.random.default_rng(width), 20, 10_000, (width, min(width + 2, 20)))
    start = time.process_time()
    estimate = run(dnf)
    assert estimate.guarantee == "exact" and time.process_time() - start < 2.0
    assert estimate.prob == pytest.approx(enumerate_prob(dnf), rel=1e-9)


def hierarchical(size: int) -> tuple[DNF, float]:
    """R(x), S(x, y): or over x of R(x) and (or over y of S(x, y)), and its probability."""
    clauses = [[x + 1, size + x * size + y + 1] for x in range(size) for y in range(size)]
    p, q = 0.3 / size, 0.5 / size
    prob = [p] * size + [q] * (size * size)
    return DNF.from_clauses(clauses, prob), 1 - (1 - p * (1 - (1 - q) ** size)) ** size


def alternating(depth: int) -> tuple[list[list[int]], int, float]:
    """A read-once formula of alternating and / or with three children each (or at the leaves' level)."""

    def build(level: int, first: int) -> tuple[list[list[int]], int, float]:
        if level == 0:
            return [[first]], 1, 0.3
        parts, used, probs = [], 0, []
        for _ in range(3 if level % 2 else 2):
            clauses, size, p = build(level - 1, first + used)
            parts.append(clauses)
            used += size
            probs.append(p)
        if level % 2:
            return [c for part in parts for c in part], used, 1 - math.prod(1 - p for p in probs)
        product: list[list[int]] = [[]]
        for part in parts:
            product = [a + b for a in product for b in part]
        return product, used, math.prod(probs)

    return build(depth, 1)


def test_hierarchical_lineage_takes_polynomial_time() -> None:
    expansions = []
    for size in (20, 40, 80, 160):
        dnf, truth = hierarchical(size)
        estimate = run(dnf, tables=False)
        assert estimate.guarantee == "exact" and estimate.prob == pytest.approx(truth, rel=1e-9)
        expansions.append(estimate.info["nodes"])
    assert all(b <= 2.5 * a for a, b in itertools.pairwise(expansions))  # linear in the size


def test_read_once_formulas_take_polynomial_time() -> None:
    for depth in (2, 3, 4, 5):
        clauses, n, truth = alternating(depth)
        estimate = run(DNF.from_clauses(clauses, [0.3] * n), tables=False)
        assert estimate.guarantee == "exact" and estimate.prob == pytest.approx(truth, rel=1e-9)
        assert estimate.info["nodes"] <= 2 * n  # one rule per inner node of the read-once tree
    size = 150
    grid = DNF.from_clauses([[i + 1, size + j + 1] for i in range(size) for j in range(size)], [0.01] * (2 * size))
    assert run(grid).prob == pytest.approx((1 - 0.99**size) ** 2, rel=1e-9)
    assert run(grid).info["nodes"] <= 8


def chain(n: int, p: float) -> tuple[DNF, float]:
    """x1 x2 or x2 x3 or ...: P by the transfer matrix of "no two neighbours true"."""
    ended_false, ended_true = 1.0 - p, p
    for _ in range(n - 1):
        ended_false, ended_true = (1.0 - p) * (ended_false + ended_true), p * ended_false
    return DNF.from_clauses([[i, i + 1] for i in range(1, n)], [p] * n), 1.0 - ended_false - ended_true


def test_long_chains_neither_overflow_nor_blow_up() -> None:
    for n, p in ((2_000, 0.02), (100_000, 0.0005)):
        dnf, truth = chain(n, p)
        estimate = run(dnf, seconds=2.0)
        if estimate.guarantee == "exact":
            assert estimate.prob == pytest.approx(truth, rel=1e-8)
        assert estimate.lower <= truth * (1 + 1e-8) and truth <= estimate.upper * (1 + 1e-8)
    assert run(chain(1_000, 0.02)[0]).guarantee == "exact"


@pytest.mark.speed
def test_deep_factor_chains_do_not_overflow_the_stack() -> None:
    """x1 (y1 or x2 (y2 or ...)): as many levels as clauses."""
    depth = 400
    clauses = [[*range(1, level + 1), depth + level] for level in range(1, depth + 1)]
    prob = [0.9] * depth + [0.01] * depth
    truth = 0.0
    for _ in range(depth):
        truth = 0.9 * (0.01 + 0.99 * truth)
    assert run(DNF.from_clauses(clauses, prob)).prob == pytest.approx(truth, rel=1e-9)


def test_a_product_whose_factor_is_true() -> None:
    """(true or a b) (c d or e f), not absorbed beforehand: the first factor's projections hold an empty clause."""
    dnf = DNF.from_clauses([[3, 4], [5, 6], [1, 2, 3, 4], [1, 2, 5, 6]], [0.3] * 6)
    for tables in (True, False):
        assert run(dnf, tables=tables).prob == pytest.approx(enumerate_prob(dnf), rel=1e-12)


def test_path_formulas_keep_absorbing() -> None:
    """Simple paths of a grid: 184 clauses of up to 14 edges, solved in a few hundred expansions."""
    dnf = generate("reliability", np.random.default_rng(0), rows=4, cols=4)
    estimate = run(dnf, tables=False)
    assert estimate.guarantee == "exact" and estimate.info["nodes"] < 3_000
    assert estimate.prob == pytest.approx(run(dnf).prob, rel=1e-10)


def test_answers_below_the_smallest_double() -> None:
    prob = [1e-200, 1e-180, 1e-190, 1e-150, 0.3]
    dnf = DNF.from_clauses([[1, 2], [2, 3], [3, 4, 5], [1, 4, -5]], prob)
    for tables in (True, False):
        assert run(dnf, tables=tables).log_prob == pytest.approx(enumerate_log_prob(dnf), rel=1e-12)
    circuit = compiled(dnf)
    assert circuit.evaluate(dnf.prob)[0] == pytest.approx(enumerate_log_prob(dnf), rel=1e-12)
    assert circuit.marginals(dnf.prob)[:4] == pytest.approx(tiny_marginals(dnf)[:4], rel=1e-9)


def tiny_marginals(dnf: DNF) -> list[float]:
    whole = enumerate_fraction(dnf)
    out = []
    for v in range(dnf.num_vars):
        fixed = np.array(dnf.prob)
        fixed[v] = 1.0
        out.append(float(Fraction(float(dnf.prob[v])) * enumerate_fraction(dnf.with_prob(fixed)) / whole))
    return out


def hard(n: int = 150, m: int = 110) -> DNF:
    return random_dnf(np.random.default_rng(5), n, m, 5)


@pytest.mark.speed
def test_stops_at_the_time_limit_with_bounds() -> None:
    start = time.perf_counter()
    estimate = run(hard(), seconds=0.3)
    assert time.perf_counter() - start < 3.0  # of a busy machine
    assert not estimate.met and estimate.guarantee == "bounds" and estimate.info["stopped"] == "time limit"
    assert -math.inf < estimate.log_lower < estimate.log_prob < estimate.log_upper <= 0.0


def test_stops_at_the_memory_limit_with_bounds() -> None:
    estimate = run(hard(), limit=Limit(deadline=time.monotonic() + 30, memory=1 << 18))
    assert not estimate.met and estimate.info["stopped"] == "memory limit"
    assert estimate.log_lower < estimate.log_upper


def test_a_full_memory_forgets_what_is_finished_and_goes_on() -> None:
    """In little memory finished subformulas are forgotten and solved again: the answer is the same."""
    dnf = hard(50, 38)
    whole, little = run(dnf), run(dnf, limit=Limit(deadline=time.monotonic() + 60, memory=1 << 19))
    assert whole.met and little.met and little.info["nodes"] > 10_000  # of 64 bytes and more each
    assert little.log_prob == pytest.approx(whole.log_prob, rel=1e-11)
    assert little.log_lower <= whole.log_upper and whole.log_lower <= little.log_upper


@st.composite
def alike(draw: st.DrawFn) -> DNF:
    """Clauses with private literals, some of them in pairs, beside shared ones: much to merge, most of it below."""
    shared, clauses = draw(st.integers(2, 4)), []
    n = shared
    for _ in range(draw(st.integers(2, 6))):
        company = draw(st.lists(st.integers(1, shared), min_size=1, max_size=2, unique=True))
        signs = draw(st.lists(st.sampled_from([1, -1]), min_size=2, max_size=2))
        private = draw(st.integers(0, min(2, 11 - n)))
        clauses.append([*company, *(sign * (n + 1 + i) for i, sign in zip(range(private), signs, strict=False))])
        n += private
    extreme = st.floats(1e-15, 1 - 1e-15) | st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12])
    return DNF.from_clauses(clauses, np.array(draw(st.lists(extreme, min_size=n, max_size=n))), num_vars=n)


@settings(max_examples=200, deadline=None)
@given(alike(), st.booleans(), st.integers(1, 8))
def test_merged_variables_against_rationals(dnf: DNF, tables: bool, nodes: int) -> None:
    """Merged variables are as precise near 0 and near 1 as others, and bounds hold when it is cut short."""
    truth = enumerate_fraction(dnf)
    for estimate in (run(dnf, tables=tables), run(dnf, "bounds", tables=False, nodes=nodes)):
        for value, lower, upper in (
            (log_of(truth), estimate.log_lower, estimate.log_upper),
            (log_of(1 - truth), estimate.log_complement_lower, estimate.log_complement_upper),
        ):
            slack = 1e-15 * max(1.0, abs(value)) if value > -math.inf else 0.0  # of the oracle's logarithm
            assert lower is None or upper is None or (lower <= value + slack and value <= upper + slack)
    assert run(dnf, tables=tables).met


def log_of(x: Fraction) -> float:
    """To the last digit near 0 and near 1; no product of these probabilities is below the doubles."""
    if x == 0:
        return -math.inf
    return math.log1p(-float(1 - x)) if x > Fraction(1, 2) else math.log(float(x))


def test_variables_that_cannot_be_told_apart_are_merged_in_subformulas() -> None:
    """Each pair (x, y) has twenty clauses with a private literal each, which makes one of them; so a table does."""
    rng = np.random.default_rng(5)
    clauses, n = [], 7
    for x, y in itertools.product(range(1, 4), range(4, 8)):
        for _ in range(20):
            n += 1
            clauses.append([x, y, n])
    dnf = DNF.from_clauses(clauses, rng.uniform(0.01, 0.1, n))
    estimate = run(dnf)
    merged = [[x, y, 8 + i] for i, (x, y) in enumerate(itertools.product(range(1, 4), range(4, 8)))]
    one = [1.0 - math.prod(1.0 - dnf.prob[7 + 20 * i : 27 + 20 * i]) for i in range(12)]
    assert estimate.prob == pytest.approx(enumerate_prob(DNF.from_clauses(merged, [*dnf.prob[:7], *one])), rel=1e-11)
    assert estimate.info["nodes"] < 100


def test_merged_variables_do_not_underflow() -> None:
    """The product of two such probabilities is no double, so the two stay apart: P is not 0."""
    dnf = DNF.from_clauses([[1, 2, 3], [3, 4], [5, 6, 4]], [1e-190, 1e-190, 1e-3, 0.5e-3, 1e-180, 1e-190])
    for tables in (True, False):
        assert run(dnf, tables=tables).log_prob == pytest.approx(math.log(0.5e-6), rel=1e-12)
    rare = DNF.from_clauses([[1, 2, 3], [1, 2, 4], [3, 4, 5, 6]], [1e-190, 1e-190, 0.5, 0.5, 1e-190, 1e-191])
    for method in ("auto", "shannon-tree", "dtree", "eliminate"):
        estimate = count(rare, engine="exact", method=method)
        assert estimate.log_prob == pytest.approx(math.log(0.75 + 0.025) - 380 * math.log(10), rel=1e-12), method


def test_bounds_only_tighten_with_more_nodes() -> None:
    dnf = hard(60, 50)
    widths = []
    for nodes in (1, 10, 100, 1000, 10_000):
        estimate = run(dnf, "bounds", nodes=nodes)
        widths.append(estimate.upper - estimate.lower)
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(widths)) and widths[-1] < widths[0] / 2


@pytest.mark.parametrize("epsilon", [0.3, 0.1, 0.01])
def test_stops_early_when_the_bounds_meet_epsilon(epsilon: float) -> None:
    dnf = random_dnf(np.random.default_rng(2), 45, 35, (3, 5))
    truth, full = run(dnf).prob, run(dnf).info["nodes"]
    relative = run(dnf, "relative", epsilon)
    assert relative.met and relative.delta == 0.0 and abs(relative.prob - truth) <= epsilon * truth
    additive = run(dnf, "additive", epsilon)
    assert additive.met and abs(additive.prob - truth) <= epsilon
    assert max(relative.info["nodes"], additive.info["nodes"]) < full


def test_compile_gives_up_at_its_limit() -> None:
    assert compile_dnf(hard(), Limit(deadline=time.monotonic() + 0.2)) is None
    assert compile_dnf(hard(), nodes=10) is None


def test_constant_formulas() -> None:
    assert compiled(DNF.from_clauses([], num_vars=3)).count() == 0
    assert compiled(DNF.from_clauses([[], [1]], num_vars=3)).count() == 8
    assert run(DNF.from_clauses([], num_vars=1)).log_prob == -math.inf
    assert run(DNF.from_clauses([[]], num_vars=1)).log_prob == 0.0


def test_counts_are_exact_beyond_doubles() -> None:
    n = 300
    clauses = [[3 * i + 1, 3 * i + 2, 3 * i + 3] for i in range(n // 3)]
    assert compiled(DNF.from_clauses(clauses)).count() == 8 ** (n // 3) - 7 ** (n // 3)


def test_wrong_shapes_are_errors() -> None:
    circuit = compiled(DNF.from_clauses([[1, 2]]))
    with pytest.raises(ValueError, match="2 probabilities"):
        circuit.evaluate([[0.5, 0.5, 0.5]])
    with pytest.raises(ValueError, match="2 probabilities"):
        circuit.gradient([0.5])
    with pytest.raises(ValueError, match="nodes"):
        run(DNF.from_clauses([[1, 2]]), nodes=-1)


def test_stamps_that_go_round_change_nothing() -> None:
    """The scratch memory numbers its passes and starts 256 before the numbers go round: this takes many more."""
    dnf = random_dnf(np.random.default_rng(8), 18, 60, (3, 5))
    whole = run(dnf, tables=False)
    assert whole.info["nodes"] > 300
    assert whole.prob == pytest.approx(enumerate_prob(dnf), rel=1e-9)
