"""Plans of queries that were asked before: planning takes longer than running a query over tiny tables.

A plan depends on the text, on the declared tables and on what the names in the text mean. The last is what
``Catalog.state`` tells of; it is asked before planning, so a change while a query is planned shows the next time. A
text that is asked once costs nothing: its names are noted, and the second time the state is kept along with the plan.
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
    """What was looked up in the catalog."""
    state: object
    """Of the catalog before the query was planned; None as long as it was planned but once."""
    copies: tuple[str, ...]
    found: tuple[Any, Route]


def _copies(declared: Mapping[tuple[str, ...], Declared]) -> tuple[str, ...]:
    """Names that no other reading of the tables has."""
    return tuple(d.copy for d in declared.values())


def _rows(plan: object) -> Plan | None:
    """The plan of the rows that a plan asks for; None if it needs stages, whose tables change the catalog's state."""
    if isinstance(plan, ClosedPlan):
        return plan.rows
    if not isinstance(plan, Plan):
        return None
    return plan.tail[0] if plan.tail is not None else None if plan.steps else plan


class Planned:
    """The plans of one ProbDB."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._state: object = None
        self.last: Plan | None = None
        """The plan of the rows that ``get`` has just given: no relation has changed since it was made."""

    def forget(self) -> None:
        """Takes it that every table may look different now."""
        self._kept.clear()
        self.last = None

    def get(self, key: Key, declared: Mapping[tuple[str, ...], Declared]) -> tuple[Any, Route] | None:
        """The plan of a query if it is still right."""
        self._state, self.last = None, None
        self._backend.looked_up()
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        self._state = self._backend.state(kept.names)
        if self._state is None or self._state != kept.state or _copies(declared) != kept.copies:
            return None
        self.last = _rows(kept.found[0])
        return kept.found

    def keep(self, key: Key, found: tuple[Any, Route], declared: Mapping[tuple[str, ...], Declared]) -> None:
        """Remembers the plan of a query whose rows are asked for by one statement, without stages."""
        names = self._backend.looked_up()
        if not names or _rows(found[0]) is None:
            return
        before = self._kept.get(key)
        state = self._state if before is not None and names <= before.names else None
        self._kept[key] = _Kept(names | (before.names if before is not None else frozenset()), state,
                                _copies(declared), found)  # fmt: skip
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
