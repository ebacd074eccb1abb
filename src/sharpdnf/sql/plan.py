"""The outermost query: prob() in HAVING and ORDER BY, LIMIT, expected values; the rest goes to the rewriter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.protocol import Catalog, Shape, Uncertain
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.expressions import bind_expression
from sharpdnf.sql.bind.query import bind_query, bind_select, binding
from sharpdnf.sql.bind.scope import Scope
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import Query, Select
from sharpdnf.sql.emit.sql import complete, emit, without_affinities
from sharpdnf.sql.emit.stages import Step, statements
from sharpdnf.sql.parse.allowed import PROBABILITY_FUNCTIONS, check_functions
from sharpdnf.sql.parse.faithful import check_faithful
from sharpdnf.sql.parse.text import parse_select, written_back
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.absence import lifting, positive
from sharpdnf.sql.rewrite.context import Rows
from sharpdnf.sql.rewrite.query import rewrite_query, rewriting
from sharpdnf.sql.uncertain import COPY

RESERVED = "_sharpdnf_"
EXPECTED = ("expected_count", "expected_sum")
COMPARISONS: dict[type[exp.Expr], str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


Named = list[tuple[str, str]]
"""(label, column) of the select list, in order: what ORDER BY may name."""


@dataclass(frozen=True, slots=True)
class Cut:
    """HAVING prob() ``operator`` ``value``."""

    operator: str
    value: float


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of the outermost ORDER BY."""

    column: str
    """``_c0``... of an answer column, ``_e0``... of an expected value, ``_prob``."""
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and what to do with the rows."""

    query: exp.Query
    sql: str
    """The query as text."""
    shape: Shape
    labels: tuple[str, ...]
    """Of the answer columns, in order."""
    numbered: tuple[tuple[str, exp.Query], ...] = ()
    """Temporary tables to make first, each with its SELECT."""
    expected: tuple[tuple[int, str, int | None], ...] = ()
    """(position in the select list, label, measure or None for a count) of each expected value."""
    steps: tuple[Step, ...] = ()
    """What runs first where the query negates: tables of candidates (``emit/stages.py``)."""
    always: bool = False
    """An aggregate without GROUP BY: its one answer exists in every world."""
    cuts: tuple[Cut, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: int | None = None

    @property
    def text(self) -> str:
        """All SQL that is sent, in one piece."""
        return "\n".join([*statements(self.steps), self.sql])

    def renamed(self, names: Mapping[str, str]) -> Plan:
        """The plan over other tables of numbered rows."""

        def change(sql: str) -> str:
            return COPY.sub(lambda name: names.get(name[0], name[0]), sql)

        return replace(self, sql=change(self.sql), steps=tuple(step.with_sql(change) for step in self.steps))


def make_plan(
    sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], *, circuits: bool = True
) -> Plan:
    """Parses, checks and rewrites one query; without ``circuits``, one that needs no stages."""
    tree = parse_select(sql, catalog.dialect, "the query")
    named = (table.this for table in tree.find_all(exp.Table))
    catalog.prepare(frozenset(catalog.fold(name) for name in named if isinstance(name, exp.Identifier)))
    try:
        written = written_back(tree.root(), catalog.dialect)
        plan = _make_plan(sql, tree, catalog, uncertain, circuits=circuits)
        check_faithful(sql, written, catalog)  # last: what the rewriter has to say is clearer
        return plan
    except RecursionError:
        raise SQLError("the query is nested too deeply: split it by common table expressions") from None
    finally:
        catalog.prepare(frozenset())


def _make_plan(
    sql: str, tree: exp.Query, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], *, circuits: bool
) -> Plan:
    if RESERVED in sql.lower():
        refuse(f"a name with {RESERVED!r}", "it is reserved for the rewritten query")
    check_functions(sql, catalog)
    tables = Tables(catalog, uncertain, tree)
    cuts: tuple[Cut, ...] = ()
    order, limit = list(tree.args["order"].expressions) if tree.args.get("order") else [], None
    ours = any(_is_call(node, *PROBABILITY_FUNCTIONS) for node in tree.find_all(exp.Anonymous))
    uncertain_rows = tables.touches(tree, Environment())
    if uncertain_rows or ours:
        cuts, limit = _cuts(tree), _limit(tree)
    if isinstance(tree, exp.Select) and _has_expected(tree):
        return _plan_expected(tree, tables, cuts, order, limit)
    context = binding(tables)
    query = bind_query(context, tree, Environment(), None)
    if not circuits and not query.positive:
        refuse("absence, or an aggregate in a condition, over uncertain rows,", "its lineage is no disjunction of rows")
    stages = lifting(context)
    rows, whole, _ = _emitted(context, positive(stages, query), made=stages.made)
    labels = tuple(column.label for column in rows.columns)
    named = [(label, f"_c{i}") for i, label in enumerate(labels)]
    certain = not uncertain_rows and not ours
    keys = _keys(order, named, context, query if isinstance(query, Select) else None, certain=certain)
    shape = Shape(len(labels), 0, rows.lineage, 0)
    steps = tuple(stages.steps)
    return Plan(whole, whole.sql(catalog.dialect.name), shape, labels, (), (), steps, False, cuts, keys, limit)


def _emitted(
    context: Binding, query: Query, *, expected: bool = False, made: list[tuple[str, exp.Query]] | None = None
) -> tuple[Rows, exp.Query, tuple[tuple[str, exp.Query], ...]]:
    """A bound query rewritten and written: the rows, the SQL, and temporary tables to make first."""
    passes = rewriting(context, expected=expected)
    passes.made = made or []
    rows = rewrite_query(passes, query)
    body = emit(rows.selects)
    if context.dialect.affinities and isinstance(body, exp.SetOperation) and not expected:
        without_affinities(body, len(rows.columns))
    return rows, complete(body, passes.all_ctes()), tuple(passes.numbered)


def _is_call(node: exp.Expr | None, *names: str) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in names


def _cuts(tree: exp.Query) -> tuple[Cut, ...]:
    """Takes HAVING prob() conditions off the outermost SELECT."""
    having = tree.args.get("having")
    if having is None or not any(_is_call(node, "prob") for node in having.find_all(exp.Anonymous)):
        return ()
    found = []
    for part in having.this.flatten() if isinstance(having.this, exp.And) else [having.this]:
        condition = part.unnest()
        if isinstance(condition, exp.Between) and _is_call(condition.this, "prob"):
            found += [Cut(">=", _number(condition.args["low"])), Cut("<=", _number(condition.args["high"]))]
            continue
        operator = COMPARISONS.get(type(condition))
        if operator is not None and _is_call(condition.this, "prob"):
            found.append(Cut(operator, _number(condition.expression)))
        elif operator is not None and _is_call(condition.expression, "prob"):
            found.append(Cut(MIRRORED[operator], _number(condition.this)))
        else:
            refuse(f"HAVING {condition.sql()}", "HAVING compares prob() with numbers by <, <=, >, >=, joined by AND")
    tree.set("having", None)
    return tuple(found)


def _number(node: exp.Expr) -> float:
    node = node.unnest()
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal) or literal.is_string:
        refuse(f"prob() compared with {node.sql()}", "it is compared with a number")
    return -float(literal.this) if negative else float(literal.this)


def _limit(tree: exp.Query) -> int | None:
    """Takes ORDER BY and LIMIT off the outermost query; the limit."""
    order, limit = tree.args.get("order"), tree.args.get("limit")
    if tree.args.get("offset"):
        refuse("OFFSET", "which rows it skips is not defined over uncertain rows")
    tree.set("order", None)
    if limit is None:
        return None
    if not isinstance(limit, exp.Limit) or order is None or not _is_call(order.expressions[0].this, "prob"):
        refuse("LIMIT without ORDER BY prob()", "which rows it keeps differs from world to world")
    count = limit.expression
    others = any(value for name, value in limit.args.items() if name != "expression")
    if others or not isinstance(count, exp.Literal) or not count.is_int:
        refuse(limit.sql().strip(), "it must be a whole number")
    tree.set("limit", None)
    return int(count.this)


def _keys(
    order: list[exp.Ordered], named: Named, context: Binding, select: Select | None, *, certain: bool = False
) -> tuple[SortKey, ...]:
    """The answers' order. A certain query may be ordered by other columns, for its LIMIT; that order is not kept."""
    found = []
    for ordered in order:
        column = _sort_column(ordered.this, named, context, select)
        if column is None:
            if certain:
                return ()
            refuse(f"ORDER BY {ordered.this.sql()}", "answers are ordered by prob() and by their own columns")
        found.append(SortKey(column, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))))
    return tuple(found)


def _sort_column(expression: exp.Expr, named: Named, context: Binding, select: Select | None) -> str | None:
    """A position, a column's label, or an expression that the outermost SELECT has among its items."""
    if _is_call(expression, "prob"):
        return "_prob"
    if isinstance(expression, exp.Literal):
        return _position(expression, named)
    name = expression.name.lower() if isinstance(expression, exp.Column) and not expression.table else None
    same = [column for label, column in named if label.lower() == name]
    if len(same) == 1:
        return same[0]
    if select is None or select.names is None:
        return None
    bound = bind_expression(context, expression, *select.names)
    return next((f"_c{i}" for i, item in enumerate(select.items) if item.expression == bound), None)


def _position(expression: exp.Expr, named: Named) -> str | None:
    """The column that a number in GROUP BY or ORDER BY stands for."""
    position = int(expression.this) if isinstance(expression, exp.Literal) and expression.is_int else 0
    return named[position - 1][1] if 1 <= position <= len(named) else None


def _has_expected(tree: exp.Select) -> bool:
    """Whether the select list has an expected value."""
    return any(_is_call(item.unalias(), *EXPECTED) for item in tree.expressions)


@dataclass(slots=True)
class _SelectList:
    """A select list with expected values, taken apart."""

    keys: list[exp.Expr] = field(default_factory=list)
    """The items that are not expected values."""
    measures: list[exp.Expr] = field(default_factory=list)
    """What expected_sum adds up."""
    values: list[tuple[int, str, int | None]] = field(default_factory=list)
    """As in ``Plan.expected``."""
    named: Named = field(default_factory=list)


def _take_apart(tree: exp.Select, order: list[exp.Ordered]) -> _SelectList:
    """ORDER BY an expected value becomes ORDER BY its position."""
    found = _SelectList()
    for position, item in enumerate(tree.expressions):
        call = item.unalias()
        if not _is_call(call, *EXPECTED):
            found.named.append((item.alias_or_name, f"_c{len(found.keys)}"))
            found.keys.append(item)
            continue
        name, arguments = str(call.this).lower(), call.expressions
        label, measure = item.alias or name, None
        for ordered in order:
            if ordered.this == call:
                ordered.set("this", exp.Literal.number(position + 1))
        if name == "expected_count":
            if arguments and not (len(arguments) == 1 and isinstance(arguments[0], exp.Star)):
                refuse(f"{call.sql()}", "expected_count() counts result rows; count columns over a subquery")
        else:
            if len(arguments) != 1 or isinstance(arguments[0], exp.Star | exp.Distinct):
                raise SQLError("expected_sum(x) takes one expression")
            measure = len(found.measures)
            found.measures.append(exp.cast(arguments[0].copy(), "DOUBLE"))
        found.named.append((label, f"_e{len(found.values)}"))
        found.values.append((position, label, measure))
    return found


def _plan_expected(
    tree: exp.Select, tables: Tables, cuts: tuple[Cut, ...], order: list[exp.Ordered], limit: int | None
) -> Plan:
    """expected_count() and expected_sum(x): by linearity, the sum over result rows of P(the row exists) times x.

    The query becomes SELECT keys, measures without GROUP BY; each row of the join is one result row, known by the
    numbers of its FROM rows, however many clauses (from EXISTS, say) make it exist.
    """
    if (cuts or limit is not None) and not tree.args.get("group"):
        refuse("HAVING prob() or LIMIT beside an expected value without GROUP BY", "its one answer is certain")
    if tree.args.get("distinct"):
        refuse("SELECT DISTINCT with an expected value", "group by the columns, or count over a DISTINCT subquery")
    group = tree.args.get("group")
    taken = _take_apart(tree, order)
    keys, measures = taken.keys, taken.measures
    if keys and group is None:
        refuse("a column beside an expected value without GROUP BY", "name it in GROUP BY")
    if group is not None and group.args.get("all"):
        refuse("GROUP BY ALL with an expected value", "name the grouping columns")
    checker = tree.copy()
    for key in checker.args["group"].expressions if group is not None else ():
        column = _position(key, taken.named)
        if column is not None and column.startswith("_c"):  # among the keys alone
            key.replace(exp.Literal.number(int(column[2:]) + 1))
        elif column is not None:
            refuse(f"GROUP BY {key.sql()}", "it is an expected value")
    checker.set("expressions", [key.copy() for key in keys] or [exp.Literal.number(1)])
    plain = binding(tables)
    grouped = bind_select(plain, checker, Environment(), Scope(None))
    shown = [item.expression.unnest() for item in grouped.items]
    if any(key.unnest() not in shown for key in grouped.keys):  # answers are told apart by the columns shown
        refuse("GROUP BY a column that is not selected, with an expected value,", "answers would look the same")
    rows = tree.copy()
    rows.set("group", None)
    rows.set("expressions", [*(key.copy() for key in keys), *measures] or [exp.Literal.number(1)])
    context = binding(tables)
    found, whole, numbered = _emitted(context, bind_query(context, rows, Environment(), None), expected=True)
    labels = tuple(column.label for column in found.columns[: len(keys)])
    shape = Shape(len(keys), len(measures), found.lineage, found.identity)
    return Plan(
        whole, whole.sql(context.dialect.name), shape, labels, numbered, tuple(taken.values),
        (), group is None, cuts, _keys(order, taken.named, plain, grouped), limit,
    )  # fmt: skip
