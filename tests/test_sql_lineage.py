"""From rows of lineage to clauses: the kernels against numpy."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.sql.lineage import Rows, build


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 60), st.integers(0, 3), st.sampled_from([2, 5, 2**20, 2**40, 2**63 - 1]), st.randoms())
def test_sorting_is_stable_and_puts_nulls_last(rows: int, columns: int, size: int, random: object) -> None:
    rng = np.random.default_rng(random.randint(0, 2**32))  # type: ignore[attr-defined]
    keys = [rng.integers(-size, size, rows, endpoint=True) for _ in range(columns)]
    if size < 2**30 and columns:
        keys[0] = keys[0].astype(np.int32)
    nulls = [(rng.random(rows) < 0.3).astype(np.uint8) if rng.random() < 0.5 else np.zeros(0, np.uint8) for _ in keys]
    for values_of_key, null in zip(keys, nulls, strict=True):
        values_of_key[: len(null)][null == 1] = 0
    values = [rng.integers(0, 9, rows).astype(np.int32) for _ in range(2)]
    flat, starts, first, order = _native.sort_lineage(keys, nulls, values, rows, 0, True)
    unordered = _native.sort_lineage(keys, nulls, values, rows, 0, False)
    assert [part.tolist() for part in unordered] == [flat.tolist(), starts.tolist(), first.tolist(), []]

    def key(row: int) -> tuple[tuple[bool, int], ...]:
        empty = [len(null) > 0 and bool(null[row]) for null in nulls]
        return tuple((e, 0 if e else int(k[row])) for e, k in zip(empty, keys, strict=True))

    expected = sorted(range(rows), key=key)
    assert order.tolist() == expected
    new = [i for i in range(rows) if i == 0 or key(expected[i]) != key(expected[i - 1])]
    assert starts.tolist() == [*new, rows]
    assert first.tolist() == [expected[i] for i in new]
    assert flat.reshape(rows, 2).tolist() == [[int(v[row]) for v in values] for row in expected]
    for width in (2, 3):
        columns = [rng.integers(-1, 9, rows).astype(np.int32) for _ in range(width)]
        sorted_rows = _native.sort_lineage(keys, nulls, [*columns, values[0]], rows, width, False)[0]
        wanted = [[*sorted(int(v[row]) for v in columns), int(values[0][row])] for row in expected]
        assert sorted_rows.reshape(rows, width + 1).tolist() == wanted
    both = _native.sort_lineage(keys, nulls, values, rows, 2, False)[0]
    assert both.reshape(rows, 2).tolist() == [sorted(int(v[row]) for v in values) for row in expected]


@pytest.mark.parametrize("width", [0, 1, 2, 3])
@pytest.mark.parametrize("num_rows", [40, 400])
def test_clauses_are_those_of_the_rows(width: int, num_rows: int) -> None:
    rng = np.random.default_rng(width)
    rows = rng.integers(-1, 30, (200, width)).astype(np.int32)
    known = Rows(rng.random(num_rows), np.full(num_rows, -1))
    found = build(rows, np.array([0, 50, 50, 200]), known)
    assert found.possible.tolist() == [0, 2] and found.num_clauses.tolist() == [50, 150]
    variables = np.arange(40) if num_rows == 40 else np.unique(rows[rows >= 0])  # all rows, unless they are many
    assert found.row_of_var.tolist() == variables.tolist()
    for places in (np.sort(rows, axis=1), np.sort(rows + np.arange(1, width + 1, dtype=np.int32), axis=1)):  # plain too
        again = build(places, np.array([0, 200]), Rows(known.prob, known.block)).batch.dnf
        numbered = np.arange(num_rows) if num_rows == 40 else np.unique(places[places >= 0])
        literal = [[int(np.searchsorted(numbered, r)) + 1 for r in row if r >= 0] for row in places]
        assert again == DNF.from_clauses(literal, known.prob[numbered] if len(numbered) else None)
    clauses = [[int(np.searchsorted(variables, r)) + 1 for r in row if r >= 0] for row in rows]
    assert found.batch.dnf == DNF.from_clauses(clauses, known.prob[variables] if len(variables) else None)


def test_wrong_arrays_are_refused() -> None:
    three = np.zeros(3, dtype=np.int32)
    with pytest.raises(ValueError, match="beyond"):
        _native.lineage_clauses(three + 7, 3, 1, 7)
    with pytest.raises(ValueError, match="one entry"):
        _native.lineage_clauses(three, 2, 1, 7)
    with pytest.raises(ValueError, match="one entry"):
        _native.sort_lineage([three[:2]], [np.zeros(0, np.uint8)], [], 3, 0, False)
    with pytest.raises(ValueError, match="64 or 32"):
        _native.sort_lineage([three.astype(np.float32)], [np.zeros(0, np.uint8)], [], 3, 0, False)


def test_sorting_stops_wherever_it_is() -> None:
    """An interrupt in any pass leaves every row in reach: it is raised, and nothing is read that was not written."""

    def ring(*_: object) -> None:
        raise TimeoutError

    rng = np.random.default_rng(1)
    rows = 1_000_000
    near, far = rng.integers(0, rows, rows), rng.integers(0, 2**60, rows)
    values = [rng.integers(0, 9, rows).astype(np.int32)] * 2
    whole = np.zeros(0, np.uint8)
    before = signal.signal(signal.SIGALRM, ring)
    stopped = 0
    try:
        for keys in ([near], [far], [near, far]):
            for seconds in np.linspace(0.001, 0.2, 8):
                try:
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    _native.sort_lineage(keys, [whole] * len(keys), values, rows, 2, False)
                    signal.setitimer(signal.ITIMER_REAL, 0.0)
                    time.sleep(0.0)  # one that rang just now is heard here
                except TimeoutError:
                    stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert stopped > 5
