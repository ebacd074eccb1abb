"""Plans of queries that were asked before: planning takes longer than running a query over tiny tables.

A plan depends on the text, on the declared tables and on what the names in the text mean. ``Catalog.state`` changes
whenever a name means something else. It is asked before planning, so that a change while a query is planned is noticed
the next time. A text that is asked once costs nothing extra: the first time only its names are noted, and the second
time the state of these names is kept along with the plan.

What would break: a plan that outlives its tables would send SQL about columns that are gone or mean something else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sharpdnf.sql.backends.protocol import Backend
from sharpdnf.sql.closed import ClosedPlan
from sharpdnf.sql.plan import Plan
from sharpdnf.sql.uncertain import Declared
from sharpdnf.sql.ways import Route

MOST = 200
"""How many texts are remembered."""
Key = tuple[str, str | None, str]
"""The query, the way that was asked for, and how aggregates are read."""


@dataclass(slots=True)
class _Kept:
    names: frozenset[str]
    """The names that were looked up in the catalog while the query was planned."""
    state: object
    """The state of these names in the catalog before the query was planned; None after the first time, see above."""
    copies: tuple[str, ...]
    found: tuple[Any, Route]
    alone: bool
    """Whether the plan reads nothing but numbered rows."""


def _copies(declared: Mapping[tuple[str, ...], Declared]) -> tuple[str, ...]:
    """The names of the temporary tables with the numbered rows: every reading of a table has a name of its own."""
    return tuple(d.copy for d in declared.values())


def _rows(plan: object) -> Plan | None:
    """The plan of the rows that a plan asks for; None if it asks for no lineage."""
    if isinstance(plan, ClosedPlan):
        return plan.rows
    if not isinstance(plan, Plan):
        return None
    return plan.tail[0] if plan.tail is not None else plan


class Planned:
    """The plans of one ProbDB."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._state: object = None
        self.last: Plan | None = None
        """The plan of the rows that ``get`` has just given: no relation has changed since it was made."""
        self.alone = False
        """Whether that plan reads nothing but numbered rows, so that one statement tells that it is up to date."""

    def forget(self) -> None:
        """Forgets all plans, because every table may have other columns now."""
        self._kept.clear()
        self.last = None

    def get(self, key: Key, declared: Mapping[tuple[str, ...], Declared]) -> tuple[Any, Route] | None:
        """The plan of a query, if it was planned before and nothing that it depends on has changed; else None."""
        self._state, self.last = None, None
        self._backend.looked_up()
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        self._state = self._backend.state(kept.names)
        if self._state is None or self._state != kept.state or _copies(declared) != kept.copies:
            return None
        self.last, self.alone = _rows(kept.found[0]), kept.alone
        return kept.found

    def keep(self, key: Key, found: tuple[Any, Route], declared: Mapping[tuple[str, ...], Declared]) -> None:
        """Remembers the plan of a query that asks for lineage."""
        names, rows = self._backend.looked_up(), _rows(found[0])
        if not names or rows is None:
            return
        before = self._kept.get(key)
        state = self._state if before is not None and names <= before.names else None
        self._kept[key] = _Kept(names | (before.names if before is not None else frozenset()), state,
                                _copies(declared), found, rows.alone)  # fmt: skip
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
