"""What the tests of the command line share: example files, and the program as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).parent / "data"
TWO = str(DATA / "two_clauses.dnf")
Run = Callable[..., tuple[int, str, str]]
"""The fixture ``run``: words of a command -> (exit code, standard output, standard error)."""


def program(*words: str, **rest: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sharpdnf.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **rest)  # type: ignore[call-overload, no-any-return]
