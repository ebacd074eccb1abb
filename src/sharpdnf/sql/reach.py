"""Recursion of the shape "reachable from" over one uncertain table of links: a question about a network.

    WITH RECURSIVE reach(node) AS (
        SELECT 1 UNION SELECT e.dst FROM reach JOIN edge e ON e.src = reach.node
    ) SELECT node FROM reach

In a world the answers are the nodes that the links of that world lead to, which is what ``sharpdnf.network`` computes,
exactly or with a guarantee, for thousands of links. With ``ON e.src = reach.node OR e.dst = reach.node`` and
``CASE WHEN e.src = reach.node THEN e.dst ELSE e.src END`` links lead both ways. The last SELECT may ask for one node,
``WHERE node = 5``. Anything else is refused by name, and goes by worlds.

Which values are the same node is the database's to say. Values that are all whole numbers, or all texts, of one type
are compared here; that the database counts as many different ones is checked with the data, so that a collation under
which two texts are equal is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlglot import exp

from sharpdnf.engines.front import make_seed
from sharpdnf.fronts import network
from sharpdnf.fronts.links import LinkNetwork
from sharpdnf.sql.backends.names import column, quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Backend, Catalog, Uncertain
from sharpdnf.sql.bind.tables import Environment, Tables
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.ordering import order_of
from sharpdnf.sql.refusal import refuse
from sharpdnf.sql.uncertain import Declared
from sharpdnf.sql.ways import Route
from sharpdnf.sql.worlds.outer_order import sort_keys
from sharpdnf.sql.worlds.played_answers import WorldAnswers
from sharpdnf.sql.worlds.script import Script, make_script

if TYPE_CHECKING:
    from sharpdnf.sql.database import ProbDB

Value = int | str | None
WHOLE = ("tinyint", "smallint", "integer", "bigint", "hugeint", "21", "23", "20")
TEXT = ("varchar", "25", "1043")
"""Types of nodes: DuckDB's names, and PostgreSQL's numbers of int2, int4, int8, text and varchar."""
ONE_BY_ONE = 1_000_000
"""Nodes times links up to which every node is asked for on its own; beyond it all are sampled in the same worlds."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What is asked about which table."""

    script: Script
    """The query itself, for its values and for the worlds if the data turn out not to be fit for this way."""
    key: tuple[str, ...]
    """The uncertain table."""
    tail: str
    head: str
    """Its columns: a link leads from the one to the other."""
    both_ways: bool
    start: Value
    target: Value
    """The only node that is asked for; None if all are."""
    shows_node: bool
    """Whether the value shown is the node; else it is a constant."""


def make_reach(sql: str, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain]) -> Reach:
    """Recognises the shape, or refuses with what is different."""
    script = make_script(sql, catalog, uncertain)
    return _Shape(script, catalog, uncertain).read()


def _other(what: str) -> NoReturn:
    refuse(what, "a network is asked by a recursive query for what can be reached from one node")


class _Shape:
    """Reads a query of the shape, part by part."""

    def __init__(self, script: Script, catalog: Catalog, uncertain: Mapping[tuple[str, ...], Uncertain]) -> None:
        self.script, self.tree, self.catalog, self.uncertain = script, script.tree, catalog, uncertain

    def read(self) -> Reach:
        with_ = self.tree.args.get("with_")
        if with_ is None or not with_.args.get("recursive") or len(with_.expressions) != 1:
            _other("a query without WITH RECURSIVE of one table")
        cte = with_.expressions[0]
        body = cte.this
        if type(body) is not exp.Union or not body.args.get("distinct") or not _has_only(
            body, "this", "expression", "distinct"
        ):  # fmt: skip
            _other("a recursion that is not SELECT ... UNION SELECT ...")
        if not (isinstance(body.this, exp.Select) and isinstance(body.expression, exp.Select)):
            _other("a recursion of more than two SELECTs")
        if not _has_only(cte, "this", "alias"):
            _other("MATERIALIZED or another addition to the recursion")
        self.name = self.catalog.fold(cte.args["alias"].this)
        start = self._start(body.this, cte.args["alias"].args.get("columns") or [])
        key, tail, head, both = self._step(body.expression)
        target, shows_node = self._asked()
        if target is not None and type(target) is not type(start):
            _other("a start and an end of different types")
        return Reach(self.script, key, tail, head, both, start, target, shows_node)

    def _start(self, select: exp.Select, columns: list[exp.Identifier]) -> Value:
        """The value that the recursion starts from; notes how its column is called."""
        if not _has_only(select, "expressions") or len(select.expressions) != 1 or len(columns) > 1:
            _other("a recursion that does not start from one value")
        first = select.expressions[0]
        if columns:
            self.node = self.catalog.fold(columns[0])
        elif isinstance(first, exp.Alias):
            self.node = self.catalog.fold(first.args["alias"])
        else:
            _other("a recursion whose column has no name")
        return _constant(first.this if isinstance(first, exp.Alias) else first)

    def _step(self, select: exp.Select) -> tuple[tuple[str, ...], str, str, bool]:
        """(uncertain table, column a link leads from, column it leads to, whether also back)."""
        joins = select.args.get("joins") or []
        if not _has_only(select, "expressions", "from_", "joins", "where") or len(joins) != 1:
            _other("a step that is not SELECT ... FROM reach JOIN links ON ...")
        plain = _has_only(joins[0], "this", "on", "kind") and joins[0].args.get("kind") in (None, "", "INNER", "CROSS")
        if len(select.expressions) != 1 or not plain:
            _other("a step with an outer join or several columns")
        items = [select.args["from_"].this, joins[0].this]
        if not all(isinstance(item, exp.Table) and _has_only(item, "this", "db", "catalog", "alias") for item in items):
            _other("a step that reads something else than the recursion and a table")
        own = [item for item in items if self._is_recursion(item)]
        if len(own) != 1:
            _other("a step that does not read the recursion once")
        links = items[1 - items.index(own[0])]
        relation = Tables(self.catalog, dict(self.uncertain)).relation(links, Environment())
        if relation.key not in self.uncertain or len(self.script.readings()) != 1:
            _other("a step over something else than one uncertain table")
        self.relation, self.own, self.links = relation, own[0], links
        conditions = [part for part in (joins[0].args.get("on"), select.args.get("where")) if part is not None]
        if len(conditions) != 1:
            _other("a step with more or fewer conditions than one")
        condition = conditions[0].this if isinstance(conditions[0], exp.Where) else conditions[0]
        return relation.key, *self._direction(_bare(condition), select.expressions[0])

    def _direction(self, condition: exp.Expr, shown: exp.Expr) -> tuple[str, str, bool]:
        value = _bare(shown.this if isinstance(shown, exp.Alias) else shown)
        if isinstance(condition, exp.EQ) and isinstance(value, exp.Column):
            tail, head = self._joined(condition), self._link_column(value)
            if head is None:
                _other("a step that does not show a column of the links")
            return tail, head, False
        case = value
        if not (isinstance(condition, exp.Or) and isinstance(case, exp.Case) and _has_only(case, "ifs", "default")):
            _other("a step whose condition is not links.column = recursion.column")
        ends = {self._joined(_bare(condition.this)), self._joined(_bare(condition.expression))}
        one = case.args["ifs"]
        if len(one) != 1 or case.args.get("default") is None:
            _other("another CASE than WHEN links.a = recursion.node THEN links.b ELSE links.a END")
        tail = self._joined(_bare(one[0].this))
        head, back = self._link_column(one[0].args["true"]), self._link_column(case.args["default"])
        if head is None or back != tail or ends != {tail, head} or tail == head:
            _other("another CASE than WHEN links.a = recursion.node THEN links.b ELSE links.a END")
        return tail, head, True

    def _joined(self, condition: exp.Expr) -> str:
        """The column of the links in links.column = recursion.node."""
        if isinstance(condition, exp.EQ):
            for one, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
                found = self._link_column(one)
                if found is not None and self._is_node(other):
                    return found
        _other("a step whose condition is not links.column = recursion.column")

    def _link_column(self, value: exp.Expr) -> str | None:
        """The column of the links that an expression is; None if it is something else."""
        value = _bare(value)
        if not isinstance(value, exp.Column) or value.args.get("db"):
            return None
        named = [c for c in self.relation.columns if self.catalog.fold(quoted(c)) == self.catalog.fold(value.this)]
        table = value.args.get("table")
        if table is not None:
            mine = self.catalog.fold(table) == self._alias(self.links)
        else:
            mine = self.catalog.fold(value.this) != self.node
        return named[0] if mine and len(named) == 1 else None

    def _is_node(self, value: exp.Expr) -> bool:
        """Whether an expression is the column of the recursion."""
        value = _bare(value)
        if not isinstance(value, exp.Column) or self.catalog.fold(value.this) != self.node:
            return False
        table = value.args.get("table")
        if table is not None:
            return self.catalog.fold(table) == self._alias(self.own)
        return not any(self.catalog.fold(quoted(c)) == self.node for c in self.relation.columns)

    def _is_recursion(self, item: exp.Table) -> bool:
        return item.args.get("db") is None and self.catalog.fold(item.this) == self.name

    def _alias(self, item: exp.Table) -> str:
        alias = item.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            _other("renamed columns")
        return self.catalog.fold(item.this if alias is None else alias.this)

    def _asked(self) -> tuple[Value, bool]:
        """(the only node that is asked for or None, whether it is shown)."""
        tree = self.tree
        if not isinstance(tree, exp.Select) or not _has_only(
            tree, "expressions", "from_", "where", "order", "with_", "distinct"
        ) or len(tree.expressions) != 1:  # fmt: skip
            _other("a last SELECT that is not SELECT node FROM reach, with WHERE node = value or without")
        distinct, source = tree.args.get("distinct"), tree.args["from_"].this if tree.args.get("from_") else None
        if distinct is not None and distinct.args.get("on") is not None:
            _other("DISTINCT ON")
        if not isinstance(source, exp.Table) or not self._is_recursion(source):
            _other("a last SELECT that reads something else than the recursion")
        shown = tree.expressions[0]
        shown = _bare(shown.this if isinstance(shown, exp.Alias) else shown)
        shows_node = self._is_last(shown, source)
        where = tree.args.get("where")
        target = None
        if where is not None:
            equal = _bare(where.this)
            if not isinstance(equal, exp.EQ):
                _other("a last WHERE that is not node = value")
            sides = (equal.this, equal.expression)
            values = [side for side in sides if not self._is_last(_bare(side), source)]
            if len(values) != 1:
                _other("a last WHERE that is not node = value")
            target = _constant(values[0])
        if not shows_node:
            _constant(shown)
            if target is None:
                _other("a constant for every node that is reached")
        return target, shows_node

    def _is_last(self, value: exp.Expr, source: exp.Table) -> bool:
        if not isinstance(value, exp.Column) or self.catalog.fold(value.this) != self.node:
            return False
        table = value.args.get("table")
        return table is None or self.catalog.fold(table) == self._alias(source)


def _bare(value: exp.Expr) -> exp.Expr:
    while isinstance(value, exp.Paren):
        value = value.this
    return value


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Whether a part of the query has nothing but these parts."""
    return all(name in names or not value for name, value in node.args.items())


def _constant(value: exp.Expr) -> int | str:
    """A whole number or a text."""
    value = _bare(value)
    sign = 1
    if isinstance(value, exp.Neg):
        sign, value = -1, _bare(value.this)
    if type(value) is exp.Literal and not (value.is_string and sign < 0):
        if value.is_string:
            return str(value.this)
        if str(value.this).isdecimal() and len(str(value.this)) < 18:
            return sign * int(value.this)
    _other("a value that is no whole number and no text")


# ---- answering


@dataclass(frozen=True, slots=True)
class Links:
    """What the database holds: the network, and what the query shows if all links are up."""

    graph: LinkNetwork
    labels: tuple[str, ...]
    values: list[Value]
    """The value of each answer."""
    nodes: list[int]
    """The node that each is about; the start is node 0."""


def read_links(backend: Backend, reach: Reach, declared: Declared) -> Links:
    """Reads the network inside a snapshot of the caller's; UnsupportedSQL if the rows are not fit for this way."""
    if declared.block_columns:
        refuse("links that exclude each other (block)", "a network has independent links")
    graph, place = _graph(_rows(backend, reach, declared), reach, declared)
    source = declared.uncertain.source.sql(backend.dialect.name)
    shown = ", ".join(column(c, "_s").sql(backend.dialect.name) for c in reach.script.readings()[0].columns)
    whole = reach.script.write(lambda _: f'(SELECT {shown} FROM {source} AS "_s")')
    labels = backend.describe(whole)
    if labels is None:
        refuse("this query", "the database cannot describe its result")
    values = [row[0] for row in backend.rows(whole)]
    nodes = [place.get(value if reach.shows_node else reach.target, -1) for value in values]
    if -1 in nodes:
        refuse("values that the database shows otherwise than they are stored", "nodes could not be told apart")
    return Links(graph, tuple(labels), values, nodes)


def network_answers(database: ProbDB, reach: Reach, links: Links, options: Options, route: Route) -> WorldAnswers:
    """Every node that can be reached, with the probability that it is."""
    import pyarrow as pa

    counts = _counts(links.graph, links.nodes, options)
    values = pa.table([pa.array(links.values)], names=["_c0"])
    order = order_of(sort_keys(reach.script.tree, links.labels), values, counts, [])
    if order is not None:
        values, counts = values.take(order), counts.take(order)
    return NetworkAnswers(links.labels, values, counts, database, route)


def _rows(backend: Backend, reach: Reach, declared: Declared) -> list[tuple[int, Value, Value]]:
    """(row, from, to) of every link, after a check that equal values are equal for the database too."""
    name = backend.dialect.name
    tail, head = (column(c, "_s").sql(name) for c in (reach.tail, reach.head))
    source = f'{declared.uncertain.source.sql(name)} AS "_s"'
    ends = f"SELECT {tail} FROM {source}", f"SELECT {head} FROM {source}"
    kind = type(reach.start)
    if name == "sqlite":
        types = tuple(backend.affinities(f"SELECT {tail}, {head} FROM {source}", 2))
        fit = types[0] == types[1] == ("INTEGER" if kind is int else "TEXT")
    else:
        types = tuple(word.lower() for word in backend.types(f"SELECT {tail}, {head} FROM {source}") or ("?", "?"))
        fit = types[0] == types[1] and types[0].split("(")[0].strip() in (WHOLE if kind is int else TEXT)
    if not fit:
        refuse(
            f"nodes of the types {types[0]} and {types[1]}",
            "a network has whole numbers or texts as nodes, and as start",
        )
    rows: list[tuple[int, Value, Value]] = backend.rows(f"SELECT {ROW_ID}, {tail}, {head} FROM {source}")
    values = {value for row in rows for value in row[1:]}
    if any(type(value) is not kind for value in values if value is not None):
        refuse("nodes of several types", "a network has whole numbers or texts as nodes")
    constants = [x for x in (reach.start, reach.target) if x is not None]
    written = [f"SELECT {exp.convert(x).sql(name)}" for x in constants]
    different = backend.rows(f"SELECT count(*) FROM ({' UNION '.join([*ends, *written])}) AS _d")[0][0]
    if different != len(values | set(constants)):
        refuse("nodes under a collation", "the database takes some of them for the same")
    return rows


def _graph(
    rows: list[tuple[int, Value, Value]], reach: Reach, declared: Declared
) -> tuple[LinkNetwork, dict[Value, int]]:
    """The network, whose nodes are numbers, and the number of each value.

    NULL equals nothing: it can be reached, and leads nowhere.
    """
    if reach.both_ways and any(None in row for row in rows):
        refuse("links both ways with NULL at an end", "NULL can be reached but leads nowhere")
    kept = [row for row in rows if row[1] is not None]
    place: dict[Value, int] = {reach.start: 0}
    for _, *ends in kept:
        for value in ends:
            place.setdefault(value, len(place))
    tail, head = (np.array([place[row[i]] for row in kept], dtype=np.int32) for i in (1, 2))
    prob = declared.prob[np.array([row[0] for row in kept], dtype=np.int64) - declared.base]
    return LinkNetwork(tuple(range(len(place))), tail, head, prob, np.ones(len(place)), not reach.both_ways), place


def _counts(graph: LinkNetwork, targets: list[int], options: Options) -> Counts:
    """The probability of each target, each exactly or within what was asked for."""
    seed, source = make_seed(options.rng), 0
    asked: dict[str, Any] = {"epsilon": options.epsilon, "delta": options.delta, "threads": options.threads}
    if options.guarantee in (None, "additive") and len(targets) * graph.num_links > ONE_BY_ONE:
        table = network.reached(graph, source, guarantee="additive", rng=seed, timeout=options.timeout, **asked)
        prob, lower, upper, exact = (table[name][targets] for name in ("prob", "lower", "upper", "exact"))
        word = np.where(exact, "exact", "additive").astype(object)
        met = exact | bool(table["met"])
        return Counts(prob, lower, upper, word, np.full(len(targets), "reach", dtype=object), met)
    rows: list[tuple[float, float, float, str, str, bool]] = []
    report: Callable[[int, int], None] = options.progress or (lambda done, of: None)
    for number, target in enumerate(targets):
        if target == source:
            rows.append((1.0, 1.0, 1.0, "exact", "certain", True))
        else:
            left = None if options.timeout is None else options.timeout / (len(targets) - number)
            e = network.reliability(
                graph, source, target, guarantee=options.guarantee, rng=seed + number, timeout=left, **asked
            )
            low, high = max(e.lower, e.certified_lower), min(e.upper, e.certified_upper)
            rows.append((e.prob, low, high, e.guarantee, e.engine, e.met))
        report(number + 1, len(targets))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    prob, lower, upper = (np.array(c, dtype=np.float64) for c in columns[:3])
    return Counts(
        prob, lower, upper, np.array(columns[3], dtype=object), np.array(columns[4], dtype=object),
        np.array(columns[5], dtype=bool),
    )  # fmt: skip


class NetworkAnswers(WorldAnswers):
    """One row per node that can be reached, as in ``Answers``; there is no lineage, as paths are never listed."""

    def __init__(self, labels: tuple[str, ...], values: Any, counts: Counts, database: ProbDB, route: Route) -> None:
        self.labels, self.counts = labels, counts
        self._values, self._database, self._expected, self.route = values, database, [], route

    @property
    def num_worlds(self) -> int:
        return 0
