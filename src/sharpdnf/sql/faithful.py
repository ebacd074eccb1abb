"""Whether the parser reads a query as the database does, by asking the database.

The parser's tree is written back with parentheses around every operand, so that the text can be grouped in one way
only, and the database says what it makes of that text and of the user's: DuckDB its parse tree, SQLite its program,
PostgreSQL its plan. If they differ, the query is refused. No list of operators is involved, so none can be incomplete.
The rewriter works on the tree with the parentheses: no part of it can be grouped otherwise later.

Functions stay what the user called them: the parser is not told what any name means, so it replaces none by another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Dialect, DuckDB, Postgres, SQLite
from sqlglot.errors import ErrorLevel
from sqlglot.parser import Parser
from sqlglot.tokens import TokenType

from sharpdnf.errors import SQLError
from sharpdnf.sql.allowed import refuse, tokens_of
from sharpdnf.sql.catalog import Catalog

LABEL = "sharpdnf_label"
"""Where an item of a select list keeps its text from before the parentheses."""


SPECIAL = frozenset(["CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY"])
"""Functions with a syntax of their own."""


def _special(parser: type[Parser]) -> dict[str, Any]:
    return {name: parse for name, parse in parser.FUNCTION_PARSERS.items() if name in SPECIAL}


def _no_parentheses(parser: type[Parser]) -> dict[str, Any]:
    return {name: parse for name, parse in parser.NO_PAREN_FUNCTION_PARSERS.items() if name != "IF"}


def _same_path(self: Dialect, path: exp.Expression | None) -> exp.Expression | None:
    return path


class _Plain:
    """What the three parsers below have in common: calls, joins, IS NOT and intervals stay as they are written."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    JOINS_HAVE_EQUAL_PRECEDENCE = False  # or a comma becomes CROSS JOIN, which SQLite does not reorder

    def _parse_is(self, this: exp.Expression | None) -> exp.Expression | None:
        """``x IS NOT y`` as one operator, which in SQLite it is; the parser would make NOT (x IS y) of it."""
        found: exp.Expression | None = super()._parse_is(this)  # type: ignore[misc]
        if isinstance(found, exp.Not) and isinstance(found.this, exp.Is) and not found.this.args.get("negate"):
            found.this.set("negate", True)
            return found.this.pop()
        return found

    def _negate_range(self, this: exp.Expression | None = None) -> exp.Expression | None:
        """``x NOT NULL`` likewise."""
        if isinstance(this, exp.Is) and not this.args.get("negate"):
            this.set("negate", True)
            return this
        found: exp.Expression | None = super()._negate_range(this)  # type: ignore[misc]
        return found

    def _parse_interval_span(self, this: exp.Expression, *args: Any, **options: Any) -> exp.Expression:
        """INTERVAL '1 day' with its text as it stands; the parser would make INTERVAL '1' DAY of it."""
        value, start = this.copy(), self._index  # type: ignore[attr-defined]
        found: exp.Expression = super()._parse_interval_span(this, *args, **options)  # type: ignore[misc]
        unit = found.args.get("unit") if self._index > start else None  # type: ignore[attr-defined]
        return exp.Interval(this=value, unit=unit)


class _ReadDuckDB(DuckDB):  # type: ignore[misc]
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, DuckDB.Parser):  # type: ignore[misc]
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _special(DuckDB.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _no_parentheses(DuckDB.Parser)


class _ReadSQLite(SQLite):  # type: ignore[misc]
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, SQLite.Parser):  # type: ignore[misc]
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _special(SQLite.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _no_parentheses(SQLite.Parser)


class _ReadPostgres(Postgres):  # type: ignore[misc]
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, Postgres.Parser):  # type: ignore[misc]
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _special(Postgres.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _no_parentheses(Postgres.Parser)


READERS: dict[str, type[Dialect]] = {"duckdb": _ReadDuckDB, "sqlite": _ReadSQLite, "postgres": _ReadPostgres}


def parsed(sql: str, dialect: str) -> list[exp.Expression]:
    """The statements of a text, with parentheses around every operand; the parser's own errors."""
    statements = [s for s in sqlglot.parse(sql, dialect=READERS.get(dialect, dialect)) if s is not None]
    for statement in statements:
        for select in statement.find_all(exp.Select):
            for item in select.expressions:
                if not isinstance(item, exp.Alias | exp.Column | exp.Star):
                    item.meta[LABEL] = item.sql(dialect)
        parenthesise(statement)
        balance(statement)
    return statements


WHOLE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Query, exp.Exists,
    exp.Any, exp.All, exp.Anonymous, exp.Star, exp.Var, exp.DataType, exp.Dot, exp.JSON, exp.JSONPath, exp.Placeholder,
    exp.Parameter, exp.Values,
)  # fmt: skip
"""Operands that are written as one name, constant, call or parenthesis."""
UNTOUCHED = (exp.Paren, exp.Dot, exp.PropertyEQ, exp.Kwarg, exp.Alias)
"""Binary or unary to the parser, but no operators."""


def operands(node: exp.Expression) -> Iterator[exp.Expression]:
    """The operands of an operator; nothing for other nodes."""
    if isinstance(node, UNTOUCHED):
        return
    if isinstance(node, exp.Binary):
        names: tuple[str, ...] = ("expression",) if isinstance(node, exp.Escape) else ("this", "expression")
    elif isinstance(node, exp.Between):
        names = ("this", "low", "high")
    elif isinstance(node, exp.AtTimeZone):
        names = ("this", "zone")
    elif isinstance(node, exp.Unary | exp.In | exp.Bracket):
        names = ("this",)
    else:
        return
    for name in names:
        child = node.args.get(name)
        if isinstance(child, exp.Expression) and not isinstance(child, WHOLE):
            yield child


def parenthesise(tree: exp.Expression) -> None:
    """Puts every operand of an operator into parentheses; only a chain of ANDs or of ORs goes without."""
    for node in list(tree.walk()):
        for child in operands(node):
            if isinstance(node, exp.And | exp.Or) and type(child) is type(node):
                continue
            name = child.arg_key
            node.set(name, exp.Paren(this=child))


def balance(tree: exp.Expression) -> None:
    """Makes long chains of AND or of OR balanced trees, which are written as they were: a tree of 1,000 levels is more
    than Python's recursion takes."""
    for root in list(tree.find_all(exp.And, exp.Or)):
        if type(root.parent) is type(root):
            continue
        leaves = list(root.flatten(unnest=False))
        if len(leaves) > 8:
            kind, half = type(root), len(leaves) // 2
            root.set("this", _joined(kind, leaves[:half]))
            root.set("expression", _joined(kind, leaves[half:]))


def _joined(kind: type[exp.Connector], leaves: list[exp.Expression]) -> exp.Expression:
    while len(leaves) > 1:
        pairs = [kind(this=a, expression=b) for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = pairs + leaves[len(leaves) - len(leaves) % 2 :]
    return leaves[0]


def written_back(tree: exp.Expression, dialect: str) -> str:
    """The text of a tree."""
    if tree.find(exp.TableSample) is not None:
        refuse("sampling (TABLESAMPLE, USING SAMPLE)", "it draws other rows from call to call")
    try:
        written: str = _bare_values(tree).sql(dialect, unsupported_level=ErrorLevel.RAISE)
        tokens_of(written, dialect)
    except Exception as error:  # of a parser that fails anywhere
        refuse("the query", f"the SQL parser cannot write it back: {error}")
    return written


def _bare_values(tree: exp.Expression) -> exp.Expression:
    """VALUES where the parser has SELECT * FROM (VALUES ...) AS _values for it."""
    if tree.find(exp.Values) is None:
        return tree
    tree = tree.copy()
    for values in list(tree.find_all(exp.Values)):
        start = values.parent
        select = start.parent if isinstance(start, exp.From) else None
        if not isinstance(select, exp.Select) or select.parent is None or values.alias != "_values":
            continue
        if [name for name, value in select.args.items() if value] == ["expressions", "from_"]:
            values.set("alias", None)
            select.replace(values)
    return tree


def check_faithful(sql: str, written: str, catalog: Catalog) -> None:
    """Refuses a text that the database reads otherwise than what the parser wrote back for it."""
    before, after = (standing(text, catalog.dialect) for text in (sql, written))
    if before == after:
        return
    ours, theirs = catalog.readings(before, after)
    if ours is None:
        raise SQLError(f"the database cannot read {before[:200]!r}")
    if ours != theirs:
        if theirs is not None and catalog.dialect == "duckdb" and duck_tree(str(ours)) == duck_tree(str(theirs)):
            return
        refuse("the query as it stands", f"the SQL parser reads it otherwise than the database, as {after[:300]!r}; "
               "put parentheses, or write it in another way")  # fmt: skip


def standing(sql: str, dialect: str) -> str:
    """The text as the database can read it: without our own functions.

    HAVING prob() and ORDER BY prob() are cut off with what follows them, which is for us to read; an expected value
    becomes a count.
    """
    tokens = tokens_of(sql, dialect)
    called = [
        i for i, token in enumerate(tokens[:-1]) if tokens[i + 1].token_type is TokenType.L_PAREN
        and token.text.lower() in ("prob", "expected_count", "expected_sum")
    ]  # fmt: skip
    if not called:
        return sql.strip().rstrip("; \n\t")
    last = max((i for i in called if tokens[i].text.lower() == "prob"), default=-1)
    parts, at, depth = [], 0, 0
    for i, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and i < last and token.token_type in (TokenType.HAVING, TokenType.ORDER_BY):
            parts.append(sql[at : token.start])
            return "".join(parts)
        if i in called and i > last:
            empty = tokens[i + 2].token_type is TokenType.R_PAREN if i + 2 < len(tokens) else False
            parts += [sql[at : token.start], "count"]
            at = token.end + 1
            if empty:
                parts.append("(*)")
                at = tokens[i + 2].end + 1
    return "".join([*parts, sql[at:]]).strip().rstrip("; \n\t")


LOCATIONS = re.compile(r'("query_location(?:_length)?":)\d+')
SAME_FUNCTION = {"^": "**", "pow": "**", "power": "**", "mod": "%", "starts_with": "^@", "abs": "@", "strpos": "instr",
                 "position": "instr"}  # fmt: skip
"""Operators that the parser writes as calls, by what DuckDB lists as one function under several names."""


def without_places(tree: str, usual: bool) -> str:
    """DuckDB's parse tree as text, without the places in the text; ``usual`` tells whether ORDER BY means what it
    means unless somebody sets it."""
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


def duck_tree(text: str) -> Any:
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
        if kind == "VARCHAR":  # whose size DuckDB ignores
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
