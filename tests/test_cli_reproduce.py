"""The commands reproduce, report and calibrate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sharpdnf.paper.records import Row, write_records


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nowhere"], "run sharpdnf reproduce first"),
        (["reproduce", "--model", "nosuch", "--out", "out"], "no network 'nosuch'"),
        (["calibrate", "nosuch"], "no network 'nosuch'"),
    ],
)
def test_commands_say_what_is_missing(tmp_path: Path, arguments: list[str], words: str) -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "sharpdnf.cli", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_report_command(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    row = Row(
        "paper", "ab", "structure", 0, 0, 50, 38, 3, "plain", 0.005, -1.0, -1.01, -1.1, -0.9, 0.05, 0.1, -1.0, -0.9
    )
    write_records(tmp_path / "rows.csv", [row], Row)
    command = [sys.executable, "-m", "sharpdnf.cli", "report", str(tmp_path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("report.md") and (tmp_path / "out" / "figure3.png").exists()
