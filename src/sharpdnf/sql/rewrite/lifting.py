"""What making a query positive shares: the steps so far, and the temporary tables that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import ROW_ID, Relation, Uncertain
from sharpdnf.sql.backends.rows import recopied
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.tree import (
    All,
    AnyOf,
    Condition,
    FromItem,
    Item,
    Leaf,
    Output,
    Query,
    Scan,
    Select,
    Shared,
    Source,
    table,
)
from sharpdnf.sql.emit.sql import complete, emit
from sharpdnf.sql.emit.stages import BASE, Formula, Found, Gathered, Stage, Step
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.rewrite.context import Rewriting, Rewritten, null
from sharpdnf.sql.rewrite.query import rewriting


@dataclass(slots=True)
class Lifting:
    """The state of making one query positive."""

    binding: Binding
    query: Callable[[Lifting, Query, bool], Query]
    """Makes a query positive at any depth; the last argument asks for its rows as a bag, one clause for each."""
    formula: Callable[[Lifting, Source, Condition, bool], Formula]
    """What decides a condition over the columns of candidates: that it is TRUE, or that it is FALSE."""
    steps: list[Step] = field(default_factory=list)
    made: list[tuple[str, exp.Query]] = field(default_factory=list)
    """The temporary tables of the steps: name, SELECT."""
    shared: dict[tuple[str, bool], Shared] = field(default_factory=dict)
    """Shared queries by name, made positive; as a set or as a bag."""

    def rewrite(self, query: Query) -> tuple[Rewriting, Rewritten]:
        """A positive query with lineage, as a statement of its own."""
        context = rewriting(self.binding)
        context.made = self.made
        return context, context.query(context, query)

    def statement(self, query: Query) -> tuple[str, int]:
        """The SQL of a positive query with lineage, and the number of lineage columns."""
        context, rows = self.rewrite(query)
        sql = complete(emit(rows.selects), context.all_ctes()).sql(self.binding.dialect.name)
        return sql, rows.lineage

    def counting_statement(self, selects: Sequence[tuple[Select, Source]]) -> tuple[str, int]:
        """The SQL of SELECTs from one temporary table each, with the tables' lineage and the SELECTs' own identity."""
        width = max(len(rows.lineage) for _, rows in selects)
        for select, rows in selects:
            select.lineage = [*rows.references(rows.lineage), *(null() for _ in range(width - len(rows.lineage)))]
        body = complete(emit([select for select, _ in selects]), self.binding.certain_ctes())
        return body.sql(self.binding.dialect.name), width

    def types(self, select: Select) -> tuple[str, ...] | None:
        """The types of what a SELECT from a temporary table shows; None where the database cannot tell."""
        passes = rewriting(self.binding)
        passes.made = self.made
        body = complete(emit([select]), passes.known_tables())
        return self.binding.catalog.types(body.sql(self.binding.dialect.name))

    def found(self, query: Query, *, keyed: bool) -> Formula:
        """The rows of a query decide; if ``keyed``, for the candidate whose number is its first column."""
        sql, lineage = self.statement(self.query(self, query, False))
        return Found(sql, lineage, keyed)

    def candidates(self, query: Query, *, by: int | None = None) -> tuple[str, Source, Source]:
        """The rows of a positive query as a stage without a decision: its name, and the FROM item that reads it.

        With ``by``, rows that agree in so many of the first columns are one candidate; the second FROM item has all
        of them, each with its own lineage.
        """
        passes, rows = self._copied(query)
        number: exp.Expr = exp.Var(this=self.binding.dialect.row_number)
        if by is not None:
            order = [exp.Ordered(this=column(f"_c{i}", "_r")) for i in range(by)]
            number = exp.Window(this=exp.DenseRank(), order=exp.Order(expressions=order))
        shift = exp.Sub(this=exp.Var(this=BASE), expression=exp.Literal.number(1))
        numbered = exp.alias_(exp.Add(this=number, expression=exp.paren(shift)), ROW_ID, quoted=True)
        name, source = self._table(passes, rows, [numbered], "k")
        self.steps.append(Stage(name, self._made_sql(numbered), rows.lineage))
        assert isinstance(source.origin, Scan) and source.item is not None
        item = source.item
        if by is not None:
            item = _first_of_each(item, [output.name for output in source.columns], self.binding.dialect)
        relation = source.origin.relation
        first = replace(source, origin=Scan(relation, Uncertain(relation, item, "")), item=item)
        return name, first, with_lineage(source, rows.lineage)

    def count_only(self, name: str) -> None:
        """Of this stage only the number of candidates is needed."""
        for i, step in enumerate(self.steps):
            if isinstance(step, Stage) and step.name == name:
                self.steps[i] = replace(step, counted=True)

    def gathered(self, query: Query) -> Source:
        """The rows of a positive query in a temporary table, with their lineage columns as they are."""
        passes, rows = self._copied(query)
        name, source = self._table(passes, rows, [], "g")
        self.steps.append(Gathered(name, self._made_sql(None)))
        return with_lineage(source, rows.lineage)

    def _copied(self, query: Query) -> tuple[Rewriting, Rewritten]:
        if self.binding.tables.collates():
            refuse("negation or an aggregate beside collations", "a copy of the rows would lose them")
        return self.rewrite(query)

    def _table(self, passes: Rewriting, rows: Rewritten, first: list[exp.Expr], kind: str) -> tuple[str, Source]:
        """Notes a temporary table of the rows, with further columns in front; its name and the FROM item."""
        body = complete(emit(rows.selects), passes.all_ctes())
        inner = exp.alias_(exp.Subquery(this=body), "_r", table=True, quoted=True)
        select = exp.Select(expressions=[*first, exp.Column(this=exp.Star(), table=column("_r").this)])
        select.set("from_", exp.From(this=inner))
        name = self.binding.fresh(f"sharpdnf_{kind}")
        names = [f"_c{i}" for i in range(len(rows.columns))]
        bare = passes.bare_columns(body, len(names))
        lineage = [f"_l{i}" for i in range(rows.lineage)]
        item = recopied(table(name), [*names, *lineage], bare, ROW_ID) if first else table(name)
        if bare and not first:
            item = recopied(table(name), [*names, *lineage[1:]], bare, lineage[0]) if lineage else item
        self.made.append((name, select))
        relation = Relation((name,), (name,), (*names, *([ROW_ID] if first else []), *lineage))
        columns = tuple(Output(o.label, o.key, names[i]) for i, o in enumerate(rows.columns))
        return name, Source((), self.binding.fresh("t"), columns, Scan(relation), item)

    def _made_sql(self, numbered: exp.Expr | None) -> str:
        """The SQL of the table noted last; what asks the database about it before it runs sees the number 0."""
        name, select = self.made.pop()
        sql = select.sql(self.binding.dialect.name)
        if numbered is not None:
            select = select.copy()
            for base in list(select.find_all(exp.Var)):
                if base.name == BASE:
                    base.replace(exp.Literal.number(0))
        self.made.append((name, select))
        return sql

    def read(self, query: Query) -> Source:
        """A FROM item that reads a query."""
        shared = self.binding.share(query)
        return Source((), self.binding.fresh("t"), shared.columns, shared, table(shared.name))


def with_lineage(source: Source, lineage: int) -> Source:
    """A temporary table read row by row, with its lineage columns."""
    assert isinstance(source.origin, Scan)
    names = tuple(f"_l{i}" for i in range(lineage))
    return replace(source, origin=Scan(source.origin.relation, None, names), lineage=names)


def _first_of_each(copy: exp.Expr, names: list[str], dialect: Dialect) -> exp.Expr:
    """One of the rows with the same number."""
    columns: list[exp.Expr] = [column(name) for name in [*names, ROW_ID]]
    select = exp.select(*columns).from_(exp.alias_(copy.copy(), "_s", table=True, quoted=True))
    if dialect.one_of_each == "distinct on":
        select.set("distinct", exp.Distinct(on=exp.Tuple(expressions=[column(ROW_ID)])))
        return exp.Subquery(this=select)
    if dialect.one_of_each == "any_value":
        some = [exp.alias_(exp.AnyValue(this=column(name)), name, quoted=True) for name in names]
        select.set("expressions", [*some, column(ROW_ID)])
    select.set("group", exp.Group(expressions=[column(ROW_ID)]))
    return exp.Subquery(this=select)


def conjuncts(condition: Condition | None) -> list[Condition]:
    """The parts of an AND at any depth."""
    if condition is None:
        return []
    if isinstance(condition, All) and not isinstance(condition, AnyOf):
        return [inner for part in condition.parts for inner in conjuncts(part)]
    return [condition]


def all_of(conditions: Sequence[Condition]) -> Condition | None:
    """The AND of conditions; None if there is none."""
    return All(tuple(conditions)) if conditions else None


def certain_rows(candidates: Source) -> Source:
    """Candidates as a FROM item that takes them for certain, as a condition about them does."""
    assert isinstance(candidates.origin, Scan)
    return replace(candidates, origin=Scan(candidates.origin.relation), lineage=())


def for_candidates(candidates: Source, sources: Sequence[FromItem], where: Sequence[Condition]) -> Select:
    """The numbers of the candidates for which the conditions hold, with FROM items beside them."""
    number = Item("", None, column(ROW_ID, candidates.alias))
    return Select([number], [Leaf(certain_rows(candidates)), *sources], all_of(where))
