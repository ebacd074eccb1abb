"""Set operations: UNION is UNION ALL of lineage rows, INTERSECT is a join of both sides' rows."""

from __future__ import annotations

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.allowed import refuse
from sharpdnf.sql.core import Core, Query, null, quoted, union_all
from sharpdnf.sql.scope import Output, Scope, Source
from sharpdnf.sql.tables import Environment


class SetOperations(Core):
    def union(self, node: exp.Union, env: Environment, outer: Scope | None) -> Query:
        left, right = (self.query(side, env, outer) for side in (node.this, node.expression))
        if isinstance(right.body, exp.SetOperation):  # keeps the order in which types are unified
            right = self.reread(right)
        self.check_width(node, left, right)
        ids = node.args.get("distinct") is False and self.expected
        for tag, side in enumerate((left, right) if ids else ()):
            append(side.body, exp.Literal.number(tag), f"_i{side.identity}")
            side.identity += 1
        width, identity = max(left.lineage, right.lineage), max(left.identity, right.identity)
        for side in (left, right):
            widen(side, width, identity if ids else 0)
        columns = tuple(Output(o.label, o.key, o.name) for o in left.columns)
        query = Query(union_all([left.body, right.body]), columns, width, identity if ids else 0)
        return self.by_value(query) if self.expected and not ids else query

    def reread(self, query: Query) -> Query:
        """SELECT all columns of the query, as a common table expression."""
        found = self.hoist(query)
        names = [*(o.name for o in found.columns), *found.lineage, *found.identity]
        body = exp.Select(expressions=[exp.column(quoted(name)) for name in names])
        body.set("from_", exp.From(this=exp.Table(this=quoted(found.name))))
        return Query(body, query.columns, query.lineage, query.identity)

    @staticmethod
    def check_width(node: exp.Expression, left: Query, right: Query) -> None:
        if len(left.columns) != len(right.columns):
            name = type(node).__name__.upper()
            raise SQLError(f"{name} of {len(left.columns)} and {len(right.columns)} columns")

    def intersect(self, node: exp.Intersect, env: Environment, outer: Scope | None) -> Query:
        """Both sides through one UNION ALL, which gives them the types a set operation gives, then joined."""
        if node.args.get("distinct") is False and self.expected:
            refuse("INTERSECT ALL in an expected value", "count DISTINCT rows instead")
        if self.catalog.collates():
            refuse("INTERSECT in a database with collations of its own", "it would compare by another collation")
        left, right = (self.query(side, env, outer) for side in (node.this, node.expression))
        self.check_width(node, left, right)
        shown, total = len(left.columns), left.lineage + right.lineage
        sides = []
        for tag, side in enumerate((left, right)):
            found = self.hoist(side)
            mine = [exp.column(quoted(name)) for name in found.lineage]
            before, after = (0, right.lineage) if tag == 0 else (left.lineage, 0)
            lineage = [*[null()] * before, *mine, *[null()] * after]
            select = exp.Select(
                expressions=[self.named(exp.column(quoted(o.name)), "c", i) for i, o in enumerate(found.columns)]
                + [self.named(column.copy(), "l", i) for i, column in enumerate(lineage)]
                + [exp.alias_(exp.Literal.number(tag), "_side", quoted=True)]
            )
            sides.append(select.from_(exp.Table(this=quoted(found.name)), copy=False))
        columns = tuple(Output(o.label, o.key, f"_c{i}") for i, o in enumerate(left.columns))
        both = self.hoist(Query(union_all(sides), columns, total))
        a, b = (Source((), self.fresh("t"), columns) for _ in range(2))
        lineage = [*a.references(both.lineage[: left.lineage]), *b.references(both.lineage[left.lineage :])]
        same = [self.same(a.column(column), b.column(column)) for column in columns]
        tags = [
            exp.EQ(this=s.references(("_side",))[0], expression=exp.Literal.number(i)) for i, s in enumerate((a, b))
        ]
        body = exp.Select(
            expressions=[self.named(a.column(columns[i]), "c", i) for i in range(shown)]
            + [self.named(column, "l", i) for i, column in enumerate(lineage)],
            from_=exp.From(this=exp.alias_(exp.Table(this=quoted(both.name)), a.alias, table=True, quoted=True)),
            joins=[exp.Join(this=exp.alias_(exp.Table(this=quoted(both.name)), b.alias, table=True, quoted=True))],
            where=exp.Where(this=exp.and_(*tags, *same, copy=False)),
        )
        query = Query(body, columns, total)
        return self.by_value(query) if self.expected else query

    def same(self, a: exp.Expression, b: exp.Expression) -> exp.Expression:
        """Equality in which NULL equals NULL, as set operations compare."""
        if self.dialect == "sqlite":  # a function's value has no affinity: set operations convert nothing
            return exp.Is(this=bare_value(a), expression=bare_value(b))
        return exp.NullSafeEQ(this=a, expression=b)

    def by_value(self, query: Query) -> Query:
        """For expected values: rows with equal columns are one result row, numbered by their rank."""
        found = self.hoist(Query(query.body, query.columns, query.lineage, query.identity))
        names = [*(o.name for o in found.columns), *found.lineage]
        order = exp.Order(expressions=[exp.Ordered(this=exp.column(quoted(o.name))) for o in found.columns])
        rank = exp.Window(this=exp.DenseRank(), order=order)
        body = exp.Select(expressions=[*(exp.column(quoted(name)) for name in names), self.named(rank, "i", 0)])
        body.set("from_", exp.From(this=exp.Table(this=quoted(found.name))))
        return Query(body, query.columns, query.lineage, 1)


def bare_value(operand: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=operand, expressions=[exp.Null()])


def append(body: exp.Query, value: exp.Expression, name: str) -> None:
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
        more = [Core.named(null(), "l", i) for i in range(query.lineage, lineage)]
        ids = columns[middle : middle + min(query.identity, identity)]
        rest = [Core.named(null(), "i", i) for i in range(len(ids), identity)]
        body.set("expressions", [*columns[:middle], *more, *ids, *rest])

    pad(query.body)
    query.lineage, query.identity = lineage, identity
