"""The time limit and Ctrl-C hold while the database works."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from sql_edges import TWO_STEPS
from sql_servers import Database

import sharpdnf
from sharpdnf.errors import SQLError, SQLTimeout
from sharpdnf.sql.limits import watched


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


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_time_limit_does_not_end_the_transaction_of_the_caller(kind: str) -> None:
    """SQLite would roll it back without a word, DuckDB with an error at the next statement."""
    database = Database(kind)
    database.run("CREATE TABLE n (a integer, p double precision)")
    found = sharpdnf.connect(database.connection)
    found.uncertain("n", prob="p")
    database.run("BEGIN")
    database.run("INSERT INTO n VALUES (1, 0.5)")
    with pytest.raises(SQLError, match="end the transaction first"):
        found.sql("SELECT a FROM n", timeout=60)
    assert found.sql("SELECT a FROM n").prob.tolist() == [0.5]
    database.run("COMMIT")
    assert found.sql("SELECT a FROM n", timeout=60).prob.tolist() == [0.5]


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="Ctrl-C is for the main thread")
@pytest.mark.usefixtures("heard_interrupts")
def test_interrupt_does_not_roll_back_a_transaction_of_sqlite() -> None:
    database = Database("sqlite")
    database.run("CREATE TABLE n (a integer, p real)")
    found = sharpdnf.connect(database.connection)
    found.uncertain("n", prob="p")
    database.run("BEGIN")
    database.run("INSERT INTO n VALUES (1, 0.5)")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt), watched(found.backend):
        found.backend.execute(
            "CREATE TEMP TABLE ours AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < "
            "3000000) SELECT count(*) FROM c"
        )
    timer.join()
    assert database.connection.in_transaction
    assert database.ask("SELECT a FROM n") == [(1,)]


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


def test_time_limits_that_are_none(db: sharpdnf.ProbDB) -> None:
    for timeout in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            db.sql(TWO_STEPS, timeout=timeout)
    assert db.sql(TWO_STEPS, timeout=float("inf")).prob == pytest.approx([0.5875, 0.45])


def test_an_interrupt_that_hits_a_statement_of_the_driver_is_a_timeout() -> None:
    db = sharpdnf.connect()
    with pytest.raises(SQLTimeout, match=r"within 0\.05 s"), watched(db.backend, 0.05):
        db.backend.connection.execute("SELECT count(*) FROM range(1000000000000) a, range(1000000) b").fetchall()
    with pytest.raises(ZeroDivisionError), watched(db.backend, 0.01):
        time.sleep(0.05)
        raise ZeroDivisionError  # an error of our own stays what it is
