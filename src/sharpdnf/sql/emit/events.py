"""Runs the stages of a plan: temporary tables of candidates, whose numbers stand for events over uncertain rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdnf.circuit import OR
from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Backend, LineageRows, Shape
from sharpdnf.sql.backends.rows import sorted_keys
from sharpdnf.sql.emit.gates import Gates
from sharpdnf.sql.emit.stages import (
    BASE,
    Absent,
    AllOf,
    Counted,
    Decision,
    Formula,
    Found,
    Gathered,
    Single,
    Stage,
    Step,
    Tallied,
)
from sharpdnf.sql.emit.tally import Column, Numbers, adds_exactly, check_values, compare, evaluate, is_short, reached
from sharpdnf.sql.refusal import refuse


@dataclass(slots=True)
class Events:
    """What the numbers in lineage columns stand for: those of uncertain rows for themselves, later ones for a gate."""

    gates: Gates
    gate_of: IntArray
    """The gate of each number."""
    block: IntArray
    """The block of each uncertain row, in which rows exclude each other; -1 where it is independent."""

    @classmethod
    def over(cls, block: IntArray) -> Events:
        """Nothing but uncertain rows so far."""
        return cls(Gates(len(block)), np.arange(len(block)), block)

    def branch(self) -> Events:
        """The same events, over gates that can be grown apart from these."""
        return Events(self.gates.branch(), self.gate_of, self.block)

    def run(self, steps: Sequence[Step], backend: Backend) -> None:
        """Makes the tables, in order, and the events of their rows. Who calls drops the tables."""
        ranges: dict[str, tuple[int, int]] = {}
        for stage in steps:
            if isinstance(stage, Decision):
                first, last = ranges[stage.name]
                if first < last:
                    decided = self._decided(stage.formula, first, last - first, backend)
                    needed = [] if stage.alone else [self.gate_of[first:last]]
                    self.gate_of[first:last] = self.gates.both([*needed, decided])
                continue
            base = len(self.gate_of)
            select = stage.select.replace(BASE, str(base))
            if isinstance(stage, Gathered):
                backend.keep(stage.name, select)
                continue
            backend.keep(stage.name, select, ROW_ID)
            self.gate_of = np.concatenate([self.gate_of, self._candidates(stage, base, backend)])
            ranges[stage.name] = base, len(self.gate_of)

    def _candidates(self, stage: Stage, base: int, backend: Backend) -> IntArray:
        """That the rows of each candidate are there; TRUE where a decision will say more."""
        name = quoted(stage.name).sql(backend.dialect.name)
        if stage.counted:
            last = backend.rows(f"SELECT max({ROW_ID}) FROM {name}")[0][0]
            return np.full(0 if last is None else int(last) - base + 1, self.gates.true)
        columns = "".join(f", _l{i}" for i in range(stage.lineage))
        own = backend.lineage(f"SELECT {ROW_ID} AS _c0{columns} FROM {name}", Shape(1, 0, stage.lineage, 0))
        return self.answers(own)

    def answers(self, found: LineageRows) -> IntArray:
        """The event of each answer: that one of its clauses holds."""
        return self.gates.one_of(found.indptr, self.gates.clauses(found.clauses, self.gate_of))

    def _decided(self, formula: Formula, base: int, count: int, backend: Backend) -> IntArray:
        """The event that the formula holds, for each candidate."""
        if isinstance(formula, Found):
            rows = backend.lineage(formula.sql, Shape(int(formula.keyed), 0, formula.lineage, 0))
            events = self.answers(rows) if len(rows.clauses) else np.zeros(0, np.int64)
            if not formula.keyed:
                return np.full(count, events[0] if len(events) else self.gates.false)
            result = np.full(count, self.gates.false)
            if len(events):
                numbers = np.asarray(rows.answers.column(0).to_numpy(), dtype=np.int64)
                result[numbers - base] = events
            return result
        if isinstance(formula, Counted):
            return self._counted(formula, base, count, backend)
        if isinstance(formula, Tallied):
            if formula.keyed:
                return self._tallied(formula, base, count, backend)
            return np.full(count, self._tallied(formula, base, 1, backend)[0])
        if isinstance(formula, Single):
            self._check_single(backend.lineage(formula.sql, Shape(int(formula.keyed), 0, formula.lineage, 0)))
            return np.full(count, self.gates.true)
        if isinstance(formula, Absent):
            return self.gates.negate(self._decided(formula.part, base, count, backend))
        parts = [self._decided(part, base, count, backend) for part in formula.parts]
        return self.gates.both(parts) if isinstance(formula, AllOf) else self.gates.both(parts, OR)

    def _check_single(self, rows: LineageRows) -> None:
        """Refuses rows of one candidate that do not exclude each other: by different rows of one block."""
        answer = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
        several = np.diff(rows.indptr)[answer] > 1 if len(answer) else np.zeros(0, dtype=bool)
        if not several.any():
            return
        clause = np.repeat(np.arange(len(rows.clauses)), np.diff(rows.clauses.indptr))
        row = rows.clauses.literals >> 1
        block = np.append(self.block, -1)[np.minimum(row, len(self.block))]  # later numbers stand for other events
        chosen = several[clause] & (block >= 0)
        owner = answer[clause[chosen]]
        pair = np.unique(np.stack([owner, block[chosen], clause[chosen], row[chosen]], axis=1), axis=0)
        tellers, clauses = np.unique(pair[:, :2], axis=0, return_counts=True)
        _, values = np.unique(np.unique(pair[:, [0, 1, 3]], axis=0)[:, :2], axis=0, return_counts=True)
        apart = tellers[(clauses == np.diff(rows.indptr)[tellers[:, 0]]) & (values == clauses), 0]
        if not np.isin(np.unique(answer[several]), apart).all():
            refuse("a subquery that is compared and may have several rows", "aggregate it, as in (SELECT max(x) ...)")

    def _counted(self, formula: Counted, base: int, count: int, backend: Backend) -> IntArray:
        """Compares the number of rows that are there with a number, for each candidate; nan is above all numbers."""
        known, number = np.ones(count, dtype=bool), np.zeros(count)
        if formula.number.upper().startswith(("SELECT", "WITH")):
            asked = backend.numbers(formula.number, 3)
            place = asked[:, 0].astype(np.int64) - base
            if (asked[:, 1] < 0.0).any():
                refuse("COUNT compared with a text", "cast it to a number")
            known[place], number[place] = asked[:, 1] > 0.0, np.nan_to_num(asked[:, 2], nan=np.inf, posinf=np.inf)
        else:
            number[:] = float(formula.number)
        rows = backend.lineage(formula.sql, Shape(int(formula.keyed), 0, formula.lineage, int(formula.values)))
        events, owner = self.gates.clauses(rows.clauses, self.gate_of), np.zeros(len(rows.clauses), np.int64)
        if len(rows.clauses):
            owner = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
        if formula.keyed and len(rows.clauses):
            owner = np.asarray(rows.answers.column(0).to_numpy(), dtype=np.int64)[owner] - base
        if formula.values and len(rows.clauses):
            starts, first, order = sorted_keys([owner, rows.identity[:, 0].astype(np.int64)])
            events, owner = self.gates.one_of(starts, events[order]), owner[first]
        if not formula.keyed:
            events, owner = np.tile(events, count), np.repeat(np.arange(count), len(events))
        result = self._compared(formula, number, np.searchsorted(owner, np.arange(count + 1)), events)
        if formula.negated:
            result = self.gates.negate(result)
        return np.where(known, result, self.gates.false)

    def _compared(self, formula: Counted, number: FloatArray, indptr: IntArray, events: IntArray) -> IntArray:
        most = len(events) + 1
        at_least = np.clip(np.ceil(number), 0, most).astype(np.int64)
        more = np.clip(np.floor(number) + 1, 0, most).astype(np.int64)
        if formula.compare in (">=", "<"):
            found = self.gates.at_least(at_least, indptr, events)
            return found if formula.compare == ">=" else self.gates.negate(found)
        above = self.gates.at_least(more, indptr, events)
        if formula.compare in (">", "<="):
            return above if formula.compare == ">" else self.gates.negate(above)
        reached = self.gates.at_least(at_least, indptr, events)
        equal = self.gates.both([reached, self.gates.negate(above)])
        return equal if formula.compare == "=" else self.gates.negate(equal)

    def _tallied(self, formula: Tallied, base: int, count: int, backend: Backend) -> IntArray:
        """Whether a comparison of sums and averages holds, for each candidate."""
        size = len(formula.kinds)
        rows = backend.lineage(formula.sql, Shape(1, 2 * size, formula.lineage, 0))
        owner = np.zeros(0, dtype=np.int64)
        if len(rows.clauses):
            numbers = np.asarray(rows.answers.column(0).to_numpy(), dtype=np.int64)
            owner = np.repeat(numbers - base if formula.keyed else np.zeros_like(numbers), np.diff(rows.indptr))
        events, read = self.gates.clauses(rows.clauses, self.gate_of), rows.measures
        check_values(read)
        columns = [Column(kind, read[:, 2 * i], read[:, 2 * i + 1] > 0.0) for i, kind in enumerate(formula.kinds)]
        candidate, event, values = reached(self.gates, count, owner, events, columns)
        names: dict[str, Numbers] = {f"_agg{i}": value for i, value in enumerate(values)}
        asked = np.zeros((count, 1 + 2 * formula.others))
        if formula.others:
            found = backend.numbers(formula.numbers, 1 + 2 * formula.others)
            if formula.keyed:
                asked[found[:, 0].astype(np.int64) - base] = found
            else:  # they are the same for all candidates
                asked[0] = found[0]
        for i in range(formula.others):
            flag, number = asked[candidate, 1 + 2 * i], asked[candidate, 2 + 2 * i]
            if (flag < 0.0).any():
                refuse("an aggregate compared with a text", "cast it to a number")
            names[f"_oth{i}"] = number, flag > 0.0
        left, right = (evaluate(side, names, len(candidate)) for side in (formula.left, formula.right))
        summed = [c.values[c.known] for c in columns if c.kind in ("sum", "avg")]
        exact = np.full(len(candidate), all(adds_exactly(part) for part in [*summed, asked[:, 1:].ravel()]))
        for column, (value, _) in zip(columns, values, strict=True):
            if column.kind == "avg":
                exact &= is_short(value)
        true, false = compare(formula.compare, left, right, exact)
        chosen = np.flatnonzero(true if formula.truth else false)
        ends = np.searchsorted(candidate[chosen], np.arange(count + 1))
        return self.gates.one_of(ends, event[chosen], exclusive=True)
