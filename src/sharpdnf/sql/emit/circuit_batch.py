"""Answers whose lineage is a circuit: a batch that the counting takes in the place of a batch of DNFs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.dnf import Batch, IntArray
from sharpdnf.sql.backends.protocol import LineageRows
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.emit.gates import Gates
from sharpdnf.sql.emit.lineage import Formulas, Rows, build, select
from sharpdnf.sql.emit.tails import Tails


@dataclass(frozen=True, slots=True)
class Circuits:
    """One event per answer, over gates that they share."""

    gates: Gates
    outputs: IntArray
    rows: Rows

    def __len__(self) -> int:
        return len(self.outputs)

    def take(self, wanted: IntArray) -> Circuits:
        """These answers."""
        return Circuits(self.gates, self.outputs[wanted], self.rows)

    def circuit(self, number: int, rows: Rows | None = None) -> tuple[Circuit, IntArray]:
        """The circuit of one answer over its own variables, and the uncertain row behind each (-1: none).

        ``rows`` are the same rows with other probabilities."""
        return self.gates.circuit(self.outputs[number : number + 1], rows or self.rows)


@dataclass(frozen=True, slots=True)
class Conditioned:
    """Answers under evidence: ``joint[i]`` is the answer and the evidence that it depends on, which is ``below[of[i]]``
    by itself."""

    joint: Circuits
    below: Circuits
    of: IntArray
    numbers: IntArray
    """What decides the draws of each entry of ``below``: the rows that it is about, not which answers there are."""

    def __len__(self) -> int:
        return len(self.joint)

    def take(self, wanted: IntArray) -> Conditioned:
        """These answers."""
        used, place = np.unique(self.of[wanted], return_inverse=True)
        return Conditioned(self.joint.take(wanted), self.below.take(used), place, self.numbers[used])


Countable = Batch | Circuits | Conditioned | Tails
"""What the counting takes: an entry for each answer."""


@dataclass(frozen=True, slots=True)
class CircuitFormulas:
    """As ``Formulas`` for DNFs: one circuit per answer."""

    batch: Circuits | Tails
    possible: IntArray
    """Which of the answers asked for can be there at all, in order."""
    num_clauses: IntArray


AnyFormulas = Formulas | CircuitFormulas


def formulas_of(found: LineageRows, events: Events | None, rows: Rows) -> AnyFormulas:
    """The lineage of the answers: DNFs, or circuits where stages made events of their own."""
    if events is None:
        return build(found.clauses, found.indptr, rows)
    outputs = events.answers(found)
    possible = np.flatnonzero(outputs != events.gates.false)
    batch = Circuits(events.gates, outputs[possible], rows)
    return CircuitFormulas(batch, possible, np.diff(found.indptr)[possible])


def some(batch: Countable, wanted: IntArray) -> Countable:
    """The entries of these answers."""
    return select(batch, wanted) if isinstance(batch, Batch) else batch.take(wanted)
