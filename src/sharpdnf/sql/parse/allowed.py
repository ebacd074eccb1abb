"""The white list: which constructs have a sound lineage. What is not listed is refused, never passed through."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType, exp

from sharpdnf.sql.backends.dialect import Dialect, tokens_of
from sharpdnf.sql.backends.protocol import Catalog, Functions
from sharpdnf.sql.refusal import refuse

# Arguments of the structural nodes that the rewriter reads. Any other argument that is set is a construct it does
# not know (QUALIFY, PIVOT, SAMPLE, LATERAL, hints, locks, ...).
STRUCTURE: dict[type[exp.Expr], frozenset[str]] = {
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

EXPRESSIONS: frozenset[type[exp.Expr]] = frozenset(
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
FORBIDDEN: tuple[type[exp.Expr], ...] = (exp.UDTF, exp.Explode, exp.Unnest, exp.Columns, exp.Lambda)
ROW_MAKERS = frozenset(["unnest", "explode", "generate_series", "generate_subscripts", "columns"])
"""Functions that make rows or columns of one value."""
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
PROBABILITY_FUNCTIONS = frozenset(
    {"prob", "expected_count", "expected_sum", "expected_avg", "expected_min", "expected_max"}
)
PLACES = (
    "an expected value stands alone in the outermost select list: SELECT g, expected_sum(x) AS s FROM t GROUP BY g",
    "prob() stands in the select list, HAVING, QUALIFY and ORDER BY of the outermost SELECT: instead of WHERE prob() > "
    "0.5 write HAVING prob() > 0.5, and around a UNION or another query SELECT *, prob() FROM (...)",
)
"""Where an expected value and prob() may stand."""


OPEN = (
    "what it gives is not told by the query and its tables, so a world has no one answer: store its values in a table "
    "first, and name the tables that it reads in FROM"
)
"""Why random(), nextval() and functions that run a text are refused."""


def check_structure(node: exp.Expr) -> None:
    """Refuses a structural node with an argument that the rewriter does not read."""
    known = next((STRUCTURE[kind] for kind in type(node).__mro__ if kind in STRUCTURE), None)
    if known is None:
        refuse(type(node).__name__.upper(), "the rewriter does not know it")
    for name, value in node.args.items():
        if value and name not in known:
            label = ARGUMENT_NAMES.get(name, f"{name.rstrip('_').upper()} of {type(node).__name__.upper()}")
            refuse(label, "its lineage is not defined here")


def check_expression(node: exp.Expr, *, aggregates: bool) -> None:
    """Refuses a scalar node outside the white list; ``aggregates`` tells whether only certain rows are aggregated."""
    kind = type(node)
    if isinstance(node, FORBIDDEN) or (isinstance(node, exp.Anonymous) and node.name.lower() in ROW_MAKERS):
        refuse(node.sql("duckdb")[:60], "it makes rows or columns")
    if kind in EXPRESSIONS:
        return
    if isinstance(node, exp.Window):
        refuse("a window function", "its value depends on which uncertain rows exist")
    if isinstance(node, exp.Func) or (isinstance(node, exp.PropertyEQ) and isinstance(node.parent, exp.Struct)):
        return
    if isinstance(node, exp.Star | exp.Distinct | exp.Order | exp.Ordered) and aggregates:
        return
    refuse(f"{kind.__name__} in {node.sql()[:60]!r}", "the rewriter does not know it")


def called_names(sql: str, dialect: Dialect) -> list[str]:
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
    check_volatile(names, catalog)


def check_volatile(names: frozenset[str], catalog: Catalog) -> None:
    """Refuses functions, by their names, whose value changes from call to call."""
    for name in sorted(names & catalog.functions().volatile):
        refuse(f"{name}()", OPEN)


def check_call(node: exp.Func, functions: Functions) -> None:
    """Refuses aggregates, by what the database says of the name, and our own functions where they may not stand."""
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name in PROBABILITY_FUNCTIONS:
        refuse(f"{name}() here", PLACES[name == "prob"])
    if name in functions.row_makers:
        refuse(f"{name}()", "it makes rows or columns")
    if name in functions.aggregates:
        refuse(
            f"the aggregate {name}()",
            "its value depends on which uncertain rows exist; over them only "
            "expected_count() and expected_sum(x), alone in the select list, are defined",
        )


def is_scalar_extreme(node: exp.Expr, dialect: Dialect) -> bool:
    """SQLite's max(a, b) is a scalar function that shares its name with the aggregate."""
    if not dialect.scalar_extremes:
        return False
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("max", "min") and len(node.expressions) > 1
