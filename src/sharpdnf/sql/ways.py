"""The ways to an answer, tried from the strongest to the weakest; a way that cannot do a construct says so.

1. lineage as a DNF: one formula an answer, for queries that only gain answers when rows are added;
2. lineage as a circuit: negation, HAVING, outer joins, scalar subqueries;
3. closed forms: the distributions of aggregates over independent rows;
4. network: recursion that asks what can be reached over uncertain links;
5. worlds: the user's own SQL in every possible world, or in many that are drawn at random.

Planning a way is cheap and raises ``UnsupportedSQL`` for what it cannot do; the reason is kept, and the next way is
tried. So every answer can say which way it came and why not a stronger one (``Answers.plan``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from sharpdnf.errors import SQLError, UnsupportedSQL, did_you_mean

LINEAGE, CIRCUIT, CLOSED, NETWORK, WORLDS = "lineage", "circuit", "closed", "network", "worlds"
WAYS = {
    LINEAGE: "lineage as a DNF",
    CIRCUIT: "lineage as a circuit",
    CLOSED: "closed forms",
    NETWORK: "network",
    WORLDS: "worlds",
}
"""Short names, as ``ProbDB.sql(way=...)`` takes them, and what they are called."""


@dataclass(frozen=True, slots=True)
class Route:
    """Which way a query goes, and why it does not go a stronger one."""

    way: str
    """The name of the way that is taken: lineage, circuit, closed, network or worlds."""
    refusals: tuple[tuple[str, str], ...] = ()
    """(way, why it cannot answer the query) of every stronger way, in order."""
    notes: tuple[str, ...] = ()
    """Further remarks for people, such as how many worlds are drawn."""

    def refused(self, reason: str) -> Route:
        """The refusals so far, with that of the way that was chosen and turned out not to work."""
        return Route("", (*self.refusals, (self.way, reason)))

    def __str__(self) -> str:
        lines = [f"{WAYS[way]}: no, {reason}" for way, reason in self.refusals]
        return "\n".join([*lines, f"{WAYS[self.way]}: yes", *(f"    {note}" for note in self.notes)])


Planner = tuple[str, Callable[[], Any]]
"""The name of a way, and a function that makes its plan or raises UnsupportedSQL."""


def choose(ways: Sequence[Planner], only: str | None = None, after: Route | None = None) -> tuple[Any, Route]:
    """The plan of the first way that has one; if none has, an error with the reason of each.

    ``only`` names the one way that is to be tried. The ways that have a refusal in ``after`` are not tried again.
    """
    if only is not None and only not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}, not {only!r}{did_you_mean(only, WAYS)}")
    refusals: list[tuple[str, str]] = list(after.refusals) if after is not None else []
    tried = {way for way, _ in refusals}
    for name, plan in ways:
        if name in tried or (only is not None and only != name):
            continue
        try:
            return plan(), Route(name, tuple(refusals))
        except UnsupportedSQL as error:
            refusals.append((name, str(error)))
    _refuse_all(refusals)


def _refuse_all(refusals: list[tuple[str, str]]) -> NoReturn:
    """Raises UnsupportedSQL. The reason of the last way comes first, since it can do most: that is what to change."""
    if not refusals:
        raise UnsupportedSQL("this database has no such way to an answer")
    last = refusals[-1][1]
    others = [f"{WAYS[way]}: {reason}" for way, reason in refusals[:-1] if reason != last]
    raise UnsupportedSQL("\n".join([last, *(["no other way answers it either:"] if others else []), *others]))


def check_guarantee(asked: str | None, can: Sequence[str], route: Route) -> None:
    """An error if the way cannot give the guarantee that was asked for: an answer is never weaker than that."""
    if asked is None or asked in can:
        return
    reasons = "; ".join(f"{WAYS[way]}: {reason}" for way, reason in route.refusals)
    raise SQLError(
        f"guarantee={asked!r} cannot be had for this query, which goes by {WAYS[route.way]}"
        f"{f' ({reasons})' if reasons else ''}; it can have {' or '.join(repr(g) for g in can)}"
    )
