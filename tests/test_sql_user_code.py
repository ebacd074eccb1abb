"""Code of the user's that SQL calls, openly or not, may read uncertain tables: it sees the world's, or is refused."""

from __future__ import annotations

import pytest
from sql_servers import Database

import sharpdnf
from sharpdnf.errors import SQLError

TABLES = (
    "CREATE TABLE e (a integer, b integer, p double precision)",
    "INSERT INTO e VALUES (1, 2, 0.5), (2, 3, 0.5)",
    "CREATE TABLE s (a integer, y integer)",
    "INSERT INTO s VALUES (1, 1), (2, 2)",
)
COUNT = "(SELECT count(*) FROM e)"
REFUSED = r"user-defined|macro that reads|NATURAL JOIN in a query|query_table|random"


def opened(kind: str, address: str | None = None) -> tuple[Database, sharpdnf.ProbDB]:
    database = Database(kind, address)
    for sql in TABLES:
        database.run(sql)
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    assert db.sql("SELECT a FROM e").prob.tolist() == [0.5, 0.5]  # what was looked up may be kept from here on
    return database, db


@pytest.mark.parametrize(
    ("macro", "query"),
    [
        ("f(x) AS (SELECT count(*) FROM main.e)", "SELECT f(a) FROM s"),
        ("f(x) AS TABLE SELECT *, p FROM e", "SELECT a FROM f(1)"),
        ("f(x) AS TABLE SELECT a FROM query_table('e')", "SELECT a FROM f(1)"),
        ("f(x) AS random() * x", "SELECT f(a) FROM e"),
        ("range(x) AS TABLE SELECT a AS range FROM e", "SELECT * FROM range(3)"),
        (f'"+"(x, y) AS {COUNT}', "SELECT a + 1 FROM s"),
        (f'"~~"(x, y) AS {COUNT}', "SELECT a FROM s WHERE 'a' LIKE 'b'"),
        (f"date_part(x, y) AS {COUNT}", "SELECT extract(year FROM DATE '2020-01-01') FROM s"),
        (f"list_value(x, y) AS {COUNT}", "SELECT [a, y] FROM s"),
        (f"current_date() AS {COUNT}", "SELECT current_date FROM s"),
        (f"lower(x) AS {COUNT}", "SELECT lower('A') FROM s"),
        ('"in"(x) AS (SELECT count(*) FROM main.e)', 'SELECT "in"(a) FROM s'),
        ("over(x) AS (SELECT count(*) FROM main.e)", "SELECT over(a) FROM s"),
        ("duckdb_functions() AS TABLE SELECT 1", "SELECT * FROM duckdb_functions()"),
    ],
)
def test_duckdb_macros(macro: str, query: str) -> None:
    database, db = opened("duckdb")
    name = macro.partition("(")[0]
    database.run(f"CREATE MACRO {macro}")
    with pytest.raises(SQLError, match=REFUSED):
        db.sql(query)
    if name not in ("list_value", '"+"'):  # those two may be called anywhere
        assert (db.sql("SELECT a FROM s").prob == 1.0).all()  # nothing here calls it
    database.run(f"DROP MACRO {'TABLE ' if 'TABLE' in macro else ''}{name}")
    if name not in ("f", '"in"', "over", "duckdb_functions"):
        assert (db.sql(query).prob == 1.0).all()  # DuckDB's own again
    database.run(f"CREATE TEMP MACRO {macro}")
    with pytest.raises(SQLError, match=REFUSED):
        db.sql(query)


def answers(db: sharpdnf.ProbDB, query: str) -> dict[object, float]:
    found = db.sql(query, aggregates="rows")
    assert found.route is not None and found.route.way == "worlds" and found.met
    return {tuple(row[label] for label in found.labels): round(row["prob"], 9) for row in found}


@pytest.mark.parametrize(
    ("macros", "query", "right"),
    [
        ([f"f(x) AS {COUNT}"], "SELECT DISTINCT f(a) AS n FROM s", {(0,): 0.25, (1,): 0.5, (2,): 0.25}),
        ([f"f(x) AS {COUNT}"], "SELECT DISTINCT s.a.f() AS n FROM s", {(0,): 0.25, (1,): 0.5, (2,): 0.25}),
        (["f(x) AS TABLE SELECT * FROM e WHERE a >= x"], "SELECT a, b FROM f(2)", {(2, 3): 0.5}),
        (["f(x) AS 2 * x"], "SELECT f(a) AS n FROM e WHERE f(b) > 4", {(4,): 0.5}),
        (["f(x) AS TABLE SELECT a FROM e WHERE a = x", "g(x) AS (SELECT count(*) FROM f(x))"],
         "SELECT s.a, g(s.a) AS n FROM s", {(1, 0): 0.5, (1, 1): 0.5, (2, 0): 0.5, (2, 1): 0.5}),
        ([f"f(x) AS {COUNT}"], "WITH e AS (SELECT 7 AS a) SELECT f(0) AS n FROM e", {(1,): 1.0}),
        (["f(x) AS TABLE SELECT y FROM s WHERE s.a = x"], "SELECT e.b, f.y FROM e, f(2) AS f WHERE e.a = f.y",
         {(3, 2): 0.5}),
    ],
)  # fmt: skip
def test_duckdb_macros_read_the_rows_of_the_world(macros: list[str], query: str, right: dict[object, float]) -> None:
    database, db = opened("duckdb")
    for macro in macros:
        database.run(f"CREATE MACRO {macro}")
    assert answers(db, query) == right


def test_functions_that_promise_to_be_deterministic(address: str) -> None:
    for kind in ("duckdb", "sqlite", "postgres"):
        database, db = opened(kind, address)
        if kind == "duckdb":
            database.connection.create_function("twice", lambda x: 2 * x, ["INTEGER"], "INTEGER")
        elif kind == "sqlite":
            database.connection.create_function("twice", 1, lambda x: 2 * x, deterministic=True)
        else:
            database.run("CREATE FUNCTION twice(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 2 * $1'")
        assert answers(db, "SELECT twice(a) AS n FROM e WHERE twice(b) > 4") == {(4,): 0.5}, kind
        given = db.sql("SELECT twice(a) AS n FROM e", given="SELECT 1 FROM e WHERE twice(b) > 4")
        assert {row["n"]: row["prob"] for row in given} == {2: 0.5, 4: 1.0}
        database.close()


def test_functions_that_promise_and_do_not_keep_it(address: str) -> None:
    database, db = opened("postgres", address)
    database.run("CREATE FUNCTION f(integer) " + HIDDEN.format("bigint", "count(*)") + " IMMUTABLE")
    with pytest.raises(SQLError, match=r"names the uncertain table 'e'"):
        db.sql("SELECT f(a) FROM s")
    database.close()


def test_duckdb_macros_in_views_and_of_other_cursors() -> None:
    database, db = opened("duckdb")
    database.connection.cursor().execute(f"CREATE MACRO f(x) AS {COUNT}")
    database.run("CREATE VIEW v AS SELECT f(a) AS n FROM s")
    with pytest.raises(SQLError, match="user-defined"):
        db.sql("SELECT n FROM v")
    assert db.sql("SELECT a FROM s").prob.tolist() == [1.0, 1.0]  # nobody calls f


def test_our_own_statements_mean_what_they_say() -> None:
    """A table is not even numbered while its numbers would be computed by a macro."""
    database, db = opened("duckdb")
    database.run('CREATE MACRO "+"(x, y) AS 7')
    with pytest.raises(SQLError, match="user-defined"):
        sharpdnf.connect(database.connection).uncertain("e", prob="p")
    with pytest.raises(SQLError, match="user-defined"):
        db.sql("SELECT a FROM e")
    database, db = opened("sqlite")
    database.connection.create_function("coalesce", 2, lambda x, y: 0)
    with pytest.raises(SQLError, match="user-defined"):
        db.sql("SELECT a FROM e")


@pytest.mark.parametrize(("name", "effects"), [("python_function", True), ("lower", False)])
def test_duckdb_python_functions(name: str, effects: bool) -> None:
    """DuckDB lists them among its own."""
    database, db = opened("duckdb")
    database.connection.create_function(name, lambda x: "1", ["INTEGER"], "VARCHAR", side_effects=effects)
    with pytest.raises(SQLError, match=r"user-defined|changes from call to call"):
        db.sql(f"SELECT {name}(a) FROM s")


def test_the_list_of_functions_is_kept_until_the_catalog_changes() -> None:
    database, db = opened("duckdb")
    kept = db.backend._functions.current()  # type: ignore[attr-defined]
    db.sql("SELECT a + b FROM e WHERE a IN (SELECT a FROM s)")
    assert db.backend._functions.current() is kept  # type: ignore[attr-defined]
    database.run("CREATE TABLE another (a integer)")
    assert db.backend._functions.current() is not kept  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "arguments", "query"),
    [
        ("f", 1, "SELECT f(a) FROM s"),
        ("abs", 1, "SELECT abs(a) FROM s"),
        ("like", 2, "SELECT a FROM s WHERE a LIKE '5'"),
        ("regexp", 2, "SELECT a FROM s WHERE a REGEXP '5'"),
    ],
)
def test_sqlite_functions(name: str, arguments: int, query: str) -> None:
    database, db = opened("sqlite")
    database.connection.create_function(name, arguments, lambda *_: 1)
    with pytest.raises(SQLError, match="user-defined"):
        db.sql(query)
    assert db.sql("SELECT a FROM s").prob.tolist() == [1.0, 1.0]


def test_sqlite_generated_columns_and_indexes_of_other_tables() -> None:
    database, db = opened("sqlite")
    database.run("CREATE TABLE g (a integer, twice AS (2 * a), p real)")
    database.run("INSERT INTO g (a, p) VALUES (1, 0.5)")
    db.uncertain("g", prob="p")
    assert db.sql("SELECT * FROM g").arrow().select(["a", "twice", "prob"]).to_pylist() == [
        {"a": 1, "twice": 2, "prob": 0.5}
    ]
    database.run("CREATE VIRTUAL TABLE words USING fts5(a, content='e')")
    with pytest.raises(SQLError, match="shares rows"):
        db.sql("SELECT a FROM words")


HIDDEN = "RETURNS {} LANGUAGE sql AS 'SELECT {} FROM world.e'"


@pytest.mark.parametrize(
    ("statements", "query"),
    [
        (["CREATE FUNCTION f(integer) " + HIDDEN.format("bigint", "count(*)")], "SELECT f(a) FROM s"),
        (["CREATE FUNCTION lower(integer) " + HIDDEN.format("bigint", "count(*)")], "SELECT lower(a) FROM s"),
        (["CREATE FUNCTION f(s) " + HIDDEN.format("bigint", "count(*)")], "SELECT (SELECT max(s.f) FROM s) FROM e"),
        (
            ["CREATE FUNCTION f(integer, integer) " + HIDDEN.format("bigint", "count(*)"),
             "CREATE OPERATOR # (LEFTARG = integer, RIGHTARG = integer, FUNCTION = f)"],
            "SELECT a # y FROM s",
        ),
        (
            ["CREATE FUNCTION f(integer, text) " + HIDDEN.format("boolean", "count(*) > 0"),
             "CREATE OPERATOR = (LEFTARG = integer, RIGHTARG = text, FUNCTION = f)"],
            "SELECT a FROM s WHERE a IN (SELECT 'x'::text)",
        ),
        (
            ["CREATE TYPE pair AS (v integer)",
             "CREATE FUNCTION f(pair) " + HIDDEN.format("integer", "count(*)::integer"),
             "CREATE CAST (pair AS integer) WITH FUNCTION f(pair) AS IMPLICIT"],
            "SELECT a FROM s WHERE a = (SELECT ROW(1)::pair)",
        ),
        (
            ["CREATE FUNCTION f() " + HIDDEN.format("SETOF integer", "a"),
             "CREATE VIEW v AS SELECT f.f AS a FROM f()"],
            "SELECT a FROM v",
        ),
        ([], "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery FROM world.e') FROM s"),
    ],
)  # fmt: skip
def test_postgres_functions_operators_and_casts(address: str, statements: list[str], query: str) -> None:
    database, db = opened("postgres", address)
    for sql in statements:
        database.run(sql)
    with pytest.raises(SQLError, match=r"user-defined|ts_rewrite"):
        db.sql(query)
    database.close()


def test_postgres_row_security_can_read_other_tables(address: str) -> None:
    database, db = opened("postgres", address)
    database.run("CREATE POLICY few ON s USING (EXISTS (SELECT 1 FROM world.e WHERE e.a = s.a))")
    database.run("ALTER TABLE s ENABLE ROW LEVEL SECURITY")
    assert db.sql("SELECT a FROM s").prob.tolist() == [1.0, 1.0]  # not for the owner
    database.run("CREATE ROLE reader")
    database.run("GRANT ALL ON SCHEMA world TO reader")
    database.run("GRANT ALL ON e, s TO reader")
    database.run("SET ROLE reader")
    try:
        other = sharpdnf.connect(database.connection)
        other.uncertain("e", prob="p")
        with pytest.raises(SQLError, match="row security"):
            other.sql("SELECT a FROM s")
    finally:
        database.run("RESET ROLE")
        database.run("DROP OWNED BY reader")
        database.run("DROP ROLE reader")
        database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_two_of_them_on_one_connection(kind: str) -> None:
    """The numbered rows of one must not be those of the other."""
    database, db = opened(kind)
    database.run("CREATE TABLE e2 (a integer, b integer, p double precision)")
    database.run("INSERT INTO e2 VALUES (7, 7, 0.25)")
    other = sharpdnf.connect(database.connection)
    other.uncertain("e2", prob="p")
    assert db.sql("SELECT a FROM e").prob.tolist() == [0.5, 0.5]
    assert other.sql("SELECT a FROM e2").prob.tolist() == [0.25]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_odd_names(kind: str, request: pytest.FixtureRequest) -> None:
    database, db = opened(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    name = '"odd ""name"" -- $1; select"'
    database.run(f'CREATE TABLE {name} ("select" integer, "prob" integer, "it\'s p" double precision)')
    database.run(f"INSERT INTO {name} VALUES (1, 2, 0.25)")
    db.uncertain(name, prob="it's p")
    found = db.sql(f'SELECT "select", "prob" FROM {name}').arrow().to_pylist()[0]
    assert (found["select"], found["prob_2"], found["prob"]) == (1, 2, 0.25)
    with pytest.raises(SQLError, match="reserved"):
        db.sql("SELECT a FROM e AS _sharpdnf_rows0_0")
    database.close()
