"""Measuring goes on where it stopped, and anew with new weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sharpdnf.paper import measure, reproduce, sets
from sharpdnf.paper.records import Row, read_records, write_records


def test_measuring_goes_on_where_it_stopped_and_anew_with_new_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.learn.model import Network, NetworkConfig

    def weights(seed: int) -> None:
        torch.manual_seed(seed)
        NeuralCounter(Network(NetworkConfig(k=8, iterations=2))).save_pretrained(tmp_path / "net")

    def measured(jobs: int) -> list[Row]:
        reproduce.reproduce(tmp_path / "out", groups=("structure",), models=[str(tmp_path / "net")], jobs=jobs)
        return [row for row in read_records(tmp_path / "out" / "rows.csv", Row) if row.set == "structure"]

    few = {"train": 8, "structure": 40}
    monkeypatch.setattr(reproduce, "SUBSET", few)
    monkeypatch.setattr(measure, "CHUNK_LITERALS", 20_000)
    monkeypatch.setattr(measure, "SAVE_SECONDS", 0.0)
    weights(1)
    whole = measured(jobs=2)
    part = whole[:25]
    write_records(tmp_path / "out" / "rows.csv", part, Row)
    labels = (tmp_path / "out" / "labels.csv").read_text()
    again = measured(jobs=1)
    kept = {(row.index, row.shift): row for row in again}
    assert all(kept[row.index, row.shift].seconds == row.seconds for row in part)  # not measured twice
    assert len(kept) == len(whole)
    for row in whole:
        other = kept[row.index, row.shift]
        assert other.log_prediction == pytest.approx(row.log_prediction, rel=1e-5) and other.log_label == row.log_label
    assert (tmp_path / "out" / "labels.csv").read_text() == labels
    weights(2)
    assert {row.weights for row in measured(jobs=1)}.isdisjoint({row.weights for row in whole})


def test_an_interrupt_keeps_the_rows_that_are_done(tmp_path: Path) -> None:

    examples = sets.subset("structure", 40)
    known = ("paper", "ab", "structure", examples[0].index, examples[0].shift, 50, 38, 3, "plain", 0.005, -1.0, -1.01)
    row = Row(*known, -math.inf, 0.0, 0.05, 0.1, -1.0, -0.9, -1.0)

    class Interrupted:
        model, weights = "paper", "ab"

        def rows(self, missing: Sequence[sets.SetMember]) -> Iterator[list[Row]]:
            assert len(missing) == len(examples)
            yield [row]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure.measure_set(tmp_path / "rows.csv", examples, Interrupted(), lambda line: None)  # type: ignore[arg-type]
    assert read_records(tmp_path / "rows.csv", Row) == [row]
