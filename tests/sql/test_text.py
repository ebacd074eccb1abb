"""Parsing: every operand in parentheses, and the part of a text that the database is asked about."""

from __future__ import annotations

import pytest
from pairs import SQLPair, pairs

from sharpdnf.sql.backends.dialect import DUCKDB, POSTGRES, SQLITE
from sharpdnf.sql.parse.faithful import standing
from sharpdnf.sql.parse.text import parsed, written_back

DIALECTS = {dialect.name: dialect for dialect in (DUCKDB, SQLITE, POSTGRES)}


@pytest.mark.parametrize("pair", pairs("text.sql"))
def test_how_a_text_is_grouped(pair: SQLPair) -> None:
    dialect = DIALECTS[pair.kind]
    assert written_back(parsed(pair.before, dialect)[0], dialect) == pair.after


@pytest.mark.parametrize("pair", pairs("standing.sql"))
def test_what_the_database_reads(pair: SQLPair) -> None:
    assert standing(pair.before, DIALECTS[pair.kind]).strip() == pair.after
