"""Whether the parser reads a query as the database does, by asking the database.

What: ``text.py`` writes the parser's tree back as a second text, with parentheses around every operand, so that it can
be read in one way only. The database is then asked what it makes of that text and of the user's: DuckDB gives its
parse tree, SQLite its program, PostgreSQL its plan. If the two differ, the query is refused.

Why: the parser belongs to another project, and each database has operators, precedences and shorthands that it reads
otherwise. A list of those would never be complete; asking needs none.

What would break: the rewritten query is made from the parser's tree. An operator that binds otherwise there than in the
database would give the answer to another question, a wrong number without a word. So a new dialect must give a reading
(``Catalog.readings``) in which two texts are equal only if they mean the same, and nothing between parsing and this
check may change the tree that is written back.
"""

from __future__ import annotations

from sqlglot import TokenType

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.dialect import Dialect, tokens_of
from sharpdnf.sql.backends.protocol import Catalog
from sharpdnf.sql.refusal import refuse


def check_faithful(sql: str, written: str, catalog: Catalog) -> None:
    """Refuses a text that the database reads otherwise than what the parser wrote back for it."""
    before, after = (standing(text, catalog.dialect) for text in (sql, written))
    if before == after:
        return
    ours, theirs = catalog.readings(before, after)
    if ours is None:
        raise SQLError(
            f"the database cannot read {before[:200]!r}: it is no SQL of this database, or nested too deeply"
        )
    if ours != theirs:
        refuse("the query as it stands", f"the SQL parser reads it otherwise than the database, as {after[:300]!r}; "
               "put parentheses, or write it in another way")  # fmt: skip


def standing(sql: str, dialect: Dialect) -> str:
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
