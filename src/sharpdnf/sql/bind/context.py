"""What the functions of the binding share: the tables in sight, fresh names, and questions to the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite

from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Catalog, Relation
from sharpdnf.sql.bind.scope import Scope, UnknownColumn
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import Condition, Output, Query, Select, Shared
from sharpdnf.sql.refusal import refuse

NUMBERS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Predicate, exp.Not, exp.BitwiseAnd, exp.BitwiseOr,
    exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.Connector,
)  # fmt: skip
"""Operators whose value in SQLite is a number or NULL."""


class Backticks(SQLite):
    """SQLite with names in backticks: it reads an unknown "name" as a string, but not an unknown `name`."""

    class Tokenizer(SQLite.Tokenizer):
        IDENTIFIERS: ClassVar = ["`"]


class BindExpression(Protocol):
    """Binds the names of a scalar expression."""

    def __call__(
        self, context: Binding, node: exp.Expr, env: Environment, scope: Scope, *, aggregates: bool = False
    ) -> exp.Expr: ...


@dataclass(frozen=True, slots=True)
class Passes:
    """The functions that call each other at every level of nesting, from one file to another."""

    query: Callable[[Binding, exp.Expr, Environment, Scope | None], Query]
    select: Callable[[Binding, exp.Select, Environment, Scope], Select]
    with_clause: Callable[[Binding, exp.Expr, Environment], Environment]
    view: Callable[[Binding, Relation], Shared]
    condition: Callable[[Binding, exp.Expr, Environment, Scope], Condition]
    expression: BindExpression


@dataclass(slots=True)
class Binding:
    """The state of binding one query."""

    tables: Tables
    passes: Passes
    certain: list[Shared] = field(default_factory=list)
    """Queries over certain rows, each reading only those before it."""
    views: dict[tuple[str, ...], Shared] = field(default_factory=dict)
    """Views over uncertain rows, by their key."""
    starred: set[str | None] = field(default_factory=set)
    """Probability columns that a ``*`` has left out."""
    names: int = 0
    """How many fresh names were given."""

    @property
    def catalog(self) -> Catalog:
        return self.tables.catalog

    @property
    def dialect(self) -> Dialect:
        return self.tables.catalog.dialect

    def fold(self, identifier: exp.Expr) -> str:
        """A name as the database compares it."""
        if not isinstance(identifier, exp.Identifier):
            refuse(f"the name {identifier.sql()!r}", "a plain identifier is expected here")
        return self.tables.fold(identifier)

    def fresh(self, prefix: str) -> str:
        """A name that nothing has yet."""
        self.names += 1
        return f"_{prefix}{self.names}"

    def share(self, query: Query) -> Shared:
        """Gives a bound query a name."""
        return Shared(self.fresh("sharpdnf_q"), query.columns, query, None, query.reads, query.positive)

    def attempt(self) -> Callable[[], None]:
        """Returns what undoes all that is bound from now on."""
        kept, views = len(self.certain), dict(self.views)

        def undo() -> None:
            del self.certain[kept:]
            self.views = views

        return undo

    def share_certain(
        self, node: exp.Expr, env: Environment, alias: exp.TableAlias | None = None, *, recursive: bool = False
    ) -> Shared:
        """SQL that reads only certain rows, left as it is, under a name and with numbered columns.

        ``alias`` is that of a common table expression of the user's, which may be ``recursive``.
        """
        body = self.tables.opaque(node, env)
        names = list(alias.args.get("columns") or ()) if alias is not None else []
        if recursive and alias is not None:
            inner = exp.Select(expressions=[exp.Star()]).from_(alias.this.copy())
            inner.set("with_", exp.With(expressions=[exp.CTE(this=body, alias=alias.copy())], recursive=True))
            body, names = inner, []
        if isinstance(body, exp.Subquery) and not body.args.get("with_"):
            body = body.this
        labels = self.describe(body)
        if labels is None:
            raise UnknownColumn(f"the database cannot read {body.sql(self.dialect.name)[:120]!r} on its own")
        check_affinities(self, body, len(labels), self.certain_ctes())
        columns = tuple(Output(label, self.fold(quoted(label)), f"_c{i}") for i, label in enumerate(labels))
        shared = Shared(self.fresh("sharpdnf_q"), columns, body=body)
        self.certain.append(shared)
        return Shared(shared.name, rename(self, columns, names), body=body) if names else shared

    def certain_ctes(self) -> list[exp.CTE]:
        """The queries over certain rows so far, as common table expressions."""
        return [certain_cte(shared) for shared in self.certain]

    def describe(self, body: exp.Expr) -> tuple[str, ...] | None:
        """The column names of certain SQL that stands on its own; None if the database cannot read it."""
        writer = Backticks if self.dialect.quoted_names_may_be_strings else self.dialect.name
        return self.catalog.describe(standing(self, body, self.certain_ctes()).sql(writer))


def certain_cte(shared: Shared) -> exp.CTE:
    """A query over certain rows as a common table expression, its columns renamed ``_c0``, ``_c1``..."""
    assert shared.body is not None
    columns = [quoted(f"_c{i}") for i in range(len(shared.columns))]
    return exp.CTE(this=shared.body.copy(), alias=exp.TableAlias(this=quoted(shared.name), columns=columns))


def standing(context: Binding, body: exp.Expr, ctes: list[exp.CTE]) -> exp.Select:
    """SELECT * FROM the body, with the common table expressions in front that it may read."""
    name = context.fresh("sharpdnf_d")
    star = exp.select(exp.Star()).from_(quoted(name))
    cte = exp.CTE(this=body.copy(), alias=exp.TableAlias(this=quoted(name)))
    star.set("with_", exp.With(expressions=[*ctes, cte]))
    return star


def rename(context: Binding, columns: tuple[Output, ...], names: list[exp.Expr]) -> tuple[Output, ...]:
    """Column aliases as in ``t(a, b)``: by position, so a hidden column must not stand among them."""
    if len(names) > len(columns):
        refuse("a column alias list", f"it has {len(names)} names for {len(columns)} columns")
    if any(column.hidden for column in columns[: len(names)]):
        refuse("a column alias list over the probability column", "the column is hidden; select the others first")
    renamed = [Output(name.name, context.fold(name), column.name) for name, column in zip(names, columns, strict=False)]
    return (*renamed, *columns[len(names) :])


def check_affinities(context: Binding, body: exp.Expr, count: int, ctes: list[exp.CTE]) -> None:
    """Refuses a compound of columns with different affinities where it is no result by itself.

    If SQLite stores its rows before it reads them, it converts them to the affinity of one side; if it does not, it
    leaves them as they are. Which of both is a matter of its plan.
    """
    if not context.dialect.affinities or not isinstance(body, exp.SetOperation):
        return
    sides: list[exp.Select] = []
    node: exp.Expr = body
    while isinstance(node, exp.SetOperation):
        sides += list(node.expression.find_all(exp.Select))[:1]
        node = node.this
    sides += list(node.find_all(exp.Select))[:1]
    shown = [[item.unalias() for item in side.expressions[:count]] for side in sides]
    if all(items == shown[0] for items in shown):
        return
    kinds = [_value_kinds(context, side, items, count, ctes) for side, items in zip(sides, shown, strict=True)]
    for i in range(count):
        found = {kind[i] for kind in kinds} - {"null"}
        mixed = {"any", "text"} & found and {"INTEGER", "REAL"} & found
        if mixed or (found & {"any", "number", "INTEGER", "REAL"} and "TEXT" in found):
            refuse(
                "a UNION of columns with different affinities within a query",
                "SQLite converts the values or not, as it plans; cast them to one type",
            )


def _value_kinds(
    context: Binding, side: exp.Select, items: list[exp.Expr], count: int, ctes: list[exp.CTE]
) -> list[str]:
    """The affinity of every column; for expressions, which have none: number, text, null or any."""
    text = standing(context, side, [cte.copy() for cte in ctes]).sql(context.dialect.name)
    kinds = list(context.catalog.affinities(text, count))
    for i, item in enumerate(items if len(items) == count else ()):
        if kinds[i]:
            continue
        value = _behind(item, side, ctes).unnest()
        if isinstance(value, exp.Null):
            kinds[i] = "null"
        elif isinstance(value, exp.Literal):
            kinds[i] = "text" if value.is_string else "number"
        elif isinstance(value, NUMBERS):
            kinds[i] = "number"
    return [kind or "any" for kind in kinds]


def _behind(item: exp.Expr, side: exp.Select, ctes: list[exp.CTE]) -> exp.Expr:
    """The expression that a column shows which common table expressions only pass on; the item itself otherwise."""
    while isinstance(item, exp.Column):
        start = side.args.get("from_")
        tables = [start.this, *(join.this for join in side.args.get("joins") or ())] if start is not None else []
        names = [found.name for found in tables if isinstance(found, exp.Table) and found.alias == item.table]
        bodies = [cte.this for cte in ctes if cte.alias in names and not cte.args["alias"].columns]
        if len(bodies) != 1 or not isinstance(bodies[0], exp.Select):
            return item
        shown = [entry.unalias() for entry in bodies[0].expressions if entry.alias == item.name]
        if len(shown) != 1:
            return item
        item, side = shown[0], bodies[0]
    return item
