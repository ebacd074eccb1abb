"""Subqueries that stand for values: which of them have a lineage, and what is refused of the others."""

from __future__ import annotations

import pytest

import sharpdnf
from sharpdnf.errors import SQLError


@pytest.fixture
def readings() -> sharpdnf.ProbDB:
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE r (sensor INT, x INT, p DOUBLE)")
    connection.execute("INSERT INTO r VALUES (1, 10, 0.25), (1, 20, 0.5), (2, 10, 0.25)")
    connection.execute("CREATE TABLE s (room VARCHAR, least INT)")
    connection.execute("INSERT INTO s VALUES ('hall', 15), ('attic', 5)")
    db = sharpdnf.connect(connection)
    db.uncertain("r", prob="p", block="sensor")
    return db


def found(db: sharpdnf.ProbDB, sql: str) -> dict[object, float]:
    answers = db.sql(sql)
    assert answers.route is not None and answers.route.way == "circuit", str(answers.route)
    return {tuple(row[label] for label in answers.labels): round(row["prob"], 9) for row in answers}


def test_a_truth_value_is_shown_with_the_name_that_the_database_gives_it(readings: sharpdnf.ProbDB) -> None:
    answers = readings.sql("SELECT room, EXISTS (SELECT 1 FROM r WHERE x > least) AS warm FROM s")
    assert answers.labels == ("room", "warm")
    plain = readings.sql("SELECT EXISTS (SELECT 1 FROM r)")
    by_worlds = readings.sql("SELECT EXISTS (SELECT 1 FROM r)", way="worlds")
    assert plain.labels == by_worlds.labels
    warm = {("hall", True): 0.5, ("hall", False): 0.5, ("attic", True): 0.8125, ("attic", False): 0.1875}
    assert found(readings, "SELECT room, EXISTS (SELECT 1 FROM r WHERE x > least) AS warm FROM s") == warm


def test_a_subquery_with_rows_of_one_block_is_one_value(readings: sharpdnf.ProbDB) -> None:
    warm = "SELECT room FROM s WHERE (SELECT x FROM r WHERE sensor = 1) > least"
    assert found(readings, warm) == {("hall",): 0.5, ("attic",): 0.75}


def test_a_subquery_that_may_have_several_rows_goes_by_worlds(readings: sharpdnf.ProbDB) -> None:
    several = "SELECT room FROM s WHERE (SELECT x FROM r) > least"
    assert readings.plan(several).way == "circuit"  # only the rows tell
    with pytest.raises(SQLError, match="More than one row"):
        readings.sql(several)
    with pytest.raises(SQLError, match=r"may have several rows.*max"):
        readings.sql(several, way="circuit")


def test_many_truth_values_go_by_worlds(readings: sharpdnf.ProbDB) -> None:
    items = ", ".join(f"EXISTS (SELECT 1 FROM r WHERE x > {i}) AS m{i}" for i in range(4))
    answers = readings.sql(f"SELECT {items}")
    assert answers.route is not None and answers.route.way == "worlds" and "more than 3" in str(answers.route)
