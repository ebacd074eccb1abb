"""Worlds in other processes: inside ``with joblib.parallel_config(...)`` a DuckDB of its own plays some of them there.

A database in memory cannot be shared between processes, and a file is locked by whoever has it open. So the tables that
the query reads are sent along as Arrow, and each process makes a small database of them. The worlds are drawn here, so
where they are played changes no number. The worlds of the first statement are played here and there: where the results
differ, or the other process cannot run the query, all worlds are played here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sharpdnf.bulk import backend_chosen, in_any_order
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import ROW_ID

if TYPE_CHECKING:
    import pyarrow as pa

    from sharpdnf.sql.worlds.stage import DuckDBStage

PLAIN = frozenset(
    ["BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
     "DOUBLE", "DECIMAL", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP"]
)  # fmt: skip
"""Types whose values come out of Arrow as they went in."""
SETTINGS = (
    "default_null_order", "default_order", "default_collation", "integer_division", "ieee_floating_point_ops",
    "scalar_subquery_error_on_multiple_rows", "order_by_non_integer_literal", "TimeZone", "Calendar",
)  # fmt: skip
"""What decides how DuckDB reads a query."""
ROWS = "_sharpdnf_rows"


@dataclass(frozen=True, slots=True)
class Luggage:
    """What another process needs to play worlds of a query."""

    home: tuple[str, str]
    """The catalog and schema that names without them mean."""
    settings: tuple[tuple[str, str], ...]
    tables: tuple[tuple[tuple[str, ...], pa.Table], ...]
    """The certain tables and views that the query reads, by their full names."""
    rows: tuple[tuple[str, pa.Table], ...]
    """The numbered rows of each uncertain table, by the name under which the rows of worlds are read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some worlds: which rows they have, and the query over all of them."""

    pairs: pa.Table
    sql: str


def packed(stage: DuckDBStage) -> Luggage | None:
    """What to send along; None if no backend is chosen or the tables cannot be sent as they are."""
    if not backend_chosen():
        return None
    backend = stage.backend
    home = backend.rows("SELECT current_database(), current_schema()")[0]
    named = ", ".join(f"'{name}'" for name in SETTINGS)
    settings = backend.rows(f"SELECT name, value FROM duckdb_settings() WHERE name IN ({named})")
    several = backend.rows("SELECT current_setting('search_path')")[0][0]
    certain = [(relation.path, f"SELECT * FROM {relation.table().sql('duckdb')}") for relation in stage.script.certain]
    uncertain = [(name, f"SELECT * FROM {source}") for name, source in stage.numbered()]
    queries = [sql for _, sql in (*certain, *uncertain)]
    kinds = [kind.split("(")[0] for sql in queries for kind in backend.types(sql) or ("unknown",)]
    if "," in str(several) or not PLAIN.issuperset(kinds) or any(len(path) != 3 for path, _ in certain):
        return None
    return Luggage(
        home,
        tuple((name, value) for name, value in settings if value not in (None, "")),
        tuple((path, backend.arrow(sql)) for path, sql in certain),
        tuple((name, backend.arrow(sql)) for name, sql in uncertain),
    )


def play_elsewhere(luggage: Luggage, pieces: list[Piece]) -> Iterator[tuple[int, pa.Table | None]]:
    """(place, result) of each piece as it is done; None for one that DuckDB cannot run there."""
    yield from in_any_order(partial(_play, luggage), pieces)


def _play(luggage: Luggage, piece: Piece) -> pa.Table | None:
    import duckdb

    from sharpdnf.sql.worlds.stage import PAIRS, WORLD

    connection = duckdb.connect(config={"threads": 1})
    try:
        _unpack(connection, luggage)
        connection.register(PAIRS, piece.pairs)
        for name, rows in luggage.rows:
            connection.register(ROWS, rows)
            columns = ", ".join(f"_s.{quoted(c).sql('duckdb')}" for c in rows.column_names if c != ROW_ID)
            connection.execute(
                f'CREATE TEMP TABLE "{name}" AS SELECT _p."{WORLD}", {columns} FROM temp.main."{PAIRS}" AS _p '
                f'JOIN temp.main."{ROWS}" AS _s ON _s.{ROW_ID} = _p."row" ORDER BY _p."{WORLD}"'
            )
        return connection.sql(piece.sql).to_arrow_table()
    except duckdb.Error:
        return None
    finally:
        connection.close()


def _unpack(connection: Any, luggage: Luggage) -> None:
    catalogs = {path[0] for path, _ in luggage.tables} | {luggage.home[0]}
    for catalog in sorted(catalogs - {"memory", "temp"}):
        connection.execute(f"ATTACH ':memory:' AS {quoted(catalog).sql('duckdb')}")
    for path, table in luggage.tables:
        schema, name = (".".join(quoted(part).sql("duckdb") for part in parts) for parts in (path[:2], path))
        connection.register(ROWS, table)
        if path[0] != "temp":
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        kind = "TEMP TABLE" if path[0] == "temp" else "TABLE"
        connection.execute(f'CREATE {kind} {name} AS SELECT * FROM temp.main."{ROWS}"')
    home = ".".join(quoted(part).sql("duckdb") for part in luggage.home)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {home}")
    connection.execute(f"USE {home}")
    for name, value in luggage.settings:
        connection.execute(f"SET {name} = '{value}'")
