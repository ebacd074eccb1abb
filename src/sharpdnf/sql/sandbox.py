"""SQL text from someone else: queries run in a process of their own that can do nothing but compute, and be ended.

    with sharpdnf.connect("data.duckdb", sandbox=True) as db:
        db.uncertain("edge", prob="p")
        db.sql(text_from_the_internet, timeout=5).show()

The worker is a fresh interpreter that sees neither the environment nor the current folder. Its DuckDB has no external
access, loads no extension, keeps to a memory limit and a number of threads, and its configuration is locked; the
operating system limits its memory too and lets it write no file. Some functions of DuckDB hear of no interrupt
(``repeat('x', 2000000000)``): a worker that does not answer in time is killed, the query is an error, and the next one
finds a fresh worker that has loaded the same tables.

``sandbox_process.py`` is the worker's process and how both sides talk, ``sandbox_worker.py`` what runs in it. This is a
second wall: the first is the rewriter's white list, which lets no statement but
SELECT through.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from sharpdnf import errors
from sharpdnf.dnf import DNF, IntArray
from sharpdnf.engines.registry import refuse_options
from sharpdnf.errors import SQLError, SQLTimeout
from sharpdnf.estimate import check_tolerance
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.dialect import DUCKDB
from sharpdnf.sql.backends.parameters import Parameters, with_values
from sharpdnf.sql.counting import SUMMARY, Counts, Progress
from sharpdnf.sql.evidence import Given, as_evidence
from sharpdnf.sql.reasons import Reason, Reasons
from sharpdnf.sql.sandbox_process import WorkerProcess, from_bytes, to_bytes
from sharpdnf.sql.ways import Route

if TYPE_CHECKING:
    import pyarrow as pa

GRACE = 0.25
"""Seconds that a worker has to say by itself that time is up."""
STARTING = 120.0
"""Seconds for starting a worker and loading tables, which no stranger's text takes part in."""
RAISED = (
    "SQLError",
    "UnsupportedSQL",
    "SQLTimeout",
    "UncertainTableError",
    "LimitError",
    "UnknownEngine",
    "InvalidFormula",
)
WARNED = ("NoUncertainTable", "NotMetWarning")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use."""

    seconds: float = 30.0
    """How many seconds database and counting may take together; ``timeout`` can only shorten it."""
    memory: int = 2**30
    """How many bytes the worker may use beyond what its libraries take. Tables that are not read from a file count."""
    threads: int = 1
    """How many threads the database may use."""
    answer_bytes: int = 64 * 2**20
    """How many bytes the answers may take as Arrow, since they come into the process that asks."""

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.memory >= 2**26 and self.threads >= 1 and self.answer_bytes >= 1):
            raise ValueError(f"limits are positive, and a worker needs 64 MiB: {self}")


class Sandbox:
    """A ProbDB over a worker process. Tables come from a DuckDB file, a data file, or ``register``."""

    def __init__(self, source: str | None = None, limits: Limits | None = None) -> None:
        if os.name != "posix":
            raise SQLError("the sandbox needs Linux or macOS: it limits a process by their means")
        self.limits = limits or Limits()
        """What one query may use."""
        self._lock = threading.RLock()
        self._worker: WorkerProcess | None = None
        self._closed = False
        self._source = source
        self._setup: list[tuple[dict[str, Any], bytes]] = []
        """The messages that made the tables and declarations of now: a fresh worker gets them first."""
        self._answers = 0
        self._generation = 0
        """How many workers there were: answers of an earlier one cannot be explained any more."""
        with self._lock:
            self._ready()

    def close(self) -> None:
        """Ends the worker."""
        with self._lock:
            self._closed = True
            self._end()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- tables

    def register(
        self, name: str, frame: object, *, prob: str | None = None, block: str | Sequence[str] | None = None
    ) -> None:
        """Makes a pandas, polars or Arrow frame, or a Parquet, CSV or JSON file, a table; with ``prob``, uncertain.

        The rows are copied into the worker, so later changes of the frame or file do not show.
        """
        data = _table_of(frame)
        self._set_up({"do": "register", "name": name, "prob": prob, "block": _listed(block)}, to_bytes(data))

    def uncertain(
        self, table: str, *, prob: str, block: str | Sequence[str] | None = None, query: str | None = None
    ) -> None:
        """As ``ProbDB.uncertain``."""
        self._set_up({"do": "uncertain", "table": table, "prob": prob, "block": _listed(block), "query": query})

    def forget(self, table: str) -> None:
        """As ``ProbDB.forget``."""
        self._set_up({"do": "forget", "table": table})

    def refresh(self) -> None:
        """As ``ProbDB.refresh``."""
        self._ask({"do": "refresh"}, STARTING)

    # ---- asking

    def rewrite(self, query: str) -> str:
        """As ``ProbDB.rewrite``."""
        return str(self._ask({"do": "rewrite", "query": query}, self.limits.seconds)[0]["text"])

    def sql(
        self,
        query: str,
        params: Parameters | None = None,
        *,
        guarantee: str | None = None,
        epsilon: float = 0.1,
        delta: float = 0.05,
        rng: Any = None,
        timeout: float | None = None,
        threads: int | None = None,
        engine: str = "auto",
        progress: Progress | None = None,
        way: str | None = None,
        given: Given | None = None,
        given_not: Given | None = None,
        aggregates: str = SUMMARY,
        **unknown: Never,
    ) -> Answers:
        """As ``ProbDB.sql``, within the limits. ``progress`` hears of the end alone."""
        refuse_options(self.sql, unknown)
        query = with_values(query, params, DUCKDB.name)
        check_tolerance(epsilon, delta)
        if timeout is not None and not timeout >= 0.0:
            raise ValueError(f"timeout must not be negative, not {timeout}")
        seconds = self.limits.seconds if timeout is None else min(timeout, self.limits.seconds)
        if isinstance(rng, np.random.Generator):
            rng = int(rng.integers(2**63))
        elif rng is not None:
            rng = int(rng)
        options = {
            "guarantee": guarantee,
            "epsilon": epsilon,
            "delta": delta,
            "rng": rng,
            "timeout": seconds,
            "threads": min(threads or self.limits.threads, self.limits.threads),
            "engine": engine,
            "way": way,
            "aggregates": aggregates,
        }
        evidence = [asdict(entry) for entry in as_evidence(given, given_not)]
        with self._lock:
            message = {"do": "sql", "query": query, "options": options, "evidence": evidence}
            said, data = self._ask(message, seconds)
            answers = SandboxAnswers(self, said, from_bytes(data), self._generation)
        if progress is not None:
            progress(len(answers), len(answers))
        return answers

    def ask_about(self, number: int, generation: int, message: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """A question about answers that the worker still has."""
        with self._lock:
            self._ready()
            if generation != self._generation:
                raise SQLError("the worker that had these answers is gone: ask the query again")
            return self._ask({**message, "answers": number}, self.limits.seconds)

    # ---- the worker

    def _set_up(self, message: dict[str, Any], data: bytes = b"") -> None:
        with self._lock:
            self._ask(message, STARTING, data)
            self._setup.append((message, data))

    def _ready(self) -> WorkerProcess:
        if self._closed:
            raise SQLError("this sandbox is closed: connect() again")
        if self._worker is None:
            self._worker = WorkerProcess()
            self._generation += 1
            try:
                first = {"do": "open", "path": self._source, "limits": asdict(self.limits)}
                for message, data in [(first, b""), *self._setup]:
                    _checked(self._worker.talk(message, data, STARTING)[0])
            except (TimeoutError, EOFError, OSError, ValueError) as error:
                self._end()
                raise SQLError(f"the worker process of the sandbox does not start: {error!r}") from None
            except BaseException:
                self._end()
                raise
        return self._worker

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _ask(self, message: dict[str, Any], seconds: float, data: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """The worker's answer; a worker that is late, dead or talks nonsense is ended, and the next call starts one."""
        started = time.monotonic()
        late = SQLTimeout(f"the query did not finish within {seconds} s; its process was ended")
        if not self._lock.acquire(timeout=min(seconds + STARTING, threading.TIMEOUT_MAX)):
            raise late
        try:
            worker = self._ready()
            try:
                said, answer = worker.talk(message, data, seconds + GRACE, most=self.limits.answer_bytes)
            except TimeoutError:
                self._end()
                raise late from None
            except (EOFError, OSError, ValueError) as error:
                how = worker.end()
                self._worker = None
                reason = f"its process ended with {how}" if isinstance(error, EOFError | OSError) else str(error)
                raise SQLError(
                    f"the query was stopped after {time.monotonic() - started:.1f} s: {reason}; most likely it needs "
                    f"more than the {self.limits.memory / 2**20:.0f} MiB that it may use"
                ) from None
            except BaseException:  # Ctrl-C, or the answer to a question that nobody waits for
                self._end()
                raise
        finally:
            self._lock.release()
        for name, text in said.get("warnings", ()):
            if name in WARNED:
                warnings.warn(str(text), getattr(errors, name), stacklevel=3)
        return _checked(said), answer


class SandboxAnswers(Answers):
    """Answers whose lineage stays in the worker."""

    _has_lineage = False

    def __init__(self, sandbox: Sandbox, said: dict[str, Any], table: pa.Table, generation: int) -> None:
        self.labels = tuple(str(label) for label in said["labels"])
        self._sandbox, self._number, self._generation = sandbox, int(said["number"]), generation
        self.given = bool(said["given"])
        route = said["route"]
        refusals = tuple((str(way), str(reason)) for way, reason in route["refusals"])
        self.route = Route(str(route["way"]), refusals, tuple(map(str, route["notes"])))
        *columns, met = table.column_names
        self._table = table.select(columns)

        def column(name: str) -> Any:
            return self._table.column(name).to_numpy()

        near = column("near_cut") if "near_cut" in columns else None
        self.counts = Counts(
            column("prob"),
            column("lower"),
            column("upper"),
            column("guarantee"),
            column("engine"),
            table.column(met).to_numpy(),
            near,
        )

    def arrow(self) -> pa.Table:
        """As ``Answers.arrow``."""
        return self._table

    @property
    def num_clauses(self) -> IntArray:
        """As ``Answers.num_clauses``."""
        found: IntArray = self._table.column("num_clauses").to_numpy()
        return found

    def lineage(self, index: int) -> DNF:
        """As ``Answers.lineage``."""
        self._check(index)
        said, data = self._sandbox.ask_about(self._number, self._generation, {"do": "lineage", "index": index})
        arrays = from_bytes(data)
        indptr, literals, prob = (arrays.column(i).combine_chunks().values.to_numpy() for i in range(3))
        return DNF.from_arrays(indptr, literals.astype(np.int32), prob, names=tuple(map(str, said["names"])))

    def explain(
        self, index: int, top: int = 5, *, measure: str = "influence", epsilon: float = 0.05, delta: float = 0.05
    ) -> Reasons:
        """As ``Answers.explain``."""
        self._check(index)
        asked = {"measure": measure, "epsilon": epsilon, "delta": delta}
        message = {"do": "explain", "index": index, "top": top, "asked": asked}
        said, _ = self._sandbox.ask_about(self._number, self._generation, message)
        return Reasons([Reason(**reason) for reason in said["reasons"]], measure)


def _checked(said: dict[str, Any]) -> dict[str, Any]:
    """What the worker said, unless that is an error: of a class that is expected, or else an SQLError."""
    if "error" not in said:
        return said
    name, message = str(said["error"]), str(said.get("message"))
    plain = {"ValueError": ValueError, "TypeError": TypeError, "IndexError": IndexError}
    raise plain.get(name, getattr(errors, name) if name in RAISED else SQLError)(message)


def _listed(block: str | Sequence[str] | None) -> list[str] | None:
    return None if block is None else [block] if isinstance(block, str) else list(block)


def _table_of(frame: object) -> pa.Table:
    """A frame or file as an Arrow table, read here: the worker may read nothing."""
    import duckdb

    from sharpdnf.sql.backends.duckdb import DuckDB

    with duckdb.connect() as connection:
        backend = DuckDB(connection)
        backend.register("frame", frame)
        return backend.arrow("SELECT * FROM frame")
