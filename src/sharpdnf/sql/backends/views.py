"""What a CREATE VIEW statement says: its SELECT as written, its column names, the relations it names."""

from __future__ import annotations

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from sharpdnf.sql.backends.dialect import Dialect, tokens_of


def parse_view(sql: str, dialect: Dialect) -> tuple[str | None, tuple[str, ...] | None]:
    """The SELECT of CREATE VIEW, as written, and the column names given with it; what cannot be read is kept whole."""
    try:
        create = sqlglot.parse_one(sql, dialect=dialect.name)
        tokens = tokens_of(sql, dialect)
    except SqlglotError:
        return sql, None
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.ALIAS and depth == 0 and isinstance(create, exp.Create):
            schema = create.this
            labels = tuple(column.name for column in schema.expressions) if isinstance(schema, exp.Schema) else ()
            return sql[token.end + 1 :].strip(" ;\n"), labels or None
    return sql, None


def names_relations(view: str) -> bool:
    """Whether a view names relations without catalog and schema."""
    try:
        tables = sqlglot.parse_one(view, dialect="duckdb").expression.find_all(exp.Table)
    except SqlglotError:
        return True
    return any(isinstance(table.this, exp.Identifier) and len(table.parts) < 3 for table in tables)
