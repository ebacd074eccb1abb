"""HAVING COUNT(*) >= k without a circuit: which queries are of that kind, and the rows to ask for instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import floor

from sqlglot import exp

from sharpdnf.sql.backends.protocol import Catalog, Shape, Uncertain
from sharpdnf.sql.bind.query import bind_query, binding
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import Aggregated, All, Condition, Plain, Select
from sharpdnf.sql.emit.stages import Counted, Decision, Stage
from sharpdnf.sql.outermost import take_apart
from sharpdnf.sql.parse.text import parse_select
from sharpdnf.sql.plan import Plan, emitted, rows_told_apart


def with_tail(sql: str, plan: Plan, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain]) -> Plan:
    """The plan of a query as a circuit, with ``Plan.tail`` if the query only asks how many rows a group has."""
    needed = _needed(plan)
    rows = None if needed is None else _plan_rows(sql, catalog, uncertain)
    return plan if needed is None or rows is None else replace(plan, tail=(rows, needed))


def _plan_rows(sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain]) -> Plan | None:
    """The rows that are counted, each with the columns of its answer and the one uncertain row that it needs."""
    tree = parse_select(sql, catalog.dialect, "the query")
    tables = Tables(catalog, uncertain, tree)
    take_apart(tree, catalog, uncertain=True)
    context = binding(tables)
    query = bind_query(context, tree, Environment(), None)
    rows = _rows(query) if isinstance(query, Select) else None
    if rows is None or not rows.positive:
        return None
    found, whole, numbered = emitted(context, rows, expected=True)
    shape = Shape(len(found.columns), 0, found.lineage, found.identity)
    if numbered or found.lineage != 1 or not rows_told_apart(whole, shape):
        return None
    assert isinstance(whole, exp.Select)
    whole.set("expressions", [item for item in whole.expressions if not item.alias.startswith("_i")])
    return Plan(whole, whole.sql(catalog.dialect.name), Shape(shape.shown, 0, 1, 0), (), ())


def _needed(plan: Plan) -> int | None:
    """How many rows an answer needs, if that is all that decides."""
    if len(plan.steps) != 2:
        return None
    stage, decision = plan.steps
    if not isinstance(stage, Stage) or not isinstance(decision, Decision) or not decision.alone:
        return None
    formula = decision.formula
    if not isinstance(formula, Counted) or formula.values or formula.negated or formula.compare not in (">=", ">"):
        return None
    number = float(formula.number)  # it is no query, or the decision would not stand alone
    least = floor(number) + 1 if formula.compare == ">" or number != floor(number) else floor(number)
    return least if 1 <= least < 2**31 else None


def _rows(query: Select) -> Select | None:
    """The rows that are counted, with the columns of the answers; None unless answers and groups are the same."""
    having = query.having
    shown = [item.expression.unnest() for item in query.items]
    keys = [key.unnest() for key in query.keys]
    constant = (exp.Literal, exp.Boolean, exp.Null)
    if not isinstance(having, Aggregated) or having.query is not None or not keys:
        return None
    if not all(key in shown for key in keys) or not all(i in keys or isinstance(i, constant) for i in shown):
        return None
    where: list[Condition] = [] if query.where is None else [query.where]
    if having.call.argument is not None:
        missing = exp.Is(this=exp.paren(having.call.argument.copy()), expression=exp.Null())
        where.append(Plain(exp.Not(this=missing)))
    return Select(query.items, query.sources, All(tuple(where)) if where else None)
