"""Time limits and Ctrl-C while the database works.

While Python is inside a call into the database it runs neither a signal handler nor a timer of its own. So a second
thread waits for the time limit and for signals, and interrupts the statement."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sharpdnf.errors import SQLError, SQLTimeout
from sharpdnf.sql.backends.protocol import Backend

AGAIN = 0.1
"""Seconds after which a statement is interrupted once more, because the first interrupt may have come just before the
statement began."""
LEAST, MOST = 1e-3, 86400.0
"""The shortest and longest time in seconds that the socket waits at once. A wait of 0 would not wait at all, and more
than 2^31 milliseconds would be cut off."""
DRIVERS = ("duckdb", "_duckdb", "sqlite3", "psycopg", "pyspark")
"""The libraries whose own errors an interrupt can raise from statements that are not wrapped."""
DONE = b"\0"
"""The byte that tells the watching thread to end. Signals arrive as bytes with their numbers, which are never 0."""


def check_interruptible(backend: Backend) -> None:
    """Refuses a time limit that would end a transaction of the caller's, with all that was done in it."""
    if backend.endangers():
        raise SQLError(
            "at the time limit the database would take back all that your open transaction has done: end the "
            "transaction first, or ask without timeout="
        )


@contextmanager
def watched(backend: Backend, timeout: float | None = None) -> Iterator[None]:
    """Interrupts the statements inside at the time limit (SQLTimeout) and, in the main thread, at Ctrl-C.

    Other threads wait until the connection is free.
    """
    late = SQLTimeout(f"the database did not finish within {timeout or 0.0:.4g} s")
    started = time.monotonic()
    if not backend.lock.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX)):
        raise late
    try:
        with _interrupted(backend, None if timeout is None else max(0.0, timeout - time.monotonic() + started), late):
            yield
    finally:
        backend.lock.release()


@contextmanager
def _interrupted(backend: Backend, timeout: float | None, late: SQLTimeout) -> Iterator[None]:
    here, there = socket.socketpair()
    deadline = None if timeout is None else time.monotonic() + timeout
    seen: list[str] = []

    def watch() -> None:
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            there.settimeout(AGAIN if seen else None if left is None else min(max(left, LEAST), MOST))
            try:
                number = there.recv(1)
            except TimeoutError:
                if left is not None and left > MOST:
                    continue
                number = b""
            if number == DONE:
                return
            if number and before >= 0:  # an event loop listens too, so the byte is passed on to it
                os.write(before, number)
            if not number or number[0] == signal.SIGINT:
                seen.append("SIGINT" if number else "timeout")
                backend.interrupt()

    here.setblocking(False)
    main = threading.current_thread() is threading.main_thread()
    before = signal.set_wakeup_fd(here.fileno(), warn_on_full_buffer=False) if main else -1
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    finally:
        if main:
            signal.set_wakeup_fd(before)
        here.send(DONE)
        watcher.join()
        here.close()
        there.close()
    if "SIGINT" in seen:  # DuckDB, or a library while it is imported, may have turned it into another error or none
        raise KeyboardInterrupt
    if "timeout" in seen and failure is not None and _is_of_a_database(failure):
        raise late
    if failure is not None:
        raise failure


def _is_of_a_database(failure: Exception) -> bool:
    """Whether an error is one of ours about SQL, or one that a database's library raised."""
    return isinstance(failure, SQLError) or type(failure).__module__.partition(".")[0] in DRIVERS
