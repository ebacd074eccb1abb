"""What the parts of the rewriter share: fresh names, common table expressions, numbered columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.sqlite import SQLite

from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Relation
from sharpdnf.sql.backends.rows import recopied
from sharpdnf.sql.bind.scope import Output, Scope, Source, UnknownColumn
from sharpdnf.sql.bind.tables import Environment, Rewritten, Tables
from sharpdnf.sql.refusal import refuse

NUMBERS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Predicate, exp.Not, exp.BitwiseAnd, exp.BitwiseOr,
    exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.Connector,
)  # fmt: skip
"""Operators whose value in SQLite is a number or NULL."""


class Backticks(SQLite):  # type: ignore[misc]
    """SQLite reads an unknown "name" as a string, but not an unknown `name`."""

    class Tokenizer(SQLite.Tokenizer):  # type: ignore[misc]
        IDENTIFIERS: ClassVar = ["`"]


@dataclass(slots=True)
class Query:
    """A rewritten query: columns ``_c*``, then lineage ``_l*``, then (for expected values) row identity ``_i*``."""

    body: exp.Query
    columns: tuple[Output, ...]
    lineage: int
    identity: int = 0
    sides: tuple[exp.Query, ...] = ()
    """Of a set operation: the queries that it is made of."""
    distinct: bool = False
    """Whether it is a UNION that takes equal values for one, such as 1 and 1.0."""

    def parts(self) -> tuple[exp.Query, ...]:
        """The queries that it is made of: itself, unless it is a set operation."""
        return self.sides or (self.body,)


@dataclass(slots=True)
class Item:
    """One bound item of a select list."""

    label: str
    key: str | None
    expression: exp.Expr


class State(ABC):
    """The state of one rewriting. ``expected`` asks for the identity of result rows as well."""

    def __init__(self, tables: Tables, *, expected: bool = False) -> None:
        self.tables, self.expected = tables, expected
        self.catalog, self.dialect = tables.catalog, tables.catalog.dialect
        self.ctes: list[exp.CTE] = []
        self.numbered: list[tuple[str, exp.Query]] = []
        """Certain tables whose rows must be numbered first: name of the temporary table, its SELECT."""
        self._views: dict[tuple[str, ...], Rewritten] = {}
        self.starred: set[str | None] = set()
        """Probability columns that a ``*`` has left out."""
        self.merges = False
        """Whether how often a row occurs does not matter now, so a derived table may be merged into its query."""
        self._count = 0

    def fold(self, identifier: exp.Expr) -> str:
        if not isinstance(identifier, exp.Identifier):
            refuse(f"the name {identifier.sql()!r}", "a plain identifier is expected here")
        return self.tables.fold(identifier)

    def fresh(self, prefix: str) -> str:
        """A name that nothing has yet."""
        self._count += 1
        return f"_{prefix}{self._count}"

    def hoist(self, query: Query) -> Rewritten:
        """Makes a rewritten query a common table expression of the result."""
        self.check_affinities(query.body, len(query.columns), query.distinct)
        name = self.fresh("sharpdnf_q")
        self.ctes.append(exp.CTE(this=query.body, alias=exp.TableAlias(this=quoted(name))))
        lineage = tuple(f"_l{i}" for i in range(query.lineage))
        return Rewritten(name, query.columns, lineage, tuple(f"_i{i}" for i in range(query.identity)))

    def certain_cte(
        self, node: exp.Expr, env: Environment, alias: exp.TableAlias | None = None, *, recursive: bool = False
    ) -> Rewritten:
        """SQL that reads only certain rows, left as it is, as a common table expression with numbered columns.

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
        self.check_affinities(body, len(labels))
        name = self.fresh("sharpdnf_q")
        columns = tuple(Output(label, self.fold(quoted(label)), f"_c{i}") for i, label in enumerate(labels))
        aliases = exp.TableAlias(this=quoted(name), columns=[quoted(column.name) for column in columns])
        self.ctes.append(exp.CTE(this=body, alias=aliases))
        if names:
            columns = self.rename(columns, names)
        if not self.expected:
            return Rewritten(name, columns)
        source = Source((), self.fresh("t"), columns, item=exp.Table(this=quoted(name)))
        self.number(source)
        name = self.fresh("sharpdnf_q")
        body = exp.select(exp.Star()).from_(exp.alias_(source.item, "_s", table=True, quoted=True))
        self.ctes.append(exp.CTE(this=body, alias=exp.TableAlias(this=quoted(name))))
        return Rewritten(name, columns, (), source.identity)

    def number(self, source: Source) -> None:
        """Numbers the rows of a certain item once, in a temporary table: duplicates count in expected values."""
        if self.tables.collates():
            refuse("an expected value over a certain view or subquery beside collations", "a copy would lose them")
        name = self.fresh("sharpdnf_n")
        select = exp.select(exp.Star()).from_(source.item)
        copied = exp.Table(this=quoted(name))
        bare = self.catalog.untyped(self.standing(select).sql(self.dialect.name), len(source.columns))
        number = exp.Window(this=exp.RowNumber(), partition_by=[])
        select.append("expressions", exp.alias_(number, "_sharpdnf_n", quoted=True))
        self.numbered.append((name, self.complete(select)))
        source.item = recopied(copied, [c.name for c in source.columns], bare, "_sharpdnf_n")
        source.identity = ("_sharpdnf_n",)

    def check_affinities(self, body: exp.Expr, count: int, distinct: bool = False) -> None:
        """Refuses a compound of columns with different affinities in SQLite, where it is no result by itself.

        If SQLite stores its rows before it reads them, it converts them to the affinity of one side; if it does not, it
        leaves them as they are. Which of both is a matter of its plan. And a ``distinct`` UNION of integers and reals
        keeps 1 or 1.0, whichever comes first, which differ as text.
        """
        if not self.dialect.affinities or not isinstance(body, exp.SetOperation):
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
        kinds = [self.value_kinds(side, items, count) for side, items in zip(sides, shown, strict=True)]
        for i in range(count):
            found = {kind[i] for kind in kinds} - {"null"}
            mixed = {"any", "text"} & found and {"INTEGER", "REAL"} & found
            if mixed or (found & {"any", "number", "INTEGER", "REAL"} and "TEXT" in found):
                refuse("a UNION of columns with different affinities within a query",
                       "SQLite converts the values or not, as it plans; cast them to one type")  # fmt: skip
            numbers = {self.storage(side, items[i], kind[i]) for side, items, kind in
                       zip(sides, shown, kinds, strict=True) if kind[i] in ("number", "INTEGER", "REAL")}  # fmt: skip
            if distinct and len(numbers) > 1:
                refuse("a UNION of integers and reals within a query",
                       "SQLite keeps 1 or 1.0 as it plans; cast them to one type")  # fmt: skip

    def check_same_affinity(self, query: Query) -> None:
        """Refuses x IN (a set operation of columns with different affinities): SQLite takes that of one of them."""
        if not self.dialect.affinities or not query.sides:
            return
        count, found = len(query.columns), set()
        for side in query.sides:
            sql = self.standing(side).sql(self.dialect.name)
            found.add((self.catalog.affinities(sql, count), self.catalog.untyped(sql, count)))
        if len(found) > 1:
            refuse("IN (a set operation of columns with different affinities)",
                   "SQLite compares by that of one of them; cast them to one type")  # fmt: skip

    def value_kinds(self, side: exp.Select, items: list[exp.Expr], count: int) -> list[str]:
        """The affinity of every column; for expressions, which have none: number, text, null or any."""
        kinds = list(self.catalog.affinities(self.standing(side).sql(self.dialect.name), count))
        for i, item in enumerate(items if len(items) == count else ()):
            value = self.computed(side, item.unnest())
            if kinds[i]:
                continue
            if isinstance(value, exp.Null):
                kinds[i] = "null"
            elif isinstance(value, exp.Literal):
                kinds[i] = "text" if value.is_string else "number"
            elif isinstance(value, NUMBERS):
                kinds[i] = "number"
        return [kind or "any" for kind in kinds]

    def storage(self, side: exp.Select, item: exp.Expr, kind: str) -> str:
        """INTEGER or REAL, or "number" where an expression may give either; a real operand makes a real result."""
        value = self.computed(side, item.unnest())
        if kind != "number" or isinstance(value, (exp.Predicate, exp.Not, exp.Connector)):
            return "INTEGER" if kind == "number" else kind
        if any(not literal.is_int for literal in value.find_all(exp.Literal)):
            return "REAL"
        columns = [found.copy() for found in value.find_all(exp.Column)]
        if value is not item.unnest() or not columns:  # a column of a common table expression is not in sight here
            return "number" if columns else "INTEGER"
        read = side.copy()
        read.set("expressions", [exp.alias_(found, f"_c{i}", quoted=True) for i, found in enumerate(columns)])
        found = set(self.catalog.affinities(self.standing(read).sql(self.dialect.name), len(columns)))
        return "REAL" if "REAL" in found else "INTEGER" if found == {"INTEGER"} else "number"

    def computed(self, side: exp.Select, value: exp.Expr) -> exp.Expr:
        """The expression that a column of a single common table expression of the result stands for."""
        bodies = {cte.alias: cte.this for cte in self.ctes}
        while isinstance(value, exp.Column) and not side.args.get("joins") and side.args.get("from_"):
            source, name = side.args["from_"].this, value.name
            body = bodies.get(source.name) if isinstance(source, exp.Table) else None
            if not isinstance(body, exp.Select):
                break
            found = [item for item in body.expressions if item.alias == name]
            if len(found) != 1:
                break
            side, value = body, found[0].unalias().unnest()
        return value

    def complete(self, body: exp.Query) -> exp.Query:
        """The body with all common table expressions so far in front."""
        body = body.copy()
        if self.ctes:
            body.set("with_", exp.With(expressions=[cte.copy() for cte in self.ctes]))
        return body

    def describe(self, body: exp.Expr) -> tuple[str, ...] | None:
        """The column names of a body that stands on its own; None if it does not bind."""
        dialect = Backticks if self.dialect.quoted_names_may_be_strings else self.dialect.name
        return self.catalog.describe(self.standing(body).sql(dialect))

    def standing(self, body: exp.Expr) -> exp.Select:
        """SELECT * FROM the body, on its own: with all common table expressions and numbered tables so far."""
        name = self.fresh("sharpdnf_d")
        star = exp.select(exp.Star()).from_(quoted(name))
        cte = exp.CTE(this=body.copy(), alias=exp.TableAlias(this=quoted(name)))
        later = [exp.CTE(this=q.copy(), alias=exp.TableAlias(this=quoted(n))) for n, q in self.numbered]  # not made yet
        star.set("with_", exp.With(expressions=[*later, *(c.copy() for c in self.ctes), cte]))
        return star

    def typed(self, value: exp.Expr) -> exp.Expr:
        """A string that a subquery shows is text there; next to another value it would take that one's type."""
        text = isinstance(value, exp.Literal) and value.is_string and not self.dialect.affinities
        return exp.cast(value, "TEXT") if text else value

    @staticmethod
    def named(expression: exp.Expr, prefix: str, index: int) -> exp.Alias:
        """Column ``_c0``, ``_l0`` or ``_i0``... of a rewritten SELECT."""
        return exp.Alias(this=expression, alias=quoted(f"_{prefix}{index}"))

    @abstractmethod
    def rename(self, columns: tuple[Output, ...], names: list[exp.Expr]) -> tuple[Output, ...]:
        """Column aliases as in ``t(a, b)``."""

    @abstractmethod
    def query(self, node: exp.Expr, env: Environment, outer: Scope | None) -> Query:
        """A SELECT, a set operation, or one of them in parentheses, that may read uncertain rows."""

    @abstractmethod
    def select_list(self, node: exp.Select, env: Environment, scope: Scope) -> list[Item]:
        """The select list with stars expanded and names bound."""

    @abstractmethod
    def check_group(self, node: exp.Select, items: list[Item], env: Environment, scope: Scope) -> list[exp.Expr]:
        """The keys. GROUP BY without aggregates is DISTINCT if every item is a function of them; otherwise refused."""

    @abstractmethod
    def check_clauses(self, node: exp.Expr) -> None:
        """Clauses that look at the whole result, which differs from world to world."""

    @abstractmethod
    def with_clause(self, node: exp.Expr, env: Environment) -> Environment:
        """Rewrites the CTEs of a node, in order, each seeing those before it."""

    @abstractmethod
    def view(self, relation: Relation) -> Rewritten:
        """A view that reads uncertain rows, expanded."""

    @abstractmethod
    def expression(self, node: exp.Expr, env: Environment, scope: Scope, *, aggregates: bool = False) -> exp.Expr:
        """A copy with its names bound and everything in it on the white list."""


def null() -> exp.Expr:
    """In place of a row's number."""
    return exp.cast(exp.Null(), "BIGINT")


def union_all(bodies: list[exp.Query]) -> exp.Query:
    """The rows of all of them."""
    whole = bodies[0]
    for body in bodies[1:]:
        whole = exp.Union(this=whole, expression=body, distinct=False)
    return whole
