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
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Relation
from sharpdnf.sql.bind.scope import Output, Scope, Source, UnknownColumn
from sharpdnf.sql.bind.tables import Environment, Rewritten, children
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.parse.text import LABEL
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.conditions import MAX_BRANCHES, Member, Plain, branches
from sharpdnf.sql.rewrite.expressions import Expressions
from sharpdnf.sql.rewrite.from_clause import Chain, Pending
from sharpdnf.sql.rewrite.sets import SetOperations, constant_of
from sharpdnf.sql.rewrite.state import Item, Query, null, union_all


@dataclass(slots=True)
class Alternative:
    """One way in which a condition can hold: FROM items to add, conditions to test, row numbers to note."""

    items: list[exp.Expr] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    lineage: list[exp.Column] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Selected:
    """The select list of one SELECT, and what its names mean."""

    env: Environment
    scope: Scope
    items: list[Item]
    unshown: list[exp.Expr]
    """Grouping columns that are not among the items."""


class Rewriter(Expressions, SetOperations):
    """Rewrites one query."""

    last: Selected | None = None
    """The SELECT that was rewritten last: the outermost one, at the end."""

    # ---- whole queries

    def query(self, node: exp.Expr, env: Environment, outer: Scope | None) -> Query:
        """A SELECT, a set operation, or one of them in parentheses, that may read uncertain rows."""
        if not self.tables.touches(node, env):
            rewritten = self.certain_cte(node, env)
            source = Source((), rewritten.name, rewritten.columns, identity=rewritten.identity)
            values = [source.column(o) for o in source.columns]
            if isinstance(node, exp.Select) and len(node.expressions) == len(values):
                values = [constant_of(node, i) or value for i, value in enumerate(values)]
            body = exp.Select(expressions=[self.named(value, "c", i) for i, value in enumerate(values)])
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
            return self.except_(node, env, outer)
        refuse(type(node).__name__.upper(), "the rewriter does not know it")

    def outermost(self, node: exp.Select) -> Selected:
        """The select list of a whole query, checked as if it read uncertain rows."""
        check_structure(node)
        self.check_clauses(node)
        self.select(node, self.with_clause(node, Environment()), None)
        assert self.last is not None
        return self.last

    def check_clauses(self, node: exp.Expr) -> None:
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

    def with_clause(self, node: exp.Expr, env: Environment) -> Environment:
        """Rewrites the CTEs of a node, in order, each seeing those before it."""
        with_ = node.args.get("with_")
        if with_ is None:
            return env
        check_structure(with_)
        self.tables.check_forward(with_, env)
        for cte in with_.expressions:
            check_structure(cte)
            alias = cte.args["alias"]
            key, names = self.fold(alias.this), alias.args.get("columns")
            seen = env.define(key, None, touches=False) if self.tables.self_visible(with_) else env
            touches = self.tables.touches(cte.this, seen)
            if touches:
                found = self.hoist(self.query(cte.this, env, None))
                if names:
                    columns = self.rename(found.columns, names)
                    found = Rewritten(found.name, columns, found.lineage, found.identity)
            else:
                found = self.certain_cte(cte.this, seen, alias, recursive=bool(with_.args.get("recursive")))
            env = env.define(key, found, touches=touches)
        return env

    def view(self, relation: Relation) -> Rewritten:
        """A view that reads uncertain rows, expanded."""
        if relation.key not in self._views:
            name = relation.path[-1]
            if relation.stored:
                refuse(f"the materialised view {name!r}", "it holds copies of uncertain rows")
            body, _ = self.tables.view(relation)
            own = any(kind.this == exp.DataType.Type.USERDEFINED for kind in body.find_all(exp.DataType))
            if own and self.dialect.schema_types:
                here = self.catalog.resolve((self.fold(quoted(name)),), None)
                if here is None or here.path != relation.path:
                    refuse(f"the view {name!r} with a type of its schema", "here the type's name may mean another one")
            found = self.hoist(self.query(body, Environment(home=relation.path[:-1]), None))
            if relation.labels is not None:
                if len(relation.columns) != len(found.columns):
                    refuse(f"the view {name!r}", "its column list may name a probability column that * hides")
                found = Rewritten(
                    found.name, self.rename(found.columns, [quoted(label) for label in relation.labels]),
                    found.lineage, found.identity,
                )  # fmt: skip
            self._views[relation.key] = found
        return self._views[relation.key]

    # ---- one SELECT

    def select(self, node: exp.Select, env: Environment, outer: Scope | None) -> Query:
        """One SELECT per way in which its conditions can hold."""
        scope = Scope(outer)
        chains = self.chains(node, env, scope)
        items = self.select_list(node, env, scope)
        keys = self.check_group(node, items, env, scope)
        shown = [item.expression.unnest() for item in items]
        selected = Selected(env, scope, items, [key for key in keys if key.unnest() not in shown])
        if self.expected and not node.args.get("distinct"):
            items = items + [Item("", None, key) for key in keys]
        alternatives = self.alternatives(node, chains, env, scope)
        width = max(len(alternative.lineage) for alternative in alternatives)
        identity = [column for chain in chains for column in chain.identity] if self.expected else []
        bodies = [self.emit(items, chains, alternative, width, identity) for alternative in alternatives]
        columns = tuple(Output(item.label, item.key, f"_c{i}") for i, item in enumerate(items))
        query = Query(union_all(bodies), columns, width, len(identity))
        self.last = selected
        grouped = node.args.get("distinct") or node.args.get("group")
        return self.by_value(query, len(selected.items)) if self.expected and grouped else query

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

    def select_list(self, node: exp.Select, env: Environment, scope: Scope) -> list[Item]:
        """The select list with stars expanded and names bound."""
        items: list[Item] = []
        aliases: dict[str, exp.Expr] = {}
        for expression in node.expressions:
            star = expression.this if isinstance(expression, exp.Column) else expression
            if isinstance(star, exp.Star):
                check_structure(star)
                dropped = [self.excluded(name) for name in star.args.get("except_") or ()]
                path = None
                if star is not expression:
                    parts = (expression.args.get(name) for name in ("catalog", "db", "table"))
                    path = tuple(self.fold(part) for part in parts if part)
                shown = scope.star(path, dropped)
                self.starred |= {v.key for v in scope.visible if v.hidden}
                items += [Item(v.label, v.key, v.expression) for v in shown]
                continue
            alias = expression.args["alias"] if isinstance(expression, exp.Alias) else None
            bound = self.expression(expression.this if alias is not None else expression, env, scope)
            if alias is not None:
                label, key = alias.name, self.fold(alias)
                aliases[key] = bound
                if self.dialect.aliases_seen_by == "items":
                    scope.aliases[key] = bound
            elif isinstance(expression, exp.Column):
                label, key = expression.name, self.fold(expression.this)
            else:
                label, key = expression.meta.get(LABEL) or expression.sql(self.dialect.name), None
            items.append(Item(label, key, bound))
        if self.dialect.aliases_seen_by == "where":
            scope.aliases.update(aliases)
        return items

    def excluded(self, name: exp.Expr) -> str:
        """A column that * EXCLUDE leaves out."""
        if isinstance(name, exp.Column) and len(name.parts) > 1:
            refuse(f"* EXCLUDE ({name.sql(self.dialect.name)})", "write t.* EXCLUDE (column)")
        return self.fold(name.this if isinstance(name, exp.Column) else name)

    def check_group(self, node: exp.Select, items: list[Item], env: Environment, scope: Scope) -> list[exp.Expr]:
        """The keys. GROUP BY without aggregates is DISTINCT if every item is a function of them; otherwise refused."""
        group = node.args.get("group")
        if group is None:
            return []
        check_structure(group)
        if group.args.get("all"):
            return []
        listed = [
            e
            for part in group.expressions
            for e in (part.expressions if isinstance(part, exp.Tuple) else [part.unnest()])
        ]
        keys = [self.group_key(expression, items, env, scope) for expression in listed]
        if not keys:
            refuse("GROUP BY ()", "the empty group exists in every world")
        for item in items:
            if not determined(item.expression, keys):
                refuse(f"{item.label!r} beside GROUP BY", "it is not a function of the grouping columns")
        return keys

    def group_key(self, expression: exp.Expr, items: list[Item], env: Environment, scope: Scope) -> exp.Expr:
        """A position, an alias of the select list that is no column, or an expression."""
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
        """The ways in which one condition can hold."""
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
        if left:
            self.check_same_affinity(query)
        found = self.hoist(query)
        source = Source((), self.fresh("t"), query.columns, found.lineage)
        conditions = self.compare(atom, left, [source.column(column) for column in source.columns])
        return [Alternative([self.aliased(found, source)], conditions, source.references(source.lineage))]

    def compare(self, atom: Member, left: list[exp.Expr], right: Sequence[exp.Expr]) -> list[exp.Expr]:
        """The conditions of IN or ANY; none for EXISTS."""
        if not left:
            return []
        if len(left) != len(right):
            raise SQLError(f"the subquery of IN or ANY has {len(right)} columns where {len(left)} are compared")
        return [
            atom.compare(this=exp.paren(a.copy()), expression=exp.paren(self.typed(b.copy())))
            for a, b in zip(left, right, strict=True)
        ]

    def correlated(
        self, node: exp.Expr, atom: Member, left: list[exp.Expr], env: Environment, scope: Scope
    ) -> list[Alternative]:
        """A subquery that reads columns of the query around it: its FROM items join that query's."""
        check_structure(node)
        env = self.with_clause(node, env)
        self.check_clauses(node)
        if isinstance(node, exp.Union):
            sides = [Member(side, atom.left, atom.compare) for side in (node.this, node.expression)]
            ways = [way for side in sides for way in self.member(side, env, scope)]
            types = {self.compared_types(way, len(left)) for way in ways} if left else {()}
            if len(types) > 1 or None in types:
                refuse("a correlated UNION under IN whose sides may differ in type",
                       "it compares after conversion to a common one; write x IN (...) OR x IN (...)")  # fmt: skip
            return ways
        if not isinstance(node, exp.Select):
            refuse(f"a correlated {type(node).__name__.upper()}", "split it into several EXISTS or IN conditions")
        inner = Scope(scope)
        merges, self.merges = self.merges, True
        try:
            chains = self.chains(node, env, inner)
        finally:
            self.merges = merges
        if not left and all(isinstance(e, exp.Star | exp.Literal | exp.Null) for e in node.expressions):
            items: list[Item] = []
        else:
            items = self.select_list(node, env, inner)
        self.check_group(node, items, env, inner)
        conditions = self.compare(atom, left, [item.expression for item in items])
        own = [Alternative([chain.item() for chain in chains], conditions)]
        return combine(own, self.alternatives(node, chains, env, inner))

    def compared_types(self, way: Alternative, count: int) -> tuple[str, ...] | None:
        """The types of what ``compare`` put on the right, which stands first; None if the database cannot tell."""
        values = [condition.expression.copy() for condition in way.conditions[:count]]
        select = exp.Select(expressions=values, from_=exp.From(this=way.items[0].copy())) if way.items else None
        if select is None:
            return None
        select.set("joins", [exp.Join(this=item.copy()) for item in way.items[1:]])
        return self.catalog.types(self.complete(select).sql(self.dialect.name))


def combine(left: list[Alternative], right: list[Alternative]) -> list[Alternative]:
    """Both must hold: every pair."""
    if len(left) * len(right) > MAX_BRANCHES:
        refuse("a condition with this many ORs around subqueries", f"it needs more than {MAX_BRANCHES} parts")
    return [
        Alternative(a.items + b.items, a.conditions + b.conditions, a.lineage + b.lineage)
        for a, b in product(left, right)
    ]


def determined(expression: exp.Expr, keys: list[exp.Expr]) -> bool:
    """Whether an expression is a function of the keys."""
    if expression in keys:
        return True
    if isinstance(expression, exp.Column | exp.Query):
        return False
    return all(determined(child, keys) for child in children(expression))
