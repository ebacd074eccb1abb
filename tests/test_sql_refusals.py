"""What is refused: the error names the construct and what to do instead, and what stands beside it here works."""

from __future__ import annotations

import re
import warnings

import pytest
from sql_servers import BACKENDS, Database
from sql_worlds import create, declared, random_world

from sharpdnf.errors import SQLError

ALL = BACKENDS
PROB = "HAVING prob() > 0.5"
REFUSED: list[tuple[tuple[str, ...], str, str, str]] = [
    # databases, what is refused, the words of the error, what works instead
    (ALL, "SELECT a FROM e WHERE prob() > 0.5", "write HAVING prob", f"SELECT a FROM e {PROB}"),
    (ALL, f"SELECT a FROM (SELECT a FROM e {PROB}) d", "of the outermost SELECT", f"SELECT a FROM e {PROB}"),
    (ALL, f"SELECT a FROM e UNION SELECT a FROM u {PROB}", r"SELECT \*, prob\(\) FROM \(\.\.\.\)",
     f"SELECT *, prob() FROM (SELECT a FROM e UNION SELECT a FROM u) AS q {PROB}"),
    (ALL, "SELECT a, prob(b) FROM e", r"prob\(\) takes no argument", "SELECT a, prob() FROM e"),
    (ALL, "SELECT a, max(prob()) FROM e GROUP BY a", r"max\(prob\(\)\) OVER",
     "SELECT a, max(prob()) OVER (PARTITION BY a) AS best FROM e GROUP BY a, b"),
    (ALL, "SELECT a FROM (SELECT a, expected_count() FROM e GROUP BY a) d", "stands alone in the outermost select list",
     "SELECT a, expected_count() AS n FROM e GROUP BY a"),
    (ALL, "SELECT a, expected_count() AS n FROM e", "FROM t GROUP BY g",
     "SELECT a, expected_count() AS n FROM e GROUP BY a"),
    (ALL, "SELECT expected_sum(a, b) AS s FROM e", "takes one expression", "SELECT expected_sum(a + b) AS s FROM e"),
    (ALL, "SELECT expected_count(a) AS n FROM e", "count columns over a subquery",
     "SELECT expected_count() AS n FROM (SELECT a FROM e WHERE a IS NOT NULL) AS q"),
    (ALL, "SELECT DISTINCT a, expected_count() AS n FROM e GROUP BY a", "FROM t GROUP BY g",
     "SELECT a, expected_count() AS n FROM e GROUP BY a"),
    (ALL, "SELECT a FROM e WHERE random() < 0.5", "store its values in a table", "SELECT a FROM e JOIN t ON t.z < e.b"),
    (("duckdb",), "SELECT a FROM query_table('e')", "name the tables that it reads in FROM", "SELECT a FROM e"),
    (("postgres",), "SELECT query_to_xml('select * from e', true, true, '') FROM s",
     "name the tables that it reads in FROM", "SELECT array_agg(a ORDER BY a) FROM e"),
    (("duckdb",), "SELECT a FROM e USING SAMPLE 2", "ask for WHERE", "SELECT a FROM e WHERE b % 10 = 1"),
    (("postgres",), "SELECT a FROM e TABLESAMPLE SYSTEM (50)", "ask for WHERE", "SELECT a FROM e WHERE b % 10 = 1"),
    (("duckdb",), "PIVOT e ON a USING count(*)", r"write SELECT \* FROM t PIVOT",
     "SELECT * FROM (SELECT a, b FROM e) PIVOT (count(b) FOR a IN (1, 2))"),
    (ALL, "SELECT a FROM e; SELECT a FROM u", "a text of 2 statements .* one after the other", "SELECT a FROM e"),
    (ALL, "INSERT INTO s SELECT a, b FROM e", "one SELECT, not INSERT: ask the SELECT in it", "SELECT a, b FROM e"),
    (ALL, "CREATE TABLE n AS SELECT a FROM e", "one SELECT, not CREATE: ask the SELECT in it", "SELECT a FROM e"),
    (ALL, "DELETE FROM e", "one SELECT, not DELETE: run it on your own connection", "SELECT a FROM e"),
    (("duckdb", "sqlite"), "SELECT rowid FROM e", "the hidden column rowid .* a key of your own", "SELECT a, b FROM e"),
    (("postgres",), "SELECT ctid FROM e", "the hidden column ctid .* a key of your own", "SELECT a, b FROM e"),
    (ALL, "SELECT *, p, row_number() OVER (ORDER BY a, b) FROM e", "probability column p .* write the columns out",
     "SELECT a, b, p, row_number() OVER (ORDER BY a, b) FROM e"),
    (("sqlite",), "SELECT y FROM t WHERE y IN vv", r"write IN \(SELECT column FROM it\)",
     "SELECT y FROM t WHERE y IN (SELECT n FROM vv)"),
    (("postgres",), "SELECT a FROM ONLY e", "leave ONLY out", "SELECT a FROM e"),
    (("postgres",), "SELECT e FROM e", "name the columns", "SELECT a, b FROM e"),
    (("postgres",), "SELECT s.a, d.b FROM s, (SELECT b FROM e WHERE e.a = s.a) d", "'s.a' .* LATERAL",
     "SELECT s.a, d.b FROM s, LATERAL (SELECT b FROM e WHERE e.a = s.a) d"),
    (ALL, "SELECT a AS _sharpdnf_x FROM e", "'_sharpdnf_' .* reserved", "SELECT a AS x FROM e"),
    (ALL, "SELECT nothing FROM e", "no column 'nothing'|has no column", "SELECT a FROM e"),
    (ALL, "SELECT a FROM nowhere", "nowhere", "SELECT a FROM e"),
    (ALL, "SELECT a FROM e, u", "[Aa]mbiguous", "SELECT e.a FROM e, u"),
    (ALL, "SELECT a FROM e WHERE", "cannot parse|syntax|cannot read", "SELECT a FROM e"),
]  # fmt: skip


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_refusal_says_what_to_do_instead(kind: str, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(0)
    create(database, world)
    db = declared(database, world)
    poor = []
    for on, sql, words, instead in REFUSED:
        if kind not in on:
            continue
        try:
            db.sql(sql)
        except SQLError as error:
            if not re.search(words, str(error), re.S):
                poor.append(f"{sql}: {error}")
        else:
            poor.append(f"{sql}: it is answered")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            db.sql(instead)
    database.close()
    assert not poor, "\n".join(poor)


def test_options_that_do_not_fit_say_which_do() -> None:
    database = Database("sqlite")
    world = random_world(1, 4)
    create(database, world)
    db = declared(database, world)
    window = "SELECT a, rank() OVER (ORDER BY a) FROM e"
    for asked, words in (
        ({"way": "lineage"}, "window function"),
        ({"way": "wolrds"}, "did you mean 'worlds'"),
        ({"engine": "exact"}, "goes by worlds"),
        ({"aggregates": "row"}, '"summary" or "rows"'),
        ({"given": "SELECT 1 FROM e WHERE a > 99"}, "evidence is impossible"),
        ({"given": 7}, "evidence is SQL"),
    ):
        with pytest.raises((SQLError, ValueError, TypeError), match=words):
            db.sql(window, **asked)  # type: ignore[arg-type]
    database.close()
