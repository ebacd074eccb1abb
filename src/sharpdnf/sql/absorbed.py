"""Clauses that others of the same answer make superfluous, found before the lineage is moved to where it is counted.

An answer that has most of the clauses goes to one executor, whatever the number of executors. Joins with certain tables
and DISTINCT make it large by repetition: the same uncertain rows again and again, or a clause that contains a shorter
one. Both change nothing in a disjunction, so each executor drops those among its own rows first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import IntArray
from sharpdnf.sql.backends.columns import filled

if TYPE_CHECKING:
    import pyarrow as pa

LEAST = 4096
"""Rows of one answer in a chunk from which on they are looked at: a smaller answer is counted as it is."""


def without_superfluous(
    batches: Iterator[pa.RecordBatch], shown: list[str], lineage: list[str], chunk: int, least: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition without superfluous ones, looked at ``chunk`` rows at a time, in any order."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= chunk:
            yield from _kept(pa.Table.from_batches(held), shown, lineage, least).to_batches()
            held, rows = [], 0
    if rows:
        yield from _kept(pa.Table.from_batches(held), shown, lineage, least).to_batches()


def _kept(table: pa.Table, shown: list[str], lineage: list[str], least: int) -> pa.Table:
    import pyarrow as pa

    answer = _answers(table, shown)
    large = np.flatnonzero((np.bincount(answer) >= least)[answer])
    if not len(large) or not lineage:
        return table
    rows = np.column_stack([filled(table.column(name))[large] for name in lineage]).astype(np.int64)
    keep = np.ones(len(table), dtype=bool)
    keep[large] = needed(answer[large], rows)
    return table.filter(pa.array(keep))


def _answers(table: pa.Table, shown: list[str]) -> IntArray:
    """A number for each row, equal only where the answers are: what is taken for different is merely kept."""
    answer = np.zeros(len(table), dtype=np.int64)
    for name in shown:
        coded = table.column(name).combine_chunks().dictionary_encode()
        code = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False).astype(np.int64)
        _, answer = np.unique(answer * (len(coded.dictionary) + 1) + code, return_inverse=True)
        answer = answer.reshape(-1)
    return answer


def needed(answer: IntArray, rows: IntArray) -> npt.NDArray[np.bool_]:
    """bool[clauses]: False for a clause that is there before, or that contains a clause of one or two rows.

    ``rows`` is int64[clauses, columns], with -1 where there is no row.
    """
    rows = np.sort(rows, axis=1)
    rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = -1  # a row that is named twice
    rows = np.sort(rows, axis=1)
    order = np.lexsort([*rows.T, answer])
    key = np.column_stack([answer, rows])[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (key[1:] != key[:-1]).any(axis=1)
    keep = np.zeros(len(order), dtype=bool)
    keep[order[new]] = True
    width = (rows >= 0).sum(axis=1)
    scale = int(rows.max(initial=0)) + 1
    columns = rows.shape[1]
    alone = np.unique((answer * scale + rows[:, -1])[keep & (width == 1)])
    for i in range(columns):
        keep &= (width <= 1) | (rows[:, i] < 0) | ~np.isin(answer * scale + rows[:, i], alone)
    if columns > 2:
        pairs = keep & (width == 2)
        known = {tuple(entry) for entry in np.column_stack([answer, rows[:, -2:]])[pairs].tolist()}
        for place in np.flatnonzero(keep & (width > 2)).tolist():
            members = rows[place][rows[place] >= 0].tolist()
            whose = int(answer[place])
            keep[place] = not any((whose, a, b) in known for i, a in enumerate(members) for b in members[i + 1 :])
    empty = np.unique(answer[keep & (width == 0)])
    found: npt.NDArray[np.bool_] = keep & ((width == 0) | ~np.isin(answer, empty))
    return found
