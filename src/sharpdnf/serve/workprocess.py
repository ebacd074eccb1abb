"""A worker process as the service sees it: messages to it, events from it, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NamedTuple

from sharpdnf.serve.failure import INTERNAL, LATE, UNPROCESSABLE, Failure, failure_of
from sharpdnf.sql.sandbox_process import HEADER, MOST_JSON, isolated

STARTING = 120.0
"""Seconds for starting a process and loading tables."""
GRACE = 1.0
"""Seconds beyond the limit that a worker has to say by itself that time is up."""


class Frame(NamedTuple):
    """A message of a worker: an event on the way, or the result, whose ``event`` is empty."""

    event: str
    said: dict[str, Any]
    body: bytes


class Nursery:
    """The process that workers are forked from (``nursery.py``); another one is started if it ends."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None

    async def fork(self) -> WorkProcess:
        """A new worker process."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        forked = asyncio.create_task(self._talk("fork", "forked", theirs))
        try:
            number = await asyncio.shield(forked)
        except OSError as error:
            ours.close()
            raise Failure(INTERNAL, f"no worker process could be started: {error}") from None
        except asyncio.CancelledError:
            ours.close()  # the process ends when it finds its socket closed
            forked.add_done_callback(lambda task: task.exception() or asyncio.create_task(self.reap(task.result())))
            raise
        return WorkProcess(self, number, *await asyncio.open_connection(sock=ours))

    async def reap(self, number: int) -> int | None:
        """How a process that is dead or was killed has ended; None if nobody knows."""
        try:
            return await asyncio.shield(asyncio.create_task(self._talk(f"reap {number}", "reaped")))
        except OSError:
            return None

    async def _talk(self, message: str, answer: str, file: socket.socket | None = None) -> int:
        """Sends a message and returns the number that is answered.

        It must not be cancelled when who waits for it is: the next message would get the answer to this one.
        """
        try:
            async with self._lock:
                if file is None and self._control is None:
                    raise OSError("the process that started it has ended")
                control = await self._ready()
                socket.send_fds(control, [message.encode()], [] if file is None else [file.fileno()])
                word, _, number = (await self._line(control)).decode().partition(" ")
        finally:
            if file is not None:
                file.close()
        if word != answer:
            raise OSError(f"the process that starts them talks nonsense: {word!r}")
        return int(number)

    async def _ready(self) -> socket.socket:
        if self._process is None or self._process.returncode is not None or self._control is None:
            await self.close()
            self._control, theirs = socket.socketpair()
            self._control.setblocking(False)
            command, options = isolated("sharpdnf.serve.nursery")
            with theirs:
                told = {**options, "stdin": theirs, "stdout": subprocess.DEVNULL}
                self._process = await asyncio.create_subprocess_exec(*command, **told)
            if await self._line(self._control) != b"ready":
                raise OSError("the process that starts them does not start")
        return self._control

    async def _line(self, control: socket.socket) -> bytes:
        """One line of the process; each is sent at once, and the next only when it is asked for."""
        async with asyncio.timeout(STARTING):
            line = await asyncio.get_running_loop().sock_recv(control, 64)
        if not line:
            await self.close()
            raise OSError("the process that starts them has ended")
        return line.strip()

    async def close(self) -> None:
        """Ends the process; workers end when their sockets close."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._process = None


class WorkProcess:
    """A process of ``worker.py`` and the socket to it."""

    def __init__(
        self, nursery: Nursery, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert number > 1, "0 would mean all processes of our group"
        self.number = number
        self.jobs = 0
        """How many pieces of work it has done."""
        self._nursery, self._reader, self._writer = nursery, reader, writer
        self._ending: asyncio.Task[int | None] | None = None

    @property
    def alive(self) -> bool:
        return self._ending is None and not self._reader.at_eof()

    async def ask(self, message: dict[str, Any], data: bytes, seconds: float, most: int) -> AsyncGenerator[Frame, None]:
        """Sends a message; events as they come, and the result last. A Failure if there is none.

        Whoever does not read to the end must end the process: the rest of an answer would pass for the next one.
        """
        reader, writer = self._reader, self._writer
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
        code = await self.end()
        how = "nobody knows how" if code is None else signal.Signals(-code).name if code < 0 else f"code {code}"
        return Failure(
            INTERNAL,
            f"the process that worked on this ended ({how}), most likely because it needed more memory than it may "
            "use; nothing else is lost: ask for less, or again",
        )

    def end(self) -> asyncio.Task[int | None]:
        """Kills the process, whatever it does; the task tells how it had ended, if it had by itself."""
        if self._ending is None:
            self._writer.close()
            with suppress(ProcessLookupError):
                os.kill(self.number, signal.SIGKILL)
            self._ending = asyncio.create_task(self._nursery.reap(self.number))
        return self._ending


async def _frame(reader: asyncio.StreamReader, most: int) -> Frame:
    head, body = HEADER.unpack(await reader.readexactly(HEADER.size))
    if head > MOST_JSON or body > most:
        raise ValueError(f"an answer of {head + body:,} bytes is more than the limit of {most:,}: ask for less")
    said = json.loads(await reader.readexactly(head))
    if not isinstance(said, dict):
        raise ValueError("the worker's answer is not a message")
    return Frame(str(said.get("event", "")), said, await reader.readexactly(body))
