"""The process that works for the service: it locks itself in, then does what messages ask, one after the other.

It is the sandbox's process (``sql/sandbox_worker.py``) with more to do. A result is JSON that the service hands on as
it is; while work is under way, ``tell`` sends events.
"""

from __future__ import annotations

import time
from typing import Any

from sharpdnf.serve import faulttreework, formulawork, networkwork
from sharpdnf.serve.asked import OverLimit
from sharpdnf.serve.plain import encoded
from sharpdnf.serve.tablework import TableWork
from sharpdnf.sql.sandbox_worker import Worker, answer_messages, limit_process

OFTEN = 0.1
"""Seconds between two reports of progress."""
Said = tuple[dict[str, Any], bytes]


def serve() -> None:
    """What the process runs."""
    answer_messages(ServiceWorker)


class ServiceWorker(Worker):
    """What the messages of the service ask for; each method is named after one."""

    def __init__(self, tell: Any) -> None:
        super().__init__(tell)
        self._work: TableWork | None = None
        self._told = 0.0

    def event(self, name: str, value: dict[str, Any]) -> None:
        """Tells the service, and by it the client, something before the end."""
        self.tell({"event": name}, encoded(value))

    def progress(self, fraction: float | None, text: str) -> None:
        """Tells how far the work is, but not more often than somebody can read."""
        now = time.monotonic()
        if now - self._told >= OFTEN:
            self._told = now
            self.event("progress", {"fraction": fraction, "text": text})

    def _finished(self, value: dict[str, Any]) -> Said:
        body = encoded(value)
        if len(body) > self._most:
            raise OverLimit(f"the answer takes {len(body):,} bytes, and the limit is {self._most:,}: ask for less")
        return {}, body

    # ---- without tables

    def _limit(self, _: bytes, memory: int, answer_bytes: int) -> Said:
        self._most = answer_bytes
        limit_process(memory)
        return {}, b""

    def _formula(self, data: bytes, what: str, asked: dict[str, Any], stream: bool) -> Said:
        return self._finished(formulawork.answer(what, data.decode(), asked, self if stream else None))

    def _network(self, _: bytes, asked: dict[str, Any], stream: bool) -> Said:
        return self._finished(networkwork.answer(asked, self if stream else None))

    def _faulttree(self, data: bytes, asked: dict[str, Any], stream: bool) -> Said:
        return self._finished(faulttreework.answer(data.decode(), asked, self if stream else None))

    # ---- with the tables of a session

    @property
    def work(self) -> TableWork:
        if self._work is None:
            self._work = TableWork(self.db, self)
        return self._work

    def _load(self, _: bytes, name: str, path: str, form: str, most: int) -> Said:
        """A table from a file: what it looks like, and its rows as Arrow for the service to keep."""
        return self.work.load(name, path, form, most)

    def _register(self, data: bytes, name: str, prob: str | None, block: Any) -> Said:
        self.work.register(name, data, prob, block)
        return {}, b""

    def _drop(self, _: bytes, name: str) -> Said:
        self.work.drop(name)
        return {}, b""

    def _mark(self, _: bytes, name: str, prob: str | None, block: Any) -> Said:
        return self._finished(self.work.mark(name, prob, block))

    def _rows(self, _: bytes, name: str, offset: int, limit: int) -> Said:
        return self._finished(self.work.rows(name, offset, limit))

    def _query(self, _: bytes, run: str, query: str, asked: dict[str, Any], stream: bool) -> Said:
        return self._finished(self.work.query(run, query, asked, stream))

    def _detail(self, _: bytes, run: str, index: int) -> Said:
        return self._finished(self.work.detail(run, index))

    def _what_if(self, _: bytes, run: str, index: int, prob: dict[str, float]) -> Said:
        return self._finished(self.work.what_if(run, index, prob))

    def _export(self, _: bytes, run: str, form: str) -> Said:
        data = self.work.export(run, form)
        if len(data) > self._most:
            raise OverLimit(
                f"the answers take {len(data):,} bytes, and the limit is {self._most:,}: ask for fewer rows"
            )
        return {}, data
