"""DuckDB's parse tree of a text, in which ways of writing the same thing are the same."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from sharpdnf.sql.refusal import refuse

LOCATIONS = re.compile(r'("query_location(?:_length)?":)\d+')
SAME_FUNCTION = {"^": "**", "pow": "**", "power": "**", "mod": "%", "starts_with": "^@", "abs": "@", "strpos": "instr",
                 "position": "instr"}  # fmt: skip
"""Operators that the parser writes as calls, by what DuckDB lists as one function under several names."""


def without_places(tree: str, usual: bool) -> str:
    """DuckDB's parse tree as text, without the positions in the query. ``usual`` tells whether the settings of the
    connection leave the default order of ORDER BY as it is."""
    tree = LOCATIONS.sub(r"\g<1>0", tree)
    if usual:
        tree = tree.replace('"null_order":"ORDER_DEFAULT"', '"null_order":"NULLS LAST"')
        tree = tree.replace('"type":"ORDER_DEFAULT"', '"type":"ASCENDING"')
    return tree


@cache
def type_names() -> dict[str, str]:
    """DuckDB's names of types, each with the type that it stands for."""
    import duckdb

    with duckdb.connect() as connection:
        return dict(connection.execute("SELECT lower(type_name), logical_type FROM duckdb_types()").fetchall())


def same_tree(text: str) -> Any:
    """DuckDB's parse tree in which ways of writing the same are the same."""
    try:
        return _plain(json.loads(text))
    except RecursionError:
        refuse("the query", "it is nested too deeply")


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, dict):
        return node
    found = {name: _plain(value) for name, value in node.items()}
    name, kind, literal = (found.get(part) for part in ("function_name", "type_name", "literal"))
    if isinstance(name, str) and (name in SAME_FUNCTION or name in SAME_FUNCTION.values()):
        name = SAME_FUNCTION.get(name, name)
        found |= {"function_name": name, "is_operator": False, "qualified_name": {"path": [name]}}
    if kind and len(found["qualified_name"]["path"]) == 1:
        kind = type_names().get(kind.lower(), kind)
        found |= {"type_name": kind, "qualified_name": {"path": [kind]}}
        if kind == "VARCHAR":  # DuckDB ignores the size in VARCHAR(10)
            found["children"] = []
        if kind == "DECIMAL" and [c.get("literal", {}).get("text") for c in found["children"]] == ["18", "3"]:
            found["children"] = []  # which is what it is without
    if isinstance(literal, dict) and literal.get("kind") != "STRING":  # .5 and 0.5, 1_000 and 1000
        digits = str(literal.get("text")).replace("_", "")
        found["literal"] = {**literal, "text": f"0{digits}" if digits.startswith(".") else digits}
    if found.get("class") == "COLUMN_REF":  # CURRENT_DATE is one
        found["column_names"] = [part.lower() for part in found["column_names"]]
    if found.get("type") == "OPERATOR_IS_NOT_NULL":
        return _not({**found, "type": "OPERATOR_IS_NULL"})
    inner = found.get("expr")
    if found.get("class") == "LAMBDA" and isinstance(inner, dict) and inner.get("function_name") == "->>":
        key, *rest = inner["arguments"]  # DuckDB parses x -> 'a' ->> 'b' as x -> ('a' ->> 'b') and binds (x -> 'a') ->>
        first = _plain({**found, "expr": key["expression"]})
        return {**inner, "arguments": [{**key, "expression": first}, *rest]}
    return found


def _not(child: dict[str, Any]) -> dict[str, Any]:
    alias = child.get("alias", "")
    return {"class": "OPERATOR", "type": "OPERATOR_NOT", "alias": alias, "children": [{**child, "alias": ""}]}
