"""Whether the parser reads a query as the database does: what it would write back as something else is refused."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise, zip_longest

from sqlglot import exp
from sqlglot.dialects import Dialect
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import TokenType

from sharpdnf.sql.allowed import called_names, refuse, tokens_of

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
    "pow": "power", "substr": "substring", "numeric": "decimal", "len": "length", "char_length": "length",
    "character_length": "length", "ceiling": "ceil", "lcase": "lower", "ucase": "upper", "datediff": "date_diff",
    "datetrunc": "date_trunc", "string_split": "str_split", "split": "str_split", "string_to_array": "str_split",
    "list_has": "array_contains", "array_has": "array_contains", "btrim": "trim",
}  # fmt: skip
"""Names that the parser exchanges and the databases treat alike, by test."""
NOTATIONS = frozenset(["cast", "power", "if", "regexp_matches", "starts_with", "case", "count", "list_value"])
"""Calls that also have an operator or keyword form: x::int, 2 ^ 3, ..."""
SIZED = frozenset(
    ["char", "character", "varying", "varchar", "bpchar", "nchar", "nvarchar", "text", "decimal", "numeric"]
)
"""Types with a size that the parser may write out or leave out, as the databases do."""
CONSTANTS = frozenset([TokenType.NUMBER, TokenType.STRING, TokenType.HEREDOC_STRING])


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
    kinds = {*Dialect.get_or_raise(dialect).parser_class.TYPE_TOKENS, TokenType.R_PAREN, TokenType.VAR}
    for kind, *then in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if kind in kinds - {TokenType.INTERVAL} and then == [TokenType.STRING, TokenType.DCOLON]:
            refuse("a cast of type 'constant'", "the parser would cast the constant first; put parentheses around it")
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
