"""Expected values without GROUP BY that the database adds up by itself, without a row of lineage coming here.

This works where a result row exists exactly if some uncertain rows do, each of them of another table. Then its
probability is the product of theirs, and the expected sum is a sum of products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import DNF, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.names import column
from sharpdnf.sql.counting import certain
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.plan import Plan, rows_told_apart
from sharpdnf.sql.uncertain import COPY
from sharpdnf.sql.ways import Route

if TYPE_CHECKING:
    from sharpdnf.sql.database import ProbDB


def summed(plan: Plan, prob_of_copy: Mapping[str, str], dialect: str) -> str | None:
    """SQL that adds up the expected values; None if there is GROUP BY or a row's probability is no product.

    Its one row: how many rows, the sum of their probabilities, then for each measure the sum with its sign and without.
    ``prob_of_copy`` has the probability column of every table of numbered rows.
    """
    select = plan.query
    if not plan.always or plan.labels or plan.steps or plan.computed.wanted:
        return None
    if not rows_told_apart(select, plan.shape):
        return None  # a row may exist for several reasons
    assert isinstance(select, exp.Select)
    items = {item.alias: item.unalias() for item in select.expressions}
    _, measures, lineage, _ = plan.shape.names()
    rows = [items[name] for name in lineage]
    sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    copies = {source.alias: COPY.findall(source.sql()) for source in sources}
    read = [copies.get(row.table, []) for row in rows if isinstance(row, exp.Column)]
    if any(len(set(names)) != 1 for names in read) or len({names[0] for names in read}) < len(read):
        return None  # two rows of one table may be the same, or exclude each other
    prob = " * ".join(
        exp.cast(column(prob_of_copy[names[0]], row.table), "DOUBLE").sql(dialect)
        for names, row in zip(read, rows, strict=True)
    )
    values = [items[name].sql(dialect) for name in measures]
    sums = [f"sum(({v}) * {prob}), sum(CASE WHEN ({v}) < 0 THEN -({v}) ELSE ({v}) END * {prob})" for v in values]
    whole = select.copy()
    whole.set("expressions", [exp.Star()])
    rest = whole.sql(dialect).removeprefix("SELECT *")
    return f"SELECT {', '.join(['count(*)', f'sum({prob})', *sums])}{rest}"


def expected_of_sums(row: tuple[Any, ...], plan: Plan) -> list[Expected]:
    """The expected values from the row that ``summed`` gives; the bounds allow for rounding of each addition."""
    rows, total, *sums = (float(value or 0.0) for value in row)
    found = []
    for _, label, measure in plan.expected:
        value, size = (total, total) if measure is None else (sums[2 * measure], sums[2 * measure + 1])
        slack = (rows + len(plan.expected) + 4.0) * np.finfo(float).eps * size
        middle, low, high = (np.array([value + sign * slack]) for sign in (0.0, -1.0, 1.0))
        found.append(Expected(label, middle, low, high, np.ones(1, dtype=bool)))
    return found


class SummedAnswers(Answers):
    """The one answer of expected values that the database added up."""

    def __init__(self, row: tuple[Any, ...], plan: Plan, database: ProbDB, route: Route) -> None:
        values = expected_of_sums(row, plan)
        self.labels, self.counts, self._values, self._database = (), certain(1), [], database
        self._expected = [(entry[0], value) for entry, value in zip(plan.expected, values, strict=True)]
        self.route, self.given, self._rows = route, False, int(row[0])

    @property
    def num_clauses(self) -> IntArray:
        return np.array([self._rows])

    def lineage(self, index: int) -> DNF:
        self._no_lineage()

    def explain(self, index: int, top: int = 5, **options: Any) -> Any:
        self._no_lineage()

    def _no_lineage(self) -> NoReturn:
        raise SQLError("the database has added these values up itself; ask for the rows to see the lineage of each")
