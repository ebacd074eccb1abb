"""The exact front: every method against enumeration, closed forms for large structure, limits that hold."""

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
    enumerate_prob,
    random_dnf,
)

from sharpdnf import DNF, count
from sharpdnf.engines.dtree import dtree
from sharpdnf.engines.exact import METHODS, eliminate_factors, elimination_operations, exact
from sharpdnf.engines.exact import compile as compile_dnf
from sharpdnf.estimate import Estimate, Limit

pytestmark = pytest.mark.native

ALONE = [method for method in METHODS if method not in ("auto", "hierarchy")]


def run(dnf: DNF, method: str = "auto", seconds: float = 60.0, threads: int = 1, **options: Any) -> Estimate:
    memory = options.pop("memory", 2 << 30)
    limit = Limit(deadline=time.monotonic() + seconds, threads=threads, memory=memory)
    rng = np.random.default_rng(0)
    asked: dict[str, Any] = {"guarantee": "exact", "epsilon": 0.1, "delta": 0.05, "rng": rng, "limit": limit}
    return exact(dnf, method=method, **asked, **options)


def precise_log(value: Fraction) -> float:
    """The logarithm of a rational, right to its last digits also near 1 and far below the smallest double."""
    if value == 0:
        return -math.inf
    if 2 * value > 1:
        return math.log1p(-float(1 - value))
    shift = max(0, value.denominator.bit_length() - value.numerator.bit_length())
    return math.log(float(value * 2**shift)) - shift * math.log(2.0)


def close(log_a: float, log_b: float) -> bool:
    return log_a == log_b or abs(log_a - log_b) <= 1e-11 * max(1.0, abs(log_b))


def inside(lower: float, truth: float, upper: float) -> bool:
    """The interval holds the truth, whose logarithm is itself a rounded number."""
    if math.isinf(truth):
        return lower == truth
    slack = 4e-16 * abs(truth)
    return lower <= truth + slack and truth - slack <= upper


def renamed(clauses: list[list[int]], prob: Any, seed: int) -> DNF:
    """The same formula with variables numbered and clauses listed at random."""
    rng = np.random.default_rng(seed)
    n = len(prob)
    names = rng.permutation(n) + 1
    shuffled = [[int(math.copysign(names[abs(x) - 1], x)) for x in clauses[i]] for i in rng.permutation(len(clauses))]
    other = np.empty(n)
    other[names - 1] = prob
    return DNF.from_clauses(shuffled, other, num_vars=n)


def odd_shapes(rng: np.random.Generator) -> DNF:
    """Small formulas of many shapes: random, one polarity, shared literals, products, and extreme probabilities."""
    n, m = int(rng.integers(1, 12)), int(rng.integers(1, 24))
    shape = int(rng.integers(5))
    if shape == 0:
        dnf = random_dnf(rng, n, m, (1, min(n, 5)))
    elif shape == 1:
        dnf = random_dnf(rng, n, m, (1, min(n, 4)), unate=True)
    elif shape == 2:  # products of groups, which lifting takes apart
        groups = [list(range(1, 4)), list(range(4, 7)), list(range(7, 10))]
        clauses = [list(c) for c in itertools.product(*groups)] + [[10, -11], [11, 1]]
        dnf = DNF.from_clauses(clauses, rng.uniform(0.05, 0.95, 11))
    elif shape == 3:  # private variables, some negated
        clauses = [[int(rng.integers(1, 5)), 4 + 2 * i + 1, -(4 + 2 * i + 2)] for i in range(4)]
        dnf = DNF.from_clauses([*clauses, [1, 2], [3, 4]], rng.uniform(0.05, 0.95, 12), num_vars=12)
    else:  # a ladder with signs
        clauses = [[i + 1, i + 2] for i in range(9)] + [[-(i + 1), i + 3] for i in range(0, 8, 2)]
        dnf = DNF.from_clauses(clauses, rng.uniform(0.05, 0.95, 10))
    scale = int(rng.integers(4))
    if scale == 1:
        dnf = dnf.with_prob(dnf.prob * 10.0 ** -float(rng.integers(1, 120)))
    elif scale == 2:
        dnf = dnf.with_prob(1.0 - dnf.prob * 1e-9)
    return dnf


@pytest.mark.parametrize("seed", range(4))
def test_every_method_against_rationals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    by_hierarchy = 0
    for _ in range(150):
        dnf = odd_shapes(rng)
        truth = enumerate_fraction(dnf)
        log_truth, log_miss = precise_log(truth), precise_log(1 - truth)
        for method in METHODS:
            estimate = run(dnf, method)
            if method == "hierarchy":
                by_hierarchy += estimate.met
                if not estimate.met:
                    continue
            assert estimate.guarantee == "exact" and estimate.met
            assert close(estimate.log_prob, log_truth)
            assert close(estimate.log_complement, log_miss)
            assert inside(estimate.log_lower, log_truth, estimate.log_upper)
            assert inside(estimate.log_complement_lower, log_miss, estimate.log_complement_upper)
    assert by_hierarchy > 10


@settings(max_examples=150, deadline=None)
@given(dnfs(min_clauses=1, min_width=1, max_vars=8, max_clauses=14, probs=ANY_PROBS), st.sampled_from(METHODS))
def test_any_probabilities(dnf: DNF, method: str) -> None:
    estimate = run(dnf, method)
    if estimate.met:
        assert close(estimate.log_prob, enumerate_log_prob(dnf))
    else:
        assert method == "hierarchy" and estimate.log_lower <= enumerate_log_prob(dnf) + 1e-9


@pytest.mark.parametrize("method", [*(method for method in ALONE if method != "incidence"), "auto"])
def test_circuits_against_enumeration(method: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        dnf = odd_shapes(rng)
        circuit = compile_dnf(dnf, method=method)
        assert circuit is not None
        assert circuit.count() == enumerate_count(dnf)
        assert circuit.fraction([Fraction(float(p)) for p in dnf.prob]) == enumerate_fraction(dnf)
        other = np.linspace(0.05, 0.95, dnf.num_vars)
        assert circuit.evaluate(other) == pytest.approx([enumerate_log_prob(dnf.with_prob(other))], rel=1e-11)
        assert circuit.gradient(other)[1] == pytest.approx(enumerate_influence(dnf.with_prob(other)), abs=1e-12)


def chain_log_miss(prob: Any) -> float:
    """log P(no two neighbours true): the transfer matrix, rescaled at each step."""
    low, high, log_scale = 1.0 - prob[0], prob[0], 0.0
    for p in prob[1:]:
        low, high = (low + high) * (1.0 - p), low * p
        total = low + high
        low, high, log_scale = low / total, high / total, log_scale + math.log(total)
    return log_scale + math.log(low + high)


@pytest.mark.parametrize(("n", "p"), [(1_000, 0.3), (100_001, 0.3), (100_001, 1e-4), (20_001, 1e-90)])
def test_shuffled_chains_take_linear_time(n: int, p: float) -> None:
    prob = np.random.default_rng(n).uniform(0.5, 1.0, n) * p
    dnf = renamed([[i + 1, i + 2] for i in range(n - 1)], prob, n)
    estimate = run(dnf)
    assert estimate.met and estimate.info["operations"] <= 16 * n
    if p == 1e-90:
        assert estimate.log_prob == pytest.approx(math.log(math.fsum(prob[:-1] * prob[1:])), rel=1e-12)
    else:
        assert estimate.log_complement == pytest.approx(chain_log_miss(prob), rel=1e-9, abs=1e-10)


def grid(rows: int, cols: int) -> list[list[int]]:
    """Variables are nodes, clauses are the edges between neighbours."""
    node = np.arange(rows * cols).reshape(rows, cols) + 1
    down = zip(node[:-1].ravel(), node[1:].ravel(), strict=True)
    right = zip(node[:, :-1].ravel(), node[:, 1:].ravel(), strict=True)
    return [[int(a), int(b)] for a, b in itertools.chain(down, right)]


def grid_miss(rows: int, cols: int, prob: Any) -> float:
    """P(no two neighbours true) by summing over whole rows, one after the other."""
    rows_of = [r for r in range(1 << cols) if not r & (r >> 1)]
    state = {0: 1.0}
    for p in np.reshape(prob, (rows, cols)):
        weight = {r: math.prod(p[j] if r >> j & 1 else 1.0 - p[j] for j in range(cols)) for r in rows_of}
        state = {r: weight[r] * math.fsum(x for q, x in state.items() if not q & r) for r in rows_of}
    return math.fsum(state.values())


@pytest.mark.parametrize(("rows", "cols"), [(100, 3), (8, 8), (10, 6)])
@pytest.mark.parametrize("method", ["auto", "eliminate", "shannon-tree"])
def test_ladders_and_grids(rows: int, cols: int, method: str) -> None:
    prob = np.random.default_rng(rows).uniform(0.01, 0.2, rows * cols)
    estimate = run(renamed(grid(rows, cols), prob, 3), method)
    assert estimate.met
    assert estimate.log_complement == pytest.approx(math.log(grid_miss(rows, cols, prob)), rel=1e-10)


def lattice_paths(size: int) -> tuple[list[list[int]], dict[tuple[Any, Any], int]]:
    """Clauses are the paths of a directed grid from corner to corner; variables are its edges."""
    edges: dict[tuple[Any, Any], int] = {}
    paths: list[list[int]] = []

    def walk(i: int, j: int, path: list[int]) -> None:
        if i == j == size - 1:
            paths.append(path)
        for a, b in ((i + 1, j), (i, j + 1)):
            if a < size and b < size:
                walk(a, b, [*path, edges.setdefault(((i, j), (a, b)), len(edges) + 1)])

    walk(0, 0, [])
    return paths, edges


def reachable(size: int, edges: dict[tuple[Any, Any], int], prob: Any) -> float:
    """P(the far corner is reached), by the set of reached nodes of each diagonal."""
    state = {frozenset([(0, 0)]): 1.0}
    for step in range(2 * size - 2):
        out = [e for e in edges if sum(e[0]) == step]
        following: dict[frozenset[Any], float] = {}
        for reached, p in state.items():
            open_edges = [e for e in out if e[0] in reached]
            for works in itertools.product((False, True), repeat=len(open_edges)):
                chance = p * math.prod(
                    prob[edges[e] - 1] if up else 1.0 - prob[edges[e] - 1]
                    for e, up in zip(open_edges, works, strict=True)
                )
                ends = frozenset(e[1] for e, up in zip(open_edges, works, strict=True) if up)
                following[ends] = following.get(ends, 0.0) + chance
        state = following
    return state.get(frozenset([(size - 1, size - 1)]), 0.0)


def test_paths_are_solved_in_the_order_of_their_steps() -> None:
    paths, edges = lattice_paths(5)
    prob = np.random.default_rng(1).uniform(0.5, 0.95, len(edges))
    estimate = run(renamed(paths, prob, 2))
    assert estimate.prob == pytest.approx(reachable(5, edges, prob), rel=1e-11)
    paths, edges = lattice_paths(7)
    estimate = run(renamed(paths, np.full(len(edges), 0.8), 2))
    assert estimate.met and estimate.info["operations"] < 10_000_000  # 924 clauses of 12 literals


def test_joins_and_random_formulas_agree_between_methods() -> None:
    rng = np.random.default_rng(8)
    pairs = [(x, y) for x in range(12) for y in range(12) if rng.random() < 0.3]
    join = [[x + 1, 25 + i, 13 + y] for i, (x, y) in enumerate(pairs)]
    formulas = [
        renamed(join, rng.uniform(0.05, 0.9, 24 + len(pairs)), 1),
        random_dnf(rng, 40, 30, 3),
        random_dnf(rng, 30, 40, (2, 6)),
        random_dnf(rng, 26, 18, (6, 12), unate=True),
    ]
    for dnf in formulas:
        answers = [run(dnf, method).log_prob for method in ALONE]
        assert np.ptp(answers) <= 1e-10


def test_wide_clauses_that_elimination_cannot_take() -> None:
    wide = [list(range(1 + 20 * i, 61 + 20 * i)) for i in range(30)]
    dnf = DNF.from_clauses(wide, np.full(700, 0.99))
    assert elimination_operations(dnf) == math.inf
    assert run(dnf, "eliminate").met  # lifting merges what occurs together
    twisted = DNF.from_clauses([*wide, *[[i, -(i + 1)] for i in range(1, 700)]], np.full(700, 0.99))
    refused = run(twisted, "eliminate")
    assert not refused.met and refused.info["stopped"] == "too wide"
    assert refused.log_lower <= run(twisted).log_prob + 1e-9 <= refused.log_upper + 2e-9


def test_sifting_finds_an_order_for_cut_sets() -> None:
    """Of 2 of 3 pairs of groups a cut set each, shuffled: few operations in the sifted order, and the right number."""
    rng = np.random.default_rng(3)
    names = rng.permutation(36) + 1
    groups = names.reshape(6, 2, 3)
    parts = [[[int(a), int(b)] for a in g[0] for b in g[1]] for g in groups]
    clauses = [x + y for i in range(6) for j in range(i) for x in parts[i] for y in parts[j]]
    prob = rng.uniform(0.05, 0.5, 36)
    dnf = DNF.from_clauses([clauses[i] for i in rng.permutation(len(clauses))], prob)
    each = [np.prod([1.0 - np.prod(1.0 - prob[side - 1]) for side in g]) for g in groups]
    none = np.prod([1.0 - p for p in each])
    one = sum(p / (1.0 - p) for p in each) * none
    found = count(dnf, engine="exact", method="diagram-sifted", operations=200_000)
    assert found.met
    assert found.prob == pytest.approx(1.0 - none - one, rel=1e-12)


def test_lifting_makes_read_once_formulas_one_variable() -> None:
    clauses = [list(c) for c in itertools.product(range(1, 31), range(31, 61), [61, -62])]
    dnf = DNF.from_clauses(clauses, np.full(62, 0.03))
    side = 1 - 0.97**30
    estimate = run(dnf, "eliminate")
    assert estimate.prob == pytest.approx(side * side * (1 - 0.97 * 0.03), rel=1e-12)
    assert estimate.info["operations"] <= 4


def test_elimination_predicts_what_it_takes() -> None:
    dnf = renamed(grid(12, 12), np.full(144, 0.1), 5)
    predicted = elimination_operations(dnf, most=1e9)
    assert 2**12 < predicted < 4_000_000
    assert elimination_operations(dnf, most=predicted / 2) == math.inf
    assert run(dnf, "eliminate").info["operations"] == predicted


@pytest.mark.threads
def test_the_answer_does_not_depend_on_threads() -> None:
    rng = np.random.default_rng(4)
    dnf = random_dnf(rng, 90, 72, 3)
    answers = {run(dnf, "eliminate", threads=threads).log_prob for threads in (1, 2, 3)}
    assert len(answers) == 1


def hard(seed: int = 0) -> DNF:
    return random_dnf(np.random.default_rng(seed), 300, 400, (4, 9))


@pytest.mark.parametrize("method", [*ALONE, "auto"])
def test_operations_are_a_limit_and_bounds_hold(method: str) -> None:
    rng = np.random.default_rng(9)
    unsolved = 0
    for operations in (10, 200, 1_000, 5_000):
        for _ in range(6):
            dnf = random_dnf(rng, 18, 30, (2, 6))
            estimate = run(dnf, method, operations=operations)
            truth = enumerate_prob(dnf)
            assert estimate.certified_lower <= truth * (1 + 1e-9) and truth <= estimate.certified_upper * (1 + 1e-9)
            unsolved += not estimate.met
    assert unsolved > 0


@pytest.mark.speed
@pytest.mark.parametrize("method", [*ALONE, "auto"])
def test_time_limits_hold(method: str) -> None:
    start = time.monotonic()
    estimate = run(hard(), method, seconds=0.3)
    assert time.monotonic() - start < 3.0
    assert not estimate.met and estimate.guarantee == "bounds"
    assert estimate.log_lower <= estimate.log_prob <= estimate.log_upper <= 0.0
    assert run(hard(), method, seconds=0.0).guarantee == "bounds"


@pytest.mark.parametrize("method", ["shannon-tree", "shannon-kinds", "shannon-force"])
def test_the_memo_forgets_rather_than_grow(method: str) -> None:
    """With hardly any memory the memo keeps a few thousand subformulas and the answer stays right."""
    dnf = random_dnf(np.random.default_rng(2), 30, 26, (4, 7))
    roomy, tight = run(dnf, method), run(dnf, method, memory=1 << 17)
    assert roomy.met and tight.met
    assert tight.log_prob == pytest.approx(roomy.log_prob, rel=1e-11)
    assert tight.info["nodes"] > roomy.info["nodes"]


def test_memory_is_a_limit() -> None:
    estimate = run(hard(), memory=1 << 20, seconds=20.0)
    assert not estimate.met and estimate.guarantee == "bounds"
    assert compile_dnf(hard(), Limit(deadline=time.monotonic() + 20.0, memory=1 << 20), operations=1e7) is None


@pytest.mark.speed
@pytest.mark.parametrize("method", [*ALONE, "auto"])
def test_compiling_hears_its_deadline_and_its_memory(method: str) -> None:
    """A compilation that nothing bounds any more gives up at either limit, whichever method is at work."""
    started = time.monotonic()
    assert compile_dnf(hard(), Limit(deadline=started + 0.3), method=method) is None
    assert time.monotonic() - started < 5.0  # of a busy machine
    started = time.monotonic()
    assert compile_dnf(hard(), Limit(deadline=started + 60.0, memory=1 << 20), method=method) is None
    assert time.monotonic() - started < 50.0


def test_memory_is_an_argument_of_count() -> None:
    estimate = count(hard(), engine="exact", memory=1 << 20, timeout=20.0)
    assert not estimate.met and estimate.info["stopped"] == "memory limit"
    with pytest.raises(ValueError, match="memory"):
        count(hard(), memory=-1)


def test_compiled_results_are_small() -> None:
    paths, _ = lattice_paths(5)
    dnf = renamed(paths, np.full(40, 0.5), 3)
    sizes = {}
    for method in ("auto", "shannon-kinds", "dtree"):
        circuit = compile_dnf(dnf, method=method)
        assert circuit is not None
        sizes[method] = circuit.num_nodes
    assert sizes["auto"] <= min(sizes.values()) and 4 * sizes["auto"] < sizes["dtree"]


def test_count_takes_the_engine_and_its_options() -> None:
    dnf = renamed(grid(6, 6), np.full(36, 0.5), 1)
    estimate = count(dnf, engine="exact")
    assert estimate.guarantee == "exact" and isinstance(estimate.count, int)
    assert estimate.log_prob == pytest.approx(count(dnf, engine="exact", method="shannon-tree").log_prob, rel=1e-12)
    with pytest.raises(ValueError, match="method must be one of"):
        count(dnf, engine="exact", method="magic")
    with pytest.raises(ValueError, match="operations"):
        count(dnf, engine="exact", operations=-1)


def test_dtree_agrees_on_middling_formulas() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        dnf = random_dnf(rng, 24, int(rng.integers(10, 60)), (2, 7), unate=bool(rng.integers(2)))
        asked: dict[str, Any] = {"guarantee": "exact", "epsilon": 0.1, "delta": 0.05, "rng": rng, "limit": Limit()}
        assert run(dnf).log_prob == pytest.approx(dtree(dnf, **asked).log_prob, rel=1e-9)


def test_factors_against_enumeration() -> None:
    rng = np.random.default_rng(12)
    for _ in range(60):
        n = int(rng.integers(1, 8))
        scopes = [
            rng.permutation(n)[: int(rng.integers(0, min(n, 4) + 1))].tolist() for _ in range(int(rng.integers(1, 8)))
        ]
        tables = [rng.random(1 << len(scope)) * (rng.random(1 << len(scope)) < 0.8) for scope in scopes]
        weights = rng.random((n, 2)) * 3.0
        total = 0.0
        for values in itertools.product((0, 1), repeat=n):
            weight = math.prod(weights[v, 1 - x] for v, x in enumerate(values))
            for scope, table in zip(scopes, tables, strict=True):
                weight *= table[sum(values[v] << j for j, v in enumerate(scope))]
            total += weight
        answer = eliminate_factors(scopes, tables, weights)
        assert answer is not None
        assert math.exp(answer[0]) == pytest.approx(total, rel=1e-11)


def test_gates_as_factors() -> None:
    """The parity of 200 independent bits as a chain of exclusive ors: P = (1 - prod(1 - 2 p)) / 2."""
    prob = np.random.default_rng(3).uniform(0.0, 0.02, 200)
    exclusive = [float((e >> 2) == ((e & 1) ^ (e >> 1 & 1))) for e in range(8)]  # inputs are bits 0 and 1
    scopes = [[0, 1, 200]] + [[i, 198 + i, 199 + i] for i in range(2, 200)]
    weights = np.ones((399, 2))
    weights[:200] = np.stack([prob, 1.0 - prob], axis=1)
    answer = eliminate_factors([*scopes, [398]], [exclusive] * 199 + [[0.0, 1.0]], weights)
    assert answer is not None
    assert math.exp(answer[0]) == pytest.approx((1.0 - np.prod(1.0 - 2.0 * prob)) / 2.0, rel=1e-11)
    assert answer[1] < 20_000


@pytest.mark.parametrize("bad", ["twice", "unknown", "short", "negative"])
def test_factors_are_checked(bad: str) -> None:
    scopes = [[0, 0]] if bad == "twice" else [[0, 5]] if bad == "unknown" else [[0, 1]]
    table = [1.0, 0.5] if bad == "short" else [1.0, -0.5 if bad == "negative" else 0.5, 0.0, 1.0]
    with pytest.raises(ValueError, match=r"factor|tables|entries"):
        eliminate_factors(scopes, [table], np.ones((2, 2)))
