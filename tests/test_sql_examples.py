"""Examples, documentation and the command line run as they stand."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pyarrow as pa
import pytest
from sql_edges import TWO_STEPS
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("network_reliability", 0.995),
        ("entity_resolution", 1 - (1 - 0.92) * (1 - 0.4 * 0.75)),
        ("sensor_readings", 1 - (1 - 0.3) * (1 - 0.6)),
    ],
)
def test_examples_run(name: str, first: float, capsys: pytest.CaptureFixture[str]) -> None:
    answers = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    assert answers.prob[0] == pytest.approx(first) and answers.met
    assert "prob" in capsys.readouterr().out


def test_the_command_line(tmp_path: Path) -> None:
    from sharpdnf.cli import app, load_commands, main

    load_commands()
    path = tmp_path / "edge.csv"
    path.write_text("src,dst,p\n1,2,.5\n2,3,.5\n")
    common = ["sql", "--db", str(path), "--uncertain", "edge:p"]
    shown = CliRunner().invoke(app, [*common, TWO_STEPS])
    assert shown.exit_code == 0 and "0.25" in shown.output
    lines = CliRunner().invoke(app, [*common, TWO_STEPS, "--json"])
    assert json.loads(lines.stdout)["prob"] == 0.25
    target = tmp_path / "out.parquet"
    assert CliRunner().invoke(app, [*common, TWO_STEPS, "--parquet", str(target)]).exit_code == 0
    assert pa.parquet.read_table(target).column("prob").to_pylist() == [0.25]
    odd = CliRunner().invoke(app, [*common, "SELECT 'nan'::DOUBLE AS x, [1.5, 'inf'::DOUBLE] AS y FROM edge", "--json"])
    row = json.loads(odd.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert row["x"] is None and row["y"] == [1.5, None] and row["prob"] == 0.75
    nowhere = str(tmp_path / "none" / "x.parquet")
    for wrong in (["--parquet", nowhere], ["--timeout", "-1"], ["--limit", "-1"], ["--csv", "--json"]):
        assert CliRunner().invoke(app, [*common, TWO_STEPS, *wrong]).exit_code != 0, wrong
    endless = "WITH n AS (SELECT range AS a FROM range(100000)) SELECT 1 FROM n x, n y, edge WHERE x.a * y.a < 0"
    with pytest.raises(SystemExit) as left:
        main([*common, endless, "--timeout", "0.2"])
    assert left.value.code == 3
    certain = CliRunner().invoke(app, [*common, "SELECT 1 AS one", "--json"])
    assert json.loads(certain.stdout)["prob"] == 1.0 and "none of the uncertain tables (edge)" in certain.stderr
    rewritten = CliRunner().invoke(app, [*common, TWO_STEPS, "--show-sql"])
    assert "_sharpdnf_id" in rewritten.output
