"""DuckDB: files, data frames and Arrow in, Arrow out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf import _native
from sharpdnf.errors import SQLError
from sharpdnf.sql.allowed import refuse
from sharpdnf.sql.backends import FloatArray, LineageRows, RowArray, Shape, grouped, numbering, quoted
from sharpdnf.sql.backends.duck_functions import FunctionList
from sharpdnf.sql.catalog import Functions, Relation
from sharpdnf.sql.tables import parse_view

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
BATCH = 10_000_000
"""Rows of an Arrow batch: a column in one piece becomes a numpy array without a copy."""
READERS = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".json": "read_json", ".gz": "read_csv"}


class DuckDB:
    dialect = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._functions = FunctionList(connection)
        self._listed: dict[str, list[tuple[Any, ...]]] = {}
        self._frames: dict[str, object] = {}

    def fold(self, identifier: exp.Identifier) -> str:
        return str(identifier.this).lower()

    def execute(self, sql: str) -> None:
        try:
            self.connection.execute(sql)
        except duckdb.Error as error:
            raise SQLError(f"DuckDB: {error}") from None

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
        try:
            self.connection.execute(f"SELECT * FROM ({sql}) AS _d LIMIT 0")
        except duckdb.Error:
            return None
        return tuple(entry[0] for entry in self.connection.description)

    def prepare(self, names: frozenset[str]) -> None:
        self._listed = self._list(names) if names else {}

    def _list(self, names: frozenset[str]) -> dict[str, list[tuple[Any, ...]]]:
        """By lower-case name: (catalog, schema, table, SQL of a view, whether it is in sight) of all relations."""
        wanted = ", ".join(exp.Literal.string(name).sql("duckdb") for name in sorted(names))
        own = "system.main."  # with it no macro of the same name is called
        near = f"(database_name = {own}current_database() AND schema_name = {own}current_schema()) OR temporary"
        rows = self.rows(
            f"SELECT database_name, schema_name, table_name, NULL, {near} FROM {own}duckdb_tables() WHERE "
            f"{own}lower(table_name) IN ({wanted}) UNION ALL SELECT database_name, schema_name, view_name, sql, {near} "
            f"FROM {own}duckdb_views() WHERE {own}lower(view_name) IN ({wanted}) AND NOT internal"
        )
        return {name: [row for row in rows if row[2].lower() == name] for name in names}

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        name = parts[-1]
        found = self._listed[name] if name in self._listed else self._list(frozenset([name]))[name]
        for position, part in enumerate(reversed(parts[:-1])):  # schema, then catalog; one part may be either
            keep = [row for row in found if str(row[1 - position]).lower() == part]
            if not keep and position == 0 and len(parts) == 2:
                keep = [row for row in found if str(row[0]).lower() == part and row[1] == "main"]
            found = keep
        if len(found) > 1 and len(parts) == 1 and home is None:
            found = [row for row in found if row[4]] or found
        if len(found) > 1:
            refuse(f"the name {'.'.join(parts)!r}", f"it could mean {len(found)} relations: say catalog and schema")
        if not found:
            return None
        catalog, schema, table, sql, _ = found[0]
        path = (catalog, schema, table)
        relation = Relation(path, path, ())
        columns = self.describe(exp.select(exp.Star()).from_(relation.table()).sql("duckdb"))
        if columns is None:
            raise SQLError(f"DuckDB cannot read {'.'.join(path)!r}")
        definition, labels = parse_view(sql, "duckdb") if sql else (None, None)
        return Relation(path, path, columns, definition, labels)

    def collates(self) -> bool:
        return False

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        return ()

    def functions(self) -> Functions:
        return self._functions.last().builtin

    def user_code(self, names: frozenset[str], sql: str) -> frozenset[str]:
        return frozenset(f"function {name}()" for name in self._functions.called(names, sql))

    def temporary(self, name: str) -> exp.Table:
        return exp.Table(this=quoted(name), db=quoted("main"), catalog=quoted("temp"))

    def materialise(self, name: str, relation: Relation, prob: str, base: int) -> exp.Expression:
        table = self.temporary(name)
        self.execute(f"CREATE OR REPLACE TEMP TABLE {table.sql('duckdb')} AS "
                     f"{numbering(relation, prob, base, 'INTEGER').sql('duckdb')}")  # fmt: skip
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
        self._frames[name] = frame
        self.connection.register(name, frame)

    def version(self) -> object:
        return 0

    def interrupt(self) -> None:
        self.connection.interrupt()

    def lineage(self, query: exp.Query, shape: Shape) -> LineageRows:
        shown, measures, lineage, identity = shape.names()
        relation = self._relation(query.sql("duckdb"))
        types = [str(t).split("(")[0] for t in relation.types[: shape.shown]]
        keys = shown
        if not all(kind in SORTABLE for kind in types):
            relation, keys = self._relation(grouped(query, shape, "duckdb").sql("duckdb")), ["_g"]
        table = self._deliver(relation)
        columns = [whole_numbers(table.column(name)) for name in keys]
        numbered = [filled(table.column(name)) for name in [*lineage, *identity]]
        values, nulls = [v for v, _ in columns], [null for _, null in columns]
        flat, starts, first, order = _native.sort_lineage(
            values, nulls, numbered, len(table), len(lineage), bool(measures)
        )
        answers = table.select(shown).take(first) if shown else table.select([])
        rows = flat.reshape(len(table), len(numbered))
        measured = floats(table, measures)[order] if measures else np.empty((len(table), 0))
        return LineageRows(answers, starts, rows[:, : len(lineage)], rows[:, len(lineage) :], measured)


def whole_numbers(column: pa.ChunkedArray) -> tuple[RowArray, npt.NDArray[np.uint8]]:
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


def filled(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """int32[rows]: with -1 for NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pc.fill_null(column, -1) if column.null_count else column
    numbers: npt.NDArray[np.int32] = whole.cast(pa.int32()).to_numpy()
    return numbers


def floats(table: pa.Table, names: list[str]) -> FloatArray:
    """float64[rows, names]: with 0 for NULL, as sum() skips it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    out = np.empty((len(table), len(names)))
    for i, name in enumerate(names):
        out[:, i] = pc.fill_null(table.column(name).cast(pa.float64()), 0.0).to_numpy()
    return out
