"""Declaring a table uncertain: its probabilities are checked, its rows numbered, its blocks found.

An answer is about the data as they are when the query runs. The numbered rows are a temporary table that was made
earlier, so before each query they are compared with the table itself, for the tables and columns that the query reads:

- In DuckDB and PostgreSQL the numbered rows are a copy. A hash of the bag of rows, in the columns that the query
  mentions and those of probability and block, is computed of both (that of the copy once). Equal bags give equal
  answers, whatever happened in between: updates, deletes, rollbacks, other connections, frames and files under a view.
  It reads these columns once, about 1 ms for 100,000 rows in DuckDB, 50 ms in PostgreSQL; no database tells in
  constant time whether a table changed, and a scan is what the query costs at least.
- SQLite counts its changes (``SQLite.version``), so one look suffices; the numbers are joined to the table by its own
  row numbers.

Every reading makes a temporary table of a new name: if a rollback takes it away, its absence shows that the numbers
in memory belong to nothing. Check and query see one snapshot.

What would break without this: probabilities and blocks are held in memory by row number, while the clauses come from
the database. If a row had changed in between, its number would stand for another row, and the answer would be a wrong
probability without a word.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.errors import SQLError, UncertainTableError
from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Backend, Relation, Uncertain
from sharpdnf.sql.probability import RowProbability, find_column, read_probability

READINGS = itertools.count()
"""Numbers the readings of this process, so that no two temporary tables of numbered rows have the same name."""
COPY = re.compile(r"_sharpdnf_rows\d+")
"""The name of a temporary table of numbered rows; queries that contain it are refused, so it is ours in a plan."""
SLACK = 1e-9
"""How far above 1 the probabilities of a block may add up by rounding."""
MOST_ROWS = 2**30
"""There must be fewer uncertain rows than this, because a row becomes a variable and literals have 32 bits."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of a relation, whatever its rows: if it changes, queries over it must be planned anew."""

    columns: tuple[tuple[str, str], ...] | None
    """(name, type) of each column, as the database gives them; None if the relation cannot be read."""
    definition: str | None
    """The SELECT of a view; None for a table."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One uncertain table with its numbered rows ``base`` to ``base + len(prob) - 1``."""

    name: str
    uncertain: Uncertain
    probability: RowProbability
    block_columns: tuple[str, ...]
    base: int
    prob: FloatArray
    block: IntArray
    """int64[rows]: the block of each row, numbered from 0 within the table; -1 where rows are independent."""
    copy: str
    """The name of the temporary table with the numbered rows, which no other reading uses."""
    place: tuple[str, ...]
    """The full name of that table."""
    layout: Layout
    kind: str | None
    """What the relation was when it was declared, such as "table" or "view"; None if it was not found."""
    version: object
    """The state of the database when the rows were read, where it has such a counter (SQLite); None where the contents
    are compared instead."""
    seen: dict[tuple[str, ...], tuple[str, object]] = field(default_factory=dict)
    """By the columns that are hashed: how to ask for the hash of the table, and that of the numbered rows. They are
    computed when they are first needed."""

    def columns_read(self, sql: str) -> tuple[str, ...]:
        """The columns that a rewritten query may read, in order, with those of probability and block.

        What the text does not mention anywhere, it does not read, unless there is a star.
        """
        relation, text = self.uncertain.relation, sql.lower()
        needed = {*self.probability.columns, *self.block_columns}
        everything = "*" in text
        return tuple(c for c in relation.columns if everything or c in needed or c.lower().replace('"', '""') in text)


@dataclass(frozen=True, slots=True)
class UncertainRow:
    """A row of an uncertain table, for people."""

    table: str
    place: int
    """Its place among the possible rows of the table, those with a probability above 0, from 0 on."""
    columns: tuple[str, ...]
    """Without that of the probability, unless that is an expression."""
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.table}({describe_row(self.columns, self.values)})"


def declare(backend: Backend, relation: Relation, prob: str, block: tuple[str, ...], base: int) -> Declared:
    """Checks the rows of a relation and numbers them from ``base`` on; an error leaves no temporary table behind."""
    p = read_probability(prob, relation, backend)
    columns = tuple(find_column(relation, name, "block") for name in block)
    with backend.snapshot():
        _check_probabilities(backend, relation, p)
        copy = f"_sharpdnf_rows{next(READINGS)}"
        try:
            return _numbered(backend, relation, p, columns, base, copy)
        except BaseException:
            with suppress(SQLError):  # in a transaction that the error has ended, there is nothing to drop
                backend.drop(copy)
            raise


def _numbered(
    backend: Backend, relation: Relation, p: RowProbability, columns: tuple[str, ...], base: int, copy: str
) -> Declared:
    source = backend.materialise(copy, relation, p.value, base)
    value = exp.cast(p.value.copy(), "DOUBLE")
    rank: exp.Expr = exp.Literal.number(0)
    if columns:
        order = exp.Order(expressions=[exp.Ordered(this=column(c)) for c in columns])
        rank = exp.Window(this=exp.DenseRank(), order=order)
    item = exp.alias_(source.copy(), "_s", table=True, quoted=True)
    select = exp.select(value, rank).from_(item).order_by(column(ROW_ID))
    numbers = backend.numbers(select.sql(backend.dialect.name), 2)
    probabilities = np.ascontiguousarray(numbers[:, 0])
    blocks = numbers[:, 1].astype(np.int64) - 1
    if base + len(probabilities) >= MOST_ROWS:
        raise UncertainTableError(f"with {relation.path[-1]} there are {MOST_ROWS} uncertain rows or more")
    declared = Declared(
        relation.path[-1], Uncertain(relation, source, p.hidden), p, columns, base, probabilities, blocks, copy,
        copy_path(backend, copy),
        layout(backend, relation), backend.present([relation.path])[0], backend.version(),
    )  # fmt: skip
    if columns:
        _check_blocks(backend, declared)
    return declared


def copy_path(backend: Backend, copy: str) -> tuple[str, ...]:
    """The full name of a temporary table."""
    return tuple(part.name for part in backend.temporary(copy).parts)


def layout(backend: Backend, relation: Relation) -> Layout:
    """What the relation of that name looks like now."""
    now = current(backend, relation) if relation.definition is not None else relation
    return Layout(backend.layout(relation.table()), now.definition if now is not None else None)


def current(backend: Backend, relation: Relation) -> Relation | None:
    """The relation of that name as it is now; None if it is gone."""
    parts = tuple(backend.fold(quoted(part)) for part in relation.path)
    return backend.resolve(parts, None)


def check_present(backend: Backend, declared: Sequence[Declared], *, planned: bool) -> list[bool]:
    """Whether the numbered rows of each table are there (a rollback takes them along).

    A declared table that is gone or, for the query that was just planned, became something else is an error, whatever
    that query reads: under a new name its rows would count as certain.
    """
    here = len(declared)
    paths = [d.uncertain.relation.path for d in declared]
    found = backend.present([*paths, *(d.place for d in declared)], fresh=not planned)
    for d, kind in zip(declared, found[:here], strict=True):
        if kind is None or (planned and kind != d.kind):
            raise SQLError(
                f"the uncertain table {d.name!r} {'is gone' if kind is None else 'has become something else'}: declare "
                f"the rows under their name of now with uncertain(), and forget({d.name!r}) if it is not to come back"
            )
    return [copy is not None for copy in found[here:]]


def changed(backend: Backend, declared: Sequence[Declared], sql: str) -> list[bool]:
    """Whether the rows that a rewritten query reads of each table are others than those that were numbered."""
    version = backend.version()
    compared = [d for d in declared if d.version is None]
    seen = [_seen(backend, d, d.columns_read(sql)) for d in compared]
    now = backend.contents([query for query, _ in seen])
    others = {d.copy: found != before for d, (_, before), found in zip(compared, seen, now, strict=True)}
    return [others[d.copy] if d.version is None else version != d.version for d in declared]


def _seen(backend: Backend, declared: Declared, columns: tuple[str, ...]) -> tuple[str, object]:
    """How to ask for the contents of a table in these columns, and what they were when its rows were numbered."""
    if columns not in declared.seen:
        typed = [entry for entry in declared.layout.columns or () if entry[0] in columns]
        items = declared.uncertain.relation.table(), backend.temporary(declared.copy)
        query, copy = (backend.contents_query(item, typed, declared.probability.value) for item in items)
        declared.seen[columns] = (query, backend.contents([copy])[0])
    return declared.seen[columns]


def _check_probabilities(backend: Backend, relation: Relation, p: RowProbability) -> None:
    """NULL, nan and numbers outside [0, 1] are errors that name the row."""
    bad: list[exp.Expr] = [exp.Is(this=p.value.copy(), expression=exp.Null())]
    if backend.dialect.affinities:
        kind = exp.Anonymous(this="typeof", expressions=[p.value.copy()])
        texts = [exp.Literal.string(name) for name in ("integer", "real")]
        bad.append(exp.Not(this=exp.In(this=kind, expressions=texts)))
    number = exp.cast(p.value.copy(), "DOUBLE")
    bad.append(exp.LT(this=number, expression=exp.Literal.number(0)))
    bad.append(exp.GT(this=number.copy(), expression=exp.Literal.number(1)))  # nan is above every number
    select = exp.select(exp.Star()).from_(relation.table()).where(exp.or_(*bad)).limit(1)
    try:
        found = backend.rows(select.sql(backend.dialect.name))
    except SQLError as error:
        raise UncertainTableError(
            f"the probability {p.text!r} of {relation.path[-1]} is not numeric: {error}"
        ) from None
    if found:
        raise UncertainTableError(
            f"{relation.path[-1]} has a row whose probability {p.text} is not in [0, 1]: "
            f"{describe_row(relation.columns, found[0])}"
        )


def _check_blocks(backend: Backend, declared: Declared) -> None:
    sums = np.bincount(declared.block, weights=declared.prob)
    over = np.flatnonzero(sums > 1.0 + SLACK)
    if not len(over):
        return
    row = declared.base + int(np.flatnonzero(declared.block == over[0])[0])
    values = fetch_rows(backend, declared, [row], declared.block_columns)[row]
    raise UncertainTableError(
        f"the block {describe_row(declared.block_columns, values)} of {declared.name} has probabilities that add up "
        f"to {sums[over[0]]:.12g}: exclusive rows cannot exceed 1"
    )


def fetch_rows(
    backend: Backend, declared: Declared, numbers: list[int], columns: tuple[str, ...]
) -> dict[int, tuple[Any, ...]]:
    """The values of some columns of numbered rows, by row number."""
    item = exp.alias_(declared.uncertain.source.copy(), "_s", table=True, quoted=True)
    select = exp.select(column(ROW_ID), *(column(c) for c in columns)).from_(item)
    wanted = exp.In(this=column(ROW_ID), expressions=[exp.Literal.number(n) for n in numbers])
    found = backend.rows(select.where(wanted).sql(backend.dialect.name))
    return {int(row[0]): row[1:] for row in found}


def describe_row(columns: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """A row as text for people, such as ``a=1, b=2``."""
    return ", ".join(f"{name}={value}" for name, value in zip(columns, values, strict=True))
