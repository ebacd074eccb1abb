"""The uncertain tables of one connection: which ones there are, and the numbers of their rows, kept up to date.

``uncertain.py`` reads one table; here all of them are kept apart and up to date. Every row has a number of its own, the
variable of the formulas. A table that is read anew gets a range of numbers that nobody had before, so that a formula
of an older answer never speaks of a row by a number that now means another one.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sharpdnf.dnf import IntArray
from sharpdnf.errors import NoUncertainTable, SQLError, UncertainTableError
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Backend, Relation, Uncertain
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.parse.allowed import check_functions
from sharpdnf.sql.parse.text import parse_select
from sharpdnf.sql.uncertain import (
    COPY,
    Declared,
    UncertainRow,
    changed,
    check_present,
    copy_path,
    current,
    declare,
    fetch_rows,
    layout,
)

SPARE = 1_000_000
"""How many numbers may belong to no row, beside as many as there are rows, before all are numbered from 0 again."""
NAMED_AT_ONCE = 500
"""How many rows one statement asks the database for, to show them to people."""


class Declarations:
    """The uncertain tables behind one connection, by the keys of their relations."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.tables: dict[tuple[str, ...], Declared] = {}
        self.readings = 0
        """How often all rows were numbered from 0 again: answers of an earlier reading speak of other numbers."""
        self._rows: Rows | None = None
        self._copies: list[str] = []
        """The temporary tables made so far, because a rollback may bring one back that was dropped."""
        self._views: dict[tuple[str, ...], str] = {}
        """The temporary views that ``declare_query`` made, by the keys of their relations."""

    def uncertain(self) -> dict[tuple[str, ...], Uncertain]:
        """What the passes over a query need to know of each uncertain table."""
        return {key: declared.uncertain for key, declared in self.tables.items()}

    # ---- declaring and taking back

    def relation(self, table: str) -> Relation:
        """The table or view that a name means to the database now."""
        return Tables(self._backend, self.uncertain()).relation(self._name(table), Environment())

    def declare(self, relation: Relation, prob: str, block: tuple[str, ...]) -> None:
        """Declares the rows of a relation uncertain, also one that is declared already."""
        check_functions("SELECT 1", self._backend)  # our own statements must mean what they say
        self._check_apart(relation)
        self._read(relation.key, relation, prob, block)

    def declare_query(self, name: str, query: str, prob: str, block: tuple[str, ...]) -> None:
        """Makes a temporary view over a query and declares its rows uncertain; an error leaves no view behind."""
        dialect = self._backend.dialect
        parse_select(query, dialect, "the query")  # an error if there is another statement behind the SELECT
        target = exp.Table(this=quoted(name)).sql(dialect.name)
        self._backend.execute(f"CREATE TEMP VIEW {target} AS {query.strip().rstrip(';')}")
        try:
            self.declare(self.relation(target), prob, block)
            self._views[self.relation(target).key] = target
        except BaseException:
            with suppress(SQLError):
                self._backend.execute(f"DROP VIEW {target}")
            raise

    def declare_again(self, table: str) -> None:
        """Reads a table anew if it is declared: its name has just been given to other data."""
        relation = self.relation(table)
        old = self.tables.get(relation.key)
        if old is not None:
            self.declare(relation, old.probability.text, old.block_columns)

    def forget(self, table: str) -> None:
        """Takes a declaration back: the rows of the table count as certain from now on."""
        name = self._name(table)
        parts = [self._backend.fold(part) for part in name.parts if isinstance(part, exp.Identifier)]
        keys = [key for key, declared in self.tables.items() if self._is_named(declared, parts)]
        if len(keys) != 1:
            raise SQLError(f"{'no' if not keys else 'more than one'} uncertain table is called {table!r}")
        self.tables.pop(keys[0])
        self._rows = None
        self._drop_unused()
        if keys[0] in self._views:
            self._backend.execute(f"DROP VIEW {self._views.pop(keys[0])}")

    def forget_all(self) -> None:
        """Takes every declaration back and drops all temporary tables and views of this object."""
        self.tables.clear()
        self._rows = None
        self._drop_unused()
        for view in self._views.values():
            self._backend.execute(f"DROP VIEW IF EXISTS {view}")

    def _is_named(self, declared: Declared, parts: list[str]) -> bool:
        """Whether the full name of a declared table ends in these parts."""
        path = [self._backend.fold(quoted(part)) for part in declared.uncertain.relation.path]
        return path[-len(parts) :] == parts

    def _name(self, table: str) -> exp.Table:
        """The name as SQL reads it. Text that SQL reads otherwise, such as ``my table``, is one name as it is."""
        try:
            found = sqlglot.parse_one(table, into=exp.Table, dialect=self._backend.dialect.name)
        except SqlglotError:
            found = None
        if isinstance(found, exp.Table) and isinstance(found.this, exp.Identifier) and not found.args.get("alias"):
            return found
        return exp.Table(this=quoted(table))

    def _check_apart(self, relation: Relation) -> None:
        """An error if another uncertain table holds the same rows: rows of two tables count as independent."""
        others = {key: value for key, value in self.uncertain().items() if key != relation.key}
        views = [other.relation for other in others.values() if other.relation.definition is not None]
        this = Uncertain(relation, relation.table(), "")
        for view, tables in [(relation, others), *((view, {relation.key: this}) for view in views)]:
            if Tables(self._backend, tables).relation_touches(view):
                raise UncertainTableError(
                    f"{view.path[-1]} is a view over uncertain rows: declare the tables it reads, not both"
                )
        self._check_shared(relation, set(others))

    def _check_shared(self, relation: Relation, others: set[tuple[str, ...]]) -> None:
        """An error if the database says that one of the other relations is a part of this one, or this of it."""
        for other in self._backend.related(relation):
            if other.key in others:
                raise UncertainTableError(f"{relation.path[-1]} shares rows with the uncertain table {other.path[-1]}")

    # ---- the numbers of the rows

    def _read(self, key: tuple[str, ...], relation: Relation, prob: str, block: tuple[str, ...]) -> Declared:
        """Numbers the rows of a relation, with numbers that no answer so far knows."""
        found = declare(self._backend, relation, prob, block, self._top())
        old = self.tables.get(key)
        self.tables[key], self._rows = found, None
        self._copies.append(found.copy)
        if old is not None:
            self._backend.drop(old.copy)
        return found

    def _top(self) -> int:
        """The first number that no declared row has, nor any above it."""
        return max((declared.base + len(declared.prob) for declared in self.tables.values()), default=0)

    def _wasted(self) -> int:
        """How many numbers belong to no row, beyond as many as there are rows."""
        return self._top() - 2 * sum(len(declared.prob) for declared in self.tables.values())

    def rows(self) -> Rows:
        """The probability and the block of every uncertain row, by its number."""
        if self._rows is None:
            top, first = self._top(), 0
            prob, block = np.zeros(top), np.full(top, -1, dtype=np.int64)
            for declared in self.tables.values():
                mine = slice(declared.base, declared.base + len(declared.prob))
                prob[mine] = declared.prob
                block[mine] = np.where(declared.block >= 0, declared.block + first, -1)
                first += int(declared.block.max(initial=-1)) + 1
            self._rows = Rows(prob, block)
        return self._rows

    def refresh(self) -> None:
        """Numbers all rows from 0 again, also those of a table that has become a view."""
        check_present(self._backend, list(self.tables.values()), planned=False)
        before, self.tables = self.tables, {}
        try:
            for old in before.values():
                relation = current(self._backend, old.uncertain.relation)
                assert relation is not None, "it is present"
                self.declare(relation, old.probability.text, old.block_columns)
        except BaseException:  # all or nothing: half of the numbers would be given twice
            self.tables, self._rows = before, None
            raise
        self.readings += 1
        self._drop_unused()

    def unchanged(self, text: str) -> bool:
        """Whether the tables that a kept plan reads have the rows that were numbered, by one look at all."""
        tables = list(self.tables.values())
        present = check_present(self._backend, tables, planned=True)
        copies = set(COPY.findall(text))
        read = [(old, there) for old, there in zip(tables, present, strict=True) if old.copy in copies]
        if not read or not all(there and old.uncertain.relation.definition is None for old, there in read):
            return False
        return self._wasted() <= SPARE and not any(changed(self._backend, [old for old, _ in read], text))

    def bring_up_to_date(self, text: str, *, unchanged: bool = False) -> dict[str, str] | None:
        """Reads the tables anew that SQL reads and whose rows have changed.

        Returns the names of their temporary tables, {before: now}, which the SQL must read instead; None if the query
        must be planned anew, because a table has other columns or too many numbers are wasted. With ``unchanged`` the
        caller knows that no table has other columns.
        """
        tables = list(self.tables.items())
        present = check_present(self._backend, [d for _, d in tables], planned=True)
        copies = set(COPY.findall(text))
        read = [(key, old, there) for (key, old), there in zip(tables, present, strict=True) if old.copy in copies]
        for _, old, _ in read:
            relation = old.uncertain.relation
            same = unchanged and relation.definition is None
            if self._wasted() > SPARE or not (same or layout(self._backend, relation) == old.layout):
                return None
        kept = [old for _, old, there in read if there]  # what a rollback took along cannot be compared
        others = changed(self._backend, kept, text)
        same_rows = {old.copy for old, other in zip(kept, others, strict=True) if not other}
        renamed: dict[str, str] = {}
        for key, old, _ in read:
            if old.copy in same_rows:
                continue
            relation = old.uncertain.relation
            self._check_shared(relation, set(self.tables) - {key})
            renamed[old.copy] = self._read(key, relation, old.probability.text, old.block_columns).copy
        if self.tables and not copies:
            names = ", ".join(sorted(d.name for d in self.tables.values()))
            warnings.warn(
                f"the query reads none of the uncertain tables ({names}), so all its answers have probability 1: "
                "declare the tables it reads with uncertain(), if their rows are not certain",
                NoUncertainTable,
                stacklevel=4,  # the line that called ProbDB.sql
            )
        return renamed

    def _drop_unused(self) -> None:
        """Drops the temporary tables that no declaration reads, also those that a rollback brought back."""
        used = {declared.copy for declared in self.tables.values()}
        others = [copy for copy in self._copies if copy not in used]
        kinds = self._backend.present([copy_path(self._backend, copy) for copy in others])
        for copy, kind in zip(others, kinds, strict=True):
            if kind is not None:
                self._backend.drop(copy)

    # ---- rows for people

    def row_names(self, rows: IntArray, reading: int) -> list[str]:
        """Names such as ``edge(src=1, dst=2)`` of rows by their numbers, which are those of a reading.

        A negative number is an inner choice of a block, which is no row; they are called ``choice1``, ``choice2``, ...
        """
        names = {number: str(row) for number, row in self.row_values(rows, reading).items()}
        choices = 0
        result = []
        for row in rows:
            choices += int(row < 0)
            result.append(names[int(row)] if row >= 0 else f"choice{choices}")
        return result

    def row_values(self, rows: IntArray, reading: int) -> dict[int, UncertainRow]:
        """The rows by their numbers, which are those of a reading; an error if one cannot be told any more."""
        found = self._still_known(rows) if reading == self.readings else {}
        if not found.keys() >= {int(row) for row in rows if row >= 0}:
            raise SQLError("the uncertain tables have changed since the query: ask it again")
        return found

    def _still_known(self, rows: IntArray) -> dict[int, UncertainRow]:
        """Those rows of which the database can still tell what they were."""
        known: dict[int, UncertainRow] = {}
        tables = list(self.tables.values())
        present = self._backend.present([declared.place for declared in tables])
        for declared, there in zip(tables, present, strict=True):
            moved = declared.version is not None and self._backend.version() != declared.version
            if moved or there is None:
                continue  # the row of this number may have other values now, or be another
            last = declared.base + len(declared.prob)
            mine = [int(row) for row in np.unique(rows) if declared.base <= row < last]
            columns = tuple(c for c in declared.uncertain.relation.columns if c != declared.uncertain.prob)
            for start in range(0, len(mine), NAMED_AT_ONCE):
                found = fetch_rows(self._backend, declared, mine[start : start + NAMED_AT_ONCE], columns)
                for n, values in found.items():
                    known[n] = UncertainRow(declared.name, n - declared.base, columns, values)
        return known
