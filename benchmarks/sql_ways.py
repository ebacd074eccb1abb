"""`make bench-sql`, second part: what negation, aggregates, expected values, worlds and top-k cost beside plain SQL.

Every figure is the median ratio of processor time over rounds in which all queries take turns, on one thread; every
query is asked twice before, so that its plan is known. Prints a line per measurement with its target and writes
benchmarks/results/sql_ways.csv. Arguments name the measurements to run; without them all are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from sql import Row, graph, in_turns, one_thread, report

import sharpdnf

TINY = {
    "join": "SELECT DISTINCT t0.a FROM t0 JOIN t1 ON t0.b = t1.b",
    "HAVING": "SELECT b FROM t0 GROUP BY b HAVING count(*) >= 2",
    "aggregate": "SELECT b, count(*) AS n FROM t0 GROUP BY b",
    "NOT EXISTS": "SELECT a FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.b = t0.b)",
}
EXPECTED = "SELECT {}count(*) AS n, sum(v * w) AS s FROM x JOIN y ON x.k = y.k{}"


def declared(connection: duckdb.DuckDBPyConnection, *tables: str) -> sharpdnf.ProbDB:
    db = sharpdnf.connect(connection)
    for table in tables:
        db.uncertain(table, prob="p")
    return db


def ratio(ours: Callable[[], Any], plain: Callable[[], Any], rounds: int) -> float:
    """How many times the processor time of ``plain`` ours takes."""
    for _ in range(2):
        ours()
    seconds = in_turns({"ours": ours, "plain": plain}, rounds)
    return float(np.median(seconds["ours"] / seconds["plain"]))


def line(name: str, value: float, most: float | None) -> Row:
    return name, value, "" if most is None else f"<= {most:g}", most is None or value <= most


def tiny() -> list[Row]:
    """Milliseconds of queries over tables of five rows, with eight tables declared: each repeated, and all in turns."""
    connection = one_thread()
    for i in range(8):
        connection.execute(f"CREATE TABLE t{i} AS SELECT range AS a, range % 3 AS b, 0.5 AS p FROM range(5)")
    db = declared(connection, *(f"t{i}" for i in range(8)))
    actions: dict[str, Callable[[], Any]] = {name: lambda query=query: db.sql(query) for name, query in TINY.items()}
    actions["SELECT 1 of the database"] = lambda: connection.execute("SELECT 1").fetchall()
    lines = []
    repeated = [{name: action} for name, action in actions.items()]
    for note, turns in (("repeated", repeated), ("in turns with NOT EXISTS and others", [actions])):
        for together in turns:
            in_turns(together, 3)
            for name, times in in_turns(together, 40).items():
                most = 5.0 if name == "join" else None
                lines.append(line(f"tiny query in ms, {name}, {note}", 1e3 * float(np.median(times)), most))
    return lines


def absence() -> list[Row]:
    connection = one_thread()
    for name in "ef":
        connection.execute(
            f"CREATE TABLE {name} AS SELECT range AS id, CAST(random() * 400_000 AS INTEGER) AS a, 0.5 * random() AS p "
            "FROM range(500_000)"
        )
    db = declared(connection, "e", "f")
    query = "SELECT id FROM e WHERE {}EXISTS (SELECT 1 FROM f WHERE f.a = e.a)"
    found = ratio(lambda: db.sql(query.format("NOT ")), lambda: db.sql(query.format("")), 5)
    return [line("NOT EXISTS / EXISTS, 500,000 rows", found, 2.0)]


def having() -> list[Row]:
    connection = one_thread()
    connection.execute(
        "CREATE TABLE t AS SELECT CAST(random() * 20_000 AS INTEGER) AS g, random() AS p FROM range(1_000_000)"
    )
    db = declared(connection, "t")
    query = "SELECT g FROM t GROUP BY g HAVING count(*) >= 25"
    found = ratio(lambda: db.sql(query), lambda: connection.sql(query).to_arrow_table(), 9)
    assert set(db.sql(query).counts.guarantee) == {"exact"}
    return [line("HAVING COUNT(*) >= 25 / plain GROUP BY, 1 million rows in 20,000 groups", found, 4.0)]


def joined() -> sharpdnf.ProbDB:
    """Two tables whose join has 5 million rows."""
    connection = one_thread()
    connection.execute(
        "CREATE TABLE x AS SELECT CAST(random() * 1000 AS INTEGER) AS k, range % 50 AS g, random() AS v, random() AS p "
        "FROM range(70_000)"
    )
    connection.execute(
        "CREATE TABLE y AS SELECT CAST(random() * 1000 AS INTEGER) AS k, random() AS w, random() AS p "
        "FROM range(72_000)"
    )
    return declared(connection, "x", "y")


def expected() -> list[Row]:
    lines = []
    for keys, group, most in (("", "", 3.0), ("g, ", " GROUP BY g", 3.0)):
        db = joined()
        plain = EXPECTED.format(keys, group)
        query = plain.replace("count(*) AS", "expected_count() AS").replace("sum(", "expected_sum(")
        found = ratio(lambda: db.sql(query), lambda: db.backend.rows(plain), 5)  # noqa: B023
        lines.append(line(f"expected values{group} / plain aggregate, 5 million rows", found, most))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sql_ways, resource\n"
        "db = sql_ways.joined()\n"
        "for form in (('', ''), ('g, ', ' GROUP BY g')):\n"
        "    query = sql_ways.EXPECTED.format(*form).replace('count(*) AS', 'expected_count() AS')\n"
        "    db.sql(query.replace('sum(', 'expected_sum('))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=True, capture_output=True,
                           text=True, env=os.environ)  # fmt: skip
    peak = int(shown.stdout.split()[-1]) / 2**20
    return [*lines, line("peak memory in GiB, expected values over 5 million rows", peak, 1.0)]


def worlds() -> list[Row]:
    connection = one_thread()
    connection.execute(
        "CREATE TABLE t AS SELECT range AS id, CAST(random() * 100 AS INTEGER) AS g, random() AS x, random() AS p "
        "FROM range(10_000)"
    )
    db = declared(connection, "t")
    query = "SELECT g, x FROM (SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY x) AS r FROM t) AS q WHERE r = 1"
    played = db.sql(query, epsilon=0.05, rng=0)
    found = ratio(lambda: db.sql(query, epsilon=0.05, rng=0), lambda: connection.sql(query).to_arrow_table(), 3)
    return [line("1,000 worlds / plain query over 10,000 rows", 1_000.0 * found / played.num_worlds, 1_500.0)]


def top() -> list[Row]:
    db = graph(300_000, 900_000)
    every = "SELECT e.src FROM edge e JOIN edge f ON e.dst = f.src GROUP BY e.src"
    asked = {
        "ORDER BY prob() LIMIT 10": f"{every} ORDER BY prob() DESC LIMIT 10",
        "HAVING prob() > 0.5": f"{every} HAVING prob() > 0.5",
        "HAVING prob() > 0.9": f"{every} HAVING prob() > 0.9",
    }
    lines = []
    for name, query in asked.items():
        found = ratio(lambda: db.sql(query, rng=0), lambda: db.sql(every, rng=0), 3)  # noqa: B023
        lines.append(line(f"{name} / counting all 280,000 answers", found, 1.1))
    return lines


MEASUREMENTS = {"tiny": tiny, "absence": absence, "having": having, "expected": expected, "worlds": worlds, "top": top}


def main() -> None:
    lines: list[Row] = []
    for name in sys.argv[1:] or MEASUREMENTS:
        lines += MEASUREMENTS[name]()
    report(lines, "sql_ways.csv")


if __name__ == "__main__":
    main()
