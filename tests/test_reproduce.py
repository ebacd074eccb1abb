"""The paper's experiments from end to end, on a few formulas."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest

from sharpdnf.paper import calibrate, reproduce, sets
from sharpdnf.paper.records import Row, read_records


def test_reproduce_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.learn.model import Network, NetworkConfig

    torch.manual_seed(0)
    NeuralCounter(Network(NetworkConfig(k=8, iterations=3))).save_pretrained(tmp_path / "paper")
    few = {"paper": {"train": 8, "structure": 40, "size-10000": 1, "size-15000": 1, "fully-privileged": 8}}
    monkeypatch.setattr(reproduce, "SUBSETS", few)
    monkeypatch.setattr(reproduce, "SUBSET", few["paper"])
    said: list[str] = []
    written = reproduce.reproduce(
        tmp_path / "out",
        groups=("training", "structure", "other", "trace"),
        models=[str(tmp_path / "paper")],
        say=said.append,
    )
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "labels.csv", "rows.csv", "traces.csv", "report.md", "tables.csv", "figure3.png", "figure4.png"
    }  # fmt: skip
    assert {path.name for path in written} < names
    rows = read_records(tmp_path / "out" / "rows.csv", Row)
    expected = {name: len(sets.subset(name, few["paper"][name])) for name in ("train", "structure")}
    expected["fully-privileged"] = len(sets.subset("fully-privileged", 8))
    assert Counter(row.set for row in rows) == expected
    again = reproduce.reproduce(tmp_path / "out", groups=("structure",), models=[str(tmp_path / "paper")])
    assert len(read_records(tmp_path / "out" / "rows.csv", Row)) == len(rows) and again
    assert any("paper on structure" in line for line in said)
    monkeypatch.setattr(calibrate, "CALIBRATION", {"paper": {"structure": 120}})
    held_out = sets.subset("structure", 120, calibrate.CALIBRATION_SEED)
    assert calibrate.calibrate(tmp_path / "paper", tmp_path / "other") == len(held_out)
    calibrated = NeuralCounter.from_pretrained(tmp_path / "paper")
    assert calibrated.residuals is not None and sum(calibrated.residuals.counts) > 0
    own = {row.log_label for row in read_records(tmp_path / "other" / "rows.csv", Row) if -5 < row.log_label < -1e-3}
    assert own and own.isdisjoint(row.log_label for row in rows)  # no formula of the tables among them
    reproduce.reproduce(tmp_path / "out", groups=("structure",), models=[str(tmp_path / "paper")])
    shown = [row for row in read_records(tmp_path / "out" / "rows.csv", Row) if row.set == "structure"]
    assert (
        any(row.log_lower > -math.inf for row in shown)
        and "label inside" in (tmp_path / "out" / "report.md").read_text()
    )
    runtimes = reproduce.measure_runtimes(NeuralCounter.from_pretrained(tmp_path / "paper").predict, sizes=(1000,))
    assert {(r.engine, r.w) for r in runtimes} == set(
        itertools.product(("neural", "sampling", "conditioned"), (3, 5, 8, 13, 21, 34))
    )
    with pytest.raises(ValueError, match="no set 'sizes'"):
        reproduce.reproduce(tmp_path / "out", groups=("sizes",), models=[str(tmp_path / "paper")])


def test_a_first_look_takes_a_few_formulas_and_drops_none(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.learn.model import Network, NetworkConfig

    torch.manual_seed(0)
    NeuralCounter(Network(NetworkConfig(k=8, iterations=2))).save_pretrained(tmp_path / "run" / "best")
    asked = {"groups": ("training", "structure"), "models": [str(tmp_path / "run" / "best")]}
    said: list[str] = []
    reproduce.reproduce(tmp_path / "out", limit=5, say=said.append, **asked)
    rows = read_records(tmp_path / "out" / "rows.csv", Row)
    assert Counter((row.model, row.set) for row in rows) == {("run/best", "train"): 5, ("run/best", "structure"): 5}
    assert said[0] == "run/best on train: 5 formulas to measure, 0 are there"
    report = (tmp_path / "out" / "report.md").read_text()
    assert "network `run/best`" in report and "| sampling | 5 |" in report
    reproduce.reproduce(tmp_path / "out", limit=2, **asked)
    assert set(rows) <= set(read_records(tmp_path / "out" / "rows.csv", Row))


def test_names_of_networks() -> None:
    assert [reproduce.model_name(source) for source in ("paper", "a/t2", "runs/mine/best", "mine/final", "best")] == [
        "paper", "t2", "mine/best", "mine/final", "best"
    ]  # fmt: skip
