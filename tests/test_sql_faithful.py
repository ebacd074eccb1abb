"""Random expressions without parentheses: what is accepted has the value that the database gives it."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from sql_servers import Database

import sharpdnf
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.dialect import DUCKDB, POSTGRES, SQLITE
from sharpdnf.sql.backends.duckdb_tree import SAME_FUNCTION
from sharpdnf.sql.parse.faithful import standing
from sharpdnf.sql.parse.text import parsed, written_back

DIALECTS = {dialect.name: dialect for dialect in (DUCKDB, SQLITE, POSTGRES)}
ROWS = [(1, 1, 2, "a"), (2, None, 3, "1"), (3, 0, -1, None), (4, 7, None, "ax")]
NUMBER = ["a", "b", "1", "2.5", "0", "NULL", ".5", "3"]
TEXT = ["s", "'a'", "'1'", "'ax'", "''", "NULL"]
TRUTH = ["TRUE", "FALSE", "NULL"]
BINARY = {
    "duckdb": (["+", "-", "*", "/", "//", "%", "^", "**", "&", "|", "<<", ">>"], ["||"], ["^@", "~", "LIKE", "NOT LIKE",
               "ILIKE", "SIMILAR TO", "NOT SIMILAR TO", "GLOB", "~~", "!~~", "!~"]),
    "sqlite": (["+", "-", "*", "/", "%", "&", "|", "<<", ">>"], ["||", "->", "->>"], ["LIKE", "NOT LIKE", "GLOB",
               "NOT GLOB"]),
    "postgres": (["+", "-", "*", "/", "%", "^", "&", "|", "<<", ">>", "#"], ["||"], ["LIKE", "NOT LIKE", "ILIKE", "~",
                 "!~", "~*", "SIMILAR TO", "^@", "~~"]),
}  # fmt: skip
COMPARE = ["=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
CITED = {
    "duckdb": ["a! IS NULL", "s ^@ 'a' || 'x'", "a! IS NOT NULL", "- b ISNULL", "a = b NOT IN (1, 2)", "~a IS NULL"],
    "sqlite": ["- NOT b ISNULL + 5", "TRUE IS NULL = 2.5 NOT IN () IS 1", "+s = 1", "a NOT BETWEEN 1 AND 2 = b",
               "a IS NOT b IS NOT 1", "NOT a IS NULL", "a NOT NULL", "s COLLATE NOCASE = 'A' || 'x'",
               "a = b NOT IN (1)", "CAST(s AS NUMERIC) / 2", "- a -> '$' || s", "a == b", "~a IS b | 1",
               "a IS NOT NULL || s"],
    "postgres": ["- a IS NULL", "NOT a = 1 IS NULL", "a = 1 IS NOT TRUE", "- 2 ^ 2", "a BETWEEN 1 AND 2 = TRUE",
                 "|/ b + 2", "@ - b", "s ^@ 'a' || 'x'", "a # b | 1 & 3", "2 ^ - 1", "s || 'a' LIKE 'a' || '%'"],
}  # fmt: skip


class Expressions:
    """Random text, seldom with parentheses; it need not be valid."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.draw = kind, random.Random(seed)

    def pick(self, words: list[str]) -> str:
        return self.draw.choice(words)

    def some(self, what: str, depth: int) -> str:
        if self.draw.random() < 0.07 and self.kind == "sqlite":
            what = self.pick(["number", "text", "truth"])  # it converts everything
        text = getattr(self, what)(depth)
        return f"({text})" if self.draw.random() < 0.08 else str(text)

    def number(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.2:
            return self.pick(NUMBER)
        case = self.draw.randrange(9)
        if case < 5:
            return (
                f"{self.some('number', depth - 1)} {self.pick(BINARY[self.kind][0])} {self.some('number', depth - 1)}"
            )
        if case == 5:
            return (
                f"{self.pick(['-', '~', '+', '@ ' if self.kind != 'sqlite' else '- '])}{self.some('number', depth - 1)}"
            )
        if case == 6:
            return f"CASE WHEN {self.some('truth', depth - 1)} THEN {self.some('number', depth - 1)} ELSE a END"
        if case == 7:
            name = self.pick(["abs", "coalesce", "round", "length"])
            return (
                f"length({self.some('text', depth - 1)})"
                if name == "length"
                else f"{name}({self.some('number', depth - 1)}{', 1' * (name == 'coalesce')})"
            )
        return (
            f"CAST({self.some('number', depth - 1)} AS {self.pick(['INTEGER', 'DOUBLE PRECISION', 'REAL', 'NUMERIC'])})"
        )

    def text(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.3:
            return self.pick(TEXT)
        if self.draw.random() < 0.7:
            return f"{self.some('text', depth - 1)} {self.pick(BINARY[self.kind][1])} {self.some('text', depth - 1)}"
        return f"{self.pick(['lower', 'upper', 'trim'])}({self.some('text', depth - 1)})"

    def truth(self, depth: int) -> str:
        if depth <= 0 or self.draw.random() < 0.1:
            return self.pick([*TRUTH, "a = 1", "b IS NULL"])
        case, less = self.draw.randrange(12), depth - 1
        if case < 3:
            return f"{self.some('number', less)} {self.pick(COMPARE)} {self.some('number', less)}"
        if case == 3:
            return f"{self.some('text', less)} {self.pick(BINARY[self.kind][2])} {self.some('text', less)}"
        if case == 4:
            return f"NOT {self.some('truth', less)}"
        if case == 5:
            test = self.pick(["IS NULL", "IS NOT NULL", "ISNULL", "NOTNULL", "IS TRUE", "IS NOT TRUE", "IS FALSE"])
            return f"{self.some(self.pick(['number', 'truth']) if 'NULL' in test else 'truth', less)} {test}"
        if case == 6:
            return f"{self.some('number', less)} {self.pick(['', 'NOT '])}IN ({self.some('number', less)}, 1)"
        if case == 7:
            low, high = self.some("number", less), self.some("number", less)
            return f"{self.some('number', less)} {self.pick(['', 'NOT '])}BETWEEN {low} AND {high}"
        if case == 8:
            return f"{self.some('truth', less)} {self.pick(['=', '<>', 'IS DISTINCT FROM'])} {self.some('truth', less)}"
        return f"{self.some('truth', less)} {self.pick(['AND', 'OR'])} {self.some('truth', less)}"


def values(rows: list[Any]) -> list[tuple[Any, str]]:
    """Rows in an order that does not depend on their types, a number by its value."""

    def plain(value: Any) -> str:
        try:
            number = float(value)
        except (TypeError, ValueError):
            return repr(value)
        return "nan" if math.isnan(number) else repr(number)

    return sorted((key, plain(value)) for key, value in rows)


def opened(kind: str, request: pytest.FixtureRequest) -> tuple[Database, sharpdnf.ProbDB]:
    return declared(Database(kind, request.getfixturevalue("address") if kind == "postgres" else None))


def declared(database: Database) -> tuple[Database, sharpdnf.ProbDB]:
    """The database with one uncertain table of ``ROWS``."""
    database.run("CREATE TABLE e (k INTEGER, a INTEGER, b INTEGER, s VARCHAR(9), p DOUBLE PRECISION)")
    for k, a, b, s in ROWS:
        shown = ", ".join("NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v) for v in (k, a, b, s))
        database.run(f"INSERT INTO e VALUES ({shown}, 0.5)")
    db = sharpdnf.connect(database.connection)
    db.uncertain("e", prob="p")
    return database, db


def compare(database: Database, db: sharpdnf.ProbDB, expression: str) -> bool | None:
    """None if the database does not take the expression, else whether we do; fails if the values differ."""
    for query in (f"SELECT k, {expression} AS x FROM e", f"SELECT k, 1 AS x FROM e WHERE {expression}"):
        try:
            want = database.ask(query)
        except Exception:
            continue
        try:
            found = db.sql(query, guarantee="none").arrow()
        except SQLError:
            return False
        got = list(zip(found["k"].to_pylist(), found["x"].to_pylist(), strict=True))
        assert values(got) == values(want), query
        return True
    return None


@pytest.mark.parametrize("kind", CITED)
def test_random_expressions(kind: str, request: pytest.FixtureRequest, count: int = 80) -> None:
    database, db = opened(kind, request)
    for expression in CITED[kind]:
        assert compare(database, db, expression) is not None, expression
    random_text = Expressions(kind, 9)
    taken = [
        compare(database, db, random_text.some(random_text.pick(["number", "truth", "text"]), 4)) for _ in range(count)
    ]
    assert taken.count(True) > 0.6 * (taken.count(True) + taken.count(False)) > 0.1 * count
    database.close()


def test_same_functions_are_the_same_to_duckdb() -> None:
    database = Database("duckdb")
    listed = database.ask("SELECT DISTINCT function_name, alias_of FROM duckdb_functions() WHERE alias_of IS NOT NULL")
    assert set(SAME_FUNCTION.items()) <= set(listed)


@pytest.mark.parametrize(
    ("sql", "want"),
    [
        ("SELECT a FROM e;", "SELECT a FROM e"),
        ("SELECT a FROM e GROUP BY a HAVING prob() > 0.5 ORDER BY prob() LIMIT 2",
         "SELECT a FROM e GROUP BY a HAVING random() > 0.5  LIMIT 2"),
        ("SELECT a, prob() * 2 AS q FROM e HAVING prob() > 0.5 ORDER BY a",
         "SELECT a, random() * 2 AS q FROM e  ORDER BY a"),
        ("SELECT a FROM e QUALIFY rank() OVER (ORDER BY prob()) = 1 ORDER BY a", "SELECT a FROM e  ORDER BY a"),
        ("SELECT a FROM e ORDER BY prob() DESC, a", "SELECT a FROM e"),
        ("SELECT expected_count() FROM e", "SELECT count(*) FROM e"),
        ("SELECT a, expected_sum(b + 1) AS x FROM e GROUP BY a", "SELECT a, count(b + 1) AS x FROM e GROUP BY a"),
        ("SELECT a FROM (SELECT a FROM e ORDER BY a LIMIT 1) d HAVING prob() > 0.1",
         "SELECT a FROM (SELECT a FROM e ORDER BY a LIMIT 1) d"),
    ],
)  # fmt: skip
def test_our_own_functions_are_not_shown_to_the_database(sql: str, want: str) -> None:
    assert standing(sql, DUCKDB).strip() == want


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_functions_keep_their_names(kind: str) -> None:
    sql = "SELECT len(s), ifnull(a, 1), char_length(s), ceiling(a), datediff('day', a, b), list_has(a, 1) FROM e"
    written = written_back(parsed(sql, DIALECTS[kind])[0], DIALECTS[kind]).lower()
    assert written == sql.lower()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_a_view_that_is_read_otherwise_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    database, db = opened(kind, request)
    value = {"duckdb": "a! IS NULL", "sqlite": "- NOT b ISNULL + 5", "postgres": "|/ b + 2"}[kind]
    where = " WHERE b > 0" if kind == "postgres" else ""
    database.run(f"CREATE VIEW v AS SELECT k, {value} AS x FROM e{where}")
    try:
        found = db.sql("SELECT k, x FROM v").arrow()
    except SQLError as error:
        assert "parser" in str(error)
    else:
        got = list(zip(found["k"].to_pylist(), found["x"].to_pylist(), strict=True))
        assert values(got) == values(database.ask("SELECT k, x FROM v"))
    database.close()
