"""What fuzzing has found stays mended: every case of the corpus is checked as ``make fuzz`` checked it."""

from __future__ import annotations

import importlib
import json
from itertools import islice
from pathlib import Path

import pytest
from fuzz.__main__ import CORPUS, TARGETS, Tally, run_seed

FOUND = sorted(CORPUS.glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_is_mended(path: Path) -> None:
    found = json.loads(path.read_text())
    importlib.import_module(f"fuzz.{found['target']}").check(found["case"])


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_repeats_its_cases(name: str) -> None:
    target = importlib.import_module(f"fuzz.{name}")
    cases = list(islice(target.cases(3), 5))
    assert json.loads(json.dumps(cases)) == cases == list(islice(target.cases(3), 5))
    assert all(target.check(case) in (True, False) for case in cases)


def test_a_wrong_answer_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: object) -> None:
    from fuzz import engines

    monkeypatch.setattr("fuzz.__main__.CORPUS", tmp_path)
    monkeypatch.setattr(engines, "enumerate_fraction", lambda dnf: 2)
    tally = Tally()
    run_seed("engines", engines, 3, tally)
    assert tally.found == tally.cases == len(list(tmp_path.iterdir()))
