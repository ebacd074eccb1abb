"""Aggregates as people expect them: one answer a group, with the distribution of each aggregate given that it exists.

``read_groups`` finds which items of the outermost select list say which group it is and which are aggregates;
``Spread`` is what a way (closed forms, worlds) makes of one aggregate, ``AggregateAnswers`` what the user sees.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import DNF, FloatArray, IntArray
from sharpdnf.errors import MissingExtra, SQLError, did_you_mean
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.protocol import Catalog
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.parse.allowed import is_scalar_extreme
from sharpdnf.sql.ways import Route

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from sharpdnf.sql.database import ProbDB

QUANTILES = ((0.05, "q05"), (0.5, "q50"), (0.95, "q95"))


@dataclass(frozen=True, slots=True)
class Groups:
    """The outermost select list of an aggregate query, by position."""

    keys: tuple[int, ...]
    values: tuple[int, ...]


def read_groups(tree: exp.Query, catalog: Catalog) -> Groups | None:
    """None if the query does not aggregate, or if its groups cannot be told apart by what it selects."""
    if not isinstance(tree, exp.Select) or tree.args.get("distinct"):
        return None
    items = [item.unalias().unnest() for item in tree.expressions]
    if any(isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star) for item in items):
        return None
    found = catalog.functions().aggregates
    values = tuple(i for i, item in enumerate(items) if aggregates_in(item, found, catalog))
    group = tree.args.get("group")
    if not values or (group is not None and any(v for k, v in group.args.items() if k not in ("expressions", "all"))):
        return None
    keys = tuple(i for i in range(len(items)) if i not in values)
    if any(items[i].find(exp.Query) is not None for i in keys):
        return None
    if group is None:
        return Groups((), values) if not keys else None
    named = {item.alias.lower(): i for i, item in enumerate(tree.expressions) if item.alias}
    for key in group.expressions:
        if not any(_same(key.unnest(), items[i], i, named) for i in keys):
            return None
    return Groups(keys, values)


def _same(key: exp.Expr, item: exp.Expr, position: int, named: dict[str, int]) -> bool:
    """Whether a key of GROUP BY is an item: by position, by alias, or as the same expression."""
    if isinstance(key, exp.Literal) and key.is_int:
        return int(key.this) == position + 1
    if key == item:
        return True
    if isinstance(key, exp.Column) and isinstance(item, exp.Column) and key.name.lower() == item.name.lower():
        return not key.table or not item.table
    return isinstance(key, exp.Column) and not key.table and named.get(key.name.lower()) == position


def aggregates_in(item: exp.Expr, names: frozenset[str], catalog: Catalog) -> list[exp.Expr]:
    """The aggregate calls of an expression, without those of subqueries and windows."""
    found: list[exp.Expr] = []
    for node in item.walk(prune=lambda n: isinstance(n, exp.Query | exp.Window)):
        if isinstance(node, exp.Window) and not isinstance(node.parent, exp.Filter):
            continue
        if isinstance(node, exp.WithinGroup):
            found.append(node)
        elif isinstance(node, exp.Func) and not is_scalar_extreme(node, catalog.dialect):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if name in names:
                found.append(node)
    return found


@dataclass(frozen=True)
class Spread:
    """The distribution of one aggregate in every group, given that the group exists.

    Group g has the entries ``indptr[g]`` to ``indptr[g + 1] - 1`` of ``values`` (different, in order, NULL last) and
    ``prob``.
    """

    label: str
    indptr: IntArray
    values: pa.Array
    prob: FloatArray
    draws: IntArray | None = None
    """int64[groups]: how many drawn worlds had the group; None where the distribution is exact."""

    def take(self, index: IntArray) -> Spread:
        """The distributions in these groups."""
        sizes = np.diff(self.indptr)[index]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        entry = np.repeat(self.indptr[index] - ends[:-1], sizes) + np.arange(int(ends[-1]))
        draws = None if self.draws is None else self.draws[index]
        return Spread(self.label, ends, self.values.take(entry), self.prob[entry], draws)

    def numeric(self) -> bool:
        import pyarrow as pa

        kind = self.values.type
        return bool(
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_decimal(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_null(kind)
        )

    def floats(self) -> FloatArray:
        """float64[entries]: NULL is nan."""
        return np.array([np.nan if v is None else float(v) for v in self.values.to_pylist()], dtype=np.float64)

    def summary(self) -> dict[str, Any]:
        """Column name -> one value for each group: what the aggregate is in the worlds in which it is not NULL."""
        groups = len(self.indptr) - 1
        if not self.numeric():
            return self._most_probable()
        group, x, p = np.repeat(np.arange(groups), np.diff(self.indptr)), self.floats(), self.prob
        null = np.isnan(x)
        total = np.bincount(group[~null], weights=p[~null], minlength=groups)
        share = np.divide(p, total[group], out=np.zeros_like(p), where=~null & (total[group] > 0))
        x = np.where(null, 0.0, x)
        mean = np.bincount(group, weights=share * x, minlength=groups)
        variance = np.bincount(group, weights=share * (x - mean[group]) ** 2, minlength=groups)
        sd, nothing = np.sqrt(variance), total <= 0.0
        columns: dict[str, Any] = {f"{self.label}_mean": mean, f"{self.label}_sd": sd}
        ends = np.cumsum(share)
        before = np.concatenate([[0.0], ends])[self.indptr[:-1]]
        for q, name in QUANTILES:  # the least value with P(at most that) >= q
            reached = (ends - before[group] >= q - 1e-12) & ~null
            first = np.full(groups, -1)
            first[group[reached][::-1]] = np.flatnonzero(reached)[::-1]
            columns[f"{self.label}_{name}"] = np.where(first >= 0, x[first], np.nan)
        if self.draws is not None:
            columns[f"{self.label}_stderr"] = sd / np.sqrt(np.maximum(1, self.draws))
        columns = {name: np.where(nothing, np.nan, values) for name, values in columns.items()}
        missing = np.bincount(group[null], weights=p[null], minlength=groups)
        if missing.any():
            columns[f"{self.label}_null"] = missing
        return columns

    def _most_probable(self) -> dict[str, Any]:
        """The most probable value and its probability, for texts, lists and dates, which have no mean."""
        best = [int(a + np.argmax(self.prob[a:b])) for a, b in zip(self.indptr[:-1], self.indptr[1:], strict=True)]
        return {f"{self.label}_mode": self.values.take(best), f"{self.label}_mode_prob": self.prob[best]}


@dataclass(frozen=True)
class Distribution:
    """The values that an aggregate can have in one group, each with its probability given that the group exists."""

    label: str
    """The name of the aggregate's column."""
    table: pa.Table
    """Columns ``value``, ``prob``, ``lower``, ``upper``."""

    def __len__(self) -> int:
        return len(self.table)

    def arrow(self) -> pa.Table:
        """The values and their probabilities as an Arrow table."""
        return self.table

    def df(self) -> pd.DataFrame:
        """As ``arrow``, in pandas."""
        return self.table.to_pandas()

    def plot(self, ax: Any = None) -> Any:
        """Draws the distribution as bars, with matplotlib; returns the axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise MissingExtra("Distribution.plot", "train") from None
        ax = ax if ax is not None else plt.subplots()[1]
        values, prob = self.table.column("value").to_pylist(), self.table.column("prob").to_pylist()
        if all(isinstance(v, int | float) for v in values) and len(values) > 1:
            gap = min(b - a for a, b in itertools.pairwise(values))
            ax.bar(values, prob, width=0.9 * gap)
        else:
            ax.bar([str(v) for v in values], prob)
        ax.set_xlabel(self.label)
        ax.set_ylabel("probability")
        return ax


class AggregateAnswers(Answers):
    """One row a group: its columns, mean, standard deviation and quantiles of each aggregate, then prob."""

    _has_lineage = False

    def __init__(
        self,
        labels: tuple[str, ...],
        values: pa.Table,
        counts: Counts,
        spreads: list[Spread],
        database: ProbDB,
        route: Route,
    ) -> None:
        self.labels, self.counts, self.spreads = labels, counts, spreads
        self._values, self._database, self._expected, self.route = values.columns, database, [], route

    @property
    def num_clauses(self) -> IntArray:
        return np.zeros(len(self), dtype=np.int64)

    def arrow(self) -> pa.Table:
        import pyarrow as pa

        table = super().arrow()
        place = len(self.labels) + len(self._expected)
        for spread in self.spreads:
            for name, values in spread.summary().items():
                column = (
                    values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, from_pandas=True)
                )
                table = table.add_column(place, name, column)
                place += 1
        return table

    def distribution(self, index: int, label: str) -> Distribution:
        """All values that an aggregate can have in a group, with their probabilities given that the group exists."""
        import pyarrow as pa

        self._check(index)
        found = [s for s in self.spreads if s.label == label]
        if not found:
            names = [s.label for s in self.spreads]
            raise SQLError(
                f"no aggregate is called {label!r}{did_you_mean(label, names)}: there are {', '.join(names)}"
            )
        spread, index = found[0], index % len(self)
        mine = slice(int(spread.indptr[index]), int(spread.indptr[index + 1]))
        prob = spread.prob[mine]
        low, high = prob, prob
        if spread.draws is not None:
            low, high = _binomial_ends(prob, int(spread.draws[index]), self.counts)
        columns = {"value": spread.values[mine], "prob": prob, "lower": low, "upper": high}
        return Distribution(label, pa.table(columns))

    def lineage(self, index: int) -> DNF:
        self._no_lineage()

    def explain(self, index: int, top: int = 5, **asked: Any) -> Any:
        self._no_lineage()

    def _no_lineage(self) -> NoReturn:
        raise SQLError("the lineage of an aggregate's distribution is not one formula; ask for HAVING, or for the rows")


def _binomial_ends(prob: FloatArray, draws: int, counts: Counts) -> tuple[FloatArray, FloatArray]:
    """A 95 % interval of each value's probability, from its share among the drawn worlds that have the group."""
    from sharpdnf.engines.circuit_sampling import kl_interval

    ends = [kl_interval(round(p * draws), draws, 0.05) for p in prob.tolist()]
    return np.array([a for a, _ in ends]), np.array([b for _, b in ends])
