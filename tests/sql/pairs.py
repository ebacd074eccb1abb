"""Pairs of SQL as fixtures: what goes into a pass and what comes out.

A file has one pair after the other. A line ``-- name`` begins a pair, with ``[sqlite]`` behind the name where the
database is not DuckDB; then the query; then a line ``-->`` and what the pass makes of it. An outcome that begins with
``refused:`` is a part of the error.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

import sharpdnf

FOLDER = Path(__file__).parent / "pairs"
TABLES = [
    "CREATE TABLE u (a INTEGER, b INTEGER, p DOUBLE)",
    "CREATE TABLE v (b INTEGER, c INTEGER, q DOUBLE)",
    "CREATE TABLE s (a INTEGER, x INTEGER)",
    "INSERT INTO u VALUES (1, 2, 0.5), (2, 2, 0.25)",
    "INSERT INTO v VALUES (2, 7, 0.5), (3, 8, 0.75)",
    "INSERT INTO s VALUES (1, 10), (2, 20)",
    "CREATE VIEW w AS SELECT a, b FROM u WHERE a > 1",
]


@dataclass(frozen=True)
class SQLPair:
    """One entry of a fixture file."""

    name: str
    kind: str
    before: str
    after: str


def pairs(file: str) -> list[object]:
    """The pairs of a file, as parameters of a test."""
    found = []
    for block in re.split(r"^-- (?=\S)", (FOLDER / file).read_text(), flags=re.M)[1:]:
        head, body = block.split("\n", 1)
        before, after = body.split("\n-->\n")
        kind = re.search(r"\[(\w+)\]$", head)
        name = re.sub(r" \[\w+\]$", "", head)
        pair = SQLPair(name, kind.group(1) if kind else "duckdb", before.strip(), after.strip())
        found.append(pytest.param(pair, id=f"{name}-{pair.kind}"))
    assert found, file
    return found


def opened(kind: str) -> sharpdnf.ProbDB:
    """u(a, b) and v(b, c) are uncertain, s(a, x) is certain, w is a view over u."""
    connection = sqlite3.connect(":memory:") if kind == "sqlite" else duckdb.connect()
    for statement in TABLES:
        connection.execute(statement)
    db = sharpdnf.connect(connection)
    db.uncertain("u", prob="p")
    db.uncertain("v", prob="q")
    return db


def readable(sql: str, db: sharpdnf.ProbDB) -> str:
    """Rewritten SQL without quotes and with the tables' own names for the numbered copies."""
    sql = re.sub(r"\(SELECT _m\._sharpdnf_id, [^()]* FROM \"?main\"?\.\"(\w+)\" AS _t JOIN [^()]*\)", r"\1_rows", sql)
    for declared in db.declared.tables.values():
        sql = re.sub(rf"{declared.copy}(?!\d)", f"{declared.name}_rows", sql)
    sql = re.sub(r'"(temp|memory|main)"\.', "", sql).replace('"', "")
    return re.sub(r"_sharpdnf_", "", sql)
