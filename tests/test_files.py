"""Files that are whole or not there, and folders with one writer."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sharpdnf.errors import SharpDNFError
from sharpdnf.files import make_folder, sole_writer, write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    for data in (b"first", b"", b"third" * 1000):
        write_atomically(tmp_path / "file", data)
        assert (tmp_path / "file").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failure_leaves_the_old_file_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    write_atomically(tmp_path / "file", b"old")

    def fail(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail) if call == "fsync" else monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match=f"{os.strerror(code)}.*file") as raised:
        write_atomically(tmp_path / "file", b"new")
    assert raised.value.errno == code
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_bytes() == b"old"


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        done.append("renamed")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write_atomically(tmp_path / "file", b"data")
    assert done[0].startswith("file.") and done[1:] == ["renamed", tmp_path.name]
    done.clear()
    make_folder(tmp_path / "a" / "b")
    assert set(done) == {"a", tmp_path.name}
    done.clear()
    make_folder(tmp_path / "a" / "b")
    assert done == []


HOLD = """
import sys, time
from pathlib import Path
from sharpdnf.files import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_writers_exclude_each_other_and_a_killed_one_blocks_nobody(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        message = rf"another process \({holder.pid}\) is writing in"
        with pytest.raises(SharpDNFError, match=message), sole_writer(tmp_path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    (tmp_path / f"file.{holder.pid}.partial").write_bytes(b"half")
    with sole_writer(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]  # what the other left half written is gone
    with sole_writer(tmp_path):
        pass
