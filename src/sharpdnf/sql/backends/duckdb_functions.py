"""Which functions of a DuckDB connection are DuckDB's own: macros and Python functions can read tables nobody named.

A macro may even be called ``+`` or ``date_part``, and then every ``a + b`` or EXTRACT calls it. Our own questions name
DuckDB's functions with their catalog, which no macro can take over.

Stamps. Listing the functions takes DuckDB longer than rewriting a query, so the list is kept until somebody makes a new
function. DuckDB has no counter for that, but it numbers the entries of its catalog: making a temporary view, and asking
for its number, gives a *stamp*. Two stamps in a row differ by a fixed step if nothing was made in between, and by more
if a macro, a table or anything else was. What would break: a list that is kept too long would let a macro pass for a
function of DuckDB's own, and a macro can read uncertain tables that the query does not show. So whenever the step is
not the usual one, or no stamp can be made, the functions are listed again.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from sharpdnf.sql.backends.protocol import Functions

Signature = tuple[str, str, str, str, str, bool]
View = tuple[str, str, str, bool, int, int, bool]
"""Catalog, schema, name, True, its number, how many columns it has, whether it is temporary."""
LIST = (
    "SELECT system.main.lower(function_name), function_type, coalesce(stability, ''), coalesce(CAST(parameter_types "
    "AS VARCHAR), ''), coalesce(return_type, ''), internal FROM system.main.duckdb_functions()"
)
RUN_TEXT = frozenset(["query", "query_table"])
"""Functions that take the name of a table or a query as text, and read it."""
BOUND = ("struct_", "array_", "list_", "map_", "json_", "element_", "contains")
"""Functions that x.y, x[1] and the like come to call after parsing: nobody may replace them."""
OURS = frozenset(["+", "-", "row_number", "dense_rank", "count", "count_star", "sum"])
"""Functions that our own statements call; if one of them is replaced, nothing can be answered."""
STAMP = "_sharpdnf_stamp"


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
    """The functions of one connection, read again when the catalog changed.

    A stamp is the number that DuckDB gave to a catalog entry made just now. These numbers come from one counter that
    only grows, and making our own entry takes a fixed number of them, the step, which is measured by making two
    entries with nothing in between. So if the next stamp is one step after the last, nobody else has made an entry and
    the list in memory is still right; at any other distance it is read again. The list is read between two stamps: if
    they are not one step apart, an entry was made meanwhile, the list may be half old, and no step is kept, so that
    it is read again the next time. Without that check, a macro made by another thread in that moment would be missed,
    and a query that calls it would be counted as if it read no table.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._known: Listing | None = None
        self.views: list[View] | None = None
        """The views of the connection when the stamp was looked at last."""
        self.transaction: int | None = None
        """The number of the transaction in which they were listed."""
        self._last = self._step = 0

    def last(self) -> Listing:
        """The functions as they were listed last."""
        return self._known or self.current()

    def current(self) -> Listing:
        """The functions as they are now: the kept list if the stamp shows that nothing was made since."""
        stamp = self._stamp()
        if self._known is None or stamp is None or stamp - self._last != self._step:
            self._known = self._read()
        else:
            self._last = stamp
        return self._known

    @contextmanager
    def unmoved(self) -> Iterator[None]:
        """Catalog entries that we make inside are no functions: the list that is known stays in force."""
        before = self._stamp()
        same = before is not None and before - self._last == self._step
        yield
        after = self._stamp()
        if same and after is not None:
            self._last = after

    def called(self, names: frozenset[str], sql: str) -> frozenset[str]:
        """The added functions that a text calls, by name, by an operator or by other syntax."""
        found = self.current()
        called = names & found.added
        if found.replacing:
            parsed, text = self._parsed_calls(sql) | OURS, sql.lower()
            called |= {n for n in found.replacing if n in parsed or n in text or n.startswith(BOUND)}
        return called

    def _parsed_calls(self, sql: str) -> frozenset[str]:
        """The functions that DuckDB's parser makes of a text, among them those of operators."""
        tree = self.connection.execute("SELECT system.main.json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()
        names: list[str] = re.findall(r'"function_name":("(?:[^"\\]|\\.)*")', tree[0][0])
        return frozenset(json.loads(name).lower() for name in names)

    def _read(self) -> Listing:
        first, second = self._stamp(), self._stamp()
        listed: list[Signature] = self.connection.execute(LIST).fetchall()
        ours = own_signatures(self._loaded())
        third = self._stamp()
        self._step = 0  # stamps always grow, so a step of 0 makes the next look read the list again
        if first is not None and second is not None and third is not None and third - second == second - first:
            self._last, self._step = third, second - first
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

    def _stamp(self) -> int | None:
        """The number of a catalog entry made just now; None where none can be made. All views come along."""
        try:
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {STAMP} AS SELECT 1 AS x")
            found = self.connection.execute(
                "SELECT database_name, schema_name, view_name, true, view_oid, column_count, temporary, "
                "system.main.txid_current() FROM system.main.duckdb_views() WHERE NOT internal"
            ).fetchall()
        except duckdb.Error:
            self.views = None
            return None
        self.transaction = found[0][-1] if found else None
        self.views = [row[:-1] for row in found if row[2] != STAMP]
        stamps = [row[4] for row in found if row[2] == STAMP and row[6]]
        return int(stamps[0]) if stamps else None
