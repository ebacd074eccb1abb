"""The worker process of a sandbox, and how the two sides talk: messages of JSON and Arrow over pipes.

A message is a header with two lengths, then JSON, then an Arrow table. Nothing is unpickled, and the side that is
trusted believes no size that the other one names: strangers' text may have taken the worker over.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpdnf.errors import SQLError

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = struct.Struct("<II")
"""The lengths of the JSON and of the Arrow part of a message."""
MOST_JSON = 16 * 2**20
START = (
    "import sys; at = next((i for i, p in enumerate(sys.path) if p.endswith('-packages')), len(sys.path)); "
    "sys.path.insert(at, sys.argv[1]); import importlib; importlib.import_module(sys.argv[2]).serve()"
)


def isolated(module: str) -> tuple[list[str], dict[str, Any]]:
    """The command, and the options of Popen, that start ``serve()`` of a module of this package in a fresh interpreter
    that sees neither the environment nor the current folder and talks over its standard input and output."""
    home = Path(__file__).resolve().parents[2]
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    options: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "cwd": "/",
        "close_fds": True,
        "start_new_session": True,
        "env": {**kept, **single, "MALLOC_ARENA_MAX": "2", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
    }
    return [sys.executable, "-I", "-c", START, str(home), module], options


class WorkerProcess:
    """The process and its pipes."""

    def __init__(self) -> None:
        command, options = isolated("sharpdnf.sql.sandbox_worker")
        self.process = subprocess.Popen(command, **options)
        assert self.process.stdin is not None and self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        for pipe in (self._in, self._out):
            os.set_blocking(pipe, False)

    def talk(
        self, message: dict[str, Any], data: bytes, seconds: float, *, most: int = 2**20
    ) -> tuple[dict[str, Any], bytes]:
        """Sends a message and waits for the answer: TimeoutError, EOFError, or ValueError if it is none."""
        deadline = time.monotonic() + seconds
        text = json.dumps({**message, "seconds": seconds}).encode()
        for part in (HEADER.pack(len(text), len(data)), text, data):
            self._write(part, deadline)
        head, body = HEADER.unpack(self._read(HEADER.size, deadline))
        if head > MOST_JSON or body > most:
            raise ValueError(f"an answer of {head + body} bytes is more than the limit")
        said = json.loads(self._read(head, deadline))
        if not isinstance(said, dict):
            raise ValueError("the worker's answer is not a message")
        return said, self._read(body, deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self._wait(deadline, write=True)
            with suppress(BlockingIOError):
                left = left[os.write(self._in, left[:65536]) :]

    def _read(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._wait(deadline, write=False)
            with suppress(BlockingIOError):
                got = os.read(self._out, min(count - len(parts), 2**20))
                if not got:
                    raise EOFError
                parts += got
        return bytes(parts)

    def _wait(self, deadline: float, *, write: bool) -> None:
        left = deadline - time.monotonic()
        reading, writing = ([], [self._in]) if write else ([self._out], [])
        if left <= 0 or not any(select.select(reading, writing, [], left)):
            raise TimeoutError

    def end(self) -> str:
        """Kills the process and returns how it had ended, if it had ended by itself."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.05)  # its last word and its end do not come at the same moment
        code = self.process.poll()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if code is None:
            return "a signal of ours"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def to_bytes(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    """The table, checked to the last offset: it may come from a process that strangers' text has taken over."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(data).read_all()
        table.validate(full=True)
    except pa.ArrowException as error:
        raise SQLError(f"the worker's answer is not a table: {error}") from None
    return table
