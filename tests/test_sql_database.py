"""ProbDB: frames and files, connections of one's own, data that change, closing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from sql_edges import EDGES, TWO_STEPS
from sql_servers import Database
from sql_worlds import Table, World, counted_answers, create, declared, differences, expected_answers

import sharpdnf
from sharpdnf.errors import SQLError, UnsupportedSQL


@pytest.mark.parametrize("frame", ["pandas", "polars", "arrow"])
def test_frames(frame: str) -> None:
    import pandas as pd
    import polars as pl

    data = {"pandas": pd.DataFrame(EDGES), "polars": pl.DataFrame(EDGES), "arrow": pa.table(EDGES)}[frame]
    found = sharpdnf.connect()
    found.register("edge", data, prob="p")
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    found.register("edge", data.head(3) if frame != "arrow" else data.slice(0, 3))  # read again, still uncertain
    assert found.sql("SELECT dst FROM edge WHERE src = 3").prob.tolist() == []


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_what_is_no_frame(kind: str) -> None:
    found = sharpdnf.connect(Database(kind).connection)
    found.register("edge", EDGES, prob="p")
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    with pytest.raises(ValueError, match="not int"):
        found.register("edge", 7)
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])


def test_files_are_opened_read_only(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", pa.table(EDGES))
        connection.execute("CREATE TABLE edge AS SELECT * FROM frame")
    before = path.read_bytes()
    found = sharpdnf.connect(str(path))
    found.uncertain("edge", prob="p")
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    assert path.read_bytes() == before
    lite = tmp_path / "data.sqlite"
    writer = sqlite3.connect(lite)
    writer.execute("CREATE TABLE edge (src, dst, p)")
    writer.executemany("INSERT INTO edge VALUES (?, ?, ?)", zip(*EDGES.values(), strict=True))
    writer.commit()
    writer.close()
    before = lite.read_bytes()
    other = sharpdnf.connect(lite)
    other.uncertain("edge", prob="p")
    assert other.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    assert lite.read_bytes() == before


def test_connections_of_ones_own_class() -> None:
    class Mine(sqlite3.Connection):
        pass

    mine = sqlite3.connect(":memory:", factory=Mine)
    mine.execute("CREATE TABLE e (a, p)")
    sharpdnf.connect(mine).uncertain("e", prob="p")
    with pytest.raises(TypeError, match="not Cursor"):
        sharpdnf.connect(mine.cursor())


def test_a_sqlite_transaction_is_left_as_it_was() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE edge (src, dst, p)")
    connection.commit()
    connection.executemany("INSERT INTO edge VALUES (?, ?, ?)", zip(*EDGES.values(), strict=True))
    found = sharpdnf.connect(connection)
    found.uncertain("edge", prob="p")
    found.sql(TWO_STEPS)
    assert connection.in_transaction
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM edge").fetchone() == (0,)
    assert len(found.sql(TWO_STEPS)) == 0  # the change was seen


@pytest.mark.parametrize(
    "query",
    [
        "SELECT e.src FROM edge e WHERE NOT EXISTS (SELECT 1 FROM edge f WHERE f.src = e.dst)",
        "SELECT e.src FROM edge e WHERE e.p < (SELECT count(*) FROM town t WHERE t.name = e.dst) AND e.src IN (SELECT "
        "f.dst FROM edge f WHERE f.dst = e.src)",
        "SELECT src FROM edge EXCEPT SELECT dst FROM edge",
        "SELECT src, row_number() OVER (ORDER BY src, dst) AS n FROM edge",
        "SELECT count(*) * 10 + (SELECT count(*) FROM other) FROM edge",  # DuckDB cannot plan it in many worlds at once
        "SELECT nothing FROM edge",
        "SELECT src FROM edge WHERE src = (SELECT t.nothing FROM town t WHERE t.name = edge.dst)",
    ],
)
def test_a_duckdb_transaction_is_not_aborted(query: str) -> None:
    """Whether a piece of a query stands on its own is tried out, and what does not bind must not be executed."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE edge (src INTEGER, dst INTEGER, p DOUBLE)")
    connection.execute("CREATE TABLE other (a INTEGER, p DOUBLE)")
    connection.execute("CREATE TABLE town (name INTEGER)")
    found = sharpdnf.connect(connection)
    found.uncertain("edge", prob="p")
    found.uncertain("other", prob="p")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO edge VALUES (1, 2, 0.5), (2, 3, 0.25)")
    try:
        assert len(found.sql(query)) > 0 or "town" in query
    except SQLError as error:
        assert "nothing" in str(error)
    connection.execute("COMMIT")
    assert connection.execute("SELECT count(*) FROM edge").fetchall() == [(2,)]


def test_an_error_that_aborts_a_duckdb_transaction_says_so() -> None:
    """A COMMIT afterwards would take everything back without a word."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE edge (name VARCHAR, p DOUBLE)")
    found = sharpdnf.connect(connection)
    found.uncertain("edge", prob="p")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO edge VALUES ('one', 0.5)")
    with pytest.raises(SQLError, match="ROLLBACK"):
        found.sql("SELECT CAST(name AS INTEGER) AS n FROM edge")


def test_nothing_is_injected_through_names() -> None:
    name = 'x"; DROP TABLE edge; --'
    found = sharpdnf.connect()
    found.register(name, pa.table({name: [1, 2], "p' OR 1=1": [0.5, 0.5]}), prob="p' OR 1=1")
    quoted = '"' + name.replace('"', '""') + '"'
    assert found.sql(f"SELECT * FROM {quoted}").df().iloc[:, 0].tolist() == [1, 2]


def test_sqlite_collations_are_kept() -> None:
    """A copy of the rows would compare 'X' and 'x' by bytes; INTERSECT, which would, is refused."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE e (a TEXT COLLATE NOCASE, p)")
    connection.execute("CREATE TABLE s (b TEXT)")
    connection.execute("INSERT INTO e VALUES ('X', 0.5), ('y', 0.25)")
    connection.execute("INSERT INTO s VALUES ('x'), ('Y'), ('X')")
    found = sharpdnf.connect(connection)
    found.uncertain("e", prob="p")
    for sql in (
        "SELECT b FROM s WHERE b IN (SELECT a FROM e)",
        "SELECT b FROM s WHERE b || '' IN (SELECT a FROM e)",
        "SELECT b FROM s JOIN e ON e.a = s.b",
        "SELECT b FROM s JOIN e ON s.b = e.a",
        "SELECT a FROM e WHERE a = 'x'",
    ):
        assert sorted(found.sql(sql).df().iloc[:, 0]) == sorted(r[0] for r in connection.execute(sql)), sql
    with pytest.raises(UnsupportedSQL, match="collation"):
        found.sql("SELECT a FROM e INTERSECT SELECT b FROM s", way="lineage")
    connection.execute("CREATE TABLE w (a TEXT PRIMARY KEY COLLATE NOCASE, p) WITHOUT ROWID")
    with pytest.raises(UnsupportedSQL, match="collation"):
        found.uncertain("w", prob="p")


def test_sqlite_collations_of_uncertain_rows_are_those_of_the_worlds() -> None:
    nocase = Table(("a",), [("x",), ("X",), ("y",)], [0.5, 0.25, 0.5], types=("text collate nocase",))
    world = World({"e": nocase, "s": Table(("b",), [("x",), ("Y",), ("z",), (None,)], types=("text",))})
    database = Database("sqlite")
    create(database, world)
    found = declared(database, world)
    queries = [
        "SELECT b FROM s WHERE b IN (SELECT a FROM e)",
        "SELECT b FROM s WHERE b NOT IN (SELECT a FROM e)",
        "SELECT b, EXISTS (SELECT 1 FROM e WHERE e.a = s.b) AS m FROM s",
        "SELECT b FROM s WHERE (SELECT count(DISTINCT a) FROM e) = 1",
        "SELECT b FROM s WHERE b >= (SELECT max(a) FROM e)",
        "SELECT b FROM s EXCEPT SELECT a FROM e",
        "SELECT b FROM s LEFT JOIN e ON e.a = s.b WHERE e.a IS NULL",
        "SELECT b FROM s WHERE EXISTS (SELECT 1 FROM e WHERE e.a = s.b GROUP BY a HAVING count(*) > 1)",
    ]
    got = [counted_answers(found, sql) for sql in queries]
    right = expected_answers(database, world, queries)
    assert not [(sql, lines) for sql, a, b in zip(queries, got, right, strict=True) if (lines := differences(a, b))]


def test_one_sqlite_file_under_two_names(tmp_path: Path) -> None:
    path = tmp_path / "twice.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE e (a, p)")
    connection.execute("INSERT INTO e VALUES (1, 0.5)")
    connection.commit()
    connection.execute("ATTACH ? AS two", (str(path),))
    found = sharpdnf.connect(connection)
    found.uncertain("main.e", prob="p")
    assert found.sql("SELECT a FROM two.e").prob.tolist() == [0.5]
    assert found.sql("SELECT a FROM e").prob.tolist() == [0.5]


def test_sql_says_how_a_seed_is_given() -> None:
    with pytest.raises(ValueError, match="write rng=3 instead of seed=3"):
        sharpdnf.connect().sql("SELECT 1", seed=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"sql\(\) has no option 'epsilom': did you mean 'epsilon'"):
        sharpdnf.connect().sql("SELECT 1", epsilom=3)  # type: ignore[arg-type]
