"""The parser's tree means what the user wrote."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sql_servers import Database

import sharpdnf
from sharpdnf.errors import UnsupportedSQL

EXCHANGED = [
    ("sqlite", "CAST('2020-01-31' AS DATE)"),
    ("sqlite", "CAST(7 AS NUMERIC) / 2"),
    ("sqlite", "CAST(7 AS BOOLEAN)"),
    ("sqlite", "CAST('7' AS STRING)"),
    ("sqlite", "0xFFFFFFFFFFFFFFFF"),
]


def test_the_parser_does_not_speak() -> None:
    """In a process of its own, as pytest has log handlers."""
    code = "import sharpdnf\ntry: sharpdnf.connect().sql('CALL f()')\nexcept sharpdnf.errors.SQLError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "" and "not CALL" in done.stdout


@pytest.mark.parametrize(("kind", "expression"), EXCHANGED)
def test_what_the_parser_would_exchange(kind: str, expression: str) -> None:
    """It is refused in the query and in a view, and where it says the same it is not."""
    database = Database(kind)
    found = sharpdnf.connect(database.connection)
    database.run("CREATE TABLE e (a integer, p double precision)")
    found.uncertain("e", prob="p")
    with pytest.raises(UnsupportedSQL, match="parser"):
        found.sql(f"SELECT {expression}", way="lineage")
    database.run(f"CREATE VIEW v (x) AS SELECT {expression} AS y FROM e")
    with pytest.raises(UnsupportedSQL, match="parser"):
        found.sql("SELECT x FROM v", way="lineage")


def test_what_the_parser_may_spell_differently() -> None:
    database = Database("duckdb")
    found = sharpdnf.connect(database.connection)
    for expression in (
        ".5 + 1.50", "CAST('7' AS VARCHAR(2))", "CAST(7 AS NUMERIC)", "DATE '2020-01-31' + INTERVAL '1 day'",
        "INTERVAL 1 DAY = INTERVAL '1' DAY", "date_trunc('month', DATE '2020-01-31')", "$$it's$$", "1e3",
        """'{"a": [7]}'::JSON -> 'a' -> 0""", "(SELECT sum(range) FROM range(3))", "format('%s', 7)",
        """'{"a": {"b": 1}, "a.b": 2}'::JSON -> 'a.b'""", "2 ** 3 // 2", "if(true, 1, 2)", "7 % 4", "@(-3)",
    ):  # fmt: skip
        assert found.sql(f"SELECT {expression}").arrow().column(0).to_pylist() == [
            database.ask(f"SELECT {expression}")[0][0]
        ], expression
