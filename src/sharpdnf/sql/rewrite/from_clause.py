"""The FROM clause: join trees whose items carry lineage columns, and the names that they bring into sight."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Uncertain
from sharpdnf.sql.bind.scope import Output, Scope, Source, UnknownColumn
from sharpdnf.sql.bind.tables import Environment, Rewritten
from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.state import State

PAD = "a row that is padded with NULLs exists because an uncertain row is absent"


@dataclass(slots=True)
class Pending:
    """A join condition with an uncertain subquery, to be split like a WHERE condition."""

    node: exp.Expr
    scope: Scope
    env: Environment


@dataclass(slots=True)
class Chain:
    """``first JOIN ... JOIN ...``: one comma-separated part of FROM."""

    first: exp.Expr
    scope: Scope
    sources: list[Source] = field(default_factory=list)
    """All of them; the scope has only those in sight."""
    joins: list[exp.Join] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    moved: list[exp.Expr] = field(default_factory=list)
    """Bound conditions of inner joins that refer to the query around this one: they go to WHERE."""

    @property
    def lineage(self) -> list[exp.Column]:
        return [column for source in self.sources for column in source.references(source.lineage)]

    @property
    def identity(self) -> list[exp.Column]:
        return [column for source in self.sources for column in source.references(source.identity)]

    @property
    def uncertain(self) -> bool:
        return bool(self.pending or any(source.lineage for source in self.sources))

    def take(self, other: Chain) -> None:
        """What the items of another chain bring along; the caller joins the items themselves."""
        self.sources += other.sources
        self.pending += other.pending
        self.moved += other.moved

    def item(self) -> exp.Expr:
        """As one FROM item, parenthesised if it is a join."""
        first = self.first.copy()
        if not self.joins:
            return first
        first.set("joins", [join.copy() for join in self.joins])
        return exp.Subquery(this=first)


class FromClause(State):
    """The part of the rewriter that reads FROM."""

    def chains(self, select: exp.Select, env: Environment, scope: Scope) -> list[Chain]:
        """The comma-separated parts of a FROM clause; their names are added to ``scope``."""
        start = select.args.get("from_")
        if start is None:
            return []
        groups: list[tuple[exp.Expr, list[exp.Join]]] = [(start.this, [])]
        for join in select.args.get("joins") or ():
            comma = not any(join.args.get(name) for name in ("on", "using", "side", "kind", "method"))
            # SQLite's comma binds like JOIN; in the others it separates whole joins.
            if comma and not self.dialect.comma_binds_like_join:
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        found = []
        for first, joins in groups:
            chain = self.chain(first, joins, env, scope)
            scope.join(chain.scope)
            found.append(chain)
        return found

    def chain(self, first: exp.Expr, joins: list[exp.Join], env: Environment, scope: Scope) -> Chain:
        """An item and the joins behind it."""
        chain = self.item(first, env, scope)
        if joins and chain.joins:
            chain = Chain(chain.item(), chain.scope, chain.sources, [], chain.pending, chain.moved)
        for join in joins:
            self.join(chain, join, env, scope)
        return chain

    def item(self, node: exp.Expr, env: Environment, scope: Scope) -> Chain:
        """A table, a derived table, VALUES or a parenthesised join."""
        if isinstance(node, exp.Table):
            check_structure(node)
            nested = node.args.get("joins")
            if nested:
                bare = node.copy()
                bare.set("joins", None)
                return self.chain(bare, nested, env, scope)
            return self.leaf(self.table(node, env), node, scope)
        if isinstance(node, exp.Subquery):
            check_structure(node)
            if isinstance(node.this, exp.Table):
                if node.args.get("alias"):  # its columns are those that * lists
                    rows = exp.select(exp.Star()).from_(self.bare(node))
                    return self.item(exp.Subquery(this=rows, alias=node.args["alias"].copy()), env, scope)
                return self.item(node.this, env, scope)
            kept, views = len(self.ctes), dict(self._views)
            try:
                return self.leaf(self.derived(node, env), node, scope)
            except UnknownColumn:
                if scope.parent is None or scope.parent.closed:
                    raise
                del self.ctes[kept:]
                self._views = views
                return self.merged(node, env, scope)
        if isinstance(node, exp.Values):
            return self.leaf(self.certain_cte(self.bare(node), env), node, scope)
        refuse(f"{type(node).__name__.upper()} in FROM", "only tables, subqueries, VALUES and joins have a lineage")

    @staticmethod
    def bare(node: exp.Expr) -> exp.Expr:
        """A copy without its alias."""
        copy = node.copy()
        copy.set("alias", None)
        return copy

    def leaf(self, found: Rewritten | Source, node: exp.Expr, scope: Scope) -> Chain:
        """A chain of one item under a fresh alias, its columns renamed by the user's alias."""
        alias = node.args.get("alias")
        if alias is not None:
            check_structure(alias)
        if isinstance(found, Rewritten):
            path = (self.fold(node.this),) if isinstance(node, exp.Table) else ()
            item = exp.Table(this=quoted(found.name))
            source = Source(path, self.fresh("t"), found.columns, found.lineage, found.identity, item)
        else:
            source = found
        if alias is not None and alias.this is not None:
            source.path = (self.fold(alias.this),)
        renamed = alias.args.get("columns") if alias is not None else None
        if renamed:
            source.columns = self.rename(source.columns, renamed)
        source.item = exp.alias_(source.item, source.alias, table=True, quoted=True)
        inner = Scope(scope.parent, closed=scope.closed)
        inner.add(source)
        return Chain(source.item, inner, [source])

    def rename(self, columns: tuple[Output, ...], names: list[exp.Expr]) -> tuple[Output, ...]:
        """Column aliases as in ``t(a, b)``: by position, so a hidden column must not stand among them."""
        if len(names) > len(columns):
            refuse("a column alias list", f"it has {len(names)} names for {len(columns)} columns")
        if any(column.hidden for column in columns[: len(names)]):
            refuse("a column alias list over the probability column", "the column is hidden; select the others first")
        renamed = [
            Output(name.name, self.fold(name), column.name) for name, column in zip(names, columns, strict=False)
        ]
        return (*renamed, *columns[len(names) :])

    def table(self, node: exp.Table, env: Environment) -> Rewritten | Source:
        """The relation behind a table name: a CTE, an expanded view, an uncertain or a certain table."""
        key = self.tables.cte_key(node, env)
        if key is not None:
            rewritten = env.ctes[key]
            assert rewritten is not None, "CTEs are rewritten before they are read"
            return rewritten
        relation = self.tables.relation(node, env)
        uncertain: Uncertain | None = self.tables.uncertain.get(relation.key)
        if uncertain is None and self.tables.relation_touches(relation):
            return self.view(relation)
        columns = tuple(
            Output(name, self.fold(quoted(name)), name, hidden=uncertain is not None and name == uncertain.prob)
            for name in relation.columns
        )
        path = tuple(self.fold(quoted(part)) for part in relation.path)
        source = Source(path, self.fresh("t"), columns, item=relation.table())
        if uncertain is not None:
            source.lineage = (ROW_ID,)
            source.identity = (ROW_ID,) if self.expected else ()
            source.item = uncertain.source.copy()
        elif self.expected and relation.row_id is not None:
            source.identity = (relation.row_id,)
        elif self.expected:
            self.number(source)
        return source

    def derived(self, node: exp.Subquery, env: Environment) -> Rewritten:
        """A derived table that stands on its own, as a CTE."""
        inner = self.bare(node)
        if not self.tables.touches(inner, env):
            return self.certain_cte(inner.this, env)
        return self.hoist(self.query(inner.this, self.with_clause(inner, env), None))

    def merged(self, node: exp.Subquery, env: Environment, scope: Scope) -> Chain:
        """A derived table that refers to the query around it: its FROM items and conditions join the query it is in.

        That may repeat rows, so it is sound under EXISTS and IN only, and only for a SELECT without aggregates.
        """
        select = node.this
        if not self.merges or not isinstance(select, exp.Select) or node.args.get("with_"):
            refuse("a derived table that refers to the query around it", "move its condition to the outer WHERE")
        check_structure(select)
        env = self.with_clause(select, env)
        self.check_clauses(select)
        beside = replace(scope.snapshot(), lateral=True)
        inner = Scope(beside)
        chains = self.chains(select, env, inner)
        if not chains:
            refuse("a derived table without FROM that refers to the query around it", "name the columns themselves")
        items = self.select_list(select, env, inner)
        self.check_group(select, items, env, inner)
        outputs = tuple(Output(item.label, item.key, f"_c{i}") for i, item in enumerate(items))
        values = {output.name: self.typed(item.expression) for output, item in zip(outputs, items, strict=True)}
        source = Source((), self.fresh("t"), outputs, values=values)
        alias = node.args.get("alias")
        if alias is not None:
            check_structure(alias)
            source.path = (self.fold(alias.this),) if alias.this is not None else ()
            if alias.args.get("columns"):
                source.columns = self.rename(source.columns, alias.args["columns"])
        outside = Scope(scope.parent)
        outside.add(source)
        kind = self.dialect.cross_join or None
        whole = Chain(chains[0].item(), outside, [*chains[0].sources], [], [*chains[0].pending], [*chains[0].moved])
        for chain in chains[1:]:
            whole.joins.append(exp.Join(this=chain.item(), kind=kind))
            whole.take(chain)
        whole.sources.append(source)
        if select.args.get("where"):
            whole.pending.append(Pending(select.args["where"].this, inner, env))
        return whole

    def join(self, chain: Chain, node: exp.Join, env: Environment, scope: Scope) -> None:
        """Appends one join to the chain."""
        check_structure(node)
        method, side, kind = (str(node.args.get(name) or "").upper() for name in ("method", "side", "kind"))
        if method == "NATURAL":
            refuse("NATURAL JOIN", "it would join on the probability column; name the columns with USING")
        if method or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or (side and kind in ("SEMI", "ANTI")):
            refuse(f"{' '.join(filter(None, (method, side, kind)))} JOIN", "its lineage is not defined here")
        beside = scope.snapshot()
        beside.join(chain.scope)
        right = self.item(node.this, env, beside)
        self.check_padding(chain, right, side, kind)
        semi, on = kind in ("SEMI", "ANTI"), node.args.get("on")
        if kind == "SEMI" and (right.uncertain or (on is not None and self.tables.touches(on, env))):
            kind = "INNER"
        inner = side == "" and kind in ("", "INNER", "CROSS")
        left = len(chain.scope.visible)
        chain.scope.join(right.scope)
        chain.take(right)
        condition = self.join_condition(chain, node, left, env, inner=inner)
        for source in right.sources if semi else ():
            chain.scope.hide(source)
            source.identity = ()
        if inner and condition is None:
            kind = self.dialect.cross_join
        chain.joins.append(exp.Join(this=right.item(), on=condition, side=side or None, kind=kind or None))

    @staticmethod
    def check_padding(left: Chain, right: Chain, side: str, kind: str) -> None:
        """Outer and anti-joins read the absence of rows, so the side that may be absent must be certain."""
        if kind == "ANTI" and right.uncertain:
            refuse("an anti-join against uncertain rows", "it asks that rows be absent")
        if side in ("LEFT", "FULL") and right.uncertain:
            refuse(f"{side} JOIN with an uncertain right side", PAD)
        if side in ("RIGHT", "FULL") and left.uncertain:
            refuse(f"{side} JOIN with an uncertain left side", PAD)
        nullable = [right] * (side in ("LEFT", "FULL") or kind == "ANTI") + [left] * (side in ("RIGHT", "FULL"))
        if any(chain.moved or any(source.values is not None for source in chain.sources) for chain in nullable):
            refuse("an outer join over a correlated join", "move the condition to the outer WHERE")

    def join_condition(
        self, chain: Chain, node: exp.Join, left: int, env: Environment, *, inner: bool
    ) -> exp.Expr | None:
        """ON or USING, bound; what cannot stay in the join is left with the chain."""
        using, on = node.args.get("using"), node.args.get("on")
        if using:
            side = str(node.args.get("side") or "").upper()
            if side in ("RIGHT", "FULL") and not self.dialect.outer_using:
                refuse("USING in a RIGHT or FULL JOIN", "which side's column it shows depends on the row; write ON")
            keys = [self.fold(name if isinstance(name, exp.Identifier) else name.this) for name in using]
            return exp.and_(*chain.scope.merge(keys, left, side, self.dialect), copy=False)
        if on is None:
            return None
        if self.tables.touches(on, env):
            if not inner:
                refuse("a subquery over uncertain rows in an outer join's ON", PAD)
            chain.pending.append(Pending(on, chain.scope.snapshot(), env))
            return None
        bound = self.expression(on, env, chain.scope)
        own = {source.alias for source in chain.sources}
        if inner and any(column.table not in own for column in bound.find_all(exp.Column) if column.table):
            chain.moved.append(bound)
            return None
        return bound
