"""Spark: answers against possible worlds and against DuckDB with the same seed; what it cannot do is refused."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from spark_session import declared, spark_session
from sql_servers import Database
from sql_worlds import create, differences, expected_answers, plain, random_world

from sharpdnf.errors import MissingExtra, SQLError, SQLTimeout, UnsupportedSQL
from sharpdnf.sql import ProbDB, connect, distributed_lineage
from sharpdnf.sql.distributed import SparkAnswers
from sharpdnf.sql.distributed_closed import SparkAggregates
from sharpdnf.sql.evidence import denial, key
from sharpdnf.sql.source import check_java

SHAPES = [
    "SELECT a FROM e UNION SELECT x FROM r",
    "SELECT q.x FROM r q JOIN r w ON q.k < w.k",
    "WITH w AS (SELECT a FROM e EXCEPT SELECT a FROM s) SELECT w.a, v.n FROM w JOIN vv AS v ON w.a = v.n",
]
"""A set operation, exclusive rows, a common table expression and a view; ``make test-spark`` runs all shapes."""
PATHS = "SELECT x.a % 3 AS g FROM e x JOIN e y ON x.b = y.a"
NEGATED = f"{PATHS} WHERE NOT EXISTS (SELECT 1 FROM e z WHERE z.a = y.b AND z.b > 30)"


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session() as found:
        yield found


def graph(rows: int = 400) -> pa.Table:
    """A graph whose paths of length two have formulas that are sampled."""
    rng = np.random.default_rng(1)
    ends = {name: pa.array(rng.integers(0, 40, rows), pa.int32()) for name in "ab"}
    return pa.table({**ends, "p": rng.uniform(0.01, 0.06, rows)})


def both(session: Any, table: pa.Table) -> tuple[ProbDB, ProbDB]:
    """The table e on Spark and on DuckDB."""
    databases = connect(session), connect(duckdb.connect())
    for db in databases:
        db.register("e", table, prob="p")
    return databases


def test_answers_are_those_of_the_worlds(session: Any) -> None:
    world = random_world(3, 3)
    database = Database("duckdb")
    create(database, world)
    want = expected_answers(database, world, SHAPES)
    with declared(session, world) as db:
        for sql, answers in zip(SHAPES, want, strict=True):
            found = db.sql(sql, guarantee="exact")
            values = [[plain(v) for v in column.to_pylist()] for column in found._values]
            got = dict(zip(zip(*values, strict=True), found.prob.tolist(), strict=True))
            assert not differences(got, answers), sql
    database.close()


def test_sampled_answers_are_those_of_duckdb(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same seed, same numbers: to the last digit where they are drawn, whatever the partitions."""
    spark, duck = both(session, graph())
    with spark, duck:
        want = duck.sql(PATHS, rng=7).arrow()
        other = duck.sql(PATHS, rng=8).arrow()
        assert all(a != b for a, b in zip(*(t.column("prob").to_pylist() for t in (want, other)), strict=True))
        assert spark.sql(PATHS, rng=7).arrow().to_pydict() == want.to_pydict()
        session.conf.set("spark.sql.shuffle.partitions", "5")
        monkeypatch.setattr(distributed_lineage, "FEW", 0)
        try:
            frame = spark.sql(PATHS, rng=7).spark()
            assert frame.toArrow().sort_by("g").to_pydict() == want.to_pydict()
        finally:
            session.conf.set("spark.sql.shuffle.partitions", "2")


def test_circuits_and_evidence_are_those_of_duckdb(session: Any) -> None:
    """Drawn numbers are equal to the last digit; closed forms add up in the order in which Spark numbers candidates."""
    spark, duck = both(session, graph())
    with spark, duck:
        for sql, asked in (
            (NEGATED, {}),
            (NEGATED, {"given": "SELECT 1 FROM e x JOIN e y ON x.b = y.a WHERE x.a < 10"}),
            ("SELECT a FROM e GROUP BY a HAVING count(*) > 2", {"given_not": "SELECT 1 FROM e WHERE a = 3"}),
        ):
            got, want = (db.sql(sql, rng=7, epsilon=0.3, **asked) for db in (spark, duck))
            assert got.counts.engine.tolist() == want.counts.engine.tolist()
            drawn = want.counts.guarantee == "relative"
            assert got.prob[drawn].tolist() == want.prob[drawn].tolist(), sql
            assert got.prob == pytest.approx(want.prob, rel=1e-12), sql
        assert got.spark().count() == len(want) > 1
        assert got.lineage(1).names == want.lineage(1).names
        assert [r.row for r in got.explain(1, 2)] == [r.row for r in want.explain(1, 2)]


def test_what_looks_at_all_answers_together(session: Any, collected: list[int]) -> None:
    """No lineage comes to the driver, and of the answers only what a choice needs."""
    spark, duck = both(session, graph(200))
    with spark, duck:
        for sql, most in (
            ("SELECT x.a FROM e x JOIN e y ON x.b = y.a HAVING prob() > 0.02", 0),
            ("SELECT x.a FROM e x JOIN e y ON x.b = y.a ORDER BY prob() DESC LIMIT 3", 40),
            ("SELECT a, expected_sum(b) AS s, prob() * 2 AS d FROM e GROUP BY a HAVING prob() * 2 > 0.2 ORDER BY s", 0),
            ("SELECT a, prob() AS p FROM e ORDER BY a DESC LIMIT 4 OFFSET 1", 5),
            ("SELECT a, count(*) AS n, max(b) AS m FROM e GROUP BY a", 0),
        ):
            collected.clear()
            got, want = (db.sql(sql, rng=7, epsilon=0.3) for db in (spark, duck))
            assert isinstance(got, SparkAnswers | SparkAggregates)
            frame = got.spark()
            assert frame.count() == len(want) > 0, sql
            assert sum(collected) <= most, sql
            assert got.arrow().to_pydict() == want.arrow().to_pydict(), sql
            named = frame.toArrow()
            assert set(want.arrow().column_names) <= set(named.column_names), sql
        dist = [db.distribution(1, "n").arrow().to_pydict() for db in (got, want)]  # type: ignore[attr-defined]
        assert dist[0] == dist[1] and len(dist[0]["value"]) > 1


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows came to the driver, each time that a frame did; lineage must not."""
    from sharpdnf.sql.backends.spark import Spark

    seen: list[int] = []
    original = Spark.collected

    def noted(self: Spark, frame: Any) -> pa.Table:
        table = original(self, frame)
        if "_number" in table.column_names:
            seen.append(len(table))
        return table

    def refused(*_: object) -> None:
        raise AssertionError("lineage was collected")

    monkeypatch.setattr(Spark, "collected", noted)
    monkeypatch.setattr(Spark, "lineage", refused)
    return seen


def test_keys_and_denials_are_evidence(session: Any) -> None:
    spark, duck = both(session, graph(60))
    evidence = [key("e", "a", "b"), denial("SELECT 1 FROM e x JOIN e y ON x.b = y.a WHERE x.a < 5")]
    with spark, duck:
        for sql in ("SELECT b FROM e WHERE a < 9", "SELECT b FROM e HAVING prob() > 0.01 ORDER BY prob() DESC LIMIT 4"):
            got, want = (db.sql(sql, rng=7, given=evidence).arrow() for db in (spark, duck))
            assert got.drop_columns(BOUNDS).to_pydict() == want.drop_columns(BOUNDS).to_pydict()
            for name in BOUNDS:  # closed forms are added up in the order of the candidates
                assert got.column(name).to_pylist() == pytest.approx(want.column(name).to_pylist(), rel=1e-12)
        free = duck.sql(sql, rng=7).prob
        assert free.tolist() != want.column("prob").to_pylist(), "the evidence says something"
        with pytest.raises(SQLError, match="the evidence is impossible"):
            spark.sql("SELECT b FROM e", given="SELECT 1 FROM e WHERE a > 1000")


BOUNDS = ["prob", "lower", "upper"]


def test_reasons_and_lineage_are_fetched(session: Any) -> None:
    spark, duck = both(session, graph(60))
    with spark, duck:
        got, want = (db.sql("SELECT x.a FROM e x JOIN e y ON x.b = y.a", rng=1) for db in (spark, duck))
        assert len(got) == len(want) > 1
        assert got.explain(1, 2) == want.explain(1, 2)
        assert sorted(got.lineage(1).names) == sorted(want.lineage(1).names)


def test_what_if_and_a_layer_ask_about_lineage_that_is_fetched(session: Any) -> None:
    """Of negations, too, whose clauses are over events; one job brings the lineage of all answers."""
    spark, duck = both(session, graph(60))
    with spark, duck:
        for sql in ("SELECT x.a FROM e x JOIN e y ON x.b = y.a", "SELECT a FROM e EXCEPT SELECT b FROM e"):
            got, want = (db.sql(sql, guarantee="exact") for db in (spark, duck))
            assert len(got) == len(want) > 1
            one, other = got.what_if(1), want.what_if(1)
            assert one.exact and one.rows.tolist() == other.rows.tolist() and len(one.rows) > 1
            change = {int(row): 0.5 for row in one.rows[:2]}
            assert one(change).prob == pytest.approx(other(change).prob, rel=1e-12)
            assert one(change).prob != pytest.approx(got.prob[1])
            assert one.influences().values == pytest.approx(other.influences().values, rel=1e-9)
            first, second = got.clause_rows(1, 100), want.clause_rows(1, 100)
            assert (first and sorted(first)) == (second and sorted(second)), "a circuit has none"
            layer = got.module()
            assert layer.rows == want.module().rows
            assert layer().exp().tolist() == pytest.approx(want.prob.tolist(), rel=1e-9)
        session.conf.set("spark.sharpdnf.mostFetched", "1")
        try:
            with pytest.raises(SQLError, match=r"has \d+ clauses, and no more than 1 are fetched.*fewer answers"):
                spark.sql(sql).module()
        finally:
            session.conf.unset("spark.sharpdnf.mostFetched")
        with pytest.raises(SQLError, match="ask without evidence"):
            spark.sql(sql, given="SELECT 1 FROM e WHERE a = 1").what_if(0)


def test_a_frame_can_be_computed_again_when_its_answers_are_forgotten(session: Any) -> None:
    """As after the loss of an executor: the rows of the candidates must still be there."""
    with connect(session) as db:
        db.register("e", graph(60), prob="p")
        frame = db.sql("SELECT a FROM e EXCEPT SELECT b FROM e").spark()
        want = frame.count()
        gc.collect()
        db.backend.files.sweep()  # type: ignore[attr-defined]
        session.catalog.clearCache()
        assert frame.count() == want > 0


def test_an_answer_that_is_too_large_is_named(session: Any) -> None:
    spark, duck = both(session, graph())
    with spark, duck:
        session.conf.set("spark.sharpdnf.mostClauses", "100")
        try:
            with pytest.raises(SQLError, match=r"the answer \(\d\) has more than 100 clauses"):
                spark.sql(PATHS)
        finally:
            session.conf.unset("spark.sharpdnf.mostClauses")


def test_an_answer_with_most_of_the_clauses_is_made_lighter(session: Any) -> None:
    """Repeated clauses are dropped before they are moved: then the limit holds, and the numbers are the same."""
    spark, duck = both(session, graph())
    with spark, duck:
        for db in (spark, duck):
            db.register("c", {"n": list(range(8))})
        repeated = f"{PATHS} CROSS JOIN c WHERE c.n >= 0"
        session.conf.set("spark.sharpdnf.mostClauses", "4000")
        try:
            with pytest.raises(SQLError, match="has more than 4000 clauses"):
                spark.sql(repeated, rng=7)
            session.conf.set("spark.sharpdnf.manyClauses", "100")
            assert spark.sql(repeated, rng=7).prob.tolist() == duck.sql(repeated, rng=7).prob.tolist()
        finally:
            session.conf.unset("spark.sharpdnf.mostClauses")
            session.conf.unset("spark.sharpdnf.manyClauses")


def test_a_time_limit_and_ctrl_c_end_the_job_and_leave_the_session_usable(session: Any) -> None:
    with connect(session) as db:
        db.register("e", {"a": [1, 2], "p": [0.5, 0.25]}, prob="p")
        session.range(10**12).createOrReplaceTempView("endless")
        slow = "SELECT e.a FROM e JOIN endless ON endless.id % 7 = e.a WHERE endless.id % 1000003 = 5"
        with pytest.raises(SQLTimeout):
            db.sql(slow, timeout=6.0)
        assert_idle(session)
        timer = threading.Timer(6.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            db.sql(slow)
        timer.join()
        assert_idle(session)
        assert db.sql("SELECT a FROM e").prob.tolist() == [0.5, 0.25]


def assert_idle(session: Any) -> None:
    """No job is left; Spark may need a moment to end one."""
    for _ in range(100):
        if not session.sparkContext.statusTracker().getActiveJobsIds():
            return
        time.sleep(0.2)
    raise AssertionError("a job goes on")


def test_a_query_that_spark_cannot_read_says_so_once(session: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with connect(session) as db:
        db.register("e", {"a": [1], "p": [0.5]}, prob="p")
        capfd.readouterr()
        with pytest.raises(SQLError, match="nothing"):
            db.sql("SELECT nothing FROM e")
        assert capfd.readouterr().err == ""


def test_changed_rows_are_noticed(session: Any) -> None:
    with connect(session) as db:
        db.register("e", {"a": [1, 2], "p": [0.5, 0.25]}, prob="p")
        session.createDataFrame([(1, 0.75), (3, 0.5)], "a long, p double").createOrReplaceTempView("e")
        assert db.sql("SELECT a FROM e").arrow().select(["a", "prob"]).to_pydict() == {"a": [1, 3], "prob": [0.75, 0.5]}


def test_what_spark_cannot_do_is_refused(session: Any) -> None:
    with connect(session) as db:
        db.register("e", {"a": [1, 2], "b": [2, 3], "p": [0.5, 0.25]}, prob="p")
        session.table("e").filter("a > 1").createOrReplaceTempView("hidden")
        session.udf.register("mine", lambda x: x)
        for sql, word in (
            ("SELECT a, row_number() OVER (ORDER BY a) FROM e", "playing worlds"),
            ("SELECT mine(a) FROM e", "function mine"),
            ("SELECT explode(array(a)) FROM e", "makes rows"),
            ("SELECT array(a) FROM e", "answer column of type"),
            ("SELECT a FROM hidden", "shares rows"),
            ("SELECT rand() FROM e", "store its values in a table"),
        ):
            with pytest.raises(UnsupportedSQL, match=word):
                db.sql(sql)
        session.table("e").createGlobalTempView("everywhere")
        try:
            with pytest.raises(UnsupportedSQL, match="global temporary view 'everywhere'"):
                db.sql("SELECT a FROM global_temp.everywhere")
        finally:
            session.catalog.dropGlobalTempView("everywhere")


def test_sessions_that_cannot_serve_are_refused(session: Any) -> None:
    for name in ("spark.sql.caseSensitive", "spark.sql.ansi.doubleQuotedIdentifiers"):
        session.conf.set(name, "true")
        try:
            with pytest.raises(SQLError, match=f"{name}=true is not supported.*set it to false"):
                connect(session)
        finally:
            session.conf.unset(name)
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "version": "4.3.0"})()
    with pytest.raises(SQLError, match="Spark Connect cannot count on its executors: give a SparkSession of a master"):
        connect(remote)


def test_java_that_is_missing_is_named_with_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SQLError, match="apt-get install openjdk-17"):
        check_java()
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_352\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(SQLError, match="or newer, not '8'"):
        check_java()


def test_a_spark_that_is_missing_or_too_old_is_named_with_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    old = type("SparkSession", (), {"__module__": "pyspark.sql.session", "version": "3.5.1"})()
    with pytest.raises(SQLError, match=r"Spark 3.5.1 is too old.*pip install --upgrade 'sharpdnf\[spark\]'"):
        connect(old)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sharpdnf\[spark\]'"):
        connect("spark:local[2]")
