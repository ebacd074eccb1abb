"""Table names: CTEs, views and catalog relations, and whether a piece of SQL reads an uncertain row anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import Catalog, Relation, Uncertain
from sharpdnf.sql.bind.tree import Shared
from sharpdnf.sql.parse.allowed import TABLE_FUNCTIONS, check_functions
from sharpdnf.sql.parse.faithful import check_faithful
from sharpdnf.sql.parse.text import parse_select, written_back
from sharpdnf.sql.refusal import refuse

FILES = (".parquet", ".csv", ".tsv", ".json", ".ndjson", ".gz")
"""How the names of data files end."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The CTEs in sight. ``home`` is the schema of the view whose body is read, None in the query itself."""

    ctes: Mapping[str, Shared | None] = field(default_factory=dict)
    """None stands for a CTE that is only looked at, not bound: reading it is judged by ``touching``."""
    touching: frozenset[str] = frozenset()
    """The names among them that read uncertain rows."""
    home: tuple[str, ...] | None = None

    def define(self, key: str, shared: Shared | None, *, touches: bool) -> Environment:
        """A copy with one more CTE, which hides others of its name."""
        touching = self.touching | {key} if touches else self.touching - {key}
        return Environment({**self.ctes, key: shared}, touching, self.home)


class Tables:
    """Resolves table names and judges queries; expands no view itself."""

    def __init__(
        self, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain], query: exp.Query | None = None
    ) -> None:
        self.catalog, self.uncertain, self._query = catalog, uncertain, query
        self._views: dict[tuple[str, ...], tuple[exp.Query, bool]] = {}
        self._open_views: list[tuple[str, ...]] = []
        self._relations: dict[tuple[tuple[str, ...], tuple[str, ...] | None], Relation] = {}

    def fold(self, identifier: exp.Identifier) -> str:
        return self.catalog.fold(identifier)

    def collates(self) -> bool:
        """Whether the query or a relation has collations that a comparison of computed values would lose (SQLite)."""
        here = self.catalog.dialect.affinities and self._query is not None and self._query.find(exp.Collate)
        return bool(here) or self.catalog.collates()

    def cte_key(self, table: exp.Table, env: Environment) -> str | None:
        """The CTE that a table name means, if any."""
        if not isinstance(table.this, exp.Identifier) or table.args.get("db") or table.args.get("catalog"):
            return None
        key = self.fold(table.this)
        return key if key in env.ctes else None

    def relation(self, table: exp.Table, env: Environment) -> Relation:
        """The catalog relation that a table name means; an error if there is none."""
        if not isinstance(table.this, exp.Identifier):
            refuse(f"the table function {table.this.sql()[:40]}", "register its result with db.register(name, frame)")
        parts = tuple(self.fold(p) for p in (table.args.get(a) for a in ("catalog", "db", "this")) if p)
        if (parts, env.home) not in self._relations:
            found = self.catalog.resolve(parts, env.home)
            if found is None:
                raise SQLError(_missing(".".join(parts)))
            self._relations[parts, env.home] = found
        return self._relations[parts, env.home]

    def view(self, relation: Relation) -> tuple[exp.Query, bool]:
        """The parsed definition of a view and whether it reads uncertain rows."""
        if relation.key not in self._views:
            if relation.key in self._open_views:
                refuse(f"the view {relation.path[-1]!r}", "it refers to itself")
            assert relation.definition is not None
            body = parse_select(relation.definition, self.catalog.dialect, f"the view {relation.path[-1]!r}")
            self._open_views.append(relation.key)
            try:
                check_functions(relation.definition, self.catalog)
                check_faithful(relation.definition, written_back(body.root(), self.catalog.dialect), self.catalog)
                touches = self.touches(body, Environment(home=relation.path[:-1]))
            finally:
                self._open_views.pop()
            self._views[relation.key] = (body, touches)
        return self._views[relation.key]

    def check_types(self, relation: Relation) -> None:
        """Refuses a view of another schema with a type of its own: outside the view the name may mean another type."""
        body, name = self.view(relation)[0], relation.path[-1]
        own = any(kind.this == exp.DataType.Type.USERDEFINED for kind in body.find_all(exp.DataType))
        if own and self.catalog.dialect.schema_types:
            here = self.catalog.resolve((self.fold(quoted(name)),), None)
            if here is None or here.path != relation.path:
                refuse(f"the view {name!r} with a type of its schema", "here the type's name may mean another one")

    def relation_touches(self, relation: Relation) -> bool:
        """Whether reading a catalog relation reads uncertain rows."""
        if relation.key in self.uncertain:
            return True
        if relation.definition is not None:
            return self.view(relation)[1]
        for other in self.catalog.related(relation):
            if other.key in self.uncertain:
                refuse(
                    f"reading {relation.path[-1]!r}",
                    f"it shares rows with the uncertain table {other.path[-1]!r} (partition or inheritance)",
                )
        return False

    def touches(self, node: exp.Expr, env: Environment) -> bool:
        """Whether a piece of SQL reads an uncertain row anywhere: in a CTE, a view, a subquery at any depth."""
        found = False
        while isinstance(node, exp.SetOperation):  # a loop: there may be thousands of them
            env = self.inner(node, env)
            for child in children(node):
                found = (child is not node.this and self.touches(child, env)) or found
            node = node.this
        env = self.inner(node, env)
        if isinstance(node, exp.In) and node.args.get("field") and self.catalog.dialect.in_reads_tables:
            refuse(f"{node.sql()[:60]!r}", "IN reads a table there; write IN (SELECT column FROM it)")
        found = (isinstance(node, exp.Table) and self.table_touches(node, env)) or found
        for child in children(node):  # all of them: each may hold something to refuse
            found = self.touches(child, env) or found
        return found

    def table_touches(self, table: exp.Table, env: Environment) -> bool:
        """Whether a FROM item reads uncertain rows; table functions that might are refused."""
        key = self.cte_key(table, env)
        if key is not None:
            return key in env.touching
        if isinstance(table.this, exp.Func):
            name = (table.this.name if isinstance(table.this, exp.Anonymous) else table.this.sql_name()).lower()
            if name not in TABLE_FUNCTIONS:
                refuse(f"the table function {name}()", "it can read tables that the query does not show")
            return False
        return self.relation_touches(self.relation(table, env))

    def inner(self, node: exp.Expr, env: Environment) -> Environment:
        """The environment under a node's WITH clause; a CTE that nobody reads has no effect on the answers."""
        with_ = node.args.get("with_")
        if with_ is None:
            return env
        named = [(self.fold(cte.args["alias"].this), cte.this) for cte in with_.expressions]
        if self.self_visible(with_):
            for key, _ in named:
                env = env.define(key, None, touches=False)
        while True:
            before = env.touching
            for key, body in named:
                env = env.define(key, None, touches=self.touches(body, env))
            if env.touching == before or not self.self_visible(with_):  # else an earlier one may read a later one
                return env

    def self_visible(self, with_: exp.With) -> bool:
        """Whether a CTE sees its own name and later ones: always in SQLite, only with RECURSIVE elsewhere."""
        return bool(with_.args.get("recursive")) or self.catalog.dialect.ctes_see_later

    def check_forward(self, with_: exp.With, env: Environment) -> None:
        """Refuses a CTE that may read itself or a later one instead of the table of that name."""
        keys = [self.fold(cte.args["alias"].this) for cte in with_.expressions]
        if len(set(keys)) < len(keys):
            raise SQLError("two common table expressions have the same name")
        if not self.self_visible(with_):
            return
        for position, cte in enumerate(with_.expressions):
            later = set(keys[position:])
            for table in cte.this.find_all(exp.Table):
                bare = isinstance(table.this, exp.Identifier) and not table.args.get("db")
                if bare and self.fold(table.this) in later and self.touches(with_.parent or with_, env):
                    refuse(
                        f"the recursive or forward reference to {table.name!r}",
                        "recursion over uncertain rows has no finite lineage; give the CTE another name",
                    )

    def opaque(self, node: exp.Expr, env: Environment) -> exp.Expr:
        """A copy of certain SQL in which a CTE's name reads what it was bound to and relations have their full names.

        In a view's body a name means what it means in the view's schema, which is not that of the query.
        """
        copy = node.copy()
        self._redirect(copy, env)
        return copy

    def _redirect_ctes(self, node: exp.Expr, env: Environment) -> Environment:
        with_, before = node.args.get("with_"), env
        if with_ is None:
            return env
        for cte in with_.expressions:
            env = env.define(self.fold(cte.args["alias"].this), None, touches=False)
        for cte in with_.expressions:
            self._redirect(cte.this, env if self.self_visible(with_) else before)
            before = before.define(self.fold(cte.args["alias"].this), None, touches=False)
        return env

    def _redirect(self, node: exp.Expr, env: Environment) -> None:
        while isinstance(node, exp.SetOperation):
            env = self._redirect_ctes(node, env)
            for child in [child for child in children(node) if child is not node.this]:
                self._redirect(child, env)
            node = node.this
        env = self._redirect_ctes(node, env)
        for child in list(children(node)):
            self._redirect(child, env)
        if not isinstance(node, exp.Table):
            return
        key = self.cte_key(node, env)
        if key is None:
            if isinstance(node.this, exp.Identifier):
                for name, part in self.relation(node, env).table().args.items():
                    node.set(name, part)
            return
        shared = env.ctes[key]
        if shared is None:
            return
        columns = [exp.alias_(column(o.name), o.label, quoted=True) for o in shared.columns]
        inner = exp.select(*columns).from_(quoted(shared.name))
        alias = node.args.get("alias") or exp.TableAlias(this=node.this.copy())
        joins = node.args.get("joins")
        node.replace(exp.Subquery(this=inner, alias=alias.copy(), joins=[j.copy() for j in joins] if joins else None))


def _missing(name: str) -> str:
    """The error of a name that means no relation; the name of a file gets a hint."""
    stem, _, ending = name.rpartition("/")[2].partition(".")
    if f".{ending.lower()}".endswith(FILES):
        return (
            f"{name!r} is a file, which a query cannot name: write db.register({stem!r}, {name!r}), with prob= if its "
            f"rows are uncertain (on the command line --table {stem}={name}), and FROM {stem}"
        )
    return f"no table or view {name!r} in the database"


def children(node: exp.Expr) -> Iterator[exp.Expr]:
    """The direct sub-expressions, without the WITH clause."""
    for name, value in node.args.items():
        if name == "with_":
            continue
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, exp.Expr):
                yield item
