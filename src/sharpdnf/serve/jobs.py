"""Work under way and how a client hears of it: as one answer, or as server-sent events while it goes on."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sharpdnf.serve.failure import INTERNAL, Failure
from sharpdnf.serve.workprocess import Frame

STOPPED = 499
"""The status of work that was stopped, by its client or by the end of its session."""
HEARTBEAT = 10.0
"""Seconds of silence after which a stream says that it is still there, so that proxies keep it open."""
SLOWEST = 30.0
"""Seconds that a client may take to read what was sent, before the stream and its work end."""
log = logging.getLogger("sharpdnf.serve")


class Job:
    """Work that goes on by itself, however fast its client reads: of what is not read yet, only the newest is kept."""

    def __init__(self, frames: AsyncGenerator[Frame, None]) -> None:
        self._unread: deque[Frame] = deque()
        self._news = asyncio.Event()
        self._failure: Failure | None = None
        self.task = asyncio.create_task(self._follow(frames))

    async def _follow(self, frames: AsyncGenerator[Frame, None]) -> None:
        try:
            async for frame in frames:
                if frame.event and self._unread and self._unread[-1].event == frame.event:
                    self._unread.pop()
                self._unread.append(frame)
                self._news.set()
        except Failure as failure:
            self._failure = failure
        except asyncio.CancelledError:
            self._failure = Failure(STOPPED, "the work was stopped")
        except Exception:
            log.exception("work failed")
            self._failure = Failure(INTERNAL, "the service failed at this; its log tells why")
        finally:
            await frames.aclose()
            self._news.set()

    def stop(self) -> None:
        """Ends the work, and with it the process that does it."""
        self.task.cancel()

    async def events(self, patience: float | None = None) -> AsyncIterator[Frame | None]:
        """What happens, the result last; None after each ``patience`` seconds of silence. A Failure if it fails."""
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self.task.done():
                break
            self._news.clear()
            if self._unread or self.task.done():
                continue
            try:
                async with asyncio.timeout(patience):
                    await self._news.wait()
            except TimeoutError:
                yield None
            if self._failure is not None:
                break
        if self._failure is not None:
            raise self._failure

    async def result(self, request: Request) -> Frame:
        """The result; if the client goes away before, the work is stopped."""
        leaving = asyncio.create_task(self._stop_when_left(request))
        try:
            last: Frame | None = None
            async for frame in self.events():
                last = frame
            if last is None or last.event:
                raise Failure(INTERNAL, "the work ended without a result")
            return last
        finally:
            leaving.cancel()

    async def _stop_when_left(self, request: Request) -> None:
        """Stops the work when the client has gone; the body of its request must have been read."""
        while not await request.is_disconnected():
            await asyncio.sleep(0.2)
        self.stop()


class EventStream(Response):
    """Server-sent events of a job, and its end if the client goes away."""

    media_type = "text/event-stream"

    def __init__(self, job: Job, last: str, started: dict[str, str]) -> None:
        """``last`` is the name of the event that the result is, ``started`` what the first event says."""
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._job, self._last, self._started = job, last, started

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def leaving() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            self._job.stop()

        async def say(text: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(SLOWEST):
                await send({"type": "http.response.body", "body": text, "more_body": more})

        watch = asyncio.create_task(leaving())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await say(event("started", json.dumps(self._started).encode()))
            try:
                async for frame in self._job.events(HEARTBEAT):
                    if frame is None:
                        await say(b": still at work\n\n")
                    else:
                        await say(event(frame.event or self._last, frame.body))
            except Failure as failure:
                scope["sharpdnf.status"] = failure.status
                await say(event("error", json.dumps(failure.as_json()).encode()))
            await say(b"", more=False)
        except (OSError, TimeoutError):
            scope["sharpdnf.status"] = STOPPED
        finally:
            self._job.stop()
            watch.cancel()


def event(name: str, data: bytes) -> bytes:
    """One server-sent event; JSON has no line breaks in it."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
