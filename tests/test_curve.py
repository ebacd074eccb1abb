"""The picture of a run's log: drawn from whatever the log holds, and never a reason to end a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharpdnf.learn import curve

HEAD = "step,loss,dense,val_02,val_05,val_10,val_15\n"


def draw(folder: Path, rows: str) -> bool:
    (folder / "log.csv").write_text(HEAD + rows)
    return curve.draw_curves(folder / "log.csv", folder / "loss.png")


@pytest.mark.parametrize(
    "rows",
    [
        "20,38.1,1.7,,,,\n40,31.7,1.3,0.1,0.2,0.3,0.4\n60,20.0,1.1,,,,\n",
        "20,38.1,0,,,,\n40,31.7,0,,,,\n",  # no dense supervision, not validated yet
        "20,nan,nan,,,,\n40,nan,nan,,,,\n",
    ],
)
def test_a_log_becomes_a_picture(tmp_path: Path, rows: str) -> None:
    pytest.importorskip("matplotlib")
    assert draw(tmp_path, rows)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "loss.png"]


def test_nothing_is_drawn_of_one_row(tmp_path: Path) -> None:
    assert not draw(tmp_path, "20,38.1,1.7,,,,\n")
    assert not curve.draw_curves(tmp_path / "missing.csv", tmp_path / "loss.png")
    assert not (tmp_path / "loss.png").exists()


def test_without_matplotlib_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "find_spec", lambda name: None)
    assert not draw(tmp_path, "20,38.1,1.7,,,,\n40,31.7,1.3,,,,\n")
