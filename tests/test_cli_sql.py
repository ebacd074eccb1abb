"""The command ``sharpdnf sql``: evidence, and the two readings of aggregates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from sharpdnf.cli import main

EDGES = "src,dst,p\n1,2,0.5\n1,3,0.5\n2,3,0.5\n3,4,0.9\n"
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Asks about four edges; returns the answers as JSON objects."""
    (tmp_path / "edge.csv").write_text(EDGES)

    def run(query: str, *words: str) -> list[dict[str, object]]:
        table = ["--table", f"edge={tmp_path / 'edge.csv'}", "--uncertain", "edge:p"]
        with pytest.raises(SystemExit) as ended:
            main(["sql", query, *table, "--json", *words])
        assert not ended.value.code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_evidence(ask) -> None:
    """With 2-3 there and 1-3 not, two steps from 1 need 1-2 alone, and from 2 they need 3-4."""
    alone = {row["src"]: row["prob"] for row in ask(TWO_STEPS)}
    assert alone == pytest.approx({1: 0.5875, 2: 0.45})
    evidence = ["--given", "SELECT 1 FROM edge WHERE src = 2"]
    evidence += ["--given-not", "SELECT 1 FROM edge WHERE src = 1 AND dst = 3"]
    assert {row["src"]: row["prob"] for row in ask(TWO_STEPS, *evidence)} == pytest.approx({1: 0.5, 2: 0.9})


def test_aggregates(ask) -> None:
    query = "SELECT src, count(*) AS n FROM edge GROUP BY src"
    groups = {row["src"]: row for row in ask(query)}
    assert groups[1]["prob"] == pytest.approx(0.75)
    assert groups[1]["n_mean"] == pytest.approx(1.0 / 0.75)
    rows = {(row["src"], row["n"]): row["prob"] for row in ask(query, "--aggregates", "rows")}
    assert rows == pytest.approx({(1, 1): 0.5, (1, 2): 0.25, (2, 1): 0.5, (3, 1): 0.9})
