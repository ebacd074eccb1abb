"""Binding: which column a name means, which uncertain tables a query reads, and whether it is positive."""

from __future__ import annotations

import re

import pytest
from pairs import SQLPair, opened, pairs

from sharpdnf.errors import SQLError
from sharpdnf.sql.bind.query import bind_query, binding
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import All, AnyOf, Certain, Condition, Member, Not, Plain, Query, Select
from sharpdnf.sql.parse.text import parse_select


def shown(query: Query) -> str:
    """The tree in one line: items, condition, then what it reads and whether it is positive."""
    mark = f"reads {', '.join(sorted(key[-1] for key in query.reads)) or 'nothing'}"
    return f"{outline(query)} {mark}{'' if query.positive else ', not positive'}"


def outline(query: Query) -> str:
    if isinstance(query, Certain):
        return "certain"
    if not isinstance(query, Select):
        return f"({f' {query.kind} '.join(outline(side) for side in query.sides)})"
    items = ", ".join(f"{item.label}={item.expression.sql()}" for item in query.items)
    where = f" where {condition(query.where)}" if query.where is not None else ""
    return f"[{items}{where}]".replace('"', "")


def condition(node: Condition) -> str:
    if isinstance(node, Plain):
        return node.expression.sql()
    if isinstance(node, Not):
        return f"not {condition(node.part)}"
    if isinstance(node, Member):
        left = "".join(f"{value.sql()} " for value in node.left)
        return f"{left}{node.word}{' correlated' if node.correlated else ''} {outline(node.query)}"
    assert isinstance(node, All)
    return f"({(' or ' if isinstance(node, AnyOf) else ' and ').join(condition(part) for part in node.parts)})"


@pytest.mark.parametrize("pair", pairs("bind.sql"))
def test_what_names_mean(pair: SQLPair) -> None:
    with opened(pair.kind) as db:
        tree = parse_select(pair.before, db.backend.dialect, "the query")
        context = binding(Tables(db.backend, db.declared.uncertain(), tree))
        if pair.after.startswith("refused: "):
            with pytest.raises(SQLError, match=re.escape(pair.after.removeprefix("refused: "))):
                bind_query(context, tree, Environment(), None)
            return
        assert shown(bind_query(context, tree, Environment(), None)) == " ".join(pair.after.split())
