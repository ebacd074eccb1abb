"""What the rewriting of one query shares: the common table expressions so far, and numbered rows of certain items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.rows import recopied
from sharpdnf.sql.bind.affinities import check_affinities, standing
from sharpdnf.sql.bind.context import Binding
from sharpdnf.sql.bind.tree import Item, Leaf, Output, Query, Select, Shared, Source, table
from sharpdnf.sql.emit.sql import complete, cte, emit, emit_select
from sharpdnf.sql.refusal import refuse

NUMBER = "_sharpdnf_n"
"""The column that numbers the rows of a copied certain item."""


@dataclass(slots=True)
class Rewritten:
    """A rewritten query: the rows of all its SELECTs, each row a clause of the answer that its columns are."""

    selects: list[Select]
    columns: tuple[Output, ...]
    sides: tuple[Select, ...] = ()
    """The SELECTs of a set operation's sides, by which its columns get their types."""
    distinct: bool = False
    """Whether it is a UNION that takes equal values for one, such as 1 and 1.0."""

    @property
    def lineage(self) -> int:
        """The number of lineage columns."""
        return len(self.selects[0].lineage)

    @property
    def identity(self) -> int:
        """The number of identity columns."""
        return len(self.selects[0].identity)

    def parts(self) -> tuple[Select, ...]:
        """The SELECTs that decide the types of the columns; those of one SELECT's alternatives are alike."""
        return self.sides or (self.selects[0],)


@dataclass(slots=True)
class Rewriting:
    """The state of rewriting one query. ``expected`` asks for the identity of result rows as well."""

    binding: Binding
    query: Callable[[Rewriting, Query], Rewritten]
    """Rewrites a query at any depth."""
    expected: bool = False
    ctes: list[exp.CTE] = field(default_factory=list)
    """The rewritten queries that others read, each reading only those before it."""
    numbered: list[tuple[str, exp.Query]] = field(default_factory=list)
    """Certain items whose rows must be numbered first: name of the temporary table, its SELECT."""
    made: list[tuple[str, exp.Query]] = field(default_factory=list)
    """Tables that stages will have made when the query runs: name, SELECT."""
    done: dict[str, Source] = field(default_factory=dict)
    """Shared queries by name, as FROM reads them now."""

    @property
    def dialect(self) -> Dialect:
        return self.binding.dialect

    def all_ctes(self) -> list[exp.CTE]:
        """All common table expressions so far, in order."""
        return [*self.binding.certain_ctes(), *self.ctes]

    def source(self, shared: Shared) -> Source:
        """A shared query as a FROM item; it is rewritten when it is read first."""
        if shared.name not in self.done:
            if shared.query is not None:
                self.done[shared.name] = self.hoist(self.query(self, shared.query), shared.name)
            else:
                source = Source((), self.binding.fresh("t"), shared.columns, shared, table(shared.name))
                if self.expected:
                    self.number(source)
                self.done[shared.name] = source
        return replace(self.done[shared.name], alias=self.binding.fresh("t"))

    def hoist(self, rows: Rewritten, name: str | None = None) -> Source:
        """Makes a rewritten query a common table expression of the result; the FROM item that reads it."""
        body = emit(rows.selects)
        known = self._known(body)
        check_affinities(self.binding.catalog, body, len(rows.columns), known, distinct=rows.distinct)
        name = name or self.binding.fresh("sharpdnf_q")
        self.ctes.append(cte(name, body))
        lineage, identity = ([f"_{p}{i}" for i in range(n)] for p, n in (("l", rows.lineage), ("i", rows.identity)))
        return Source(
            (),
            self.binding.fresh("t"),
            rows.columns,
            item=table(name),
            lineage=tuple(lineage),
            identity=tuple(identity),
        )

    def _known(self, body: exp.Query) -> list[exp.CTE]:
        """What a body reads, where somebody will ask the database about it: temporary tables are not made yet."""
        if not self.dialect.affinities or not isinstance(body, exp.SetOperation | exp.Select):
            return []
        return self.known_tables()

    def known_tables(self) -> list[exp.CTE]:
        """The common table expressions so far, after what will be temporary tables when the query runs."""
        later = [*self.made, *self.numbered]
        return [*(cte(name, query.copy()) for name, query in later), *(c.copy() for c in self.all_ctes())]

    def bare_columns(self, body: exp.Query, count: int) -> frozenset[int]:
        """Which of the first columns of a query a copy would give an affinity that they do not have (SQLite)."""
        if not self.dialect.affinities:
            return frozenset()
        text = standing(body, self.known_tables()).sql(self.dialect.name)
        return self.binding.catalog.untyped(text, count)

    def number(self, source: Source) -> None:
        """Numbers the rows of a certain item once, in a temporary table: duplicates count in expected values."""
        if self.binding.tables.collates():
            refuse("an expected value over a certain view or subquery beside collations", "a copy would lose them")
        assert source.item is not None
        name = self.binding.fresh("sharpdnf_n")
        select = exp.select(exp.Star()).from_(source.item)
        bare = self.bare_columns(select, len(source.columns))
        number = exp.Var(this=self.dialect.row_number)
        select.append("expressions", exp.alias_(number, NUMBER, quoted=True))
        self.numbered.append((name, complete(select, self.binding.certain_ctes())))
        source.item = recopied(exp.Table(this=quoted(name)), [c.name for c in source.columns], bare, NUMBER)
        source.identity = (NUMBER,)

    def check_same_affinity(self, rows: Rewritten) -> None:
        """Refuses x IN (a set operation of columns with different affinities): SQLite takes that of one of them."""
        if not self.dialect.affinities or not rows.sides:
            return
        count, found = len(rows.columns), set()
        for side in rows.sides:
            body = emit_select(side)
            sql = standing(body, self._known(body)).sql(self.dialect.name)
            found.add((self.binding.catalog.affinities(sql, count), self.binding.catalog.untyped(sql, count)))
        if len(found) > 1:
            refuse(
                "IN (a set operation of columns with different affinities)",
                "SQLite compares by that of one of them; cast them to one type",
            )


def select_from(source: Source, values: list[exp.Expr] | None = None) -> Select:
    """SELECT the columns of one FROM item, or ``values`` in their place; the lineage is the caller's."""
    shown = values if values is not None else [source.column(o) for o in source.columns]
    items = [Item(o.label, o.key, value) for o, value in zip(source.columns, shown, strict=True)]
    return Select(items, [Leaf(source)])


def null() -> exp.Expr:
    """What stands in a lineage or identity column of rows that have no number there."""
    return exp.cast(exp.Null(), "BIGINT")
