"""Plays the worlds of a query and says how probable each of its rows is.

If there are few worlds, all are played, and the answer is exact. Otherwise so many are drawn that each answer
is within epsilon with probability 1 - delta, by the exact tails of the binomial law (``draws_needed``), for which nine
tenths of delta are used. The last tenth is for a run that the time limit or Ctrl-C cuts short: it may end at any number
of draws, so its interval has to hold at all of them together (``mixture_interval``). If a listing of all worlds is cut
short, the weights of the worlds played give bounds that hold surely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from sharpdnf.bulk import backend_chosen, num_workers
from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.engines.circuit_sampling import mixture_interval
from sharpdnf.engines.front import make_rng
from sharpdnf.engines.sampling import draws_needed
from sharpdnf.errors import SQLError, SQLTimeout
from sharpdnf.sql.backends.protocol import Backend, LineageRows
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.limits import watched
from sharpdnf.sql.uncertain import Declared
from sharpdnf.sql.ways import Route, check_guarantee
from sharpdnf.sql.worlds.draws import MOST_LISTED, BoolArray, Choices, make_choices
from sharpdnf.sql.worlds.elsewhere import Piece, packed, play_elsewhere
from sharpdnf.sql.worlds.matter import Matter
from sharpdnf.sql.worlds.script import Script
from sharpdnf.sql.worlds.stage import DuckDBStage, WorldStage, bag, make_stage, pairs_table

ENGINE = "worlds"
ALL_GUARANTEES = ("exact", "relative", "additive", "bounds")
"""The guarantees that an answer from all worlds keeps: it is exact, so it keeps every one."""
CELLS = 2_000_000
"""About how many rows the worlds of one statement have together."""
MOST_AT_ONCE = 512
"""The most worlds that are played in one statement."""
Drawn = tuple[FloatArray, IntArray, IntArray]
"""The weight of each of some worlds; then pairs of a world and a row that it has, in ascending order."""
ROUNDS = 4
"""Statements for each worker, where worlds are played in several processes."""
CUT_SHORT = 0.1
"""The part of delta that is kept for a run which does not come to its end."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came out of the worlds. An answer is a row that the query gives in some world."""

    labels: tuple[str, ...]
    values: Any
    """An Arrow table with one row an answer."""
    group: IntArray
    """int64[answers]: equal where the answers agree in the key columns."""
    answer: IntArray
    world: IntArray
    """World ``world[i]`` has the answer ``answer[i]``; each pair once."""
    copies: IntArray
    """How often the answer occurs in that world."""
    weight: FloatArray
    """The weight of each world that was played; the weights add up to 1 if all worlds were."""
    listed: bool
    """Whether the worlds were listed, not drawn at random."""
    complete: bool
    seed: int | None
    epsilon: float
    delta: float

    @property
    def num_worlds(self) -> int:
        return len(self.weight)

    def share(self, number: IntArray, world: IntArray, count: int) -> FloatArray:
        """float64[count]: the weight of the worlds that each answer is paired with; no pair may occur twice."""
        return np.minimum(np.bincount(number, weights=self.weight[world], minlength=count), 1.0)

    def counts(self, number: IntArray, world: IntArray, count: int) -> Counts:
        """The probability of each answer, with its bounds: the weight of the worlds that it is paired with."""
        share = self.share(number, world, count)
        met = np.full(count, self.complete)
        if self.listed:
            rest = 0.0 if self.complete else max(0.0, 1.0 - float(self.weight.sum()))
            word = "exact" if self.complete else "bounds"
            prob = share + rest / 2.0
            return _counts(prob, share, np.minimum(share + rest, 1.0), word, met)
        if self.complete:
            return _counts(share, share - self.epsilon, share + self.epsilon, "additive", met)
        draws = self.num_worlds
        hits = np.bincount(number, minlength=count)
        ends = {h: mixture_interval(h, draws, CUT_SHORT * self.delta) for h in np.unique(hits).tolist()}
        low, high = (np.array([ends[h][side] for h in hits.tolist()]).reshape(count) for side in (0, 1))
        return _counts(share, low, high, "additive", met)


def _counts(prob: FloatArray, lower: FloatArray, upper: FloatArray, guarantee: str, met: BoolArray) -> Counts:
    promise, engine = (np.full(len(prob), word, dtype=object) for word in (guarantee, ENGINE))
    return Counts(prob, np.maximum(lower, 0.0), np.minimum(upper, 1.0), promise, engine, met)


class NotKeptApart(Exception):
    """Many worlds in one statement failed, or gave something else than one of them alone."""


def play(
    backend: Backend, script: Script, tables: dict[tuple[str, ...], Declared], matter: Matter,
    options: Options, route: Route, keys: list[int], *, together: bool, times: int = 1,
) -> Played:  # fmt: skip
    """Plays the worlds inside a snapshot of the caller's; rows that do not ``matter`` are in no world.

    ``keys`` are the positions of the key columns. ``together`` allows many worlds in a statement. So many ``times`` the
    number of draws that the guarantee needs are made. Which worlds are drawn depends on the tables, the seed and the
    number alone: another query over the same tables is played in the same worlds.
    """
    choices = _choices(tables, matter)
    listed = choices.num_worlds() <= MOST_LISTED
    check_guarantee(options.guarantee, ALL_GUARANTEES if listed else ("additive",), route)
    if options.engine != "auto":
        raise SQLError(f"engine={options.engine!r} counts lineage, and this query goes by worlds:\n{route}")
    total = choices.num_worlds() if listed else times * worlds_needed(options)
    rng, seed = make_rng(options.rng) if not listed else (np.random.default_rng(0), None)
    stage = make_stage(backend, script, tables)
    run = _Run(
        stage, choices, total, listed, rng, together and stage.many, lambda: backend.describe(script.text)
    )  # fmt: skip
    try:
        with _stopped_by_time_or_user(run, backend, options):
            run.all(options)
        with watched(backend):
            found = stage.found(len(run.labels), keys)
    finally:
        with watched(backend):
            stage.clear()
    return _played(run, found, listed, seed, options)


def worlds_needed(options: Options) -> int:
    """How many worlds are drawn so that each answer is within epsilon, with nine tenths of delta."""
    return draws_needed(options.epsilon, (1.0 - CUT_SHORT) * options.delta)


def _choices(tables: dict[tuple[str, ...], Declared], matter: Matter) -> Choices:
    """The choices of all tables; blocks of different tables get different numbers."""
    rows, prob, block, first = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0, np.int64)], 0
    for key, declared in tables.items():
        mine = matter[key]
        rows.append(declared.base + mine)
        prob.append(declared.prob[mine])
        block.append(np.where(declared.block[mine] >= 0, declared.block[mine] + first, -1))
        first += int(declared.block.max(initial=-1)) + 1
    return make_choices(np.concatenate(rows), np.concatenate(prob), np.concatenate(block))


@contextmanager
def _stopped_by_time_or_user(run: _Run, backend: Backend, options: Options) -> Iterator[None]:
    """Ends the run at the time limit and at Ctrl-C; an error only if no world is done by then."""
    try:
        with watched(backend, options.timeout):
            yield
    except (KeyboardInterrupt, SQLTimeout):
        if not run.weights:
            raise
        run.complete = False
    restart = getattr(backend, "restart", None)
    if restart is not None and not run.complete:
        restart()


@dataclass
class _Run:
    """Worlds being played: what is still to do, and what has come out so far."""

    stage: WorldStage
    choices: Choices
    total: int
    listed: bool
    rng: np.random.Generator
    together: bool
    names: Callable[[], tuple[str, ...] | None]
    """What the database calls the columns of the user's query as it stands."""
    labels: tuple[str, ...] = ()
    complete: bool = True

    def __post_init__(self) -> None:
        self.weights: list[FloatArray] = []

    def all(self, options: Options) -> None:
        """Plays world after world, or batch after batch."""
        rows = len(self.choices.rows) + len(self.choices.certain)
        size = max(1, min(MOST_AT_ONCE, CELLS // max(1, rows)))
        if backend_chosen():  # the draws are the same however they are cut
            size = min(size, -(-self.total // (ROUNDS * num_workers())))
        drawn: Drawn = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
        spans = [(first, min(first + size, self.total)) for first in range(0, self.total, size)]
        for place, (first, last) in enumerate(spans):
            if place == 1 and self._elsewhere(spans, drawn, options):
                return
            drawn = self._rows(first, last)
            weight = drawn[0]
            self.stage.put(first, last, *drawn[1:])
            if not self.labels:
                self.labels = self._columns(first)
            if self.together:
                self._together(first, last)
                self.weights.append(weight)
            else:
                for world in range(first, last):
                    self.stage.play_one(world)
                    self.weights.append(weight[world - first : world - first + 1])
            if options.progress is not None:
                options.progress(last, self.total)

    def _columns(self, world: int) -> tuple[str, ...]:
        """The names of the columns, as in the user's own query, where a name may be the text of an expression.

        Of ``*`` the database would also show the probability, which a world's rows do not have.
        """
        labels = self.stage.columns(world)
        if not labels:
            raise SQLError("the query has no columns")
        own = self.names() or ()
        return own if len(own) == len(labels) else labels

    def _together(self, first: int, last: int) -> None:
        """Two worlds of the first statement are played again alone, to see that the database keeps worlds apart."""
        try:
            self.stage.play_many(first, last)
            agreed = first > 0 or all(self.stage.agrees(world) for world in sorted({first, last - 1}))
        except SQLTimeout:
            raise
        except SQLError as error:
            raise NotKeptApart(str(error)) from None
        if not agreed:
            raise NotKeptApart("worlds together give another result than one alone")

    def _elsewhere(self, spans: list[tuple[int, int]], first: Drawn, options: Options) -> bool:
        """Plays all worlds but those of the first statement in the processes of the joblib backend that was chosen.

        Those of the first were played here; they are played there too, for comparison. False if all have to be played
        here. When time or Ctrl-C ends it, the worlds count that follow each other without a gap.
        """
        stage = self.stage
        luggage = packed(stage) if self.together and isinstance(stage, DuckDBStage) else None
        if luggage is None or not isinstance(stage, DuckDBStage):
            return False
        state, here = self.rng.bit_generator.state, stage.last_result()
        drawn = [first, *(self._rows(*span) for span in spans[1:])]
        pieces = [
            Piece(pairs_table(world, row), stage.many_worlds(*span))
            for span, (_, world, row) in zip(spans, drawn, strict=True)
        ]
        results: dict[int, Any] = {}
        try:
            for place, table in play_elsewhere(luggage, pieces):
                same = table is not None and table.schema == here.schema
                if table is None or not same or (place == 0 and bag(table.to_pylist()) != bag(here.to_pylist())):
                    self.rng.bit_generator.state = state
                    results.clear()
                    return False
                results[place] = table
                if options.progress is not None:
                    options.progress(sum(spans[i][1] - spans[i][0] for i in results), self.total)
                if options.timeout == 0.0 and len(results) < len(spans):
                    raise SQLTimeout(f"{len(results)} of {len(spans)} statements were done within the time limit")
            return True
        finally:
            place = 1
            while 0 in results and place in results:
                stage.keep(results[place])
                self.weights.append(drawn[place][0])
                place += 1

    def _rows(self, first: int, last: int) -> Drawn:
        """The weights of these worlds and the rows that they have."""
        if self.listed:
            weight, present = self.choices.listed(first, last)
        else:
            present = self.choices.drawn(self.rng, last - first)
            weight = np.full(last - first, 1.0 / self.total)
        world, place = np.nonzero(present)
        row = self.choices.rows[place]
        everywhere = self.choices.certain
        if len(everywhere):
            world = np.concatenate([world, np.repeat(np.arange(last - first), len(everywhere))])
            row = np.concatenate([row, np.tile(everywhere, last - first)])
        order = np.lexsort((row, world))
        return weight, first + world[order], row[order]


def _played(run: _Run, found: LineageRows, listed: bool, seed: int | None, options: Options) -> Played:
    weight = np.concatenate(run.weights)
    if not listed:
        weight = np.full(len(weight), 1.0 / len(weight))
    answers = len(found.indptr) - 1
    answer = np.repeat(np.arange(answers), np.diff(found.indptr))
    world = found.clauses.literals.astype(np.int64) >> 1
    group = np.zeros(answers, dtype=np.int64)
    group[answer] = found.identity[:, 0]
    known = world < len(weight)  # a statement that was stopped half-way does not count
    pair, copies = np.unique(answer[known] * max(1, len(weight)) + world[known], return_counts=True)
    answer, world = np.divmod(pair, max(1, len(weight)))
    return Played(
        run.labels, found.answers, group, answer, world, copies, weight, listed, run.complete, seed,
        options.epsilon, options.delta,
    )  # fmt: skip
