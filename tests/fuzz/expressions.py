"""Random SQL expressions, as ``test_sql_faithful.py`` writes them: the rewritten query gives the database's values."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from sql_servers import Database
from test_sql_faithful import Expressions, compare, declared

import sharpdnf


@functools.cache
def opened(kind: str) -> tuple[Database, sharpdnf.ProbDB]:
    return declared(Database(kind))


def cases(seed: int) -> Iterator[Any]:
    for kind in ("duckdb", "sqlite"):
        random_text = Expressions(kind, seed)
        for _ in range(10):
            wanted = random_text.pick(["number", "truth", "text"])
            yield {"kind": kind, "expression": random_text.some(wanted, 4)}


def check(case: Any) -> bool:
    return bool(compare(*opened(case["kind"]), case["expression"]))
