"""Worlds under evidence: of the worlds that were played, those in which it holds.

The evidence is played in the same worlds as the query. Where all worlds were listed, the weights of those that are left
are divided by their sum: exact. Where they were drawn, those that are left are draws of the worlds under the evidence,
so what holds of draws holds of them; if the evidence is rare there are few, and more are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sharpdnf.engines.front import make_seed
from sharpdnf.errors import SQLError, SQLTimeout
from sharpdnf.sql.counting import Options
from sharpdnf.sql.evidence import Evidence, impossible
from sharpdnf.sql.worlds.draws import BoolArray
from sharpdnf.sql.worlds.play import Played, worlds_needed

MOST_TIMES = 50
"""So many times the usual number of worlds are drawn at most where evidence is rare."""
Player = Callable[[Options, int], Played]
"""Plays a query, with so many times the usual number of draws."""


def play_given(query: Player, known: Sequence[tuple[Player, Evidence]], options: Options) -> Played:
    """The worlds of a query in which all evidence holds."""
    options = options.replace(rng=make_seed(options.rng))
    quiet = options.replace(progress=None)
    needed, times = worlds_needed(options), 1
    while True:
        held = _held([(play(quiet, times), evidence) for play, evidence in known])
        listed = held[0]
        if listed or int(held[1].sum()) >= needed or times == MOST_TIMES:
            break
        share = max(float(held[1].mean()), 1.0 / (MOST_TIMES * needed))
        times = min(MOST_TIMES, max(times + 1, int(np.ceil(1.2 / share))))
    return condition(query(options, times), held[1], needed)


def _held(known: Sequence[tuple[Played, Evidence]]) -> tuple[bool, BoolArray]:
    """(whether the worlds are all that there are, bool[worlds]: whether all evidence holds)."""
    worlds = min(played.num_worlds for played, _ in known)
    held = np.ones(worlds, dtype=bool)
    for played, evidence in known:
        there = np.zeros(played.num_worlds, dtype=bool)
        there[played.world] = True
        held &= there[:worlds] == evidence.holds
    return known[0][0].listed, held


def condition(played: Played, held: BoolArray, needed: int) -> Played:
    """What was played, in the worlds alone in which the evidence holds."""
    if played.listed and (not played.complete or len(held) < played.num_worlds):
        raise SQLTimeout("not all worlds were played within the time limit, so nothing is known given the evidence")
    worlds = min(len(held), played.num_worlds)
    weight = np.where(held[:worlds], played.weight[:worlds], 0.0)
    if not float(weight.sum()) > 0.0:
        if played.listed:
            impossible()
        raise SQLError(
            f"the evidence holds in none of {worlds} worlds that were drawn: it is too rare for this query; "
            "a smaller epsilon draws more of them"
        )
    kept = np.flatnonzero(weight > 0.0)
    kept = kept if played.listed else kept[:needed]
    number = np.full(played.num_worlds, -1)
    number[kept] = np.arange(len(kept))
    mine = number[played.world] >= 0
    return replace(
        played, answer=played.answer[mine], world=number[played.world[mine]], copies=played.copies[mine],
        weight=weight[kept] / weight[kept].sum(), complete=played.listed or len(kept) >= needed,
    )  # fmt: skip
