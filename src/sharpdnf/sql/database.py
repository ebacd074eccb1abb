"""ProbDB: a database some of whose tables have a probability column, and SQL over it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Never

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import IntArray
from sharpdnf.engines.registry import refuse_options
from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.estimate import check_tolerance
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.parameters import Parameters, with_values
from sharpdnf.sql.backends.protocol import Backend, LineageRows, Placed
from sharpdnf.sql.bind.scope import UnknownColumn
from sharpdnf.sql.closed import ClosedPlan, plan_closed
from sharpdnf.sql.closed import answer as closed_answers
from sharpdnf.sql.count_tails import with_tail
from sharpdnf.sql.counting import SUMMARY, Counts, Options, Progress, certain, count_some
from sharpdnf.sql.declarations import Declarations
from sharpdnf.sql.distributions import Groups, read_groups
from sharpdnf.sql.emit.circuit_batch import AnyFormulas, CircuitFormulas, Circuits, Countable, formulas_of
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.emit.stages import Decision, statements
from sharpdnf.sql.emit.tails import tails_of
from sharpdnf.sql.evidence import Evidence, Given, as_evidence, check_possible, conditioned, parts_of
from sharpdnf.sql.expected import expected_values
from sharpdnf.sql.limits import check_interruptible, watched
from sharpdnf.sql.ordering import choose_answers, first_answers
from sharpdnf.sql.parse.faithful import standing
from sharpdnf.sql.plan import Plan, make_plan
from sharpdnf.sql.planned import Planned
from sharpdnf.sql.probability import RowProbability, read_probability
from sharpdnf.sql.reach import Links, Reach, make_reach, network_answers, read_links
from sharpdnf.sql.rewrite.context import NUMBER
from sharpdnf.sql.spoken import Spoken, check_groups, finish, read_spoken
from sharpdnf.sql.summed import LEAST, PLAIN, grouped_answers, one_answer, summed, summed_groups
from sharpdnf.sql.topk import decide
from sharpdnf.sql.uncertain import COPY, Declared, UncertainRow
from sharpdnf.sql.ways import CIRCUIT, CLOSED, LINEAGE, NETWORK, WORLDS, Route, choose
from sharpdnf.sql.worlds.given import Player, play_given
from sharpdnf.sql.worlds.matter import Matter, rows_that_matter
from sharpdnf.sql.worlds.play import NotKeptApart, Played, play
from sharpdnf.sql.worlds.played_answers import group_answers, row_answers
from sharpdnf.sql.worlds.script import Script, make_script

ATTEMPTS = 5
"""How often a query is planned anew because a table got other columns meanwhile."""
Ran = tuple[Plan, LineageRows | Placed, Events | None, IntArray]
"""The plan of a query, its rows, its events, and those that must hold by the evidence."""


class ProbDB:
    """Tables, some of them uncertain, behind one connection.

    The rows of an uncertain table are read and numbered when it is declared, and again by the first query that reads
    it after its data changed: every answer is about the data of the moment when it was asked for (``uncertain.py``).
    """

    def __init__(self, backend: Backend, *, ours: bool = False) -> None:
        self.backend, self._ours = backend, ours
        self.declared = Declarations(backend)
        """The uncertain tables, and the numbers of their rows."""
        self._planned = Planned(backend)
        self._closed = False
        self._evidence: tuple[Evidence, ...] = ()

    def close(self) -> None:
        """Drops the numbered rows, and closes the connection unless it was given to ``connect``."""
        if self._closed:
            return
        with watched(self.backend):
            self.declared.forget_all()
        self._closed = True
        if self._ours:
            self.backend.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SQLError("this ProbDB is closed: its tables count as certain now; connect() and declare them again")

    def __enter__(self) -> ProbDB:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- declaring

    def uncertain(
        self, table: str, *, prob: str, block: str | Sequence[str] | None = None, query: str | None = None
    ) -> None:
        """Declares the rows of a table or view to be events with the probabilities in column ``prob``.

        ``prob`` may also be an expression of the row's columns, such as "p1 * p2" or "score / 100"; a row for which it
        is not in [0, 1] is an error. Rows are independent; with ``block``, rows that agree in these columns exclude
        each other. With ``query``, ``table`` becomes the name of a temporary view over that SELECT first.
        """
        columns = () if block is None else (block,) if isinstance(block, str) else tuple(block)
        if block is not None and not columns:
            raise ValueError("block must name at least one column")
        with watched(self.backend):
            self._check_open()
            if query is None:
                self.declared.declare(self.declared.relation(table), prob, columns)
            else:
                self.declared.declare_query(table, query, prob, columns)

    def forget(self, table: str) -> None:
        """Takes back ``uncertain``: the rows of the table count as certain from now on."""
        with watched(self.backend):
            self._check_open()
            self.declared.forget(table)

    def register(
        self, name: str, frame: object, *, prob: str | None = None, block: str | Sequence[str] | None = None
    ) -> None:
        """Makes a pandas, polars or Arrow frame, or a Parquet, CSV or JSON file, a table; with ``prob``, uncertain."""
        with watched(self.backend):
            self._check_open()
            self.backend.register(name, frame)
            table = exp.Table(this=quoted(name)).sql(self.backend.dialect.name)
            if prob is not None:
                self.uncertain(table, prob=prob, block=block)
            else:
                self.declared.declare_again(table)

    def refresh(self) -> None:
        """Reads the uncertain tables again, also one that has become a view. Queries notice changed rows themselves."""
        with watched(self.backend):
            self._check_open()
            self.declared.refresh()

    @property
    def readings(self) -> int:
        """How often all uncertain rows were numbered anew: answers of an earlier reading speak of other numbers."""
        return self.declared.readings

    def known_rows(self) -> Rows:
        """The probability and the block of every uncertain row, by its number."""
        return self.declared.rows()

    def row_names(self, rows: IntArray, reading: int) -> list[str]:
        """Names such as ``edge(src=1, dst=2)`` of rows by their numbers, which are those of a reading."""
        with watched(self.backend):
            self._check_open()
            return self.declared.row_names(rows, reading)

    def row_values(self, rows: IntArray, reading: int) -> dict[int, UncertainRow]:
        """The uncertain rows of these numbers, which are those of a reading; without negative ones, which are none."""
        with watched(self.backend):
            self._check_open()
            return self.declared.row_values(rows, reading)

    def row_probability(self, table: str, prob: str) -> RowProbability:
        """What ``uncertain(table, prob=prob)`` would make of ``prob``, checked; whatever the values in the rows are."""
        with watched(self.backend):
            self._check_open()
            return read_probability(prob, self.declared.relation(table), self.backend)

    def _choose(
        self, query: str, options: Options, way: str | None = None, after: Route | None = None
    ) -> tuple[Plan | ClosedPlan | Reach | Script, Route]:
        """The plan of the strongest way that can answer a query, and why no stronger one can."""
        if after is None:
            kept = self._planned.get((query, way, options.aggregates), self.declared.tables)
            if kept is not None:
                return kept[0], kept[1]
        uncertain = self.declared.uncertain()
        found: tuple[Plan | ClosedPlan | Reach | Script, Route] = choose(
            [
                (LINEAGE, lambda: self._plan(query, circuits=False)),
                (CIRCUIT, lambda: self._plan(query, circuits=True)),
                (CLOSED, lambda: self._plan_closed(read_spoken(query, self.backend), options)),
                (NETWORK, lambda: make_reach(query, self.backend, uncertain)),
                (WORLDS, lambda: make_script(read_spoken(query, self.backend).core, self.backend, uncertain)),
            ],
            way,
            after,
        )
        if after is None:
            self._planned.keep((query, way, options.aggregates), found, self.declared.tables)
        return found

    def _under_evidence(
        self, query: str, options: Options, chosen: Any, route: Route, evidence: Sequence[Evidence]
    ) -> tuple[Any, Route]:
        """The same plan if it and all evidence have a lineage, else the query in worlds."""
        reason = "it does not take evidence"
        if isinstance(chosen, Plan) and not chosen.expected:
            try:
                for entry in evidence:
                    make_plan(entry.sql, self.backend, self.declared.uncertain())
                return chosen, route
            except UnsupportedSQL as error:
                reason = f"the evidence has no lineage: {error}"
        return (chosen, route) if route.way == WORLDS else self._choose(query, options, WORLDS, route.refused(reason))

    def _plan(self, query: str, *, circuits: bool) -> Plan:
        """As ``make_plan``; a name that only the rewriter does not find is no mistake of the query's."""
        try:
            plan = make_plan(query, self.backend, self.declared.uncertain(), circuits=circuits)
            return with_tail(query, plan, self.backend, self.declared.uncertain()) if plan.steps else plan
        except UnknownColumn as error:
            if self.backend.describe(standing(query, self.backend.dialect)) is None:
                raise
            raise UnsupportedSQL(str(error)) from None

    def plan(self, query: str) -> Route:
        """Which way a query would go, and why not a stronger one; nothing is run."""
        with watched(self.backend):
            self._check_open()
            return self._choose(query, Options())[1]

    def _plan_closed(self, spoken: Spoken, options: Options) -> ClosedPlan:
        reading = SUMMARY if spoken.expected else options.aggregates
        return plan_closed(spoken.core, self.backend, self.declared.uncertain(), reading)

    def _by_closed_forms(self, spoken: Spoken, plan: ClosedPlan, route: Route, options: Options) -> Answers:
        """The distributions of aggregates over independent rows."""

        def again() -> Plan:
            return self._plan_closed(spoken, options).rows

        _, found, _, _ = self._lineage(again, plan.rows)
        if isinstance(found, Placed):
            from sharpdnf.sql.distributed_closed import fold_in_place

            return fold_in_place(self, plan, spoken, found, self.known_rows(), options, route)
        return finish(
            closed_answers(self, plan, found, self.known_rows(), route), spoken, plan.groups.keys, self.backend
        )

    def _summed(self, plan: Plan, route: Route, options: Options) -> Answers | None:
        """Expected values that the database works out by itself; None where that is not possible, or not any more."""
        if not plan.expected:
            return None
        declared = {d.copy: d for d in self.declared.tables.values()}
        dialect = self.backend.dialect
        sql = summed(plan, declared, dialect)
        if sql is None and options.engine == "auto" and self._read_rows(plan) >= LEAST:
            sql = summed_groups(plan, declared, dialect)
        if sql is None:
            return None
        with self.backend.snapshot():
            renamed = self.declared.bring_up_to_date(sql)
            if renamed is None:
                return None
            sql = COPY.sub(lambda name: renamed.get(name[0], name[0]), sql)
            with self._numbered(plan):
                if plan.always:
                    return one_answer(self.backend.rows(sql)[0], plan, self, route)
                kinds = [kind.split("(")[0] for kind in self.backend.types(sql) or ()]
                if not kinds or not set(kinds[: plan.shape.shown]) <= PLAIN:
                    return None
                table = self.backend.table(sql, len(kinds))
        return grouped_answers(table, plan, self, route)

    def _read_rows(self, plan: Plan) -> int:
        """How many rows the uncertain tables have that a plan reads."""
        copies = set(COPY.findall(plan.text))
        return sum(len(d.prob) for d in self.declared.tables.values() if d.copy in copies)

    @contextmanager
    def _numbered(self, plan: Plan) -> Iterator[None]:
        """The temporary tables of numbered rows that a plan reads beside those of the uncertain tables."""
        made: list[str] = []
        try:
            for name, select in plan.numbered:
                made.append(name)
                self.backend.keep(name, select.sql(self.backend.dialect.name), NUMBER)
            yield
        finally:
            for name in made:
                self.backend.drop(name)

    def _lineage(self, again: Callable[[], Plan], plan: Plan, evidence: tuple[Evidence, ...] = ()) -> Ran:
        """The plan of a query, its rows, its events and those that must hold by the evidence, of one moment.

        Where lineage may be too large for one machine, the rows stay where they are if there are answers to tell apart.
        """
        if plan is self._planned.last and self._planned.alone and not evidence and self.declared.unchanged(plan.text):
            return plan, self._run(plan, None), None, np.zeros(0, dtype=np.int64)
        for _ in range(ATTEMPTS):
            known = [make_plan(entry.sql, self.backend, self.declared.uncertain()) for entry in evidence]
            with self.backend.snapshot():
                text = "\n".join(p.text for p in (plan, *known))
                renamed = self.declared.bring_up_to_date(text, unchanged=plan is self._planned.last)
                if renamed is not None:
                    current = plan.renamed(renamed)
                    needed = bool(plan.steps or evidence)
                    events = Events.over(self.known_rows().block) if needed else None
                    stays = self.backend.dialect.counts_in_place and plan.in_place
                    found = self._stay(current, events) if stays else self._run(current, events)
                    parts = [np.zeros(0, dtype=np.int64)]
                    for entry, other in zip(evidence, known, strict=True):
                        assert events is not None
                        answers = events.answers(self._run(other.renamed(renamed), events))
                        parts.append(parts_of(events.gates, answers, entry))
                    return current, found, events, np.concatenate(parts)
            self.refresh()
            self._planned.forget()
            plan = again()
        raise SQLError("the uncertain tables change faster than the query can be planned")

    def _tails(self, query: str, plan: Plan, rows: Plan) -> tuple[Ran | None, CircuitFormulas | None]:
        """As ``_lineage`` with the formulas, for a plan with a tail; None if the rows are not independent."""

        def again() -> Plan:
            tail = self._plan(query, circuits=True).tail
            if tail is None:
                raise SQLError("the uncertain tables have changed while the query was planned: ask it again")
            return tail[0]

        _, found, _, parts = self._lineage(again, rows)
        assert plan.tail is not None and isinstance(found, LineageRows)
        tails = tails_of(found, plan.tail[1], self.known_rows())
        if tails is None:
            return None, None
        batch, possible = tails
        return (plan, found, None, parts), CircuitFormulas(batch, possible, np.diff(found.indptr)[possible])

    def _links(self, query: str, reach: Reach) -> tuple[Reach, Links]:
        """The network that a recursion asks about, of one moment; UnsupportedSQL if the rows are none."""
        for _ in range(ATTEMPTS):
            with self.backend.snapshot():
                if self.declared.bring_up_to_date(f"{query} {self.declared.tables[reach.key].copy}") is not None:
                    return reach, read_links(self.backend, reach, self.declared.tables[reach.key])
            self.refresh()
            reach = make_reach(query, self.backend, self.declared.uncertain())
        raise SQLError("the uncertain tables change faster than the query can be planned")

    def _worlds(
        self, spoken: Spoken, script: Script, options: Options, route: Route, evidence: Sequence[Evidence] = ()
    ) -> Answers:
        """Plays the worlds of a query, about the data of one moment."""
        together = True
        summary = options.aggregates == SUMMARY or spoken.expected
        groups = read_groups(script.tree, self.backend) if summary else None
        check_groups(spoken, groups)
        keys = list(groups.keys) if groups is not None else []
        known = [make_script(entry.sql, self.backend, self.declared.uncertain()) for entry in evidence]
        for _ in range(ATTEMPTS):
            read = list(dict.fromkeys(r.key for each in (script, *known) for r in each.readings()))
            copies = sorted(self.declared.tables[key].copy for key in read)
            try:
                with self.backend.snapshot():
                    with watched(self.backend, options.timeout):
                        texts = [spoken.core, *(entry.sql for entry in evidence), *copies]
                        current = self.declared.bring_up_to_date(" ".join(texts))
                    if current is not None:
                        tables = {key: self.declared.tables[key] for key in read}
                        with watched(self.backend, options.timeout):
                            matter = self._matter(tables, (script, *known))
                        query = self._player(script, keys, tables, matter, route, together=together)
                        given = [(self._player(each, [], tables, matter, route, together=together), entry)
                                 for each, entry in zip(known, evidence, strict=True)]  # fmt: skip
                        played = play_given(query, given, options) if given else query(options, 1)
                        return self._shown(played, groups, script, spoken, route, given=bool(given))
            except NotKeptApart:
                together = False
                continue
            with watched(self.backend, options.timeout):
                self.refresh()
                script = make_script(spoken.core, self.backend, self.declared.uncertain())
                known = [make_script(entry.sql, self.backend, self.declared.uncertain()) for entry in evidence]
        raise SQLError("the uncertain tables change faster than the query can be planned")

    def _matter(self, tables: dict[tuple[str, ...], Declared], scripts: Sequence[Script]) -> Matter:
        """The rows of each table that can matter for one of the queries, which are played in the same worlds."""
        readings = [reading for script in scripts for reading in script.readings()]
        return {
            key: rows_that_matter(self.backend, declared, [r.condition for r in readings if r.key == key])
            for key, declared in tables.items()
        }

    def _player(
        self, script: Script, keys: list[int], tables: dict[tuple[str, ...], Declared], matter: Matter, route: Route,
        *, together: bool,
    ) -> Player:  # fmt: skip
        return lambda asked, times: play(
            self.backend, script, tables, matter, asked, route, keys,
            together=together and not script.alone,
            times=times,
        )  # fmt: skip

    def _shown(
        self, played: Played, groups: Groups | None, script: Script, spoken: Spoken, route: Route, *, given: bool
    ) -> Answers:
        """What was played as answers."""
        if groups is not None:
            found = finish(group_answers(played, groups, script.tree, self, route), spoken, groups.keys, self.backend)
        else:
            rows = row_answers(played, script.tree, self, route)
            found = finish(rows, spoken, range(len(rows.labels)), self.backend)
        found.given = given
        return found

    # ---- asking

    @contextmanager
    def given(self, *given: str | Evidence, given_not: Given | None = None) -> Iterator[None]:
        """Inside ``with``, every query is answered given this evidence, beside what it is given itself."""
        before, self._evidence = self._evidence, (*self._evidence, *as_evidence(given, given_not))
        try:
            yield
        finally:
            self._evidence = before

    def rewrite(self, query: str) -> str:
        """The SQL that is sent to the database instead of ``query``: one row per clause of lineage.

        Where the query negates, the tables of candidates and the queries that decide them stand before it.
        """
        with watched(self.backend):
            self._check_open()
            plan = make_plan(query, self.backend, self.declared.uncertain())
        last = str(plan.query.sql(self.backend.dialect.name, pretty=True))
        return ";\n\n".join([*statements(plan.steps), last])

    def sql(
        self,
        query: str,
        params: Parameters | None = None,
        *,
        guarantee: str | None = None,
        epsilon: float = 0.1,
        delta: float = 0.05,
        rng: Any = None,
        timeout: float | None = None,
        threads: int | None = None,
        engine: str = "auto",
        progress: Progress | None = None,
        way: str | None = None,
        given: Given | None = None,
        given_not: Given | None = None,
        aggregates: str = SUMMARY,
        **unknown: Never,
    ) -> Answers:
        """Answers a SELECT: every answer with the probability that it is one.

        ``params`` are the values of the query's marks, in the spelling of the database (``backends/parameters.py``).
        ``epsilon`` and ``delta`` hold for each answer; for HAVING prob() and ORDER BY prob() LIMIT k, delta covers
        all answers together. ``timeout`` limits database and counting together. ``way`` names the one way to the
        answer that may be taken (``ways.py``); without it the strongest that can answer the query is. ``given`` are
        queries that are known to have an answer, ``given_not`` such that have none (``evidence.py``). A query whose
        select list aggregates uncertain rows has one answer a group, with the distribution of each aggregate;
        ``aggregates="rows"`` makes every row that the query can give an answer instead.
        """
        refuse_options(self.sql, unknown)
        query = with_values(query, params, self.backend.dialect.name)
        check_tolerance(epsilon, delta)
        if timeout is not None and not timeout >= 0.0:
            raise ValueError(f"timeout must not be negative, not {timeout}")
        deadline = None if timeout is None else time.monotonic() + timeout
        if aggregates not in (SUMMARY, "rows"):
            raise ValueError(f'aggregates must be "summary" or "rows", not {aggregates!r}')
        options = Options(
            guarantee, epsilon, delta, rng, deadline, threads, engine, progress, aggregates=aggregates
        )  # fmt: skip
        with watched(self.backend, timeout):
            self._check_open()
            if timeout is not None:
                check_interruptible(self.backend)
            chosen, route = self._choose(query, options, way)
            asked = (*self._evidence, *as_evidence(given, given_not))
            evidence = tuple(entry.written(self.backend.dialect.name) for entry in asked)
            if evidence:
                chosen, route = self._under_evidence(query, options, chosen, route, evidence)
            ran, tails = None, None
            if isinstance(chosen, Plan) and chosen.steps:
                try:
                    in_place = self.backend.dialect.counts_in_place
                    if chosen.tail is not None and not evidence and engine == "auto" and not in_place:
                        ran, tails = self._tails(query, chosen, chosen.tail[0])
                        chosen = chosen if ran else self._plan(query, circuits=True)  # tables may have been read anew
                    ran = ran or self._lineage(lambda: self._plan(query, circuits=True), chosen, evidence)
                except UnsupportedSQL as error:  # only the rows tell how many different sums there are
                    after = route.refused(str(error))
                    chosen, route = self._choose(query, options, WORLDS if evidence else way, after)
            if isinstance(chosen, ClosedPlan):
                try:
                    return self._by_closed_forms(read_spoken(query, self.backend), chosen, route, options)
                except UnsupportedSQL as error:  # only the rows tell whether they are independent
                    chosen, route = self._choose(query, options, way, route.refused(str(error)))
            if isinstance(chosen, Reach):
                try:
                    chosen, links = self._links(query, chosen)
                except UnsupportedSQL as error:  # only the rows tell whether they are a network
                    chosen, route = self._choose(query, options, way, route.refused(str(error)))
            if isinstance(chosen, Plan):
                answers = self._summed(chosen, route, options) if not evidence and ran is None else None
                if answers is not None:
                    return answers
                plan, found, events, parts = ran or self._lineage(
                    lambda: self._plan(query, circuits=False), chosen, evidence
                )
                if isinstance(found, Placed):
                    return self._in_place(plan, found, events, parts if evidence else None, options, route)
            known, reading = self.known_rows(), self.readings
        if isinstance(chosen, Reach):
            return network_answers(self, chosen, links, options, route)
        if isinstance(chosen, Script):
            with self.backend.lock:
                return self._worlds(read_spoken(query, self.backend), chosen, options, route, evidence)
        assert isinstance(found, LineageRows)
        formulas = tails or formulas_of(found, events, known)
        batch: Countable = formulas.batch
        if evidence:
            assert events is not None
            check_possible(events.gates, parts, known, options)
            assert isinstance(formulas, CircuitFormulas) and isinstance(formulas.batch, Circuits)
            batch = conditioned(events.gates, formulas.batch.outputs, parts, known)
        if plan.always:  # COUNT without GROUP BY has one answer in every world
            counts, kept = certain(1), np.array([0 if len(formulas.batch) else -1])
        elif plan.cuts or plan.top is not None:
            descending = plan.top is None or plan.order[0].descending
            counts, kept = decide(batch, plan.cuts, plan.top, descending=descending, options=options)
            counts = counts.take(kept)
        else:
            kept = first_answers(plan, found.answers, formulas.possible)
            counts = count_some(batch, kept, options)
        answers = self._answers(plan, found, formulas, counts, kept, options, known, reading)
        answers.route, answers.given = route, bool(evidence)
        return answers

    def _in_place(
        self, plan: Plan, found: Placed, events: Events | None, parts: IntArray | None, options: Options, route: Route
    ) -> Answers:
        """Answers that stay where the lineage is; ``parts`` must hold by the evidence, if there is any."""
        from sharpdnf.sql.distributed import count_in_place

        known = self.known_rows()
        if parts is not None:
            assert events is not None
            check_possible(events.gates, parts, known, options)
        answers = count_in_place(self, plan, found, known, events, parts, options)
        answers.route, answers.given = route, parts is not None
        return answers

    def _run(self, plan: Plan, events: Events | None) -> LineageRows:
        """The lineage rows of a plan; where it has stages, ``events`` learns what their numbers mean."""
        with self._staged(plan, events):
            return self.backend.lineage(plan.sql, plan.shape)

    def _stay(self, plan: Plan, events: Events | None) -> Placed:
        """As ``_run``, with rows that stay where they are."""
        from sharpdnf.sql.distributed_lineage import place

        with self._staged(plan, events):
            return place(self.backend, plan)

    @contextmanager
    def _staged(self, plan: Plan, events: Events | None) -> Iterator[None]:
        """A block in which the temporary tables of a plan are there."""
        try:
            with self._numbered(plan):
                if events is not None:
                    events.run(plan.steps, self.backend)
                yield
        finally:
            for step in plan.steps:
                if not isinstance(step, Decision):
                    self.backend.drop(step.name)

    def _answers(
        self, plan: Plan, found: LineageRows, formulas: AnyFormulas, counts: Counts, kept: IntArray, options: Options,
        known: Rows, reading: int,
    ) -> Answers:  # fmt: skip
        formula = kept
        answer = np.zeros(1, dtype=np.int64) if plan.always else formulas.possible[kept]
        expected = []
        if plan.expected:
            total = 1 if plan.always else len(found.answers)
            computed = expected_values(found, plan.expected, known, options, total)
            expected = [(entry[0], value.take(answer)) for entry, value in zip(plan.expected, computed, strict=True)]
            counts.met &= computed[0].met[answer]
        shown = found.answers.take(answer) if plan.shape.shown else found.answers.slice(0, 0)
        order, items = choose_answers(self.backend, plan, shown, counts, expected)
        if order is not None:
            shown, counts, formula = shown.take(order), counts.take(order), formula[order]
            expected = [(position, value.take(order)) for position, value in expected]
            answer = answer[order]
        columns = [shown.column(place) if place >= 0 else items.column(-1 - place) for place in plan.places]
        return Answers(
            plan.labels, columns, counts, formulas, formula, answer, found, self, expected, known, reading
        )  # fmt: skip
