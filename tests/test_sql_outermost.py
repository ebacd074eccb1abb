"""prob() in the select list, HAVING, QUALIFY, DISTINCT ON and ORDER BY; LIMIT over the answers; on three databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from sql_servers import BACKENDS, Database
from sql_worlds import Table, World, create, declared, differences, expected_answers, random_world, refill
from sqlglot import exp

import sharpdnf
from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.sql.computed import Computed, work_out
from sharpdnf.sql.counting import Counts

FACTS = World(
    {
        "t": Table(
            ("g", "x", "v"),
            [(1, "a", 10), (1, "b", 20), (2, "a", 30), (2, "c", 40), (2, "a", 30), (3, "d", None)],
            [0.5, 0.7, 0.2, 0.1, 0.3, 1.0],
            types=("integer", "text", "integer"),
        )
    }
)
"""P(1, a) = 0.5, P(1, b) = 0.7, P(2, a) = 1 - 0.8 * 0.7 = 0.44, P(2, c) = 0.1, P(3, d) = 1."""


@pytest.fixture(params=BACKENDS)
def facts(request: pytest.FixtureRequest) -> Iterator[sharpdnf.ProbDB]:
    address = request.getfixturevalue("address") if request.param == "postgres" else None
    database = Database(request.param, address)
    create(database, FACTS)
    yield declared(database, FACTS)
    database.close()


def rows(db: sharpdnf.ProbDB, sql: str) -> list[tuple[Any, ...]]:
    """The answer columns, without what is known of each probability."""
    table = db.sql(sql, guarantee="exact").arrow()
    names = table.column_names[: table.column_names.index("prob")]
    names = [name for name in names if not name.endswith(("_lower", "_upper"))]
    found = [tuple(row.values()) for row in table.select(names).to_pylist()]
    return [tuple(round(float(v), 9) if isinstance(v, float) else v for v in row) for row in found]


def test_prob_in_expressions(facts: sharpdnf.ProbDB) -> None:
    found = rows(facts, "SELECT g, x, prob() * 100 AS pct FROM t ORDER BY pct DESC, g")
    assert found == [(3, "d", 100.0), (1, "b", 70.0), (1, "a", 50.0), (2, "a", 44.0), (2, "c", 10.0)]
    found = rows(
        facts, "SELECT g, prob() > 0.45 AS likely, CASE WHEN prob() = 1 THEN 'sure' ELSE x END FROM t ORDER BY g, x"
    )
    assert [(g, bool(likely), word) for g, likely, word in found] == [
        (1, True, "a"), (1, True, "b"), (2, False, "a"), (2, False, "c"), (3, True, "sure"),
    ]  # fmt: skip


def test_prob_alone_is_the_column_that_is_shown_anyway(facts: sharpdnf.ProbDB) -> None:
    answers = facts.sql("SELECT x, prob() FROM t ORDER BY 2 DESC, x", guarantee="exact")
    assert answers.arrow().column_names[:2] == ["x", "prob"]
    assert answers.arrow().column("x").to_pylist() == ["d", "a", "b", "c"]
    assert facts.sql("SELECT prob() FROM t WHERE g = 2", guarantee="exact").prob == pytest.approx([1 - 0.8 * 0.9 * 0.7])


def test_columns_beside_prob_tell_answers_apart(facts: sharpdnf.ProbDB) -> None:
    assert rows(facts, "SELECT g, v * prob() AS worth FROM t WHERE g = 2 ORDER BY worth") == [(2, 4.0), (2, 13.2)]
    assert rows(facts, "SELECT g, g + prob() AS s FROM t GROUP BY g ORDER BY s DESC") == [
        (3, 4.0),
        (2, 2.496),
        (1, 1.85),
    ]
    with pytest.raises(UnsupportedSQL, match="not a function of the grouping columns"):
        facts.sql("SELECT g, v * prob() FROM t GROUP BY g")


def test_order_by_any_key(facts: sharpdnf.ProbDB) -> None:
    assert rows(facts, "SELECT x, g FROM t ORDER BY g DESC, prob() DESC") == [
        ("d", 3), ("a", 2), ("c", 2), ("b", 1), ("a", 1),
    ]  # fmt: skip
    assert rows(facts, "SELECT x FROM t GROUP BY x ORDER BY abs(prob() - 0.71), x") == [("a",), ("b",), ("d",), ("c",)]
    assert rows(facts, "SELECT x, prob() AS p FROM t GROUP BY x ORDER BY p")[0] == ("c", 0.1)
    assert rows(facts, "SELECT *, 1 - prob() AS q FROM t ORDER BY 4, 1")[0] == (3, "d", None, 0.0)


def test_limit_over_the_answers(facts: sharpdnf.ProbDB) -> None:
    assert rows(facts, "SELECT x, prob() FROM t ORDER BY x DESC LIMIT 2") == [("d",), ("c",)]
    assert rows(facts, "SELECT x, prob() FROM t ORDER BY x LIMIT 2 OFFSET 1") == [("b",), ("c",)]
    assert rows(facts, "SELECT x FROM t ORDER BY prob() DESC LIMIT 2 OFFSET 1") == [("a",), ("b",)]
    found = rows(facts, "SELECT g, expected_count() AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 2")
    assert found == [(1, 1.2), (3, 1.0)]
    counted = facts.sql("SELECT x, prob() FROM t ORDER BY x LIMIT 2", guarantee="exact")
    assert counted.prob == pytest.approx([1 - 0.5 * 0.8 * 0.7, 0.7])


@pytest.mark.parametrize("how", [
    "SELECT g, x FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY prob() DESC) = 1 ORDER BY g",
    "SELECT g AS k, x, prob() AS p FROM t QUALIFY rank() OVER (PARTITION BY k ORDER BY p DESC) < 2 ORDER BY k",
    "SELECT DISTINCT ON (g) g, x FROM t ORDER BY g, prob() DESC",
])  # fmt: skip
def test_best_answer_of_each_group(facts: sharpdnf.ProbDB, how: str) -> None:
    if "DISTINCT ON" in how and facts.backend.dialect.name == "sqlite":
        with pytest.raises(SQLError, match="no SQL of this database"):
            facts.sql(how)
        return
    assert [row[:2] for row in rows(facts, how)] == [(1, "b"), (2, "a"), (3, "d")]


def test_windows_over_the_answers(facts: sharpdnf.ProbDB) -> None:
    found = rows(facts, "SELECT x, rank() OVER (ORDER BY prob() DESC) AS place FROM t GROUP BY x ORDER BY place")
    assert found == [("d", 1), ("a", 2), ("b", 3), ("c", 4)]
    found = rows(facts, "SELECT g, x, prob() / sum(prob()) OVER (PARTITION BY g) AS share FROM t ORDER BY g, x")
    assert [row[2] for row in found] == pytest.approx([5 / 12, 7 / 12, 44 / 54, 10 / 54, 1.0])


def test_having_with_more_than_a_number(facts: sharpdnf.ProbDB) -> None:
    assert rows(facts, "SELECT g, x FROM t HAVING prob() < 0.2 OR prob() > 0.6 ORDER BY g") == [
        (1, "b"),
        (2, "c"),
        (3, "d"),
    ]
    assert rows(facts, "SELECT x, g FROM t HAVING prob() * g > 0.8 ORDER BY x") == [("a", 2), ("d", 3)]
    assert rows(facts, "SELECT g, expected_count() AS n FROM t GROUP BY g HAVING expected_count() > 1") == [(1, 1.2)]


def test_what_sampling_cannot_decide_is_flagged(facts: sharpdnf.ProbDB) -> None:
    """Answers whose choice is another one at an end of their interval; a rank may change with any interval."""
    prob, half = np.array([0.1, 0.49, 0.9]), np.array([0.05, 0.05, 0.0])
    words = np.array(["relative", "relative", "exact"], dtype=object)
    table = pa.table({"_c0": [1, 2, 3], "_prob": prob})
    like = "SELECT 1 AS _c0"

    def chosen(**asked: Any) -> tuple[list[int], list[bool]]:
        counts = Counts(prob, prob - half, prob + half, words, words, np.ones(3, dtype=bool))
        kept, _ = work_out(facts.backend, Computed(**asked), table, counts, like)
        assert counts.near_cut is not None
        return kept.tolist(), counts.near_cut.tolist()

    above = exp.Or(this=sqlglot.parse_one("_prob > 0.5"), expression=sqlglot.parse_one("_c0 = 1"))
    assert chosen(having=(above,)) == ([0, 2], [False, True, False])
    first = exp.EQ(this=sqlglot.parse_one("rank() OVER (ORDER BY _prob DESC)"), expression=exp.Literal.number(1))
    assert chosen(qualify=first) == ([2], [True, True, False])


@pytest.mark.parametrize(("sql", "says"), [
    ("SELECT x FROM t WHERE prob() > 0.5", "write HAVING prob"),
    ("SELECT max(prob()) FROM t", "OVER"),
    ("SELECT x, prob(g) FROM t", "takes no argument"),
    ("SELECT x FROM t UNION SELECT x || prob() FROM t", r"SELECT \*, prob\(\) FROM"),
    ("SELECT x, prob() + (SELECT 1) FROM t", "join it in FROM"),
    ("SELECT x FROM t GROUP BY x HAVING expected_count() > 1", "into the select list"),
    ("SELECT x FROM t ORDER BY prob() LIMIT 1 + 1", "whole number"),
    ("SELECT g, x FROM t ORDER BY v, prob()", "select the column, too"),
])  # fmt: skip
def test_refusals_say_what_to_write(facts: sharpdnf.ProbDB, sql: str, says: str) -> None:
    with pytest.raises(UnsupportedSQL, match=says):
        facts.sql(sql)


def test_a_query_that_is_asked_twice_sees_the_same_rows(facts: sharpdnf.ProbDB) -> None:
    """The table of answers that the database works over is no change of the data."""
    before = facts.readings, [d.copy for d in facts.declared.tables.values()]
    for _ in range(2):
        rows(facts, "SELECT x, prob() * 2 AS q FROM t ORDER BY q")
    assert (facts.readings, [d.copy for d in facts.declared.tables.values()]) == before


SPOKEN = [
    ("SELECT a, prob() * 2 AS q FROM e", "SELECT a FROM e"),
    ("SELECT e.a, c, prob() > 0.5 AS q FROM e JOIN u ON e.a = u.a", "SELECT e.a, c FROM e JOIN u ON e.a = u.a"),
    ("SELECT x, k + prob() AS q FROM r GROUP BY k, x", "SELECT x, k FROM r GROUP BY k, x"),
    ("SELECT a, b + prob() AS q FROM e WHERE EXISTS (SELECT 1 FROM u WHERE u.a = e.a)",
     "SELECT a, b FROM e WHERE EXISTS (SELECT 1 FROM u WHERE u.a = e.a)"),
    ("SELECT n, prob() FROM vv ORDER BY 2", "SELECT n FROM vv"),
]  # fmt: skip


@pytest.mark.parametrize("kind", BACKENDS)
def test_against_worlds(kind: str, request: pytest.FixtureRequest) -> None:
    """The probability that an item shows is that of its answer in the worlds: with columns beside prob() among it."""
    address = request.getfixturevalue("address") if kind == "postgres" else None
    for seed in (3, 4):
        database, world = Database(kind, address), random_world(seed)
        create(database, world)
        wanted = expected_answers(database, world, [core for _, core in SPOKEN])
        refill(database, world)
        db = declared(database, world)
        for (sql, core), want in zip(SPOKEN, wanted, strict=True):
            answers = db.sql(sql, guarantee="exact")
            table = answers.arrow()
            got = {}
            for row, p in zip(table.to_pylist(), answers.prob, strict=True):
                key = list(row.values())[: table.column_names.index("prob")]
                if "* 2" in sql:
                    assert key.pop() == pytest.approx(2 * p)
                elif "> 0.5" in sql:
                    assert bool(key.pop()) == (p > 0.5)
                elif "+ prob()" in sql:
                    key[-1] = None if key[-1] is None else round(key[-1] - p)
                got[tuple(key)] = float(p)
            assert differences(got, want) == [], (kind, seed, core)
        database.close()
