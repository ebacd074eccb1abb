"""The command ``sharpdnf faulttree``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sharpdnf import cli
from sharpdnf.cli.program import guard_all

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "pumping.xml"
PUMP = 1.0 - math.exp(-0.1)
TRAIN = 1.0 - (1.0 - PUMP) * 0.98
NO_WATER = 1.0 - (1.0 - TRAIN**2) * 0.999


def command(*words: str) -> Any:
    cli.load_commands()
    guard_all(cli.app)
    return CliRunner().invoke(cli.app, ["faulttree", *words])


def test_the_command_prints_everything() -> None:
    options = ["--importance", "--cut-sets", "3", "--uncertainty", "1000", "-s", "1", "--mission-time", "1000"]
    said = command(str(EXAMPLE), *options)
    assert said.exit_code == 0, said.output
    for word in ("no-water", "0.0138148482", "rare event", "MCUB", "3 of 5 minimal cut sets", "pump-1 pump-2", "raw"):
        assert word in said.output
    found = json.loads(command(str(EXAMPLE), *options, "--json").output)
    assert found["prob"] == pytest.approx(NO_WATER)
    assert found["cut_sets"]["total"] == 5
    assert len(found["listed"]["cut_sets"]) == 3
    assert {row["event"] for row in found["importance"]} == {"pump-1", "pump-2", "valve-1", "valve-2", "power"}
    assert 0.0 < found["uncertainty"]["5%"] < found["uncertainty"]["95%"]


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    assert command(str(EXAMPLE)).exit_code == 2  # no mission time
    assert command(str(tmp_path / "none.xml")).exit_code == 2
    bad = tmp_path / "bad.xml"
    bad.write_text("<opsa-mef>\n<define-gate")
    said = command(str(bad))
    assert said.exit_code == 2
    assert "bad.xml:2" in said.output


def test_the_command_at_its_time_limit(tmp_path: Path) -> None:
    file = tmp_path / "hard.txt"
    rng = np.random.default_rng(1)
    names = [f"e{i}" for i in range(200)]
    ors = [f"o{i} := {' | '.join(rng.choice(names, 3, replace=False))}" for i in range(400)]
    top = "top := " + " & ".join(f"o{i}" for i in range(400))
    file.write_text("\n".join([top, *ors, *(f"p({name}) = 0.3" for name in names)]))
    said = command(str(file), "--timeout", "0.5", "--importance")
    assert said.exit_code == 3, said.output
    assert "not met" in said.output
