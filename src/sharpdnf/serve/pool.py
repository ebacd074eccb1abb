"""Whose turn it is: how many pieces of work run at once, how many wait, and which process does them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sharpdnf.serve.failure import INTERNAL, TOO_LARGE, TOO_MANY, UNAVAILABLE, UNPROCESSABLE, Failure
from sharpdnf.serve.metrics import Metrics
from sharpdnf.serve.settings import ServiceLimits
from sharpdnf.serve.workprocess import STARTING, Frame, Nursery, WorkProcess

STOPPING = "the service is stopping: ask again when it is back"
REUSED = 1_000
"""After how many pieces of work a process is replaced, so that what libraries keep does not add up."""


class Pool:
    """The processes that are not a session's, and the queue for all work."""

    def __init__(self, limits: ServiceLimits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.waiting = 0
        self.running = 0
        self.stopping = False
        self._turn = asyncio.Semaphore(limits.workers)
        self._quick = asyncio.Semaphore(limits.workers)
        """The turns of work that takes milliseconds, so that it does not wait behind what takes seconds."""
        self._idle: list[WorkProcess] = []
        self._all: set[WorkProcess] = set()
        self._nursery = Nursery()

    # ---- turns

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Counts whoever waits inside; one too many is told to come back later."""
        if self.stopping:
            raise Failure(UNAVAILABLE, STOPPING)
        if self.waiting >= self.limits.queue:
            self.metrics.refused += 1
            raise Failure(TOO_MANY, f"{self.waiting} requests wait already: try again in a few seconds")
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    @asynccontextmanager
    async def turn(self, lock: asyncio.Lock | None = None, *, quick: bool = False) -> AsyncIterator[None]:
        """Waits until work may begin; ``lock`` is that of a session, whose work is done one after the other."""
        turn = self._quick if quick else self._turn
        late = Failure(UNAVAILABLE, "the service is too busy, this request has waited too long: try again later")
        locked = False
        try:
            async with self.admitted():
                try:
                    async with asyncio.timeout(self.limits.waiting_seconds):
                        if lock is not None:
                            locked = await lock.acquire()
                        await turn.acquire()
                except TimeoutError:
                    raise late from None
            self.running += 1
            try:
                if self.stopping:
                    raise Failure(UNAVAILABLE, STOPPING)
                yield
            finally:
                self.running -= 1
                turn.release()
        finally:
            if lock is not None and locked:
                lock.release()

    # ---- work without a session

    async def work(self, message: dict[str, Any], data: bytes, seconds: float) -> AsyncGenerator[Frame, None]:
        """Does one piece of work, in a process that is ended if anything goes wrong."""
        async with self.turn():
            process = await self._plain()
            clean = False
            try:
                async for frame in process.ask(message, data, seconds, self.limits.answer_bytes):
                    clean = not frame.event
                    yield frame
            except Failure as failure:
                clean = failure.status in (TOO_LARGE, UNPROCESSABLE) and process.alive
                raise self.explained(failure) from None
            finally:
                if clean and process.jobs < REUSED and len(self._idle) < self.limits.workers and not self.stopping:
                    self._idle.append(process)
                else:
                    self.end(process)

    async def _plain(self) -> WorkProcess:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            self.end(process)
        process = await self.fresh()
        message = {"do": "limit", "memory": self.limits.memory, "answer_bytes": self.limits.answer_bytes}
        await process.result(message, b"", STARTING, 0)
        return process

    # ---- processes

    async def warm(self) -> None:
        """Has one process ready, so that the first request does not wait for the libraries."""
        self._idle.append(await self._plain())

    async def fresh(self) -> WorkProcess:
        """A process that has done nothing yet."""
        process = await self._nursery.fork()
        self._all.add(process)
        self.metrics.processes_started += 1
        return process

    def end(self, process: WorkProcess) -> None:
        """Kills a process."""
        process.end()
        self._all.discard(process)

    @property
    def processes(self) -> int:
        return len(self._all)

    def explained(self, failure: Failure) -> Failure:
        """The failure of some work; when the service stops, its processes end for that reason and no other."""
        return Failure(UNAVAILABLE, STOPPING) if self.stopping and failure.status == INTERNAL else failure

    def stop_soon(self) -> None:
        """Takes no more work, and ends what runs after a few seconds."""
        if not self.stopping:
            self.stopping = True
            asyncio.get_running_loop().call_later(self.limits.stop_seconds, self._end_all)

    def _end_all(self) -> None:
        for process in self._all:
            process.end()

    async def close(self) -> None:
        """Ends all processes; work that still runs hears of it as an error."""
        self.stopping = True
        await asyncio.gather(*(process.end() for process in self._all), return_exceptions=True)
        self._all.clear()
        await self._nursery.close()
