"""Answers that were found by playing worlds: they have probabilities, and no lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import DNF, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.ordering import order_of
from sharpdnf.sql.ways import Route
from sharpdnf.sql.worlds.ordering import sort_keys
from sharpdnf.sql.worlds.play import Played

if TYPE_CHECKING:
    import pyarrow as pa

    from sharpdnf.sql.database import ProbDB


class WorldAnswers(Answers):
    """One row per answer, as in ``Answers``; ``num_clauses`` is 0, as there is no lineage."""

    def __init__(
        self, labels: tuple[str, ...], values: pa.Table, counts: Counts, played: Played, database: ProbDB, route: Route
    ) -> None:
        self.labels, self.counts, self.played = labels, counts, played
        self._values, self._database, self._expected, self.route = values.columns, database, [], route

    @property
    def num_worlds(self) -> int:
        """How many worlds the query was run in."""
        return self.played.num_worlds

    @property
    def num_clauses(self) -> Any:
        return np.zeros(len(self), dtype=np.int64)

    def lineage(self, index: int) -> DNF:
        self._no_lineage()

    def explain(self, index: int, top: int = 5, **asked: Any) -> Any:
        self._no_lineage()

    def _no_lineage(self) -> NoReturn:
        raise SQLError(f"an answer found by worlds has no lineage; {self.route.refusals[0][1]}")


def row_answers(played: Played, tree: exp.Query, database: ProbDB, route: Route) -> WorldAnswers:
    """The strict reading: a row of the result is an answer."""
    counts = played.counts(played.answer, played.world, len(played.group))
    seen: IntArray = np.unique(played.answer)
    values, counts = played.values.take(seen), counts.take(seen)
    order = order_of(sort_keys(tree, played.labels), values, counts, [])
    if order is not None:
        values, counts = values.take(order), counts.take(order)
    return WorldAnswers(played.labels, values, counts, played, database, route)
