"""Every table and figure from a small rows file, without a model."""

from __future__ import annotations

import csv
import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sharpdnf.errors import CheckpointError
from sharpdnf.paper import report
from sharpdnf.paper.published import PAPER_RUNTIMES, RUNTIME_SIZES
from sharpdnf.paper.records import Row, Runtime, Trace, read_records, write_records


def make_row(model: str, name: str, n: int, w: int, error: float, *, index: int = 0) -> Row:
    label, clip = 0.5, 1e-300
    return Row(
        model=model, weights="ab12", set=name, index=index, shift=0, n=n, m=n // 2, w=w, family="plain", epsilon=0.005,
        log_label=math.log(label), log_prediction=math.log(max(label + error, clip)), sigma=0.05, seconds=0.1,
        log_lower=math.log(max(label + error - 0.04, clip)), log_upper=math.log(max(label + error + 0.04, clip)),
        log_conditioned=math.log(label + 0.03), log_independent=math.log(label + 0.2),
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rng, rows = np.random.default_rng(0), []
    for model in ("paper", "t2", "t32"):
        for n in (50, 100, 250, 500, 750, 1000, 2500, 5000):
            for w in (3, 5, 8, 13, 21, 34):
                rows += [make_row(model, "structure", n, w, e, index=i) for i, e in enumerate(rng.normal(0, 0.02, 3))]
                rows.append(make_row(model, "train", n, w, 0.01))
        for n in (10_000, 15_000):
            rows += [make_row(model, f"size-{n}", n, w, 0.06) for w in (3, 5, 8, 13, 21, 34)]
    rows += [make_row("paper", name, 50, 3, 0.0) for name in ("fully-privileged", "uniform", "structure-code")]
    rows += [make_row("paper", "size-code", n, w, 0.0) for n in (10_000, 15_000) for w in (3, 13)]
    write_records(tmp_path / "rows.csv", rows, Row)
    traces = [
        Trace("paper", i, math.log(max((21 - i) / 20, 1e-9)), t, math.log(0.1 * t))
        for i in range(1, 22)
        for t in range(1, 9)
    ]
    write_records(tmp_path / "traces.csv", traces, Trace)
    runtimes = [
        Runtime(engine, n, w, seconds, 3)
        for engine, seconds in (("neural", 2.0), ("sampling", 0.01), ("conditioned", 0.02))
        for n in RUNTIME_SIZES
        for w in PAPER_RUNTIMES
    ]
    write_records(tmp_path / "runtimes.csv", runtimes, Runtime)
    return tmp_path


def test_every_table_and_figure(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = report.write_report(results, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    for number in range(2, 14):
        assert f"### Table {number}." in text
    assert "No rows" not in text
    assert {path.name for path in written} == {"report.md", "tables.csv", "figure3.png", "figure4.png"}
    for path in written:
        assert path.stat().st_size > 1000
        assert path.suffix != ".png" or path.read_bytes().startswith(b"\x89PNG")


def test_table_holds_the_papers_figure_ours_and_both_baselines(results: Path) -> None:
    rows = read_records(results / "rows.csv", Row)
    table = next(t for t in report.accuracy_tables(rows) if t.number == "5")
    ten_thousand = table.lines[:4]
    assert ten_thousand[0] == ("n=10000", "paper", "", "79.89", "89.94", "97.13", "99.71")
    assert ten_thousand[1][:3] == ("", "network", "6")
    assert ten_thousand[1][3].startswith("0.00 [0.0, 39.0]") and ten_thousand[1][5].startswith("100.00 [61.0, 100.0]")
    assert ten_thousand[2][1:] == ("conditioned", "6", "0.00", "100.00", "100.00", "100.00")
    assert ten_thousand[3][1:] == ("independent clauses", "6", "0.00", "0.00", "0.00", "0.00")


def test_sampling_stands_in_the_tables_where_it_was_measured(results: Path) -> None:
    rows = [
        dataclasses.replace(row, log_sampling=row.log_label + 0.01) for row in read_records(results / "rows.csv", Row)
    ]
    table = next(t for t in report.accuracy_tables(rows) if t.number == "5")
    assert table.lines[2] == ("", "sampling", "6", "100.00", "100.00", "100.00", "100.00")
    assert "nan" not in (results / "rows.csv").read_text().splitlines()[0]


def test_rows_without_a_column_that_came_later_can_be_read(results: Path) -> None:
    lines = (results / "rows.csv").read_text().splitlines()
    (results / "rows.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")
    rows = read_records(results / "rows.csv", Row)
    assert len(rows) == len(lines) - 1 and all(math.isnan(row.log_sampling) for row in rows)


def test_another_network_has_all_tables_of_its_own(results: Path) -> None:
    rows = read_records(results / "rows.csv", Row)
    mine = [dataclasses.replace(row, model="run/best") for row in rows if row.model == "paper"]
    alone = {t.number: t for t in report.accuracy_tables(mine)}
    assert all(alone[n].lines and "`run/best`" in alone[n].title for n in ("2", "3", "4", "5", "6", "12", "A"))
    beside = report.accuracy_tables(rows + mine)
    assert [t.title for t in beside if t.number == "2"] == [
        "Accuracy (%) on the training and structure evaluation sets",
        "Accuracy (%) on the training and structure evaluation sets, network `run/best`",
    ]


def test_widths_are_grouped_as_in_the_paper(results: Path) -> None:
    rows = read_records(results / "rows.csv", Row)
    table = next(t for t in report.accuracy_tables(rows) if t.number == "6")
    assert [line[0] for line in table.lines if line[0]] == ["w=3", "w=5", "w=8", "w=13", "w=21,34"]
    assert table.lines[-3][2] == "4"  # two widths at two sizes


def test_runtime_table_says_who_wins(results: Path) -> None:
    table = report.runtime_tables(read_records(results / "runtimes.csv", Runtime))[1]
    assert len(table.lines) == 6 * 5
    cells = {line[1]: line[2:] for line in table.lines[:5]}
    assert cells["paper's KLM"] == ("22.59", "270.77", "1151.86", "2375.56")
    assert "faster than `sampling` in 0 of 24 cells; it takes 200 times as long" in table.note
    assert cells["sampling"] == ("**0.01**",) * 4 and cells["neural"] == ("2",) * 4


def test_wilson_interval() -> None:
    low, high = report.wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert report.wilson(0, 10)[0] == 0.0 and report.wilson(10, 10)[1] == 1.0
    assert report.wilson(0, 0) == (0.0, 1.0)


def test_tidy_table_adds_up(results: Path, tmp_path: Path) -> None:
    rows = read_records(results / "rows.csv", Row)
    records = [r for r in report.tidy_accuracies(rows) if r["threshold"] == 0.02 and r["estimate"] == "network"]
    assert sum(r["formulas"] for r in records) == len(rows)
    hits = sum(abs(math.exp(r.log_prediction) - math.exp(r.log_label)) <= 0.02 for r in rows)
    assert sum(r["hits"] for r in records) == hits


def test_missing_parts_are_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="reproduce"):
        report.write_report(tmp_path, tmp_path)
    write_records(tmp_path / "rows.csv", [make_row("paper", "structure", 50, 3, 0.0)], Row)
    report.write_report(tmp_path, tmp_path / "out")
    assert "No rows were measured" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize("damage", ["columns", "number", "short"])
def test_damaged_rows_name_the_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "rows.csv"
    write_records(path, [make_row("paper", "structure", 50, 3, 0.0)] * 2, Row)
    lines = path.read_text().splitlines()
    broken = {"columns": ["a,b", "1,2"], "number": [*lines[:2], "x," * 14 + "x"], "short": [*lines[:2], "paper,1"]}
    path.write_text("\n".join(broken[damage]))
    with pytest.raises(CheckpointError, match=r"no column model" if damage == "columns" else r"rows\.csv:3"):
        read_records(path, Row)


def test_records_survive_a_round_trip(tmp_path: Path) -> None:
    row = make_row("paper", "structure", 50, 3, -1.0)
    write_records(tmp_path / "rows.csv", [row], Row)
    (back,) = read_records(tmp_path / "rows.csv", Row)
    assert back.log_prediction == pytest.approx(row.log_prediction) and back.set == "structure" and back.n == 50
    with (tmp_path / "rows.csv").open() as file:
        assert next(csv.reader(file))[:5] == ["model", "weights", "set", "index", "shift"]


def test_report_loads_no_model() -> None:
    code = "import sys, sharpdnf.paper.report; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_coverage_counts_labels_inside_the_shown_intervals() -> None:
    rows = [make_row("paper", "structure", 50, 3, error, index=i) for i, error in enumerate((0.0, 0.03, 0.05, -0.06))]
    line = report.coverage_table(rows).lines[0]
    solved = [
        dataclasses.replace(row, sigma=math.nan, log_lower=-0.1, log_upper=-0.1) for row in rows
    ]  # by simplification alone
    assert report.coverage_table(solved).lines[0][2:7] == ("4", "0", "-", "-", "-")
    assert report.coverage_table(solved + rows).lines[0][4:] == line[4:]
    assert line[:5] == ("paper", "structure", "4", "4", "100.0") and line[5].startswith("50.0 [")
    assert line[6:] == ("0.080", "0.035")  # the median width, the mean error
    bare = [dataclasses.replace(row, log_lower=-math.inf, log_upper=0.0) for row in rows]
    assert report.coverage_table(bare + rows[:1]).lines[0][4:7] == ("20.0", "100.0 [20.7, 100.0]", "0.080")
    assert report.coverage_table(bare).lines[0][4:7] == ("0.0", "-", "-")
