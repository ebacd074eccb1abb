"""The rewriting: a query and the lineage query that it becomes, for each construct."""

from __future__ import annotations

import re

import pytest
from pairs import SQLPair, opened, pairs, readable

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql.bind.query import bind_query, binding
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import Query
from sharpdnf.sql.emit.sql import complete, emit
from sharpdnf.sql.parse.text import parse_select
from sharpdnf.sql.rewrite.query import rewrite_query, rewriting


@pytest.mark.parametrize("pair", pairs("rewrite.sql"))
def test_what_a_query_becomes(pair: SQLPair) -> None:
    with opened(pair.kind) as db:
        tree = parse_select(pair.before, db.backend.dialect, "the query")
        context = binding(Tables(db.backend, db.declared.uncertain(), tree))
        query: Query = bind_query(context, tree, Environment(), None)
        if pair.after.startswith("refused: "):
            assert not query.positive
            with pytest.raises(UnsupportedSQL, match=re.escape(pair.after.removeprefix("refused: "))):
                rewrite_query(rewriting(context), query)
            return
        assert query.positive
        passes = rewriting(context)
        rows = rewrite_query(passes, query)
        sql = complete(emit(rows.selects), passes.all_ctes()).sql(db.backend.dialect.name)
        assert readable(sql, db) == " ".join(pair.after.split())
