"""Blocks of exclusive rows: the variables that stand for them have the block's distribution."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracle import enumerate_prob
from sql_worlds import clauses_of

import sharpdnf
from sharpdnf.errors import UncertainTableError
from sharpdnf.sql.emit.blocks import encode
from sharpdnf.sql.emit.lineage import Rows, build, select
from sharpdnf.sql.explain import influences


def one_block(prob: list[float]) -> Rows:
    return Rows(np.array(prob), np.zeros(len(prob), dtype=np.int64))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 10, 13])
def test_each_row_has_its_probability_and_two_exclude_each_other(size: int) -> None:
    prob = np.random.default_rng(size).dirichlet(np.ones(size + 1))[:size]
    known = one_block(prob.tolist())
    singles = [[row] for row in range(size)]
    for row in range(size):  # the whole block is in use, one row is asked for
        formulas = build(clauses_of([*singles, [row]]), np.array([0, size, size + 1]), known)
        assert enumerate_prob(formulas.batch[1]) == pytest.approx(prob[row], abs=1e-12)
        assert enumerate_prob(formulas.batch[0]) == pytest.approx(prob.sum(), abs=1e-12)
    subset = build(clauses_of(singles[::2]), np.array([0, len(singles[::2])]), known)
    assert enumerate_prob(subset.batch[0]) == pytest.approx(prob[::2].sum(), abs=1e-12)
    if size > 1:
        assert len(build(clauses_of([[0, 1]]), np.array([0, 1]), known).batch) == 0


def test_clauses_stay_short() -> None:
    """Above 8 rows a row is 1 + log2(k) literals; a chain would be k."""
    size = 1000
    code = encode(np.zeros(size, np.int64), np.zeros(size, np.int64), np.full(size, 1 / size))
    assert np.diff(code.indptr).max() == 11
    assert np.diff(encode(np.zeros(8, np.int64), np.zeros(8, np.int64), np.full(8, 0.1)).indptr).tolist() == [
        *range(1, 9)
    ]


def test_blocks_that_fill_up_to_one_by_rounding() -> None:
    known = one_block([0.1] * 10)
    formulas = build(clauses_of([[row] for row in range(10)]), np.array([0, 10]), known)
    assert formulas.batch.dnf.prob.max() <= 1.0
    assert enumerate_prob(formulas.batch[0]) == pytest.approx(1.0, abs=1e-12)


def test_mixed_with_independent_rows() -> None:
    """(a and row1) or (b and row2), rows 1 and 2 exclusive: the two ways exclude each other too."""
    known = Rows(np.array([0.5, 0.25, 0.3, 0.6]), np.array([-1, -1, 0, 0]))
    formulas = build(clauses_of([[0, 2], [1, 3], [3]]), np.array([0, 2, 3]), known)
    assert enumerate_prob(formulas.batch[0]) == pytest.approx(0.5 * 0.3 + 0.25 * 0.6)
    assert enumerate_prob(formulas.batch[1]) == pytest.approx(0.6)
    assert enumerate_prob(select(formulas.batch, np.array([1]))[0]) == pytest.approx(0.6)


def test_a_block_above_one_is_named() -> None:
    db = sharpdnf.connect()
    frame = pa.table({"k": ["x", "y", "y"], "v": [1, 2, 3], "p": [0.9, 0.6, 0.5]})
    with pytest.raises(UncertainTableError, match=r"k=y.*1\.1"):
        db.register("r", frame, prob="p", block="k")


@pytest.mark.parametrize("bad", [None, float("nan"), -0.1, 1.5])
def test_a_bad_probability_names_its_row(bad: float | None) -> None:
    db = sharpdnf.connect()
    frame = pa.table({"name": ["good", "culprit"], "p": pa.array([0.5, bad], type=pa.float64())})
    with pytest.raises(UncertainTableError, match="culprit"):
        db.register("r", frame, prob="p")


def influences_one_by_one(clauses: list[list[int]], known: Rows) -> dict[int, float]:
    """P(F | row) - P(F | no row) by a count of its own for each row: the row there, the others of its block not."""

    def prob(p: np.ndarray) -> float:
        return enumerate_prob(build(clauses_of(clauses), np.array([0, len(clauses)]), Rows(p, known.block)).batch[0])

    found = {}
    named = {row for clause in clauses for row in clause}
    blocks = {int(known.block[row]) for row in named} - {-1}
    for row in named | set(np.flatnonzero(np.isin(known.block, list(blocks))).tolist()):  # and what excludes them
        same = known.block == known.block[row] if known.block[row] >= 0 else np.zeros(len(known.prob), dtype=bool)
        given, without = known.prob.copy(), known.prob.copy()
        given[same], given[row] = 0.0, 1.0
        rest = 1.0 - known.prob[row]
        without[same] = known.prob[same] / rest if rest > 0 else 0.0  # the others share what the row leaves
        without[row] = 0.0
        found[row] = prob(given) - prob(without)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_all_influences_at_once_are_those_one_by_one(seed: int) -> None:
    """Chains and trees of choices, independent rows, certain rows, clauses that use a block twice."""
    rng = np.random.default_rng(seed)
    size = [3, 5, 9][seed % 3]  # a tree of choices above 8
    shares = rng.dirichlet(np.ones(size + 1))[:size]
    if seed % 4 == 0:
        shares = np.eye(size)[0]  # one row of the block is certain
    prob = np.concatenate([shares, rng.uniform(0.1, 0.9, 3), [1.0]])
    known = Rows(prob, np.array([0] * size + [-1] * 4))
    pairs = zip(rng.integers(-1, size, 8).tolist(), (size + rng.integers(0, 4, 8)).tolist(), strict=True)
    clauses = [[0, 1], *([a, b] if a >= 0 else [b] for a, b in pairs)]  # the first needs two rows of one block
    rows, found = influences(clauses_of(clauses), known)
    assert found.exact
    assert dict(zip(rows.tolist(), found.tolist(), strict=True)) == pytest.approx(
        influences_one_by_one(clauses, known), abs=1e-9
    )


@pytest.mark.parametrize("seed", range(12))
def test_sampled_influences_of_rows_keep_their_intervals(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lineage does not compile: no row is off by more than was promised, whether in a block or not."""
    monkeypatch.setattr("sharpdnf.sql.explain.compile_within", lambda *_: None)
    rng = np.random.default_rng(seed)
    size = [3, 5, 9][seed % 3]
    shares = rng.dirichlet(np.ones(size + 1))[:size]
    if seed % 4 == 0:
        shares = np.eye(size)[0]
    known = Rows(np.concatenate([shares, rng.uniform(0.1, 0.9, 3), [1.0]]), np.array([0] * size + [-1] * 4))
    pairs = zip(rng.integers(-1, size, 8).tolist(), (size + rng.integers(0, 4, 8)).tolist(), strict=True)
    clauses = [[0, 1], *([a, b] if a >= 0 else [b] for a, b in pairs)]
    rows, found = influences(clauses_of(clauses), known, rng=1, delta=1e-6)
    truth = influences_one_by_one(clauses, known)
    expected = np.array([truth[row] for row in rows.tolist()])
    assert not found.exact and found.met
    assert np.all((found.lower <= expected + 1e-9) & (expected <= found.upper + 1e-9))
    assert found == pytest.approx(expected, abs=0.06)


def test_the_alternative_that_excludes_an_answer() -> None:
    db = sharpdnf.connect()
    db.register("t", pa.table({"k": [1, 1, 2], "v": [1, 2, 1], "p": [0.9, 0.1, 0.5]}), prob="p", block="k")
    reasons = {reason.row: reason.influence for reason in db.sql("SELECT k FROM t WHERE v = 2").explain(0)}
    assert reasons == pytest.approx({"t(k=1, v=1)": -1.0, "t(k=1, v=2)": 1.0})
