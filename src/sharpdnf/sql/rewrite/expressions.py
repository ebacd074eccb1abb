"""Scalar expressions: names bound, nothing in them but what is on the white list; subqueries over certain rows."""

from __future__ import annotations

from sqlglot import exp

from sharpdnf.sql.bind.scope import Scope, Visible
from sharpdnf.sql.bind.tables import Environment, children
from sharpdnf.sql.parse.allowed import check_call, check_expression, check_structure, is_scalar_extreme
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.from_clause import FromClause


class Expressions(FromClause):
    """The part of the rewriter that reads values and conditions."""

    def expression(self, node: exp.Expr, env: Environment, scope: Scope, *, aggregates: bool = False) -> exp.Expr:
        """A copy with its names bound and everything in it on the white list."""
        holder = exp.Paren(this=node.copy())
        self.bind(holder.this, env, scope, aggregates=aggregates)
        bound: exp.Expr = holder.this
        return bound.pop()

    def bind(self, node: exp.Expr, env: Environment, scope: Scope, *, aggregates: bool) -> None:
        """Binds the names below a node in place; the node itself may be replaced."""
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                refuse(f"{node.sql()} in an expression", "name the columns")
            check_structure(node)
            node.replace(scope.bind(node, self.tables.fold, self.starred, self.has_fields))
            return
        if isinstance(node, exp.Query | exp.Values):
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
                check_call(node, self.catalog.functions())
        for child in list(children(node)):
            self.bind(child, env, scope, aggregates=aggregates)

    def has_fields(self, column: Visible) -> bool:
        """Whether DuckDB may read ``column.name`` as a field of the column."""
        if not self.dialect.fields:
            return False
        select = exp.Select(expressions=[column.expression.copy()])
        if column.source.item is not None:
            select.set("from_", exp.From(this=column.source.item.copy()))
        kinds = self.catalog.types(self.complete(select).sql(self.dialect.name))
        return kinds is None or kinds[0].startswith(("STRUCT", "UNION", "VARIANT", "JSON"))

    def certain_query(self, node: exp.Query | exp.Values, env: Environment, scope: Scope) -> exp.Expr:
        """A subquery over certain rows: as it is if it stands on its own, else with its outer names bound."""
        body = self.tables.opaque(node, env)
        inner = body.unnest()
        if self.describe(inner) is not None:
            return exp.Subquery(this=inner)
        select = node.unnest()
        check_structure(select)
        if not isinstance(select, exp.Select) or select.args.get("with_"):
            refuse(f"the correlated subquery {select.sql()[:60]!r}", "only a plain SELECT can refer to outer columns")
        return exp.Subquery(this=self.certain_select(select, env, scope))

    def certain_select(self, node: exp.Select, env: Environment, outer: Scope) -> exp.Select:
        """A correlated SELECT over certain rows: aggregates, HAVING, ORDER BY and LIMIT keep their meaning."""
        (expected, self.expected), (merges, self.merges) = (self.expected, False), (self.merges, False)
        try:
            scope = Scope(outer)
            chains = self.chains(node, env, scope)
            bound = exp.Select(distinct=node.args["distinct"].copy() if node.args.get("distinct") else None)
            if isinstance(bound.args.get("distinct"), exp.Distinct) and bound.args["distinct"].args.get("on"):
                refuse("DISTINCT ON in a correlated subquery", "the rewriter does not know it")
            for expression in node.expressions:
                if isinstance(expression, exp.Star):
                    if any(expression.args.values()):
                        refuse("* with EXCLUDE or REPLACE in a correlated subquery", "name the columns")
                    bound.append("expressions", exp.Literal.number(1) if not scope.star(None) else exp.Star())
                    continue
                value = self.expression(expression.unalias(), env, scope, aggregates=True)
                bound.append("expressions", value)
                if isinstance(expression, exp.Alias):
                    scope.aliases.setdefault(self.fold(expression.args["alias"]), value)
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
            self.expected, self.merges = expected, merges

    def clause(self, clause: exp.Expr, env: Environment, scope: Scope) -> exp.Expr:
        """GROUP BY, HAVING and ORDER BY also see the select list's aliases; a name alone in ORDER BY is one first."""
        copy = clause.copy()
        for child in list(children(copy)):
            for column in child.find_all(exp.Column) if isinstance(child, exp.Ordered) else ():
                alias = None if column.table else scope.aliases.get(self.fold(column.this))
                if alias is not None and column is not child.this:
                    refuse(f"ORDER BY {child.this.sql()}", f"{column.name!r} is an alias of the select list")
                if alias is not None:
                    child.set("this", exp.Paren(this=alias.copy()))
                    break
            else:
                self.bind(child, env, scope, aggregates=True)
        return copy
