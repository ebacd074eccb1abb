"""Counting on Spark's executors: the rows of one partition, sorted by answer, become formulas and probabilities.

An answer's draws depend on the seed and on its number among all answers, as in ``count_many``. The numbers are given in
the order of the answers: a first pass (``survey``) tells how many answers each partition has, so a second one
(``Work.count``) knows the number of its first. How the rows are cut into partitions, which executor has one and how
often it is tried again change no number.

Memory is that of one chunk or of the largest answer, not of a partition: answers are counted as soon as some of them
are complete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.sql.absorbed import LEAST, without_superfluous
from sharpdnf.sql.backends.protocol import LineageRows, Shape
from sharpdnf.sql.backends.spark_rows import lineage_rows, new_answers
from sharpdnf.sql.counting import Options, count_batch
from sharpdnf.sql.emit.circuit_batch import AnyFormulas, Circuits, Countable, formulas_of
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.evidence import conditioned

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast

CHUNK = 1 << 20
"""How many rows are gathered before the answers among them that are complete are counted."""


class TooLarge(Exception):
    """An answer has more clauses than the limit; ``answer`` is its values as text."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        super().__init__(answer)


def whole_answers(batches: Iterator[pa.RecordBatch], shown: list[str], most: int) -> Iterator[pa.Table]:
    """The rows of a partition in pieces of whole answers, each of about CHUNK rows; TooLarge if an answer has more
    than ``most``."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows, wanted = 0, CHUNK
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows < wanted:
            continue
        table = pa.Table.from_batches(held)
        last = int(np.flatnonzero(new_answers(table, shown))[-1])
        _check_sizes(table, shown, most)
        if last:
            yield table.slice(0, last)
        held = table.slice(last).to_batches()
        rows -= last
        wanted = max(CHUNK, min(2 * rows, most + 1))
    if rows:
        table = pa.Table.from_batches(held)
        _check_sizes(table, shown, most)
        yield table


def _check_sizes(table: pa.Table, shown: list[str], most: int) -> None:
    starts = np.flatnonzero(new_answers(table, shown))
    sizes = np.diff(np.append(starts, len(table)))
    if len(sizes) and sizes.max() > most:
        row = table.select(shown).slice(int(starts[sizes.argmax()]), 1).to_pylist()[0]
        raise TooLarge(", ".join(str(value) for value in row.values()))


@dataclass(frozen=True)
class Work:
    """What the executors need to know. It is sent to each of them."""

    shape: Shape
    known: Broadcast[Rows]
    """Probability and block of every uncertain row, which each worker has a copy of."""
    options: Options
    """Its deadline is left out: ``ends`` says the time, on the clock that machines share."""
    ends: float | None
    most: int
    events: Broadcast[tuple[Events, IntArray | None]] | None = None
    """What the numbers in lineage columns stand for if not for rows, and what must hold by the evidence, if any."""
    least: int = LEAST
    """Clauses of an answer from which on superfluous ones are dropped before they are moved."""
    firsts: tuple[int, ...] = ()
    """The number of the first answer of each partition."""
    wanted: int | None = None
    """The number of the one answer whose clauses are asked for."""

    def _formulas(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[LineageRows, AnyFormulas]]:
        known = self.known.value
        events = None if self.events is None else self.events.value[0]
        for table in whole_answers(batches, self.shape.names()[0], self.most):
            found = lineage_rows(table, self.shape)
            yield found, formulas_of(found, None if events is None else events.branch(), known)

    def _countable(self, formulas: AnyFormulas) -> Countable:
        """The formulas, under the evidence if there is any."""
        parts = None if self.events is None else self.events.value[1]
        if parts is None:
            return formulas.batch
        batch = formulas.batch
        assert isinstance(batch, Circuits), "evidence comes with events"
        return conditioned(batch.gates, batch.outputs, parts, batch.rows)

    def lightened(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a partition before they are moved, without clauses that others of the answer make superfluous."""
        shown, _, lineage, _ = self.shape.names()
        return without_superfluous(batches, shown, lineage, CHUNK, self.least)

    def survey(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row: the partition, how many answers it has, and the answer that is too large or NULL."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs on an executor"
        answers, large = 0, None
        try:
            for _, formulas in self._formulas(batches):
                answers += len(formulas.possible)
        except TooLarge as error:
            large = error.answer
        yield pa.record_batch({"part": [context.partitionId()], "answers": [answers],
                               "large": pa.array([large], type=pa.string())})  # fmt: skip

    def _numbered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[LineageRows, AnyFormulas, IntArray]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs on an executor"
        part = context.partitionId()
        first = self.firsts[part]
        for found, formulas in self._formulas(batches):
            yield found, formulas, first + np.arange(len(formulas.possible))
            first += len(formulas.possible)
        if first != self.firsts[part + 1]:  # numbers would belong to other answers
            raise RuntimeError(f"partition {part} has {first - self.firsts[part]} answers now, and had another number")

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers of a partition: their columns, number, probability and bounds."""
        import pyarrow as pa

        for found, formulas, numbers in self._numbered(batches):
            left = None if self.ends is None else time.monotonic() + max(0.0, self.ends - time.time())
            counts = count_batch(
                self._countable(formulas), self.options.replace(numbers=numbers, deadline=left, threads=1)
            )
            answers = found.answers.take(formulas.possible).combine_chunks()
            columns = [column.combine_chunks() for column in answers.columns]
            columns += [pa.array(numbers), pa.array(counts.prob), pa.array(counts.lower), pa.array(counts.upper)]
            columns += [pa.array(words.tolist(), type=pa.string()) for words in (counts.guarantee, counts.engine)]
            columns += [pa.array(formulas.num_clauses), pa.array(counts.met)]
            yield pa.RecordBatch.from_arrays(columns, names=[*answers.column_names, *RESULT])

    def clauses(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The uncertain rows of each clause of the answer that is wanted."""
        import pyarrow as pa

        for found, formulas, numbers in self._numbered(batches):
            for place in np.flatnonzero(numbers == self.wanted):
                answer = formulas.possible[place]
                mine = found.clauses.take(np.arange(found.indptr[answer], found.indptr[answer + 1]))
                yield pa.record_batch({"rows": pa.ListArray.from_arrays(mine.indptr.astype(np.int32),
                                                                        pa.array(mine.literals >> 1))})  # fmt: skip


RESULT = ("_number", "prob", "lower", "upper", "guarantee", "engine", "num_clauses", "_met")
"""The columns that follow those of an answer."""
