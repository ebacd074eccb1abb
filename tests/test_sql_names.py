"""Which relation a name means: attached databases, schemas, search paths, temporary relations, and views over them.

A name that is looked up in the wrong place reads an uncertain table as a certain one without a word, so everything here
is compared with the original SQL in every possible world.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sql_servers import Database
from sql_worlds import Table, World, create, declared, differences, exact_answers, expected_answers, refill

import sharpdnf
from sharpdnf.errors import SQLError, UncertainTableError, UnsupportedSQL
from sharpdnf.sql.backends.duckdb import DuckDB


def check(database: Database, world: World, queries: list[str], before: str = "SELECT 1") -> None:
    """Compares with the worlds after the statement ``before``, which may change what names mean."""
    db = declared(database, world)
    database.run(before)
    got = [exact_answers(db, sql) for sql in queries]
    want = expected_answers(database, world, queries)
    refill(database, world)
    for sql, a, b in zip(queries, got, want, strict=True):
        assert b, f"{before}; {sql} has no answer"
        assert not differences(a, b), f"{before}; {sql}"


def uncertain(*rows: int, p: float = 0.5) -> Table:
    return Table(("a",), [(row,) for row in rows], [p] * len(rows))


def certain(*rows: int) -> Table:
    return Table(("a",), [(row,) for row in rows])


DUCKDB_VIEWS = [
    "CREATE VIEW o.v AS SELECT a FROM e",
    "CREATE VIEW o.w AS SELECT e.a FROM e JOIN (SELECT max(a) AS m FROM s) d ON a <= m WHERE a IN (SELECT a FROM s)",
    "CREATE VIEW o.n AS SELECT a, (SELECT count(*) FROM s) AS n FROM s",
    "CREATE VIEW o.z.v AS SELECT a FROM e",
    "CREATE VIEW o.z.m AS SELECT a FROM main.e",
    "CREATE VIEW o.far AS SELECT a FROM memory.main.e UNION SELECT a FROM z.e",
    "CREATE VIEW over AS SELECT v.a FROM o.main.v JOIN o.main.w ON v.a = w.a",
    "CREATE TEMP VIEW mine AS SELECT a FROM e",
    "CREATE VIEW o.both AS SELECT v.a FROM v, e, z.v AS q WHERE v.a = e.a",
]
DUCKDB_QUERIES = [
    "SELECT a FROM o.main.v",
    "SELECT a FROM o.main.w",
    "SELECT a, n FROM o.main.n",
    "SELECT a FROM o.z.v",
    "SELECT a FROM o.z.m",
    "SELECT a FROM o.main.far",
    "SELECT a FROM memory.main.over",
    "SELECT a FROM mine",
    "SELECT a FROM o.main.both",
    "SELECT a FROM e",
    "SELECT a FROM main.e",
    "SELECT a FROM o.e",
    "SELECT o.e.a FROM o.e JOIN memory.main.e AS f ON o.e.a >= f.a",
    "SELECT a FROM s WHERE a IN (SELECT a FROM o.main.v) AND a >= (SELECT min(a) FROM o.main.s)",
    "SELECT x.a, y.a FROM memory.main.e AS x, o.main.e AS y, o.z.e AS z WHERE x.a <> z.a",
]


@pytest.mark.parametrize(
    "before", ["SELECT 1", "USE o", "USE o.z", "USE memory.z", "SET search_path = 'o.z,memory.main'"]
)
def test_duckdb_catalogs(before: str) -> None:
    """Tables of the same names in every schema, here uncertain and there certain."""
    database = Database("duckdb")
    for sql in ("ATTACH ':memory:' AS o", "CREATE SCHEMA o.z", "CREATE SCHEMA z"):
        database.run(sql)
    world = World(
        {
            "memory.main.e": uncertain(1, 2),
            "memory.main.s": certain(1, 2, 3),
            "memory.z.e": certain(1, 6),
            "memory.z.s": uncertain(2, 6, p=0.3),
            "o.main.e": uncertain(2, 3, p=0.25),
            "o.main.s": certain(2, 3, 4),
            "o.z.e": certain(2, 5),
            "o.z.s": uncertain(5, 2, p=0.75),
        },
        DUCKDB_VIEWS,
    )
    create(database, world)
    check(database, world, DUCKDB_QUERIES, before)


def test_duckdb_temporary_relations_come_first() -> None:
    database = Database("duckdb")
    database.run("ATTACH ':memory:' AS o")
    world = World(
        {"o.main.e": uncertain(1, 2), "memory.main.e": certain(3), "o.main.s": certain(1)},
        ["CREATE VIEW o.v AS SELECT a FROM e", "CREATE TEMP VIEW t AS SELECT a FROM e", "CREATE VIEW o.u AS FROM t"],
    )
    create(database, world)
    queries = ["SELECT a FROM o.v", "SELECT a FROM t"]
    check(database, world, queries)
    db = declared(database, world)
    with pytest.raises(UnsupportedSQL, match="temporary view"):  # it reads o.e, not e
        db.sql("SELECT a FROM o.u")
    database.run("CREATE TEMP TABLE e AS SELECT 7 AS a")
    check(database, world, queries)
    assert db.sql("SELECT a FROM o.v").prob.tolist() == [1.0]


def test_duckdb_types_of_the_views_schema() -> None:
    database = Database("duckdb")
    for sql in (
        "ATTACH ':memory:' AS o",
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE TYPE o.mood AS ENUM ('b', 'a')",
    ):
        database.run(sql)
    world = World({"o.main.e": uncertain(1)}, ["CREATE VIEW o.v AS SELECT a FROM e WHERE 'b'::mood > 'a'::mood"])
    create(database, world)
    with pytest.raises(UnsupportedSQL, match="type"):
        declared(database, world).sql("SELECT a FROM o.v")
    database.run("USE o")
    database.run("CREATE VIEW w AS SELECT a FROM e WHERE 'b'::mood < 'a'::mood")
    check(database, world, ["SELECT a FROM w"])


def test_duckdb_names_with_dots_and_quotes() -> None:
    database = Database("duckdb")
    for sql in ('ATTACH \':memory:\' AS "a.b""c,d"', 'CREATE SCHEMA "a.b""c,d"."x,y.z"'):
        database.run(sql)
    place = '"a.b""c,d"."x,y.z"'
    world = World(
        {f'{place}."e.1"': uncertain(1, 2), '"a.b""c,d".main."e.1"': certain(1), '"e.1"': certain(2)},
        [f'CREATE VIEW {place}."v.1" AS SELECT a FROM "e.1"'],
    )
    create(database, world)
    check(database, world, [f'SELECT a FROM {place}."v.1"', 'SELECT "E.1".a FROM "e.1"'])
    check(database, world, ['SELECT a FROM "v.1"', 'SELECT a FROM "e.1"'], f"USE {place}")


def test_duckdb_fields_of_columns() -> None:
    """In a subquery u.a may be a field of its column u, which comes before the table u around it."""
    database = Database("duckdb")
    for sql in (
        "CREATE TABLE u AS SELECT 1 AS a, 0.5 AS p",
        "CREATE TABLE e AS SELECT {'a': 2} AS u, 0.25 AS p",
        "CREATE TABLE f AS SELECT 2 AS u, 0.25 AS p",
    ):
        database.run(sql)
    db = sharpdnf.connect(database.connection)
    for table in "uef":
        db.uncertain(table, prob="p")
    for query, right in (("u.a = 2", [0.125]), ("u.a = 1", [])):
        for way in ("lineage", "worlds"):
            found = db.sql(f"SELECT a FROM u WHERE EXISTS (SELECT 1 FROM e WHERE {query})", way=way)
            assert found.prob.tolist() == pytest.approx(right), way
    with pytest.raises(UnsupportedSQL, match="field"):  # what a column of a derived table is cannot be asked
        db.sql("SELECT a FROM u WHERE EXISTS (SELECT 1 FROM (SELECT u FROM e) e WHERE u.a = 2)", way="lineage")
    assert db.sql("SELECT a FROM u WHERE EXISTS (SELECT 1 FROM f WHERE u.a = 1)").prob == pytest.approx([0.125])


def test_duckdb_views_that_name_some_of_their_columns() -> None:
    database = Database("duckdb")
    world = World(
        {"e": Table(("a", "b"), [(1, 2), (2, 1)], [0.5, 0.25])},
        ["CREATE VIEW v (n) AS SELECT a, b FROM e", "CREATE VIEW w (n) AS SELECT * FROM e"],
    )
    create(database, world)
    check(database, world, ["SELECT n, b FROM v"])
    with pytest.raises(UnsupportedSQL, match="column list"):
        declared(database, world).sql("SELECT n FROM w")


def test_letters_beyond_ascii_are_not_folded() -> None:
    for kind in ("duckdb", "sqlite"):
        database = Database(kind)
        world = World({'"é"': uncertain(1), '"É"': certain(2)})
        create(database, world)
        check(database, world, ['SELECT a FROM "é"', 'SELECT a FROM "É"', 'WITH "É" AS (SELECT 3) SELECT a FROM "é"'])


@pytest.mark.parametrize("seed", range(8))
def test_duckdb_looks_where_we_say(seed: int) -> None:
    """Every table says where it is; names, views and search paths are drawn at random."""
    rng = random.Random(seed)
    database = Database("duckdb")
    places = ["memory.main", "o.main", "q.main"]
    for catalog in ("o", "q"):
        database.run(f"ATTACH ':memory:' AS {catalog}")
    for place in ("memory.z", "o.z", "q.z", "memory.o", "o.q", "q.o", "o.memory"):
        if rng.random() < 0.5:
            database.run(f"CREATE SCHEMA {place}")
            places.append(place)
    tables = [f"{place}.{name}" for place in places for name in ("e", "f")]
    rng.shuffle(tables)
    half = len(tables) // 2
    for table in tables[:half]:
        database.run(f"CREATE TABLE {table} AS SELECT '{table}' AS w")
    names = ["e", "f", "z.e", "main.e", "main.f", "o.e", "q.e", "memory.e", "temp.e", "o.z.e", "q.main.f"]
    views = []
    for i in range(12):
        place, name = rng.choice(places), rng.choice(names)
        database.run(f"USE {rng.choice(places)}")
        try:
            database.run(f"CREATE VIEW {place}.v{i} AS SELECT w FROM {name}")
        except Exception:  # the name means nothing there
            continue
        views.append(f"{place}.v{i}")
    for table in tables[half : half + 4]:  # these may take the place of those that the views meant
        database.run(f"CREATE TABLE {table} AS SELECT '{table}' AS w")
    if rng.random() < 0.5:
        database.run("CREATE TEMP TABLE e AS SELECT 'temp.main.e' AS w")
    backend = DuckDB(database.connection)
    for _ in range(3):
        chosen = rng.sample(places, 2)
        database.run(rng.choice([f"USE {chosen[0]}", f"SET search_path = '{','.join(chosen)}'"]))
        for name in names:
            check_place(read(database, name), said(backend, name, None), name)
        for view in views:
            if read(database, view) is None:
                continue
            definition = backend.resolve(tuple(view.split(".")), None).definition  # type: ignore[union-attr]
            inner = str(definition).split(" FROM ")[1]
            home = tuple(view.split(".")[:-1])
            check_place(read(database, view), said(backend, inner, home), f"{view}: {definition}")


def check_place(read: str | None, said: str | None, what: str) -> None:
    assert read is None or said in ("refused", read), what


def read(database: Database, name: str) -> str | None:
    try:
        return str(database.ask(f"SELECT w FROM {name}")[0][0])
    except Exception:
        return None


def said(backend: DuckDB, name: str, home: tuple[str, ...] | None) -> str | None:
    try:
        found = backend.resolve(tuple(name.split(".")), home)
    except UnsupportedSQL:
        return "refused"
    return ".".join(found.path) if found is not None else None


def test_duckdb_files_attached_read_only(tmp_path: Path) -> None:
    path = tmp_path / "o.duckdb"
    database = Database("duckdb")
    database.run(f"ATTACH '{path}' AS o")
    world = World({"o.main.e": uncertain(1, 2)}, ["CREATE VIEW o.v AS SELECT a FROM e"])
    create(database, world)
    database.run("DETACH o")
    database.run(f"ATTACH '{path}' AS x (READ_ONLY)")
    database.run(f"ATTACH '{path}' AS y (READ_ONLY)")
    database.run("CREATE TABLE e AS SELECT 9 AS a")
    before = path.read_bytes()
    db = sharpdnf.connect(database.connection)
    db.uncertain("x.e", prob="p")
    for sql in ("SELECT a FROM x.e", "SELECT a FROM x.v", "SELECT a FROM y.e", "SELECT a FROM y.v"):
        assert db.sql(sql).prob.tolist() == [0.5, 0.5], sql  # two names of one file
    assert db.sql("SELECT x.e.a FROM x.e JOIN y.e AS f ON e.a = f.a").prob.tolist() == [0.5, 0.5]
    assert db.sql("SELECT a FROM e").prob.tolist() == [1.0]
    with pytest.raises(UncertainTableError, match="view over uncertain rows"):
        db.uncertain("y.v", prob="a")
    database.run("USE x")
    assert db.sql("SELECT a, expected_count() FROM e GROUP BY a").arrow().column(1).to_pylist() == [0.5, 0.5]
    database.run("USE memory")
    database.run("DETACH x")
    with pytest.raises(SQLError):
        db.sql("SELECT a FROM x.e")
    assert path.read_bytes() == before


SQLITE_QUERIES = [
    "SELECT a FROM e",
    "SELECT a FROM s",
    "SELECT a FROM v",
    "SELECT a FROM o.v",
    "SELECT a FROM q.v",
    "SELECT a FROM o.w",
    "SELECT a, n FROM q.n",
    "SELECT a FROM mine",
    "SELECT a FROM other",
    "SELECT m.a FROM mine AS m JOIN main.e ON m.a = main.e.a",
    "SELECT a FROM o.e WHERE a IN (SELECT a FROM e) OR a IN (SELECT a FROM o.s)",
    "SELECT q.e.a FROM q.e JOIN o.v AS x ON q.e.a = x.a",
    "WITH e AS (SELECT 2 AS a) SELECT x.a FROM o.v AS x JOIN mine USING (a) JOIN e USING (a)",
    "SELECT a FROM only_q",
]


@pytest.mark.parametrize(
    "before", ["SELECT 1", "CREATE TEMP TABLE e AS SELECT 2 AS a", "CREATE TEMP VIEW s AS SELECT a FROM o.e"]
)
def test_sqlite_databases(before: str) -> None:
    """Temporary relations hide those of main, which hide attached ones; but a view sees its own database alone."""
    database = Database("sqlite")
    for sql in ("ATTACH ':memory:' AS o", "ATTACH ':memory:' AS q"):
        database.run(sql)
    world = World(
        {
            "main.e": uncertain(1, 2),
            "main.s": certain(1, 2),
            "o.e": uncertain(2, 3, p=0.25),
            "o.s": certain(2, 3),
            "q.e": certain(2, 4),
            "q.s": uncertain(2, 4, p=0.75),
            "q.only_q": uncertain(5),
        },
        [
            "CREATE VIEW v AS SELECT a FROM e",
            "CREATE VIEW o.v AS SELECT a FROM e",
            "CREATE VIEW q.v AS SELECT a FROM e WHERE a IN (SELECT a FROM s)",
            "CREATE VIEW o.w AS SELECT a FROM e WHERE a >= (SELECT min(a) FROM s) AND a IN (SELECT a FROM s)",
            "CREATE VIEW q.n AS SELECT a, (SELECT count(*) FROM e) AS n FROM s",
            "CREATE TEMP VIEW mine AS SELECT a FROM e",
            "CREATE TEMP VIEW other AS SELECT v.a FROM o.v AS v, s WHERE v.a >= s.a",
        ],
    )
    create(database, world)
    check(database, world, SQLITE_QUERIES, before)


def test_sqlite_files_attached_read_only(tmp_path: Path) -> None:
    import sqlite3

    path, link = tmp_path / "o.sqlite", tmp_path / "link.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    for sql in ("CREATE TABLE e (a, p)", "INSERT INTO e VALUES (1, 0.5)", "CREATE VIEW v AS SELECT a FROM e"):
        writer.execute(sql)
    link.hardlink_to(path)
    connection = sqlite3.connect("file::memory:", uri=True)
    for name, file in (("x", path), ("y", link)):
        connection.execute(f"ATTACH 'file:{file}?mode=ro' AS {name}")
    db = sharpdnf.connect(connection)
    db.uncertain("x.e", prob="p")
    for sql in ("SELECT a FROM e", "SELECT a FROM v", "SELECT a FROM y.e", "SELECT a FROM y.v"):
        assert db.sql(sql).prob.tolist() == [0.5], sql
    writer.execute("UPDATE e SET a = 2")
    assert db.sql("SELECT a FROM y.v").df()["a"].tolist() == [2]  # seen, although it is not the main database
    with pytest.raises(SQLError):
        db.sql("SELECT a FROM main.e")


POSTGRES_QUERIES = [
    "SELECT a FROM e",
    "SELECT a FROM s",
    "SELECT a FROM other.v",
    "SELECT a FROM world.v",
    "SELECT a FROM other.w",
    "SELECT a, n FROM other.n",
    "SELECT a FROM mine",
    "SELECT other.e.a FROM other.e JOIN world.e AS f ON other.e.a = f.a + 1",
    "SELECT a FROM world.e WHERE a IN (SELECT a FROM e) OR a IN (SELECT a FROM other.s)",
    "SELECT a FROM postgres.other.e",
]


@pytest.mark.parametrize(
    "before",
    [
        "SELECT 1",
        "SET search_path = other, world",
        "SET search_path = pg_catalog, world, other, pg_temp",
        "CREATE TEMP TABLE e AS SELECT 2 AS a",
        "CREATE TEMP TABLE e AS SELECT 2 AS a; SET search_path = other, world, pg_temp",
        "CREATE TEMP VIEW s AS SELECT a FROM other.e; SET search_path = other",
    ],
)
def test_postgres_schemas(address: str, before: str) -> None:
    database = Database("postgres", address)
    for sql in ("DROP SCHEMA IF EXISTS other CASCADE", "CREATE SCHEMA other"):
        database.run(sql)
    world = World(
        {
            "world.e": uncertain(1, 2),
            "world.s": certain(1, 2),
            "other.e": certain(2, 3),
            "other.s": uncertain(2, 3, p=0.25),
        },
        [
            "CREATE VIEW v AS SELECT a FROM e",
            "CREATE VIEW other.w AS SELECT a FROM e WHERE a >= (SELECT min(a) FROM s) AND a IN (SELECT a FROM s)",
            "SET search_path = other",
            "CREATE VIEW v AS SELECT a FROM e WHERE a IN (SELECT a FROM s)",
            "CREATE VIEW n AS SELECT a, (SELECT count(*) FROM e) AS n FROM s",
            "SET search_path = world",
            "CREATE TEMP VIEW mine AS SELECT a FROM e",
        ],
    )
    create(database, world)
    check(database, world, POSTGRES_QUERIES, before)
    database.run("DROP SCHEMA other CASCADE")
    database.close()


def test_common_table_expressions_that_are_read_before_they_are_written() -> None:
    """Where they see each other, the table of the same name is not what is read."""
    database = Database("sqlite")
    world = World({"e": uncertain(1, 2), "b": certain(7)})
    create(database, world)
    db = declared(database, world)
    with pytest.raises(UnsupportedSQL, match="forward reference"):
        db.sql("WITH c AS (SELECT a FROM b), b AS (SELECT a FROM e) SELECT a FROM c", way="lineage")
    check(database, world, ["WITH c AS (SELECT a FROM b), b AS (SELECT 8 AS a) SELECT a FROM c"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, a.x FROM st WHERE a.x > 1",
        "SELECT st.a.y.z FROM st WHERE a.y.z IS NOT NULL",
        "SELECT a.x FROM st s GROUP BY a.x HAVING count(*) >= 2",
        "SELECT id FROM st WHERE NOT EXISTS (SELECT 1 FROM st b WHERE b.a.x > st.a.x)",
        "SELECT a.x, EXISTS (SELECT 1 FROM st b WHERE b.a.y.z = st.a.x) AS m FROM st",
        "SELECT a.id FROM st AS a WHERE a.a.x = 5",
    ],
)
def test_fields_of_structs(query: str) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE st (id INTEGER, a STRUCT(x INTEGER, y STRUCT(z INTEGER)), p DOUBLE)")
    connection.execute("INSERT INTO st VALUES (1, {'x': 5, 'y': {'z': 7}}, 0.5), (2, NULL, 0.25), "
                       "(3, {'x': 5, 'y': {'z': 5}}, 0.5), (4, {'x': NULL, 'y': NULL}, 0.75)")  # fmt: skip
    db = sharpdnf.connect(connection)
    db.uncertain("st", prob="p")
    found, worlds = db.sql(query), db.sql(query, way="worlds")
    assert found.route.way in ("lineage", "circuit") and found.labels == worlds.labels
    shown = [{tuple(row[c] for c in r.labels): round(row["prob"], 9) for row in r} for r in (found, worlds)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_tables_of_other_schemas_by_every_way(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    path = {"duckdb": "other.deep", "sqlite": "other", "postgres": "other"}[kind]
    database.run("CREATE SCHEMA other" if kind == "postgres" else "ATTACH ':memory:' AS other")
    if kind == "duckdb":
        database.run("CREATE SCHEMA other.deep")
    for name, value in ((f"{path}.t", 1), ("t", 2)):
        database.run(f"CREATE TABLE {name} (a integer, p double precision)")
        database.run(f"INSERT INTO {name} VALUES ({value}, 0.5), (3, 0.5)")
    db = sharpdnf.connect(database.connection)
    db.uncertain(f"{path}.t", prob="p")
    db.uncertain("t", prob="p")
    for query, way, right in (
        (f"SELECT x.a FROM {path}.t x JOIN t ON t.a = x.a", "lineage", {(3,): 0.25}),
        (f"SELECT a FROM {path}.t EXCEPT SELECT a FROM t", "circuit", {(1,): 0.5, (3,): 0.25}),
        (f"SELECT {path}.t.a, count(*) OVER () AS n FROM {path}.t WHERE {path}.t.a > 2", "worlds", {(3, 1): 0.5}),
        (f"SELECT count(*) AS n FROM {path}.t", "closed", {}),
    ):
        found = db.sql(query)
        assert found.route.way == way, query
        if right:
            assert {tuple(row[c] for c in found.labels): row["prob"] for row in found} == right
    if kind == "postgres":
        database.run("DROP SCHEMA other CASCADE")
    database.close()
