"""What remains of a formula for the network once everything that is easy has been computed.

``simplify`` goes first. Then a literal l that stands in most clauses is decided on,

    P(formula) = P(l) P(formula | l) + P(not l) P(formula | not l).

If all clauses but a few have l, those few are computed, and the network answers for formula | l alone; otherwise it
is asked about both. Such variables are what the network errs most on: in a formula of thousands of clauses the sum of
the messages to that one literal is beyond anything else in the graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.estimate import log1mexp
from sharpdnf.simplify import Simplified, simplify

FEW = 16
"""A literal is decided on if at most so many clauses do without it, and at most a quarter of all clauses, and if these
are solved on the way."""
MOST_DECIDED = 4
"""How many literals are decided on in this way, one after the other, at most."""
SHARE = 0.5
"""A literal that stands in this share of the clauses or more is decided on also if the network has to be asked about
both cases."""
MOST_SPLIT = 2
"""How many literals are decided on in that way, one after the other, at most: the network is asked about up to four
formulas, which together have at most 9/4 as many clauses as the whole."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """What remains of a formula, and how the answers to that become the whole's."""

    simplified: Simplified
    """The first step."""
    decided: _Decided | None
    """The literal that was decided on in what the first step left; None if there is none."""

    @classmethod
    def about(cls, dnf: DNF, most_decided: int = MOST_DECIDED, most_split: int = MOST_SPLIT) -> Remainder:
        """Computes what is easy. The formula has at least one clause, and none that is empty."""
        simplified = simplify(dnf)
        return cls(simplified, _decide(simplified.dnf, most_decided, most_split))

    @property
    def asked(self) -> list[DNF]:
        """The formulas that the network is to be asked about, each over the variables that occur in it."""
        if self.decided is not None:
            return [*self.decided.given.asked, *self.decided.otherwise.asked]
        return [self.simplified.dnf] if self.simplified.dnf.num_clauses else []

    def combine(self, log_mus: Sequence[float]) -> float:
        """log P of the original from log mu of each formula in ``asked``, in that order."""
        if self.decided is None:
            return self.simplified.combine(log_mus[0] if log_mus else -math.inf)
        return self.simplified.combine(self.decided.combine(log_mus))

    @property
    def notes(self) -> dict[str, int]:
        """How many things were taken out, by the names in ``simplify.NOTES``, and how many literals were decided on."""
        total = Counter(self.simplified.notes)
        if self.decided is not None:
            total.update(self.decided.given.notes)
            total.update(self.decided.otherwise.notes)
            total["decided"] += 1
        return dict(total)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A literal l that was decided on, and what remains in both cases."""

    log_prob: float
    """log P(l)"""
    given: Remainder
    """formula | l"""
    otherwise: Remainder
    """formula | not l"""

    def combine(self, log_mus: Sequence[float]) -> float:
        """log P of the formula from the answers about both cases, those about formula | l first."""
        first = len(self.given.asked)
        given, otherwise = self.given.combine(log_mus[:first]), self.otherwise.combine(log_mus[first:])
        return min(float(np.logaddexp(self.log_prob + given, log1mexp(self.log_prob) + otherwise)), 0.0)


def _decide(dnf: DNF, most_decided: int, most_split: int) -> _Decided | None:
    """The literal that stands in most clauses, decided; None if too many clauses do without it."""
    if dnf.num_clauses < 2:
        return None
    times = np.bincount(dnf.literals, minlength=2 * dnf.num_vars)
    literal = int(times.argmax())
    missing = dnf.num_clauses - int(times[literal])
    variable, holds = literal >> 1, float(1 - (literal & 1))
    log_prob = float(np.log(abs(1.0 - holds - dnf.prob[variable])))
    if most_decided and missing <= min(FEW, dnf.num_clauses // 4):
        otherwise = Remainder.about(_given(dnf, variable, 1.0 - holds), 0, 0)
        if not otherwise.asked:
            given = Remainder.about(_given(dnf, variable, holds), most_decided - 1, most_split)
            return _Decided(log_prob, given, otherwise)
    if most_split and missing <= (1.0 - SHARE) * dnf.num_clauses:
        cases = (_given(dnf, variable, value) for value in (holds, 1.0 - holds))
        return _Decided(log_prob, *(Remainder.about(case, most_decided, most_split - 1) for case in cases))
    return None


def _given(dnf: DNF, variable: int, value: float) -> DNF:
    """The formula in which a variable is certain."""
    prob = dnf.prob.copy()
    prob[variable] = value
    return dnf.with_prob(prob)
