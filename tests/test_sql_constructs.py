"""The inventory of the hand-written queries: every construct has some on every database that knows it.

Other modules run them against the worlds; here they are only counted, so that what is claimed about them can fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from sql_negations import ABSENCE
from sql_negations import AGGREGATES as CONDITIONS
from sql_servers import BACKENDS
from sql_shapes import SHAPES
from sql_world_shapes import WORLD_SHAPES
from test_sql_closed import SHAPES as DISTRIBUTIONS
from test_sql_evidence import CASES as EVIDENCE
from test_sql_world_evidence import ASKED as WORLD_EVIDENCE


class Construct(NamedTuple):
    name: str
    pattern: str
    lacks: tuple[str, ...] = ()
    """The databases that do not have it."""
    least: int = 3


CALL = r"(?:count|sum|avg|min|max)"
CONSTRUCTS = [
    Construct("windows", r"\bOVER\b", least=15),
    Construct("QUALIFY", r"\bQUALIFY\b", ("sqlite", "postgres")),
    Construct("recursion", r"\bRECURSIVE\b", least=6),
    Construct("LIMIT", r"\bLIMIT\b|FETCH FIRST", least=8),
    Construct("DISTINCT ON", r"DISTINCT ON", ("sqlite",)),
    Construct("LATERAL", r"\bLATERAL\b", ("sqlite",)),
    Construct("UNNEST", r"unnest|generate_series|json_each"),
    Construct("string_agg", r"string_agg|group_concat"),
    Construct("list aggregates", r"\blist\(|array_agg|json_group_array"),
    *(
        Construct(f"{name} in HAVING", rf"HAVING.*\b{name}\(")
        for name in ("count", "sum", "avg", "min", "max")
    ),
    *(
        Construct(f"{name} in WHERE", rf"(?:WHERE|AND|OR|ON)[^()]*\(SELECT {name}\(")
        for name in ("count", "sum", "avg", "min", "max")
    ),
    Construct("COUNT DISTINCT in HAVING", r"HAVING.*count\(DISTINCT "),
    Construct("COUNT DISTINCT in WHERE", r"WHERE[^()]*\(SELECT count\(DISTINCT "),
    Construct("aggregates compared with each other", rf"HAVING.*\b{CALL}\([^)]*\) (?:[<>=]+|-) (?:\d \* )?{CALL}\("),
    Construct("bool_and and bool_or", r"bool_and|bool_or", ("sqlite",)),
    Construct("ALL", r"[=<>] ALL \(", ("sqlite",)),
    Construct("ANY", r"[=<>] ANY \(", ("sqlite",)),
    Construct("NOT IN over uncertain rows", r"NOT IN \(SELECT .* FROM [eur]\b", least=8),
    Construct("LEFT JOIN of uncertain rows", r"LEFT JOIN (?:LATERAL )?\(?(?:e|u|r|ve|SELECT)\b", least=8),
    Construct("RIGHT JOIN", r"RIGHT JOIN"),
    Construct("FULL JOIN", r"FULL JOIN"),
    Construct("EXCEPT", r"\bEXCEPT\b(?! ALL)", least=8),
    Construct("EXCEPT ALL and INTERSECT ALL", r"(?:EXCEPT|INTERSECT) ALL", ("sqlite",)),
    Construct("INTERSECT", r"\bINTERSECT\b(?! ALL)", least=5),
    Construct("negation inside negation", r"NOT (?:EXISTS|IN|\().*NOT (?:EXISTS|IN|\()", least=6),
    Construct("scalar subqueries in the select list", r"^SELECT (?:[\w.*]+, |[^,]+ \+ )?\(SELECT"),
    Construct("boolean subqueries in the select list",
              r"^SELECT (?:\w+, )?(?:CASE WHEN .*|NOT )?(?:EXISTS|\w+ (?:NOT )?IN) \(SELECT"),
    Construct("blocks", r"\bFROM r\b|JOIN r\b|, r\b", least=15),
    Construct("aggregates as rows", rf"^SELECT [^()]*\b{CALL}\([^()]*\)", least=10),
    Construct("FILTER", r"FILTER \("),
    Construct("views", r"\bv[evs]\b", least=5),
    Construct("common table expressions", r"^WITH (?!RECURSIVE)", least=5),
    Construct("VALUES", r"VALUES"),
]  # fmt: skip


def shapes(kind: str) -> Iterator[str]:
    """The different queries that are compared with the worlds on a database."""
    yield from dict.fromkeys(s.sql for s in (*SHAPES, *ABSENCE, *CONDITIONS, *WORLD_SHAPES) if kind in s.on)


@pytest.mark.parametrize("kind", BACKENDS)
def test_there_are_enough_queries(kind: str) -> None:
    assert len(list(shapes(kind))) >= 150


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_every_construct_is_among_them(construct: Construct, kind: str) -> None:
    found = [sql for sql in shapes(kind) if re.search(construct.pattern, sql)]
    if kind in construct.lacks:
        assert not found
        pytest.skip(f"{kind} has no {construct.name}")
    assert len(found) >= construct.least, found


@pytest.mark.parametrize("kind", BACKENDS)
def test_distributions_and_evidence(kind: str) -> None:
    assert len([sql for sql, on in DISTRIBUTIONS if kind in on]) >= 8
    assert len(EVIDENCE) >= 12 and len(WORLD_EVIDENCE) >= 4
