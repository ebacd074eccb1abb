"""Text -> tree: one SELECT, with parentheses around every operand and every call under the name the user gave it.

The parser's tree is written back with parentheses around every operand, so that the text can be grouped in one way
only; the rewriter works on that tree, so no part of it can be grouped otherwise later. The parser is not told what any
function name means, so it replaces none by another. Whether the database reads the text as the parser does is asked
in ``faithful.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect as Grammar
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parser import Parser

from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.sql.backends.dialect import Dialect, tokens_of
from sharpdnf.sql.refusal import refuse

if TYPE_CHECKING:
    _Base = Parser
else:
    _Base = object

LABEL = "sharpdnf_label"
"""Where an item of a select list keeps its text from before the parentheses."""


INSTEAD = {
    "PIVOT": ": write SELECT * FROM t PIVOT (count(x) FOR y IN (1, 2))",
    "INSERT": ": ask the SELECT in it, and insert the answers",
    "CREATE": ": ask the SELECT in it, and store the answers",
    "UPDATE": ": run it on your own connection; the next query sees what it did",
    "DELETE": ": run it on your own connection; the next query sees what it did",
}
"""What to do where a statement is no SELECT."""

Readers = dict[str, Callable[..., exp.Expr | None]]
"""By the name of a function: what reads its call, handed the parser."""
SPECIAL = frozenset(["CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY"])
"""Functions with a syntax of their own."""


def _special(parser: type[Parser]) -> Readers:
    return {name: parse for name, parse in parser.FUNCTION_PARSERS.items() if name in SPECIAL}


def _no_parentheses(parser: type[Parser]) -> Readers:
    return {name: parse for name, parse in parser.NO_PAREN_FUNCTION_PARSERS.items() if name != "IF"}


def _same_path(self: Grammar, path: exp.Expr | None) -> exp.Expr | None:
    return path


class _Plain(_Base):
    """What the parsers below have in common: calls, joins, IS NOT and intervals stay as they are written."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    JOINS_HAVE_EQUAL_PRECEDENCE = False  # or a comma becomes CROSS JOIN, which SQLite does not reorder

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        """``x IS NOT y`` as one operator, which in SQLite it is; the parser would make NOT (x IS y) of it."""
        found: exp.Expr | None = super()._parse_is(this)
        if isinstance(found, exp.Not) and isinstance(found.this, exp.Is) and not found.this.args.get("negate"):
            found.this.set("negate", True)
            return found.this.pop()
        return found

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """``x NOT NULL`` likewise."""
        if isinstance(this, exp.Is) and not this.args.get("negate"):
            this.set("negate", True)
            return this
        found: exp.Expr | None = super()._negate_range(this)
        return found

    def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
        """INTERVAL '1 day' with its text as it stands; the parser would make INTERVAL '1' DAY of it."""
        value, start = this.copy(), self._index
        found = super()._parse_interval_span(this, parse_function_unit)
        unit = found.args.get("unit") if self._index > start else None
        return exp.Interval(this=value, unit=unit)


class _ReadDuckDB(DuckDB):
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, DuckDB.Parser):  # type: ignore[misc, valid-type]
        FUNCTION_PARSERS: ClassVar[Readers] = _special(DuckDB.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Readers] = _no_parentheses(DuckDB.Parser)


class _ReadSQLite(SQLite):
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, SQLite.Parser):  # type: ignore[misc, valid-type]
        FUNCTION_PARSERS: ClassVar[Readers] = _special(SQLite.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Readers] = _no_parentheses(SQLite.Parser)


class _ReadPostgres(Postgres):
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, Postgres.Parser):  # type: ignore[misc, valid-type]
        FUNCTION_PARSERS: ClassVar[Readers] = _special(Postgres.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Readers] = _no_parentheses(Postgres.Parser)


class _ReadSpark(Spark):
    NORMALIZE_NOT_NULL = False
    to_json_path = _same_path

    class Parser(_Plain, Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTION_PARSERS: ClassVar[Readers] = _special(Spark.Parser)
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Readers] = _no_parentheses(Spark.Parser)


READERS: dict[str, type[Grammar]] = {
    "duckdb": _ReadDuckDB,
    "sqlite": _ReadSQLite,
    "postgres": _ReadPostgres,
    "spark": _ReadSpark,
}


def parsed(sql: str, dialect: Dialect) -> list[exp.Expr]:
    """The statements of a text, with parentheses around every operand; the parser's own errors."""
    statements = [s for s in sqlglot.parse(sql, dialect=READERS[dialect.name]) if s is not None]
    for statement in statements:
        for select in statement.find_all(exp.Select):
            for item in select.expressions:
                if not isinstance(item, exp.Alias | exp.Column | exp.Star):
                    item.meta[LABEL] = item.sql(dialect.name)
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


def operands(node: exp.Expr) -> Iterator[exp.Expr]:
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
        if isinstance(child, exp.Expr) and not isinstance(child, WHOLE):
            yield child


def parenthesise(tree: exp.Expr) -> None:
    """Puts every operand of an operator into parentheses; only a chain of ANDs or of ORs goes without."""
    for node in list(tree.walk()):
        for child in operands(node):
            if isinstance(node, exp.And | exp.Or) and type(child) is type(node):
                continue
            name = child.arg_key
            assert name is not None, "it is an operand of the node"
            node.set(name, exp.Paren(this=child))


def balance(tree: exp.Expr) -> None:
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


def _joined(kind: type[exp.Connector], leaves: list[exp.Expr]) -> exp.Expr:
    while len(leaves) > 1:
        pairs = [kind(this=a, expression=b) for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = pairs + leaves[len(leaves) - len(leaves) % 2 :]
    return leaves[0]


def written_back(tree: exp.Expr, dialect: Dialect) -> str:
    """The text of a tree."""
    if tree.find(exp.TableSample) is not None:
        refuse(
            "sampling (TABLESAMPLE, USING SAMPLE)",
            "it draws other rows from call to call; ask for WHERE key % 10 = 0, or declare smaller probabilities",
        )
    try:
        written: str = _bare_values(tree).sql(dialect.name, unsupported_level=ErrorLevel.RAISE)
        tokens_of(written, dialect)
    except Exception as error:  # of a parser that fails anywhere
        refuse("the query", f"the SQL parser cannot write it back: {error}")
    return written


def _bare_values(tree: exp.Expr) -> exp.Expr:
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


def parse_select(sql: str, dialect: Dialect, what: str) -> exp.Query:
    """One SELECT or set operation (of a view: what it was created as); anything else is refused."""
    try:
        statements = parsed(sql, dialect)
    except SqlglotError as error:
        first = str(error).replace("\x1b[4m", "").replace("\x1b[0m", "")
        raise SQLError(f"cannot parse {what}: {first}") from None
    except RecursionError:
        raise SQLError(f"cannot parse {what}: it is nested too deeply") from None
    if len(statements) != 1:
        refuse(f"a text of {len(statements)} statements", f"{what} must be one SELECT: ask one after the other")
    statement = statements[0]
    if isinstance(statement, exp.Create) and what.startswith("the view"):
        statement = statement.expression
    while isinstance(statement, exp.Subquery) and not statement.args.get("alias"):
        if any(v for k, v in statement.args.items() if k != "this"):
            break
        statement = statement.this
    if not isinstance(statement, exp.Select | exp.SetOperation):
        word = statement.name if isinstance(statement, exp.Command) else type(statement).__name__
        raise UnsupportedSQL(f"{what} must be one SELECT, not {word.upper()}{INSTEAD.get(word.upper(), '')}")
    return statement
