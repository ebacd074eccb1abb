"""Files and folders that survive: a file is whole or not there, and a folder has one writer at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from sharpdnf.errors import SharpDNFError

LOCK = "lock"
PARTIAL = ".partial"


def write_atomically(path: Path, data: bytes) -> None:
    """Puts ``data`` under the name ``path`` in one step: whoever reads it sees the old file or the whole new one.

    When this returns, the bytes and the name are on the disk. If it fails, the old file is as it was and nothing else
    is left behind; the error names the file.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        partial.unlink(missing_ok=True)


def make_folder(directory: Path) -> None:
    """Makes a folder and those above it that are missing, so that their names are on the disk as well."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync_folder(folder.parent)


@contextlib.contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Within this block no other process that asks the same may write into ``directory``.

    The system itself forgets the lock when its process ends, however it ends, so a killed process blocks nobody. What
    such a process left half written is removed.
    """
    import fcntl  # not on every system: only who writes into a shared folder needs it

    with (directory / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read(20).strip()
            raise SharpDNFError(
                f"another process{f' ({owner})' if owner.isdigit() else ''} is writing in {directory}: "
                "wait for it or use another directory"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        for partial in directory.glob(f"*{PARTIAL}"):
            partial.unlink(missing_ok=True)
        yield


def _sync_folder(directory: Path) -> None:
    if os.name == "nt":  # has no such call
        return
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
