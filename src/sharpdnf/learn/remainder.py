"""What remains of a formula for the network once everything that is easy has been computed.

``simplify`` goes first. Then a literal l that stands in all clauses but a few is decided on,

    P(formula) = P(l) P(formula | l) + P(not l) P(formula | not l),

and the few clauses without l are computed, so that the network answers for formula | l alone. Such variables are what
the network errs most on: in a formula of thousands of clauses the sum of the messages to that one literal is beyond
anything else in the graph.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.estimate import log1mexp
from sharpdnf.simplify import Simplified, simplify

FEW = 16
"""A literal is decided on if at most so many clauses do without it, and at most a quarter of all clauses."""
MOST_DECIDED = 4
"""How many literals are decided on, one after the other, at most."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """What deciding on one literal leaves to be put together."""

    log_prob: float
    """log P(l)"""
    log_otherwise: float
    """log(P(not l) P(formula | not l)), which is computed."""
    given: Simplified
    """formula | l, simplified."""

    def combine(self, log_mu: float) -> float:
        """log P of the formula from log mu of what remains of formula | l."""
        return min(float(np.logaddexp(self.log_otherwise, self.log_prob + self.given.combine(log_mu))), 0.0)


@dataclass(frozen=True, slots=True)
class Remainder:
    """What remains of a formula, and how the answer to that becomes the whole's."""

    dnf: DNF
    """One formula over the variables that occur in it; no clause if nothing is left to ask."""
    simplified: Simplified
    """The first step."""
    decided: tuple[_Decided, ...]
    """The literals that were decided on, in order."""

    @classmethod
    def about(cls, dnf: DNF) -> Remainder:
        """Computes what is easy. The formula has at least one clause, and none that is empty."""
        simplified = simplify(dnf)
        rest = simplified.dnf
        decided: list[_Decided] = []
        while len(decided) < MOST_DECIDED and (found := _decide(rest)) is not None:
            decided.append(found)
            rest = found.given.dnf
        return cls(rest, simplified, tuple(decided))

    def combine(self, log_mu: float) -> float:
        """log P of the original from log mu of what remains."""
        for step in reversed(self.decided):
            log_mu = step.combine(log_mu)
        return self.simplified.combine(log_mu)

    @property
    def notes(self) -> dict[str, int]:
        """How many things were taken out, by the names in ``simplify.NOTES``, and how many literals were decided on."""
        total = Counter(self.simplified.notes)
        for step in self.decided:
            total.update(step.given.notes)
        return {**total, **({"decided": len(self.decided)} if self.decided else {})}


def _decide(dnf: DNF) -> _Decided | None:
    """The literal that stands in most clauses, decided; None if too many clauses do without it, or if they are not
    solved on the way."""
    if dnf.num_clauses < 2:
        return None
    times = np.bincount(dnf.literals, minlength=2 * dnf.num_vars)
    literal = int(times.argmax())
    missing = dnf.num_clauses - int(times[literal])
    if missing > min(FEW, dnf.num_clauses // 4):
        return None
    variable, holds = literal >> 1, float(1 - (literal & 1))
    otherwise = simplify(_given(dnf, variable, 1.0 - holds))
    if otherwise.dnf.num_clauses:
        return None
    log_prob = float(np.log(abs(1.0 - holds - dnf.prob[variable])))
    log_otherwise = log1mexp(log_prob) + otherwise.combine(-math.inf)
    return _Decided(log_prob, log_otherwise, simplify(_given(dnf, variable, holds)))


def _given(dnf: DNF, variable: int, value: float) -> DNF:
    """The formula in which a variable is certain."""
    prob = dnf.prob.copy()
    prob[variable] = value
    return dnf.with_prob(prob)
