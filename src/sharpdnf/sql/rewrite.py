"""Query -> lineage query: every row of the result is one clause of one answer.

Each uncertain FROM item adds the number of its row as a plain column. DISTINCT, GROUP BY and UNION become UNION ALL
(a duplicate only adds a clause); EXISTS and IN become joins; OR around them becomes UNION ALL; INTERSECT becomes a
join, so its lineage is a conjunction. Derived tables, CTEs and views become common table expressions, so the same SQL
runs without arrays and without LATERAL. This is the positive relational algebra of Green, Karvounarakis, Tannen,
"Provenance semirings" (PODS 2007), for the semiring of positive Boolean expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.allowed import (
    check_call,
    check_expression,
    check_structure,
    is_scalar_extreme,
    refuse,
)
from sharpdnf.sql.catalog import Relation
from sharpdnf.sql.conditions import MAX_BRANCHES, Member, Plain, branches
from sharpdnf.sql.from_clause import Chain, FromClause, Pending, quoted
from sharpdnf.sql.scope import Output, Scope, Source, UnknownColumn
from sharpdnf.sql.tables import Environment, Rewritten, Tables, children


@dataclass(slots=True)
class Query:
    """A rewritten query: columns ``_c*``, then lineage ``_l*``, then (for expected values) row identity ``_i*``."""

    body: exp.Query
    columns: tuple[Output, ...]
    lineage: int
    identity: int = 0


@dataclass(slots=True)
class Alternative:
    """One way in which a condition can hold: FROM items to add, conditions to test, row numbers to note."""

    items: list[exp.Expression] = field(default_factory=list)
    conditions: list[exp.Expression] = field(default_factory=list)
    lineage: list[exp.Column] = field(default_factory=list)


@dataclass(slots=True)
class Item:
    """One bound item of a select list."""

    label: str
    key: str | None
    expression: exp.Expression


class Rewriter(FromClause):
    """Rewrites one query. ``expected`` asks for the identity of result rows as well."""

    def __init__(self, tables: Tables, *, expected: bool = False) -> None:
        self.tables, self.expected = tables, expected
        self.catalog, self.dialect, self.functions = tables.catalog, tables.catalog.dialect, tables.functions
        self.ctes: list[exp.CTE] = []
        self.items: dict[str, exp.Expression] = {}
        self.numbered: list[tuple[str, exp.Query]] = []
        """Certain tables whose rows must be numbered first: name of the temporary table, its SELECT."""
        self._views: dict[tuple[str, ...], Rewritten] = {}
        self._count = 0

    def fold(self, identifier: exp.Expression) -> str:
        if not isinstance(identifier, exp.Identifier):
            refuse(f"the name {identifier.sql()!r}", "a plain identifier is expected here")
        return self.tables.fold(identifier)

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"_{prefix}{self._count}"

    # ---- whole queries

    def query(self, node: exp.Expression, env: Environment, outer: Scope | None) -> Query:
        """A SELECT, a set operation, or one of them in parentheses, that may read uncertain rows."""
        if not self.tables.touches(node, env):
            rewritten = self.certain_cte(node, env, None)
            source = Source((), rewritten.name, rewritten.columns, identity=rewritten.identity)
            body = exp.Select(expressions=[self.named(source.column(o), "c", i) for i, o in enumerate(source.columns)])
            for i, column in enumerate(source.references(source.identity)):
                body.append("expressions", self.named(column, "i", i))
            body.set("from_", exp.From(this=exp.Table(this=quoted(rewritten.name))))
            columns = tuple(Output(o.label, o.key, f"_c{i}") for i, o in enumerate(rewritten.columns))
            return Query(body, columns, 0, len(rewritten.identity))
        check_structure(node)
        if isinstance(node, exp.Subquery):
            return self.query(node.this, self.with_clause(node, env), outer)
        env = self.with_clause(node, env)
        self.check_clauses(node)
        if isinstance(node, exp.Select):
            return self.select(node, env, outer)
        if isinstance(node, exp.Union):
            return self.union(node, env, outer)
        if isinstance(node, exp.Intersect):
            return self.intersect(node, env, outer)
        if isinstance(node, exp.Except):
            refuse("EXCEPT over uncertain rows", "it asks that rows be absent; against certain rows, use NOT EXISTS")
        refuse(type(node).__name__.upper(), "the rewriter does not know it")

    def check_clauses(self, node: exp.Expression) -> None:
        """Clauses that look at the whole result, which differs from world to world."""
        for name in ("limit", "offset"):
            if node.args.get(name):
                refuse(f"{name.upper()} over uncertain rows", "which rows it keeps is only defined for the outermost "
                       "ORDER BY prob() DESC LIMIT k")  # fmt: skip
        if node.args.get("having"):
            refuse("HAVING", "only HAVING prob() > c in the outermost SELECT is defined over uncertain rows")
        distinct = node.args.get("distinct")
        if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
            refuse("DISTINCT ON", "which row it keeps depends on which uncertain rows exist")

    def with_clause(self, node: exp.Expression, env: Environment) -> Environment:
        """Rewrites the CTEs of a node, in order, each seeing those before it."""
        with_ = node.args.get("with_")
        if with_ is None:
            return env
        check_structure(with_)
        self.tables.check_forward(with_, env)
        for cte in with_.expressions:
            check_structure(cte)
            key, names = self.fold(cte.args["alias"].this), cte.args["alias"].args.get("columns")
            seen = env.define(key, None, touches=False) if self.tables.self_visible(with_) else env
            touches = self.tables.touches(cte.this, seen)
            if touches:
                found = self.hoist(self.query(cte.this, env, None))
                if names:
                    columns = self.rename(found.columns, names)
                    found = Rewritten(found.name, columns, found.lineage, found.identity)
            else:
                recursive = with_ if with_.args.get("recursive") else None
                found = self.certain_cte(cte.this, seen, cte, recursive=recursive)
            env = env.define(key, found, touches=touches)
        return env

    def view(self, relation: Relation) -> Rewritten:
        """A view that reads uncertain rows, expanded."""
        if relation.key not in self._views:
            name = relation.path[-1]
            if relation.stored:
                refuse(f"the materialised view {name!r}", "it holds copies of uncertain rows")
            body, _ = self.tables.view(relation)
            found = self.hoist(self.query(body, Environment(home=relation.path[:-1]), None))
            if relation.labels is not None:
                if len(relation.labels) != len(found.columns):
                    refuse(f"the view {name!r}", "its column list also names a probability column that * hides")
                found = Rewritten(
                    found.name, self.rename(found.columns, [quoted(label) for label in relation.labels]),
                    found.lineage, found.identity,
                )  # fmt: skip
            self._views[relation.key] = found
        return self._views[relation.key]

    def hoist(self, query: Query) -> Rewritten:
        """Makes a rewritten query a common table expression of the result."""
        name = self.fresh("q")
        self.ctes.append(exp.CTE(this=query.body, alias=exp.TableAlias(this=quoted(name))))
        lineage = tuple(f"_l{i}" for i in range(query.lineage))
        return Rewritten(name, query.columns, lineage, tuple(f"_i{i}" for i in range(query.identity)))

    def certain_cte(
        self, node: exp.Expression, env: Environment, named: exp.Expression | None, *, recursive: exp.With | None = None
    ) -> Rewritten:
        """SQL that reads only certain rows, left as it is, as a common table expression with numbered columns."""
        body = self.tables.opaque(node, env)
        alias = named.args.get("alias") if named is not None else None
        names = [column for column in alias.args.get("columns") or ()] if alias is not None else []
        if recursive is not None:
            inner = exp.Select(expressions=[exp.Star()]).from_(alias.this.copy())
            inner.set("with_", exp.With(expressions=[exp.CTE(this=body, alias=alias.copy())], recursive=True))
            body, names = inner, []
        if isinstance(body, exp.Subquery) and not body.args.get("with_"):
            body = body.this
        labels = self.describe(body)
        if labels is None:
            raise UnknownColumn(f"the database cannot read {body.sql(self.dialect)[:120]!r} on its own")
        name = self.fresh("q")
        columns = tuple(Output(label, self.fold(quoted(label)), f"_c{i}") for i, label in enumerate(labels))
        aliases = exp.TableAlias(this=quoted(name), columns=[quoted(column.name) for column in columns])
        self.ctes.append(exp.CTE(this=body, alias=aliases))
        if names and isinstance(named, exp.CTE):
            columns = self.rename(columns, names)
        if not self.expected:
            return Rewritten(name, columns)
        source = Source((), self.fresh("t"), columns)
        self.items[source.alias] = exp.Table(this=quoted(name))
        self.number(source)
        return Rewritten(self.items.pop(source.alias).name, columns, (), source.identity)

    def number(self, source: Source) -> None:
        """Numbers the rows of a certain item once, in a temporary table: duplicates count in expected values."""
        item = self.items[source.alias]
        name = self.fresh("sharpdnf_n")
        select = exp.select(exp.Star()).from_(item.copy())
        number = exp.Window(this=exp.RowNumber(), partition_by=[])
        select.append("expressions", exp.alias_(number, "_sharpdnf_n", quoted=True))
        self.numbered.append((name, self.complete(select)))
        self.items[source.alias] = exp.Table(this=quoted(name))
        source.identity = ("_sharpdnf_n",)

    def complete(self, body: exp.Query) -> exp.Query:
        """The body with all common table expressions so far in front."""
        body = body.copy()
        if self.ctes:
            body.set("with_", exp.With(expressions=[cte.copy() for cte in self.ctes]))
        return body

    def describe(self, body: exp.Expression) -> tuple[str, ...] | None:
        name = self.fresh("d")
        star = exp.select(exp.Star()).from_(quoted(name))
        cte = exp.CTE(this=body.copy(), alias=exp.TableAlias(this=quoted(name)))
        star.set("with_", exp.With(expressions=[*(c.copy() for c in self.ctes), cte]))
        return self.catalog.describe(star.sql(self.dialect))

    # ---- one SELECT

    def select(self, node: exp.Select, env: Environment, outer: Scope | None) -> Query:
        scope = Scope(outer)
        chains = self.chains(node, env, scope)
        items = self.select_list(node, env, scope)
        self.check_group(node, items, env, scope)
        alternatives = self.alternatives(node, chains, env, scope)
        width = max(len(alternative.lineage) for alternative in alternatives)
        identity = [column for chain in chains for column in chain.identity] if self.expected else []
        bodies = [self.emit(items, chains, alternative, width, identity) for alternative in alternatives]
        columns = tuple(Output(item.label, item.key, f"_c{i}") for i, item in enumerate(items))
        query = Query(union_all(bodies), columns, width, len(identity))
        grouped = node.args.get("distinct") or node.args.get("group")
        return self.by_value(query) if self.expected and grouped else query

    def emit(
        self, items: list[Item], chains: list[Chain], alternative: Alternative, width: int, identity: list[exp.Column]
    ) -> exp.Select:
        """One SELECT of the rewritten query."""
        select = exp.Select(expressions=[self.named(item.expression.copy(), "c", i) for i, item in enumerate(items)])
        nulls = [null()] * (width - len(alternative.lineage))
        for prefix, columns in (("l", [*alternative.lineage, *nulls]), ("i", identity)):
            for i, column in enumerate(columns):
                select.append("expressions", self.named(column.copy(), prefix, i))
        rest = [*(chain.item() for chain in chains[1:]), *alternative.items]
        if chains:
            start, joins = chains[0].first.copy(), [join.copy() for join in chains[0].joins]
        elif rest:
            start, joins = rest.pop(0).copy(), []
        if chains or alternative.items:
            select.set("from_", exp.From(this=start))
            select.set("joins", joins + [exp.Join(this=item.copy()) for item in rest])
        if alternative.conditions:
            select.set("where", exp.Where(this=exp.and_(*(c.copy() for c in alternative.conditions), copy=False)))
        return select

    @staticmethod
    def named(expression: exp.Expression, prefix: str, index: int) -> exp.Alias:
        return exp.Alias(this=expression, alias=quoted(f"_{prefix}{index}"))

    def select_list(self, node: exp.Select, env: Environment, scope: Scope) -> list[Item]:
        """The select list with stars expanded and names bound."""
        items: list[Item] = []
        for expression in node.expressions:
            star = expression.this if isinstance(expression, exp.Column) else expression
            if isinstance(star, exp.Star):
                check_structure(star)
                path = None
                if star is not expression:
                    parts = (expression.args.get(name) for name in ("catalog", "db", "table"))
                    path = tuple(self.fold(part) for part in parts if part)
                items += [Item(v.label, v.key, v.expression) for v in scope.star(path)]
                continue
            alias = expression.args["alias"] if isinstance(expression, exp.Alias) else None
            bound = self.expression(expression.this if alias is not None else expression, env, scope)
            if alias is not None:
                label, key = alias.name, self.fold(alias)
                if self.dialect != "postgres":
                    scope.aliases[key] = bound
            elif isinstance(expression, exp.Column):
                label, key = expression.name, self.fold(expression.this)
            else:
                label, key = expression.sql(self.dialect), None
            items.append(Item(label, key, bound))
        return items

    def check_group(self, node: exp.Select, items: list[Item], env: Environment, scope: Scope) -> None:
        """GROUP BY without aggregates is DISTINCT if every item is a function of the keys; otherwise refused."""
        group = node.args.get("group")
        if group is None:
            return
        check_structure(group)
        if group.args.get("all"):
            return
        listed = [
            e for part in group.expressions for e in (part.expressions if isinstance(part, exp.Tuple) else [part])
        ]
        keys = [self.group_key(expression, items, env, scope) for expression in listed]
        if not keys:
            refuse("GROUP BY ()", "the empty group exists in every world")
        for item in items:
            if not determined(item.expression, keys):
                refuse(f"{item.label!r} beside GROUP BY", "it is not a function of the grouping columns")

    def group_key(
        self, expression: exp.Expression, items: list[Item], env: Environment, scope: Scope
    ) -> exp.Expression:
        if isinstance(expression, exp.Literal):
            position = int(expression.this) if expression.is_int else 0
            if not 1 <= position <= len(items):
                refuse(f"GROUP BY {expression.sql()}", "it is no position of the select list")
            return items[position - 1].expression
        if isinstance(expression, exp.Column) and not expression.table:
            key = self.fold(expression.this)
            named = [item for item in items if item.key == key]
            if named and not any(v.key == key for v in scope.visible):
                return named[0].expression
        return self.expression(expression, env, scope)

    # ---- conditions

    def alternatives(self, node: exp.Select, chains: list[Chain], env: Environment, scope: Scope) -> list[Alternative]:
        """The ways in which joins and WHERE can hold."""
        start = Alternative(
            conditions=[condition for chain in chains for condition in chain.moved],
            lineage=[column for chain in chains for column in chain.lineage],
        )
        pending = [p for chain in chains for p in chain.pending]
        where = node.args.get("where")
        if where is not None:
            pending.append(Pending(where.this, scope, env))
        found = [start]
        for condition in pending:
            found = combine(found, self.condition(condition))
        return found

    def condition(self, pending: Pending) -> list[Alternative]:
        found: list[Alternative] = []
        for branch in branches(pending.node, lambda node: self.tables.touches(node, pending.env)):
            ways = [Alternative()]
            for atom in branch:
                if isinstance(atom, Plain):
                    bound = self.expression(atom.condition(), pending.env, pending.scope)
                    ways = combine(ways, [Alternative(conditions=[bound])])
                else:
                    ways = combine(ways, self.member(atom, pending.env, pending.scope))
            found += ways
        if len(found) > MAX_BRANCHES:
            refuse("a condition with this many ORs around subqueries", f"it needs more than {MAX_BRANCHES} parts")
        return found

    def member(self, atom: Member, env: Environment, scope: Scope) -> list[Alternative]:
        """EXISTS or IN as a join: with the subquery as it stands, or, if correlated, with its FROM items."""
        node = atom.query
        while isinstance(node, exp.Subquery):
            check_structure(node)
            env, node = self.with_clause(node, env), node.this
        left = [self.expression(part, env, scope) for part in atom.left]
        kept, views = len(self.ctes), dict(self._views)
        try:
            query = self.query(node, env, Scope(scope, closed=True))
        except UnknownColumn:
            del self.ctes[kept:]
            self._views = views
            return self.correlated(node, atom, left, env, scope)
        found = self.hoist(query)
        source = Source((), self.fresh("t"), query.columns, found.lineage)
        item = exp.alias_(exp.Table(this=quoted(found.name)), source.alias, table=True, quoted=True)
        right = [source.column(column) for column in source.columns]
        return [Alternative([item], self.compare(atom, left, right), source.references(source.lineage))]

    def compare(
        self, atom: Member, left: list[exp.Expression], right: Sequence[exp.Expression]
    ) -> list[exp.Expression]:
        if not left:
            return []
        if len(left) != len(right):
            raise SQLError(f"the subquery of IN or ANY has {len(right)} columns where {len(left)} are compared")
        return [
            atom.compare(this=exp.paren(a.copy()), expression=exp.paren(b.copy()))
            for a, b in zip(left, right, strict=True)
        ]

    def correlated(
        self, node: exp.Expression, atom: Member, left: list[exp.Expression], env: Environment, scope: Scope
    ) -> list[Alternative]:
        """A subquery that reads columns of the query around it: its FROM items join that query's."""
        check_structure(node)
        env = self.with_clause(node, env)
        self.check_clauses(node)
        if isinstance(node, exp.Union) and not left:
            sides = (node.this, node.expression)
            return [way for side in sides for way in self.member(Member(side), env, scope)]
        if not isinstance(node, exp.Select):
            refuse(f"a correlated {type(node).__name__.upper()}", "split it into several EXISTS or IN conditions")
        inner = Scope(scope)
        chains = self.chains(node, env, inner)
        if not left and all(isinstance(e, exp.Star | exp.Literal | exp.Null) for e in node.expressions):
            items: list[Item] = []
        else:
            items = self.select_list(node, env, inner)
        self.check_group(node, items, env, inner)
        conditions = self.compare(atom, left, [item.expression for item in items])
        own = [Alternative([chain.item() for chain in chains], conditions)]
        return combine(own, self.alternatives(node, chains, env, inner))

    # ---- set operations

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

    # ---- expressions

    def expression(
        self, node: exp.Expression, env: Environment, scope: Scope, *, aggregates: bool = False
    ) -> exp.Expression:
        """A copy with its names bound and everything in it on the white list."""
        holder = exp.Paren(this=node.copy())
        self.bind(holder.this, env, scope, aggregates=aggregates)
        bound: exp.Expression = holder.this
        return bound.pop()

    def bind(self, node: exp.Expression, env: Environment, scope: Scope, *, aggregates: bool) -> None:
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                refuse(f"{node.sql()} in an expression", "name the columns")
            check_structure(node)
            node.replace(scope.bind(node, self.tables.fold))
            return
        if isinstance(node, exp.Query):
            if self.tables.touches(node, env):
                refuse(
                    f"a subquery over uncertain rows in {node.sql()[:80]!r}",
                    "it may stand only as EXISTS, IN or = ANY in a WHERE or inner join condition",
                )
            found = self.certain_query(node, env, scope)
            node.replace(found if isinstance(node, exp.Subquery) else found.unnest())
            return
        if isinstance(node, exp.In):
            check_structure(node)
        if not is_scalar_extreme(node, self.dialect):
            check_expression(node, aggregates=aggregates)
            if isinstance(node, exp.Func) and not aggregates:
                check_call(node, self.dialect, self.functions)
        for child in list(children(node)):
            self.bind(child, env, scope, aggregates=aggregates)

    def certain_query(self, node: exp.Query, env: Environment, scope: Scope) -> exp.Expression:
        """A subquery over certain rows: as it is if it stands on its own, else with its outer names bound."""
        body = self.tables.opaque(node, env)
        inner = body.unnest()
        loose = self.dialect == "sqlite" and any(
            column.this.args.get("quoted") and not column.table
            for column in inner.find_all(exp.Column)
            if isinstance(column.this, exp.Identifier)
        )  # SQLite reads an unknown "name" as a string, so there standing alone proves nothing
        if not loose and self.describe(inner) is not None:
            return exp.Subquery(this=inner)
        select = node.unnest()
        check_structure(select)
        if not isinstance(select, exp.Select) or select.args.get("with_"):
            refuse(f"the correlated subquery {select.sql()[:60]!r}", "only a plain SELECT can refer to outer columns")
        return exp.Subquery(this=self.certain_select(select, env, scope))

    def certain_select(self, node: exp.Select, env: Environment, outer: Scope) -> exp.Select:
        """A correlated SELECT over certain rows: aggregates, HAVING, ORDER BY and LIMIT keep their meaning."""
        expected, self.expected = self.expected, False
        try:
            scope = Scope(outer)
            chains = self.chains(node, env, scope)
            bound = exp.Select(distinct=node.args["distinct"].copy() if node.args.get("distinct") else None)
            if isinstance(bound.args.get("distinct"), exp.Distinct) and bound.args["distinct"].args.get("on"):
                refuse("DISTINCT ON in a correlated subquery", "the rewriter does not know it")
            for expression in node.expressions:
                if isinstance(expression, exp.Star):
                    bound.append("expressions", exp.Literal.number(1) if not scope.star(None) else exp.Star())
                    continue
                value = expression.unalias()
                bound.append("expressions", self.expression(value, env, scope, aggregates=True))
            if chains:
                rest = [exp.Join(this=chain.item()) for chain in chains[1:]]
                bound.set("from_", exp.From(this=chains[0].first.copy()))
                bound.set("joins", [*(join.copy() for join in chains[0].joins), *rest])
            conditions = [condition for chain in chains for condition in chain.moved]
            if node.args.get("where"):
                conditions.append(exp.paren(self.expression(node.args["where"].this, env, scope)))
            if conditions:
                bound.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
            for name in ("group", "having", "order", "limit", "offset"):
                clause = node.args.get(name)
                if clause is not None:
                    bound.set(name, self.clause(clause, env, scope))
            return bound
        finally:
            self.expected = expected

    def clause(self, clause: exp.Expression, env: Environment, scope: Scope) -> exp.Expression:
        copy = clause.copy()
        for child in list(children(copy)):
            self.bind(child, env, scope, aggregates=True)
        return copy


def null() -> exp.Expression:
    return exp.cast(exp.Null(), "BIGINT")


def bare_value(operand: exp.Expression) -> exp.Expression:
    return exp.Coalesce(this=operand, expressions=[exp.Null()])


def union_all(bodies: list[exp.Query]) -> exp.Query:
    whole = bodies[0]
    for body in bodies[1:]:
        whole = exp.Union(this=whole, expression=body, distinct=False)
    return whole


def combine(left: list[Alternative], right: list[Alternative]) -> list[Alternative]:
    """Both must hold: every pair."""
    if len(left) * len(right) > MAX_BRANCHES:
        refuse("a condition with this many ORs around subqueries", f"it needs more than {MAX_BRANCHES} parts")
    return [
        Alternative(a.items + b.items, a.conditions + b.conditions, a.lineage + b.lineage)
        for a, b in product(left, right)
    ]


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
        more = [Rewriter.named(null(), "l", i) for i in range(query.lineage, lineage)]
        ids = columns[middle : middle + min(query.identity, identity)]
        rest = [Rewriter.named(null(), "i", i) for i in range(len(ids), identity)]
        body.set("expressions", [*columns[:middle], *more, *ids, *rest])

    pad(query.body)
    query.lineage, query.identity = lineage, identity


def determined(expression: exp.Expression, keys: list[exp.Expression]) -> bool:
    """Whether an expression is a function of the keys."""
    if any(expression == key for key in keys):
        return True
    if isinstance(expression, exp.Column | exp.Query):
        return False
    return all(determined(child, keys) for child in children(expression))
