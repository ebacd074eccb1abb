"""DuckDB: files, data frames and Arrow in, Arrow out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.columns import filled, floats
from sharpdnf.sql.backends.dialect import DUCKDB
from sharpdnf.sql.backends.duckdb_functions import FunctionList
from sharpdnf.sql.backends.duckdb_stamps import steps
from sharpdnf.sql.backends.duckdb_tree import same_tree, without_places
from sharpdnf.sql.backends.names import column, file_key, lower, quoted
from sharpdnf.sql.backends.protocol import Functions, LineageRows, Relation, Shape
from sharpdnf.sql.backends.rows import grouped, kept, lock_of, numbering, sorted_lineage
from sharpdnf.sql.backends.views import names_relations, parse_view
from sharpdnf.sql.refusal import refuse

if TYPE_CHECKING:
    import pyarrow as pa

SORTABLE = frozenset(
    [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "UTINYINT",
        "USMALLINT",
        "UINTEGER",
        "DATE",
        "TIMESTAMP",
        "TIME",
    ]
)
"""Types whose values are whole numbers to Arrow too, equal exactly if DuckDB finds them equal: no NaN, no collation."""
HASHED = (
    SORTABLE
    | frozenset(["VARCHAR", "BLOB", "HUGEINT", "UBIGINT", "UHUGEINT", "UUID", "DECIMAL", "ENUM"])
    | frozenset(["TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"])
)
"""Types whose different values differ for hash(); 30 days and a month are equal, and so are hashes of lists of them."""
NOT_IN_ARROW = re.compile(r"\bUHUGEINT\b|\bBIT\b|\bTIME WITH TIME ZONE\b")
"""Types without an Arrow type: the largest numbers become -1, bits lose their order, times their zone."""
BATCH = 10_000_000
"""How many rows an Arrow batch may have: only a column in one piece becomes a numpy array without a copy."""
READERS = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".json": "read_json", ".gz": "read_csv"}
OWN = "system.main."
"""Put in front of a function's name, it makes sure that DuckDB's own is called and not a macro of the same name."""
TEMPORARY = ("temp", "main")
KEPT_PAIRS = 1000
"""How many pairs of texts a connection remembers as read alike."""
KEPT_RELATIONS = 100
"""How many lineage queries a connection keeps bound."""
Listed = dict[tuple[str, str], tuple[Any, ...]]


class DuckDB:
    dialect = DUCKDB

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection, self.lock = connection, lock_of(connection)
        self._functions = FunctionList(connection)
        self._listed: dict[str, Listed] = {}
        self._path: list[tuple[str, str]] = []
        self._watched: frozenset[str] = frozenset()
        """The names that ``present`` was asked about last. They are listed together with those of the next query."""
        self._looked_up: set[str] = set()
        self._last: dict[str, Listed] = {}
        """What was listed for the last queries."""
        self._epoch: int | None = None
        """The epoch of the catalog in which it was; None if transactions could end in it, so that it must be again."""
        self._kept: set[str] = set()
        """The temporary tables of ours that were made in a transaction of ours."""
        self._in_snapshot = False
        """Whether a transaction of ours is open."""
        self._bound: dict[tuple[str, Shape], tuple[int | None, list[str], Any, Any]] = {}
        """Lineage queries that were run before: in which epoch, the columns that tell answers apart, the bound query,
        and the types of the result."""
        self._alike: set[tuple[str, str]] = set()
        """Pairs of texts that DuckDB's parser read alike, whatever the settings."""

    def fold(self, identifier: exp.Identifier) -> str:
        return lower(str(identifier.this))

    def execute(self, sql: str) -> None:
        try:
            self.connection.execute(sql)
        except duckdb.Error as error:
            raise SQLError(f"DuckDB: {error}") from None

    def keep(self, name: str, select: str, number: str | None = None) -> None:
        self.execute(kept(name, select))
        self._made(name)

    def _made(self, name: str) -> None:
        """Notes that a table of ours was made, if no transaction of the user's can take it back."""
        if self._in_snapshot:
            self._kept.add(name)
            self._functions.stamps.take_account(steps().table)

    def drop(self, name: str) -> None:
        self.execute(DUCKDB.drop.format(self.temporary(name).sql("duckdb")))
        if name in self._kept:
            self._kept.discard(name)
            self._functions.stamps.take_account(steps().no_table)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self.execute(sql)
        found: list[tuple[Any, ...]] = self.connection.fetchall()
        return found

    def arrow(self, sql: str) -> pa.Table:
        return self._deliver(self._relation(sql))

    def _relation(self, sql: str) -> duckdb.DuckDBPyRelation:
        """A query that is bound, so that its types are known, and not yet run."""
        try:
            relation = self.connection.sql(sql)
        except duckdb.Error as error:
            raise SQLError(f"DuckDB: {error}") from None
        if relation is None:
            raise SQLError("DuckDB: the statement has no result")
        return relation

    def _deliver(self, relation: duckdb.DuckDBPyRelation) -> pa.Table:
        convert = getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table
        try:
            return convert(BATCH)
        except duckdb.Error as error:
            raise SQLError(f"DuckDB: {error}") from None

    def numbers(self, sql: str, columns: int) -> FloatArray:
        table = self.arrow(sql)
        return np.column_stack([table.column(i).to_numpy() for i in range(columns)]).astype(np.float64)

    def describe(self, sql: str) -> tuple[str, ...] | None:
        bound = self._bound_or_none(f"SELECT * FROM ({sql}) AS _d LIMIT 0")
        return None if bound is None else tuple(bound.columns)

    def types(self, sql: str) -> tuple[str, ...] | None:
        bound = self._bound_or_none(sql)
        return None if bound is None else tuple(str(kind) for kind in bound.types)

    def _bound_or_none(self, sql: str) -> duckdb.DuckDBPyRelation | None:
        """A query that is bound, and None if it cannot be, which leaves a transaction of the user's as it is.

        To execute what does not bind would abort it.
        """
        try:
            return self._relation(sql)
        except SQLError:
            return None

    def untyped(self, sql: str, count: int) -> frozenset[int]:
        return frozenset()

    def affinities(self, sql: str, count: int) -> tuple[str, ...]:
        return ("",) * count

    def prepare(self, names: frozenset[str]) -> None:
        if not names:
            self._listed, self._path = {}, []
            return
        self._looked_up |= names
        self._functions.current()
        self._list_together(names | self._watched)
        self._listed = self._last
        self._path = self._search_path()

    def _list_together(self, names: frozenset[str]) -> None:
        """Sees to it that ``_last`` has these names: listing takes a millisecond, however many there are."""
        epoch = self._functions.stamps.epoch if self._functions.settled else None
        if epoch is None or self._epoch != epoch:
            self._last, self._epoch = {}, epoch
        missing = names - self._last.keys()
        if missing:
            self._last = {**self._last, **self._list(missing)}

    def _list(self, names: frozenset[str]) -> dict[str, Listed]:
        """Name -> (catalog, schema) -> (catalog, schema, table, whether it is a view, file, number, how many columns);
        the keys are folded."""
        wanted = _listed(names)
        rows = self.rows(
            "SELECT r.database_name, r.schema_name, r.table_name, r.is_view, d.path, r.oid, r.column_count FROM ("
            "SELECT database_name, schema_name, table_name, false AS is_view, table_oid AS oid, column_count FROM "
            f"{OWN}duckdb_tables() WHERE {OWN}lower(table_name) IN ({wanted}) UNION ALL "
            "SELECT database_name, schema_name, view_name, true, view_oid, column_count FROM "
            f"{OWN}duckdb_views() WHERE {OWN}lower(view_name) IN ({wanted}) AND NOT internal) AS r "
            f"JOIN {OWN}duckdb_databases() AS d ON d.database_name = r.database_name"
        )
        found: dict[str, Listed] = {name: {} for name in names}
        for row in rows:
            found.get(lower(row[2]), {})[lower(row[0]), lower(row[1])] = row
        return found

    def looked_up(self) -> frozenset[str]:
        found, self._looked_up = frozenset(self._looked_up), set()
        return found

    def state(self, names: frozenset[str]) -> object:
        """By two short statements, as long as the stamps of the catalog show that nothing was made, altered or dropped.
        Else, or where a transaction may end without a stamp, the relations are listed again, and their columns too."""
        functions, stamp = self._functions.current(), self._functions.stamps.last
        every = names | self._watched
        if stamp is None:
            return None
        self._list_together(every)
        relations = frozenset(row for name in every for row in self._last[name].values())
        columns = None if self._functions.settled else self._columns(every)
        return functions, relations, columns, stamp.settings

    def _columns(self, names: frozenset[str]) -> frozenset[tuple[Any, ...]]:
        """Every column of the relations of these names."""
        found = self.rows(
            f"SELECT database_name, schema_name, table_name, column_name, data_type FROM {OWN}duckdb_columns() WHERE "
            f"{OWN}lower(table_name) IN ({_listed(names)})"
        )
        return frozenset(found)

    def _view_sql(self, *path: str) -> str | None:
        """The statement that made a view: telling it of all views takes DuckDB a millisecond."""
        catalog, schema, view = (exp.Literal.string(part).sql("duckdb") for part in path)
        found = self.rows(
            f"SELECT sql FROM {OWN}duckdb_views() WHERE database_name = {catalog} AND schema_name = {schema} AND "
            f"view_name = {view}"
        )
        return found[0][0] if found else None

    def _search_path(self) -> list[tuple[str, str]]:
        """(catalog, schema) of every entry that USE or SET search_path has set, or of the default, folded."""
        setting, catalog, schema = self.rows(
            f"SELECT {OWN}current_setting('search_path'), {OWN}current_database(), {OWN}current_schema()"
        )[0]
        part = r'(?:"(?:[^"]|"")*"|[^.,"]+)'
        found: list[tuple[str, str]] = []
        for first, second in re.findall(rf"({part})(?:\.({part}))?(?:,|$)", lower(setting)):
            names = [name[1:-1].replace('""', '"') if name.startswith('"') else name for name in (first, second)]
            if not second and found and found[0][0] != lower(catalog):
                refuse(f"the search path {setting!r}", "write catalog.schema for each of its entries")
            found.append((names[0], names[1]) if second else (lower(catalog), names[0]))
        return found or [(lower(catalog), lower(schema))]

    def _places(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> list[list[tuple[str, str]]]:
        """Where DuckDB looks for a name, in order: one list, or two for x.name, where x is a catalog or a schema.

        Temporary relations come first, even in a view; then the schema of the view, whatever USE says; then the search
        path. (Found by experiment; tests/test_sql_names.py compares this with what DuckDB reads.)
        """
        if len(parts) == 3:
            return [[(parts[0], parts[1])]]
        path = self._path or self._search_path()
        own = [(home[0], home[1])] if home is not None and home[0] != "temp" else []
        near = [TEMPORARY, *own, *path]
        whole = [*near, (path[0][0], "main")]
        if len(parts) == 1:
            return [whole]
        first = parts[0]
        by_catalog = [place for place in near if place[0] == first] or [(first, "main")]
        by_schema = [place for place in [TEMPORARY, *((c, first) for c, _ in own), *whole] if place[1] == first]
        return [by_catalog, by_schema or [(path[0][0], first)]]

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        name, dotted = parts[-1], ".".join(parts)
        self._looked_up.add(name)
        listed = self._listed[name] if name in self._listed else self._list(frozenset([name]))[name]
        if not listed:
            return None
        home = tuple(lower(part) for part in home) if home is not None else None
        firsts = [next((listed[p] for p in places if p in listed), None) for places in self._places(parts, home)]
        found = [row for row in firsts if row is not None]
        if len(found) > 1:
            refuse(f"the name {dotted!r}", f"{parts[0]!r} is both a catalog and a schema: say catalog and schema")
        if not found:
            return None
        catalog, schema, table, is_view, file, *_ = found[0]
        sql = self._view_sql(catalog, schema, table) if is_view else None
        if sql and catalog == "temp" and home is not None and home[0] != "temp" and names_relations(sql):
            refuse(f"the temporary view {dotted!r} in another view", "its names would mean those of that view's schema")
        path = (catalog, schema, table)
        relation = Relation(path, path, ())
        columns = self.describe(exp.select(exp.Star()).from_(relation.table()).sql("duckdb"))
        if columns is None:
            raise SQLError(f"DuckDB cannot read {'.'.join(path)!r}")
        definition, labels = parse_view(sql, DUCKDB) if sql else (None, None)
        key = (file_key(file) if file else catalog, schema, table)  # one file may be attached under two names
        return Relation(key, path, columns, definition, labels)

    def collates(self) -> bool:
        return False

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        return ()

    def readings(self, first: str, second: str) -> tuple[object, object]:
        """The parse trees, without the places in the text."""
        if (first, second) in self._alike:
            return first, first
        call, setting = (f"{OWN}{name}" for name in ("json_serialize_sql(CAST(? AS VARCHAR))", "current_setting"))
        ask = f"SELECT {call}, {call}, {setting}('default_order'), {setting}('default_null_order')"
        *found, order, nulls = self.connection.execute(ask, [first, second]).fetchall()[0]
        plain = [None if tree.startswith('{"error":true') else without_places(tree, False) for tree in found]
        if plain[0] is not None and plain[0] == plain[1]:
            if len(self._alike) < KEPT_PAIRS:
                self._alike.add((first, second))
            return first, first
        usual = order.startswith("ASC") and nulls == "NULLS_LAST"
        one, two = (None if tree.startswith('{"error":true') else without_places(tree, usual) for tree in found)
        if one is None or two is None or one == two:
            return one, two
        return same_tree(one), same_tree(two)

    def functions(self) -> Functions:
        return self._functions.last().builtin

    def user_code(self, names: frozenset[str], sql: str) -> frozenset[str]:
        found = self._functions.last() if self._listed else self._functions.current()
        return frozenset(f"function {name}()" for name in self._functions.called(names, sql, found))

    def definitions(self, called: str) -> tuple[str, ...] | None:
        return self._functions.definitions(called.removeprefix("function ").removesuffix("()"))

    def temporary(self, name: str) -> exp.Table:
        return exp.Table(this=quoted(name), db=quoted("main"), catalog=quoted("temp"))

    def materialise(self, name: str, relation: Relation, prob: exp.Expr, base: int) -> exp.Expr:
        table = self.temporary(name)
        self.execute(
            f"CREATE OR REPLACE TEMP TABLE {table.sql('duckdb')} AS "
            f"{numbering(relation, prob, base, 'INTEGER').sql('duckdb')}"
        )
        self._made(name)
        return table

    def register(self, name: str, frame: object) -> None:
        if isinstance(frame, str | os.PathLike):
            path = os.fspath(frame)
            reader = READERS.get(os.path.splitext(path)[1].lower())
            if reader is None:
                raise ValueError(f"register takes a data frame or a file ending in {', '.join(READERS)}, not {path!r}")
            source = exp.Literal.string(path).sql("duckdb")
            target = exp.Table(this=quoted(name)).sql("duckdb")
            self.execute(f"CREATE OR REPLACE TEMP VIEW {target} AS SELECT * FROM {reader}({source})")
            return
        if isinstance(frame, dict):
            import pyarrow as pa

            frame = pa.table(frame)
        try:
            self.connection.register(name, frame)
        except duckdb.Error:
            raise ValueError(f"register takes a data frame or a file, not {type(frame).__name__}") from None

    def store(self, name: str, table: pa.Table, like: str) -> None:
        self.connection.register(name, table)
        self._functions.stamps.take_account(steps().frame)

    def discard(self, name: str) -> None:
        self.connection.unregister(name)
        self._functions.stamps.take_account(steps().no_frame)

    def table(self, sql: str, columns: int) -> pa.Table:
        return self.arrow(sql)

    def version(self) -> object:
        return None

    def layout(self, item: exp.Expr) -> tuple[tuple[str, str], ...] | None:
        bound = self._bound_or_none(f"SELECT * FROM {item.sql('duckdb')} LIMIT 0")
        return None if bound is None else tuple((entry[0], str(entry[1])) for entry in bound.description)

    def contents(self, asked: Sequence[str]) -> list[object]:
        """One statement for all: each takes a millisecond, however small the table."""
        if not asked:
            return []
        whole = " UNION ALL ".join(f"SELECT {i} AS i, {columns}" for i, columns in enumerate(asked))
        return [row[1:] for row in sorted(self.rows(whole))]

    def contents_query(self, item: exp.Expr, columns: Sequence[tuple[str, str]], prob: exp.Expr) -> str:
        parts = []
        for name, kind in columns:
            value, plain = column(name).sql("duckdb"), kind.split("(")[0]
            parts.append(value)
            if plain in ("FLOAT", "DOUBLE"):  # 0.0 and -0.0 have one hash
                parts += [f"{OWN}signbit({value})"] if prob != column(name) else []
            elif plain not in HASHED:
                parts.append(f"CAST({value} AS VARCHAR)")
        p = prob.sql("duckdb")
        row = f"{OWN}hash({OWN}hash({', '.join(parts)}))"  # twice: the first only xors the last column
        return f"{OWN}count(*), {OWN}sum({row}) FROM {item.sql('duckdb')} WHERE {p} <> 0 OR {p} IS NULL"

    def present(self, paths: Sequence[tuple[str, ...]], *, fresh: bool = True) -> list[str | None]:
        names = frozenset(lower(path[-1]) for path in paths)
        listed = self._list(names) if names and (fresh or not names <= self._last.keys()) else self._last
        self._watched = names if not fresh else self._watched
        found = [listed[lower(path[-1])].get((lower(path[0]), lower(path[1]))) for path in paths]
        return [None if row is None else "view" if row[3] else "table" for row in found]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction, unless one is open. An error while a statement runs aborts a transaction of DuckDB, and its
        COMMIT then takes everything back without a word."""
        if self._in_transaction():
            try:
                yield
            except SQLError as error:
                if self._aborted():
                    raise SQLError(f"{error}; DuckDB has aborted your open transaction with it: ROLLBACK") from None
                raise
            return
        self.execute("BEGIN TRANSACTION")
        self._in_snapshot = True
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._in_snapshot = False

    def _in_transaction(self) -> bool:
        """Only in a transaction two statements have the same number."""
        number = f"SELECT {OWN}txid_current()"
        return self.rows(number) == self.rows(number)

    def restart(self) -> None:
        """Begins the transaction of a snapshot again if an interrupted statement has aborted it."""
        if self._in_snapshot and self._aborted():
            self._roll_back()
            self.execute("BEGIN TRANSACTION")

    def _aborted(self) -> bool:
        """Whether the open transaction takes no more statements."""
        try:
            self.connection.execute("SELECT 1").fetchall()
        except duckdb.Error:
            return True
        return False

    def _roll_back(self) -> None:
        """Ends our transaction. It is tried twice, since an interrupt meant for the query may hit the first attempt."""
        self._functions.stamps.lose()  # the tables made in it are gone
        for _ in range(3):
            try:
                self.connection.execute("ROLLBACK")
                return
            except duckdb.TransactionException:  # there is none any more
                return
            except duckdb.Error:
                continue

    def interrupt(self) -> None:
        self.connection.interrupt()

    def endangers(self) -> bool:
        return not self._in_snapshot and self._in_transaction()

    def close(self) -> None:
        self.connection.close()

    def lineage(self, sql: str, shape: Shape) -> LineageRows:
        shown, measures, lineage, identity = shape.names()
        keys, table = self._lineage_table(sql, shape)
        return sorted_lineage(
            [whole_numbers(table.column(name)) for name in keys],
            [filled(table.column(name)) for name in lineage],
            [filled(table.column(name)) for name in identity],
            floats(table, measures),
            lambda first: table.select(shown).take(first) if shown else table.select([]),
        )

    def _lineage_table(self, sql: str, shape: Shape) -> tuple[list[str], pa.Table]:
        """The columns that tell answers apart, and the rows. A text that was asked before is not bound for its types
        again while the catalog is the same."""
        epoch = self._functions.stamps.epoch if self._functions.settled else None
        at, keys, relation, schema = self._bound.get((sql, shape), (None, [], None, None))
        if relation is not None and at is not None and at == epoch:
            table = self._deliver(relation)
            if table.schema == schema:
                return keys, table
        relation = self._relation(sql)
        for kind in relation.types[: shape.shown]:
            if NOT_IN_ARROW.search(str(kind)):
                refuse(f"an answer column of type {kind}", "Arrow would show other values; cast it to VARCHAR")
        keys = shape.names()[0]
        if not all(str(kind).split("(")[0] in SORTABLE for kind in relation.types[: shape.shown]):
            relation, keys = self._relation(grouped(sql, shape)), ["_g"]
        table = self._deliver(relation)
        if len(self._bound) >= KEPT_RELATIONS:
            self._bound.clear()
        self._bound[sql, shape] = epoch, keys, relation, table.schema
        return keys, table


def _listed(names: frozenset[str]) -> str:
    """Names as SQL's strings."""
    return ", ".join("'" + name.lower().replace("'", "''") + "'" for name in sorted(names))


def whole_numbers(
    column: pa.ChunkedArray,
) -> tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.uint8]]:
    """int[rows] that are equal and ordered as the values of a SORTABLE type; uint8[rows]: NULL or not, or empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bits = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
    null = pc.is_null(column).to_numpy().view(np.uint8) if column.null_count else np.zeros(0, dtype=np.uint8)
    if not pa.types.is_integer(column.type) and not pa.types.is_boolean(column.type):
        column = column.cast(bits[column.type.bit_width])
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0).cast(column.type))
    return column.cast(pa.int32() if column.type == pa.int32() else pa.int64()).to_numpy(), null
