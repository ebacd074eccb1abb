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
from sharpdnf.sql.bind.affinities import check_affinities, standing
from sharpdnf.sql.bind.scope import Scope, UnknownColumn
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import Condition, Output, Query, Select, Shared
from sharpdnf.sql.refusal import refuse


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
        """A name that nothing in this query has yet."""
        self.names += 1
        return f"_{prefix}{self.names}"

    def share(self, query: Query) -> Shared:
        """Gives a bound query a name."""
        return Shared(self.fresh("sharpdnf_q"), query.columns, query, None, query.reads, query.positive)

    def attempt(self) -> Callable[[], None]:
        """Marks the state of now; the function that comes back undoes everything that was bound since."""
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
        check_affinities(self.catalog, body, len(labels), self.certain_ctes())
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
        return self.catalog.describe(standing(body, self.certain_ctes()).sql(writer))


def certain_cte(shared: Shared) -> exp.CTE:
    """A query over certain rows as a common table expression, its columns renamed ``_c0``, ``_c1``..."""
    assert shared.body is not None
    columns = [quoted(f"_c{i}") for i in range(len(shared.columns))]
    return exp.CTE(this=shared.body.copy(), alias=exp.TableAlias(this=quoted(shared.name), columns=columns))


def rename(context: Binding, columns: tuple[Output, ...], names: list[exp.Expr]) -> tuple[Output, ...]:
    """Column aliases as in ``t(a, b)``: by position, so a hidden column must not stand among them."""
    if len(names) > len(columns):
        refuse("a column alias list", f"it has {len(names)} names for {len(columns)} columns")
    if any(column.hidden for column in columns[: len(names)]):
        refuse("a column alias list over the probability column", "the column is hidden; select the others first")
    renamed = [Output(name.name, context.fold(name), column.name) for name, column in zip(names, columns, strict=False)]
    return (*renamed, *columns[len(names) :])
