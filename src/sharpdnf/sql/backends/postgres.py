"""Stock PostgreSQL through psycopg: temporary tables, and lineage by binary COPY straight into numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg.types import datetime as loaders
from psycopg.types.string import TextLoader
from sqlglot import exp

from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.sql.backends.columns import frame_rows, python_columns, sorted_flat
from sharpdnf.sql.backends.dialect import POSTGRES
from sharpdnf.sql.backends.names import column, lower, quoted
from sharpdnf.sql.backends.protocol import Functions, LineageRows, Relation, Shape
from sharpdnf.sql.backends.rows import grouped, kept, lock_of, numbering, stored_like
from sharpdnf.sql.refusal import refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection

COPY_HEADER = 19
"""How many bytes stand before the first tuple: a signature of 11 bytes, flags, and the length of an empty extension."""


FIRST_USER_OID = 16384
FLOATS = {"700": "float4send", "701": "float8send"}
"""For each type of floats, by its number: the function that gives all bits of a value."""
IMPLIED = frozenset(["=", "<>", "<", "<=", ">", ">=", "~~", "~~*", "!~~", "!~~*", "~", "!~", "||"])
"""Operators that SQL may use without showing them: IN, BETWEEN, LIKE, DISTINCT, USING."""
RUN_TEXT = frozenset(["ts_rewrite", "ts_stat"])
"""Functions that run queries given as text, beside those that end in _to_xml and the like."""


def or_text(kind: str, loader: type[Any]) -> Any:
    """A loader that gives PostgreSQL's text for what Python has no value for: infinity, BC, 24:00."""

    class Loader(loader):  # type: ignore[misc]
        def load(self, data: Any) -> Any:
            try:
                return super().load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    Loader.kind = kind
    return Loader


READ_AS_TEXT = [
    or_text("date", loaders.DateLoader),
    or_text("time", loaders.TimeLoader),
    or_text("timetz", loaders.TimetzLoader),
    or_text("timestamp", loaders.TimestampLoader),
    or_text("timestamptz", loaders.TimestamptzLoader),
    or_text("interval", loaders.IntervalLoader),
]


class PostgreSQL:
    dialect = POSTGRES

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection, self.lock = connection, lock_of(connection)
        self._builtin: Functions | None = None

    def fold(self, identifier: exp.Identifier) -> str:
        return str(identifier.this) if identifier.args.get("quoted") else lower(str(identifier.this))

    def execute(self, sql: str) -> None:
        self.rows(sql)

    def keep(self, name: str, select: str, number: str | None = None) -> None:
        self.execute(kept(name, select))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            # A savepoint inside the caller's transaction, a transaction of our own otherwise.
            with self.connection.transaction(), self.connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
                for loader in READ_AS_TEXT:
                    cursor.adapters.register_loader(loader.kind, loader)
                for kind in ("json", "jsonb"):  # as text: Arrow would give all objects the same keys
                    cursor.adapters.register_loader(kind, TextLoader)
                cursor.execute(sql, prepare=False)  # temporary tables change their types
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            # What it does not take as it is written, such as a bare NULL beside numbers, may go another way.
            refused = (error.sqlstate or "").startswith("42")
            raise (UnsupportedSQL if refused else SQLError)(f"PostgreSQL: {error}") from None

    def numbers(self, sql: str, columns: int) -> FloatArray:
        return np.array(self.rows(sql), dtype=np.float64).reshape(-1, columns)

    def describe(self, sql: str) -> tuple[str, ...] | None:
        found = self._columns(sql)
        return tuple(name for name, _ in found) if found is not None else None

    def types(self, sql: str) -> tuple[str, ...] | None:
        found = self._columns(sql)
        return tuple(str(kind) for _, kind in found) if found is not None else None

    def _columns(self, sql: str) -> list[tuple[str, int]] | None:
        try:
            with self.connection.transaction(), self.connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({sql}) AS _d LIMIT 0", prepare=False)
                return [(entry.name, entry.type_code) for entry in cursor.description or ()]
        except psycopg.Error:
            return None

    def untyped(self, sql: str, count: int) -> frozenset[int]:
        return frozenset()

    def affinities(self, sql: str, count: int) -> tuple[str, ...]:
        return ("",) * count

    def prepare(self, names: frozenset[str]) -> None:
        pass

    def looked_up(self) -> frozenset[str]:
        return frozenset()

    def state(self, names: frozenset[str]) -> object:
        return None  # PostgreSQL caches its catalog, but does not tell when it changes

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        name = exp.Literal.string(".".join(quoted(part).sql("postgres") for part in parts)).sql("postgres")
        found = self.rows(
            "SELECT c.oid::text, n.nspname, c.relname, c.relkind::text, CASE WHEN c.relkind IN ('v', 'm') THEN "
            "pg_catalog.pg_get_viewdef(c.oid) END FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "
            f"c.relnamespace WHERE c.oid = pg_catalog.to_regclass({name})"
        )
        if not found:
            return None
        if self.rows(
            f"SELECT 1 FROM pg_catalog.pg_class WHERE oid = {int(found[0][0])} AND relrowsecurity AND "
            "pg_catalog.row_security_active(oid)"
        ):
            refuse(f"the table {'.'.join(parts)!r} under row security", "its policies can read other tables")
        return self._relation(found[0])

    def _relation(self, row: tuple[Any, ...]) -> Relation:
        oid, schema, table, kind, definition = row
        path = (schema, table)
        columns = self.rows(
            f"SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = {int(oid)} AND attnum > 0 AND NOT "
            "attisdropped ORDER BY attnum"
        )
        names = tuple(row[0] for row in columns)
        return Relation(path, path, names, definition, version=oid, stored=kind == "m")

    def collates(self) -> bool:
        return False

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        oid = int(relation.version)
        found = self.rows(
            "WITH RECURSIVE up AS (SELECT inhparent AS oid FROM pg_catalog.pg_inherits WHERE inhrelid = "
            f"{oid} UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN up ON i.inhrelid = up.oid), "
            f"down AS (SELECT inhrelid AS oid FROM pg_catalog.pg_inherits WHERE inhparent = {oid} UNION SELECT "
            "i.inhrelid FROM pg_catalog.pg_inherits i JOIN down ON i.inhparent = down.oid) "
            "SELECT c.oid::text, n.nspname, c.relname, c.relkind::text, NULL FROM (SELECT oid FROM up UNION SELECT oid "
            "FROM down) x JOIN pg_catalog.pg_class c ON c.oid = x.oid JOIN pg_catalog.pg_namespace n ON n.oid = "
            "c.relnamespace"
        )
        return tuple(self._relation(row) for row in found)

    def readings(self, first: str, second: str) -> tuple[object, object]:
        """The plans, which show every expression as PostgreSQL grouped it."""

        def plan(sql: str) -> object:
            try:
                return self.rows(f"EXPLAIN (VERBOSE, COSTS OFF) {sql}")
            except SQLError:
                return None

        return plan(first), plan(second)

    def functions(self) -> Functions:
        if self._builtin is None:
            listed = self.rows(
                "SELECT p.proname, bool_or(p.prokind = 'a'), bool_and(p.provolatile = 'v') FROM pg_catalog.pg_proc p "
                "WHERE p.pronamespace = 'pg_catalog'::regnamespace GROUP BY 1"
            )
            xml = ("_to_xml", "_to_xmlschema", "_to_xml_and_xmlschema")
            self._builtin = Functions(
                frozenset(name for name, aggregate, _ in listed if aggregate),
                frozenset(name for name, _, volatile in listed if volatile or name.endswith(xml)) | RUN_TEXT,
            )
        return self._builtin

    def user_code(self, names: frozenset[str], sql: str) -> frozenset[str]:
        """Functions by name (``row.f`` calls f(row) too); operators and casts unless their code is compiled."""
        written = "l.lanname NOT IN ('internal', 'c')"
        found = self.rows(
            "SELECT DISTINCT 'function', pg_catalog.lower(p.proname), p.pronargs = 1 AND t.typtype IN ('c', 'p') FROM "
            "pg_catalog.pg_proc p LEFT JOIN pg_catalog.pg_type t ON t.oid = p.proargtypes[0] WHERE p.pronamespace NOT "
            "IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) UNION ALL SELECT DISTINCT 'operator', "
            "o.oprname::text, false FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode JOIN "
            f"pg_catalog.pg_language l ON l.oid = p.prolang WHERE o.oid >= {FIRST_USER_OID} AND {written} UNION ALL "
            "SELECT DISTINCT 'cast', pg_catalog.format_type(c.castsource, NULL) || ' to ' || "
            "pg_catalog.format_type(c.casttarget, NULL), false FROM pg_catalog.pg_cast c JOIN pg_catalog.pg_proc p ON "
            "p.oid = c.castfunc JOIN "
            f"pg_catalog.pg_language l ON l.oid = p.prolang WHERE c.oid >= {FIRST_USER_OID} AND {written}"
        )
        used, text = set(), sql.lower()
        for kind, name, takes_row in found:
            if kind == "function" and (name in names or (takes_row and name in text)):
                used.add(f"function {name}()")
            elif kind == "cast" or (kind == "operator" and (name in sql or name in IMPLIED)):
                used.add(f"{kind} {name}")
        return frozenset(used)

    def drop(self, name: str) -> None:
        self.execute(POSTGRES.drop.format(self.temporary(name).sql("postgres")))

    def definitions(self, called: str) -> tuple[str, ...] | None:
        """IMMUTABLE functions: PostgreSQL asks them to read no table, so their text is only looked at for names."""
        if not called.startswith("function "):
            return None
        name = exp.Literal.string(called.removeprefix("function ").removesuffix("()")).sql("postgres")
        found = self.rows(
            "SELECT p.provolatile = 'i' AND p.prokind = 'f' AND p.pronamespace <> 'pg_catalog'::regnamespace AND NOT "
            "coalesce(p.pronargs = 1 AND t.typtype IN ('c', 'p'), false), coalesce(p.prosrc, '') || ' ' || "
            "coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), '') FROM pg_catalog.pg_proc p LEFT JOIN "
            f"pg_catalog.pg_type t ON t.oid = p.proargtypes[0] WHERE pg_catalog.lower(p.proname) = {name}"
        )
        return tuple(text for _, text in found) if found and all(promised for promised, _ in found) else None

    def temporary(self, name: str) -> exp.Table:
        return exp.Table(this=quoted(name), db=quoted("pg_temp"))

    def materialise(self, name: str, relation: Relation, prob: exp.Expr, base: int) -> exp.Expr:
        table = self.temporary(name)
        target = table.sql("postgres")
        self.execute(f"DROP TABLE IF EXISTS {target}")
        self.execute(
            f"CREATE TEMP TABLE {quoted(name).sql('postgres')} AS {numbering(relation, prob, base).sql('postgres')}"
        )
        self.execute(f"ANALYZE {target}")
        return table

    def register(self, name: str, frame: object) -> None:
        """A data frame as a temporary table."""
        names, rows = frame_rows(frame)
        self.discard(name)
        self.execute(f"CREATE TEMP TABLE {quoted(name).sql('postgres')} ({_typed_columns(names, rows)})")
        self._insert(name, rows)

    def _insert(self, name: str, rows: list[list[Any]]) -> None:
        cursor, target = self.connection.cursor(), quoted(name).sql("postgres")
        with self.connection.transaction(), cursor, cursor.copy(f"COPY pg_temp.{target} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def store(self, name: str, table: pa.Table, like: str) -> None:
        names, rows = frame_rows(table)
        target = quoted(name).sql("postgres")
        self.discard(name)
        try:
            self.execute(f"CREATE TEMP TABLE {target} AS {stored_like(names, like, self.describe(like) or ())}")
        except SQLError:  # what the SELECT reads is gone
            self.execute(f"CREATE TEMP TABLE {target} ({_typed_columns(names, rows)})")
        self._insert(name, rows)

    def discard(self, name: str) -> None:
        self.execute(f"DROP TABLE IF EXISTS pg_temp.{quoted(name).sql('postgres')}")

    def table(self, sql: str, columns: int) -> pa.Table:
        return python_columns(self.rows(sql), columns)

    def version(self) -> object:
        return None

    def layout(self, item: exp.Expr) -> tuple[tuple[str, str], ...] | None:
        found = self._columns(f"SELECT * FROM {item.sql('postgres')}")
        return tuple((name, str(kind)) for name, kind in found) if found is not None else None

    def contents(self, asked: Sequence[str]) -> list[object]:
        return [self.rows(query) for query in asked]

    def contents_query(self, item: exp.Expr, columns: Sequence[tuple[str, str]], prob: exp.Expr) -> str:
        """Of the rows as text: hashes of values would not tell 1.0 from 1.00. Floats may be rounded as text."""
        parts = []
        for name, kind in columns:
            value = column(name).sql("postgres")
            send = FLOATS.get(kind)
            parts.append(f"pg_catalog.{send}({value})" if send else value)
        p = prob.sql("postgres")
        row = f"pg_catalog.hashtextextended(ROW({', '.join(parts)})::pg_catalog.text, 0)"
        return (
            f"SELECT pg_catalog.count(*), pg_catalog.sum({row}) FROM {item.sql('postgres')} WHERE {p} <> 0 OR {p} IS "
            "NULL"
        )

    def present(self, paths: Sequence[tuple[str, ...]], *, fresh: bool = True) -> list[str | None]:
        names = [".".join(quoted(part).sql("postgres") for part in path) for path in paths]
        texts = ", ".join(f"({i}, {exp.Literal.string(name).sql('postgres')})" for i, name in enumerate(names))
        if not names:
            return []
        found = self.rows(
            f"SELECT c.relkind::text FROM (VALUES {texts}) AS w(i, name) LEFT JOIN pg_catalog.pg_class c ON c.oid = "
            "pg_catalog.to_regclass(w.name) ORDER BY w.i"
        )
        return ["r" if row[0] == "p" else row[0] for row in found]  # a partitioned table is a table

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            yield
            return
        try:
            with self.connection.transaction():
                self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                yield
        except psycopg.Error as error:
            raise SQLError(f"PostgreSQL: {error}") from None

    def interrupt(self) -> None:
        self.connection.cancel()

    def endangers(self) -> bool:
        """Never: every statement of ours has a savepoint."""
        return False

    def close(self) -> None:
        self.connection.close()

    def lineage(self, sql: str, shape: Shape) -> LineageRows:
        shown, measures, lineage, identity = shape.names()
        target = quoted("_sharpdnf_lineage").sql("postgres")
        self.execute(f"DROP TABLE IF EXISTS pg_temp.{target}")
        self.execute(f"CREATE TEMP TABLE {target} AS {grouped(sql, shape)}")
        try:
            names = ", ".join(quoted(n).sql("postgres") for n in shown)
            rows = self.rows(f"SELECT DISTINCT ON (_g) {names or 1} FROM pg_temp.{target} ORDER BY _g")
            answers = python_columns(rows, len(shown))
            wanted = ["_g", *(f"coalesce({n}, -1)" for n in [*lineage, *identity])]
            sums = [f"coalesce({m}::double precision, 0)" for m in measures]
            values = ", ".join([f"({w})::bigint" for w in wanted] + sums)
            flat = self._copy(f"SELECT {values} FROM pg_temp.{target}", len(wanted) + len(sums))
        finally:
            self.execute(f"DROP TABLE pg_temp.{target}")
        measured = flat[:, len(wanted) :].copy().view(np.float64).reshape(len(flat), len(sums))
        return sorted_flat(flat[:, : len(wanted)], len(lineage), measured, answers)

    def copy_in(self, target: str, numbers: IntArray) -> None:
        """Puts int64[rows, columns] into a table of integer columns, by binary COPY."""
        rows, columns = numbers.shape
        field = np.dtype([("size", ">i4"), ("value", ">i4")])
        records = np.empty(rows, dtype=np.dtype([("count", ">i2"), ("fields", field, (columns,))]))
        records["count"], records["fields"]["size"], records["fields"]["value"] = columns, 4, numbers
        header = b"PGCOPY\n\xff\r\n\0" + bytes(8)
        try:
            statement, cursor = f"COPY {target} FROM STDIN (FORMAT binary)", self.connection.cursor()
            with self.connection.transaction(), cursor, cursor.copy(statement) as copy:
                copy.write(header + records.tobytes() + b"\xff\xff")
        except psycopg.Error as error:
            raise SQLError(f"PostgreSQL: {error}") from None

    def _copy(self, sql: str, columns: int) -> IntArray:
        """int64[rows, columns]: a result of 8-byte columns without NULLs, as raw words."""
        try:
            statement, cursor = f"COPY ({sql}) TO STDOUT (FORMAT binary)", self.connection.cursor()
            with self.connection.transaction(), cursor, cursor.copy(statement) as copy:
                data = b"".join(bytes(part) for part in copy)
        except psycopg.Error as error:
            raise SQLError(f"PostgreSQL: {error}") from None
        field = np.dtype([("size", ">i4"), ("value", ">i8")])
        record = np.dtype([("count", ">i2"), ("fields", field, (columns,))])
        count = (len(data) - COPY_HEADER - 2) // record.itemsize
        records = np.frombuffer(data, dtype=record, count=count, offset=COPY_HEADER)
        return records["fields"]["value"].astype(np.int64).reshape(count, columns)


def _typed_columns(names: list[str], rows: list[list[Any]]) -> str:
    """What CREATE TABLE lists: PostgreSQL needs types, so they come from Arrow."""
    import pyarrow as pa

    listed = []
    for i, name in enumerate(names):
        kind = pa.array([row[i] for row in rows]).type
        word = (
            "bigint" if pa.types.is_integer(kind) else "double precision" if pa.types.is_floating(kind)
            else "boolean" if pa.types.is_boolean(kind) else "timestamp" if pa.types.is_timestamp(kind)
            else "date" if pa.types.is_date(kind) else "text"
        )  # fmt: skip
        listed.append(f"{quoted(name).sql('postgres')} {word}")
    return ", ".join(listed)
