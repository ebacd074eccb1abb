"""The process inside ``sandbox.py``: locks itself in, then answers messages from standard input one by one."""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.errors import LimitError, SharpDNFError, SQLError
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.database import ProbDB
from sharpdnf.sql.evidence import Evidence
from sharpdnf.sql.sandbox_process import HEADER, from_bytes, to_bytes

KEPT = 16
"""How many of the last answers are kept, so that their lineage and reasons can be asked for."""
SLACK = 2**28
"""How many bytes of address space are allowed for thread stacks and the allocators' reserves, which take no memory."""
Tell = Callable[[dict[str, Any], bytes], None]
"""Sends a message, JSON and bytes, to the process that asked."""
ALONE = 2.0
"""Seconds beyond the limit after which a worker ends itself: whoever should have ended it is gone."""


def serve() -> None:
    """Reads messages until the pipe closes: then nobody is there to answer, whatever is under way."""
    answer_messages(Worker)


def answer_messages(make: Callable[[Tell], Worker]) -> None:
    """Locks the process's own input and output away and answers messages by the worker that ``make`` makes; it is
    handed a function that sends a message while work is under way."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY)):  # what a library prints must not pass for a message
        nothing = os.open(os.devnull, mode)
        os.dup2(nothing, number)
        os.close(nothing)
    messages: queue.Queue[tuple[dict[str, Any], bytes]] = queue.Queue()
    threading.Thread(target=_listen, args=(source, messages), daemon=True).start()

    def tell(said: dict[str, Any], data: bytes) -> None:
        text = json.dumps(said).encode()
        target.write(HEADER.pack(len(text), len(data)) + text)
        target.write(data)
        target.flush()

    worker = make(tell)
    while True:
        tell(*worker.answer(*messages.get()))


def _listen(source: BinaryIO, messages: queue.Queue[tuple[dict[str, Any], bytes]]) -> None:
    while True:
        header = source.read(HEADER.size)
        if len(header) < HEADER.size:
            os._exit(0)
        head, body = HEADER.unpack(header)
        messages.put((json.loads(source.read(head)), source.read(body)))


class Worker:
    """A locked DuckDB and the answers of the last queries."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self._db: ProbDB | None = None
        self._answers: OrderedDict[int, Answers] = OrderedDict()
        self._asked = 0
        self._most = 0

    def answer(self, message: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """What a message asks for, or the error as a name and a sentence."""
        faulthandler.dump_traceback_later(float(message.pop("seconds")) + ALONE, exit=True)  # needs no Python to run
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                said, found = getattr(self, f"_{message.pop('do')}")(data, **message)
            except (SharpDNFError, ValueError, TypeError, IndexError) as error:
                said, found = {"error": type(error).__name__, "message": str(error)[:10_000]}, b""
                said |= {"line": getattr(error, "line", 0)}
            except MemoryError:
                said, found = {"error": "SQLError", "message": "the query needs more memory than it may use"}, b""
            except RecursionError:
                said, found = {"error": "SQLError", "message": "the query is nested too deeply"}, b""
            except Exception as error:
                said, found = {"error": "SQLError", "message": f"{type(error).__name__}: {error}"[:10_000]}, b""
        faulthandler.cancel_dump_traceback_later()
        said["warnings"] = [(warning.category.__name__, str(warning.message)[:10_000]) for warning in heard[:10]]
        return said, found

    @property
    def db(self) -> ProbDB:
        assert self._db is not None, "open comes first"
        return self._db

    def _open(self, _: bytes, path: str | None, limits: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        self._most = int(limits["answer_bytes"])
        self._db = ProbDB(locked_database(path, int(limits["memory"]), int(limits["threads"])), ours=True)
        limit_process(int(limits["memory"]))
        return {}, b""

    def _register(self, data: bytes, name: str, prob: str | None, block: Any) -> tuple[dict[str, Any], bytes]:
        self.db.register(name, from_bytes(data), prob=prob, block=block)
        return {}, b""

    def _uncertain(
        self, _: bytes, table: str, prob: str, block: Any, query: str | None
    ) -> tuple[dict[str, Any], bytes]:
        self.db.uncertain(table, prob=prob, block=block, query=query)
        return {}, b""

    def _forget(self, _: bytes, table: str) -> tuple[dict[str, Any], bytes]:
        self.db.forget(table)
        return {}, b""

    def _refresh(self, _: bytes) -> tuple[dict[str, Any], bytes]:
        self.db.refresh()
        return {}, b""

    def _rewrite(self, _: bytes, query: str) -> tuple[dict[str, Any], bytes]:
        return {"text": self.db.rewrite(query)}, b""

    def _sql(
        self, _: bytes, query: str, options: dict[str, Any], evidence: list[dict[str, Any]]
    ) -> tuple[dict[str, Any], bytes]:
        import pyarrow as pa

        given = [Evidence(entry["sql"], entry["holds"], tuple(entry["key"])) for entry in evidence]
        answers = self.db.sql(query, given=given or None, **options)
        table = answers.arrow()
        table = table.append_column(pa.field("_met", pa.bool_()), pa.array(answers.counts.met))
        if table.nbytes > self._most:
            raise LimitError(f"the answers take {table.nbytes} bytes, more than the limit of {self._most}")
        data = to_bytes(table)
        if len(data) > self._most:
            raise LimitError(f"the answers take {len(data)} bytes, more than the limit of {self._most}")
        self._asked += 1
        self._answers[self._asked] = answers
        if len(self._answers) > KEPT:
            self._answers.popitem(last=False)
        return {
            "labels": answers.labels,
            "number": self._asked,
            "route": asdict(answers.route),
            "given": answers.given,
        }, data

    def _kept(self, number: int) -> Answers:
        if number not in self._answers:
            raise SQLError(f"only the last {KEPT} answers can be explained: ask the query again")
        return self._answers[number]

    def _lineage(self, _: bytes, answers: int, index: int) -> tuple[dict[str, Any], bytes]:
        import pyarrow as pa

        dnf = self._kept(answers).lineage(index)
        if isinstance(dnf, Circuit):
            raise SQLError("a sandbox hands over lineage as a DNF only: this one negates, and is a circuit")
        arrays = {"indptr": dnf.indptr, "literals": dnf.literals.astype(np.int64), "prob": dnf.prob}
        data = to_bytes(pa.table({name: pa.array([values]) for name, values in arrays.items()}))
        if len(data) > self._most:
            raise LimitError(f"the lineage takes {len(data)} bytes, more than the limit of {self._most}")
        return {"names": dnf.names}, data

    def _explain(
        self, _: bytes, answers: int, index: int, top: int, asked: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        reasons = self._kept(answers).explain(index, top, **asked)
        return {"reasons": [asdict(reason) for reason in reasons]}, b""


def locked_database(path: str | None, memory: int, threads: int) -> Any:
    """A DuckDB that reads nothing but ``path`` and cannot be told otherwise by any later statement."""
    import duckdb

    from sharpdnf.sql.backends.duckdb import DuckDB

    settings: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "python_enable_replacements": "false",
        "memory_limit": f"{memory // 2**20}MiB",
        "threads": str(threads),
        "temp_directory": "",
    }
    try:
        connection = duckdb.connect(path or ":memory:", read_only=path is not None, config=settings)
    except duckdb.Error as error:
        raise SQLError(f"cannot open {path!r}: {error}") from None
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET lock_configuration = true")
    return DuckDB(connection)


def limit_process(memory: int) -> None:
    """No file can be written, no memory dump left, and the address space grows by ``memory`` at most."""
    import resource

    for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 64)):
        resource.setrlimit(kind, (most, most))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory + SLACK, now + memory + SLACK))
