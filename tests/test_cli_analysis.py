"""The command marginals."""

from __future__ import annotations

import json

import pytest
from command_line import DATA, TWO, Run

from sharpdnf.cli import main


def test_marginals(run: Run) -> None:
    code, out, _ = run("marginals", TWO, "--json", "-s", 1)
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [a["variable"] for a in answers] == ["1", "2", "3"]
    assert answers[0]["prob"] == pytest.approx(2 / 3, rel=0.1)  # 1/4 of the 3/8
    assert "given the formula" in run("marginals", DATA / "named.dnf")[1]
    assert run("marginals", DATA / "no_variable.dnf", "--json")[1] == ""


def test_marginals_are_written_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("sharpdnf.cli.analysis.echo", said.append)
    with pytest.raises(SystemExit):
        main(["marginals", TWO])
    assert len(said) == 1 and len(said[0].splitlines()) == 4
