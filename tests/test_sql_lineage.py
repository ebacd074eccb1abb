"""From rows of lineage to clauses: the kernels against numpy."""

from __future__ import annotations

import itertools
import signal
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_worlds import clauses_of

import sharpdnf
from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.errors import UncertainTableError
from sharpdnf.sql.emit.lineage import Rows, build

pytestmark = pytest.mark.native

NO_NULL = np.zeros(0, np.uint8)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 60), st.integers(0, 3), st.sampled_from([2, 5, 2**20, 2**40, 2**63 - 1]), st.randoms())
def test_rows_become_clauses_in_the_order_of_their_keys(rows: int, columns: int, size: int, random: object) -> None:
    """A stable sort with NULLs last; a clause without the numbers below 0 and without repeats."""
    rng = np.random.default_rng(random.randint(0, 2**32))  # type: ignore[attr-defined]
    keys = [rng.integers(-size, size, rows, endpoint=True) for _ in range(columns)]
    if size < 2**30 and columns:
        keys[0] = keys[0].astype(np.int32)
    nulls = [(rng.random(rows) < 0.3).astype(np.uint8) if rng.random() < 0.5 else NO_NULL for _ in keys]
    for values_of_key, null in zip(keys, nulls, strict=True):
        values_of_key[: len(null)][null == 1] = 0

    def key(row: int) -> tuple[tuple[bool, int], ...]:
        empty = [len(null) > 0 and bool(null[row]) for null in nulls]
        return tuple((e, 0 if e else int(k[row])) for e, k in zip(empty, keys, strict=True))

    expected = sorted(range(rows), key=key)
    new = [i for i in range(rows) if i == 0 or key(expected[i]) != key(expected[i - 1])]
    identity = [rng.integers(0, 9, rows).astype(np.int32) for _ in range(2)]
    for width in range(4):
        least = -1 if rng.random() < 0.5 else 0
        numbers = [rng.integers(least, 9, rows).astype(np.int32) + 9 * i * (1 + least) for i in range(width)]
        found = _native.lineage(keys, nulls, numbers, identity, rows, True)
        assert found.order.tolist() == expected
        assert found.starts.tolist() == [*new, rows]
        assert found.first.tolist() == [expected[i] for i in new]
        assert found.identity.reshape(rows, 2).tolist() == [[int(v[row]) for v in identity] for row in expected]
        wanted = [sorted({2 * int(v[row]) for v in numbers if v[row] >= 0}) for row in expected]
        assert [found.literals[a:b].tolist() for a, b in itertools.pairwise(found.indptr)] == wanted
        unordered = _native.lineage(keys, nulls, numbers, identity, rows, False)
        assert len(unordered.order) == 0
        for name in ("indptr", "literals", "identity", "starts", "first"):
            assert getattr(unordered, name).tolist() == getattr(found, name).tolist()


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_few_repeats_among_many_clauses(width: int) -> None:
    """Clauses are moved together by blocks, those of a block at once if none has a gap."""
    rng = np.random.default_rng(width)
    rows = 300_000
    numbers = [rng.integers(i * 1000, i * 1000 + 999, rows).astype(np.int32) for i in range(width)]
    odd = np.array([70_000, 70_001, 200_000])
    numbers[-1][odd] = [-1, numbers[0][70_001], numbers[0][200_000]]
    found = _native.lineage([np.arange(rows)], [NO_NULL], numbers, [], rows, False)
    indptr, literals = found.indptr, found.literals
    plain = np.sort(np.column_stack(numbers), axis=1)
    for clause in [0, 69_999, *odd, 70_002, 140_000, 200_001, rows - 1]:
        wanted = np.unique(plain[clause][plain[clause] >= 0])
        assert literals[indptr[clause] : indptr[clause + 1]].tolist() == (2 * wanted).tolist()
    kept = np.ones((rows, width), dtype=bool)
    kept[odd, 0] = False
    kept[odd[1:], 0] = width == 1
    assert np.array_equal(literals, 2 * plain[kept])


@pytest.mark.parametrize("num_rows", [40, 400])
def test_variables_are_all_rows_or_those_that_occur(num_rows: int) -> None:
    rng = np.random.default_rng(1)
    rows = [rng.choice(40, rng.integers(0, 4), replace=False).tolist() for _ in range(200)]
    known = Rows(rng.random(num_rows), np.full(num_rows, -1))
    found = build(clauses_of(rows), np.array([0, 50, 50, 200]), known)
    assert found.possible.tolist() == [0, 2] and found.num_clauses.tolist() == [50, 150]
    variables = list(range(40)) if num_rows == 40 else sorted({row for clause in rows for row in clause})
    assert found.row_of_var.tolist() == variables
    clauses = [[variables.index(row) + 1 for row in clause] for clause in rows]
    assert found.batch.dnf == DNF.from_clauses(clauses, known.prob[variables])


def test_wrong_arrays_are_refused() -> None:
    three = np.zeros(3, dtype=np.int32)
    with pytest.raises(ValueError, match="beyond"):
        build(clauses_of([[0], [7]]), np.array([0, 2]), Rows(np.full(7, 0.5), np.full(7, -1)))
    for numbers, identity in ([three[:2]], []), ([], [three[:2]]):
        with pytest.raises(ValueError, match="one entry"):
            _native.lineage([three], [NO_NULL], numbers, identity, 3, False)
    with pytest.raises(ValueError, match="one entry"):
        _native.lineage([three[:2]], [NO_NULL], [], [], 3, False)
    with pytest.raises(ValueError, match="64 or 32"):
        _native.lineage([three.astype(np.float32)], [NO_NULL], [], [], 3, False)


@pytest.mark.speed
def test_sorting_stops_wherever_it_is() -> None:
    """An interrupt in any pass leaves every row in reach: it is raised, and nothing is read that was not written."""

    def ring(*_: object) -> None:
        raise TimeoutError

    rng = np.random.default_rng(1)
    rows = 1_000_000
    near, far = rng.integers(0, rows, rows), rng.integers(0, 2**60, rows)
    values = [rng.integers(0, 9, rows).astype(np.int32)] * 2
    before = signal.signal(signal.SIGALRM, ring)
    stopped = 0
    try:
        for keys in ([near], [far], [near, far]):
            for seconds in np.linspace(0.001, 0.2, 8):
                try:
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    _native.lineage(keys, [NO_NULL] * len(keys), values, [], rows, False)
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
                    time.sleep(0.0)  # one that rang just now is heard here
                except TimeoutError:
                    stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert stopped > 5


@pytest.mark.speed
def test_more_rows_than_literals_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    monkeypatch.setattr("sharpdnf.sql.uncertain.MOST_ROWS", 3)
    db = sharpdnf.connect()
    db.register("a", pa.table({"p": [0.5, 0.5]}), prob="p")
    with pytest.raises(UncertainTableError, match="b there are 3 uncertain rows or more"):
        db.register("b", pa.table({"p": [0.5]}), prob="p")
