"""The white list: which constructs have a sound lineage. What is not listed is refused, never passed through."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects import Dialect
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import Token, TokenType

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql.catalog import Catalog, Functions


def refuse(construct: str, why: str) -> NoReturn:
    raise UnsupportedSQL(f"{construct} is not supported: {why}")


# Arguments of the structural nodes that the rewriter reads. Any other argument that is set is a construct it does
# not know (QUALIFY, PIVOT, SAMPLE, LATERAL, hints, locks, ...).
STRUCTURE: dict[type[exp.Expression], frozenset[str]] = {
    exp.Select: frozenset(
        ["expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_"]
    ),
    exp.SetOperation: frozenset(["this", "expression", "distinct", "with_", "order", "limit", "offset"]),
    exp.Subquery: frozenset(["this", "alias", "with_"]),
    exp.Table: frozenset(["this", "db", "catalog", "alias", "joins"]),
    exp.TableAlias: frozenset(["this", "columns"]),
    exp.Join: frozenset(["this", "on", "using", "side", "kind", "method"]),
    exp.With: frozenset(["expressions", "recursive"]),
    exp.CTE: frozenset(["this", "alias", "materialized"]),
    exp.Group: frozenset(["expressions", "all"]),
    exp.In: frozenset(["this", "expressions", "query"]),
    exp.Star: frozenset(["except_"]),
    exp.Ordered: frozenset(["this", "desc", "nulls_first"]),
    exp.Column: frozenset(["this", "table", "db", "catalog"]),
}
ARGUMENT_NAMES = {
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "sample": "sampling (TABLESAMPLE)",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "only": "ONLY",
    "fetch": "FETCH",
    "locks": "FOR UPDATE",
    "by_name": "UNION BY NAME",
    "ordinality": "WITH ORDINALITY",
    "replace": "* REPLACE",
    "rename": "* RENAME",
    "join_mark": "(+)",
}

EXPRESSIONS: frozenset[type[exp.Expression]] = frozenset(
    {
        exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Var,
        exp.And, exp.Or, exp.Not, exp.Xor, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
        exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Between, exp.In, exp.Like, exp.ILike, exp.SimilarTo,
        exp.RegexpLike, exp.RegexpILike, exp.Glob, exp.Escape, exp.Exists, exp.Any, exp.All,
        exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.BitwiseAnd, exp.BitwiseOr,
        exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.DPipe, exp.Concat,
        exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Collate,
        exp.AtTimeZone, exp.Bracket, exp.Array, exp.Slice, exp.JSONPath, exp.JSONPathRoot, exp.JSONPathKey,
        exp.JSONPathSubscript, exp.Anonymous, exp.Values,
    }
)  # fmt: skip
FORBIDDEN_FUNCTIONS: tuple[type[exp.Expression], ...] = (
    exp.UDTF, exp.Explode, exp.Unnest, exp.Rand, exp.Randn, exp.Uuid, exp.GenerateSeries, exp.Columns, exp.Lambda,
)  # fmt: skip
NOT_FUNCTIONS = frozenset(
    {
        "and", "or", "not", "in", "exists", "any", "all", "some", "values", "as", "on", "using", "from", "join",
        "select", "where", "union", "over", "except", "exclude", "is", "when", "then", "else", "having",
        "between",
    }
)  # fmt: skip
"""Words that stand before a parenthesis and need not call anything."""
SYNONYMS = {
    "ifnull": "coalesce", "instr": "strpos", "position": "strpos", "list_contains": "array_contains",
    "pow": "power", "substr": "substring", "numeric": "decimal",
}  # fmt: skip
"""Names that the parser exchanges and the databases treat alike, by test."""
NOTATIONS = frozenset(["cast", "power", "if", "regexp_matches", "starts_with", "case", "count"])
"""Calls that also have an operator or keyword form: x::int, 2 ^ 3, ..."""
SIZED = frozenset(
    ["char", "character", "varying", "varchar", "bpchar", "nchar", "nvarchar", "text", "decimal", "numeric"]
)
"""Types with a size that the parser may write out or leave out, as the databases do."""
CONSTANTS = frozenset([TokenType.NUMBER, TokenType.STRING, TokenType.HEREDOC_STRING])
TABLE_FUNCTIONS = frozenset(
    [
        "range",
        "generate_series",
        "read_parquet",
        "parquet_scan",
        "read_csv",
        "read_csv_auto",
        "read_json",
        "read_json_auto",
        "read_ndjson",
        "pandas_scan",
        "arrow_scan",
        "python_arrow_scan",
    ]
)
"""Table functions that only read files, frames or numbers, so they cannot hide an uncertain table."""
PROBABILITY_FUNCTIONS = frozenset({"prob", "expected_count", "expected_sum"})


def check_structure(node: exp.Expression) -> None:
    """Refuses a structural node with an argument that the rewriter does not read."""
    known = next((STRUCTURE[kind] for kind in type(node).__mro__ if kind in STRUCTURE), None)
    if known is None:
        refuse(type(node).__name__.upper(), "the rewriter does not know it")
    for name, value in node.args.items():
        if value and name not in known:
            label = ARGUMENT_NAMES.get(name, f"{name.rstrip('_').upper()} of {type(node).__name__.upper()}")
            refuse(label, "its lineage is not defined here")


def check_expression(node: exp.Expression, *, aggregates: bool) -> None:
    """Refuses a scalar node outside the white list; ``aggregates`` tells whether only certain rows are aggregated."""
    kind = type(node)
    if kind in EXPRESSIONS:
        return
    if isinstance(node, exp.Window):
        refuse("a window function", "its value depends on which uncertain rows exist")
    if isinstance(node, exp.AggFunc):
        if aggregates:
            return
        refuse(
            f"the aggregate {node.sql_name()}()",
            "over uncertain rows only expected_count() and expected_sum(x), alone in the select list, are defined",
        )
    if isinstance(node, FORBIDDEN_FUNCTIONS):
        refuse(node.sql("duckdb")[:60], "it makes rows or random values")
    if isinstance(node, exp.Func):
        return
    if isinstance(node, exp.Star | exp.Distinct | exp.Order | exp.Ordered) and aggregates:
        return
    refuse(f"{kind.__name__} in {node.sql()[:60]!r}", "the rewriter does not know it")


@lru_cache(maxsize=4)
def tokens_of(sql: str, dialect: str) -> list[Token]:
    """The tokens of a text; the checks below look at the same two texts several times."""
    found: list[Token] = Dialect.get_or_raise(dialect).tokenize(sql)
    return found


def called_names(sql: str, dialect: str) -> list[str]:
    """Lower-case names that stand before a parenthesis, as the tokenizer sees them: no parse tree can hide one."""
    names = []
    for token, following in pairwise(tokens_of(sql, dialect)):
        if following.token_type is TokenType.L_PAREN and (token.text[:1].isalpha() or token.text[:1] == "_"):
            names.append(token.text.lower())
    return names


def check_functions(sql: str, catalog: Catalog) -> None:
    """Refuses volatile functions and the user's own functions, operators and casts, wherever the text calls them."""
    names = frozenset(called_names(sql, catalog.dialect))  # even keywords: a function may be called "in" or over
    for found in sorted(catalog.user_code(names, sql)):
        refuse(f"the user-defined {found}", "it can read tables that the query does not show")
    for name in sorted(names & catalog.functions().volatile):
        refuse(f"{name}()", "its value changes from call to call, so the query has no fixed lineage")


def check_faithful(sql: str, tree: exp.Expression, dialect: str) -> None:
    """Refuses what the parser would write back as other functions, constants or types, which need not mean the same.

    (In SQLite, CAST(x AS DATE) would become date(x) and CAST(x AS NUMERIC) a cast to REAL, in DuckDB format('%s', x)
    would become format('{}', x); all give other values.)
    """
    if tree.find(exp.TableSample) is not None:
        refuse("sampling (TABLESAMPLE, USING SAMPLE)", "it draws other rows from call to call")
    check_grouping(tree, dialect)
    try:
        written = tree.sql(dialect, unsupported_level=ErrorLevel.RAISE)
        tokens_of(written, dialect)
    except Exception as error:  # of a parser that fails anywhere
        refuse("the query", f"the SQL parser cannot write it back: {error}")

    def calls(text: str) -> Counter[str]:
        return Counter(SYNONYMS.get(name, name) for name in called_names(text, dialect))

    before, after = calls(sql), calls(written)
    kept = NOTATIONS | NOT_FUNCTIONS | (set() if dialect == "sqlite" else {"mod", *SIZED})
    changed = [name for names in (before - after, after - before) for name in sorted(names) if name not in kept]
    if changed:  # as the query spells it, if it does
        refuse(f"{changed[0]}() as it stands here", "the SQL parser would replace it by another function")
    tokens = [token.token_type for token in tokens_of(sql, dialect)]
    if any(
        a in (TokenType.ARROW, TokenType.DARROW) and b is TokenType.DCOLON
        for a, b in zip(tokens, tokens[2:], strict=False)
    ):
        refuse("-> 'key'::type", "the SQL parser would cast the value, the database casts the key; put parentheses")
    if plus_signs(sql, dialect) != plus_signs(written, dialect):
        refuse("a + in front of a value", "the SQL parser would leave it out, and in SQLite it takes away the affinity")
    literals = [Counter(constants(text, dialect)) for text in (sql, written)]
    implied = {"0"} if {"range", "generate_series"} & set(before) else set()  # where they start
    changed = sorted(set((literals[0] - literals[1]) + (literals[1] - literals[0])) - implied)
    if changed:
        refuse(f"the constant {changed[0]!r} as it stands here", "the SQL parser would replace it by another one")
    for old, new in zip_longest(cast_types(sql, dialect), cast_types(written, dialect)):
        if dialect == "sqlite" and affinity(old or "") != affinity(new or ""):
            refuse(f"a cast to {old}", f"the SQL parser would replace it by {new}")


def check_grouping(tree: exp.Expression, dialect: str) -> None:
    """Refuses comparisons of comparisons without parentheses, which the parser groups unlike the databases.

    (a = b NOT IN (1, 2) would become a = NOT b IN (1, 2); SQLite reads (a = b) NOT IN (1, 2).)
    """
    for node in tree.find_all(exp.Predicate, exp.Not, exp.Connector, exp.Escape):
        parent = node.parent
        within = isinstance(parent, exp.Predicate | exp.Binary) and not isinstance(parent, exp.Connector | exp.Escape)
        listed = isinstance(parent, exp.In) and node.arg_key != "this"
        if within and not listed and not isinstance(node, exp.SubqueryPredicate | exp.Exists):
            refuse(f"a comparison within another in {parent.sql(dialect)[:60]!r}", "put the inner one in parentheses")
    for node in tree.find_all(exp.JSONExtract, exp.JSONExtractScalar) if dialect == "duckdb" else ():
        parent, first = node.parent, node.arg_key == "this"
        within = isinstance(parent, exp.Binary | exp.Unary | exp.Predicate | exp.Bracket)
        apart = isinstance(parent, exp.Paren) or (isinstance(parent, exp.In) and not first)
        if within and not apart and not (isinstance(parent, exp.JSONExtract | exp.JSONExtractScalar) and first):
            refuse(f"-> within {parent.sql(dialect)[:60]!r}", "DuckDB takes it last; put it in parentheses")
    for node in tree.find_all(exp.Pow):
        if any(isinstance(child, exp.BitwiseNot) for child in node.iter_expressions()):
            refuse(f"~ beside ^ in {node.sql(dialect)[:60]!r}", "put one of them in parentheses")


def plus_signs(sql: str, dialect: str) -> int:
    return sum(token.token_type is TokenType.PLUS for token in tokens_of(sql, dialect))


def constants(sql: str, dialect: str) -> list[str]:
    """The numbers and strings of a text, without those of types and of notations that stand for one another."""
    tokens = tokens_of(sql, dialect)
    found: list[str] = []
    depth = 0  # within the parentheses of a type
    for before, token in pairwise([tokens[0], *tokens]):
        if depth or (token.token_type is TokenType.L_PAREN and before.text.lower() in SIZED):
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        elif token.token_type in CONSTANTS:
            text = "0." * (before.token_type is TokenType.DOT) + token.text.lower()  # .5
            if before.token_type is TokenType.INTERVAL:
                text = text.split()[0] if text.split() else text  # '1 day' and '1' day
            path = re.fullmatch(r"\$\.(\w+)|\$\[(\d+)\]", text)  # x -> 'k' and x -> '$.k'
            text = path[1] or path[2] if path else text
            found.append(repr(float(text)) if re.fullmatch(r"\d*\.\d+|[\d.]+e[+-]?\d+", text) else text)
    return found


def cast_types(sql: str, dialect: str) -> list[str]:
    """The types that a text casts to by CAST(... AS type), in order."""
    found, opened = [], [False]
    tokens = tokens_of(sql, dialect)
    for before, token, after in zip([tokens[0], *tokens], tokens, [*tokens[1:], tokens[-1]], strict=False):
        if token.token_type is TokenType.L_PAREN:
            opened.append(before.text.upper() == "CAST")
        elif token.token_type is TokenType.R_PAREN:
            opened.pop()
        elif token.token_type is TokenType.ALIAS and opened[-1]:
            found.append(after.text.upper())
    return found


def affinity(name: str) -> str:
    """What SQLite makes of a type's name."""
    for part, kind in (("INT", "INTEGER"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"), ("BLOB", "BLOB"),
                       ("REAL", "REAL"), ("FLOA", "REAL"), ("DOUB", "REAL")):  # fmt: skip
        if part in name:
            return kind
    return "NUMERIC"


def check_call(node: exp.Func, dialect: str, functions: Functions) -> None:
    """Refuses aggregates that the parser does not know as such, by what the database says of the name."""
    own = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    for name in (own.lower(), node.sql(dialect).split("(")[0].lower()):
        if name in PROBABILITY_FUNCTIONS:
            refuse(
                f"{name}() here",
                "prob() stands in the outermost HAVING or ORDER BY, expected_count() and expected_sum(x) alone in "
                "the outermost select list",
            )
        if name in functions.aggregates:
            refuse(f"the aggregate {name}()", "its value depends on which uncertain rows exist")


def is_scalar_extreme(node: exp.Expression, dialect: str) -> bool:
    """SQLite's max(a, b) is a scalar function that shares its name with the aggregate."""
    if dialect != "sqlite":
        return False
    return isinstance(node, exp.Greatest | exp.Least) or (
        isinstance(node, exp.Max | exp.Min) and bool(node.expressions)
    )
