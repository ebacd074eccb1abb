"""The user's SQL with a place for every uncertain table that it reads; all else stays, letter by letter.

What a table name means is asked of the database (``bind/tables.py``); its place in the text comes from the parser. A
view over uncertain rows is replaced by its definition, in which every name is written out in full, because a name in it
means what it means in the view's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import TokenType, exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.dialect import tokens_of
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import Catalog, Relation, Uncertain
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.parse.allowed import PROBABILITY_FUNCTIONS, TABLE_FUNCTIONS, called_names, check_functions
from sharpdnf.sql.parse.faithful import standing
from sharpdnf.sql.parse.text import parse_select
from sharpdnf.sql.refusal import refuse

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


@dataclass(frozen=True, slots=True)
class Script:
    """A query cut at the places where it reads uncertain tables."""

    parts: tuple[str | Reading, ...]
    tree: exp.Query
    certain: tuple[Relation, ...] = ()
    """What else it reads, of whatever kind."""

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
            if name not in ROW_MAKERS:
                refuse(f"the table function {name}()", "it can read tables that the query does not show")
            return False
        if self.cte_key(table, env) is not None:
            return super().table_touches(table, env)
        relation = self.relation(table, env)
        touches = self.relation_touches(relation)
        if touches and relation.stored:
            refuse(f"the materialised view {relation.path[-1]!r}", "its rows were copied, so worlds cannot change them")
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
        refuse("sampling (TABLESAMPLE, USING SAMPLE)", "it draws other rows from call to call")
    ours = sorted(PROBABILITY_FUNCTIONS.intersection(called_names(sql, catalog.dialect)))
    if ours:
        refuse(f"{ours[0]}() in this query", "it goes with queries that have a lineage")
    check_functions(text, catalog)
    tables = _References(catalog, uncertain, tree)
    try:
        tables.touches(tree, Environment())
        parts = _Writer(tables).cut(text, tree, tables.seen, full=False)
    except RecursionError:
        raise SQLError("the query is nested too deeply: split it by common table expressions") from None
    every = [seen for body in (tables.seen, *tables.bodies.values()) for seen in body.values()]
    certain = {seen.relation.key: seen.relation for seen in every if not seen.touches}
    return Script(tuple(_merged(parts)), tree, tuple(certain.values()))


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
        parts: list[str | Reading] = []
        at = 0
        for start, end, instead in sorted(found, key=lambda item: item[0]):
            parts += [text[at:start], *instead]
            at = end
        return [*parts, text[at:]]

    def _instead(self, name: str, text: str, tree: exp.Query, entry: _Seen) -> list[str | Reading]:
        """What stands for a table name. Without an alias the name itself becomes one, as it was written."""
        relation, alias = entry.relation, entry.table.args.get("alias")
        last = entry.table.this.meta
        name = text[last["start"] : last["end"] + 1]
        tail: list[str | Reading] = [] if alias is not None and alias.this is not None else [f" AS {name}"]
        if not entry.touches:
            return [relation.table().sql(self.dialect.name), *tail]
        if relation.key in self.tables.uncertain:
            columns = self._shown(text, tree, relation, self.tables.uncertain[relation.key].prob)
            renamed = len(alias.args.get("columns") or ()) if alias is not None else 0
            if renamed > len(_common(columns, relation.columns)):
                refuse("a column alias list over the probability column", "the column is hidden; select the others")
            return [Reading(relation.key, columns), *tail]
        assert relation.definition is not None
        body, _ = self.tables.view(relation)
        self.tables.check_types(relation)
        inner = self.cut(relation.definition.rstrip("; \n\t"), body, self.tables.bodies[relation.key], full=True)
        starred = any(isinstance(star.parent, exp.Select | exp.Column) for star in body.find_all(exp.Star))
        if relation.labels is not None and starred:
            refuse(f"the view {relation.path[-1]!r}", "its column list may name a probability column that * hides")
        if relation.labels is None:
            return ["(", *inner, "\n)", *tail]
        names = ", ".join(quoted(label).sql(self.dialect.name) for label in relation.labels)
        return [f"(WITH _sharpdnf_view({names}) AS (", *inner, "\n) SELECT * FROM _sharpdnf_view)", *tail]

    def _shown(self, text: str, tree: exp.Query, relation: Relation, prob: str) -> tuple[str, ...]:
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
                refuse(f"{token.text!r} at this place", "whether it reads the uncertain table cannot be told")
            if folded in HIDDEN[self.dialect.name]:
                refuse(f"the hidden column {token.text}", "rows have another one in each world; use a key of your own")


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
