"""Answers as people use them: frames, thresholds, top-k, expected values, lineage, limits, the command line."""

from __future__ import annotations

import io
import json
import os
import runpy
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sql_servers import Database
from sql_worlds import World, create, declared, played, random_world
from typer.testing import CliRunner

import sharpdnf
from sharpdnf.dnf import Batch
from sharpdnf.engines.sampling import successes_needed
from sharpdnf.errors import SQLError, SQLTimeout, UncertainTableError, UnsupportedSQL
from sharpdnf.sql import database as database_module
from sharpdnf.sql import expected, topk
from sharpdnf.sql.counting import Counts, Options, count_with_progress
from sharpdnf.sql.limits import watched
from sharpdnf.sql.plan import Cut

EXAMPLES = Path(__file__).parent.parent / "examples"
EDGES = {"src": [1, 1, 2, 3], "dst": [2, 3, 3, 4], "p": [0.5, 0.5, 0.5, 0.9]}
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"


@pytest.fixture
def db() -> sharpdnf.ProbDB:
    found = sharpdnf.connect()
    found.register("edge", pa.table(EDGES), prob="p")
    return found


def test_the_columns_that_are_promised(db: sharpdnf.ProbDB) -> None:
    answers = db.sql(TWO_STEPS, guarantee="relative", epsilon=0.1, delta=0.05, timeout=60)
    names = ["src", "prob", "lower", "upper", "guarantee", "engine", "num_clauses"]
    assert answers.arrow().column_names == names
    assert list(answers.df().columns) == names
    assert answers.pl().columns == names
    # 1 -> 2 -> 3 or 1 -> 3 -> 4: 1 - (1 - 0.25) (1 - 0.45); 2 -> 3 -> 4: 0.45
    assert dict(zip(answers.df()["src"], answers.df()["prob"], strict=True)) == pytest.approx({1: 0.5875, 2: 0.45})
    assert answers.met and len(answers) == 2


def test_lineage_and_reasons_name_rows(db: sharpdnf.ProbDB) -> None:
    answers = db.sql(TWO_STEPS)
    assert str(answers.lineage(1)) == "edge(src=2, dst=3) & edge(src=3, dst=4)"
    reasons = answers.explain(1, top=1)
    assert reasons[0].row == "edge(src=2, dst=3)" and reasons[0].influence == pytest.approx(0.9)
    with pytest.raises(IndexError):
        answers.lineage(2)


def test_reasons_of_exclusive_rows() -> None:
    """Given one reading, the other is impossible: P(F | row) - P(F | no row)."""
    found = sharpdnf.connect()
    found.register("r", pa.table({"k": [1, 1], "v": [1, 2], "p": [0.3, 0.6]}), prob="p", block="k")
    reasons = {r.row: r.influence for r in found.sql("SELECT k FROM r").explain(0)}
    assert reasons == pytest.approx({"r(k=1, v=1)": 1 - 0.6 / 0.7, "r(k=1, v=2)": 1 - 0.3 / 0.4})


@pytest.mark.parametrize("frame", ["pandas", "polars", "arrow"])
def test_frames(frame: str) -> None:
    import pandas as pd
    import polars as pl

    data = {"pandas": pd.DataFrame(EDGES), "polars": pl.DataFrame(EDGES), "arrow": pa.table(EDGES)}[frame]
    found = sharpdnf.connect()
    found.register("edge", data, prob="p")
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    found.register("edge", data.head(3) if frame != "arrow" else data.slice(0, 3))  # read again, still uncertain
    assert found.sql("SELECT dst FROM edge WHERE src = 3").prob.tolist() == []


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_what_is_no_frame(kind: str) -> None:
    found = sharpdnf.connect(Database(kind).connection)
    found.register("edge", EDGES, prob="p")
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    with pytest.raises(ValueError, match="not int"):
        found.register("edge", 7)
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])


def test_files_are_opened_read_only(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", pa.table(EDGES))
        connection.execute("CREATE TABLE edge AS SELECT * FROM frame")
    before = path.read_bytes()
    found = sharpdnf.connect(str(path))
    found.uncertain("edge", prob="p")
    assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    assert path.read_bytes() == before
    lite = tmp_path / "data.sqlite"
    writer = sqlite3.connect(lite)
    writer.execute("CREATE TABLE edge (src, dst, p)")
    writer.executemany("INSERT INTO edge VALUES (?, ?, ?)", zip(*EDGES.values(), strict=True))
    writer.commit()
    writer.close()
    before = lite.read_bytes()
    other = sharpdnf.connect(lite)
    other.uncertain("edge", prob="p")
    assert other.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])
    assert lite.read_bytes() == before


def test_connections_of_ones_own_class() -> None:
    class Mine(sqlite3.Connection):
        pass

    mine = sqlite3.connect(":memory:", factory=Mine)
    mine.execute("CREATE TABLE e (a, p)")
    sharpdnf.connect(mine).uncertain("e", prob="p")
    with pytest.raises(TypeError, match="not Cursor"):
        sharpdnf.connect(mine.cursor())


def test_a_sqlite_transaction_is_left_as_it_was() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE edge (src, dst, p)")
    connection.commit()
    connection.executemany("INSERT INTO edge VALUES (?, ?, ?)", zip(*EDGES.values(), strict=True))
    found = sharpdnf.connect(connection)
    found.uncertain("edge", prob="p")
    found.sql(TWO_STEPS)
    assert connection.in_transaction
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM edge").fetchone() == (0,)
    assert len(found.sql(TWO_STEPS)) == 0  # the change was seen


EXPECTED = [
    ("SELECT expected_count() FROM e", "SELECT count(*) FROM e", False),
    ("SELECT a, expected_count() FROM e GROUP BY a", "SELECT a, count(*) FROM e GROUP BY a", True),
    ("SELECT a, expected_sum(b) FROM e GROUP BY a", "SELECT a, coalesce(sum(b), 0) FROM e GROUP BY a", True),
    ("SELECT expected_count() FROM s JOIN e ON s.a = e.a", "SELECT count(*) FROM s JOIN e ON s.a = e.a", False),
    ("SELECT expected_count() FROM s WHERE EXISTS (SELECT 1 FROM e WHERE e.a = s.a) OR y = 1",
     "SELECT count(*) FROM s WHERE EXISTS (SELECT 1 FROM e WHERE e.a = s.a) OR y = 1", False),
    ("SELECT expected_count() FROM (SELECT DISTINCT a FROM e) d", "SELECT count(*) FROM (SELECT DISTINCT a FROM e) d",
     False),
    ("SELECT expected_count() FROM (SELECT b FROM e GROUP BY a, b) d",
     "SELECT count(*) FROM (SELECT b FROM e GROUP BY a, b) d", False),
    ("SELECT expected_sum(n) FROM (SELECT 7 AS n FROM e GROUP BY a, b UNION ALL SELECT y FROM s) d",
     "SELECT sum(n) FROM (SELECT 7 AS n FROM e GROUP BY a, b UNION ALL SELECT y FROM s) d", False),
    ("SELECT expected_count() FROM (SELECT DISTINCT a FROM e GROUP BY a, b) d",
     "SELECT count(*) FROM (SELECT DISTINCT a FROM e GROUP BY a, b) d", False),
    ("SELECT (a + b), expected_count() FROM e GROUP BY (a + b)", "SELECT a + b, count(*) FROM e GROUP BY a + b", True),
    ("SELECT E.a, expected_count() FROM e GROUP BY A", "SELECT a, count(*) FROM e GROUP BY a", True),
    ("SELECT expected_count() FROM (SELECT a FROM e UNION SELECT c FROM u) d",
     "SELECT count(*) FROM (SELECT a FROM e UNION SELECT c FROM u) d", False),
    ("SELECT expected_count() FROM (SELECT a FROM e UNION ALL SELECT c FROM u) d",
     "SELECT count(*) FROM (SELECT a FROM e UNION ALL SELECT c FROM u) d", False),
    ("SELECT expected_sum(d.a) FROM (SELECT a FROM e INTERSECT SELECT c FROM u) d",
     "SELECT coalesce(sum(d.a), 0) FROM (SELECT a FROM e INTERSECT SELECT c FROM u) d", False),
    ("SELECT x, expected_count() FROM r JOIN t ON r.x = t.y GROUP BY x",
     "SELECT x, count(*) FROM r JOIN t ON r.x = t.y GROUP BY x", True),
    ("SELECT expected_count() FROM e LEFT JOIN s ON e.a = s.a", "SELECT count(*) FROM e LEFT JOIN s ON e.a = s.a",
     False),
    ("SELECT expected_count() FROM (SELECT DISTINCT a FROM s) d JOIN e ON e.a = d.a",
     "SELECT count(*) FROM (SELECT DISTINCT a FROM s) d JOIN e ON e.a = d.a", False),
    ("SELECT expected_count() FROM (SELECT DISTINCT e.a FROM e JOIN s ON e.a = s.a UNION SELECT y FROM t) d",
     "SELECT count(*) FROM (SELECT DISTINCT e.a FROM e JOIN s ON e.a = s.a UNION SELECT y FROM t) d", False),
    ("WITH w AS (SELECT a, y FROM s) SELECT y, expected_count() FROM e JOIN w ON e.a = w.a WHERE b >= (SELECT min(y) "
     "FROM w) GROUP BY y",
     "WITH w AS (SELECT a, y FROM s) SELECT y, count(*) FROM e JOIN w ON e.a = w.a WHERE b >= (SELECT min(y) FROM w) "
     "GROUP BY y", True),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "seed"), [("duckdb", 0), ("sqlite", 1), ("sqlite", 5), ("postgres", 2)])
def test_expected_values_are_those_of_the_worlds(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    world = random_world(seed, 3)
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    create(database, world)
    found = declared(database, world)
    got = [found.sql(sql, guarantee="exact").arrow().to_pylist() for sql, _, _ in EXPECTED]
    want = world_means(database, world, [sql for _, sql, _ in EXPECTED])
    for (sql, _, grouped), rows, means in zip(EXPECTED, got, want, strict=True):
        values = {(next(iter(row.values())) if grouped else None): tuple(row.values())[int(grouped)] for row in rows}
        for key in {*values, *means}:
            assert values.get(key, 0.0) == pytest.approx(means.get(key, 0.0), abs=1e-9), (sql, key)


def world_means(database: Database, world: World, queries: list[str]) -> list[dict[Any, float]]:
    means: list[dict[Any, float]] = [defaultdict(float) for _ in queries]
    for weight in played(database, world):
        for mean, sql in zip(means, queries, strict=True):
            for *key, value in database.ask(sql):
                mean[key[0] if key else None] += weight * float(value)
    return means


def test_expected_values_say_when_time_was_up(db: sharpdnf.ProbDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows that are added up, those from 1 did not make it."""
    counted = []

    def late(batch: Batch, options: Options) -> Counts:
        counted.append(len(batch))
        counts = count_with_progress(batch, options)
        counts.met[:2] = False
        return counts

    monkeypatch.setattr(expected, "count_with_progress", late)
    assert db.sql("SELECT src, expected_count() FROM edge GROUP BY src").counts.met.tolist() == [False, True, True]
    assert not db.sql("SELECT expected_count() FROM edge").met
    monkeypatch.setattr(database_module, "count_with_progress", late)
    assert db.sql("SELECT expected_count() FROM edge").prob.tolist() == [1.0]
    assert counted == [4, 4, 4]  # its one answer is certain: nothing else is counted


def test_expected_values_that_are_refused(db: sharpdnf.ProbDB) -> None:
    for sql in (
        "SELECT src, expected_count() FROM edge",
        "SELECT expected_count() FROM edge GROUP BY src",
        "SELECT src + dst, expected_count() FROM edge GROUP BY src",
        "SELECT src % 2 AS src, expected_count() FROM edge GROUP BY src",
        "SELECT expected_count(), src FROM edge GROUP BY 1",
        "SELECT expected_count(DISTINCT src) FROM edge",
        "SELECT expected_count() + 1 FROM edge",
        "SELECT DISTINCT src, expected_count() FROM edge GROUP BY src",
        "SELECT expected_count() FROM edge HAVING prob() > 2",
        "SELECT expected_count() FROM edge ORDER BY prob() DESC LIMIT 0",
    ):
        with pytest.raises(SQLError):
            db.sql(sql)


def test_threshold_and_top(db: sharpdnf.ProbDB) -> None:
    assert db.sql("SELECT src, dst FROM edge HAVING prob() > 0.5").df()["src"].tolist() == [3]
    assert len(db.sql("SELECT src, dst FROM edge HAVING prob() >= 0.5 AND prob() < 0.6")) == 3
    assert len(db.sql("SELECT src, dst FROM edge HAVING prob() BETWEEN 0.5 AND 1")) == 4
    best = db.sql("SELECT src, dst FROM edge ORDER BY prob() DESC LIMIT 1").df()
    assert best["src"].tolist() == [3] and not best["near_cut"].any()
    tied = db.sql("SELECT src, dst FROM edge ORDER BY prob() DESC LIMIT 2").df()
    assert tied["near_cut"].tolist() == [False, True]
    assert len(db.sql("SELECT src FROM edge ORDER BY prob() DESC LIMIT 0")) == 0
    assert db.sql("SELECT src, dst FROM edge ORDER BY dst DESC, src").df()["dst"].tolist() == [4, 3, 3, 2]


def test_order() -> None:
    """By the columns, as the select list counts them, with NULLs where the database puts them."""
    for kind, small in (("duckdb", False), ("sqlite", True)):
        database = Database(kind)
        database.run("CREATE TABLE e (a integer, b integer, p double precision)")
        database.run("INSERT INTO e VALUES (1, 1, 0.5), (1, 2, 0.5), (2, 9, 0.25), (NULL, 3, 0.75)")
        database.run("CREATE TABLE s (a integer, b integer)")
        database.run("INSERT INTO s VALUES (1, 1), (2, 2), (3, 3)")
        found = sharpdnf.connect(database.connection)
        found.uncertain("e", prob="p")

        def column(sql: str, name: str = "a", found: sharpdnf.ProbDB = found) -> list[int | None]:
            return found.sql(sql).arrow().column(name).to_pylist()  # type: ignore[no-any-return]

        assert column("SELECT a FROM e ORDER BY a") == ([None, 1, 2] if small else [1, 2, None])
        assert column("SELECT a FROM e ORDER BY a DESC") == [2, 1, None]
        assert column("SELECT a FROM e ORDER BY a DESC NULLS FIRST") == [None, 2, 1]
        assert column("SELECT a FROM e ORDER BY a NULLS FIRST") == [None, 1, 2]
        assert column("SELECT a FROM e ORDER BY a NULLS LAST") == [1, 2, None]
        assert column("SELECT expected_sum(b), a FROM e GROUP BY a ORDER BY 1") == [1, 2, None]  # 1.5, 2.25, 2.25
        assert column("SELECT expected_sum(b), a FROM e GROUP BY a ORDER BY 2 DESC") == [2, 1, None]
        assert column("SELECT a, expected_count() AS n FROM e GROUP BY a ORDER BY n") == [2, None, 1]
        assert column("SELECT expected_sum(b), a FROM e GROUP BY 2 ORDER BY expected_sum(b), e.a DESC") == [1, 2, None]
        assert column("SELECT b AS a, a AS c FROM e WHERE b > 1 ORDER BY e.a DESC NULLS LAST, a") == [9, 2, 3]
        assert column("SELECT -a AS a FROM e ORDER BY -e.a NULLS LAST") == [-2, -1, None]
        assert column("SELECT a FROM s ORDER BY a DESC") == [3, 2, 1]
        assert column("SELECT a FROM s ORDER BY a DESC LIMIT 2") == [3, 2]
        assert sorted(column("SELECT a FROM s ORDER BY b DESC LIMIT 2")) == [2, 3]  # type: ignore[type-var]
        for sql in ("SELECT a FROM e ORDER BY b", "SELECT a FROM e ORDER BY 2", "SELECT b AS a FROM e ORDER BY e.a"):
            with pytest.raises(UnsupportedSQL, match="ORDER BY"):
                found.sql(sql)
        if kind == "duckdb":
            database.run("CREATE TABLE f AS SELECT unnest([2, 'nan'::DOUBLE, 1]) AS a, {'x': 1} AS x, 0.5 AS p")
            found.uncertain("f", prob="p")
            assert [str(a) for a in column("SELECT a FROM f ORDER BY a DESC")] == ["nan", "2.0", "1.0"]
            with pytest.raises(SQLError, match="struct"):
                found.sql("SELECT x FROM f ORDER BY x")
            with pytest.raises(UnsupportedSQL, match="UHUGEINT"):  # DuckDB would give Arrow -1 for the largest one
                found.sql("SELECT a::UHUGEINT FROM e")
            with pytest.raises(UnsupportedSQL, match="whole number"):
                found.sql("SELECT a FROM e ORDER BY prob() DESC LIMIT 50%")


class FakeCounter:
    """Counts with intervals of relative width epsilon around known values, and remembers what it was asked."""

    def __init__(self, truth: list[float]) -> None:
        self.truth, self.asked = np.array(truth), []

    def __call__(self, batch: Batch, options: Options) -> Counts:
        index = np.array([int(batch[i].literals[0]) >> 1 for i in range(len(batch))])
        self.asked.append((options.epsilon, options.delta, index.tolist()))
        p = self.truth[index]
        words = np.full(len(p), "relative", dtype=object)
        return Counts(p, p / (1 + options.epsilon), np.minimum(1, p / (1 - options.epsilon)), words, words,
                      np.ones(len(p), dtype=bool))  # fmt: skip


def decide(
    monkeypatch: pytest.MonkeyPatch, truth: list[float], counter: type[FakeCounter] = FakeCounter, **question: Any
) -> tuple[FakeCounter, Any, Any]:
    fake = counter(truth)
    monkeypatch.setattr(topk, "count_batch", fake)
    dnf = sharpdnf.DNF.from_clauses([[i + 1] for i in range(len(truth))], truth)
    batch = Batch(dnf, np.arange(len(truth) + 1))
    defaults: dict[str, Any] = {"cuts": (), "limit": None, "descending": True, "options": Options()}
    counts, kept = topk.decide(batch, **{**defaults, **question})
    return fake, counts, kept


def test_what_is_decided_is_not_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = [0.01, 0.45, 0.5, 0.52, 0.9]
    fake, counts, kept = decide(monkeypatch, truth, cuts=(Cut(">", 0.5),))
    assert [epsilon for epsilon, _, _ in fake.asked] == [0.5, 0.25, 0.125, 0.0625, 0.1 / 2.1]
    assert 0 not in fake.asked[1][2] and 4 not in fake.asked[2][2] and 1 in fake.asked[1][2]
    assert sum(len(index) * delta for _, delta, index in fake.asked) <= 0.05
    assert kept.tolist() == [3, 4]
    assert counts.near_cut.tolist() == [False, False, True, True, False]
    last = [min(epsilon for epsilon, _, index in fake.asked if i in index) for i in range(5)]
    assert counts.guarantee.tolist() == ["relative" if epsilon <= 0.1 else "interval" for epsilon in last]
    assert "interval" in counts.guarantee and "relative" in counts.guarantee


def test_top_k_stops_early_and_flags_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, counts, kept = decide(monkeypatch, [0.9, 0.1, 0.11, 0.01, 0.8], limit=2)
    assert kept.tolist() == [0, 4] and not counts.near_cut.any()
    assert len(fake.asked) <= 2
    _, counts, kept = decide(monkeypatch, [0.5, 0.5, 0.5, 0.001], limit=2)
    assert len(kept) == 2 and counts.near_cut.tolist() == [True, True, True, False]
    _, _, kept = decide(monkeypatch, [0.9, 0.1, 0.2], limit=1, descending=False)
    assert kept.tolist() == [1]


class GammaCounter(FakeCounter):
    """The error law of the sampler for unlikely answers: (k - 1) / Gamma(k) times the truth."""

    def __call__(self, batch: Batch, options: Options) -> Counts:
        counts = super().__call__(batch, options)
        k = successes_needed(options.epsilon, options.delta)
        counts.prob *= (k - 1) / np.random.default_rng(options.rng).gamma(k, size=len(counts.prob))
        counts.lower, counts.upper = counts.prob / (1 + options.epsilon), counts.prob / (1 - options.epsilon)
        return counts


def test_a_wrong_member_is_near_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty answers 12 % above fifty others: over seeds, with epsilon = 0.1, the best fifty are the right ones."""
    truth = [0.5] * 50 + [0.56] * 50
    wrong = 0
    for seed in range(100):
        _, _, kept = decide(monkeypatch, truth, GammaCounter, limit=50, options=Options(rng=seed))
        wrong += kept.min() < 50
    assert wrong <= 12  # 5 expected at the most; more than 12 with probability 0.0005


def test_what_time_leaves_open_is_kept_and_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Options(deadline=0.0)
    _, counts, kept = decide(monkeypatch, [0.01, 0.45, 0.9], cuts=(Cut(">", 0.5),), options=past)
    assert kept.tolist() == [1, 2] and counts.near_cut.tolist() == [False, True, False]
    assert counts.met.tolist() == [True, False, True]
    _, counts, kept = decide(monkeypatch, [0.5, 0.5, 0.6, 0.01], limit=2, options=past)
    assert len(kept) == 2 and not counts.met[kept].any()


def test_what_bounds_leave_open_is_kept() -> None:
    """The middle of certified bounds is no reason to drop an answer."""
    found = sharpdnf.connect()
    rng = np.random.default_rng(0)
    pairs = {"a": rng.integers(0, 12, 60), "b": rng.integers(0, 12, 60), "p": rng.uniform(0.2, 0.6, 60)}
    found.register("r", pa.table(pairs), prob="p")
    sql = "SELECT x.b FROM r x, r y, r z WHERE x.a = y.b AND y.a = z.b"
    plain = found.sql(sql, engine="bounds")
    at = float(np.median(plain.counts.upper))
    cut = found.sql(f"{sql} HAVING prob() > {at}", engine="bounds")
    assert 0 < len(cut) == (plain.counts.upper > at).sum() and cut.met
    assert (cut.counts.near_cut == (cut.counts.lower <= at)).all() and cut.counts.near_cut.any()


def test_refusals_speak_the_querys_language(db: sharpdnf.ProbDB) -> None:
    for sql, word in (
        ("SELECT src FROM edge TABLESAMPLE 10%", "sampling"),
        ("SELECT src FROM edge USING SAMPLE 2", "sampling"),
        ("SELECT list(src) FROM edge", "list"),
        ("SELECT unnest([src]) FROM edge", "UNNEST"),
    ):
        with pytest.raises(UnsupportedSQL, match=word):
            db.sql(sql)


def test_names_that_could_hide_rows(db: sharpdnf.ProbDB) -> None:
    connection = db.backend.connection  # type: ignore[attr-defined]
    connection.execute("CREATE MACRO hidden() AS (SELECT count(*) FROM edge)")
    connection.execute("CREATE MACRO rows_of() AS TABLE SELECT * FROM edge")
    connection.execute("CREATE VIEW v AS SELECT src FROM edge")
    connection.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM edge")
    connection.execute("CREATE MACRO abs(x) AS (SELECT count(*) FROM edge)")
    for sql in (
        "SELECT hidden()",
        "SELECT src FROM rows_of()",
        "SELECT n FROM counted",
        "SELECT abs(1) FROM v",
        "SELECT (SELECT n FROM counted) FROM v",
    ):
        with pytest.raises(UnsupportedSQL):
            db.sql(sql)
    assert len(db.sql("SELECT src FROM memory.main.v UNION SELECT src FROM temp.main.edge")) == 3
    with pytest.raises(UncertainTableError):
        db.uncertain("v", prob="src")
    connection.execute("CREATE SCHEMA other")
    connection.execute("CREATE TABLE other.edge AS SELECT 9 AS src")
    assert db.sql("SELECT src FROM other.edge").prob.tolist() == [1.0]


def test_nothing_is_injected_through_names() -> None:
    name = 'x"; DROP TABLE edge; --'
    found = sharpdnf.connect()
    found.register(name, pa.table({name: [1, 2], "p' OR 1=1": [0.5, 0.5]}), prob="p' OR 1=1")
    quoted = '"' + name.replace('"', '""') + '"'
    assert found.sql(f"SELECT * FROM {quoted}").df().iloc[:, 0].tolist() == [1, 2]


def test_changed_data_is_read_again(db: sharpdnf.ProbDB) -> None:
    connection = db.backend.connection  # type: ignore[attr-defined]
    connection.execute("CREATE TABLE n AS SELECT 1 AS a, 0.5::DOUBLE AS p")
    db.uncertain("n", prob="p")
    connection.execute("INSERT INTO n VALUES (2, 0.25)")
    assert db.sql("SELECT a FROM n").prob.tolist() == [0.5, 0.25]
    connection.execute("UPDATE n SET p = 0.75 WHERE a = 1")
    assert db.sql("SELECT a FROM n").prob.tolist() == [0.75, 0.25]


def test_a_column_called_prob_does_not_hide_ours() -> None:
    found = sharpdnf.connect()
    found.register("t", pa.table({"prob": [7], "p": [0.25]}), prob="p")
    row = found.sql("SELECT prob FROM t").arrow().to_pylist()[0]
    assert row["prob"] == 0.25 and row["prob_2"] == 7


def test_tables_show_what_is_there(db: sharpdnf.ProbDB) -> None:
    """No markup in values, and columns that do not fit are left out, not squeezed to nothing."""
    from rich.console import Console

    def shown(sql: str, width: int) -> str:
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(db.sql(sql).table(2, width))
        return console.export_text()

    text = shown("""SELECT '[bold]x [/nope]' AS "[red]c", NULL AS n, src FROM edge""", 120)
    assert "[bold]x [/nope]" in text and "[red]c" in text and "NULL" in text and "3 answers" in text
    many = "SELECT " + ", ".join(f"src AS column_{i}" for i in range(40)) + " FROM edge"
    text = shown(many, 100)
    assert "column_0" in text and "column_9" not in text and "guarantee" in text and "of 46 columns" in text
    assert "num_clauses" not in shown("SELECT src, dst FROM edge", 70) and "dst" in shown(
        "SELECT src, dst FROM edge", 70
    )
    assert "column_39" in shown(many, 1000)


def test_the_parser_does_not_speak() -> None:
    """In a process of its own, as pytest has log handlers."""
    code = "import sharpdnf\ntry: sharpdnf.connect().sql('CALL f()')\nexcept sharpdnf.errors.SQLError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "" and "not CALL" in done.stdout


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_closing_leaves_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    """The connection is the caller's, so it stays open; one that connect opened is closed."""
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    with sharpdnf.connect(database.connection) as found:
        found.register("n", pa.table({"a": [1], "p": [0.5]}), prob="p")
        numbered = found.backend.temporary(found._copies[0]).sql(found.backend.dialect.name)
        assert len(database.ask(f"SELECT * FROM {numbered}")) == 1
    assert database.ask("SELECT a FROM n") == [(1,)]
    with pytest.raises(SQLError):
        found.backend.rows(f"SELECT * FROM {numbered}")
    with sharpdnf.connect() as own:
        own.register("n", pa.table({"a": [1], "p": [0.5]}), prob="p")
    with pytest.raises(SQLError):
        own.sql("SELECT a FROM n")


def test_the_time_limit_holds_in_the_database() -> None:
    found = sharpdnf.connect()
    found.register("n", pa.table({"a": list(range(3000)), "p": [0.5] * 3000}), prob="p")
    with pytest.raises(SQLTimeout, match="within"):
        found.sql("SELECT 1 AS x FROM n a, n b, n c, n d WHERE a.a + b.a = c.a + d.a", timeout=0.3)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="Ctrl-C is for the main thread")
@pytest.mark.usefixtures("heard_interrupts")
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_interrupt_in_the_database(kind: str, request: pytest.FixtureRequest) -> None:
    """It stops the query, leaves no table of the query and keeps the connection usable."""
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    found = sharpdnf.connect(database.connection)
    found.register("n", pa.table({"a": list(range(3000)), "p": [0.5] * 3000}), prob="p")
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        found.sql("SELECT 1 AS x FROM n a, n b, n c, n d WHERE a.a + b.a = c.a + d.a", timeout=60)
    timer.join()
    assert time.monotonic() - started < 10
    assert found.sql("SELECT a FROM n WHERE a < 2").prob.tolist() == [0.5, 0.5]
    with pytest.raises(SQLError):
        found.backend.rows("SELECT * FROM _sharpdnf_lineage")


@pytest.mark.parametrize(
    ("timeout", "stopped"), [(0.0, True), (0.05, True), (2**32 / 1000 + 0.05, False), (1e300, False)]
)
def test_a_statement_is_interrupted_at_the_time_limit_and_not_before(timeout: float, stopped: bool) -> None:
    """Sockets count milliseconds in 32 bits, and do not wait at all for 0 seconds."""

    class Slow:
        lock = threading.RLock()
        heard = threading.Event()

        def interrupt(self) -> None:
            self.heard.set()

    slow: Any = Slow()
    slow.heard.clear()
    with watched(slow, timeout):
        assert slow.heard.wait(5 if stopped else 0.3) == stopped


def test_other_signals_still_wake_an_event_loop() -> None:
    """An event loop hears of signals by a file descriptor, which is ours while the database works."""
    database = sharpdnf.connect()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    before = signal.set_wakeup_fd(writer.fileno())
    try:
        with watched(database.backend):
            os.kill(os.getpid(), signal.SIGUSR1)
        reader.settimeout(5)
        assert reader.recv(8) == bytes([signal.SIGUSR1])
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGUSR1, handler)
        reader.close()
        writer.close()


def test_rows_that_were_numbered_by_halves_are_numbered_again(
    db: sharpdnf.ProbDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables; while both are read again, Ctrl-C comes after the first."""
    db.register("other", pa.table({"a": [1, 2], "p": [0.25, 0.125]}), prob="p")
    db.register("edge", pa.table(EDGES).slice(0, 2))
    whole, calls = database_module.declare, []

    def stop(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args)

    monkeypatch.setattr(database_module, "declare", stop)
    with pytest.raises(KeyboardInterrupt):
        db.refresh()
    monkeypatch.undo()
    db.register("edge", pa.table(EDGES))
    assert db.sql("SELECT a FROM other").prob == pytest.approx([0.25, 0.125])
    assert db.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])


def test_time_limits_that_are_none(db: sharpdnf.ProbDB) -> None:
    for timeout in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            db.sql(TWO_STEPS, timeout=timeout)
    assert db.sql(TWO_STEPS, timeout=float("inf")).prob == pytest.approx([0.5875, 0.45])


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("network_reliability", 0.995),
        ("entity_resolution", 1 - (1 - 0.92) * (1 - 0.4 * 0.75)),
        ("sensor_readings", 1 - (1 - 0.3) * (1 - 0.6)),
    ],
)
def test_examples_run(name: str, first: float, capsys: pytest.CaptureFixture[str]) -> None:
    answers = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    assert answers.prob[0] == pytest.approx(first) and answers.met
    assert "prob" in capsys.readouterr().out


def test_the_command_line(tmp_path: Path) -> None:
    from sharpdnf.cli import app, load_commands, main

    load_commands()
    path = tmp_path / "edge.csv"
    path.write_text("src,dst,p\n1,2,.5\n2,3,.5\n")
    common = ["sql", "--db", str(path), "--uncertain", "edge:p"]
    shown = CliRunner().invoke(app, [*common, TWO_STEPS])
    assert shown.exit_code == 0 and "0.25" in shown.output
    lines = CliRunner().invoke(app, [*common, TWO_STEPS, "--json"])
    assert json.loads(lines.stdout)["prob"] == 0.25
    target = tmp_path / "out.parquet"
    assert CliRunner().invoke(app, [*common, TWO_STEPS, "--parquet", str(target)]).exit_code == 0
    assert pa.parquet.read_table(target).column("prob").to_pylist() == [0.25]
    odd = CliRunner().invoke(app, [*common, "SELECT 'nan'::DOUBLE AS x, [1.5, 'inf'::DOUBLE] AS y FROM edge", "--json"])
    row = json.loads(odd.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert row["x"] is None and row["y"] == [1.5, None] and row["prob"] == 0.75
    nowhere = str(tmp_path / "none" / "x.parquet")
    for wrong in (["--parquet", nowhere], ["--timeout", "-1"], ["--limit", "-1"], ["--csv", "--json"]):
        assert CliRunner().invoke(app, [*common, TWO_STEPS, *wrong]).exit_code != 0, wrong
    endless = "WITH n AS (SELECT range AS a FROM range(100000)) SELECT 1 FROM n x, n y, edge WHERE x.a * y.a < 0"
    with pytest.raises(SystemExit) as left:
        main([*common, endless, "--timeout", "0.2"])
    assert left.value.code == 3
    certain = CliRunner().invoke(app, [*common, "SELECT 1 AS one", "--json"])
    assert json.loads(certain.stdout)["prob"] == 1.0 and "none of the uncertain tables (edge)" in certain.stderr
    rewritten = CliRunner().invoke(app, [*common, TWO_STEPS, "--show-sql"])
    assert "_sharpdnf_id" in rewritten.output


def test_the_first_query_of_the_docs_runs() -> None:
    text = (EXAMPLES.parent / "docs" / "sql.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["r"].prob == pytest.approx([0.5875, 0.45])


def test_sqlite_collations_are_kept() -> None:
    """A copy of the rows would compare 'X' and 'x' by bytes; INTERSECT, which would, is refused."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE e (a TEXT COLLATE NOCASE, p)")
    connection.execute("CREATE TABLE s (b TEXT)")
    connection.execute("INSERT INTO e VALUES ('X', 0.5), ('y', 0.25)")
    connection.execute("INSERT INTO s VALUES ('x'), ('Y'), ('X')")
    found = sharpdnf.connect(connection)
    found.uncertain("e", prob="p")
    for sql in (
        "SELECT b FROM s WHERE b IN (SELECT a FROM e)",
        "SELECT b FROM s WHERE b || '' IN (SELECT a FROM e)",
        "SELECT b FROM s JOIN e ON e.a = s.b",
        "SELECT b FROM s JOIN e ON s.b = e.a",
        "SELECT a FROM e WHERE a = 'x'",
    ):
        assert sorted(found.sql(sql).df().iloc[:, 0]) == sorted(r[0] for r in connection.execute(sql)), sql
    with pytest.raises(UnsupportedSQL, match="collation"):
        found.sql("SELECT a FROM e INTERSECT SELECT b FROM s")
    connection.execute("CREATE TABLE w (a TEXT PRIMARY KEY COLLATE NOCASE, p) WITHOUT ROWID")
    with pytest.raises(UnsupportedSQL, match="collation"):
        found.uncertain("w", prob="p")


def test_one_sqlite_file_under_two_names(tmp_path: Path) -> None:
    path = tmp_path / "twice.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE e (a, p)")
    connection.execute("INSERT INTO e VALUES (1, 0.5)")
    connection.commit()
    connection.execute("ATTACH ? AS two", (str(path),))
    found = sharpdnf.connect(connection)
    found.uncertain("main.e", prob="p")
    assert found.sql("SELECT a FROM two.e").prob.tolist() == [0.5]
    assert found.sql("SELECT a FROM e").prob.tolist() == [0.5]


EXCHANGED = [
    ("sqlite", "CAST('2020-01-31' AS DATE)"),
    ("sqlite", "CAST(7 AS NUMERIC) / 2"),
    ("sqlite", "CAST(7 AS BOOLEAN)"),
    ("sqlite", "CAST('7' AS STRING)"),
    ("sqlite", "0xFFFFFFFFFFFFFFFF"),
]


@pytest.mark.parametrize(("kind", "expression"), EXCHANGED)
def test_what_the_parser_would_exchange(kind: str, expression: str) -> None:
    """It is refused in the query and in a view, and where it says the same it is not."""
    database = Database(kind)
    found = sharpdnf.connect(database.connection)
    database.run("CREATE TABLE e (a integer, p double precision)")
    found.uncertain("e", prob="p")
    with pytest.raises(UnsupportedSQL, match="parser"):
        found.sql(f"SELECT {expression}")
    database.run(f"CREATE VIEW v (x) AS SELECT {expression} AS y FROM e")
    with pytest.raises(UnsupportedSQL, match="parser"):
        found.sql("SELECT x FROM v")


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


@pytest.mark.parametrize(("operator", "kept"), [(">", []), (">=", [1, 2]), ("<", []), ("<=", [1, 2])])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.7, 0.5, 1.0])
def test_a_threshold_at_an_exact_tie(operator: str, kept: list[int], p: float) -> None:
    """The answers went through logarithms; a tie is still a tie, also of a block that fills up to p."""
    found = sharpdnf.connect()
    found.register("t", pa.table({"a": [1], "p": [p]}), prob="p")
    found.register("b", pa.table({"a": [2] * 7, "x": list(range(7)), "p": [p / 7] * 7}), prob="p", block="a")
    answers = found.sql(f"SELECT a FROM (SELECT a FROM t UNION SELECT a FROM b) d HAVING prob() {operator} {p}")
    assert answers.df()["a"].tolist() == kept
