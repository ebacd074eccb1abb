"""One answer under other probabilities of its rows: its lineage is compiled once, and then each question is quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF, FloatArray, IntArray
from sharpdnf.engines.front import count, make_limit
from sharpdnf.errors import LimitError, SQLError
from sharpdnf.estimate import Estimate, exact_estimate
from sharpdnf.sensitivity import Influence, compile_within, exact_influence
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.circuit_batch import Circuits
from sharpdnf.sql.emit.lineage import Rows, build
from sharpdnf.sql.emit.tails import Tails
from sharpdnf.sql.explain import influences
from sharpdnf.sql.uncertain import SLACK

SECONDS = 10.0
"""How long compiling may take; what does not compile is counted anew for each question."""
MOST_DIFFERENCES = 2_000
"""How many rows a lineage with negation over exclusive rows may have for their influences, found one by one."""


class WhatIf:
    """The probability of one answer as a function of the probabilities of its uncertain rows.

    ``rows`` are the numbers of the rows that it depends on. Rows of a block still exclude each other, so the
    probabilities of a block may add up to 1 at most.
    """

    def __init__(self, formula: Callable[[Rows], tuple[DNF | Circuit, IntArray]], known: Rows) -> None:
        """``formula`` makes the lineage under given probabilities, with the row behind each variable (-1: none)."""
        self._formula, self._known = formula, known
        self._first, of_var = formula(known)
        used = np.unique(of_var[of_var >= 0]).astype(np.int64)
        same_block = np.isin(known.block, known.block[used][known.block[used] >= 0])
        self.rows: IntArray = np.union1d(used, np.flatnonzero(same_block))
        self._compiled: Compiled | None = None
        if self._first.num_vars:
            limit = make_limit(SECONDS, None)
            self._compiled = (
                compile_circuit(self._first, limit)
                if isinstance(self._first, Circuit)
                else compile_within(self._first, limit)
            )

    @classmethod
    def of_clauses(cls, clauses: Clauses, known: Rows) -> WhatIf:
        """An answer whose lineage is a DNF over uncertain rows."""
        whole = np.array([0, len(clauses)])

        def formula(rows: Rows) -> tuple[DNF | Circuit, IntArray]:
            made = build(clauses, whole, rows)
            return (made.batch[0], made.row_of_var) if len(made.batch) else (DNF.from_clauses([]), whole[:0])

        found = cls(formula, known)
        found.rows = found._of(clauses)
        found._clauses = clauses
        return found

    @classmethod
    def of_circuit(cls, circuits: Circuits | Tails, number: int, known: Rows) -> WhatIf:
        """An answer whose lineage negates."""
        return cls(lambda rows: circuits.circuit(number, rows), known)

    _clauses: Clauses | None = None

    def _of(self, clauses: Clauses) -> IntArray:
        used = np.unique(clauses.literals >> 1).astype(np.int64)
        block = self._known.block[used]
        return np.union1d(used, np.flatnonzero(np.isin(self._known.block, block[block >= 0])))

    @property
    def exact(self) -> bool:
        """Whether the lineage has compiled, so that every answer is exact."""
        return self._compiled is not None or not self._first.num_vars

    def __call__(self, prob: Mapping[int, float], *, timeout: float | None = None, rng: int = 0) -> Estimate:
        """The answer where the rows of these numbers have other probabilities."""
        values = self._known.prob.copy()
        for row, p in prob.items():
            if not 0 <= row < len(values):
                raise SQLError(f"there is no uncertain row {row}")
            if not 0.0 <= p <= 1.0:
                raise SQLError(f"the probability {p} of a row does not lie in [0, 1]")
            values[row] = p
        self._check_blocks(values, list(prob))
        return self._under(values, timeout, rng)

    def _check_blocks(self, prob: FloatArray, rows: list[int]) -> None:
        for block in {int(self._known.block[row]) for row in rows} - {-1}:
            total = float(prob[self._known.block == block].sum())
            if total > 1.0 + SLACK:
                raise SQLError(
                    f"the probabilities of a block of exclusive rows add up to {total:.6g}: lower the others first"
                )

    def _under(self, prob: FloatArray, timeout: float | None, rng: int) -> Estimate:
        formula, _ = self._formula(Rows(prob, self._known.block))
        if self._compiled is not None and _same(formula, self._first):
            return exact_estimate(float(self._compiled.evaluate(formula.prob)[0]), "compiled")
        return count(formula, timeout=timeout, rng=rng)

    def influences(self) -> Influence:
        """P(answer | row) - P(answer | no row) of each of ``rows``, in their order."""
        if self._clauses is not None:
            rows, found = influences(self._clauses, self._known, rng=0, timeout=SECONDS)
            order = np.argsort(rows)
            assert np.array_equal(rows[order], self.rows), "a row and the others of its block matter, and no other"
            columns = (found.values, found.stderr, found.lower, found.upper)
            values, stderr, lower, upper = (column[order] for column in columns)
            return Influence(values, stderr, lower, upper, found.exact, found.samples, met=found.met)
        if len(self.rows) > MOST_DIFFERENCES or not self.exact:
            raise LimitError(f"the influences of {len(self.rows)} rows of a lineage with negation take too long")
        return exact_influence(np.array([self._difference(int(row)) for row in self.rows]))

    def _difference(self, row: int) -> float:
        """The answer with the row less that without it, where the others of its block are absent, or as likely as they
        are when it is."""
        p, block = float(self._known.prob[row]), int(self._known.block[row])
        others = np.flatnonzero(self._known.block == block) if block >= 0 else np.zeros(0, dtype=np.int64)
        there, gone = self._known.prob.copy(), self._known.prob.copy()
        there[others], gone[others] = 0.0, gone[others] / (1.0 - p) if p < 1.0 else 0.0
        there[row], gone[row] = 1.0, 0.0
        return self._under(there, SECONDS, 0).prob - self._under(np.minimum(gone, 1.0), SECONDS, 0).prob


def _same(a: DNF | Circuit, b: DNF | Circuit) -> bool:
    """Whether two formulas are the same but for their probabilities."""
    if isinstance(a, DNF) and isinstance(b, DNF):
        return np.array_equal(a.indptr, b.indptr) and np.array_equal(a.literals, b.literals)
    if isinstance(a, Circuit) and isinstance(b, Circuit):
        pairs: list[tuple[Any, Any]] = [*zip(a.arrays, b.arrays, strict=True), (a.outputs, b.outputs)]
        return all(np.array_equal(x, y) for x, y in pairs)
    return False
