"""Names: which column of which FROM item a reference means, in the query as the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.bind.tree import Source

UNLISTED = frozenset(["rowid", "_rowid_", "oid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"])
"""Columns that tables have without listing them, in one database or another."""


Fields = Literal["none", "known", "open"]
"""Whether a dot behind a column reads a field of it; "open" where that is not known, or its meaning is not."""


class UnknownColumn(SQLError):
    """A name that no FROM item in sight has. Inside a subquery it may belong to the query around it."""


@dataclass(frozen=True, slots=True)
class Visible:
    """A column that unqualified names and ``*`` see: one column of a source, or columns merged by USING."""

    label: str
    key: str | None
    expression: exp.Expr
    hidden: bool
    source: Source


def reads_uncertain(source: Source) -> bool:
    """Whether a FROM item may hold uncertain rows."""
    return source.origin is None or bool(source.origin.reads)


def visible_columns(source: Source) -> list[Visible]:
    """What a FROM item brings into sight."""
    return [Visible(o.label, o.key, source.column(o), o.hidden, source) for o in source.columns]


@dataclass(slots=True)
class Scope:
    """The FROM items of one SELECT and the scopes around it."""

    parent: Scope | None
    sources: list[Source] = field(default_factory=list)
    visible: list[Visible] = field(default_factory=list)
    """The columns in sight, in the order in which ``*`` lists them."""
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    """Select-list aliases that WHERE and later items may use, already bound."""
    closed: bool = False
    """Whether this is a trial without the scopes around it, whose columns then count as unknown."""
    lateral: bool = False
    """Whether these are the FROM items beside a derived table, which it may not read without LATERAL."""
    merges: bool = False
    """Whether how often a row occurs does not matter here, so a derived table may be merged into this SELECT."""

    def add(self, source: Source) -> None:
        """Puts one FROM item behind ours."""
        self.join(Scope(None, [source], visible_columns(source)))

    def join(self, other: Scope) -> None:
        """Puts the items of a parenthesised join or of a comma-separated group behind ours."""
        for source in other.sources:
            name = source.path[-1:]
            if name and any(s.path[-1:] == name for s in self.sources):
                raise UnsupportedSQL(f"two FROM items are called {name[0]!r}: give one of them another alias")
        self.sources += other.sources
        self.visible += other.visible

    def snapshot(self) -> Scope:
        """What is in sight now, for an ON condition that is bound later."""
        return replace(self, sources=list(self.sources), visible=list(self.visible))

    def merge(self, keys: list[str], left: int, side: str, dialect: Dialect) -> list[exp.Expr]:
        """Joins ``visible[:left]`` and ``visible[left:]`` USING the keys; returns the equalities."""
        before, after, merged = self.visible[:left], self.visible[left:], []
        equalities: list[exp.Expr] = []
        for key in keys:
            mine, theirs = ([v for v in part if v.key == key] for part in (before, after))
            if len(mine) != 1 or len(theirs) != 1:
                raise UnsupportedSQL(f"USING ({key}) needs exactly one column {key!r} on either side")
            if mine[0].hidden or theirs[0].hidden:
                raise UnsupportedSQL(f"USING ({key}) would join on the probability column: write it as ON")
            a, b = mine[0].expression, theirs[0].expression
            equalities.append(exp.EQ(this=a.copy(), expression=b.copy()))
            # PostgreSQL gives the merged column the common type of both; the others keep the left one where it is.
            common = dialect.using_common_type or side == "FULL"
            value = exp.Coalesce(this=a.copy(), expressions=[b.copy()]) if common else b if side == "RIGHT" else a
            merged.append(replace(mine[0], expression=value))
            after = [v for v in after if v is not theirs[0]]
            if dialect.using_comes_first:
                before = [v for v in before if v is not mine[0]]
            else:
                before = [merged[-1] if v is mine[0] else v for v in before]
        self.visible = [*merged, *before, *after] if dialect.using_comes_first else [*before, *after]
        return equalities

    def hide(self, source: Source) -> None:
        """The right side of a semi-join is in sight of its ON condition only."""
        self.sources = [s for s in self.sources if s is not source]
        self.visible = [v for v in self.visible if v.source is not source]

    def star(self, path: tuple[str, ...] | None, dropped: Sequence[str] = ()) -> list[Visible]:
        """What ``*`` or ``t.*`` stands for, without the probability column and without those it EXCLUDEs."""
        if path is None:
            if not self.sources:
                raise UnsupportedSQL("* needs a FROM clause")
            found = self.visible
        else:
            source = self._source(path)
            if source is None:
                raise UnknownColumn(f"no FROM item {'.'.join(path)!r} for {'.'.join(path)}.*")
            found = visible_columns(source)
        for name in dropped:
            if not any(v.key == name for v in found):
                raise SQLError(f"* EXCLUDE names {name!r}, which is not a column here")
        return [v for v in found if not v.hidden and v.key not in dropped]

    def _source(self, path: tuple[str, ...]) -> Source | None:
        found = [s for s in self.sources if path in (s.path[-len(path) :], s.path[::2])]  # catalog.table in DuckDB
        if len(found) > 1:
            raise UnsupportedSQL(f"the name {'.'.join(path)!r} is ambiguous: give the FROM items different aliases")
        return found[0] if found else None

    def bind(
        self,
        column: exp.Column,
        fold: Callable[[exp.Identifier], str],
        starred: Collection[str | None],
        fields: Callable[[Visible], Fields],
    ) -> exp.Expr:
        """The expression that a column reference means, in the rewritten SQL's names.

        ``starred`` are the probability columns that a ``*`` left out of a derived table, a CTE or a view; ``fields``
        tells whether x.y may be a field of the column x.
        """
        key = fold(column.this)
        path = tuple(fold(part) for part in (column.args.get(a) for a in ("catalog", "db", "table")) if part)
        scope: Scope | None = self
        while scope is not None:
            if path and scope._source(path) is None:
                part = scope._field(column, path, fields)
                if part is not None:
                    return part
            found = scope._qualified(path, key) if path else scope._unqualified(key, starred)
            if found is not None and scope.lateral:
                raise UnsupportedSQL(f"LATERAL is not supported: a derived table reads {column.sql()!r} beside it")
            if found is not None:
                return found.copy()
            scope = None if scope.closed else scope.parent
        beside = "; a subquery in FROM sees the items beside it only after LATERAL" if path else ""
        raise UnknownColumn(f"no column {column.sql()!r} in the FROM items in sight{beside}")

    def _field(
        self, column: exp.Column, path: tuple[str, ...], fields: Callable[[Visible], Fields]
    ) -> exp.Expr | None:  # fmt: skip
        """A field of a column, as in x.y or t.x.y: a table comes before a column of its name. None if it is none."""
        source = self._source(path[:1]) if len(path) > 1 else None
        seen = visible_columns(source) if source is not None else self.visible
        first = 1 if source is not None else 0
        known = [v for v in seen if v.key == path[first]]
        kinds = {fields(v) for v in known}
        if kinds <= {"none"}:
            return None
        if kinds != {"known"} or len(known) > 1 or self.lateral:
            raise UnsupportedSQL(f"{column.sql()!r} is a field of the column {path[first]!r}, which is not supported")
        found: exp.Expr = known[0].expression.copy()
        for part in column.parts[first + 1 :]:
            found = exp.Dot(this=exp.paren(found, copy=False), expression=exp.Identifier(this=part.name, quoted=True))
        return exp.paren(found, copy=False)

    def _qualified(self, path: tuple[str, ...], key: str) -> exp.Expr | None:
        source = self._source(path)
        if source is None:
            return None
        outputs = source.find(key)
        if len(outputs) > 1:
            raise UnsupportedSQL(f"the column {'.'.join(path)}.{key} is ambiguous")
        if not outputs:
            raise SQLError(f"{'.'.join(path)!r} has no column {key!r}")
        return source.column(outputs[0])

    def _unqualified(self, key: str, starred: Collection[str | None]) -> exp.Expr | None:
        found = [v for v in self.visible if v.key == key]
        if len(found) > 1:
            raise UnsupportedSQL(f"the column {key!r} is ambiguous: say which table it is of")
        if found:
            return found[0].expression
        self._check_unlisted(key, starred)
        if key in self.aliases:
            if self.parent is not None and self.parent.knows(key):
                raise UnsupportedSQL(f"{key!r} names both a select alias and a column of the outer query: qualify it")
            return exp.paren(self.aliases[key])
        return None

    def _check_unlisted(self, key: str, starred: Collection[str | None]) -> None:
        """Refuses a name that the database may find here although no column of that name is listed."""
        derived = [s for s in self.sources if reads_uncertain(s) and not any(o.hidden for o in s.columns)]
        if derived and key in starred:
            raise UnsupportedSQL(f"the column {key!r} is a probability, which * leaves out: say of which table it is")
        if (self.sources and key in UNLISTED) or any(s.path[-1:] == (key,) for s in self.sources):
            raise UnsupportedSQL(f"{key!r} may mean a whole row or its number: say of which table it is a column")

    def knows(self, key: str) -> bool:
        """Whether a name is a column or an alias here or around here."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope.aliases or any(v.key == key for v in scope.visible):
                return True
            scope = scope.parent
        return False
