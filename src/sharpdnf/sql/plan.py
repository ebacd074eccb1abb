"""One query from text to a plan: what speaks of the answers is taken off, the rest goes through the passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Catalog, Shape, Uncertain
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.expressions import bind_expression
from sharpdnf.sql.bind.query import bind_query, bind_select, binding
from sharpdnf.sql.bind.scope import Scope
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.bind.tree import Query, Select
from sharpdnf.sql.computed import Computed, SortKey
from sharpdnf.sql.emit.sql import complete, emit, without_affinities
from sharpdnf.sql.emit.stages import Step, statements
from sharpdnf.sql.outermost import (
    COMPUTED,
    EXPECTED,
    HIDDEN,
    LINEAR,
    PROB,
    Cut,
    Outermost,
    is_call,
    mentions,
    take_apart,
)
from sharpdnf.sql.parse.allowed import check_functions
from sharpdnf.sql.parse.faithful import check_faithful
from sharpdnf.sql.parse.text import parse_select, written_back
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.absence import lifting, positive
from sharpdnf.sql.rewrite.context import Rewritten
from sharpdnf.sql.rewrite.query import rewrite_query, rewriting
from sharpdnf.sql.uncertain import COPY

RESERVED = "_sharpdnf_"

Named = list[tuple[str, str]]
"""(label, column) of the select list, in order: what ORDER BY may name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and what to do with the rows."""

    query: exp.Query
    sql: str
    """The query as text."""
    shape: Shape
    labels: tuple[str, ...]
    """The names of the answer columns that are shown, in order."""
    places: tuple[int, ...]
    """The column behind each label: ``_c0`` is 0, and -1, -2, ... are the computed items."""
    numbered: tuple[tuple[str, exp.Query], ...] = ()
    """Temporary tables to make first, each with its SELECT."""
    expected: tuple[tuple[int, str, int | None], ...] = ()
    """(position in the select list, label, measure or None for a count) of each expected value."""
    always: bool = False
    """Whether the query is an aggregate without GROUP BY, whose one answer exists in every world."""
    cuts: tuple[Cut, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    computed: Computed = field(default_factory=Computed)
    steps: tuple[Step, ...] = ()
    """What runs first where the query negates: tables of candidates (``emit/stages.py``)."""
    tail: tuple[Plan, int] | None = None
    """The rows to ask for instead, and how many of them an answer needs, if only that decides (``count_tails.py``)."""

    @property
    def last(self) -> int | None:
        """How many answers are chosen, those that OFFSET leaves out included."""
        return None if self.limit is None else self.limit + self.offset

    @property
    def in_place(self) -> bool:
        """Whether there are answers to tell apart, so that each can be counted where its lineage is."""
        return self.shape.shown > 0 and not self.always

    @property
    def top(self) -> int | None:
        """How many answers are chosen by their probability; None if something else decides, or all are shown."""
        by_prob = bool(self.order) and self.order[0].column == PROB
        return self.last if by_prob and not self.computed.chooses else None

    @property
    def text(self) -> str:
        """All SQL that is sent, in one piece."""
        return "\n".join([*statements(self.steps), self.sql])

    @property
    def alone(self) -> bool:
        """Whether it reads nothing but the numbered rows of uncertain tables, which no one else changes."""
        read = self.query.find_all(exp.Table)
        shared = {cte.alias for cte in self.query.find_all(exp.CTE)}
        return (
            not self.steps
            and not self.numbered
            and all(COPY.fullmatch(table.name) or (not table.db and table.name in shared) for table in read)
        )

    def renamed(self, names: Mapping[str, str]) -> Plan:
        """The same plan with other names for the tables of numbered rows, {before: now}."""

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
        written = written_back(writable(tree.root(), catalog.dialect), catalog.dialect)
        plan = _make_plan(sql, tree, catalog, uncertain, circuits=circuits)
        check_faithful(sql, written, catalog)  # last, because the messages of the rewriter are clearer
        return plan
    except RecursionError:
        raise SQLError("the query is nested too deeply: split it by common table expressions") from None
    finally:
        catalog.prepare(frozenset())


def writable(tree: exp.Expr, dialect: Dialect) -> exp.Expr:
    """Without QUALIFY prob(): where the database has no QUALIFY, the parser would write a subquery for it."""
    if tree.find(exp.Qualify) is None:
        return tree
    tree = tree.copy()
    for qualify in list(tree.find_all(exp.Qualify)):
        if mentions(qualify.this, "prob") or not dialect.qualify:
            qualify.pop()
    return tree


def _make_plan(
    sql: str, tree: exp.Query, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], *, circuits: bool
) -> Plan:
    if RESERVED in sql.lower():
        refuse(f"a name with {RESERVED!r}", "it is reserved for the rewritten query")
    check_functions(sql, catalog)
    tables = Tables(catalog, uncertain, tree)
    uncertain_rows = tables.touches(tree, Environment())
    asked = take_apart(tree, catalog, uncertain=uncertain_rows)
    if isinstance(tree, exp.Select) and asked.expected:
        return _plan_expected(tree, tables, asked)
    context = binding(tables)
    query = bind_query(context, tree, Environment(), None)
    if not circuits and not query.positive:
        refuse("absence, or an aggregate in a condition, over uncertain rows,", "its lineage is no disjunction of rows")
    stages = lifting(context)
    rows, whole, _ = emitted(context, positive(stages, query), made=stages.made)
    names = [column.label for column in rows.columns]
    labels, places, named = _shown(names, asked)
    certain = not uncertain_rows and not asked.speaks
    keys = _keys(asked, named, context, query if isinstance(query, Select) else None, certain=certain)
    return Plan(
        whole, whole.sql(catalog.dialect.name), Shape(len(names), 0, rows.lineage, 0), labels, places,
        cuts=tuple(asked.cuts), order=keys, limit=asked.limit, offset=asked.offset,
        computed=_computed(asked, keys, names), steps=tuple(stages.steps),
    )  # fmt: skip


def _shown(names: list[str], asked: Outermost) -> tuple[tuple[str, ...], tuple[int, ...], Named]:
    """(labels, places, what ORDER BY may name) of the core's columns, where constants stand for computed items."""
    labels, places, named = [], [], []
    items = [i for i, (_, item) in enumerate(asked.computed) if item is not None]
    for i, name in enumerate(names[: len(names) - len(asked.hidden)]):
        if not name.startswith(COMPUTED):
            labels.append(name)
            places.append(i)
            named.append((name, f"_c{i}"))
            continue
        number = int(name[len(COMPUTED) :])
        named.append(("", name))
        if number in items:
            labels.append(asked.computed[number][0])
            places.append(-1 - items.index(number))
    return tuple(labels), tuple(places), named


def plan_answers(asked: Outermost, names: list[str], expected: Mapping[int, int], core: str) -> Plan:
    """What to do with finished answers that have no lineage: their columns are ``_c0``..., by position in the core.

    ``expected`` has the number of each expected value by its position.
    """
    labels, places, named = _shown(names, asked)
    for at, number in expected.items():
        named[at] = (named[at][0], f"_e{number}")
    keys = _keys(asked, named, None, None)
    columns = ", ".join(f"_c{i}" for i in range(len(names)))
    like = f"WITH _q({columns}) AS ({core}\n) SELECT * FROM _q"
    return Plan(
        exp.Select(), like, Shape(len(names), 0, 0, 0), labels, places, cuts=tuple(asked.cuts), order=keys,
        limit=asked.limit, offset=asked.offset, computed=_computed(asked, keys, names),
    )  # fmt: skip


def _computed(asked: Outermost, keys: tuple[SortKey, ...], names: list[str]) -> Computed:
    """What the database works out, with hidden columns under their names in the table of answers."""
    first = len(names) - len(asked.hidden)

    def renamed(node: exp.Expr) -> exp.Expr:
        holder = exp.Paren(this=node.copy())
        for hidden in holder.find_all(exp.Column):
            if hidden.name.startswith(HIDDEN):
                hidden.set("this", quoted(f"_c{first + int(hidden.name[len(HIDDEN) :])}"))
        found: exp.Expr = holder.this
        return found.pop()

    order = tuple(replace(key, expression=renamed(key.expression)) if key.expression is not None else key
                  for key in keys)  # fmt: skip
    by_database = any(key.expression is not None for key in keys)
    return Computed(
        tuple(renamed(item) for _, item in asked.computed if item is not None),
        tuple(renamed(condition) for condition in asked.having),
        renamed(asked.qualify) if asked.qualify is not None else None,
        order if by_database else (),
    )


def emitted(
    context: Binding, query: Query, *, expected: bool = False, made: list[tuple[str, exp.Query]] | None = None
) -> tuple[Rewritten, exp.Query, tuple[tuple[str, exp.Query], ...]]:
    """A bound query rewritten and written: the rows, the SQL, and temporary tables to make first."""
    passes = rewriting(context, expected=expected)
    passes.made = made or []
    rows = rewrite_query(passes, query)
    body = emit(rows.selects)
    if context.dialect.affinities and isinstance(body, exp.SetOperation) and not expected:
        without_affinities(body, len(rows.columns))
    return rows, complete(body, passes.all_ctes()), tuple(passes.numbered)


def _keys(
    asked: Outermost, named: Named, context: Binding | None, select: Select | None, *, certain: bool = False
) -> tuple[SortKey, ...]:
    """The sort keys of the answers. A query without uncertain rows may be ordered by other columns, for the sake of its
    LIMIT; then the answers are in no particular order."""
    found = []
    for ordered, more in asked.order:
        expression = more
        column = "_o" if expression is not None else _sort_column(ordered.this, named, context, select)
        if column is not None and column.startswith(COMPUTED):
            expression = asked.computed[int(column[len(COMPUTED) :])][1]
            column = PROB if expression is None else "_o"
        if column is None:
            if certain:
                return ()
            refuse(
                f"ORDER BY {ordered.this.sql()}",
                "answers are ordered by prob(), expressions of it, and their own columns: select the column, too",
            )
        descending, first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
        found.append(SortKey(column, descending, first, expression))
    return tuple(found)


def _sort_column(expression: exp.Expr, named: Named, context: Binding | None, select: Select | None) -> str | None:
    """A position, a column's label, or an expression that the outermost SELECT has among its items."""
    if is_call(expression, "prob"):
        return PROB
    if isinstance(expression, exp.Literal):
        return _position(expression, named)
    name = expression.name.lower() if isinstance(expression, exp.Column) and not expression.table else None
    same = [column for label, column in named if label.lower() == name]
    if len(same) == 1:
        return same[0]
    if context is None or select is None or select.names is None:
        return None
    bound = bind_expression(context, expression, *select.names)
    return next((f"_c{i}" for i, item in enumerate(select.items) if item.expression == bound), None)


def _position(expression: exp.Expr, named: Named) -> str | None:
    """The column that a number in GROUP BY or ORDER BY means, counted from 1 in the select list."""
    position = int(expression.this) if isinstance(expression, exp.Literal) and expression.is_int else 0
    return named[position - 1][1] if 1 <= position <= len(named) else None


def rows_told_apart(select: exp.Query, shape: Shape) -> bool:
    """Whether every row of an emitted SELECT is there iff the uncertain rows that it names are, for no other reason:
    they are among what tells the rows of the result apart."""
    if not isinstance(select, exp.Select) or select.args.get("with_"):
        return False
    items = {item.alias: item.unalias() for item in select.expressions}
    _, _, lineage, identity = shape.names()
    known = [items[name] for name in identity]
    return bool(lineage) and all(items[n] in known and isinstance(items[n], exp.Column) for n in lineage)


@dataclass(slots=True)
class _SelectList:
    """A select list with expected values, taken apart."""

    keys: list[exp.Expr] = field(default_factory=list)
    """The items that are not expected values."""
    measures: list[exp.Expr] = field(default_factory=list)
    """The expressions that expected_sum adds up, each once."""
    values: list[tuple[int, str, int | None]] = field(default_factory=list)
    """(position in the select list, label, measure or None for a count) of each expected value."""
    named: Named = field(default_factory=list)


def _select_list(tree: exp.Select, order: list[tuple[exp.Ordered, exp.Expr | None]]) -> _SelectList:
    """ORDER BY an expected value becomes ORDER BY its position."""
    found = _SelectList()
    for position, item in enumerate(tree.expressions):
        call = item.unalias()
        if not is_call(call, *EXPECTED):
            name = item.alias_or_name
            found.named.append(("", name) if name.startswith(COMPUTED) else (name, f"_c{len(found.keys)}"))
            found.keys.append(item)
            continue
        name, arguments = str(call.this).lower(), call.expressions
        if name not in LINEAR:
            refuse(f"{name}()", "it is no sum over result rows, so the rows' lineage does not say it")
        label, measure = item.alias or name, None
        for ordered, _ in order:
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


def _plan_expected(tree: exp.Select, tables: Tables, asked: Outermost) -> Plan:
    """expected_count() and expected_sum(x): by linearity, the sum over result rows of P(the row exists) times x.

    The query becomes SELECT keys, measures without GROUP BY; each row of the join is one result row, known by the
    numbers of its FROM rows, however many clauses (from EXISTS, say) make it exist.
    """
    if (asked.cuts or asked.limit is not None) and not tree.args.get("group"):
        refuse(
            "HAVING prob() or LIMIT beside an expected value without GROUP BY",
            "its one answer is certain; leave them out",
        )
    if tree.args.get("distinct"):
        refuse("SELECT DISTINCT with an expected value", "group by the columns, or count over a DISTINCT subquery")
    group = tree.args.get("group")
    taken = _select_list(tree, asked.order)
    keys, measures = taken.keys, taken.measures
    if keys and group is None:
        refuse("a column beside an expected value without GROUP BY", "name it in GROUP BY")
    if group is not None and group.args.get("all"):
        refuse("GROUP BY ALL with an expected value", "name the grouping columns")
    checker = tree.copy()
    for key in checker.args["group"].expressions if group is not None else ():
        column = _position(key, taken.named)
        if column is not None and column.startswith("_c"):  # below, the select list is the keys alone
            key.replace(exp.Literal.number(int(column[2:]) + 1))
        elif column is not None:
            refuse(f"GROUP BY {key.sql()}", "it stands for prob() or an expected value; group by the columns")
    checker.set("expressions", [key.copy() for key in keys] or [exp.Literal.number(1)])
    plain = binding(tables)
    grouped = bind_select(plain, checker, Environment(), Scope(None))
    shown = [item.expression.unnest() for item in grouped.items]
    if any(key.unnest() not in shown for key in grouped.keys):  # answers with the same shown columns would count as one
        refuse("GROUP BY a column that is not selected, with an expected value,", "answers would look the same")
    rows = tree.copy()
    rows.set("group", None)
    rows.set("expressions", [*(key.copy() for key in keys), *measures] or [exp.Literal.number(1)])
    context = binding(tables)
    found, whole, numbered = emitted(context, bind_query(context, rows, Environment(), None), expected=True)
    names = [column.label for column in found.columns[: len(keys)]]
    labels, places, _ = _shown(names, asked)
    bare = [i for i, item in enumerate(tree.expressions) if item.alias.startswith(COMPUTED)]
    bare = [i for i, (_, item) in zip(bare, asked.computed, strict=True) if item is None]  # they are not shown
    values = tuple((at - sum(i < at for i in bare), label, measure) for at, label, measure in taken.values)
    shape = Shape(len(keys), len(measures), found.lineage, found.identity)
    order = _keys(asked, taken.named, plain, grouped)
    return Plan(
        whole, whole.sql(context.dialect.name), shape, labels, places, numbered, values, group is None,
        tuple(asked.cuts), order, asked.limit, asked.offset, _computed(asked, order, names),
    )  # fmt: skip
