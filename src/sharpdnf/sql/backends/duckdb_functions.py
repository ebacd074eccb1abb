"""Which functions of a DuckDB connection are DuckDB's own: macros and Python functions can read tables nobody named.

A macro may even be called ``+`` or ``date_part``, and then every ``a + b`` or EXTRACT calls it. Our own questions name
DuckDB's functions with their catalog, which no macro can take over.

Listing the functions takes DuckDB longer than rewriting a query, so the list is kept while the stamps of
``duckdb_stamps.py`` show that the catalog is as it was.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

import duckdb

from sharpdnf.sql.backends.duckdb_stamps import Stamps
from sharpdnf.sql.backends.protocol import Functions

Signature = tuple[str, str, str, str, str, bool]
LIST = (
    "SELECT system.main.lower(function_name), function_type, coalesce(stability, ''), coalesce(CAST(parameter_types "
    "AS VARCHAR), ''), coalesce(return_type, ''), internal FROM system.main.duckdb_functions()"
)
DEFINITIONS = (
    "SELECT function_type, stability, macro_definition, database_name = 'temp' OR (database_name = "
    "system.main.current_database() AND schema_name = system.main.current_schema()) FROM "
    "system.main.duckdb_functions() WHERE system.main.lower(function_name) = CAST(? AS VARCHAR)"
)
RUN_TEXT = frozenset(["query", "query_table"])
"""Functions that take the name of a table or a query as text, and read it."""
BOUND = ("struct_", "array_", "list_", "map_", "json_", "element_", "contains")
"""Functions that x.y, x[1] and the like come to call after parsing: nobody may replace them."""
OURS = frozenset(["+", "-", "*", "row_number", "dense_rank", "count", "count_star", "sum"])
"""Functions that our own statements call; if one of them is replaced, nothing can be answered."""


@functools.lru_cache(maxsize=8)
def own_signatures(extensions: frozenset[str]) -> frozenset[Signature]:
    """The functions of a DuckDB with these extensions to which nobody has added anything."""
    connection = duckdb.connect()
    try:
        for name in extensions:
            try:
                connection.execute(f"LOAD {name}" if name.isidentifier() else "SELECT 1")
            except duckdb.Error:  # then its functions count as added
                continue
        return frozenset(connection.execute(LIST).fetchall())
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Listing:
    """The functions of a connection, at the moment when they were listed."""

    builtin: Functions
    own: frozenset[str]
    added: frozenset[str]
    """Names of macros and Python functions, and of functions of extensions that could not be loaded to compare."""

    @property
    def replacing(self) -> frozenset[str]:
        """Added names that SQL may call without naming them: operators, and what the syntax stands for."""
        return frozenset(name for name in self.added if name in self.own or not name.isidentifier())


class FunctionList:
    """The functions of one connection, read again when the catalog may have changed.

    The list is read between two stamps. If they differ by more than a step, somebody made an entry meanwhile and the
    list may be half old: then a new epoch has begun, and the list is read again the next time.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection, self.stamps = connection, Stamps(connection)
        self.settled = False
        """Whether the list stays right until the next epoch. If it was read while other connections were open, or
        inside a transaction, a macro may come or go by the end of a transaction, so it is read again every time."""
        self._known: Listing | None = None
        self._epoch = -1

    def last(self) -> Listing:
        """The functions as they were listed last."""
        return self._known or self.current()

    def current(self) -> Listing:
        """The functions as they are now: the kept list if nothing was made since."""
        self.stamps.look()
        if self._known is None or not self.settled or self._epoch != self.stamps.epoch:
            self._known = self._read()
        return self._known

    def called(self, names: frozenset[str], sql: str, found: Listing) -> frozenset[str]:
        """The added functions of a list that a text calls, by name, by an operator or by other syntax."""
        called = names & found.added
        if found.replacing:
            parsed, text = self._parsed_calls(sql) | OURS, sql.lower()
            called |= {n for n in found.replacing if n in parsed or n in text or n.startswith(BOUND)}
        return called

    def definitions(self, name: str) -> tuple[str, ...] | None:
        """The SELECTs that a macro stands for; none for a Python function without side effects; None for others.

        A name in a macro's body means what it means where the macro is called, and there the schema is the current one.
        So a macro of another schema is none of these, since whether names are sought there, too, is nowhere said.
        """
        if name in self.current().replacing:
            return None
        found = self.connection.execute(DEFINITIONS, [name]).fetchall()
        texts: list[str] = []
        for kind, stability, body, here in found:
            if kind == "macro" and here:
                texts.append(f"SELECT {body}")
            elif kind == "table_macro" and here:
                texts.append(body)
            elif kind != "scalar" or stability != "CONSISTENT":
                return None
        return tuple(texts) if found else None

    def _parsed_calls(self, sql: str) -> frozenset[str]:
        """The functions that DuckDB's parser makes of a text, among them those of operators."""
        tree = self.connection.execute("SELECT system.main.json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()
        names: list[str] = re.findall(r'"function_name":("(?:[^"\\]|\\.)*")', tree[0][0])
        return frozenset(json.loads(name).lower() for name in names)

    def _read(self) -> Listing:
        before, self._epoch = self.stamps.last, self.stamps.epoch
        alone = self.stamps.alone()
        listed: list[Signature] = self.connection.execute(LIST).fetchall()
        ours = own_signatures(self._loaded())
        after = self.stamps.look()
        self.settled = alone and before is not None and after is not None and before.transaction != after.transaction
        builtin = Functions(
            frozenset(name for name, kind, *_ in listed if kind == "aggregate"),
            frozenset(name for name, _, stability, *_ in listed if stability == "VOLATILE") | RUN_TEXT,
        )
        added = frozenset(s[0] for s in listed if not s[-1]) | {s[0] for s in frozenset(listed) - ours}
        return Listing(builtin, frozenset(s[0] for s in ours), added)

    def _loaded(self) -> frozenset[str]:
        """The extensions loaded here; without external access DuckDB does not tell, and those linked in stand for them.

        The functions of others are then taken for the user's own, so they are refused.
        """
        listed = "SELECT extension_name FROM system.main.duckdb_extensions() WHERE loaded"
        try:
            rows = self.connection.execute(listed).fetchall()
        except duckdb.PermissionException:
            with duckdb.connect() as fresh:
                rows = fresh.execute(listed).fetchall()
        return frozenset(name for (name,) in rows)
