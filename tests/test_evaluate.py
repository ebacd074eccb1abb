"""Test sets, labels and rows: the composition is the paper's, and every row can be rebuilt."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from sharpdnf import DNF
from sharpdnf.errors import CheckpointError
from sharpdnf.estimate import Estimate
from sharpdnf.generate import settings
from sharpdnf.paper import calibrate, evaluate, measure, reproduce, sets
from sharpdnf.paper.labels import Labels
from sharpdnf.paper.rows import Row, read_records, write_records


def test_sets_have_the_papers_sizes() -> None:
    totals = {name: sum(sizes.values()) for name, sizes in sets.SETS.items()}
    assert totals == {
        "train": 105_000, "structure": 13_080, "size-10000": 348, "size-15000": 116,
        "fully-privileged": 13_080, "uniform": 13_080, "structure-code": 13_080, "size-code": 464,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["structure", "size-10000", "size-15000", "size-code"])
def test_settings_are_represented_equally_and_half_is_privileged(name: str) -> None:
    start = 0
    for n, count in sets.SETS[name].items():
        examples = [sets.member(name, start + j, 0) for j in range(count)]
        by_setting = Counter((e.width, e.num_clauses) for e in examples)
        assert {e.num_vars for e in examples} == {n}
        assert set(by_setting) == set(settings(n))
        assert max(by_setting.values()) - min(by_setting.values()) <= 1
        privileged = sum(e.family == "privileged" for e in examples)
        assert abs(privileged - count / 2) < 5.2 * np.sqrt(count / 4)
        start += count


def test_examples_are_what_they_say_and_can_be_rebuilt_alone() -> None:
    for name in sets.SETS:
        if name.startswith("size"):
            continue
        what = sets.member(name, 5, 2)
        dnf = sets.draw(what)
        assert (dnf.num_vars, dnf.num_clauses, set(dnf.widths)) == (what.num_vars, what.num_clauses, {what.width})
        assert dnf == sets.draw(what) and dnf != sets.draw(what, seed=1)
        other = sets.draw(sets.member(name, 5, 0))
        np.testing.assert_allclose((other.prob + 0.5) % 1, dnf.prob)
    with pytest.raises(IndexError):
        sets.member("structure", 13_080, 0)


def test_subset_keeps_proportions_and_takes_a_formula_once() -> None:
    chosen = sets.subset("structure", 1308)
    assert abs(len(chosen) - 1308) <= 8
    assert len({e.index for e in chosen}) == len(chosen)
    by_n = Counter(e.num_vars for e in chosen)
    assert by_n[50] == 374 and by_n[5000] == 37
    assert {e.shift for e in chosen} == {0, 1, 2, 3}
    assert len(sets.subset("size-15000", None)) == 116
    assert len(sets.subset("size-10000", 29)) == 29
    few = sets.subset("size-15000", 10)
    assert len({e.width for e in few}) >= 5 and len({e.index for e in few}) == 10
    nearly_all = sets.subset("structure", 13_000)
    assert len({e.index for e in nearly_all}) == len(nearly_all)
    for size in (7, 100, 347):
        assert len({e.index for e in sets.subset("size-10000", size)}) == size


def one_quarter(dnf: DNF, **options: object) -> tuple[float, None]:
    del dnf, options
    return math.log(0.25), None


def label_all(labels: Labels, examples: Sequence[sets.Member]) -> None:
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


def test_rows_hold_what_was_measured(tmp_path: Path) -> None:
    labels = Labels(tmp_path / "labels.csv", one_quarter, epsilon=0.005, delta=0.01)
    examples = sets.subset("fully-privileged", 10)

    def predict(dnfs: Sequence[DNF]) -> list[Estimate]:
        return [
            Estimate(log_prob=-float(dnf.num_vars), guarantee="none", engine="x", info={"sigma": 0.5}, seconds=0.1)
            for dnf in dnfs
        ]

    rows = evaluate.evaluate("net", "ab12", examples, labels, predict=predict, conditioned=lambda dnf: -1.0)
    assert len(rows) == len(examples)
    by_index = {row.index: row for row in rows}
    for what in examples:
        row = by_index[what.index]
        assert (row.n, row.m, row.w, row.family) == (what.num_vars, what.num_clauses, what.width, "privileged")
        assert row.weights == "ab12" and (row.log_lower, row.log_upper) == (-math.inf, 0.0)
        assert row.log_prediction == -row.n and row.log_conditioned == -1.0 and row.sigma == 0.5
        assert row.log_label == pytest.approx(math.log(0.25)) and row.seconds == 0.1


def test_independent_clause_formula() -> None:
    dnf = DNF.from_clauses([[1, 2], [-3]], prob=[0.5, 0.4, 0.9])
    assert math.exp(evaluate.log_independent(dnf)) == pytest.approx(1 - 0.8 * 0.9)
    tiny = DNF.from_clauses([[1, 2], [3, 4]], prob=[1e-200] * 4)
    assert evaluate.log_independent(tiny) == pytest.approx(math.log(2) + 2 * math.log(1e-200))
    assert evaluate.log_independent(DNF.from_clauses([[1]], prob=[1.0])) == 0.0
    assert evaluate.log_independent(DNF.from_clauses([])) == -math.inf


def test_figure_four_spans_the_answers(tmp_path: Path) -> None:
    targets = iter(np.linspace(0.001, 0.999, 60))
    labels = Labels(
        tmp_path / "l.csv", lambda dnf, **options: (math.log(next(targets)), None), epsilon=0.005, delta=0.01
    )
    chosen = evaluate.figure_members(sets.subset("structure", 60)[:60], labels)
    answers = [math.exp(label.log_label) for _, _, label in chosen]
    assert len(chosen) == 21 and len({what.index for what, _, _ in chosen}) == 21
    np.testing.assert_allclose(answers, np.linspace(1, 0, 21), atol=0.02)
    step = Estimate(log_prob=-1.0, guarantee="none", engine="x")
    traces = evaluate.trace_rows("net", chosen, lambda dnf: [step] * 8)
    assert len(traces) == 21 * 8 and {t.iteration for t in traces} == set(range(1, 9))


def test_reproduce_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.learn.model import Network, NetworkConfig

    torch.manual_seed(0)
    NeuralCounter(Network(NetworkConfig(k=8, iterations=3))).save_pretrained(tmp_path / "paper")
    few = {"paper": {"train": 8, "structure": 40, "size-10000": 1, "size-15000": 1, "fully-privileged": 8}}
    monkeypatch.setattr(reproduce, "SUBSETS", few)
    said: list[str] = []
    written = reproduce.reproduce(
        tmp_path / "out", groups=("structure", "other", "trace"), models=[str(tmp_path / "paper")], say=said.append
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
    assert calibrated.residuals is not None and sum(map(sum, calibrated.residuals.counts)) > 0
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
    monkeypatch.setattr(reproduce, "SUBSETS", {"paper": few})
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
    row = Row(*known, -math.inf, 0.0, 0.05, 0.1, -1.0, -0.9)

    class Interrupted:
        model, weights = "paper", "ab"

        def rows(self, missing: Sequence[sets.Member]) -> Iterator[list[Row]]:
            assert len(missing) == len(examples)
            yield [row]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure.measure_set(tmp_path / "rows.csv", examples, Interrupted(), lambda line: None)  # type: ignore[arg-type]
    assert read_records(tmp_path / "rows.csv", Row) == [row]


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
