"""Values and types as SQLite and PostgreSQL have them, affinities to JSON; rollbacks, changes of tables, threads."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sql_servers import Database
from sql_worlds import Table, World, create, declared, differences, exact_answers, expected_answers

import sharpdnf
from sharpdnf.errors import SQLError, SQLTimeout, UncertainTableError, UnsupportedSQL
from sharpdnf.sql.limits import watched

TYPES = ("integer", "text", "")
VALUES = [(1, "1", 1), (2, "a", "2"), (3, "A", "a"), (10, "10", 2.0)]
VIEWS = [
    "CREATE VIEW w AS SELECT i + 0 AS i, t || '' AS t, n, coalesce(n, 0) AS m, p FROM base",
    "CREATE VIEW d AS SELECT i + 0 AS i, t, coalesce(n, 0) AS m FROM s",
]


@pytest.mark.parametrize("table", ["w", "k"])
def test_sqlite_affinities_survive_copies(table: str) -> None:
    """A view's expression has no affinity, but a column of a copy has one; a table without rowid is copied too."""
    database = Database("sqlite")
    for sql in (
        "CREATE TABLE base (i integer, t text, n, p real)",
        "CREATE TABLE k (i integer PRIMARY KEY, t text, n, p real) WITHOUT ROWID",
        "CREATE TABLE s (i integer, t text, n)",
        *VIEWS,
    ):
        database.run(sql)
    for i, t, n in VALUES:
        for name in ("base", "k"):
            database.connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, 0.5)", (i, t, n))
        database.connection.execute("INSERT INTO s VALUES (?, ?, ?)", (i, t, n))
    db = sharpdnf.connect(database.connection)
    db.uncertain(table, prob="p")
    for a in ("i", "t", "n"):
        for b in ("i", "t", "n"):
            sql = f"SELECT s.i, e.i FROM {table} AS e JOIN s ON e.{a} = s.{b}"
            want = set(database.ask(sql))
            assert set(exact_answers(db, sql)) == want, sql
            counted = db.sql(sql.replace("s.i, e.i", "expected_count()"), guarantee="exact").arrow().to_pylist()[0]
            assert counted["expected_count"] == pytest.approx(len(want) / 2), sql
    for a in ("i", "t", "m"):
        for b in ("i", "t", "n"):
            sql = f"SELECT count(*) FROM {table} AS e, d JOIN s ON d.{a} = s.{b}"
            counted = db.sql(sql.replace("count(*)", "expected_count()")).arrow().to_pylist()[0]
            assert counted["expected_count"] == pytest.approx(database.ask(sql)[0][0] / 2), sql


def test_sqlite_collations_in_expected_values() -> None:
    database = Database("sqlite")
    for sql in (
        "CREATE TABLE s (b text COLLATE NOCASE)",
        "INSERT INTO s VALUES ('X'), ('y'), ('Y')",
        "CREATE VIEW v AS SELECT b FROM s",
        "CREATE TABLE e (a text, p real)",
        "INSERT INTO e VALUES ('x', 0.5)",
    ):
        database.run(sql)
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    assert db.sql("SELECT expected_count() FROM e JOIN s ON s.b = 'y'").arrow()["expected_count"].to_pylist() == [1.0]
    with pytest.raises(UnsupportedSQL, match="collations"):
        db.sql("SELECT expected_count() FROM e JOIN v ON v.b = 'y'", way="lineage")
    # By worlds SQLite itself compares, and finds both 'y' and 'Y' in the view as in the table.
    assert db.sql("SELECT expected_count() FROM e JOIN v ON v.b = 'y'").arrow()["expected_count"].to_pylist() == [1.0]


def test_sqlite_text_and_blobs() -> None:
    database = Database("sqlite")
    world = World({"e": Table(("a",), [("x",), (1,)], [0.5, 0.25], types=("",))})
    create(database, world)
    database.run("INSERT INTO e VALUES (x'78', 0.75)")
    for factory in (str, bytes, lambda raw: "?"):
        database.connection.text_factory = factory
        answers = declared(database, world).sql("SELECT a FROM e")
        assert dict(zip(answers.arrow()["a"].to_pylist(), answers.prob, strict=True)) == {
            "1": 0.25,
            "x": 0.5,
            "b'x'": 0.75,
        }
        assert database.connection.text_factory is factory


def test_postgres_json_is_shown_as_it_is(address: str) -> None:
    database = Database("postgres", address)
    database.run("CREATE TABLE e (j jsonb, p float8)")
    database.run("""INSERT INTO e VALUES ('{"k": 1}', 0.5), ('{"m": [2]}', 0.5), ('null', 0.5), (NULL, 0.5)""")
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    shown = db.sql("SELECT j FROM e").arrow()["j"].to_pylist()
    assert sorted(shown, key=str) == [None, "null", '{"k": 1}', '{"m": [2]}']
    database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_a_rollback_brings_back_the_old_rows(kind: str, request: pytest.FixtureRequest) -> None:
    """Also where rows and probabilities add up to what they were."""
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = World({"e": Table(("a", "k"), [(1, 1), (2, 1)], [0.3, 0.7], block=("k",))})
    create(database, world)
    db = declared(database, world)

    def found() -> dict[Any, float]:
        return exact_answers(db, "SELECT a FROM e")

    before = expected_answers(database, world, ["SELECT a FROM e"])[0]
    database.run("DELETE FROM e")
    database.run("INSERT INTO e VALUES (1, 1, 0.3), (2, 1, 0.7)")
    db.refresh()
    database.run("BEGIN")
    database.run("UPDATE e SET p = 1 - p")
    db.refresh()
    assert differences(found(), before)
    database.run("ROLLBACK")
    db.sql("SELECT a FROM e")
    assert not differences(found(), before)
    database.close()


def test_postgres_types_of_strings(address: str) -> None:
    """In a set operation a string has the type of the other side, in a subquery it is text."""
    database = Database("postgres", address)
    world = World(
        {
            "e": Table(("a", "d"), [(1, "ab"), (2, "x")], [0.5, 0.25], types=("integer", "char(4)")),
            "s": Table(("a", "d"), [(1, "ab"), (2, "x")], types=("integer", "char(4)")),
        }
    )
    create(database, world)
    queries = [
        "SELECT rtrim(q.d) FROM (SELECT d FROM e INTERSECT SELECT 'ab ') q",
        "SELECT rtrim(q.d) FROM (SELECT 'ab ' AS d FROM e INTERSECT SELECT d FROM s) q",
        "SELECT rtrim(q.d) FROM (SELECT d FROM e EXCEPT SELECT 'ab ') q",
        "SELECT a FROM s WHERE d IN (SELECT 'ab ' FROM e WHERE e.a = s.a)",
        "SELECT a FROM s WHERE d IN (SELECT 'ab' FROM e WHERE e.a = s.a)",
        "SELECT a FROM s WHERE EXISTS (SELECT 1 FROM (SELECT 'ab ' AS v FROM e WHERE e.a = s.a) q WHERE q.v = s.d)",
    ]
    db = declared(database, world)
    got = [exact_answers(db, sql) for sql in queries]
    want = expected_answers(database, world, queries)
    database.close()
    assert [differences(a, b) for a, b in zip(got, want, strict=True)] == [[]] * len(queries)
    assert [len(b) for b in want] == [1, 1, 1, 0, 1, 0]


def opened(kind: str, request: pytest.FixtureRequest) -> tuple[Database, sharpdnf.ProbDB]:
    """e(a, b) with two independent rows."""
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = World({"e": Table(("a", "b"), [(1, 2), (3, 4)], [0.5, 0.25])})
    create(database, world)
    return database, declared(database, world)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_columns_that_changed_are_read_again(kind: str, request: pytest.FixtureRequest) -> None:
    database, db = opened(kind, request)
    for a, b in (("a", "c"), ("b", "a"), ("c", "b")):
        database.run(f"ALTER TABLE e RENAME COLUMN {a} TO {b}")
    answers = db.sql("SELECT a, b FROM e ORDER BY a").arrow()
    assert [answers[name].to_pylist() for name in ("a", "b", "prob")] == [[2, 4], [1, 3], [0.5, 0.25]]
    database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_old_answers_do_not_name_new_rows(kind: str, request: pytest.FixtureRequest) -> None:
    database, db = opened(kind, request)
    old = db.sql("SELECT a FROM e")
    assert old.lineage(1).names == ("e(a=3, b=4)",)
    database.run("DELETE FROM e WHERE a = 1")
    database.run("INSERT INTO e VALUES (5, 6, 0.75), (7, 8, 0.75)")
    db.refresh()
    for ask in (old.lineage, old.explain):
        with pytest.raises(SQLError, match="ask it again"):
            ask(1)
    database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_a_view_and_its_table_are_not_both_uncertain(kind: str, request: pytest.FixtureRequest) -> None:
    """In whichever order they are declared, and also if the view takes a table's place later."""
    database, db = opened(kind, request)
    database.run("CREATE VIEW v AS SELECT a, p FROM e")
    with pytest.raises(UncertainTableError, match="v is a view over uncertain rows"):
        db.uncertain("v", prob="p")
    other = sharpdnf.connect(database.connection)
    other.uncertain("v", prob="p")
    with pytest.raises(UncertainTableError, match="v is a view over uncertain rows"):
        other.uncertain("e", prob="p")
    database.run("CREATE TABLE f AS SELECT a, p FROM e")
    db.uncertain("f", prob="p")
    database.run("DROP TABLE f")
    database.run("CREATE VIEW f AS SELECT a, p FROM e")
    with pytest.raises(UncertainTableError, match="f is a view over uncertain rows"):
        db.refresh()
    database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_threads_take_turns(kind: str, request: pytest.FixtureRequest) -> None:
    """Two of them, each with a ProbDB of its own on one connection, ask in a loop."""
    if kind == "sqlite":
        connection: Any = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    else:
        connection = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None).connection
    connection.execute("CREATE TABLE e (a INTEGER, p DOUBLE PRECISION)")
    connection.execute("INSERT INTO e VALUES (1, 0.5), (2, 0.25), (3, 0.5)")
    found: list[Any] = []

    def ask(most: int) -> None:
        db = sharpdnf.connect(connection)
        db.uncertain("e", prob="p")
        for _ in range(8):
            found.append((most, db.sql(f"SELECT a FROM e WHERE a <= {most} ORDER BY a").prob.tolist()))

    with ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(ask, most) for most in (1, 3)]:
            task.result()
    assert sorted(found) == [(1, [0.5])] * 8 + [(3, [0.5, 0.25, 0.5])] * 8
    connection.close()


def test_waiting_for_another_thread_counts_towards_the_time_limit(request: pytest.FixtureRequest) -> None:
    database, db = opened("duckdb", request)
    with ThreadPoolExecutor(1) as pool, watched(db.backend), pytest.raises(SQLTimeout):
        pool.submit(db.sql, "SELECT a FROM e", timeout=0.05).result()
    database.close()


SYNONYMS = {
    "duckdb": [
        "len(s)", "len([a])", "char_length(s)", "character_length(s)", "ceiling(a / 2)", "lcase(s)", "ucase(s)",
        "datediff('month', DATE '2020-01-31', DATE '2021-02-01')", "datetrunc('month', DATE '2020-02-29')",
        "string_split(s, ' ')[1]", "split(s, 'ö')", "string_to_array(s, '')", "list_has([a], 1)", "array_has([a], 2)",
        "list_value(a, 2)[1] + 1", "{'k': a, 'K l': {'m': s}}",
    ],
    "sqlite": ["ceiling(a / 2.0)", "'match' || s"],
    "postgres": ["char_length(s)", "char_length(s::char(9))", "character_length(s)", "ceiling(a / 2.0)", "btrim(s, 'H')"
    ],
}  # fmt: skip
"""What the parser writes by another name that means the same."""


@pytest.mark.parametrize("kind", SYNONYMS)
def test_synonyms_mean_the_same(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    database.run('CREATE TABLE "match" (a INTEGER, s VARCHAR(9), match_probability DOUBLE PRECISION)')
    database.run("INSERT INTO \"match\" VALUES (1, 'Hö x', 0.5), (3, '', 0.5), (4, NULL, 0.5)")
    db = sharpdnf.connect(database.connection)
    db.uncertain('"match"', prob="match_probability")
    for value in SYNONYMS[kind]:
        query = f'SELECT a, {value} AS x FROM "match" WHERE match_probability > 0 ORDER BY a'
        assert db.sql(query).arrow()["x"].to_pylist() == [row[1] for row in database.ask(query)], value
    database.close()


def test_sqlite_operators_that_call_the_users_functions() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (likes, p)")
    connection.execute("INSERT INTO t VALUES ('like', 0.5)")
    connection.create_function("like", 2, lambda *_: 1)
    db = sharpdnf.connect(connection)
    db.uncertain("t", prob="p")
    assert len(db.sql("SELECT likes FROM t WHERE likes = 'like'")) == 1
    with pytest.raises(UnsupportedSQL, match=r"function like\(\)"):
        db.sql("SELECT likes FROM t WHERE likes NOT LIKE 'x'")


def test_enums_sort_by_their_position() -> None:
    database = Database("duckdb")
    database.run("CREATE TYPE size AS ENUM ('small', 'large', 'huge')")
    database.run("CREATE TABLE e (s size, p DOUBLE)")
    database.run("INSERT INTO e VALUES ('huge', 0.5), ('small', 0.5), (NULL, 0.5), ('large', 0.5)")
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    for order in ("s", "s DESC", "s NULLS FIRST"):
        query = f"SELECT s FROM e ORDER BY {order}"
        assert db.sql(query).arrow()["s"].to_pylist() == [row[0] for row in database.ask(query)]


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_casts_of_constants_with_a_type(kind: str, request: pytest.FixtureRequest) -> None:
    """timestamp '...'::date is a date; the parser makes it CAST('...'::date AS TIMESTAMP)."""
    database, db = opened(kind, request)
    for value in ("timestamp '2020-01-02 10:00'::date", "date '2020-1-5'::text", "int '5'::text"):
        with pytest.raises(UnsupportedSQL, match="put parentheses"):
            db.sql(f"SELECT {value} AS x FROM e", way="lineage")
    for value in (
        "(timestamp '2020-01-02 10:00')::date",
        "interval '1 day'::text",
        "CASE WHEN a = 1 THEN '5'::int END",
    ):
        query = f"SELECT DISTINCT a, {value} AS x FROM e ORDER BY a"
        assert db.sql(query).arrow()["x"].to_pylist() == [row[1] for row in database.ask(query)]
    database.close()


@pytest.mark.parametrize("value", ["'01:00:01+01'::TIMETZ", "'101'::BIT", "['101'::BIT]", "a::UHUGEINT"])
def test_what_arrow_does_not_have(value: str, request: pytest.FixtureRequest) -> None:
    """Arrow would leave out the zone and sort bits by their padding."""
    database, db = opened("duckdb", request)
    with pytest.raises(UnsupportedSQL, match="cast it to VARCHAR"):
        db.sql(f"SELECT {value} AS x FROM e", way="lineage")
    assert len(db.sql(f"SELECT CAST({value} AS VARCHAR) AS x, {{'bit': a}} AS y FROM e WHERE {value} = {value}")) == 2
    database.close()


DATES = {
    "duckdb": [
        "DATE 'infinity'", "DATE '-infinity'", "DATE '0044-03-15 (BC)'", "DATE '0001-12-31 (BC)'", "DATE '12020-02-29'",
        "TIMESTAMP 'infinity'", "TIMESTAMP '-infinity'", "TIMESTAMP '0044-03-15 (BC) 01:02:03.5'", "TIME '24:00'",
        "TIMESTAMP '12020-01-01 23:59:59.000001'", "TIMESTAMPTZ 'infinity'", "TIMESTAMP_S '0401-02-28 (BC) 01:02:03'",
    ],
    "postgres": [
        "DATE 'infinity'", "DATE '-infinity'", "DATE '0044-03-15 BC'", "DATE '12020-02-29'", "TIMESTAMP 'infinity'",
        "TIMESTAMP '0044-03-15 01:02:03.5 BC'", "TIME '24:00'", "TIMETZ '24:00:00+00'", "TIMESTAMPTZ '-infinity'",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", DATES)
def test_dates_that_python_does_not_have(kind: str, request: pytest.FixtureRequest) -> None:
    """They are shown as the database shows them, wherever answers are read."""
    database, db = opened(kind, request)
    for value in DATES[kind]:
        answers = db.sql(f"SELECT a, {value} AS x FROM e ORDER BY a")
        want = [row[0] for row in database.ask(f"SELECT CAST({value} AS VARCHAR) FROM e")]
        assert answers.arrow()["x"].to_pylist() == want, value
        assert answers.df()["x"].tolist() == want, value
        answers.show()
    ordinary = db.sql(
        "SELECT DATE '0001-01-01' AS x, TIME '23:59:59.999999' AS y, TIMESTAMP '9999-12-31 23:59:59' AS z"
    )
    assert [str(v) for v in ordinary.arrow().slice(0, 1).to_pylist()[0].values()][:3] == [
        "0001-01-01",
        "23:59:59.999999",
        "9999-12-31 23:59:59",
    ]
    database.close()


def test_dates_within_lists_are_refused_by_name(request: pytest.FixtureRequest) -> None:
    database, db = opened("duckdb", request)
    answers = db.sql("SELECT [DATE 'infinity'] AS days FROM e")
    with pytest.raises(SQLError, match="'days'"):
        answers.show()
    database.close()


def affinity_world() -> World:
    """Columns of all affinities with 1 and '1'; k is certain."""
    return World(
        {
            "t": Table(("m",), [(1,)], [0.5], types=("integer",)),
            "u": Table(("s",), [("1",)], [0.5], types=("text",)),
            "n": Table(("x",), [(1,), ("1",)], [0.5, 0.5], types=("",)),
            "k": Table(("i", "c", "b"), [(1, "1", 1), (2, "2", "2")], types=("integer", "text", "")),
        }
    )


UNCERTAIN = ["SELECT m AS c FROM t", "SELECT s AS c FROM u", "SELECT x AS c FROM n", "SELECT m + 0 AS c FROM t"]
CERTAIN = ["SELECT '1' AS c", "SELECT 1 AS c", "SELECT i AS c FROM k", "SELECT c FROM k", "SELECT b AS c FROM k"]


def affinity_queries() -> list[str]:
    found = []
    for a in UNCERTAIN:
        for b in [*UNCERTAIN, *CERTAIN]:
            for operator in ("UNION", "UNION ALL", "INTERSECT"):
                found += [f"{a} {operator} {b}", f"{b} {operator} {a}"]
                found += [f"SELECT k.i FROM k JOIN ({a} {operator} {b}) d ON d.c = k.{c}" for c in "icb"]
                found += [f"SELECT k.i FROM k WHERE k.{c} IN ({a} {operator} {b})" for c in "ic"]
        found += [f"{a} EXCEPT {b}" for b in CERTAIN]
        found += [f"SELECT DISTINCT i FROM k, ({a}) d WHERE k.{c} = d.c GROUP BY i" for c in "icb"]
        found += [f"SELECT k.i FROM k WHERE k.{c} IN ({a})" for c in "icb"]
    return found[::11]


def test_sqlite_set_operations_apply_no_affinity() -> None:
    """1 and '1' are two answers of a UNION and none of an INTERSECT, in every possible world."""
    database, world = Database("sqlite"), affinity_world()
    create(database, world)
    db = declared(database, world)
    assert exact_answers(db, "SELECT m FROM t INTERSECT SELECT s FROM u") == {}
    assert exact_answers(db, "SELECT m FROM t EXCEPT SELECT '1'") == {(1,): 0.5}
    found: dict[str, dict[str, float]] = {}
    for sql in affinity_queries():
        try:
            answers = db.sql(sql, guarantee="exact").arrow()
        except UnsupportedSQL as error:
            assert "affinities" in str(error), sql
            continue
        totals: dict[str, float] = {}  # a column of mixed types is shown as text
        for value, p in zip(answers.column(0).to_pylist(), answers["prob"].to_pylist(), strict=True):
            totals[str(value)] = totals.get(str(value), 0.0) + p
        found[sql] = totals
    for sql, answers in zip(found, expected_answers(database, world, list(found)), strict=True):
        totals = {}
        for (value,), p in answers.items():
            totals[str(value)] = totals.get(str(value), 0.0) + p
        assert found[sql] == pytest.approx(totals), sql
    assert len(found) > 0.6 * len(affinity_queries())


def test_sqlite_unions_of_integers_and_reals_are_refused_by_name() -> None:
    """A UNION keeps 1 or 1.0, as it comes; compared with TEXT they differ. UNION ALL keeps both, and is answered."""
    database = Database("sqlite")
    rows = [(1, 1.0), (2, 2.0)]
    world = World(
        {
            "t": Table(("m", "r"), rows, [0.5, 0.25], types=("integer", "real")),
            "k": Table(("c",), [("1",), ("1.0",), ("2",)], types=("text",)),
        }
    )
    create(database, world)
    db = declared(database, world)
    inner = ["SELECT m + 0 FROM t UNION SELECT 1.0", "SELECT m + 0 AS x FROM t UNION SELECT r FROM t",
             "SELECT r + 0 FROM t UNION SELECT m + 1 FROM t", "SELECT 1 UNION SELECT m + 0.5 FROM t"]  # fmt: skip
    for sql in inner:
        for query in (f"SELECT c FROM k WHERE c IN ({sql})", f"WITH d(x) AS ({sql}) SELECT c FROM k JOIN d ON c = x"):
            with pytest.raises(UnsupportedSQL, match=r"integers and reals|different affinities"):
                db.sql(query, way="lineage")
    kept = [f"SELECT c FROM k JOIN ({sql}) AS d ON c = d.x" for sql in (
        "SELECT m + 0 AS x FROM t UNION ALL SELECT r + 0 FROM t", "SELECT m + 0 AS x FROM t UNION SELECT 2",
        "SELECT r + 0 AS x FROM t UNION SELECT 1.0")]  # fmt: skip
    got = [exact_answers(db, sql) for sql in kept]
    for sql, answers, want in zip(kept, got, expected_answers(database, world, kept), strict=True):
        assert not differences(answers, want), sql


def test_long_chains(request: pytest.FixtureRequest) -> None:
    database, db = opened("duckdb", request)
    terms = 1000
    for sql, want in (
        ("SELECT a FROM e WHERE " + " OR ".join(f"b = {i}" for i in range(4, terms + 4)), [3]),
        ("SELECT a FROM e WHERE " + " AND ".join(f"b <> {i}" for i in range(4, terms + 4)), [1]),
        (" UNION ALL ".join(f"SELECT a FROM e WHERE b = {i + 4}" for i in range(terms)), [3]),
    ):
        assert db.sql(sql, guarantee="none").arrow()["a"].to_pylist() == want, sql[:80]
    database.close()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_what_is_nested_too_deeply_is_an_error(kind: str, request: pytest.FixtureRequest) -> None:
    database, db = opened(kind, request)
    for sql in (
        "SELECT " + "+".join(["a"] * 1500) + " FROM e",
        "SELECT " + "(" * 1500 + "a" + ")" * 1500 + " FROM e",
        "SELECT a FROM e WHERE " + "NOT " * 1500 + "a = 1",
    ):
        with pytest.raises(SQLError, match=r"deep|recursion"):
            db.sql(sql)
    database.close()


def test_distinct_over_a_column_without_a_type_is_refused_within_a_query() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (n, k INT, p REAL)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, 1, 0.5), (1.0, 2, 0.3), ("1", 3, 0.2)])
    db = sharpdnf.connect(connection)
    db.uncertain("t", prob="p")
    for inner in ("SELECT DISTINCT t.n AS o FROM t WHERE t.n = 1.0", "SELECT n AS o FROM t GROUP BY n"):
        with pytest.raises(UnsupportedSQL, match="without a type"):
            db.sql(f"SELECT d.o || '' FROM ({inner}) AS d", way="lineage")
    typed = db.sql("SELECT d.o || '' AS s FROM (SELECT DISTINCT k AS o FROM t) AS d").arrow().to_pylist()
    assert {row["s"]: round(row["prob"], 12) for row in typed} == {"1": 0.5, "2": 0.3, "3": 0.2}
