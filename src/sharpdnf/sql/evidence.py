"""Evidence: P(answer | what is known), for queries that are known to have an answer, or none.

P(A | B) = P(A and B) / P(B). B is a conjunction; the parts of it that share no uncertain row with an answer (through
other parts neither) are independent of it and cancel, so a key over a large table costs each answer only the groups of
rows that it touches. With a relative guarantee both counts get epsilon / (2 + epsilon) and delta / 2: then their ratio
is within 1 +- epsilon. Additive errors of both would promise nothing about the ratio, so an additive guarantee is
served by a relative one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn
from zlib import crc32

import numpy as np

from sharpdnf.dnf import IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.circuit_counting import count_circuits
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.emit.circuit_batch import Circuits, Conditioned
from sharpdnf.sql.emit.gates import Gates
from sharpdnf.sql.emit.independent_gates import rows_below
from sharpdnf.sql.emit.lineage import Rows


@dataclass(frozen=True, slots=True)
class Evidence:
    """A query that is known to have an answer; if ``holds`` is False, to have none."""

    sql: str
    """The query."""
    holds: bool = True
    """Whether the query is known to have an answer, or known to have none."""
    key: tuple[str, ...] = ()
    """Of a key: the table and the columns, since how a name is quoted depends on the database."""

    def written(self, dialect: str) -> Evidence:
        """The same with the query in the quotes of a database."""
        return replace(self, sql=_key_query(*self.key, dialect=dialect)) if self.key else self


Given = str | Evidence | Sequence[str | Evidence]


def denial(sql: str) -> Evidence:
    """The rows that a query asks for are known not to be there together: a denial constraint."""
    return Evidence(sql, holds=False)


def key(table: str, *columns: str) -> Evidence:
    """No two rows of a table agree in these columns; as in SQL, a NULL agrees with nothing."""
    if not columns:
        raise ValueError("key needs the table and at least one column")
    return Evidence(_key_query(table, *columns), holds=False, key=(table, *columns))


def _key_query(table: str, *columns: str, dialect: str = "") -> str:
    names = [quoted(name).sql(dialect) for name in columns]
    present = " AND ".join(f"{name} IS NOT NULL" for name in names)
    listed = ", ".join(names)
    return f"SELECT 1 FROM {table} WHERE {present} GROUP BY {listed} HAVING count(*) > 1"


def as_evidence(given: Given | None, given_not: Given | None = None) -> tuple[Evidence, ...]:
    """What was given, one entry each."""
    found: list[Evidence] = []
    for asked, holds in ((given, True), (given_not, False)):
        entries = [] if asked is None else list(asked) if isinstance(asked, list | tuple) else [asked]
        for entry in entries:
            if isinstance(entry, str):
                found.append(Evidence(entry, holds))
            elif isinstance(entry, Evidence):
                found.append(entry if holds else replace(entry, holds=not entry.holds))
            else:
                raise TypeError(f"evidence is SQL, key(...) or denial(...), not {type(entry).__name__}")
    return tuple(found)


def parts_of(gates: Gates, answers: IntArray, evidence: Evidence) -> IntArray:
    """The events that must hold together for the evidence: ``answers`` are those of its query's answers."""
    if evidence.holds:
        return gates.one_of(np.array([0, len(answers)]), answers)
    return gates.negate(answers)


def conditioned(gates: Gates, outputs: IntArray, parts: IntArray, rows: Rows) -> Conditioned:
    """Answers under evidence whose parts must all hold.

    The evidence of an answer is known by the smallest row of each component, which decides its draws: so they are the
    same whichever other answers are counted with it.
    """
    if (parts == gates.false).any():
        impossible()
    parts = np.unique(parts[parts != gates.true])
    component, owner = _components(rows_below(gates, parts, rows))
    places: dict[tuple[int, ...], int] = {}
    of = np.empty(len(outputs), dtype=np.int64)
    touched: list[tuple[int, ...]] = []
    for i, below in enumerate(rows_below(gates, outputs, rows)):
        found = tuple(sorted({owner[unit] for unit in below.tolist() if unit in owner}))
        of[i] = places.setdefault(found, len(places))
        touched.append(found)
    members = [np.flatnonzero(component == c) for c in range(int(component.max(initial=-1)) + 1)]
    lists = [np.concatenate([parts[members[c]] for c in chosen] or [parts[:0]]) for chosen in places]
    below = gates.all_of(np.cumsum([0, *map(len, lists)]), np.concatenate([parts[:0], *lists]))
    joint = gates.both([outputs, below[of]]) if len(outputs) else outputs
    first: dict[int, int] = {}
    for unit, c in owner.items():
        first[c] = min(unit, first.get(c, unit))
    named = [np.array(sorted(first[c] for c in chosen), dtype=np.int64) for chosen in places]
    numbers = np.array([crc32(units.tobytes()) for units in named], dtype=np.int64)
    return Conditioned(Circuits(gates, joint, rows), Circuits(gates, below, rows), of, numbers)


def _components(supports: list[IntArray]) -> tuple[IntArray, dict[int, int]]:
    """(the component of each part, that of each uncertain row): parts that share a row are in one component."""
    parent = list(range(len(supports)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[int, int] = {}
    for i, below in enumerate(supports):
        for unit in below.tolist():
            parent[root(i)] = root(first.setdefault(unit, i))
    roots = np.array([root(i) for i in range(len(supports))], dtype=np.int64)
    _, component = np.unique(roots, return_inverse=True)
    return component, {unit: int(component[i]) for unit, i in first.items()}


def check_possible(gates: Gates, parts: IntArray, rows: Rows, options: Options) -> None:
    """An error if the evidence has probability 0, whether an answer depends on it or not."""
    whole = conditioned(gates, parts, parts, rows).below
    counts = count_circuits(whole, options.replace(guarantee="bounds", progress=None))
    if (counts.upper <= 0.0).any():
        impossible()


def count_conditioned(batch: Conditioned, options: Options) -> Counts:
    """The probability of every answer given the evidence."""
    if not len(batch):
        return count_circuits(batch.joint, options)
    asked = options
    if options.guarantee in (None, "relative", "additive"):
        wanted = "relative" if options.guarantee == "additive" else options.guarantee
        asked = options.replace(
            guarantee=wanted, epsilon=options.epsilon / (2.0 + options.epsilon), delta=options.delta / 2.0
        )
    below = count_circuits(batch.below, asked.replace(progress=None, numbers=batch.numbers))
    if (below.upper <= 0.0).any():
        impossible()
    above = count_circuits(batch.joint, asked)
    of = batch.of
    with np.errstate(divide="ignore", invalid="ignore"):
        prob = np.minimum(1.0, above.prob / below.prob[of])
        lower = np.minimum(1.0, above.lower / below.upper[of])
        upper = np.where(below.lower[of] > 0.0, np.minimum(1.0, above.upper / below.lower[of]), 1.0)
    prob = np.clip(np.where(np.isfinite(prob), prob, upper), lower, upper)
    promise = [_promise({a, b}) for a, b in zip(above.guarantee, below.guarantee[of], strict=True)]
    guarantee = np.empty(len(promise), dtype=object)
    guarantee[:] = promise
    return Counts(prob, lower, upper, guarantee, above.engine, above.met & below.met[of])


def _promise(both: set[str]) -> str:
    """What two promises give for the ratio; an interval holds wherever those of both do."""
    if both == {"exact"}:
        return "exact"
    if both <= {"exact", "relative"}:
        return "relative"
    return "bounds" if both <= {"exact", "bounds"} else "interval"


def impossible() -> NoReturn:
    """The error for evidence of probability 0."""
    raise SQLError("the evidence is impossible: it has probability 0, so nothing can be said given it")
