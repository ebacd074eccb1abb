"""Where worlds are played: the rows of each world under a name that the user's SQL reads, and what comes out of it.

DuckDB and PostgreSQL play many worlds in one statement: the rows of all of them lie in one temporary table with a
column for the world, and the user's SQL stands in ``FROM worlds, LATERAL (...)``, where every uncertain table is
restricted to the rows of the world outside. By the meaning of LATERAL that is the query in each world; DuckDB turns it
into joins, groups and partitions by world of its own accord. SQLite has no LATERAL and needs microseconds to start a
statement, so there it is one world at a time.

Results are kept where an interrupted statement cannot destroy them: in PostgreSQL in a temporary table (a savepoint
brings the transaction back), elsewhere in this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import ROW_ID, Backend, LineageRows, Shape
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.uncertain import Declared
from sharpdnf.sql.worlds.script import Reading, Script

if TYPE_CHECKING:
    import pyarrow as pa

WORLD = "_sharpdnf_world"
OUTSIDE = "_sharpdnf_w"
FOUND = "_sharpdnf_found"
PAIRS = "_sharpdnf_pairs"


class WorldStage(Protocol):
    """The worlds of one query on one database."""

    many: bool
    """Whether many worlds can be played in one statement."""

    def put(self, first: int, last: int, world: IntArray, row: IntArray) -> None:
        """Makes the rows of the worlds ``first`` to ``last - 1`` readable: row ``row[i]`` exists in world ``world[i]``,
        in ascending order of worlds and rows."""

    def written(self, world: int) -> str:
        """The user's SQL over the rows of one world."""

    def columns(self, world: int) -> tuple[str, ...]:
        """The names of the result's columns; the database's own error if it cannot run the query."""

    def play_one(self, world: int) -> None:
        """Runs one world and keeps its result."""

    def play_many(self, first: int, last: int) -> None:
        """Runs worlds in one statement and keeps their results."""

    def agrees(self, world: int) -> bool:
        """Whether what ``play_many`` kept of a world is what that world gives when it is played alone."""

    def found(self, shown: int, keys: Sequence[int]) -> LineageRows:
        """All results: clause literal 2 w says that an answer is one of world w. The rows' identity is the number of
        their values in the columns ``keys``, equal ones having equal numbers."""

    def clear(self) -> None:
        """Drops the temporary tables that were made."""


def make_stage(backend: Backend, script: Script, tables: dict[tuple[str, ...], Declared]) -> WorldStage:
    """The stage for the database behind a back end."""
    kind: type[Any] = {"duckdb": DuckDBStage, "sqlite": SQLiteStage, "postgres": PostgresStage}[backend.dialect.name]
    found: WorldStage = kind(backend, script, tables)
    return found


def _names(columns: Sequence[str], table: str, dialect: str) -> str:
    return ", ".join(column(c, table).sql(dialect) for c in columns)


def _lineage_of(found: str, shown: int, keys: Sequence[int]) -> str:
    """The results as a lineage query: the columns, the world as lineage, the number of the keys as identity."""
    columns = "".join(f'"_c{i}", ' for i in range(shown))
    order = ", ".join(f'"_c{k}" NULLS LAST' for k in keys)
    rank = f"dense_rank() OVER (ORDER BY {order})" if keys else "1"
    return f'SELECT {columns}"_l0", CAST({rank} AS INTEGER) AS "_i0" FROM {found}'


class _LateralStage:
    """What DuckDB and PostgreSQL have in common."""

    many = True
    series: str
    """A FROM item that lists whole numbers from {} to before {} under the name ``WORLD``."""

    def __init__(self, backend: Any, script: Script, tables: dict[tuple[str, ...], Declared]) -> None:
        self.backend, self.script, self.tables = backend, script, tables
        self.name = backend.dialect.name
        self._place = {key: i for i, key in enumerate(tables)}
        self._labels: tuple[str, ...] = ()

    def _target(self, name: str) -> str:
        return str(self.backend.temporary(name).sql(self.name))

    def _source(self, reading: Reading, condition: str) -> str:
        table = self._target(f"{WORLD}{self._place[reading.key]}")
        columns = _names(reading.columns, "_s", self.name) or "1"
        return f'(SELECT {columns} FROM {table} AS "_s" WHERE "_s"."{WORLD}" = {condition})'

    def written(self, world: int) -> str:
        return self.script.write(lambda reading: self._source(reading, str(world)))

    def columns(self, world: int) -> tuple[str, ...]:
        labels = self.backend.describe(self.written(world))
        if labels is None:
            self.backend.table(f"SELECT * FROM ({self.written(world)}\n) AS _q LIMIT 0", 0)
            raise SQLError("the database cannot describe the result of the query")
        self._labels = tuple(labels)
        return self._labels

    def _shown(self) -> str:
        return ", ".join(f'"_c{i}"' for i in range(len(self._labels)))

    def _one(self, world: int) -> str:
        return f'SELECT {world} AS "_l0", _q.* FROM ({self.written(world)}\n) AS _q({self._shown()})'

    def _many(self, first: int, last: int) -> str:
        inside = self.script.write(lambda reading: self._source(reading, f'"{OUTSIDE}"."{WORLD}"'))
        return (
            f'SELECT "{OUTSIDE}"."{WORLD}" AS "_l0", _q.* FROM {self.series.format(first, last)} AS "{OUTSIDE}", '
            f"LATERAL ({inside}\n) AS _q({self._shown()})"
        )

    def _put_rows(self, ordered: str) -> None:
        """Temporary tables with the rows of all worlds, from pairs of a world and a row."""
        for key, declared in self.tables.items():
            target = self._target(f"{WORLD}{self._place[key]}")
            source = declared.uncertain.source.sql(self.name)
            columns = _names(declared.uncertain.relation.columns, "_s", self.name)
            self.backend.execute(f"DROP TABLE IF EXISTS {target}")
            self.backend.execute(
                f'CREATE TEMP TABLE "{WORLD}{self._place[key]}" AS SELECT _p."{WORLD}", {columns} FROM {ordered} AS _p '
                f'JOIN {source} AS "_s" ON "_s".{ROW_ID} = _p."row" ORDER BY _p."{WORLD}"'
            )

    def clear(self) -> None:
        for name in [PAIRS, FOUND, *(f"{WORLD}{i}" for i in range(len(self.tables)))]:
            self.backend.execute(f"DROP TABLE IF EXISTS {self._target(name)}")


def pairs_table(world: IntArray, row: IntArray) -> pa.Table:
    """Row ``row[i]`` exists in world ``world[i]``, as an Arrow table."""
    import pyarrow as pa

    return pa.table({WORLD: pa.array(world.astype(np.int32)), "row": pa.array(row.astype(np.int32))})


class DuckDBStage(_LateralStage):
    series = f'(SELECT CAST(range AS INTEGER) AS "{WORLD}" FROM system.main.range({{}}, {{}}))'

    def __init__(self, backend: Any, script: Script, tables: dict[tuple[str, ...], Declared]) -> None:
        super().__init__(backend, script, tables)
        self.many = not backend.endangers()  # a statement that DuckDB cannot plan would abort the transaction
        self._parts: list[pa.Table] = []

    def put(self, first: int, last: int, world: IntArray, row: IntArray) -> None:
        self.backend.register(PAIRS, pairs_table(world, row))
        try:
            self._put_rows(self._target(PAIRS))
        finally:
            self.backend.connection.unregister(PAIRS)

    def numbered(self) -> list[tuple[str, str]]:
        """For each uncertain table: the name that its rows in the worlds get, and its numbered rows as a FROM item."""
        tables = self.tables.items()
        return [(f"{WORLD}{self._place[key]}", declared.uncertain.source.sql(self.name)) for key, declared in tables]

    def many_worlds(self, first: int, last: int) -> str:
        """The SQL of worlds in one statement."""
        return self._many(first, last)

    def last_result(self) -> pa.Table:
        """What was kept last."""
        return self._parts[-1]

    def keep(self, part: pa.Table) -> None:
        """Keeps the result of worlds that were played elsewhere."""
        self._parts.append(part)

    def play_one(self, world: int) -> None:
        self._parts.append(self.backend.arrow(self._one(world)))

    def play_many(self, first: int, last: int) -> None:
        self._parts.append(self.backend.arrow(self._many(first, last)))

    def agrees(self, world: int) -> bool:
        import pyarrow.compute as pc

        kept = self._parts[-1]
        mine = kept.filter(pc.equal(kept.column("_l0"), world)).drop_columns(["_l0"])
        alone = self.backend.arrow(self._one(world)).drop_columns(["_l0"])
        return bag(mine.to_pylist()) == bag(alone.to_pylist())

    def found(self, shown: int, keys: Sequence[int]) -> LineageRows:
        import pyarrow as pa

        whole = pa.concat_tables([part.set_column(0, "_l0", part.column(0).cast(pa.int32())) for part in self._parts])
        self.backend.register(FOUND, whole)
        try:
            source = _lineage_of(self._target(FOUND), shown, keys)
            found: LineageRows = self.backend.lineage(source, Shape(shown, 0, 1, 1))
            return found
        finally:
            self.backend.connection.unregister(FOUND)

    def clear(self) -> None:
        self.backend.restart()
        super().clear()


RECORD = "2249"
"""The number of PostgreSQL's type of rows without a name."""


class PostgresStage(_LateralStage):
    series = f'(SELECT g::integer AS "{WORLD}" FROM pg_catalog.generate_series({{}}, {{}} - 1) AS g)'

    def __init__(self, backend: Any, script: Script, tables: dict[tuple[str, ...], Declared]) -> None:
        super().__init__(backend, script, tables)
        self._made = False

    def columns(self, world: int) -> tuple[str, ...]:
        labels = super().columns(world)
        if RECORD in (self.backend.types(self.written(world)) or ()):
            refuse("a whole row as an answer", "PostgreSQL keeps no table of such rows; name the columns")
        return labels

    def put(self, first: int, last: int, world: IntArray, row: IntArray) -> None:
        target = self._target(PAIRS)
        self.backend.execute(f"DROP TABLE IF EXISTS {target}")
        self.backend.execute(f'CREATE TEMP TABLE "{PAIRS}" ("{WORLD}" integer, "row" integer)')
        self.backend.copy_in(target, np.column_stack([world, row]))
        self._put_rows(target)
        for place in self._place.values():
            table = self._target(f"{WORLD}{place}")
            self.backend.execute(f'CREATE INDEX ON {table} ("{WORLD}")')
            self.backend.execute(f"ANALYZE {table}")

    def _keep(self, sql: str) -> None:
        target = self._target(FOUND)
        if not self._made:
            self.backend.execute(f"DROP TABLE IF EXISTS {target}")
        self.backend.execute(f"INSERT INTO {target} {sql}" if self._made else f'CREATE TEMP TABLE "{FOUND}" AS {sql}')
        self._made = True

    def play_one(self, world: int) -> None:
        self._keep(self._one(world))

    def play_many(self, first: int, last: int) -> None:
        self._keep(self._many(first, last))

    def agrees(self, world: int) -> bool:
        kept = self.backend.rows(f'SELECT {self._shown()} FROM {self._target(FOUND)} WHERE "_l0" = {world}')
        return bag(kept) == bag([row[1:] for row in self.backend.rows(self._one(world))])

    def found(self, shown: int, keys: Sequence[int]) -> LineageRows:
        source = _lineage_of(self._target(FOUND), shown, keys)
        found: LineageRows = self.backend.lineage(source, Shape(shown, 0, 1, 1))
        return found


class SQLiteStage:
    """One world at a time. The user's own table is read through a list of its row numbers, so that collations,
    affinities and indexes stay in force."""

    many = False

    def __init__(self, backend: Any, script: Script, tables: dict[tuple[str, ...], Declared]) -> None:
        self.backend, self.script, self.tables = backend, script, tables
        self._place = {key: i for i, key in enumerate(tables)}
        self._numbers = {key: self._row_numbers(declared) for key, declared in tables.items()}
        self._sources = {key: self._read_by_number(key, declared) for key, declared in tables.items()}
        self._rows: list[tuple[Any, ...]] = []
        self._labels: tuple[str, ...] = ()
        self._put_now: tuple[int, IntArray, IntArray] | None = None
        self._current = -1

    def _row_numbers(self, declared: Declared) -> IntArray:
        """SQLite's own row number of each numbered row; entry i belongs to our number ``base`` + i."""
        if declared.uncertain.relation.row_id is None:
            return declared.base + np.arange(len(declared.prob))
        copy = self.backend.temporary(declared.copy).sql("sqlite")
        found = self.backend.rows(f"SELECT _rid FROM {copy} ORDER BY {ROW_ID}")
        return np.array([row[0] for row in found], dtype=np.int64)

    def _read_by_number(self, key: tuple[str, ...], declared: Declared) -> str:
        relation = declared.uncertain.relation
        now = f'temp."{WORLD}{self._place[key]}"'
        if relation.row_id is None:
            source, number = declared.uncertain.source.sql("sqlite"), ROW_ID
        else:
            source, number = relation.table().sql("sqlite"), relation.row_id
        return f'{source} AS "_s" WHERE "_s".{number} IN (SELECT "row" FROM {now})'

    def put(self, first: int, last: int, world: IntArray, row: IntArray) -> None:
        self._put_now = (first, np.searchsorted(world, np.arange(first, last + 1)), row)
        self._current = -1

    def _step_to(self, world: int) -> None:
        """Makes the rows of one world readable, as a list in JSON.

        That is one short statement. It changes no rows of a table, so SQLite's counter of changes, by which we notice
        new data, stays as it is."""
        if self._current == world:
            return
        assert self._put_now is not None
        first, starts, rows = self._put_now
        here = rows[starts[world - first] : starts[world - first + 1]]
        for key, declared in self.tables.items():
            mine = here[(here >= declared.base) & (here < declared.base + len(declared.prob))] - declared.base
            listed = ",".join(map(str, np.sort(self._numbers[key][mine]).tolist()))
            name = f'"{WORLD}{self._place[key]}"'
            self.backend.execute(f"DROP TABLE IF EXISTS temp.{name}")
            self.backend.execute(f"CREATE TEMP TABLE {name} AS SELECT value AS \"row\" FROM json_each('[{listed}]')")
        self._current = world

    def written(self, world: int) -> str:
        def source(reading: Reading) -> str:
            return f"(SELECT {_names(reading.columns, '_s', 'sqlite') or '1'} FROM {self._sources[reading.key]})"

        return self.script.write(source)

    def columns(self, world: int) -> tuple[str, ...]:
        self._step_to(world)
        labels = self.backend.describe(self.written(world))
        if labels is None:
            self.backend.rows(f"SELECT * FROM ({self.written(world)}\n) LIMIT 0")
            raise SQLError("the database cannot describe the result of the query")
        self._labels = tuple(labels)
        return self._labels

    def play_one(self, world: int) -> None:
        self._step_to(world)
        self._rows += [(*row, world) for row in self.backend.rows(self.written(world))]

    def play_many(self, first: int, last: int) -> None:
        raise AssertionError("one world at a time")

    def agrees(self, world: int) -> bool:
        return True

    def found(self, shown: int, keys: Sequence[int]) -> LineageRows:
        names = [*(f'"_c{i}"' for i in range(len(self._labels))), '"_l0"']
        self.backend.execute(f'DROP TABLE IF EXISTS temp."{FOUND}"')
        self.backend.execute(f'CREATE TEMP TABLE "{FOUND}" ({", ".join(names)})')
        self.backend.insert(f'temp."{FOUND}"', self._rows, len(names))
        source = _lineage_of(f'temp."{FOUND}"', shown, keys)
        found: LineageRows = self.backend.lineage(source, Shape(shown, 0, 1, 1))
        return found

    def clear(self) -> None:
        for name in [FOUND, *(f"{WORLD}{i}" for i in range(len(self.tables)))]:
            self.backend.execute(f'DROP TABLE IF EXISTS temp."{name}"')


def bag(rows: list[Any]) -> list[str]:
    """Rows as something that can be compared whatever their order and the types of their values."""
    return sorted(map(repr, rows))
