"""What is refused says so in the query's language, and no name hides uncertain rows."""

from __future__ import annotations

import pytest

import sharpdnf
from sharpdnf.errors import UncertainTableError, UnsupportedSQL


def test_refusals_speak_the_querys_language(db: sharpdnf.ProbDB) -> None:
    for sql, word in (
        ("SELECT src FROM edge TABLESAMPLE 10%", "sampling"),
        ("SELECT src FROM edge USING SAMPLE 2", "sampling"),
        ("SELECT list(src) FROM edge", "list"),
        ("SELECT unnest([src]) FROM edge", "UNNEST"),
    ):
        with pytest.raises(UnsupportedSQL, match=word):
            db.sql(sql, way="lineage")


def test_names_that_could_hide_rows(db: sharpdnf.ProbDB) -> None:
    connection = db.backend.connection  # type: ignore[attr-defined]
    connection.execute("CREATE MACRO hidden() AS (SELECT count(*) FROM edge)")
    connection.execute("CREATE MACRO rows_of() AS TABLE SELECT * FROM edge")
    connection.execute("CREATE VIEW v AS SELECT src FROM edge")
    connection.execute("CREATE VIEW counted AS SELECT count(*) AS n FROM edge")
    connection.execute("CREATE MACRO abs(x) AS (SELECT count(*) FROM edge)")
    with pytest.raises(UnsupportedSQL):  # a name of the database's own that means something else now
        db.sql("SELECT abs(1) FROM v")
    connection.execute("DROP MACRO abs")
    for sql, plain in (
        ("SELECT hidden()", "SELECT (SELECT count(*) FROM edge)"),
        ("SELECT src FROM rows_of()", "SELECT src FROM edge"),
    ):
        with pytest.raises(UnsupportedSQL):
            db.sql(sql, way="lineage")
        answers, expected = db.sql(sql), db.sql(plain, way="worlds")
        assert answers.plan().way == "worlds"
        assert answers.prob.tolist() == pytest.approx(expected.prob.tolist())
    for sql in ("SELECT n FROM counted", "SELECT (SELECT n FROM counted) FROM v"):
        with pytest.raises(UnsupportedSQL):
            db.sql(sql, way="lineage")
        assert db.sql(sql).plan().way == "worlds"
    assert len(db.sql("SELECT src FROM memory.main.v UNION SELECT src FROM temp.main.edge")) == 3
    with pytest.raises(UncertainTableError):
        db.uncertain("v", prob="src")
    connection.execute("CREATE SCHEMA other")
    connection.execute("CREATE TABLE other.edge AS SELECT 9 AS src")
    assert db.sql("SELECT src FROM other.edge").prob.tolist() == [1.0]
