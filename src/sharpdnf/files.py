"""Files and folders that survive: a file is whole or not there, and a folder has one writer at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from sharpdnf.errors import SharpDNFError

FilePath = str | os.PathLike[str]
LOCK = "lock"
PARTIAL = ".partial"


@contextlib.contextmanager
def replacing(path: FilePath) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of ``path``, in one step and with its rights, when the block ends.

    Whoever reads ``path`` sees the old file or the whole new one. When the block has ended, the bytes and the name are
    on the disk. If it fails, the old file is as it was and nothing else is left behind; the error names the file.
    What is not a plain file (a pipe, a device) cannot be replaced and is written as it is, and so is a file that may be
    written in a folder that may not.
    """
    target = Path(os.path.realpath(path))
    partial = target.with_name(f"{target.name[:100]}.{os.getpid()}.{os.urandom(4).hex()}{PARTIAL}")
    try:
        file = None if target.exists() and not target.is_file() else _create(partial, target)
        if file is None:
            with target.open("wb") as direct:
                yield direct
            return
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(partial), str(target)):
            raise  # not about this file
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Puts ``data`` under the name ``path`` in one step, as ``replacing`` does."""
    with replacing(path) as file:
        file.write(data)


def _create(partial: Path, target: Path) -> IO[bytes] | None:
    """The file beside ``target``; None if the folder takes no new file but ``target`` itself may be written."""
    try:
        return partial.open("xb")
    except OSError:
        if not os.access(target, os.W_OK):
            raise
        return None


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
