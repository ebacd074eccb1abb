"""The relational tree: a query with every name bound to a column, before and after the rewriting.

Binding makes it from the parser's tree; ``rewrite/`` maps it to another one of the same nodes whose SELECTs also show
lineage; ``emit/sql.py`` writes it. Scalar expressions stay sqlglot's, with columns that name the FROM item by its
alias, so a pass that replaces what stands in FROM leaves them as they are. Every node says which uncertain tables it
reads (``reads``) and whether it is ``positive``: whether a further row of these can only add rows to its result. The
lineage of a positive node is a DNF; the others ask that rows be absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import Relation, Uncertain

if TYPE_CHECKING:
    from sharpdnf.sql.bind.scope import Scope
    from sharpdnf.sql.bind.tables import Environment

Key = tuple[str, ...]
"""The key of an uncertain relation in the catalog."""
NOTHING: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a relation: what the user calls it and what the rewritten SQL calls it."""

    label: str
    key: str | None
    """The label as the database compares names; None if it cannot be referred to."""
    name: str
    hidden: bool = False
    """Whether ``*`` leaves it out, as it does with the probability column."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A table of the database, or a view that reads certain rows only."""

    relation: Relation
    uncertain: Uncertain | None = None
    lineage: tuple[str, ...] = ()
    """Of a temporary table of rows with lineage: the columns that hold it."""

    @property
    def reads(self) -> frozenset[Key]:
        return frozenset([self.relation.key]) if self.uncertain is not None or self.lineage else NOTHING

    @property
    def positive(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Shared:
    """A query with a name, which FROM items and conditions read: a common table expression, a view, a subquery."""

    name: str
    columns: tuple[Output, ...]
    query: Query | None = None
    """None where it reads certain rows only: then ``body`` is its SQL."""
    body: exp.Expr | None = None
    reads: frozenset[Key] = NOTHING
    positive: bool = True


# ---- FROM


@dataclass(slots=True, eq=False)
class Source:
    """One FROM item: ``alias`` is its unique name in the rewritten SQL, ``path`` the names the user may qualify by."""

    path: tuple[str, ...]
    alias: str
    columns: tuple[Output, ...]
    origin: Scan | Shared | None = None
    """What it reads; None for a derived table that was merged into the query around it."""
    item: exp.Expr | None = None
    """What stands in FROM, without the alias."""
    values: dict[str, exp.Expr] | None = None
    """The columns of a derived table that was merged into the query around it, as expressions over its FROM items."""
    lineage: tuple[str, ...] = ()
    """After the rewriting: the columns with the numbers of uncertain rows."""
    identity: tuple[str, ...] = ()
    """After the rewriting, for expected values: the columns that tell its rows apart."""

    def column(self, output: Output) -> exp.Expr:
        """What a column of the item is in the rewritten SQL."""
        if self.values is not None:
            return exp.paren(self.values[output.name].copy())
        return column(output.name, self.alias)

    def references(self, names: Sequence[str]) -> list[exp.Column]:
        """Columns by their names in the rewritten SQL."""
        return [column(name, self.alias) for name in names]

    def find(self, key: str) -> list[Output]:
        """The columns of that name."""
        return [output for output in self.columns if output.key == key]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A FROM item that is no join."""

    source: Source

    @property
    def reads(self) -> frozenset[Key]:
        return self.source.origin.reads if self.source.origin is not None else NOTHING

    @property
    def positive(self) -> bool:
        return self.source.origin is None or self.source.origin.positive


@dataclass(frozen=True, slots=True)
class Join:
    """Two FROM items side by side. ``side`` is LEFT, RIGHT, FULL or nothing, ``kind`` as the user wrote it."""

    left: FromItem
    right: FromItem
    side: str = ""
    kind: str = ""
    on: Condition | None = None
    once: bool = False
    """Whether the rows of the right side only say that a row of the left side has a partner, as in a semi-join."""
    hollow: bool = False
    """Whether no row of the right side is ever joined: it stands there for its columns, which are NULL."""

    @property
    def inner(self) -> bool:
        """Whether a row of the result needs a row of either side and nothing else."""
        return self.side == "" and self.kind in ("", "INNER", "CROSS")

    @property
    def reads(self) -> frozenset[Key]:
        return self.left.reads | self.right.reads | (self.on.reads if self.on is not None else NOTHING)

    @property
    def absent(self) -> list[FromItem]:
        """The sides whose missing rows make rows of the result."""
        if self.hollow:
            return []
        right = [self.right] * (self.side in ("LEFT", "FULL") or self.kind == "ANTI")
        return right + [self.left] * (self.side in ("RIGHT", "FULL"))

    @property
    def positive(self) -> bool:
        calm = self.left.positive and self.right.positive and not any(side.reads for side in self.absent)
        return calm and (self.on is None or (self.on.positive and (self.inner or not self.on.reads)))


@dataclass(frozen=True, slots=True)
class Merged:
    """A derived table that refers to the query around it: its own FROM items and conditions join that query.

    That may repeat rows, so binding makes one under EXISTS and IN only.
    """

    select: Select
    source: Source

    @property
    def reads(self) -> frozenset[Key]:
        return self.select.reads

    @property
    def positive(self) -> bool:
        return self.select.positive


FromItem = Leaf | Join | Merged


def sources_of(item: FromItem) -> Iterator[Source]:
    """The sources of a FROM item, in the order in which they stand."""
    if isinstance(item, Leaf):
        yield item.source
    elif isinstance(item, Join):
        yield from sources_of(item.left)
        yield from sources_of(item.right)
    else:
        for inner in item.select.sources:
            yield from sources_of(inner)
        yield item.source


# ---- conditions


@dataclass(frozen=True, slots=True)
class Plain:
    """A bound condition without subqueries over uncertain rows."""

    expression: exp.Expr

    @property
    def reads(self) -> frozenset[Key]:
        return NOTHING

    @property
    def positive(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Member:
    """TRUE iff some row of ``query`` compares as asked with ``left``; without ``left``: iff there is a row."""

    query: Query
    correlated: bool
    """Whether the query reads columns of the query around it."""
    word: str
    """How it is written: EXISTS, IN, ... ANY."""
    left: tuple[exp.Expr, ...] = ()
    compare: type[exp.Binary] = exp.EQ
    maybe: bool = False
    """Whether a comparison that is NULL counts too: then it is TRUE iff the membership is not FALSE."""

    @property
    def reads(self) -> frozenset[Key]:
        return self.query.reads

    @property
    def positive(self) -> bool:
        return self.query.positive


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE iff its part is FALSE."""

    part: Condition

    @property
    def reads(self) -> frozenset[Key]:
        return self.part.reads

    @property
    def positive(self) -> bool:
        return self.part.negative if isinstance(self.part, All | AnyOf | Not) else not self.part.reads

    @property
    def negative(self) -> bool:
        return self.part.positive


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE iff its part has this truth value, else FALSE: it is never NULL."""

    part: Condition
    value: bool

    @property
    def reads(self) -> frozenset[Key]:
        return self.part.reads

    @property
    def positive(self) -> bool:
        return not self.part.reads


@dataclass(frozen=True, slots=True)
class All:
    """TRUE iff all its parts are: AND."""

    parts: tuple[Condition, ...]

    @property
    def reads(self) -> frozenset[Key]:
        return NOTHING.union(*(part.reads for part in self.parts))

    @property
    def positive(self) -> bool:
        return all(part.positive for part in self.parts)

    @property
    def negative(self) -> bool:
        """Whether the negation is positive."""
        return all(Not(part).positive for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf(All):
    """TRUE iff one of its parts is: OR, and membership in a correlated UNION."""

    compared: int = 0
    """How many values are compared with a UNION, whose sides must then give them the same types."""


Kind = Literal["count", "sum", "avg", "min", "max", "bool_or", "bool_and", "only"]
"""``only`` is the value of the one row that there may be, as of a subquery that is compared with a value."""


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of the rows of a group or of a subquery."""

    kind: Kind
    argument: exp.Expr | None
    """What it aggregates; None in COUNT(*). A FILTER has become a CASE."""
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Compares an aggregate with a value that is the same for all rows aggregated."""

    call: Call
    compare: type[exp.Binary]
    """A comparison, or IS for IS NULL."""
    other: exp.Expr
    query: Select | None = None
    """The subquery whose rows are aggregated; None in HAVING, where they are those of the group."""
    correlated: bool = False

    @property
    def reads(self) -> frozenset[Key]:
        return self.query.reads if self.query is not None else NOTHING

    @property
    def positive(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Combined:
    """Compares arithmetic over several aggregates, and over values that do not depend on the rows aggregated."""

    calls: tuple[Call, ...]
    others: tuple[exp.Expr, ...]
    compare: type[exp.Binary]
    left: exp.Expr
    right: exp.Expr
    """With columns ``_agg0``... for the aggregates and ``_oth0``... for the other values."""
    queries: tuple[Select | None, ...]
    """For each aggregate the subquery whose rows it reads; None for those of the group, in HAVING."""
    correlated: bool = False

    @property
    def reads(self) -> frozenset[Key]:
        return NOTHING.union(*(query.reads for query in self.queries if query is not None))

    @property
    def positive(self) -> bool:
        return False


Condition = Plain | Member | Aggregated | Combined | Not | Truth | All | AnyOf


# ---- queries


@dataclass(slots=True)
class Item:
    """One bound item of a select list."""

    label: str
    key: str | None
    expression: exp.Expr


@dataclass(slots=True)
class Select:
    """One SELECT. The columns of the result are called ``_c0``, ``_c1``... in the rewritten SQL."""

    items: list[Item]
    sources: list[FromItem] = field(default_factory=list)
    where: Condition | None = None
    keys: list[exp.Expr] = field(default_factory=list)
    """What GROUP BY names."""
    distinct: bool = False
    """SELECT DISTINCT."""
    grouped: bool = False
    """Whether there is a GROUP BY: without aggregates it makes rows distinct in its keys."""
    having: Condition | None = None
    """HAVING: conditions on the grouping columns and on aggregates of the group."""
    names: tuple[Environment, Scope] | None = None
    """What its names mean, for the outermost ORDER BY."""
    lineage: list[exp.Expr] = field(default_factory=list)
    """After the rewriting: columns ``_l0``... with the numbers of the uncertain rows that a result row needs."""
    identity: list[exp.Expr] = field(default_factory=list)
    """After the rewriting, for expected values: columns ``_i0``... that tell the rows of the result apart."""

    @property
    def columns(self) -> tuple[Output, ...]:
        return tuple(Output(item.label, item.key, f"_c{i}") for i, item in enumerate(self.items))

    @property
    def reads(self) -> frozenset[Key]:
        where = self.where.reads if self.where is not None else NOTHING
        return where.union(*(item.reads for item in self.sources))

    @property
    def positive(self) -> bool:
        calm = all(item.positive for item in self.sources) and self.having is None
        return calm and (self.where is None or self.where.positive)


@dataclass(slots=True)
class Certain:
    """A query over certain rows, left to the database as it is."""

    shared: Shared
    constants: list[exp.Expr | None]
    """The constant that a column is, if it is one: it gets its type from the other side of a set operation."""

    @property
    def columns(self) -> tuple[Output, ...]:
        return tuple(Output(o.label, o.key, f"_c{i}") for i, o in enumerate(self.shared.columns))

    @property
    def reads(self) -> frozenset[Key]:
        return NOTHING

    @property
    def positive(self) -> bool:
        return True


@dataclass(slots=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT: ``kind`` says which; ``all_`` tells whether how often a row occurs matters."""

    kind: str
    sides: list[Query]
    all_: bool = False

    @property
    def columns(self) -> tuple[Output, ...]:
        return self.sides[0].columns

    @property
    def reads(self) -> frozenset[Key]:
        return NOTHING.union(*(side.reads for side in self.sides))

    @property
    def positive(self) -> bool:
        if self.kind == "EXCEPT" and (self.all_ or self.sides[1].reads):
            return False
        return all(side.positive for side in self.sides)


Query = Select | Certain | SetOperation


# ---- FROM as text


def from_sql(item: FromItem) -> exp.Expr:
    """As FROM writes it; a join in parentheses. The conditions of its joins are plain ones."""
    first, joins = spine(item)
    if joins:
        first.set("joins", joins)
        return exp.Subquery(this=first)
    return first


def spine(item: FromItem) -> tuple[exp.Expr, list[exp.Join]]:
    """A FROM item and the joins behind it."""
    if isinstance(item, Leaf):
        assert item.source.item is not None
        return exp.alias_(item.source.item, item.source.alias, table=True, quoted=True), []
    assert isinstance(item, Join), "merged items are taken apart before"
    first, joins = spine(item.left)
    on = item.on.expression if isinstance(item.on, Plain) else None
    join = exp.Join(this=from_sql(item.right), side=item.side or None, kind=item.kind or None)
    if on is not None:
        join.set("on", on.copy())
    return first, [*joins, join]


def write_from(select: exp.Select, items: Sequence[FromItem]) -> None:
    """Gives a SELECT its FROM clause: the items side by side."""
    if not items:
        return
    first, joins = spine(items[0])
    select.set("from_", exp.From(this=first))
    select.set("joins", joins + [exp.Join(this=from_sql(item)) for item in items[1:]])


def table(name: str) -> exp.Table:
    """A common table expression or temporary table as FROM reads it."""
    return exp.Table(this=quoted(name))
