"""The notebooks of examples/notebooks run from top to bottom, in a kernel of their own, with nbmake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "examples" / "notebooks").glob("*.py"))
PEOPLE = {"analyst", "network", "safety", "logic", "researcher", "learner"}


def test_each_person_has_a_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} == PEOPLE


@pytest.mark.speed
def test_notebooks_run(tmp_path: Path) -> None:
    jupytext = pytest.importorskip("jupytext")
    for extra in ("nbmake", "ipykernel", "duckdb", "torch", "problog", "networkx"):
        pytest.importorskip(extra)
    for path in NOTEBOOKS:
        jupytext.write(jupytext.read(path), tmp_path / f"{path.stem}.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbmake", "--nbmake-timeout=300"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert f"{len(PEOPLE)} passed" in done.stdout


@pytest.mark.speed
def test_a_notebook_that_fails_is_found(tmp_path: Path) -> None:
    jupytext = pytest.importorskip("jupytext")
    pytest.importorskip("nbmake")
    jupytext.write(jupytext.reads("# %%\nassert 1 + 1 == 3\n", fmt="py:percent"), tmp_path / "wrong.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbmake", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, cwd=tmp_path, check=False).returncode == 1
