"""The sandbox: the answers of ProbDB, and nothing that a query could reach, keep or outlive."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sharpdnf
from sharpdnf.errors import LimitError, NoUncertainTable, SQLError, SQLTimeout, UncertainTableError, UnsupportedSQL
from sharpdnf.sql import Answers, Limits, Sandbox
from sharpdnf.sql.sandbox_process import from_bytes, to_bytes
from sharpdnf.sql.sandbox_worker import locked_database

EDGES = {"src": [1, 1, 2, 3], "dst": [2, 3, 3, 4], "p": [0.5, 0.5, 0.5, 0.9]}
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"
ENDLESS = "SELECT sum(i) AS s FROM range(1000000000000) r(i)"
RECURSIVE = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r"
MEMORY = "SELECT length(repeat('x', 2000000000)) AS n FROM edge"
UNINTERRUPTIBLE = "SELECT regexp_matches(repeat('a', 400000000), '(a|aa|aaa|a?)*b') AS m FROM edge"

pytestmark = pytest.mark.filterwarnings("ignore::sharpdnf.errors.NoUncertainTable")


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with sharpdnf.connect(sandbox=Limits(seconds=20.0, memory=2**30)) as found:
        found.register("edge", pa.table(EDGES), prob="p")
        yield found


def test_the_answers_are_those_of_probdb(box: Sandbox) -> None:
    with sharpdnf.connect() as db:
        db.register("edge", pa.table(EDGES), prob="p")
        for query in (TWO_STEPS, "SELECT src, dst FROM edge ORDER BY prob() DESC LIMIT 2",
                      "SELECT src, expected_count() AS n FROM edge GROUP BY src"):  # fmt: skip
            got, want = box.sql(query, rng=1), db.sql(query, rng=1)
            assert isinstance(got, Answers)
            assert got.arrow().equals(want.arrow()) and got.labels == want.labels and got.met == want.met
            assert got.num_clauses.tolist() == want.num_clauses.tolist() and len(got) == len(want)
            assert got.explain(0) == want.explain(0)
            assert got.lineage(0).names == want.lineage(0).names
            assert str(got.lineage(0)) == str(want.lineage(0))
        seeded = [box.sql(TWO_STEPS, rng=np.random.default_rng(7)).prob.tolist() for _ in range(2)]
        assert seeded[0] == seeded[1]
        assert box.rewrite(TWO_STEPS).startswith("SELECT")


def test_evidence_ways_and_aggregates_are_those_of_probdb(box: Sandbox) -> None:
    query = "SELECT src FROM edge"
    with sharpdnf.connect() as db:
        db.register("edge", pa.table(EDGES), prob="p")
        present, absent = "SELECT 1 FROM edge WHERE src = 1", "SELECT 1 FROM edge WHERE dst = 2"
        for options in ({"given": present}, {"given_not": [absent]}, {"given": sharpdnf.sql.key("edge", "src")},
                        {"way": "worlds"}):  # fmt: skip
            got, want = box.sql(query, **options), db.sql(query, **options)  # type: ignore[arg-type]
            assert got.arrow().equals(want.arrow()) and got.plan() == want.plan()
        counts = "SELECT count(*) AS n FROM edge"
        assert box.sql(counts, aggregates="rows").arrow().equals(db.sql(counts, aggregates="rows").arrow())
    with pytest.raises(SQLError, match=r"impossible|probability 0"):
        box.sql(query, given="SELECT 1 FROM edge WHERE src = 99")


def test_errors_and_warnings_are_those_of_probdb(box: Sandbox) -> None:
    for error, query in ((UnsupportedSQL, "SELECT random() FROM edge"), (SQLError, "SELECT nope FROM edge"),
                         (SQLError, "SELECT a FROM nowhere")):  # fmt: skip
        with pytest.raises(error):
            box.sql(query)
    with pytest.raises(UncertainTableError, match="not in"):
        box.register("bad", pa.table({"a": [1], "p": [1.5]}), prob="p")
    with pytest.raises(ValueError, match="timeout"):
        box.sql(TWO_STEPS, timeout=-1.0)
    with pytest.warns(NoUncertainTable):
        box.sql("SELECT 1 AS one")
    with pytest.raises(IndexError):
        box.sql(TWO_STEPS).explain(9)


@pytest.mark.parametrize(
    "query",
    [
        "COPY edge TO '{file}'",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}' AS x",
        "EXPORT DATABASE '{file}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '90GB'",
        "RESET memory_limit",
        "CALL pragma_version()",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; COPY edge TO '{file}'",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_csv_auto('{secret}')",
        "SELECT * FROM read_json('{secret}')",
        "SELECT * FROM read_parquet('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM read_blob('{secret}')",
        "SELECT * FROM glob('{secret}*')",
        "SELECT * FROM sniff_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        'SELECT * FROM "{secret}"',
        "SELECT * FROM sqlite_scan('{secret}', 't')",
        "SELECT * FROM sqlite_attach('{secret}')",
        "SELECT * FROM edge WHERE EXISTS (SELECT 1 FROM read_text('{secret}'))",
        "SELECT getenv('PATH') FROM edge",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM query('COPY edge TO ''{file}''')",
        "WITH x AS (FROM read_text('{secret}')) SELECT * FROM x",
    ],
)
def test_what_a_query_cannot_reach(box: Sandbox, query: str, tmp_path: Path) -> None:
    secret, file = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("word\nxyzzy\n")
    with pytest.raises(SQLError) as caught:
        box.sql(query.format(secret=secret, file=file))
    assert "xyzzy" not in str(caught.value) and not file.exists()
    assert len(box.sql(TWO_STEPS)) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}' AS x",
        "EXPORT DATABASE '{file}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{file}'",
        "SET memory_limit = '90GB'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET allowed_directories = ['/']",
        "SET temp_directory = '{file}'",
        "RESET threads",
        "PRAGMA threads = 8",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM glob('{secret}')",
        "SELECT * FROM '{secret}'",
        "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    ],
)
def test_the_database_alone_refuses(statement: str, tmp_path: Path) -> None:
    """The second wall holds if the rewriter let a statement through."""
    secret, file = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("word\nxyzzy\n")
    connection = locked_database(None, 2**28, 1).connection
    with pytest.raises(duckdb.Error):
        connection.execute(statement.format(secret=secret, file=file)).fetchall()
    assert not file.exists()
    connection.close()


def test_the_worker_sees_no_environment(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("no /proc")
    monkeypatch.setenv("SHARPDNF_SECRET", "xyzzy")
    with sharpdnf.connect(sandbox=True) as found:
        assert found._worker is not None
        process = found._worker.process.pid
        assert b"xyzzy" not in Path(f"/proc/{process}/environ").read_bytes()
        assert os.readlink(f"/proc/{process}/cwd") == "/"
        limits = Path(f"/proc/{process}/limits").read_text()
        assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max file size")] == [["0", "0"]]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (ENDLESS, "within 0.5 s"),
        (RECURSIVE, "within 0.5 s"),
        (UNINTERRUPTIBLE, "its process was ended"),
        (MEMORY, "Out of Memory|within"),
    ],
)
def test_no_query_outlives_the_limit(query: str, said: str) -> None:
    with sharpdnf.connect(sandbox=Limits(seconds=10.0, memory=3 * 2**29)) as found:
        found.register("edge", pa.table(EDGES), prob="p")
        started = time.monotonic()
        with pytest.raises(SQLTimeout if query != MEMORY else SQLError, match=said):
            found.sql(query, timeout=0.5)
        assert time.monotonic() - started < 5.0
        assert found.sql(TWO_STEPS).prob == pytest.approx([0.5875, 0.45])


@pytest.mark.parametrize(
    "query", [MEMORY, "SELECT * FROM range(90000000)", "SELECT a.range FROM range(100000) a, range(100000) b"]
)
def test_memory_is_limited(query: str) -> None:
    with sharpdnf.connect(sandbox=Limits(seconds=60.0, memory=2**28)) as found:
        found.register("edge", pa.table(EDGES), prob="p")
        with pytest.raises(SQLError):
            found.sql(query)
        assert len(found.sql(TWO_STEPS)) == 2


def test_answers_are_limited() -> None:
    with sharpdnf.connect(sandbox=Limits(answer_bytes=100_000)) as found:
        found.register("edge", pa.table(EDGES), prob="p")
        with pytest.raises(LimitError, match="more than the limit of 100000"):
            found.sql("SELECT repeat('x', 90000) || src AS x FROM edge")
        assert len(found.sql(TWO_STEPS)) == 2


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    """With its tables, declarations and blocks; answers of the old one can still be read, but not explained."""
    file = tmp_path / "edge.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE edge AS SELECT 1 AS src, 2 AS dst, 0.5::DOUBLE AS p")
    with sharpdnf.connect(file, sandbox=True) as found:
        found.uncertain("edge", prob="p")
        found.register("more", pa.table({"a": [1, 2], "k": [1, 1], "p": [0.5, 0.25]}), prob="p", block="k")
        query = "SELECT 1 AS one FROM edge UNION SELECT 1 FROM more"
        old = found.sql(query)
        assert old.prob == pytest.approx([1 - 0.5 * 0.25])
        assert found._worker is not None
        first = found._worker.process.pid
        os.kill(first, signal.SIGKILL)
        with pytest.raises(SQLError, match="ended with signal SIGKILL"):
            found.sql(query)
        assert found.sql(query).prob == pytest.approx([1 - 0.5 * 0.25])
        assert found._worker is not None and found._worker.process.pid != first
        assert old.prob == pytest.approx([1 - 0.5 * 0.25])
        with pytest.raises(SQLError, match="ask the query again"):
            old.explain(0)
        last = found._worker.process
    assert last.poll() is not None
    with pytest.raises(SQLError, match="closed"):
        found.sql(query)


def test_sources(tmp_path: Path) -> None:
    file = tmp_path / "edge.csv"
    file.write_text("src,p\n1,0.5\n2,0.25\n")
    with sharpdnf.connect(file, sandbox=True) as found:
        found.uncertain("edge", prob="p")
        assert found.sql("SELECT src FROM edge ORDER BY src").prob.tolist() == [0.5, 0.25]
    with duckdb.connect() as connection, pytest.raises(SQLError, match="process of its own"):
        sharpdnf.connect(connection, sandbox=True)
    for source in ("postgresql://nobody@nowhere/x", tmp_path / "missing.duckdb"):
        with pytest.raises(SQLError):
            sharpdnf.connect(source, sandbox=True)
    (tmp_path / "bad.duckdb").write_text("no database")
    with pytest.raises(SQLError, match="cannot open"):
        sharpdnf.connect(tmp_path / "bad.duckdb", sandbox=True)
    with pytest.raises(ValueError, match="64 MiB"):
        Limits(memory=1)


def test_nonsense_of_a_worker_is_an_error() -> None:
    data = bytearray(to_bytes(pa.table({"a": ["xy", "z"]})))
    with pytest.raises(SQLError, match="is not a table"):
        from_bytes(bytes(data[: len(data) // 2]))
