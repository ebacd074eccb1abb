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

from itertools import pairwise

from sqlglot import Token, TokenType

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.dialect import Dialect, tokens_of
from sharpdnf.sql.backends.protocol import Catalog
from sharpdnf.sql.parse.allowed import PLACES, PROBABILITY_FUNCTIONS, called_names
from sharpdnf.sql.refusal import refuse

CLAUSES = frozenset(
    [TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET,
     TokenType.FETCH, TokenType.SEMICOLON, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT]
)  # fmt: skip
"""Where the clause before ends."""


def check_faithful(sql: str, written: str, catalog: Catalog) -> None:
    """Refuses a text that the database reads otherwise than what the parser wrote back for it."""
    before, after = (standing(text, catalog.dialect) for text in (sql, written))
    if before == after:
        return
    ours, theirs = catalog.readings(before, after)
    if ours is None:
        misplaced = sorted(PROBABILITY_FUNCTIONS.intersection(called_names(sql, catalog.dialect)))
        hint = f"; {PLACES[misplaced[0] == 'prob']}" if misplaced else ""
        raise SQLError(
            f"the database cannot read {before[:200]!r}: it is no SQL of this database, or nested too deeply{hint}"
        )
    if ours != theirs:
        refuse(
            "the query as it stands",
            f"the SQL parser reads it otherwise than the database, as {after[:300]!r}; "
            "put parentheses, or write it in another way",
        )


def standing(sql: str, dialect: Dialect) -> str:
    """The text as the database can read it: without our own functions.

    ORDER BY and QUALIFY with prob(), and HAVING with prob() where nothing is grouped, are left out, for the database
    would not take them there. Elsewhere prob() becomes random(), which no plan folds, and an expected value a count.
    """
    tokens = tokens_of(sql, dialect)
    called = {
        i: token.text.lower()
        for i, token in enumerate(tokens[:-1])
        if tokens[i + 1].token_type is TokenType.L_PAREN and token.text.lower() in PROBABILITY_FUNCTIONS
    }
    if not called:
        return sql.strip().rstrip("; \n\t")
    dropped = _dropped(tokens, [i for i, name in called.items() if name == "prob"], dialect)
    parts, at = [], 0
    for i, token in enumerate(tokens):
        if i in dropped:
            if i - 1 not in dropped:
                parts.append(sql[at : token.start])
            at = token.end + 1
        elif i in called:
            empty = tokens[i + 2].token_type is TokenType.R_PAREN if i + 2 < len(tokens) else False
            word = "random" if called[i] == "prob" else "count(*)" if empty else "count"
            parts += [sql[at : token.start], word]
            at = tokens[i + 2].end + 1 if word == "count(*)" else token.end + 1
    return "".join([*parts, sql[at:]]).strip().rstrip("; \n\t")


def _dropped(tokens: list[Token], calls: list[int], dialect: Dialect) -> set[int]:
    """The tokens of the outermost clauses that the database would not take with prob() in them."""
    clauses: list[tuple[TokenType, int]] = []
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in CLAUSES:
            clauses.append((token.token_type, i))
    grouped = any(kind is TokenType.GROUP_BY for kind, _ in clauses)
    found: set[int] = set()
    for (kind, start), (_, end) in pairwise([*clauses, (TokenType.SEMICOLON, len(tokens))]):
        ours = kind in (TokenType.ORDER_BY, TokenType.QUALIFY) or (kind is TokenType.HAVING and not grouped)
        unknown = kind is TokenType.QUALIFY and not dialect.qualify
        if unknown or (ours and any(start < call < end for call in calls)):
            found |= set(range(start, end))
    return found
