"""``connect``: finds the database that a path, an address or an open connection means."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from sharpdnf.errors import MissingExtra, SQLError
from sharpdnf.sql.backends.protocol import Backend
from sharpdnf.sql.database import ProbDB
from sharpdnf.sql.limits import watched

if TYPE_CHECKING:
    from sharpdnf.sql.sandbox import Limits, Sandbox

SPARK, JAVA = 4, 17
"""The oldest versions of Spark and Java that are supported."""


@overload
def connect(source: Any = None, *, sandbox: Literal[False] = False) -> ProbDB: ...


@overload
def connect(source: Any = None, *, sandbox: Literal[True] | Limits) -> Sandbox: ...


def connect(source: Any = None, *, sandbox: bool | Limits = False) -> ProbDB | Sandbox:
    """Opens a database for probabilistic SQL.

    ``source`` is a DuckDB or SQLite file (opened read-only), a Parquet, CSV or JSON file (a table named after it), a
    PostgreSQL address (``postgresql://...``), a Spark master (``spark://host:7077``, ``spark:local[2]``), a duckdb,
    sqlite3 or psycopg connection, a SparkSession, or None for an empty DuckDB that data frames are registered with.
    Only temporary tables are ever created. Close it, or use ``with``.

    ``sandbox``, for SQL text that comes from someone else, runs every query in a process of its own, without access to
    files and under ``Limits`` of time and memory (``sandbox.py``); it takes DuckDB and data files, or None.
    """
    if sandbox is not False:
        return _sandbox(source, None if sandbox is True else sandbox)
    return ProbDB(_backend(source), ours=source is None or isinstance(source, str | os.PathLike))


def _sandbox(source: Any, limits: Limits | None) -> Sandbox:
    from sharpdnf.sql.sandbox import Sandbox

    if source is None:
        return Sandbox(None, limits)
    if not isinstance(source, str | os.PathLike) or os.fspath(source).startswith(("postgresql://", "postgres://")):
        raise SQLError("a sandbox is a process of its own: it takes a DuckDB or data file, or None, not a connection")
    path = Path(source).resolve()
    if not path.is_file():
        raise SQLError(f"no database file {os.fspath(source)!r}")
    try:
        from sharpdnf.sql.backends.duckdb import READERS
    except ImportError:
        raise MissingExtra("connect", "sql") from None
    if path.suffix.lower() not in READERS:
        return Sandbox(str(path), limits)
    found = Sandbox(None, limits)
    found.register(path.name.split(".")[0], path)
    return found


def _backend(source: Any) -> Backend:
    if source is None or isinstance(source, str | os.PathLike):
        return _open("" if source is None else os.fspath(source))
    names = ("Connection", "DuckDBPyConnection", "SparkSession")
    kinds = [kind for kind in type(source).__mro__ if kind.__name__ in names]
    package = kinds[-1].__module__.split(".")[0].lstrip("_") if kinds else ""
    if package == "duckdb":
        from sharpdnf.sql.backends.duckdb import DuckDB

        return DuckDB(source)
    if package == "sqlite3":
        from sharpdnf.sql.backends.sqlite import SQLite

        return SQLite(source)
    if package == "psycopg":
        from sharpdnf.sql.backends.postgres import PostgreSQL

        return PostgreSQL(source)
    if package == "pyspark":
        return _spark_backend(source)
    raise TypeError(
        f"connect takes a path, a duckdb, sqlite3 or psycopg connection or a SparkSession, not {type(source).__name__}"
    )


def _spark_backend(session: Any) -> Backend:
    """The back end of a SparkSession that runs in this process, of a version that is new enough."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise SQLError("a session of Spark Connect cannot count on its executors: give a SparkSession of a master")
    if int(str(session.version).split(".")[0]) < SPARK:
        raise SQLError(
            f"Spark {session.version} is too old, {SPARK}.0 is needed: pip install --upgrade 'sharpdnf[spark]'"
        )
    from sharpdnf.sql.backends.spark import Spark

    return Spark(session)


def _open_spark(master: str) -> Backend:
    """A SparkSession of our own; what it needs is looked for first, since Spark's own errors are pages long."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("connect", "spark") from None
    check_java()
    try:
        session = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise SQLError(f"cannot start Spark with the master {master!r}: {error}") from None
    return _spark_backend(session)


def check_java() -> None:
    """An error with the command that mends it, if there is no Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    mend = "install one, on Debian and Ubuntu with: apt-get install openjdk-17-jre-headless"
    if java is None or not Path(java).exists():
        raise SQLError(f"Spark needs Java {JAVA} or newer, and none is {'in JAVA_HOME' if home else 'on PATH'}: {mend}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is None or int(found[1]) < JAVA:
        raise SQLError(f"Spark needs Java {JAVA} or newer, not {found[1] if found else told[:80]!r}: {mend}")


def _open(path: str) -> Backend:
    if path.startswith("spark:"):
        return _open_spark(path if path.startswith("spark://") else path.removeprefix("spark:"))
    if path.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise SQLError("a PostgreSQL address needs psycopg: pip install 'psycopg[binary]'") from None
        try:
            return _backend(psycopg.connect(path, autocommit=True))
        except psycopg.Error as error:
            raise SQLError(f"cannot connect to PostgreSQL: {error}") from None
    if path and not Path(path).exists():
        raise SQLError(f"no database file {path!r}")
    if path:
        with open(path, "rb") as file:
            if file.read(16) == b"SQLite format 3\0":
                import sqlite3

                return _backend(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True))
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("connect", "sql") from None
    from sharpdnf.sql.backends.duckdb import READERS

    if path and Path(path).suffix.lower() in READERS:
        backend = _quiet(duckdb.connect())
        backend.register(Path(path).name.split(".")[0], path)
        return backend
    try:
        return _quiet(duckdb.connect(path, read_only=True) if path else duckdb.connect())
    except duckdb.Error as error:
        raise SQLError(f"cannot open {path!r}: {error}") from None


def _quiet(connection: Any) -> Backend:
    """A DuckDB of our own: its progress bar would stand between the answers on standard output.

    In a notebook without ipywidgets the bar is off and DuckDB refuses to hear of it at all, so it is asked first.
    """
    backend = _backend(connection)
    with watched(backend):
        if backend.rows("SELECT current_setting('enable_progress_bar')")[0][0]:
            backend.execute("SET enable_progress_bar = false")
    return backend
