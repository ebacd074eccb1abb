"""The user's SQL with a place for every uncertain table that it reads; all else stays, letter by letter.

What a table name means is asked of the database (``bind/tables.py``); its place in the text comes from the parser. A
view over uncertain rows is replaced by its definition, in which every name is written out in full, because a name in it
means what it means in the view's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import TokenType, exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.dialect import tokens_of
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Catalog, Relation, Uncertain
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.parse.allowed import PLACES, PROBABILITY_FUNCTIONS, TABLE_FUNCTIONS, called_names
from sharpdnf.sql.parse.faithful import check_faithful, standing
from sharpdnf.sql.parse.text import parse_select, written_back
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.worlds.matter import condition_of
from sharpdnf.sql.worlds.user_code import UserCode, read_user_code

RESERVED = "_sharpdnf_"
ROW_MAKERS = TABLE_FUNCTIONS | frozenset(
    [
        "unnest", "generate_subscripts", "json_each", "json_tree", "json_each_text", "jsonb_each", "jsonb_each_text",
        "json_array_elements", "json_array_elements_text", "jsonb_array_elements", "jsonb_array_elements_text",
        "json_object_keys", "jsonb_object_keys", "regexp_matches", "regexp_split_to_table", "string_to_table",
    ]
)  # fmt: skip
"""Table functions that make rows of values, files or frames, and read no table."""
HIDDEN = {
    "duckdb": frozenset(["rowid"]),
    "sqlite": frozenset(["rowid", "_rowid_", "oid"]),
    "postgres": frozenset(["ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"]),
}
"""Columns that tables have but ``*`` does not show; what is read in a world does not have them."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A place in the text where an uncertain table is read."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    """The columns that can be read there, in order; the column of the probability only if the text names it."""
    condition: exp.Expr | None = None
    """What must be TRUE of a row for it to matter there, over columns of ``_s``; None if nothing is known."""


@dataclass(frozen=True, slots=True)
class Script:
    """A query cut at the places where it reads uncertain tables."""

    parts: tuple[str | Reading, ...]
    tree: exp.Query
    text: str
    """The query as a whole."""
    certain: tuple[Relation, ...] = ()
    """What else it reads, of whatever kind."""
    alone: bool = False
    """Whether every world is played in a statement of its own, because the query calls code of the user's."""

    def readings(self) -> list[Reading]:
        """The places, in order."""
        return [part for part in self.parts if isinstance(part, Reading)]

    def write(self, source: Callable[[Reading], str]) -> str:
        """The query with something to read from, in parentheses, at every place."""
        return "".join(part if isinstance(part, str) else source(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class _Seen:
    table: exp.Table
    relation: Relation
    touches: bool


class _References(Tables):
    """Notes down which relation every table name of the query and of its views means."""

    def __init__(
        self, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], query: exp.Query | None = None
    ) -> None:
        super().__init__(catalog, uncertain, query)
        self.code = UserCode()
        """The user's functions and macros that may be called."""
        self.seen: dict[int, _Seen] = {}
        self.bodies: dict[tuple[str, ...], dict[int, _Seen]] = {}

    def view(self, relation: Relation) -> tuple[exp.Query, bool]:
        if relation.key not in self._views:
            outer, self.seen = self.seen, {}
            super().view(relation)
            self.bodies[relation.key], self.seen = self.seen, outer
        return self._views[relation.key]

    def table_touches(self, table: exp.Table, env: Environment) -> bool:
        if isinstance(table.this, exp.Func):
            name = (table.this.name if isinstance(table.this, exp.Anonymous) else table.this.sql_name()).lower()
            if name not in ROW_MAKERS and name not in self.code.called:
                refuse(f"the table function {name}()", "it can read tables that the query does not show")
            return False
        if self.cte_key(table, env) is not None:
            return super().table_touches(table, env)
        relation = self.relation(table, env)
        touches = self.relation_touches(relation)
        if touches and relation.stored:
            refuse(
                f"the materialised view {relation.path[-1]!r}",
                "its rows were copied, so worlds cannot change them; make it a plain view, or declare it itself",
            )
        if touches and table.args.get("only"):
            refuse(f"ONLY {table.name}", "an uncertain table has no tables below it; leave ONLY out")
        self.seen[id(table)] = _Seen(table, relation, touches)
        return touches


def make_script(sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain]) -> Script:
    """Finds the places; refuses text whose tables cannot be told for certain."""
    if not catalog.dialect.worlds:
        refuse("playing worlds on this database", "they change tables row by row; ask DuckDB, SQLite or PostgreSQL")
    if RESERVED in sql.lower():
        refuse(f"a name with {RESERVED!r}", "it is reserved for the rewritten query")
    text = standing(sql, catalog.dialect)
    tree = parse_select(text, catalog.dialect, "the query")
    if tree.find(exp.TableSample) is not None:
        refuse(
            "sampling (TABLESAMPLE, USING SAMPLE)",
            "it draws other rows from call to call; ask for WHERE key % 10 = 0, or declare smaller probabilities",
        )
    ours = sorted(PROBABILITY_FUNCTIONS.intersection(called_names(sql, catalog.dialect)))
    if ours:
        refuse(f"{ours[0]}() here", PLACES[ours[0] == "prob"])
    tables = _References(catalog, uncertain, tree)
    tables.code = read_user_code(text, catalog, uncertain)
    try:
        tables.touches(tree, Environment())
        parts = _Writer(tables).cut(text, tree, tables.seen, full=False)
        shadows = _shadows(tables)
        parts = [*shadows, *parts, "\n) AS _sharpdnf_all"] if shadows else parts
        if any(isinstance(part, Reading) and part.condition is not None for part in parts):
            parts = _as_read(parts, text, written_back(tree.root(), catalog.dialect), catalog)
    except RecursionError:
        raise SQLError("the query is nested too deeply: split it by common table expressions") from None
    every = [seen for body in (tables.seen, *tables.bodies.values()) for seen in body.values()]
    certain = {seen.relation.key: seen.relation for seen in every if not seen.touches}
    return Script(tuple(_merged(parts)), tree, text, tuple(certain.values()), bool(tables.code.called))


def _as_read(parts: list[str | Reading], text: str, written: str, catalog: Catalog) -> list[str | Reading]:
    """The same parts; without their conditions where the parser may have read these otherwise than the database."""
    try:
        check_faithful(text, written, catalog)
        return parts
    except SQLError:
        return [part if isinstance(part, str) else replace(part, condition=None) for part in parts]


def _shadows(tables: _References) -> list[str | Reading]:
    """What stands before the query: the uncertain tables that its macros name, as common table expressions."""
    found: dict[tuple[str, ...], tuple[str, Reading]] = {}
    for text, tree in tables.code.macros.items():
        before, tables.seen = tables.seen, {}
        try:
            tables.touches(tree, Environment())
            writer = _Writer(tables)
            writer.cut(text, tree, tables.seen, full=False)
            for entry in tables.seen.values():
                name, relation = entry.table.name, entry.relation
                if not entry.touches:
                    continue
                if relation.key not in tables.uncertain or entry.table.args.get("db"):
                    refuse(f"a macro that reads {entry.table.sql()}", "write its body into the query")
                columns = writer.shown(text, tree, relation, tables.uncertain[relation.key].prob)
                if found.setdefault(relation.key, (name, Reading(relation.key, columns)))[1].columns != columns:
                    refuse(f"macros that read {name} with and without its probability", "write their bodies out")
        finally:
            tables.seen = before
    parts: list[str | Reading] = []
    for name, reading in found.values():
        parts += [", " if parts else "WITH ", f"{quoted(name).sql(tables.catalog.dialect.name)} AS ", reading]
    return [*parts, " SELECT * FROM ("] if parts else []


def _merged(parts: list[str | Reading]) -> Iterator[str | Reading]:
    """The same pieces, with neighbouring texts joined into one."""
    text: list[str] = []
    for part in parts:
        if isinstance(part, str):
            text.append(part)
            continue
        yield "".join(text)
        text = []
        yield part
    yield "".join(text)


class _Writer:
    """Cuts texts at their table names."""

    def __init__(self, tables: _References) -> None:
        self.tables, self.dialect = tables, tables.catalog.dialect

    def cut(self, text: str, tree: exp.Query, seen: dict[int, _Seen], *, full: bool) -> list[str | Reading]:
        """The text with every table that touches uncertain rows replaced; ``full`` writes out the other names too."""
        self._check_places(text, tree, seen)
        found: list[tuple[int, int, list[str | Reading]]] = []
        for entry in {id(s.table): s for s in seen.values()}.values():
            if entry.touches or full:
                start, end = _span(entry.table)
                found.append((start, end, self._instead(text[start:end], text, tree, entry)))
        found += [(*span, []) for span in self._qualifiers(tree, seen)]
        parts: list[str | Reading] = []
        at = 0
        for start, end, instead in sorted(found, key=lambda item: item[0]):
            parts += [text[at:start], *instead]
            at = end
        return [*parts, text[at:]]

    def _qualifiers(self, tree: exp.Query, seen: dict[int, _Seen]) -> Iterator[tuple[int, int]]:
        """Where a column names the schema of a table that is replaced: what stands for the table is in no schema."""
        fold = self.tables.fold
        paths = {tuple(fold(quoted(part)) for part in s.relation.path[-2:]) for s in seen.values() if s.touches}
        for column in tree.find_all(exp.Column):
            db, table = column.args.get("db"), column.args.get("table")
            if db is not None and table is not None and (fold(db), fold(table)) in paths:
                yield int(column.parts[0].meta["start"]), int(table.meta["start"])

    def _instead(self, name: str, text: str, tree: exp.Query, entry: _Seen) -> list[str | Reading]:
        """What stands for a table name. Without an alias the name itself becomes one, as it was written."""
        relation, alias = entry.relation, entry.table.args.get("alias")
        last = entry.table.this.meta
        name = text[last["start"] : last["end"] + 1]
        tail: list[str | Reading] = [] if alias is not None and alias.this is not None else [f" AS {name}"]
        if not entry.touches:
            return [relation.table().sql(self.dialect.name), *tail]
        if relation.key in self.tables.uncertain:
            columns = self.shown(text, tree, relation, self.tables.uncertain[relation.key].prob)
            renamed = len(alias.args.get("columns") or ()) if alias is not None else 0
            if renamed > len(_common(columns, relation.columns)):
                refuse("a column alias list over the probability column", "the column is hidden; name the others alone")
            return [Reading(relation.key, columns, condition_of(entry.table, relation, self.tables.fold)), *tail]
        assert relation.definition is not None
        body, _ = self.tables.view(relation)
        self.tables.check_types(relation)
        inner = self.cut(relation.definition.rstrip("; \n\t"), body, self.tables.bodies[relation.key], full=True)
        starred = any(isinstance(star.parent, exp.Select | exp.Column) for star in body.find_all(exp.Star))
        if relation.labels is not None and starred:
            refuse(
                f"the view {relation.path[-1]!r}",
                "its column list may name a probability column that * hides; write the columns out in the view",
            )
        if relation.labels is None:
            return ["(", *inner, "\n)", *tail]
        names = ", ".join(quoted(label).sql(self.dialect.name) for label in relation.labels)
        return [f"(WITH _sharpdnf_view({names}) AS (", *inner, "\n) SELECT * FROM _sharpdnf_view)", *tail]

    def shown(self, text: str, tree: exp.Query, relation: Relation, prob: str) -> tuple[str, ...]:
        """The columns that can be read: all if the text names the column of the probability, else those of ``*``."""
        same = self.tables.fold(quoted(prob))
        if not any(self._folded(token.text, token.token_type) == same for token in tokens_of(text, self.dialect)):
            return tuple(c for c in relation.columns if c != prob)
        stars = [star for star in tree.find_all(exp.Star) if isinstance(star.parent, exp.Select | exp.Column)]
        open_ = [s for s in stars if not any(self._is(name, same) for name in s.args.get("except_") or ())]
        natural = any(join.args.get("method") == "NATURAL" for join in tree.find_all(exp.Join))
        if open_ or natural:
            refuse(f"* or NATURAL JOIN in a query that names the probability column {prob}", "write the columns out")
        return relation.columns

    def _is(self, name: exp.Expr, folded: str) -> bool:
        return isinstance(name, exp.Identifier | exp.Column) and self.tables.fold(quoted(name.name)) == folded

    def _folded(self, word: str, kind: TokenType) -> str | None:
        if kind in (TokenType.STRING, TokenType.NUMBER):
            return None
        return self.tables.fold(exp.Identifier(this=word, quoted=kind is TokenType.IDENTIFIER))

    def _check_places(self, text: str, tree: exp.Query, seen: dict[int, _Seen]) -> None:
        """An error unless the parser's tree knows every word that could be the name of an uncertain relation."""
        names = {self.tables.fold(quoted(s.relation.path[-1])) for s in seen.values() if s.touches}
        names |= {self.tables.fold(quoted(key[-1])) for key in self.tables.uncertain}
        placed = {i.meta["start"] for i in tree.find_all(exp.Identifier) if "start" in i.meta}
        for token in tokens_of(text, self.dialect):
            folded = self._folded(token.text, token.token_type)
            if folded in names and token.start not in placed and token.token_type in (
                TokenType.VAR, TokenType.IDENTIFIER,
            ):  # fmt: skip
                refuse(
                    f"{token.text!r} at this place",
                    "whether it reads the uncertain table cannot be told; give the column or alias another name",
                )
            if folded in HIDDEN[self.dialect.name]:
                refuse(
                    f"the hidden column {token.text}",
                    "rows have another one in each world; use a key of your own, and call no alias so",
                )


def _common(columns: tuple[str, ...], all_columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns before the first that is hidden."""
    same = 0
    while same < len(columns) and columns[same] == all_columns[same]:
        same += 1
    return columns[:same]


def _span(table: exp.Table) -> tuple[int, int]:
    """Where the name of a table stands in the text."""
    places = [part.meta for part in table.parts]
    if not all("start" in place for place in places):
        raise SQLError(f"cannot tell where {table.sql()!r} stands in the query")
    return min(int(p["start"]) for p in places), max(int(p["end"]) for p in places) + 1
