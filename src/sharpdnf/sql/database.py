"""ProbDB: a database some of whose tables have a probability column, and SQL over it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sharpdnf.dnf import IntArray
from sharpdnf.errors import MissingExtra, SQLError, UncertainTableError
from sharpdnf.estimate import check_tolerance
from sharpdnf.sql.allowed import check_functions
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends import Backend, LineageRows
from sharpdnf.sql.catalog import Relation, Uncertain, quoted
from sharpdnf.sql.counting import Counts, Options, Progress, certain, count_with_progress
from sharpdnf.sql.expected import Expected, expected_values
from sharpdnf.sql.limits import watched
from sharpdnf.sql.lineage import Formulas, Rows, build
from sharpdnf.sql.plan import Plan, make_plan
from sharpdnf.sql.tables import Environment, Tables
from sharpdnf.sql.topk import decide
from sharpdnf.sql.uncertain import Declared, current, declare, describe_row, fetch_rows, is_stale

NUMBERS = itertools.count()


def connect(source: Any = None) -> ProbDB:
    """Opens a database for probabilistic SQL.

    ``source`` is a DuckDB or SQLite file (opened read-only), a Parquet, CSV or JSON file (a table named after it), a
    PostgreSQL address (``postgresql://...``), a duckdb, sqlite3 or psycopg connection, or None for an empty DuckDB
    that data frames are registered with. Only temporary tables are ever created. Close it, or use ``with``.
    """
    return ProbDB(_backend(source), ours=source is None or isinstance(source, str | os.PathLike))


def _backend(source: Any) -> Backend:
    if source is None or isinstance(source, str | os.PathLike):
        return _open("" if source is None else os.fspath(source))
    kinds = [kind for kind in type(source).__mro__ if kind.__name__ in ("Connection", "DuckDBPyConnection")]
    package = kinds[-1].__module__.split(".")[0].lstrip("_") if kinds else ""
    if package == "duckdb":
        from sharpdnf.sql.backends.duck import DuckDB

        return DuckDB(source)
    if package == "sqlite3":
        from sharpdnf.sql.backends.lite import SQLite

        return SQLite(source)
    if package == "psycopg":
        from sharpdnf.sql.backends.postgres import PostgreSQL

        return PostgreSQL(source)
    raise TypeError(f"connect takes a path or a duckdb, sqlite3 or psycopg connection, not {type(source).__name__}")


def _open(path: str) -> Backend:
    if path.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise SQLError("a PostgreSQL address needs psycopg: pip install 'psycopg[binary]'") from None
        try:
            return _backend(psycopg.connect(path, autocommit=True))
        except psycopg.Error as error:
            raise SQLError(f"cannot connect to PostgreSQL: {error}") from None
    if path and not Path(path).exists():
        raise SQLError(f"no database file {path!r}")
    if path:
        with open(path, "rb") as file:
            if file.read(16) == b"SQLite format 3\0":
                import sqlite3

                return _backend(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True))
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("connect", "sql") from None
    from sharpdnf.sql.backends.duck import READERS

    if path and Path(path).suffix.lower() in READERS:
        backend = _quiet(duckdb.connect())
        backend.register(Path(path).name.split(".")[0], path)
        return backend
    try:
        return _quiet(duckdb.connect(path, read_only=True) if path else duckdb.connect())
    except duckdb.Error as error:
        raise SQLError(f"cannot open {path!r}: {error}") from None


def _quiet(connection: Any) -> Backend:
    """A DuckDB of our own: its progress bar would stand between the answers on standard output."""
    backend = _backend(connection)
    with watched(backend):
        backend.execute("SET enable_progress_bar = false")
    return backend


class ProbDB:
    """Tables, some of them uncertain, behind one connection.

    The rows of an uncertain table are read and numbered when it is declared; after changing the data call
    ``refresh()``.
    """

    def __init__(self, backend: Backend, *, ours: bool = False) -> None:
        self.backend, self._ours = backend, ours
        self._number = next(NUMBERS)
        self._declared: dict[tuple[str, ...], Declared] = {}
        self._rows: Rows | None = None
        self.readings = 0
        """How often the rows were numbered again: older answers have other numbers."""
        self._version: object = backend.version()
        """None while rows are numbered: what stops halfway through is done again before the next query."""

    def close(self) -> None:
        """Drops the numbered rows, and closes the connection unless it was given to ``connect``."""
        with watched(self.backend):
            for number in range(len(self._declared)):
                table = self.backend.temporary(self._temporary(number)).sql(self.backend.dialect)
                self.backend.execute(f"DROP TABLE IF EXISTS {table}")
        self._declared.clear()
        self._rows = None
        if self._ours:
            self.backend.connection.close()

    def __enter__(self) -> ProbDB:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- declaring

    def uncertain(self, table: str, *, prob: str, block: str | Sequence[str] | None = None) -> None:
        """Declares the rows of ``table`` to be events with the probabilities in column ``prob``.

        Rows are independent; with ``block``, rows that agree in these columns exclude each other.
        """
        columns = () if block is None else (block,) if isinstance(block, str) else tuple(block)
        if block is not None and not columns:
            raise ValueError("block must name at least one column")
        with watched(self.backend):
            self._declare(table, prob, columns)

    def _declare(self, table: str, prob: str, columns: tuple[str, ...]) -> None:
        check_functions("SELECT 1", self.backend)  # our own statements must mean what they say
        tables = Tables(self.backend, self._uncertain())
        relation = tables.relation(self._name(table), Environment())
        self._check_apart(relation)
        number = next((i for i, key in enumerate(self._declared) if key == relation.key), len(self._declared))
        base = sum(len(d.prob) for key, d in self._declared.items() if key != relation.key)
        self._version = None
        found = declare(self.backend, relation, prob, columns, base, self._temporary(number))
        replaced = relation.key in self._declared
        self._declared[relation.key] = found
        self._rows = None
        self._version = self.backend.version()
        if replaced:
            self.refresh()

    def _check_apart(self, relation: Relation) -> None:
        """Rows of two uncertain tables are independent, so no two of them may hold the same rows."""
        name = relation.path[-1]
        others = {key: value for key, value in self._uncertain().items() if key != relation.key}
        views = [other.relation for other in others.values() if other.relation.definition is not None]
        this = Uncertain(relation, relation.table(), "")
        for view, tables in [(relation, others), *((view, {relation.key: this}) for view in views)]:
            if Tables(self.backend, tables).relation_touches(view):
                raise UncertainTableError(
                    f"{view.path[-1]} is a view over uncertain rows: declare the tables it reads, not both"
                )
        for other in self.backend.related(relation):
            if other.key in others:
                raise UncertainTableError(f"{name} shares rows with the uncertain table {other.path[-1]}")

    def _name(self, table: str) -> exp.Table:
        """The name as SQL reads it; what is no name there is one name, as it stands."""
        try:
            found = sqlglot.parse_one(table, into=exp.Table, dialect=self.backend.dialect)
        except SqlglotError:
            found = None
        if isinstance(found, exp.Table) and isinstance(found.this, exp.Identifier) and not found.args.get("alias"):
            return found
        return exp.Table(this=quoted(table))

    def register(
        self, name: str, frame: object, *, prob: str | None = None, block: str | Sequence[str] | None = None
    ) -> None:
        """Makes a pandas, polars or Arrow frame, or a Parquet, CSV or JSON file, a table; with ``prob``, uncertain."""
        with watched(self.backend):
            self.backend.register(name, frame)
            table = exp.Table(this=quoted(name))
            if prob is not None:
                self.uncertain(table.sql(self.backend.dialect), prob=prob, block=block)
            elif Tables(self.backend, {}).relation(table, Environment()).key in self._declared:
                self.refresh()
            self._version = self.backend.version()

    def refresh(self) -> None:
        """Reads the uncertain tables again, after their data changed."""
        with watched(self.backend):
            base, self._version = 0, None
            self.readings += 1
            for number, (key, old) in enumerate(list(self._declared.items())):
                relation = current(self.backend, old.uncertain.relation)
                found = replace(old, base=base)  # of a table that is gone: nothing can read it
                if relation is not None:
                    self._check_apart(relation)
                    temporary = self._temporary(number)
                    found = declare(self.backend, relation, old.uncertain.prob, old.block_columns, base, temporary)
                self._declared[key] = found
                base += len(found.prob)
            self._rows = None
            self._version = self.backend.version()

    def _temporary(self, number: int) -> str:
        """The name of a table's numbered rows: another ProbDB of the same connection must not replace them."""
        return f"_sharpdnf_rows{self._number}_{number}"

    def _uncertain(self) -> dict[tuple[str, ...], Uncertain]:
        return {key: declared.uncertain for key, declared in self._declared.items()}

    def known_rows(self) -> Rows:
        """Probability and block of every uncertain row, by its number."""
        if self._rows is None:
            probs, blocks, first = [np.zeros(0)], [np.zeros(0, dtype=np.int64)], 0
            for declared in self._declared.values():
                probs.append(declared.prob)
                blocks.append(np.where(declared.block >= 0, declared.block + first, -1))
                first += int(declared.block.max(initial=-1)) + 1
            self._rows = Rows(np.concatenate(probs), np.concatenate(blocks))
        return self._rows

    def _check_fresh(self) -> None:
        """Reads again what is seen to have changed; what is not seen is for ``refresh()``."""
        if self.backend.version() != self._version or any(is_stale(self.backend, d) for d in self._declared.values()):
            self.refresh()

    # ---- asking

    def rewrite(self, query: str) -> str:
        """The SQL that is sent to the database instead of ``query``: one row per clause of lineage."""
        with watched(self.backend):
            plan = make_plan(query, self.backend, self._uncertain())
        return str(plan.query.sql(self.backend.dialect, pretty=True))

    def sql(
        self,
        query: str,
        *,
        guarantee: str | None = None,
        epsilon: float = 0.1,
        delta: float = 0.05,
        rng: Any = None,
        timeout: float | None = None,
        threads: int | None = None,
        engine: str = "auto",
        progress: Progress | None = None,
    ) -> Answers:
        """Answers a SELECT: every answer with the probability that it is one.

        ``epsilon`` and ``delta`` hold for each answer; for HAVING prob() and ORDER BY prob() LIMIT k, delta covers
        all answers together. ``timeout`` limits database and counting together.
        """
        check_tolerance(epsilon, delta)
        if timeout is not None and not timeout >= 0.0:
            raise ValueError(f"timeout must not be negative, not {timeout}")
        deadline = None if timeout is None else time.monotonic() + timeout
        options = Options(guarantee, epsilon, delta, rng, deadline, threads, engine, progress)
        with watched(self.backend, timeout):
            self._check_fresh()
            plan = make_plan(query, self.backend, self._uncertain())
            found = self._run(plan)
            known, reading = self.known_rows(), self.readings
        formulas = build(found.clauses, found.indptr, known)
        if plan.always:  # COUNT without GROUP BY has one answer in every world
            counts, kept = certain(1), np.array([0 if len(formulas.batch) else -1])
        elif plan.cuts or plan.limit is not None:
            descending = plan.limit is None or plan.order[0].descending
            counts, kept = decide(formulas.batch, plan.cuts, plan.limit, descending=descending, options=options)
            counts = counts.take(kept)
        else:
            counts = count_with_progress(formulas.batch, options)
            kept = np.arange(len(formulas.batch))
        return self._answers(plan, found, formulas, counts, kept, options, known, reading)

    def _run(self, plan: Plan) -> LineageRows:
        made: list[str] = []
        try:
            for name, select in plan.numbered:
                made.append(quoted(name).sql(self.backend.dialect))
                self.backend.execute(f"CREATE TEMP TABLE {made[-1]} AS {select.sql(self.backend.dialect)}")
            return self.backend.lineage(plan.sql, plan.shape)
        finally:
            for name in made:
                self.backend.execute(f"DROP TABLE IF EXISTS {name}")

    def _answers(
        self, plan: Plan, found: LineageRows, formulas: Formulas, counts: Counts, kept: IntArray, options: Options,
        known: Rows, reading: int,
    ) -> Answers:  # fmt: skip
        values = found.answers
        formula = kept
        answer = np.zeros(1, dtype=np.int64) if plan.always else formulas.possible[kept]
        expected = []
        if plan.expected:
            total = 1 if plan.always else len(values)
            computed = expected_values(found, plan.expected, known, options, total)
            expected = [(entry[0], value.take(answer)) for entry, value in zip(plan.expected, computed, strict=True)]
            counts.met &= computed[0].met[answer]
        shown = values.take(answer) if plan.labels else values.slice(0, 0)
        order = self._order(plan, shown, counts, expected)
        if order is not None:
            shown, counts, formula = shown.take(order), counts.take(order), formula[order]
            expected = [(position, value.take(order)) for position, value in expected]
            answer = answer[order]
        return Answers(plan.labels, shown, counts, formulas, formula, answer, found, self, expected, known, reading)

    @staticmethod
    def _order(plan: Plan, shown: Any, counts: Counts, expected: list[tuple[int, Expected]]) -> IntArray | None:
        """The order that ORDER BY asks for; None: as the answers come."""
        if not plan.order or not plan.labels:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        table = shown.append_column("_prob", pa.array(counts.prob))
        for i, (_, value) in enumerate(expected):
            table = table.append_column(f"_e{i}", pa.array(value.value))
        keys = []
        for i, key in enumerate(plan.order):
            column, direction = table.column(key.column), "descending" if key.descending else "ascending"
            if pa.types.is_nested(column.type):  # NULLs inside would go elsewhere
                raise SQLError(f"ORDER BY cannot sort by a column of type {column.type}")
            name = key.column
            if pa.types.is_dictionary(column.type):  # an ENUM, sorted by its position
                name, places = f"_place{i}", [chunk.indices for chunk in column.chunks]
                table = table.append_column(name, pa.chunked_array(places, type=column.type.index_type))
            table = table.append_column(f"_null{i}", pc.is_null(column))
            keys.append((f"_null{i}", "descending" if key.nulls_first else "ascending"))
            if pa.types.is_floating(column.type):  # to a database nan is above every number, to Arrow always last
                table = table.append_column(f"_nan{i}", pc.is_nan(column))
                keys.append((f"_nan{i}", direction))
            keys.append((name, direction))
        try:
            order: IntArray = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
        except pa.ArrowException as error:
            raise SQLError(f"ORDER BY cannot sort these columns: {error}") from None
        return order

    # ---- rows

    def row_names(self, rows: IntArray, reading: int) -> list[str]:
        """Names such as ``edge(src=1, dst=2)`` of numbered rows; ``choice1`` for an inner choice of a block."""
        names: dict[int, str] = {}
        with watched(self.backend):
            for declared in self._declared.values() if reading == self.readings else ():
                last = declared.base + len(declared.prob)
                mine = [int(r) for r in np.unique(rows) if declared.base <= r < last]
                columns = tuple(c for c in declared.uncertain.relation.columns if c != declared.uncertain.prob)
                for start in range(0, len(mine), 500):
                    found = fetch_rows(self.backend, declared, mine[start : start + 500], columns)
                    names.update({n: f"{declared.name}({describe_row(columns, row)})" for n, row in found.items()})
        if not names.keys() >= {int(row) for row in rows if row >= 0}:
            raise SQLError("the uncertain tables have changed since the query: ask it again")
        choices = 0
        result = []
        for row in rows:
            choices += int(row < 0)
            result.append(names[int(row)] if row >= 0 else f"choice{choices}")
        return result
