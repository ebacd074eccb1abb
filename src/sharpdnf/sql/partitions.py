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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.sql.absorbed import LEAST, without_superfluous
from sharpdnf.sql.backends.protocol import LineageRows, Shape
from sharpdnf.sql.backends.spark_rows import lineage_rows, new_answers
from sharpdnf.sql.counting import Counts, Options, count_batch, empty
from sharpdnf.sql.emit.circuit_batch import AnyFormulas, Circuits, Countable, formulas_of, some
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.evidence import conditioned
from sharpdnf.sql.expected import Expected, Several, expected_values, several_reasons
from sharpdnf.sql.outermost import Cut
from sharpdnf.sql.topk import decide, uncounted, verdict

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
    wanted: IntArray | None = None
    """The numbers of the answers whose clauses are asked for."""
    cuts: tuple[Cut, ...] = ()
    """HAVING prob(): only the answers that pass are wanted, and counted as far as that needs."""
    descending: bool = True
    """Whether the most probable answers are the best."""
    expected: tuple[tuple[int, str, int | None], ...] = ()
    """The expected values of each answer that are wanted, too."""
    several: tuple[Several, ...] = ()
    """For each partition: what expected values must know of the lineage before it."""
    chosen: Broadcast[tuple[IntArray, Counts | None]] | None = None
    """The numbers of the answers that alone are wanted, in order, and their counts if they are known."""

    def only(self, session: Any, numbers: IntArray, counts: Counts | None = None) -> Work:
        """The same for these answers alone."""
        return replace(self, chosen=session.sparkContext.broadcast((numbers, counts)))

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
        """One row: the partition, how many answers it has, the answer that is too large or NULL, and what expected
        values must know."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs on an executor"
        answers, large, several = 0, None, Several(0, 1)
        try:
            for found, formulas in self._formulas(batches):
                answers += len(formulas.possible)
                if self.expected:
                    more = several_reasons(found, self.known.value, self.options)
                    several = Several(several.possible + more.possible, max(several.most, more.most))
        except TooLarge as error:
            large = error.answer
        yield pa.record_batch({"part": [context.partitionId()], "answers": [answers],
                               "large": pa.array([large], type=pa.string()),
                               "several": [several.possible], "most": [several.most]})  # fmt: skip

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

    def named(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers of a partition, uncounted: their columns and numbers."""
        for found, formulas, numbers in self._numbered(batches):
            yield record(found.answers.take(formulas.possible), {"_number": numbers})

    def bounds(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is known of each answer before it is counted, for those that HAVING does not leave out for sure.

        ``sure`` is how good the answer is at least, if it surely passes HAVING, and ``may`` how good it can be.
        """
        import pyarrow as pa

        for _, formulas, numbers in self._numbered(batches):
            counts = uncounted(self._countable(formulas))
            inside, outside = verdict(counts, self.cuts, None, descending=self.descending)
            low, high = (counts.lower, counts.upper) if self.descending else (-counts.upper, -counts.lower)
            columns = {"_number": numbers, "lower": counts.lower, "upper": counts.upper,
                       "sure": np.where(inside, low, -np.inf), "may": high}  # fmt: skip
            yield pa.record_batch({name: pa.array(values[~outside]) for name, values in columns.items()})

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers of a partition: their columns, number, probability and bounds."""
        done = 0
        for found, formulas, numbers in self._numbered(batches):
            left = None if self.ends is None else time.monotonic() + max(0.0, self.ends - time.time())
            asked = self.options.replace(deadline=left, threads=1)
            counts, kept = self._counted(formulas, numbers, asked)
            answers = formulas.possible[kept]
            columns: dict[str, Any] = {"_number": numbers[kept], "num_clauses": formulas.num_clauses[kept]}
            if self.expected:
                values, done = self._expected(found, asked, done)
                for i, value in enumerate(values):
                    mine = value.take(answers)
                    counts.met &= mine.met
                    columns |= {f"_e{i}": mine.value, f"_e{i}_lower": mine.lower, f"_e{i}_upper": mine.upper}
            yield record(found.answers.take(answers), {**columns, **count_columns(counts)}, self.results())

    def _counted(self, formulas: AnyFormulas, numbers: IntArray, asked: Options) -> tuple[Counts, IntArray]:
        """(counts, places among the formulas) of the answers that are wanted."""
        kept = np.arange(len(numbers))
        if self.chosen is not None:
            wanted, known = self.chosen.value
            kept = np.flatnonzero(np.isin(numbers, wanted))
            if known is not None:
                return known.take(np.searchsorted(wanted, numbers[kept])), kept
        if not len(kept):
            nothing = empty()
            nothing.near_cut = np.zeros(0, dtype=bool)
            return nothing, kept
        batch = self._countable(formulas)
        if self.cuts:
            asked = asked.replace(numbers=numbers)
            counts, kept = decide(batch, self.cuts, None, descending=True, options=asked, among=self.firsts[-1])
            return counts.take(kept), kept
        batch = batch if len(kept) == len(numbers) else some(batch, kept)
        return count_batch(batch, asked.replace(numbers=numbers[kept])), kept

    def _expected(self, found: LineageRows, asked: Options, done: int) -> tuple[list[Expected], int]:
        """The expected values of a piece, and how many of the rows that are counted are done then."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "this runs on an executor"
        several = self.several[context.partitionId()]
        several = replace(several, first=several.first + done)
        known = self.known.value
        values = expected_values(found, self.expected, known, asked, len(found.indptr) - 1, several)
        return values, done + (several_reasons(found, known, asked).possible if several.possible else 0)

    def results(self) -> list[tuple[str, str]]:
        """(name, type in Spark) of the columns that follow those of an answer."""
        chosen = self.cuts or (self.chosen is not None and self.chosen.value[1] is not None)
        near = [("near_cut", "boolean")] if chosen else []
        values = [(f"_e{i}{end}", "double") for i in range(len(self.expected)) for end in ("", "_lower", "_upper")]
        return [*RESULT, *near, *values]

    def clauses(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The clauses of the answers that are wanted: the number of the answer, and the uncertain rows or events."""
        import pyarrow as pa

        assert self.wanted is not None
        for found, formulas, numbers in self._numbered(batches):
            number_of_answer = np.full(len(found.indptr) - 1, -1, dtype=np.int64)
            number_of_answer[formulas.possible] = numbers
            number = np.repeat(number_of_answer, np.diff(found.indptr))
            places = np.flatnonzero(np.isin(number, self.wanted))
            mine = found.clauses.take(places)
            rows = pa.ListArray.from_arrays(mine.indptr.astype(np.int32), pa.array(mine.literals >> 1))
            yield pa.record_batch({"_number": number[places], "rows": rows})


def count_columns(counts: Counts) -> dict[str, Any]:
    """The columns of what was counted, by name."""
    columns: dict[str, Any] = {name: getattr(counts, name) for name in ("prob", "lower", "upper")}
    columns |= {"guarantee": counts.guarantee.tolist(), "engine": counts.engine.tolist(), "_met": counts.met}
    return columns if counts.near_cut is None else {**columns, "near_cut": counts.near_cut}


def record(answers: pa.Table, more: dict[str, Any], names: Sequence[tuple[str, str]] = ()) -> pa.RecordBatch:
    """The columns of answers, and those of ``more`` behind them, in the order of ``names``."""
    import pyarrow as pa

    columns = [column.combine_chunks() for column in answers.combine_chunks().columns]
    for name, kind in names or [(name, "") for name in more]:
        values = more[name]
        arrow = isinstance(values, pa.Array)
        columns.append(values if arrow else pa.array(values, type=pa.string() if kind == "string" else None))
    return pa.RecordBatch.from_arrays(columns, names=[*answers.column_names, *(n for n, _ in names or more.items())])


RESULT = (
    ("_number", "long"), ("prob", "double"), ("lower", "double"), ("upper", "double"), ("guarantee", "string"),
    ("engine", "string"), ("num_clauses", "long"), ("_met", "boolean"),
)  # fmt: skip
"""(name, type in Spark) of the columns that follow those of an answer in any case."""
