"""Labels in a CSV: kept, and made anew when the formula changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sharpdnf import DNF
from sharpdnf.errors import CheckpointError
from sharpdnf.paper import sets
from sharpdnf.paper.labels import Labels


def one_quarter(dnf: DNF, **options: object) -> tuple[float, None]:
    del dnf, options
    return math.log(0.25), None


def label_all(labels: Labels, examples: Sequence[sets.SetMember]) -> None:
    for what in examples:
        labels.get(what, sets.draw(what))
        labels.save()


def test_labels_are_kept_and_made_anew_when_the_formula_changes(tmp_path: Path) -> None:
    calls: list[DNF] = []

    def labeller(dnf: DNF, *, rng: np.random.Generator, **options: object) -> tuple[float, None]:
        del options
        calls.append(dnf)
        return float(rng.normal()) - 10.0, None

    examples = sets.subset("structure", 12)
    path = tmp_path / "deep" / "labels.csv"
    first = Labels(path, labeller, epsilon=0.005, delta=0.01)
    label_all(first, examples)
    assert len(calls) == len(examples)
    again = Labels(path, labeller, epsilon=0.005, delta=0.01)
    what = examples[3]
    label = again.get(what, sets.draw(what))
    assert len(calls) == len(examples)
    assert label.log_label == pytest.approx(first.get(what, sets.draw(what)).log_label)
    again.get(what, sets.draw(what, seed=9))  # another formula under the same name
    tighter = Labels(path, labeller, epsilon=0.001, delta=0.01)
    tighter.get(examples[4], sets.draw(examples[4]))
    assert len(calls) == len(examples) + 2


def test_killed_labelling_goes_on(tmp_path: Path) -> None:
    """A half-written last line is a clear error, whole lines are kept."""
    path = tmp_path / "labels.csv"
    labels = Labels(path, one_quarter, epsilon=0.005, delta=0.01)
    examples = sets.subset("structure", 8)
    label_all(labels, examples[:5])
    label_all(Labels(path, one_quarter, epsilon=0.005, delta=0.01), examples)
    assert len(path.read_text().splitlines()) == 1 + len(examples)
    path.write_text(path.read_text()[:-30])
    with pytest.raises(CheckpointError, match=rf"labels\.csv:{1 + len(examples)}"):
        Labels(path, one_quarter, epsilon=0.005, delta=0.01)
