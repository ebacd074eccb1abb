"""Random queries, those of ``test_sql_random.py`` among them, against the SQL itself in every possible world."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from sql_servers import Database
from sql_worlds import Table, World, create, declared, differences, exact_answers, expected_answers, random_world
from test_sql_random import queries

from sharpdnf.errors import SQLError

TYPED = [
    "t.i",
    "t.r",
    "t.s",
    "u.i",
    "u.r",
    "u.s",
    "t.i + 0",
    "t.r + 0",
    "1",
    "1.0",
    "'1'",
    "NULL",
    "t.s || ''",
]


def typed_world() -> World:
    """Values that are equal under one type and differ under another; ``u`` is certain."""
    rows = [(1, 1.0, "1"), (2, 2.5, "1.0"), (None, 1.0, "2")]
    types = ("integer", "real", "text")
    return World({
        "t": Table(("i", "r", "s"), rows, [0.5, 0.25, 0.3], types=types),
        "u": Table(("i", "r", "s"), rows[:2], types=types),
    })  # fmt: skip


def typed_query(random_: random.Random) -> str:
    """SQLite's conversions: one column through set operations, comparisons, IN and joins."""

    def block() -> str:
        item, table = random_.choice(TYPED), random_.choice("tu")
        if "." in item and item[1] == "." and item[0] != table:
            table = item[0]
        where = random_.choice(
            ["", f" WHERE {table}.{random_.choice('irs')} = {random_.choice(['1', '1.0', repr('1')])}"]
        )
        return f"SELECT {random_.choice(['', 'DISTINCT '])}{item} AS o FROM {table}{where}"

    union = block()
    for _ in range(random_.randint(0, 2)):
        union += f" {random_.choice(['UNION', 'UNION ALL', 'INTERSECT'])} {block()}"
    column = f"{random_.choice('tu')}.{random_.choice('irs')}"
    return random_.choice([
        union,
        f"SELECT {column} FROM {column[0]} WHERE {column} IN ({union})",
        f"SELECT {column} FROM {column[0]} JOIN ({union}) AS d ON {column} = d.o",
        f"SELECT d.o || '' FROM ({union}) AS d",
        f"SELECT typeof(d.o) FROM ({union}) AS d",
    ])  # fmt: skip


def cases(number: int) -> Iterator[Any]:
    drawn: list[str] = []

    @seed(number)
    @settings(max_examples=12, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(queries())
    def draw(sql: str) -> None:
        drawn.append(sql)

    draw()
    for i, sql in enumerate(drawn[1:]):  # the first is the simplest there is
        yield {"kind": "duckdb" if i % 4 == 0 else "sqlite", "world": number % 1000, "sql": sql}
    random_ = random.Random(number)
    for _ in range(12):
        yield {"kind": "sqlite", "world": "typed", "sql": typed_query(random_)}


def check(case: Any) -> bool:
    world = typed_world() if case["world"] == "typed" else random_world(case["world"], 3)
    database = Database(case["kind"])
    try:
        create(database, world)
        try:
            database.ask(case["sql"])
        except Exception:
            return False  # the database does not take it
        try:
            got = exact_answers(declared(database, world), case["sql"])
        except SQLError:
            return False
        want = expected_answers(database, world, [case["sql"]])[0]
        assert not differences(got, want), differences(got, want)
    finally:
        database.close()
    return True
