"""SQLite: row numbers beside the user's tables, so that collations, affinities and indexes stay in force."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import TokenType, exp

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.columns import frame_rows, python_columns, sorted_flat
from sharpdnf.sql.backends.dialect import SQLITE, tokens_of
from sharpdnf.sql.backends.names import column, file_key, lower, quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Functions, LineageRows, Relation, Shape
from sharpdnf.sql.backends.rows import grouped, kept, lock_of, numbering, recopied, stored_like
from sharpdnf.sql.backends.views import parse_view
from sharpdnf.sql.refusal import refuse

if TYPE_CHECKING:
    import pyarrow as pa

DETERMINISTIC = 0x800
"""The flag of a function that gives the same for the same arguments."""
VOLATILE = frozenset(["random", "randomblob", "changes", "total_changes", "last_insert_rowid", "load_extension"])
IMPLIED = frozenset(
    ["like", "glob", "regexp", "match", "->", "->>", "current_date", "current_time", "current_timestamp"]
)
"""Functions that SQL calls by a keyword or an operator."""
OURS = frozenset(["row_number", "dense_rank", "count", "sum", "coalesce", "group_concat", "char", "typeof", "lower"])
"""What our own statements call."""
CHUNK = 200_000
"""How many rows of lineage come in one string: SQLite hands them over as text, so that no Python object is made for
each row."""


class SQLite:
    dialect = SQLITE

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.lock = connection, lock_of(connection)
        self._ours = 0
        """How often our own statements changed the list of temporary tables."""
        self._in_snapshot = False
        """Whether a transaction of ours is open."""
        self._inserted = 0
        """How many rows our own statements put into temporary tables."""

    def fold(self, identifier: exp.Identifier) -> str:
        return lower(str(identifier.this))

    def execute(self, sql: str) -> None:
        before = self._temporary_schema()
        try:
            self.rows(sql)
        finally:
            self._ours += self._temporary_schema() - before

    def _temporary_schema(self) -> int:
        return int(self.rows("PRAGMA temp.schema_version")[0][0])

    def keep(self, name: str, select: str, number: str | None = None) -> None:
        self.execute(kept(name, select))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.row_factory = None
        made, self.connection.text_factory = self.connection.text_factory, str
        try:
            return cursor.execute(sql).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise SQLError(f"SQLite: {error}") from None
        finally:
            self.connection.text_factory = made
            cursor.close()

    def numbers(self, sql: str, columns: int) -> FloatArray:
        return np.array(self.rows(sql), dtype=np.float64).reshape(-1, columns)

    def describe(self, sql: str) -> tuple[str, ...] | None:
        cursor = self.connection.cursor()
        try:
            cursor.execute(f"SELECT * FROM ({sql}) AS _d LIMIT 0")
            return tuple(entry[0] for entry in cursor.description)
        except (sqlite3.Error, sqlite3.Warning):
            return None
        finally:
            cursor.close()

    def types(self, sql: str) -> tuple[str, ...] | None:
        return None  # values have types, columns do not

    def untyped(self, sql: str, count: int) -> frozenset[int]:
        """Columns of expressions, which have no affinity at all: 1 equals CAST('1' AS TEXT) there, but not '1'."""
        names = [f"_{i}" for i in range(count)]
        tests = ", ".join(f"{name} = CAST(1 AS TEXT) AND {name} <> char(49)" for name in names)
        ones = ", ".join("1" for _ in names)
        first = ", ".join(f"_d.{quoted(n).sql('sqlite')}" for n in (self.describe(sql) or ())[:count])
        probe = f"WITH _p({', '.join(names)}) AS (SELECT {first} FROM ({sql}) AS _d WHERE 0 UNION SELECT {ones})"
        return frozenset(i for i, loose in enumerate(self.rows(f"{probe} SELECT {tests} FROM _p")[0]) if loose)

    def affinities(self, sql: str, count: int) -> tuple[str, ...]:
        """Finds the affinities by what becomes of '1' and of 1 when SQLite stores them in the same column."""
        names = [f"_{i}" for i in range(count)]
        first = ", ".join(f"_d.{quoted(n).sql('sqlite')}" for n in (self.describe(sql) or ())[:count])
        texts, ones, types = (
            ", ".join(parts) for parts in (["'1'"] * count, ["1"] * count, map("typeof({})".format, names))
        )
        probe = (
            f"WITH _p({', '.join(names)}) AS MATERIALIZED (SELECT {first} FROM ({sql}) AS _d WHERE 0 UNION ALL SELECT "
            f"{texts} UNION ALL SELECT {ones}) SELECT {types} FROM _p"
        )
        text, number = self.rows(probe)
        known = {("integer", "integer"): "INTEGER", ("real", "real"): "REAL", ("text", "text"): "TEXT"}
        return tuple(known.get(pair, "") for pair in zip(text, number, strict=True))

    def prepare(self, names: frozenset[str]) -> None:
        pass

    def looked_up(self) -> frozenset[str]:
        return frozenset()

    def state(self, names: frozenset[str]) -> object:
        return None  # no counter tells of new functions

    def _databases(self) -> list[tuple[str, str]]:
        """(name, file) in the order in which SQLite looks for an unqualified name: temporary, main, attached."""
        listed = self.rows("PRAGMA database_list")
        return [(name, file) for _, name, file in sorted(listed, key=lambda row: (row[1] != "temp", row[0]))]

    @staticmethod
    def _schema_table(schema: str) -> str:
        return f"{quoted(schema).sql('sqlite')}.{'sqlite_temp_schema' if schema == 'temp' else 'sqlite_schema'}"

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        if len(parts) > 2:
            raise SQLError(f"SQLite names have at most a schema and a table, not {'.'.join(parts)!r}")
        databases = self._databases()
        if len(parts) == 2:
            databases = [entry for entry in databases if lower(entry[0]) == parts[0]]
        elif home is not None and home != ("temp",):  # a view that is not temporary sees its own database alone
            databases = [entry for entry in databases if entry[0] == home[0]]
        text = exp.Literal.string(parts[-1]).sql("sqlite")
        found = [
            (schema, file, *row)
            for schema, file in databases
            for row in self.rows(
                f"SELECT name, type, sql FROM {self._schema_table(schema)} WHERE type IN ('table', 'view') AND "
                f"lower(name) = {text}"
            )
        ]
        if not found:
            return None
        schema, file, name, kind, sql = found[0]
        path, key = (schema, name), (file_key(file) if file else schema, lower(name))  # a file may have two names
        listed = self.rows(f"PRAGMA {quoted(schema).sql('sqlite')}.table_xinfo({quoted(name).sql('sqlite')})")
        columns = tuple(row[1] for row in listed if row[6] != 1)  # generated columns too, as * shows them
        if kind == "view":
            return Relation(key, path, columns, *parse_view(sql, SQLITE))
        version = str(sql) if str(sql).upper().startswith("CREATE VIRTUAL") else ""
        return Relation(key, path, columns, row_id=self._row_id(path, columns), version=version)

    def _row_id(self, path: tuple[str, str], columns: tuple[str, ...]) -> str | None:
        """The name under which a table shows its row numbers, if it has them."""
        taken = {lower(c) for c in columns}
        name = next((r for r in ("rowid", "_rowid_", "oid") if r not in taken), None)
        table = ".".join(quoted(part).sql("sqlite") for part in path)
        return name if name and self.describe(f"SELECT {name} FROM {table}") is not None else None

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        """For a virtual table, every relation that its definition names, such as the content of a full-text index."""
        words = {lower(word) for word in re.findall(r"\w+", relation.version)} - {lower(relation.path[-1])}
        found = [self.resolve((lower(relation.path[0]), word), None) for word in sorted(words)]
        return tuple(other for other in found if other is not None)

    def collates(self) -> bool:
        """Whether any table or view has a collation of its own; copies of rows would lose it."""
        return any(
            self.rows(f"SELECT 1 FROM {self._schema_table(schema)} WHERE sql LIKE '%collate%' LIMIT 1")
            for schema, _ in self._databases()
        )

    def readings(self, first: str, second: str) -> tuple[object, object]:
        """The programs that SQLite makes of them, without the comments."""

        def program(sql: str) -> object:
            try:
                return [row[:7] for row in self.rows(f"EXPLAIN {sql}")]
            except SQLError:
                return None

        return program(first), program(second)

    def functions(self) -> Functions:
        listed = self.rows("SELECT DISTINCT lower(name), type FROM pragma_function_list")
        scalars = {name for name, kind in listed if kind == "s"}
        aggregates = {name for name, kind in listed if kind != "s" and name not in scalars - {"max", "min"}}
        return Functions(frozenset(aggregates), VOLATILE)

    def user_code(self, names: frozenset[str], sql: str) -> frozenset[str]:
        found = {row[0] for row in self.rows("SELECT DISTINCT lower(name) FROM pragma_function_list WHERE NOT builtin")}
        named = (TokenType.IDENTIFIER, TokenType.STRING)  # "match" is a name, MATCH calls match()
        words = {token.text.lower() for token in tokens_of(sql, SQLITE) if token.token_type not in named}
        implied = (found & IMPLIED & words) | (found & OURS)
        return frozenset(f"function {name}()" for name in (names & found) | implied)

    def drop(self, name: str) -> None:
        self.execute(SQLITE.drop.format(self.temporary(name).sql("sqlite")))

    def definitions(self, called: str) -> tuple[str, ...] | None:
        name = called.removeprefix("function ").removesuffix("()")
        if name in OURS:
            return None
        text = exp.Literal.string(name).sql("sqlite")
        listed = f"SELECT type, flags, builtin FROM pragma_function_list WHERE lower(name) = {text}"
        promised = [kind == "s" and flags & DETERMINISTIC and not builtin for kind, flags, builtin in self.rows(listed)]
        return () if promised and all(promised) else None

    def temporary(self, name: str) -> exp.Table:
        return exp.Table(this=quoted(name), db=quoted("temp"))

    def materialise(self, name: str, relation: Relation, prob: exp.Expr, base: int) -> exp.Expr:
        table = self.temporary(name)
        target = table.sql("sqlite")
        self.execute(f"DROP TABLE IF EXISTS {target}")
        rowid, plain = relation.row_id, relation.table().sql("sqlite")
        if rowid is not None:
            p = prob.sql("sqlite")
            self.execute(
                f"CREATE TEMP TABLE {quoted(name).sql('sqlite')} AS SELECT row_number() OVER (ORDER BY {rowid}) + "
                f"{base - 1} AS {ROW_ID}, {rowid} AS _rid FROM {plain} WHERE {p} > 0"
            )
            index = quoted(f"{name}_rid").sql("sqlite")
            self.execute(f"CREATE UNIQUE INDEX temp.{index} ON {quoted(name).sql('sqlite')} (_rid)")
            columns = ", ".join(column(c, "_t").sql("sqlite") for c in relation.columns)
            sql = f"(SELECT _m.{ROW_ID}, {columns} FROM {plain} AS _t JOIN {target} AS _m ON _m._rid = _t.{rowid})"
            return exp.maybe_parse(sql, dialect="sqlite")
        if self.collates():
            refuse(
                f"the uncertain relation {relation.path[-1]!r}",
                "it has no row numbers and a copy of it would lose its collations",
            )
        self.execute(
            f"CREATE TEMP TABLE {quoted(name).sql('sqlite')} AS {numbering(relation, prob, base).sql('sqlite')}"
        )
        bare = self.untyped(f"SELECT * FROM {plain}", len(relation.columns))
        return recopied(table, list(relation.columns), bare, ROW_ID)

    def register(self, name: str, frame: object) -> None:
        """A data frame as a temporary table."""
        names, rows = frame_rows(frame)
        target = quoted(name).sql("sqlite")
        columns = ", ".join(quoted(n).sql("sqlite") for n in names)
        self.rows(f"DROP TABLE IF EXISTS temp.{target}")
        self.rows(f"CREATE TEMP TABLE {target} ({columns})")
        self._insert(f"temp.{target}", rows, len(names))

    def _insert(self, target: str, rows: Sequence[Sequence[Any]], columns: int) -> None:
        """WITH in front, or Python would begin a transaction."""
        marks = ", ".join("?" * columns)
        try:
            self.connection.executemany(f"WITH _x AS (SELECT 1) INSERT INTO {target} VALUES ({marks})", rows)
        except sqlite3.Error as error:
            raise SQLError(f"SQLite: {error}") from None

    def store(self, name: str, table: pa.Table, like: str) -> None:
        names, rows = frame_rows(table)
        target = quoted(name).sql("sqlite")
        self.discard(name)
        try:
            self.execute(f"CREATE TEMP TABLE {target} AS {stored_like(names, like, self.describe(like) or ())}")
        except SQLError:  # what the SELECT reads is gone
            self.execute(f"CREATE TEMP TABLE {target} ({', '.join(quoted(n).sql('sqlite') for n in names)})")
        self.insert(f"temp.{target}", [tuple(row) for row in rows], len(names))

    def discard(self, name: str) -> None:
        self.execute(f"DROP TABLE IF EXISTS temp.{quoted(name).sql('sqlite')}")

    def table(self, sql: str, columns: int) -> pa.Table:
        return python_columns(self.rows(sql), columns)

    def insert(self, target: str, rows: Sequence[tuple[Any, ...]], columns: int) -> None:
        """Puts rows into a temporary table of ours, which does not count as a change of the data."""
        before = self.connection.total_changes
        try:
            self._insert(target, rows, columns)
        finally:
            self._inserted += self.connection.total_changes - before

    def version(self) -> object:
        """``data_version`` counts the commits of other connections, ``total_changes`` the rows that this one changed,
        ``schema_version`` its DDL and VACUUM; temporary tables of our own making are taken off.

        A rollback brings old rows back without counting; it takes the numbered rows along, which is seen.
        """
        found = []
        for schema, _ in self._databases():
            name = quoted(schema).sql("sqlite")
            pragmas = [self.rows(f"PRAGMA {name}.{what}_version")[0][0] for what in ("data", "schema")]
            found.append((schema, pragmas[0], pragmas[1] - (self._ours if schema == "temp" else 0)))
        return found, self.connection.total_changes - self._inserted

    def layout(self, item: exp.Expr) -> tuple[tuple[str, str], ...] | None:
        names = self.describe(f"SELECT * FROM {item.sql('sqlite')}")
        return tuple((name, "") for name in names) if names is not None else None

    def contents(self, asked: Sequence[str]) -> list[object]:
        assert not asked, "SQLite has a counter of changes (version), so contents are never compared"
        return []

    def contents_query(self, item: exp.Expr, columns: Sequence[tuple[str, str]], prob: exp.Expr) -> str:
        raise AssertionError("SQLite has a counter of changes (version), so contents are never compared")

    def present(self, paths: Sequence[tuple[str, ...]], *, fresh: bool = True) -> list[str | None]:
        kinds: dict[tuple[str, str], str] = {}
        schemas = {schema for schema, _ in self._databases()}
        for schema in {path[0] for path in paths} & schemas:
            names = ", ".join(exp.Literal.string(lower(path[1])).sql("sqlite") for path in paths)
            rows = self.rows(
                f"SELECT lower(name), type FROM {self._schema_table(schema)} WHERE type IN ('table', "
                f"'view') AND lower(name) IN ({names})"
            )
            kinds.update({(schema, name): kind for name, kind in rows})
        return [kinds.get((path[0], lower(path[1]))) for path in paths]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self.connection.in_transaction:
            yield
            return
        self.rows("BEGIN")
        self._in_snapshot = True
        try:
            yield
            self._end("COMMIT")
        except BaseException:
            self._end("ROLLBACK")
            raise
        finally:
            self._in_snapshot = False

    def _end(self, how: str) -> None:
        if self.connection.in_transaction:  # some errors have ended it already
            self.rows(how)

    def interrupt(self) -> None:
        """Not in the caller's transaction: SQLite would roll it back without a word. Ctrl-C then waits for the end of
        the statement, as it does wherever Python calls SQLite."""
        if not self.endangers():
            self.connection.interrupt()

    def endangers(self) -> bool:
        return self.connection.in_transaction and not self._in_snapshot

    def close(self) -> None:
        self.connection.close()

    def lineage(self, sql: str, shape: Shape) -> LineageRows:
        shown, measures, lineage, identity = shape.names()
        target = quoted("_sharpdnf_lineage").sql("sqlite")
        self.execute(f"DROP TABLE IF EXISTS temp.{target}")
        self.execute(f"CREATE TEMP TABLE {target} AS {grouped(sql, shape, bare=True)}")
        try:
            names = ", ".join(quoted(n).sql("sqlite") for n in shown) or "1"
            answers = python_columns(
                self.rows(f"SELECT {names} FROM temp.{target} GROUP BY _g ORDER BY _g"), len(shown)
            )
            whole = ["_g", *(f"coalesce({n}, -1)" for n in [*lineage, *identity])]
            parts = self.rows(
                f"SELECT group_concat({' || char(44) || '.join(whole)}) FROM temp.{target} GROUP BY rowid / {CHUNK}"
            )
            arrays = [np.fromstring(text, dtype=np.int64, sep=",") for (text,) in parts]
            flat = np.concatenate([np.zeros(0, np.int64), *arrays]).reshape(-1, len(whole))
            sums = ", ".join(f"coalesce({m}, 0.0)" for m in measures)
            measured = np.zeros((len(flat), 0))
            if sums:
                measured = self.numbers(f"SELECT {sums} FROM temp.{target} ORDER BY rowid", len(measures))
        finally:
            self.execute(f"DROP TABLE temp.{target}")
        return sorted_flat(flat, len(lineage), measured, answers)
