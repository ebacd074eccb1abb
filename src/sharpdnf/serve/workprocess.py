"""A worker process as the service sees it: messages to it, events from it, and its end."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NamedTuple

from sharpdnf.serve.failure import INTERNAL, LATE, UNPROCESSABLE, Failure, failure_of
from sharpdnf.sql.sandbox_process import HEADER, MOST_JSON, isolated

GRACE = 1.0
"""Seconds beyond the limit that a worker has to say by itself that time is up."""


class Frame(NamedTuple):
    """A message of a worker: an event on the way, or the result, whose ``event`` is empty."""

    event: str
    said: dict[str, Any]
    body: bytes


class WorkProcess:
    """A process of ``worker.py`` and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.jobs = 0
        """How many pieces of work it has done."""

    @classmethod
    async def start(cls) -> WorkProcess:
        command, options = isolated("sharpdnf.serve.worker")
        return cls(await asyncio.create_subprocess_exec(*command, **options))

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def ask(self, message: dict[str, Any], data: bytes, seconds: float, most: int) -> AsyncGenerator[Frame, None]:
        """Sends a message; events as they come, and the result last. A Failure if there is none.

        Whoever does not read to the end must end the process: the rest of an answer would pass for the next one.
        """
        reader, writer = self.process.stdout, self.process.stdin
        assert reader is not None and writer is not None
        self.jobs += 1
        try:
            async with asyncio.timeout(seconds + GRACE):
                text = json.dumps({**message, "seconds": seconds + GRACE}).encode()
                writer.write(HEADER.pack(len(text), len(data)) + text)
                writer.write(data)
                await writer.drain()
                while True:
                    frame = await _frame(reader, most)
                    if "error" in frame.said:
                        raise failure_of(frame.said)
                    yield frame
                    if not frame.event:
                        return
        except TimeoutError:
            self.end()
            raise Failure(
                LATE, f"the work did not end within {seconds:g} seconds, which is the limit, and was ended"
            ) from None
        except (EOFError, OSError, ValueError) as error:
            raise await self._gone(error) from None

    async def result(self, message: dict[str, Any], data: bytes, seconds: float, most: int) -> Frame:
        """The result alone."""
        async for frame in self.ask(message, data, seconds, most):
            last = frame
        return last

    async def _gone(self, error: Exception) -> Failure:
        """Why a worker does not answer any more."""
        if isinstance(error, ValueError):
            self.end()
            return Failure(UNPROCESSABLE, str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 0.5)
        code = self.process.returncode
        self.end()
        how = "a signal of ours" if code is None else signal.Signals(-code).name if code < 0 else f"code {code}"
        return Failure(
            INTERNAL,
            f"the process that worked on this ended ({how}), most likely because it needed more memory than it may "
            "use; nothing else is lost: ask for less, or again",
        )

    def end(self) -> None:
        """Kills the process, whatever it does."""
        if self.alive:
            with suppress(ProcessLookupError):
                self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()


async def _frame(reader: asyncio.StreamReader, most: int) -> Frame:
    head, body = HEADER.unpack(await reader.readexactly(HEADER.size))
    if head > MOST_JSON or body > most:
        raise ValueError(f"an answer of {head + body:,} bytes is more than the limit of {most:,}: ask for less")
    said = json.loads(await reader.readexactly(head))
    if not isinstance(said, dict):
        raise ValueError("the worker's answer is not a message")
    return Frame(str(said.get("event", "")), said, await reader.readexactly(body))
