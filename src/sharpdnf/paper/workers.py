"""Processes that work for one command, started so that they run nothing but what the command itself would."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

SAFE_PATH = "PYTHONSAFEPATH"


@contextlib.contextmanager
def worker_pool(
    workers: int, start: Callable[..., object] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes, each of which calls ``start(*arguments)`` first; at the end what waits is dropped.

    Python starts such a process with ``-c``, which puts the current folder first on its path: a ``multiprocessing.py``
    that lies there would run. With PYTHONSAFEPATH a worker imports from where its parent does and from nowhere else.
    The variable stands while the pool does, for workers start when there is work for them.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, context, _start, (start, arguments)) as pool:
            try:
                yield pool
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before


def _start(start: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker at once, not after the work it has in hand
    if start is not None:
        start(*arguments)
