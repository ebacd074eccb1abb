"""What makes the probability of a row: a column, or any expression of the row's columns, such as ``score / 100``."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sharpdnf.errors import SQLError, UncertainTableError
from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import Catalog, Relation
from sharpdnf.sql.parse.allowed import check_call, check_expression, check_functions, is_scalar_extreme
from sharpdnf.sql.parse.faithful import check_faithful
from sharpdnf.sql.parse.text import parse_select, written_back


@dataclass(frozen=True, slots=True)
class RowProbability:
    """The probability of a row of one relation."""

    text: str
    """As it was given."""
    value: exp.Expr
    """Over the relation's columns."""
    columns: tuple[str, ...]
    """The columns that it reads."""
    hidden: str
    """The column that ``*`` hides, as it is nothing but the probability; empty for an expression of several."""


def find_column(relation: Relation, name: str, what: str) -> str:
    """The relation's column of that name, in any case if only one has it."""
    if name in relation.columns:
        return name
    close = [column for column in relation.columns if column.lower() == name.lower()]
    if len(close) != 1:
        known = ", ".join(relation.columns)
        raise UncertainTableError(f"{relation.path[-1]} has no {what} column {name!r}: its columns are {known}")
    return close[0]


def read_probability(text: str, relation: Relation, catalog: Catalog) -> RowProbability:
    """A column's name or, if there is no such column, an expression in the database's SQL.

    A division in it is one of real numbers: score / 100 of a whole number is a fraction in every database.
    """
    if text.lower() in {name.lower() for name in relation.columns} or text.isidentifier():
        name = find_column(relation, text, "probability")
        return RowProbability(text, column(name), (name,), name)
    dialect = catalog.dialect
    sql = f"SELECT {text} FROM {relation.table().sql(dialect.name)}"
    try:
        tree = parse_select(sql, dialect, f"the probability {text!r}")
        items = tree.expressions
        others = [name for name, value in tree.args.items() if value and name not in ("expressions", "from_")]
        if len(items) != 1 or others or isinstance(items[0], exp.Alias | exp.Star) or tree.find(exp.Subquery):
            raise UncertainTableError(
                f"the probability {text!r} is neither a column of {relation.path[-1]} nor one expression"
            )
        check_functions(sql, catalog)
        check_faithful(sql, written_back(tree.root(), dialect), catalog)
        holder = exp.Paren(this=items[0].copy())
        names = _bind(holder, relation, catalog)
    except UncertainTableError:
        raise
    except SQLError as error:
        raise UncertainTableError(f"the probability {text!r} of {relation.path[-1]}: {error}") from None
    return RowProbability(text, holder, names, "")


def _bind(holder: exp.Paren, relation: Relation, catalog: Catalog) -> tuple[str, ...]:
    """Checks an expression and names its columns in full; the columns that it reads."""
    found = []
    for node in list(holder.walk()):
        if isinstance(node, exp.Column):
            found.append(_column_of(node, relation, catalog))
            node.replace(column(found[-1]))
        elif isinstance(node, exp.Identifier):
            continue
        elif not is_scalar_extreme(node, catalog.dialect):
            check_expression(node, aggregates=False)
            if isinstance(node, exp.Func):
                check_call(node, catalog.functions())
    for division in list(holder.find_all(exp.Div)):
        division.set("this", exp.cast(division.this.copy(), "DOUBLE"))
    return tuple(dict.fromkeys(found))


def _column_of(node: exp.Column, relation: Relation, catalog: Catalog) -> str:
    if node.table:
        raise UncertainTableError(f"the probability of {relation.path[-1]} names {node.sql()}: write the column alone")
    assert isinstance(node.this, exp.Identifier)
    name = catalog.fold(node.this)
    same = [c for c in relation.columns if catalog.fold(quoted(c)) == name]
    return same[0] if len(same) == 1 else find_column(relation, node.name, "probability")
