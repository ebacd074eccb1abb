"""What belongs to one visitor: tables, kept in a folder of their own, runs, and the process that has them loaded."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sharpdnf.serve.failure import CONFLICT, NOT_FOUND, TOO_LARGE, TOO_MANY, UNPROCESSABLE, Failure
from sharpdnf.serve.pool import Pool
from sharpdnf.serve.settings import Settings
from sharpdnf.serve.workprocess import STARTING, Frame, WorkProcess

KEPT_RUNS = 16
"""How many of its last runs a session remembers."""
QUICK = ("what_if", "rows")
"""Work that takes milliseconds."""
LONGEST_NAME = 60


@dataclass(slots=True)
class StoredTable:
    """A table of a session: where its rows are kept, and what the client is told about it."""

    name: str
    path: Path
    size: int
    info: dict[str, Any]
    """As the API tells it, without what follows."""
    prob: str | None = None
    block: Any = None
    problems: list[Any] = field(default_factory=list)
    problems_total: int = 0
    mounted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            **self.info,
            "prob": self.prob,
            "block": self.block,
            "problems": self.problems,
            "problems_total": self.problems_total,
            "mounted": self.mounted,
        }


@dataclass(slots=True)
class StoredRun:
    """A query that was asked, with all that is needed to ask it again in another process."""

    run: str
    session: Session
    message: dict[str, Any]
    version: int
    """The session's version when it was asked: tables that changed since make another question of it."""
    generation: int = -1
    """The number of the process that has the answers."""
    task: asyncio.Task[Any] | None = None


class Session:
    """Tables and runs of one visitor."""

    def __init__(self, folder: Path, number: str) -> None:
        self.id, self.folder = number, folder
        self.tables: dict[str, StoredTable] = {}
        """By their names in lower case, which is how SQL takes them."""
        self.lock = asyncio.Lock()
        self.process: WorkProcess | None = None
        self.generation = 0
        self.version = 0
        self.runs: OrderedDict[str, StoredRun] = OrderedDict()
        self.seen = time.monotonic()
        self.busy = 0
        self.closed = False

    def as_json(self) -> dict[str, Any]:
        return {"session": self.id, "tables": [table.as_json() for table in self.tables.values()]}

    def table(self, name: str) -> StoredTable:
        found = self.tables.get(name.lower())
        if found is None:
            raise Failure(NOT_FOUND, f"this session has no table {name!r:.80}")
        return found

    @property
    def size(self) -> int:
        return sum(table.size for table in self.tables.values() if not table.mounted)


class Sessions:
    """All sessions, and the work on their tables."""

    def __init__(self, settings: Settings, pool: Pool, folder: Path) -> None:
        self.limits, self.pool, self.folder = settings.limits, pool, folder
        self.all: dict[str, Session] = {}
        self.runs: dict[str, StoredRun] = {}
        self.mounted: list[StoredTable] = []

    # ---- coming and going

    def open(self) -> Session:
        if len(self.all) >= self.limits.sessions:
            self.sweep()
        if len(self.all) >= self.limits.sessions:
            raise Failure(TOO_MANY, f"there are {len(self.all)} sessions, which is the limit: try again later")
        number = secrets.token_urlsafe(18)
        folder = self.folder / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        session = self.all[number] = Session(folder, number)
        for table in self.mounted:
            session.tables[table.name.lower()] = StoredTable(
                table.name, table.path, table.size, table.info, mounted=True
            )
        self.pool.metrics.sessions_started += 1
        return session

    def get(self, number: str) -> Session:
        session = self.all.get(number)
        if session is None:
            raise Failure(NOT_FOUND, "there is no such session: it may have ended; start a new one")
        session.seen = time.monotonic()
        return session

    def close(self, session: Session) -> None:
        """Ends a session: its work, its process and its data."""
        session.closed = True
        self.all.pop(session.id, None)
        for run in session.runs.values():
            self.runs.pop(run.run, None)
            if run.task is not None:
                run.task.cancel()
        self._drop_process(session)
        shutil.rmtree(session.folder, ignore_errors=True)

    def sweep(self) -> None:
        """Ends the sessions that nobody has used for a long time."""
        oldest = time.monotonic() - self.limits.session_seconds
        for session in [s for s in self.all.values() if s.seen < oldest and not s.busy]:
            self.close(session)

    @property
    def size(self) -> int:
        return sum(session.size for session in self.all.values())

    # ---- work on the tables of a session

    async def work(
        self, session: Session, message: dict[str, Any], seconds: float, *, run: StoredRun | None = None
    ) -> AsyncGenerator[Frame, None]:
        """Does one piece of work in the session's process, which is ended if anything goes wrong.

        The message may be that of a ``run``, or about its answers: if the process does not have them any more, the
        query is asked again first.
        """
        session.busy += 1
        clean = False
        try:
            async with self.pool.turn(session.lock, quick=message["do"] in QUICK):
                if session.closed:
                    raise Failure(NOT_FOUND, "the session has ended")
                try:
                    process = await self._loaded(session)
                    asks = run is not None and message["do"] == "query"
                    if run is not None and asks:
                        run.version = session.version
                    elif run is not None:
                        await self._recalled(session, process, run, seconds)
                    async for frame in process.ask(message, b"", seconds, self.limits.answer_bytes):
                        clean = not frame.event
                        if clean and asks and run is not None:
                            run.generation = session.generation
                        yield frame
                except Failure as failure:
                    alive = session.process is not None and session.process.alive
                    clean = failure.status in (TOO_LARGE, UNPROCESSABLE, CONFLICT) and alive
                    raise self.pool.explained(failure) from None
                finally:
                    if not clean:
                        self._drop_process(session)
        finally:
            session.busy -= 1
            session.seen = time.monotonic()

    async def result(
        self, session: Session, message: dict[str, Any], seconds: float, *, run: StoredRun | None = None
    ) -> Frame:
        async for frame in self.work(session, message, seconds, run=run):
            last = frame
        return last

    async def _loaded(self, session: Session) -> WorkProcess:
        """The session's process, with its tables."""
        if session.process is not None and session.process.alive:
            return session.process
        self._make_room(session)
        self._drop_process(session)
        process = session.process = await self.pool.fresh()
        session.generation += 1
        limits = {name: getattr(self.limits, name) for name in ("memory", "threads", "answer_bytes")}
        await process.result({"do": "open", "path": None, "limits": limits}, b"", STARTING, 0)
        for table in session.tables.values():
            prob = None if table.problems_total else table.prob
            message = {"do": "register", "name": table.name, "prob": prob, "block": table.block}
            await process.result(message, await asyncio.to_thread(table.path.read_bytes), STARTING, 0)
        return process

    async def _recalled(self, session: Session, process: WorkProcess, run: StoredRun, seconds: float) -> None:
        if run.version != session.version:
            raise Failure(CONFLICT, "the tables have changed since this query: run it again")
        if run.generation != session.generation:
            await process.result({**run.message, "stream": False}, b"", seconds, self.limits.answer_bytes)
            run.generation = session.generation

    def _make_room(self, session: Session) -> None:
        """Ends the process of the session that has been idle longest, if there are too many."""
        others = [s for s in self.all.values() if s is not session and s.process is not None]
        idle = sorted((s for s in others if not s.busy), key=lambda s: s.seen)
        for other in idle[: max(0, len(others) + 1 - self.limits.session_workers)]:
            self._drop_process(other)

    def _drop_process(self, session: Session) -> None:
        if session.process is not None:
            self.pool.end(session.process)
            session.process = None

    # ---- tables

    async def upload(self, session: Session, name: str, form: str, path: Path) -> StoredTable:
        """Makes an uploaded file a table; the file itself is not kept."""
        check_name(name)
        old = session.tables.get(name.lower())
        own = [table for table in session.tables.values() if not table.mounted]
        if old is None and len(own) >= self.limits.tables:
            raise Failure(TOO_LARGE, f"a session has at most {self.limits.tables} tables: delete one first")
        if old is not None and old.mounted:
            raise Failure(UNPROCESSABLE, f"{name} is a table of the service that cannot be replaced: use another name")
        message = {"do": "load", "name": name, "path": str(path), "form": form, "most": self.limits.rows}
        frame = await self.result(session, message, self.limits.seconds)
        others = session.size - (old.size if old is not None else 0)
        if others + len(frame.body) > self.limits.session_bytes:
            self._drop_process(session)
            raise Failure(TOO_LARGE, f"the tables of a session take at most {self.limits.session_bytes:,} bytes")
        if self.size + len(frame.body) > self.limits.disk_bytes:
            self._drop_process(session)
            raise Failure(TOO_LARGE, "the service has no room for more tables: try again later")
        kept = session.folder / f"{secrets.token_hex(8)}.arrow"
        write_private(kept, frame.body)  # at once: nobody may load the session's tables between this and the next line
        if old is not None:
            old.path.unlink(missing_ok=True)
        table = StoredTable(name, kept, len(frame.body), dict(frame.said["info"]))
        session.tables[name.lower()] = table
        session.version += 1
        return table

    async def mark(self, session: Session, name: str, prob: str | None, block: Any) -> StoredTable:
        """Makes the rows of a table uncertain, or certain again."""
        table = session.table(name)
        message = {"do": "mark", "name": table.name, "prob": prob, "block": block}
        frame = await self.result(session, message, self.limits.seconds)
        said = json.loads(frame.body)
        table.prob, table.block = prob, block if prob is not None else None
        table.problems, table.problems_total = said["problems"], said["problems_total"]
        session.version += 1
        return table

    async def drop(self, session: Session, name: str) -> None:
        """Forgets a table."""
        table = session.table(name)
        if table.mounted:
            raise Failure(UNPROCESSABLE, f"{name} is a table of the service and cannot be deleted")
        await self.result(session, {"do": "drop", "name": table.name}, self.limits.seconds)
        session.tables.pop(name.lower(), None)
        table.path.unlink(missing_ok=True)
        session.version += 1

    # ---- runs

    def new_run(self, session: Session, query: str, asked: dict[str, Any]) -> StoredRun:
        """A run of a query that is about to be asked."""
        bad = [table for table in session.tables.values() if table.prob is not None and table.problems_total]
        if bad:
            first = bad[0]
            raise Failure(
                UNPROCESSABLE,
                f"the table {first.name} has {first.problems_total:,} rows whose probability cannot be used: "
                "choose another column, or load the file again without them",
                {"table": first.name, **{key: first.problems[0][key] for key in ("row", "column")}},
            )
        number = secrets.token_urlsafe(12)
        asked = {**asked, "seed": asked.get("seed") if asked.get("seed") is not None else secrets.randbits(48)}
        message = {"do": "query", "run": number, "query": query, "asked": asked}
        run = self.runs[number] = session.runs[number] = StoredRun(number, session, message, session.version)
        while len(session.runs) > KEPT_RUNS:
            old, _ = session.runs.popitem(last=False)
            self.runs.pop(old, None)
        return run

    def run(self, number: str) -> StoredRun:
        found = self.runs.get(number)
        if found is None:
            raise Failure(NOT_FOUND, "there is no such run: the last few of a session are kept; run the query again")
        found.session.seen = time.monotonic()
        return found


def check_name(name: str) -> None:
    """A table's name is a name of SQL, so no path can be meant by it, and none that we use ourselves."""
    if not name.isidentifier() or len(name) > LONGEST_NAME or name.lower().startswith("_sharpdnf"):
        raise Failure(
            UNPROCESSABLE,
            f"{name!r:.80} cannot be the name of a table: use letters, digits and _, at most {LONGEST_NAME}",
        )


def write_private(path: Path, data: bytes) -> None:
    """Writes a new file that only this user can read; a file or link that is there already is an error."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(handle, "wb") as file, suppress(BrokenPipeError):
        file.write(data)
