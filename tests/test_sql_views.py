"""What a CREATE VIEW statement says."""

from __future__ import annotations

import pytest

from sharpdnf.sql.backends.dialect import DUCKDB
from sharpdnf.sql.backends.views import names_relations, parse_view


@pytest.mark.parametrize(
    ("statement", "select", "labels"),
    [
        ("CREATE VIEW v AS SELECT a FROM t;", "SELECT a FROM t", None),
        ("CREATE VIEW v (x, y) AS\nSELECT a AS b, c FROM t", "SELECT a AS b, c FROM t", ("x", "y")),
        ("CREATE OR REPLACE VIEW s.v AS (SELECT 1 AS one)", "(SELECT 1 AS one)", None),
        ("this is no statement (", "this is no statement (", None),
    ],
)
def test_the_select_is_kept_as_written(statement: str, select: str, labels: tuple[str, ...] | None) -> None:
    assert parse_view(statement, DUCKDB) == (select, labels)


def test_names_without_a_schema_mean_something_else_elsewhere() -> None:
    assert names_relations("CREATE VIEW v AS SELECT a FROM t")
    assert names_relations("CREATE VIEW v AS SELECT a FROM s.t")
    assert not names_relations("CREATE VIEW v AS SELECT a FROM c.s.t")
    assert names_relations("what cannot be read (")
