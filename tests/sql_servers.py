"""The three databases that the SQL tests run on, among them a private PostgreSQL server on a socket."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BACKENDS = ("duckdb", "sqlite", "postgres")


def postgres_directory() -> Path | None:
    """Where initdb and postgres are: Debian keeps them out of PATH."""
    found = shutil.which("postgres")
    if found:
        return Path(found).resolve().parent
    if shutil.which("pg_config"):
        shown = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        if shown and (Path(shown) / "postgres").exists():
            return Path(shown)
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return versions[-1].parent if versions else None


@contextmanager
def private_postgres() -> Iterator[str]:
    """Starts a server for the tests alone and yields its address; it has no TCP port and leaves nothing behind."""
    binaries = postgres_directory()
    assert binaries is not None
    home = Path(tempfile.mkdtemp(prefix="sharpdnf_pg_"))
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:  # initdb refuses root
        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        user = names.get("postgres") or names["nobody"]
        os.chown(home, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    environment = {**os.environ, "HOME": str(home), "LC_ALL": "C"}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home}
    data = home / "data"
    server = None
    try:
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, check=True, env=environment, **quiet, **identity)
        settings = ["fsync=off", "listen_addresses=", f"unix_socket_directories={home}", "jit=off"]
        options = [word for setting in settings for word in ("-c", setting)]
        server = subprocess.Popen([str(binaries / "postgres"), "-D", str(data), *options], env=environment, **quiet,
                                  **identity)  # fmt: skip
        address = f"postgresql://tester@/postgres?host={home}"
        wait_for(address, server)
        yield address
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # fast: does not wait for connections that a failed test left open
            server.wait(timeout=60)
        shutil.rmtree(home, ignore_errors=True)


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    for _ in range(200):
        if server.poll() is not None:
            raise RuntimeError(f"the PostgreSQL server stopped with code {server.returncode}")
        try:
            psycopg.connect(address, connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError("the PostgreSQL server did not come up")


class Database:
    """A connection of one of the three kinds with the few calls that the tests need."""

    def __init__(self, kind: str, address: str | None = None) -> None:
        self.kind = kind
        if kind == "duckdb":
            import duckdb

            self.connection: Any = duckdb.connect(config={"threads": 1})
        elif kind == "sqlite":
            self.connection = sqlite3.connect(":memory:", isolation_level=None)
        else:
            import psycopg

            self.connection = psycopg.connect(address, autocommit=True)
            self.run("DROP SCHEMA IF EXISTS world CASCADE")
            self.run("CREATE SCHEMA world")
            self.run("SET search_path = world")

    def run(self, sql: str) -> None:
        self.connection.execute(sql)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self.connection.execute(sql).fetchall())

    def close(self) -> None:
        self.connection.close()
