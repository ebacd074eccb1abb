"""Bulk work: independent pieces, each done in whatever process or machine the user's joblib backend has for it.

Inside ``with joblib.parallel_config(backend="dask")`` (or "ray", or another backend that joblib knows) the pieces go
there; without one they go to fresh processes of this machine (loky). A piece is a function of its item alone, so where
it ran, how many workers there were and in which order they finished changes no result.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sharpdnf.errors import SharpDNFError, needs_extra

Item = TypeVar("Item")
Result = TypeVar("Result")
DEATHS = 3
"""How often in a row workers may die before a single piece of work is done; after that the pieces are to blame."""
DIED = frozenset(["BrokenExecutor", "RayActorError", "WorkerCrashedError", "NodeDiedError"])
"""What the backends raise when a worker has died, by the names of the errors, as not all of them are installed."""
GIVEN_UP = "KilledWorker"
"""What dask raises when a piece has killed as many workers as dask gives it."""
PATIENCE = 60.0
"""Seconds that a cluster is given to replace workers that died: joblib works in this process where only one is left."""
ROUND_PER_WORKER = 8
SAFE_PATH = "PYTHONSAFEPATH"


def backend_chosen() -> bool:
    """Whether this call stands inside ``with joblib.parallel_config(...)``.

    A program that has not imported joblib has chosen no backend, so it is not imported. Without a choice joblib makes a
    new default backend whenever it is asked for the active one; a chosen one is the same object each time.
    """
    if "joblib" not in sys.modules:
        return False
    from joblib.parallel import get_active_backend

    backend, workers = get_active_backend()
    return workers is not None or backend is get_active_backend()[0]


def num_workers(workers: int | None = None) -> int:
    """How many workers there are for bulk work: those asked for, else the backend's, else one for each processor."""
    if workers is not None:
        return workers
    if not backend_chosen():
        return os.cpu_count() or 1
    import joblib
    from joblib.parallel import get_active_backend

    asked = get_active_backend()[1]
    return int(joblib.effective_n_jobs(-1 if asked is None else asked))


def in_any_order(
    work: Callable[[Item], Result], items: Sequence[Item], *, workers: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yields (place, work(items[place])) as the pieces are done.

    One worker works in this process, unless a backend is chosen. When a worker dies (killed, out of memory), what it
    had in hand is given out again; an error that ``work`` raises is raised here.
    """
    count = min(num_workers(workers), len(items))
    if count <= 1 and not backend_chosen():
        for place, item in enumerate(items):
            yield place, work(item)
        return
    with needs_extra("work in several processes", "scale"):
        from joblib import delayed
    left, deaths = set(range(len(items))), 0
    with _nothing_from_the_current_folder():
        while left:
            tasks = [delayed(_piece)(work, place, items[place]) for place in sorted(left)]
            try:
                for place, result in _run(tasks, count):
                    left.remove(place)
                    deaths = 0
                    yield place, result
            except Exception as error:
                kinds = {kind.__name__ for kind in type(error).__mro__}
                if not kinds & {*DIED, GIVEN_UP}:
                    raise
                deaths += 1
                if deaths >= DEATHS or GIVEN_UP in kinds:
                    raise SharpDNFError(
                        f"workers died {DEATHS} times in a row before one of {len(left)} pieces of work was done: "
                        "is there enough memory for so many workers?"
                    ) from error
                _wait_for_workers(count)


def _wait_for_workers(count: int) -> None:
    """Waits until the backend has so many workers again, or for as long as it is given."""
    import joblib

    until = time.monotonic() + PATIENCE
    while joblib.effective_n_jobs(-1) < min(count, 2) and time.monotonic() < until:
        time.sleep(0.2)


def _run(tasks: Sequence[Any], workers: int) -> Iterator[Any]:
    """The results of joblib's tasks as they come; in rounds, from a backend that only gives all of them together."""
    from joblib import Parallel
    from joblib.parallel import get_active_backend

    if get_active_backend()[0].supports_return_generator:
        yield from Parallel(n_jobs=workers, return_as="generator_unordered", pre_dispatch="all")(tasks)
        return
    length = ROUND_PER_WORKER * workers
    for start in range(0, len(tasks), length):
        yield from Parallel(n_jobs=workers)(tasks[start : start + length])


def _piece(work: Callable[[Item], Result], place: int, item: Item) -> tuple[int, Result]:
    return place, work(item)


@contextlib.contextmanager
def _nothing_from_the_current_folder() -> Iterator[None]:
    """Keeps workers that start meanwhile from importing out of the current folder.

    Python starts such a process with ``-m``, which puts the current folder first on its path: a ``joblib.py`` that lies
    there would run. The environment variable that prevents it is set while there is work, because workers start then.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before
