"""DuckDB: files, data frames and Arrow in, Arrow out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.allowed import refuse
from sharpdnf.sql.backends import FloatArray, IntArray, LineageRows, Shape, column, grouped, numbering, quoted
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
        "UBIGINT",
        "DATE",
        "TIMESTAMP",
        "TIME",
    ]
)
"""Types whose values are equal to DuckDB exactly if they are equal to numpy: no NaN, no collation, no -0.0."""
READERS = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".json": "read_json", ".gz": "read_csv"}


class DuckDB:
    dialect = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._builtin: Functions | None = None
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
        try:
            relation = self.connection.sql(sql)
            if relation is None:
                raise SQLError("DuckDB: the statement has no result")
            convert = getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table
            return convert()
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

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        name = parts[-1].replace("'", "''")
        found = self.rows(
            "SELECT database_name, schema_name, table_name, NULL, (database_name = current_database() AND schema_name ="
            f" current_schema()) OR temporary FROM duckdb_tables() WHERE lower(table_name) = '{name}'"
            " UNION ALL SELECT database_name, schema_name, view_name, sql, (database_name = current_database() AND "
            f"schema_name = current_schema()) OR temporary FROM duckdb_views() WHERE lower(view_name) = '{name}'"
            " AND NOT internal"
        )
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
        if self._builtin is None:
            listed = self.rows(
                "SELECT DISTINCT lower(function_name), function_type, stability FROM duckdb_functions() WHERE internal"
            )
            self._builtin = Functions(
                frozenset(name for name, kind, _ in listed if kind == "aggregate"),
                frozenset(name for name, _, stability in listed if stability == "VOLATILE") | {"query", "query_table"},
            )
        return self._builtin

    def user_functions(self, names: frozenset[str]) -> frozenset[str]:
        found = self.rows("SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE NOT internal")
        return names & {row[0] for row in found}

    def temporary(self, name: str) -> exp.Table:
        return exp.Table(this=quoted(name), db=quoted("main"), catalog=quoted("temp"))

    def materialise(self, name: str, relation: Relation, prob: str, base: int) -> exp.Expression:
        table = self.temporary(name)
        self.execute(f"CREATE OR REPLACE TEMP TABLE {table.sql('duckdb')} AS "
                     f"{numbering(relation, prob, base).sql('duckdb')}")  # fmt: skip
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
        sql = query.sql("duckdb")
        types = [str(t).split("(")[0] for t in self._types(sql)[: shape.shown]]
        if all(kind in SORTABLE for kind in types):
            order = ", ".join(quoted(name).sql("duckdb") for name in shown)
            table = self.arrow(f"SELECT * FROM ({sql}) AS _r ORDER BY {order}" if order else sql)
            group = boundaries(table, shown)
        else:
            outer = grouped(query, shape, "duckdb").order_by(column("_g"), copy=False)
            table = self.arrow(outer.sql("duckdb"))
            group = table.column("_g").to_numpy().astype(np.int64)
        first = np.flatnonzero(np.diff(group, prepend=-1)) if len(group) else np.zeros(0, np.int64)
        answers = table.select(shown).take(first) if shown else table.select([])
        return LineageRows(answers, group, integers(table, lineage), integers(table, identity), floats(table, measures))

    def _types(self, sql: str) -> list[Any]:
        try:
            self.connection.execute(f"SELECT * FROM ({sql}) AS _d LIMIT 0")
        except duckdb.Error as error:
            raise SQLError(f"DuckDB: {error}") from None
        return [entry[1] for entry in self.connection.description]


def boundaries(table: pa.Table, names: list[str]) -> IntArray:
    """int64[rows]: the number of the answer, for rows sorted by the columns ``names``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    changed = np.zeros(len(table), dtype=bool)
    for name in names:
        values = table.column(name).combine_chunks()
        values = values.chunk(0) if isinstance(values, pa.ChunkedArray) and values.num_chunks else values
        if len(table) > 1:
            a, b = values.slice(1), values.slice(0, len(table) - 1)
            same = pc.fill_null(pc.equal(a, b), False)
            same = pc.or_(same, pc.and_(pc.is_null(a), pc.is_null(b)))
            changed[1:] |= ~same.to_numpy(zero_copy_only=False)
    group: IntArray = np.cumsum(changed)
    return group


def integers(table: pa.Table, names: list[str]) -> IntArray:
    """int64[rows, names]: with -1 for NULL."""
    import pyarrow.compute as pc

    out = np.empty((len(table), len(names)), dtype=np.int64)
    for i, name in enumerate(names):
        values = table.column(name)
        out[:, i] = (pc.fill_null(values, -1) if values.null_count else values).to_numpy()
    return out


def floats(table: pa.Table, names: list[str]) -> FloatArray:
    """float64[rows, names]: with 0 for NULL, as sum() skips it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    out = np.empty((len(table), len(names)))
    for i, name in enumerate(names):
        out[:, i] = pc.fill_null(table.column(name).cast(pa.float64()), 0.0).to_numpy()
    return out
