"""P(answer | evidence) against the worlds in which it holds; keys, denial constraints, impossible evidence."""

from __future__ import annotations

from collections import defaultdict

import pytest
from sql_servers import Database
from sql_worlds import Row, counted_answers, create, declared, differences, plain, played, random_world

from sharpdnf.errors import SQLError
from sharpdnf.sql import Evidence, ProbDB, connect, denial, key

CASES: list[tuple[str, list[str | Evidence], list[str]]] = [
    ("SELECT a FROM e", ["SELECT 1 FROM e WHERE a > 1"], []),
    ("SELECT a FROM e", ["SELECT 1 FROM e", "SELECT 1 FROM u WHERE c = 1"], []),
    ("SELECT a FROM e", [], ["SELECT 1 FROM e WHERE b = 2"]),
    ("SELECT a FROM e", [], ["SELECT 1 FROM u"]),
    ("SELECT e.a, u.c FROM e JOIN u ON e.a = u.a", ["SELECT 1 FROM e, u"], ["SELECT 1 FROM r WHERE x = 1"]),
    ("SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.a = s.a)", ["SELECT 1 FROM e WHERE a = 2"], []),
    ("SELECT a FROM e", ["SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM u WHERE a = 1)"], []),
    ("SELECT k, x FROM r", ["SELECT 1 FROM r WHERE k = 1"], []),
    ("SELECT k, x FROM r", [], ["SELECT 1 FROM r WHERE k = 1 AND x = 2"]),
    ("SELECT a FROM e GROUP BY a HAVING count(*) > 1", ["SELECT 1 FROM e WHERE a = 3"], []),
    ("SELECT a, b FROM e", [key("e", "a")], []),
    ("SELECT a, b FROM e", [key("e", "a", "b")], ["SELECT 1 FROM u"]),
    ("SELECT a FROM e EXCEPT SELECT a FROM u", [key("e", "a"), denial("SELECT 1 FROM e, u WHERE e.b = u.c")], []),
]


def conditional_answers(
    database: Database, seed: int, queries: list[tuple[str, list[str | Evidence], list[str]]]
) -> list[tuple[float, dict[Row, float]]]:
    """For each: the probability of the evidence, and that of each answer given it."""
    found: list[tuple[list[float], dict[Row, float]]] = [([], defaultdict(float)) for _ in queries]
    for weight in played(database, random_world(seed)):
        for (sql, given, given_not), (evidence, answers) in zip(queries, found, strict=True):
            known = [entry if isinstance(entry, Evidence) else Evidence(entry) for entry in given]
            known += [Evidence(entry, holds=False) for entry in given_not]
            if all(bool(database.ask(entry.sql)) == entry.holds for entry in known):
                evidence.append(weight)
                for row in {tuple(plain(v) for v in row) for row in database.ask(sql)}:
                    answers[row] += weight
    return [(sum(e), {row: p / sum(e) for row, p in a.items()} if e else {}) for e, a in found]


@pytest.mark.parametrize(
    ("kind", "seed"), [("sqlite", 1), ("sqlite", 2), ("sqlite", 5), ("duckdb", 2), ("postgres", 1)]
)
def test_answers_given_evidence_are_those_of_its_worlds(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    database = Database(kind, request.getfixturevalue("address") if kind == "postgres" else None)
    world = random_world(seed)
    create(database, world)
    db = declared(database, world)
    got: list[dict[Row, float] | None] = []
    for sql, given, given_not in CASES:
        try:
            got.append(counted_answers(db, sql, given=given, given_not=given_not))
        except SQLError as error:
            assert "impossible" in str(error), sql
            got.append(None)
    want = conditional_answers(database, seed, CASES)
    database.close()
    assert any(entry is not None for entry in got)
    for case, mine, (weight, right) in zip(CASES, got, want, strict=True):
        assert (mine is None) == (weight == 0.0), case
        assert mine is None or not differences(mine, right), (case, differences(mine, right))


@pytest.fixture
def small() -> ProbDB:
    database = Database("sqlite")
    database.run("CREATE TABLE t (id integer, v integer, p double precision)")
    database.run("INSERT INTO t VALUES (1, 10, 0.5), (1, 11, 0.5), (2, 20, 0.25), (NULL, 1, 0.5), (NULL, 2, 0.5)")
    db = connect(database.connection)
    db.uncertain("t", prob="p")
    return db


def test_a_key_leaves_null_alone(small: ProbDB) -> None:
    found = small.sql("SELECT v FROM t ORDER BY v", given=key("t", "id"))
    assert found.prob.tolist() == pytest.approx([0.5, 0.5, 1 / 3, 1 / 3, 0.25])


def test_evidence_of_a_block_of_code(small: ProbDB) -> None:
    with small.given("SELECT 1 FROM t WHERE v = 10"), small.given(given_not="SELECT 1 FROM t WHERE v = 11"):
        assert small.sql("SELECT v FROM t WHERE id = 1").prob.tolist() == pytest.approx([1.0, 0.0])
    assert small.sql("SELECT v FROM t WHERE id = 1").prob.tolist() == [0.5, 0.5]


def test_impossible_evidence_is_an_error(small: ProbDB) -> None:
    for given in ("SELECT 1 FROM t WHERE v = 99", ["SELECT 1 FROM t WHERE v = 1", denial("SELECT 1 FROM t")]):
        with pytest.raises(SQLError, match="the evidence is impossible"):
            small.sql("SELECT v FROM t WHERE id = 2", given=given)


def test_guarantees_given_evidence(small: ProbDB) -> None:
    for guarantee in ("exact", "relative", "additive", "bounds", None):
        found = small.sql("SELECT v FROM t WHERE id = 1", given=key("t", "id"), guarantee=guarantee)
        assert found.prob.tolist() == pytest.approx([1 / 3, 1 / 3])
        assert set(found.counts.guarantee) <= ({"exact"} if guarantee in ("exact", None) else {"exact", "relative"})


def test_thresholds_given_evidence(small: ProbDB) -> None:
    found = small.sql("SELECT v FROM t HAVING prob() > 0.4", given=key("t", "id"))
    assert sorted(found.arrow().column("v").to_pylist()) == [1, 2]


def test_what_evidence_may_be(small: ProbDB) -> None:
    with pytest.raises(TypeError, match="evidence is SQL"):
        small.sql("SELECT v FROM t", given=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one column"):
        key("t")
