"""Expected values that the database adds up by itself, without a row of lineage coming here.

This works where a result row exists exactly if some uncertain rows do, each of them of another table. Then its
probability is the product of theirs, and the expected sum is a sum of products, with GROUP BY or without. How likely it
is that a group exists is worked out by the database too where its rows are independent or a join by equal columns:
rows of two tables that agree in these columns are all joined with each other, so a group fails to exist iff for each
value of the columns one side has no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import DNF, FloatArray, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.dialect import Dialect
from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import ROW_ID
from sharpdnf.sql.counting import Counts, certain
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.ordering import choose_answers
from sharpdnf.sql.plan import Plan, rows_told_apart
from sharpdnf.sql.uncertain import COPY, Declared
from sharpdnf.sql.ways import Route

if TYPE_CHECKING:
    import pyarrow as pa

    from sharpdnf.sql.database import ProbDB

LEAST = 20_000
"""Groups of fewer uncertain rows than this are counted from their lineage, which their answers then have."""
ROUNDING = 1e-8
"""The relative error by rounding up to which a probability counts as exact; rarer groups are counted from lineage."""
PLAIN = frozenset(
    ["BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "VARCHAR", "DATE", "TIMESTAMP", "DECIMAL"]
)
"""Types of grouping columns whose values are the same to DuckDB and to Arrow."""


@dataclass(frozen=True, slots=True)
class _Products:
    """A query of expected values each of whose rows exists iff the uncertain rows behind it do."""

    select: exp.Select
    database: Dialect
    items: dict[str, exp.Expr]
    """The select list by its aliases."""
    copies: dict[str, str]
    """The table of numbered rows behind each uncertain source, by the alias of the source."""
    probs: dict[str, str]
    """The probability of the row of each uncertain source, as SQL, by the alias of the source."""

    @property
    def dialect(self) -> str:
        """The name of the database's SQL."""
        return self.database.name

    def exists(self, prob: str) -> str:
        """That one of several independent events happens."""
        return f"1 - {self.database.product.format(f'1 - {prob}')}"

    def sums(self, plan: Plan) -> list[str]:
        """How many rows, the sum of their probabilities, then for each measure the sum with its sign and without."""
        prob = " * ".join(self.probs.values())
        values = [self.items[name].sql(self.dialect) for name in plan.shape.names()[1]]
        sizes = [f"CASE WHEN ({v}) < 0 THEN -({v}) ELSE ({v}) END" for v in values]
        both = [part for pair in zip(values, sizes, strict=True) for part in pair]
        return ["count(*)", f"sum({prob})", *(f"sum(({part}) * {prob})" for part in both)]

    def rest(self) -> str:
        """FROM and what follows it."""
        whole = self.select.copy()
        whole.set("expressions", [exp.Star()])
        return str(whole.sql(self.dialect).removeprefix("SELECT *"))

    def sources(self) -> dict[str, exp.Expr]:
        """What FROM reads, by alias."""
        joins = self.select.args.get("joins") or ()
        return {source.alias: source for source in (self.select.args["from_"].this, *(join.this for join in joins))}


def _products(plan: Plan, declared: Mapping[str, Declared], dialect: Dialect) -> _Products | None:
    """The query as products; None if a row may exist for several reasons, or its probability is no product.

    ``declared`` has the uncertain table behind every table of numbered rows.
    """
    select = plan.query
    if plan.steps or plan.computed.wanted or not rows_told_apart(select, plan.shape):
        return None
    assert isinstance(select, exp.Select)
    items = {item.alias: item.unalias() for item in select.expressions}
    found = _Products(select, dialect, items, {}, {})
    read = {alias: COPY.findall(source.sql()) for alias, source in found.sources().items()}
    for name in plan.shape.names()[2]:
        row = items[name]
        names = set(read.get(row.table, [])) if isinstance(row, exp.Column) else set()
        if len(names) != 1 or names & set(found.copies.values()):
            return None  # two rows of one table may be the same, or exclude each other
        found.copies[row.table] = names.pop()
        value = exp.Paren(this=declared[found.copies[row.table]].probability.value.copy())
        for part in list(value.find_all(exp.Column)):
            part.replace(column(part.name, row.table))
        found.probs[row.table] = exp.cast(value, "DOUBLE").sql(dialect.name)
    return found


def summed(plan: Plan, declared: Mapping[str, Declared], dialect: Dialect) -> str | None:
    """SQL whose one row are the sums of a query without GROUP BY; None if the database cannot add them up."""
    found = _products(plan, declared, dialect) if plan.always and not plan.labels else None
    return None if found is None else f"SELECT {', '.join(found.sums(plan))}{found.rest()}"


def summed_groups(plan: Plan, declared: Mapping[str, Declared], dialect: Dialect) -> str | None:
    """SQL with one row a group: the answer's columns ``_c0``..., whether its probability is to be trusted, that
    probability, then the sums. None if the database cannot work it out."""
    chosen = plan.cuts or plan.top is not None  # only some groups are counted
    if plan.always or chosen or not plan.expected or not dialect.product:
        return None
    found = _products(plan, declared, dialect)
    if found is None or any(declared[copy].block_columns for copy in found.copies.values()):
        return None
    keys = [f"_c{i}" for i in range(plan.shape.shown)]
    shown = [f"{found.items[name].sql(dialect.name)} AS {name}" for name in keys]
    places = ", ".join(str(i + 1) for i in range(len(keys)))
    sums = [f"{part} AS _s{i}" for i, part in enumerate(found.sums(plan))]
    if len(found.sources()) == 1:
        likely = found.exists(next(iter(found.probs.values())))
        return f"SELECT {', '.join([*shown, 'true AS _ok', f'{likely} AS _p', *sums])}{found.rest()} GROUP BY {places}"
    groups = _one_uncertain(found, shown, keys) if len(found.copies) == 1 else _two_uncertain(found, keys)
    if groups is None:
        return None
    same = " AND ".join(f"_s.{key} IS NOT DISTINCT FROM _g.{key}" for key in keys)
    columns = [*(f"_s.{key}" for key in keys), "_g._ok", "_g._p", *(f"_s._s{i}" for i in range(len(sums)))]
    return (
        f"WITH _s AS (SELECT {', '.join([*shown, *sums])}{found.rest()} GROUP BY {places}), _g AS ({groups}) "
        f"SELECT {', '.join(columns)} FROM _s LEFT JOIN _g ON {same}"
    )


def _one_uncertain(found: _Products, shown: list[str], keys: list[str]) -> str:
    """A row of the one uncertain table may be joined to several certain ones, and counts once."""
    ((alias, prob),) = found.probs.items()
    number = column(ROW_ID, alias).sql(found.dialect)
    each = f"SELECT DISTINCT {', '.join([*shown, f'{number} AS _r', f'{prob} AS _q'])}{found.rest()}"
    names = ", ".join(keys)
    return f"SELECT {names}, true AS _ok, {found.exists('_q')} AS _p FROM ({each}) AS _e GROUP BY {names}"


def _two_uncertain(found: _Products, keys: list[str]) -> str | None:
    """Each table is grouped by the columns that it is joined by, and then the groups are joined.

    That no group meets two others is checked, as '1' and '01' are two values that may both equal 1.
    """
    if len(found.copies) != 2 or set(found.sources()) != set(found.copies):
        return None
    local: dict[str, list[str]] = {alias: [] for alias in found.copies}
    left, right = local
    equal: list[tuple[exp.Expr, exp.Expr]] = []
    for condition in _conditions(found.select):
        tables = {part.table for part in condition.find_all(exp.Column)}
        if condition.find(exp.Query) or not tables or not tables <= set(local):
            return None
        if len(tables) == 1:
            local[tables.pop()].append(f"({condition.sql(found.dialect)})")
            continue
        sides = (condition.this.unnest(), condition.expression.unnest()) if isinstance(condition, exp.EQ) else ()
        if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
            return None
        equal.append(sides if sides[0].table == left else sides[::-1])
    shown = {key: item for key in keys if isinstance(item := found.items[key], exp.Column)}
    if len(shown) < len(keys):
        return None
    parts, names = [], []
    for place, alias in enumerate((left, right)):
        own = [key for key in keys if shown[key].table == alias]
        by = [f"{shown[key].sql(found.dialect)} AS {key}" for key in own]
        by += [f"{sides[place].sql(found.dialect)} AS _k{i}" for i, sides in enumerate(equal)]
        group = f" GROUP BY {', '.join(str(i + 1) for i in range(len(by)))}" if by else ""
        where = f" WHERE {' AND '.join(local[alias])}" if local[alias] else ""
        each = ", ".join([*by, f"{found.exists(found.probs[alias])} AS _q", "count(*) AS _n"])
        source = found.sources()[alias].sql(found.dialect)
        parts.append(f"(SELECT *, row_number() OVER () AS _r FROM (SELECT {each} FROM {source}{where}{group}) AS _e)")
        names += [f"_{place}.{key}" for key in own]
    on = " AND ".join(f"_0._k{i} = _1._k{i}" for i in range(len(equal))) or "true"
    apart = "count(*) = count(DISTINCT _0._r) AND count(*) = count(DISTINCT _1._r)"
    likely = found.exists("_0._q * _1._q")
    return (
        f"SELECT {', '.join([*names, f'{apart} AS _ok', f'{likely} AS _p'])} FROM {parts[0]} AS _0 JOIN {parts[1]} AS "
        f"_1 ON {on} WHERE _0._n > 0 AND _1._n > 0 GROUP BY {', '.join(names)}"
    )


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    """The conditions of WHERE and ON, all of which must hold; a join of another kind is one that is never local."""
    where = select.args.get("where")
    joins = select.args.get("joins") or ()
    waiting = [part for part in (where and where.this, *(join.args.get("on") for join in joins)) if part is not None]
    if any(join.side or join.kind not in ("", "INNER", "CROSS") or join.args.get("using") for join in joins):
        yield exp.true()
    while waiting:
        condition = waiting.pop().unnest()
        if isinstance(condition, exp.And):
            waiting += [condition.this, condition.expression]
        else:
            yield condition


def _expected(sums: FloatArray, plan: Plan) -> list[Expected]:
    """The expected values from float64[answers, sums]; the bounds allow for rounding of each addition."""
    rows, total, measured = sums[:, 0], sums[:, 1], sums[:, 2:]
    found = []
    for _, label, measure in plan.expected:
        value, size = (total, total) if measure is None else (measured[:, 2 * measure], measured[:, 2 * measure + 1])
        slack = (rows + len(plan.expected) + 4.0) * np.finfo(float).eps * size
        found.append(Expected(label, value, value - slack, value + slack, np.ones(len(rows), dtype=bool)))
    return found


class SummedAnswers(Answers):
    """Expected values that the database added up: one answer, or one a group."""

    _has_lineage = False

    def __init__(
        self, plan: Plan, columns: list[pa.ChunkedArray], counts: Counts, expected: list[tuple[int, Expected]],
        rows: IntArray, database: ProbDB, route: Route,
    ) -> None:  # fmt: skip
        self.labels, self.counts, self._values, self._database = plan.labels, counts, columns, database
        self._expected, self.route, self.given, self._rows = expected, route, False, rows

    @property
    def num_clauses(self) -> IntArray:
        return self._rows

    def lineage(self, index: int) -> DNF:
        self._no_lineage()

    def explain(self, index: int, top: int = 5, **options: Any) -> Any:
        self._no_lineage()

    def _no_lineage(self) -> NoReturn:
        raise SQLError("the database has added these values up itself; ask for the rows to see the lineage of each")


def one_answer(row: tuple[Any, ...], plan: Plan, database: ProbDB, route: Route) -> Answers:
    """The answer of a query without GROUP BY from the row that ``summed`` asks for."""
    sums = np.array([[float(value or 0.0) for value in row]])
    expected = [(entry[0], value) for entry, value in zip(plan.expected, _expected(sums, plan), strict=True)]
    return SummedAnswers(plan, [], certain(1), expected, sums[:, 0].astype(np.int64), database, route)


def grouped_answers(table: pa.Table, plan: Plan, database: ProbDB, route: Route) -> Answers | None:
    """The answers from the rows that ``summed_groups`` asks for; None if a probability is not to be trusted."""
    shown = table.select(range(plan.shape.shown))
    trusted, likely, *summed = table.columns[plan.shape.shown :]
    prob = likely.to_numpy().astype(np.float64)
    sums = np.column_stack([part.fill_null(0).to_numpy().astype(np.float64) for part in summed])
    slack = (6.0 * sums[:, 0] + 8.0) * np.finfo(float).eps  # six roundings a row, of numbers that are at most 1
    if not (trusted.fill_null(False).to_numpy().all() and (slack <= ROUNDING * prob).all()):
        return None
    size = len(prob)
    promise, engine = (np.full(size, word, dtype=object) for word in ("exact", "closed form"))
    low, high = np.maximum(0.0, prob - slack), np.minimum(1.0, prob + slack)
    counts = Counts(prob, low, high, promise, engine, np.ones(size, dtype=bool))
    expected = [(entry[0], value) for entry, value in zip(plan.expected, _expected(sums, plan), strict=True)]
    rows = sums[:, 0].astype(np.int64)
    order, _ = choose_answers(database.backend, plan, shown, counts, expected)
    if order is not None:
        shown, counts, rows = shown.take(order), counts.take(order), rows[order]
        expected = [(position, value.take(order)) for position, value in expected]
    return SummedAnswers(plan, [shown.column(i) for i in plan.places], counts, expected, rows, database, route)
