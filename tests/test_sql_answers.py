"""Answers as people use them: the promised columns, order, lineage, reasons, tables."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from sql_edges import TWO_STEPS
from sql_servers import Database

import sharpdnf
from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.shapley import banzhaf, shapley


def test_the_columns_that_are_promised(db: sharpdnf.ProbDB) -> None:
    answers = db.sql(TWO_STEPS, guarantee="relative", epsilon=0.1, delta=0.05, timeout=60)
    names = ["src", "prob", "lower", "upper", "guarantee", "engine", "num_clauses"]
    assert answers.arrow().column_names == names
    assert list(answers.df().columns) == names
    assert answers.pl().columns == names
    # 1 -> 2 -> 3 or 1 -> 3 -> 4: 1 - (1 - 0.25) (1 - 0.45); 2 -> 3 -> 4: 0.45
    assert dict(zip(answers.df()["src"], answers.df()["prob"], strict=True)) == pytest.approx({1: 0.5875, 2: 0.45})
    assert answers.met and len(answers) == 2


def test_lineage_and_reasons_name_rows(db: sharpdnf.ProbDB) -> None:
    answers = db.sql(TWO_STEPS)
    assert str(answers.lineage(1)) == "edge(src=2, dst=3) & edge(src=3, dst=4)"
    reasons = answers.explain(1, top=1)
    assert reasons[0].row == "edge(src=2, dst=3)" and reasons[0].influence == pytest.approx(0.9)
    with pytest.raises(IndexError):
        answers.lineage(2)


def test_reasons_of_exclusive_rows() -> None:
    """Given one reading, the other is impossible: P(F | row) - P(F | no row)."""
    found = sharpdnf.connect()
    found.register("r", pa.table({"k": [1, 1], "v": [1, 2], "p": [0.3, 0.6]}), prob="p", block="k")
    reasons = {r.row: r.influence for r in found.sql("SELECT k FROM r").explain(0)}
    assert reasons == pytest.approx({"r(k=1, v=1)": 1 - 0.6 / 0.7, "r(k=1, v=2)": 1 - 0.3 / 0.4})


def test_order() -> None:
    """By the columns, as the select list counts them, with NULLs where the database puts them."""
    for kind, small in (("duckdb", False), ("sqlite", True)):
        database = Database(kind)
        database.run("CREATE TABLE e (a integer, b integer, p double precision)")
        database.run("INSERT INTO e VALUES (1, 1, 0.5), (1, 2, 0.5), (2, 9, 0.25), (NULL, 3, 0.75)")
        database.run("CREATE TABLE s (a integer, b integer)")
        database.run("INSERT INTO s VALUES (1, 1), (2, 2), (3, 3)")
        found = sharpdnf.connect(database.connection)
        found.uncertain("e", prob="p")

        def column(sql: str, name: str = "a", found: sharpdnf.ProbDB = found) -> list[int | None]:
            return found.sql(sql).arrow().column(name).to_pylist()  # type: ignore[no-any-return]

        assert column("SELECT a FROM e ORDER BY a") == ([None, 1, 2] if small else [1, 2, None])
        assert column("SELECT a FROM e ORDER BY a DESC") == [2, 1, None]
        assert column("SELECT a FROM e ORDER BY a DESC NULLS FIRST") == [None, 2, 1]
        assert column("SELECT a FROM e ORDER BY a NULLS FIRST") == [None, 1, 2]
        assert column("SELECT a FROM e ORDER BY a NULLS LAST") == [1, 2, None]
        assert column("SELECT expected_sum(b), a FROM e GROUP BY a ORDER BY 1") == [1, 2, None]  # 1.5, 2.25, 2.25
        assert column("SELECT expected_sum(b), a FROM e GROUP BY a ORDER BY 2 DESC") == [2, 1, None]
        assert column("SELECT a, expected_count() AS n FROM e GROUP BY a ORDER BY n") == [2, None, 1]
        assert column("SELECT expected_sum(b), a FROM e GROUP BY 2 ORDER BY expected_sum(b), e.a DESC") == [1, 2, None]
        assert column("SELECT b AS a, a AS c FROM e WHERE b > 1 ORDER BY e.a DESC NULLS LAST, a") == [9, 2, 3]
        assert column("SELECT -a AS a FROM e ORDER BY -e.a NULLS LAST") == [-2, -1, None]
        assert column("SELECT a FROM s ORDER BY a DESC") == [3, 2, 1]
        assert column("SELECT a FROM s ORDER BY a DESC LIMIT 2") == [3, 2]
        assert sorted(column("SELECT a FROM s ORDER BY b DESC LIMIT 2")) == [2, 3]  # type: ignore[type-var]
        for sql in ("SELECT a FROM e ORDER BY b", "SELECT a FROM e ORDER BY 2", "SELECT b AS a FROM e ORDER BY e.a"):
            with pytest.raises(SQLError, match="ORDER"):
                found.sql(sql)
        if kind == "duckdb":
            database.run("CREATE TABLE f AS SELECT unnest([2, 'nan'::DOUBLE, 1]) AS a, {'x': 1} AS x, 0.5 AS p")
            found.uncertain("f", prob="p")
            assert [str(a) for a in column("SELECT a FROM f ORDER BY a DESC")] == ["nan", "2.0", "1.0"]
            with pytest.raises(SQLError, match="struct"):
                found.sql("SELECT x FROM f ORDER BY x")
            with pytest.raises(UnsupportedSQL, match="UHUGEINT"):  # DuckDB would give Arrow -1 for the largest one
                found.sql("SELECT a::UHUGEINT FROM e")
            with pytest.raises(UnsupportedSQL, match="whole number"):
                found.sql("SELECT a FROM e ORDER BY prob() DESC LIMIT 50%")


def test_a_column_called_prob_does_not_hide_ours() -> None:
    found = sharpdnf.connect()
    found.register("t", pa.table({"prob": [7], "p": [0.25]}), prob="p")
    row = found.sql("SELECT prob FROM t").arrow().to_pylist()[0]
    assert row["prob"] == 0.25 and row["prob_2"] == 7


def test_tables_show_what_is_there(db: sharpdnf.ProbDB) -> None:
    """No markup in values, and columns that do not fit are left out, not squeezed to nothing."""
    from rich.console import Console

    def shown(sql: str, width: int) -> str:
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(db.sql(sql).table(2, width))
        return console.export_text()

    text = shown("""SELECT '[bold]x [/nope]' AS "[red]c", NULL AS n, src FROM edge""", 120)
    assert "[bold]x [/nope]" in text and "[red]c" in text and "NULL" in text and "3 answers" in text
    many = "SELECT " + ", ".join(f"src AS column_{i}" for i in range(40)) + " FROM edge"
    text = shown(many, 100)
    assert "column_0" in text and "column_9" not in text and "guarantee" in text and "of 46 columns" in text
    assert "num_clauses" not in shown("SELECT src, dst FROM edge", 70) and "dst" in shown(
        "SELECT src, dst FROM edge", 70
    )
    assert "column_39" in shown(many, 1000)


def test_answers_are_a_sequence_of_rows(db: sharpdnf.ProbDB) -> None:
    answers = db.sql("SELECT src, dst FROM edge ORDER BY src, dst", guarantee="exact")
    assert [row["src"] for row in answers] == answers.arrow().column("src").to_pylist()
    assert answers[0] == next(iter(answers)) == answers.arrow().to_pylist()[0]
    assert answers[-1] == list(answers)[-1] and answers[1:3] == list(answers)[1:3]
    with pytest.raises(IndexError, match="answer 9 of 4"):
        answers[9]


def test_reasons_as_a_table_and_by_other_measures(db: sharpdnf.ProbDB) -> None:
    answers = db.sql(f"{TWO_STEPS} WHERE e.src = 1")
    lineage = answers.lineage(0)
    reasons = answers.explain(0, top=10)
    assert reasons.df()["influence"].tolist() == [reason.influence for reason in reasons]
    assert reasons[0].row in reasons._repr_html_() and "influence" in reasons._repr_html_()
    for measure, value in (("banzhaf", banzhaf), ("shapley", shapley)):
        found = answers.explain(0, top=10, measure=measure)
        want = dict(zip(lineage.names or (), value(lineage).values.tolist(), strict=True))
        assert {reason.row: reason.influence for reason in found} == pytest.approx(want)
        assert found.arrow().column_names[2] == measure
    assert sum(reason.influence for reason in answers.explain(0, top=10, measure="shapley")) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="measure must be one of influence, banzhaf, shapley"):
        answers.explain(0, measure="shaply")
