"""Set operations: UNION is UNION ALL of lineage rows, INTERSECT a join of both sides' rows, EXCEPT an anti-join."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.names import bare_value, column, quoted
from sharpdnf.sql.bind.scope import Output, Scope, Source
from sharpdnf.sql.bind.tables import Environment, Rewritten
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.state import Query, State, null, union_all


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides of INTERSECT or EXCEPT."""

    left: Rewritten
    right: Rewritten
    a: Source
    """The left side as a FROM item."""
    b: Source
    columns: tuple[Output, ...]
    within: list[exp.Expr]
    """That a row of ``a`` is one of the left side."""
    equal: list[exp.Expr]
    """That a row of ``b`` is one of the right side and equal to the row of ``a``."""


class SetOperations(State):
    """The part of the rewriter that joins whole queries."""

    def union(self, node: exp.Union, env: Environment, outer: Scope | None) -> Query:
        """Rows of both sides. In expected values UNION ALL keeps them apart by side, UNION takes equal ones for one."""
        sides = [self.query(side, env, outer) for side in self.united(node)]
        for i, side in enumerate(sides):
            if i and isinstance(side.body, exp.SetOperation):  # keeps the order in which types are unified
                sides[i] = self.reread(side)
            self.check_width(node, sides[0], side)
        ids = node.args.get("distinct") is False and self.expected
        for tag, side in enumerate(sides if ids else ()):
            append(side.body, exp.Literal.number(tag), f"_i{side.identity}")
            side.identity += 1
        width, identity = max(side.lineage for side in sides), max(side.identity for side in sides) if ids else 0
        for side in sides:
            widen(side, width, identity)
        columns = tuple(Output(o.label, o.key, o.name) for o in sides[0].columns)
        parts = tuple(part for side in sides for part in side.parts())
        distinct = any(part.args.get("distinct") is not False for part in node.find_all(exp.Union))
        query = Query(union_all([side.body for side in sides]), columns, width, identity, parts, distinct)
        return self.by_value(query) if self.expected and not ids else query

    def united(self, node: exp.Union) -> list[exp.Expr]:
        """The queries of a chain of UNIONs, in order. Expected values tell UNION and UNION ALL apart."""
        sides, left = [node.expression], node.this
        while (
            isinstance(left, exp.Union)
            and not any(left.args.get(name) for name in ("with_", "order", "limit", "offset"))
            and (not self.expected or left.args.get("distinct") == node.args.get("distinct"))
        ):
            check_structure(left)
            sides.append(left.expression)
            left = left.this
        return [left, *reversed(sides)]

    def reread(self, query: Query) -> Query:
        """SELECT all columns of the query, as a common table expression."""
        found = self.hoist(query)
        names = [*(o.name for o in found.columns), *found.lineage, *found.identity]
        body = exp.Select(expressions=[column(name) for name in names])
        body.set("from_", exp.From(this=exp.Table(this=quoted(found.name))))
        return Query(body, query.columns, query.lineage, query.identity)

    @staticmethod
    def check_width(node: exp.Expr, left: Query, right: Query) -> None:
        """Both sides must have as many columns."""
        if len(left.columns) != len(right.columns):
            name = type(node).__name__.upper()
            raise SQLError(f"{name} of {len(left.columns)} and {len(right.columns)} columns")

    def intersect(self, node: exp.Intersect, env: Environment, outer: Scope | None) -> Query:
        """Rows of both sides joined, so that the lineage is a conjunction."""
        if node.args.get("distinct") is False and self.expected:
            refuse("INTERSECT ALL in an expected value", "count DISTINCT rows instead")
        left, right = (self.query(side, env, outer) for side in (node.this, node.expression))
        pair = self.paired(node, left, right)
        body = self.from_left(pair, [*pair.a.references(pair.a.lineage), *pair.b.references(pair.b.lineage)])
        body.set("joins", [exp.Join(this=self.aliased(pair.right, pair.b))])
        body.set("where", exp.Where(this=exp.and_(*pair.within, *pair.equal, copy=False)))
        query = Query(body, pair.columns, left.lineage + right.lineage, sides=left.parts() + right.parts())
        return self.by_value(query) if self.expected else query

    def except_(self, node: exp.Except, env: Environment, outer: Scope | None) -> Query:
        """Rows of the left side that no certain row equals: whether one does is the same in every world."""
        if self.tables.touches(node.expression, env):
            refuse("EXCEPT over uncertain rows", "it asks that rows be absent; only certain rows may be taken away")
        if node.args.get("distinct") is False:
            refuse("EXCEPT ALL over uncertain rows", "how many of equal rows are left differs from world to world")
        left, right = (self.query(side, env, outer) for side in (node.this, node.expression))
        pair = self.paired(node, left, right)
        body = self.from_left(pair, pair.a.references(pair.a.lineage))
        taken = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=self.aliased(pair.right, pair.b)))
        taken.set("where", exp.Where(this=exp.and_(*pair.equal, copy=False)))
        absent = exp.Not(this=exp.Exists(this=taken))
        body.set("where", exp.Where(this=exp.and_(*pair.within, absent, copy=False)))
        query = Query(body, pair.columns, left.lineage, sides=left.parts() + right.parts())
        return self.by_value(query) if self.expected else query

    def paired(self, node: exp.SetOperation, left: Query, right: Query) -> Pair:
        """Both sides as FROM items whose rows can be compared as a set operation compares them.

        SQLite compares values as they are, without their columns' affinities: one UNION ALL of both would convert them.
        """
        name = type(node).__name__.upper()
        if self.tables.collates():
            refuse(f"{name} beside collations", "it would compare by another collation")
        self.check_width(node, left, right)
        columns = tuple(Output(o.label, o.key, f"_c{i}") for i, o in enumerate(left.columns))
        if self.dialect.affinities:
            found = [self.hoist(left), self.hoist(right)]
            a, b = (Source((), self.fresh("t"), side.columns, side.lineage) for side in found)
            within, equal = [], []
        else:
            both = self.tagged(left, right)
            found, names = [both, both], (both.lineage[: left.lineage], both.lineage[left.lineage :])
            a, b = (Source((), self.fresh("t"), both.columns, lineage) for lineage in names)
            within, equal = [side_is(a, 0)], [side_is(b, 1)]
        for mine, theirs in zip(a.columns, b.columns, strict=True):
            equal.append(self.same(a.column(mine), b.column(theirs)))
        return Pair(found[0], found[1], a, b, columns, within, equal)

    def tagged(self, left: Query, right: Query) -> Rewritten:
        """Both sides through one UNION ALL, which gives them the types a set operation gives, told apart by _side."""
        sides = []
        for tag, side in enumerate((left, right)):
            found = self.hoist(side)
            values = [constant_of(side.body, i) or column(o.name) for i, o in enumerate(found.columns)]
            mine = [column(name) for name in found.lineage]
            before, after = (0, right.lineage) if tag == 0 else (left.lineage, 0)
            lineage = [*[null()] * before, *mine, *[null()] * after]
            select = exp.Select(
                expressions=[self.named(value, "c", i) for i, value in enumerate(values)]
                + [self.named(column.copy(), "l", i) for i, column in enumerate(lineage)]
                + [exp.alias_(exp.Literal.number(tag), "_side", quoted=True)]
            )
            sides.append(select.from_(exp.Table(this=quoted(found.name)), copy=False))
        columns = tuple(Output(o.label, o.key, f"_c{i}") for i, o in enumerate(left.columns))
        return self.hoist(Query(union_all(sides), columns, left.lineage + right.lineage))

    @staticmethod
    def aliased(found: Rewritten, source: Source) -> exp.Expr:
        return exp.alias_(exp.Table(this=quoted(found.name)), source.alias, table=True, quoted=True)

    def from_left(self, pair: Pair, lineage: list[exp.Column]) -> exp.Select:
        """SELECT the left side's columns, and lineage; the caller adds WHERE."""
        return exp.Select(
            expressions=[self.named(pair.a.column(o), "c", i) for i, o in enumerate(pair.a.columns)]
            + [self.named(column, "l", i) for i, column in enumerate(lineage)],
            from_=exp.From(this=self.aliased(pair.left, pair.a)),
        )

    def same(self, a: exp.Expr, b: exp.Expr) -> exp.Expr:
        """Equality in which NULL equals NULL, as set operations compare."""
        if self.dialect.affinities:  # set operations convert nothing
            return exp.Is(this=bare_value(a), expression=bare_value(b))
        return exp.NullSafeEQ(this=a, expression=b)

    def by_value(self, query: Query, shown: int | None = None) -> Query:
        """For expected values: rows with equal columns are one result row, numbered by their rank.

        Columns after those ``shown`` are the grouping columns, which then tell the rows apart.
        """
        found = self.hoist(query)
        columns = found.columns[:shown]
        names = [*(o.name for o in columns), *found.lineage]
        keys = found.columns[len(columns) :] or columns
        order = exp.Order(expressions=[exp.Ordered(this=column(o.name)) for o in keys])
        rank = exp.Window(this=exp.DenseRank(), order=order)
        body = exp.Select(expressions=[*(column(name) for name in names), self.named(rank, "i", 0)])
        body.set("from_", exp.From(this=exp.Table(this=quoted(found.name))))
        return Query(body, columns, query.lineage, 1)


def constant_of(body: exp.Query, i: int) -> exp.Expr | None:
    """The constant that a SELECT has in column i: it gets its type from the other side of a set operation."""
    value = body.expressions[i].unalias() if isinstance(body, exp.Select) else None
    return value.copy() if isinstance(value, exp.Literal | exp.Null) else None


def side_is(source: Source, tag: int) -> exp.Expr:
    return exp.EQ(this=source.references(("_side",))[0], expression=exp.Literal.number(tag))


def append(body: exp.Query, value: exp.Expr, name: str) -> None:
    """Adds a column to every SELECT of a UNION ALL."""
    if isinstance(body, exp.SetOperation):
        append(body.this, value, name)
        append(body.expression, value, name)
    else:
        body.append("expressions", exp.alias_(value.copy(), name, quoted=True))


def widen(query: Query, lineage: int, identity: int) -> None:
    """Pads the lineage (and identity) columns with NULLs, so that the sides of a UNION ALL match."""

    def pad(body: exp.Query) -> None:
        if isinstance(body, exp.SetOperation):
            pad(body.this)
            pad(body.expression)
            return
        columns, shown = body.expressions, len(query.columns)
        middle = shown + query.lineage
        more = [State.named(null(), "l", i) for i in range(query.lineage, lineage)]
        ids = columns[middle : middle + min(query.identity, identity)]
        rest = [State.named(null(), "i", i) for i in range(len(ids), identity)]
        body.set("expressions", [*columns[:middle], *more, *ids, *rest])

    pad(query.body)
    query.lineage, query.identity = lineage, identity


def bare_columns(body: exp.Query, count: int) -> None:
    """Takes the affinity from the first ``count`` columns of a UNION ALL, so that SQLite converts none to another's."""
    sides, node = [], body
    while isinstance(node, exp.SetOperation):
        sides.append(node.expression)
        node = node.this
    for side in [node, *sides]:
        for item in side.expressions[:count]:
            item.set("this", bare_value(item.this.copy()))
