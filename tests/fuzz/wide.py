"""Random SELECTs of every construct, windows and recursion among them: each way that answers against the worlds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from sql_servers import Database
from sql_wide import disagreements, wide_query
from sql_worlds import create, random_world


def cases(number: int) -> Iterator[Any]:
    for i in range(12):
        kind = "duckdb" if i % 4 == 0 else "sqlite"
        yield {"kind": kind, "world": number % 1000, "sql": wide_query(100 * number + i, kind)}


def check(case: Any) -> bool:
    world = random_world(case["world"], 3)
    trial, database = Database(case["kind"]), Database(case["kind"])
    try:
        create(trial, world)
        try:
            trial.ask(case["sql"])
        except Exception:
            return False  # the database does not take it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about queries that read no uncertain table
            wrong, ways = disagreements(database, world, [case["sql"]])
        assert not wrong, wrong[0]
        return bool(ways[0])
    finally:
        trial.close()
        database.close()
