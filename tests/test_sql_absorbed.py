"""Superfluous clauses against the definition, clause by clause."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sharpdnf.sql.absorbed import needed, without_superfluous


def test_a_clause_is_dropped_for_one_that_it_contains_or_repeats() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        size, columns = rng.integers(1, 30), rng.integers(1, 5)
        answer, rows = rng.integers(0, 3, size), rng.integers(-1, 5, (size, columns))
        keep = needed(answer, rows.copy())
        clauses = [frozenset(row[row >= 0].tolist()) for row in rows]
        for a in range(3):
            every = {clause for clause, b in zip(clauses, answer, strict=True) if a == b}
            kept = [clause for clause, b, k in zip(clauses, answer, keep, strict=True) if a == b and k]
            assert len(kept) == len(set(kept))
            assert all(any(other <= clause for other in kept) for clause in every), "the disjunction is the same"
            short = [clause for clause in every if len(clause) <= 2]
            assert not any(other < clause for other in short for clause in kept)


def test_small_answers_and_answers_that_look_alike_stay() -> None:
    table = pa.table({"_c0": [1.0, 1.0, None, None, 2.0], "_c1": ["x", "x", "x", None, "x"],
                      "_l0": pa.array([5, 5, 5, 5, 5], pa.int32())})  # fmt: skip
    asked = {"shown": ["_c0", "_c1"], "lineage": ["_l0"], "chunk": 3}
    few = pa.Table.from_batches(list(without_superfluous(iter(table.to_batches()), least=3, **asked)))
    assert few.num_rows == 5, "no answer has three rows"
    less = pa.Table.from_batches(list(without_superfluous(iter(table.to_batches()), least=2, **asked)))
    assert less.to_pydict() == table.take([0, 2, 3, 4]).to_pydict()
