"""Formula -> a smaller equivalent problem, and how to put the answer together.

P(formula) = F (1 - M (1 - mu)): F is the probability of the literals common to all clauses, M the probability that no
component solved on the way comes true, mu the probability of the one formula that remains. A relative error epsilon
of mu is at most a relative error epsilon of the whole, since P grows with mu and dP/P <= dmu/mu; so the remaining
components are sampled as one formula and delta is not divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF, IntArray
from sharpdnf.estimate import log1mexp

NOTES = ("impossible", "duplicate", "absorbed", "fixed", "negated_units", "factored", "solved")
"""What ``Simplified.notes`` counts, in the order of the names: clauses with a literal of probability 0; repeated
clauses; clauses that contain another one; variables of probability 0 or 1; literals dropped because of one-literal
clauses (l or (~l and D) is l or D); literals common to all clauses; components solved exactly."""


@dataclass(frozen=True, slots=True)
class Simplified:
    """What remains of a formula, and how its answer becomes the whole's."""

    dnf: DNF
    """One formula over the variables that occur in it; no clause if nothing is left to solve."""
    kept: IntArray | None
    """int64[n']: the original variable of each remaining one; None if nothing changed."""
    fold: _native.Fold
    """F and M as logarithms. 1 - F is kept apart so that 1 - P keeps its digits, 1 - M because M rounds to 1 when the
    solved components are unlikely."""
    notes: dict[str, int]
    """How many things were removed, by the names in NOTES; a name with nothing removed is missing."""

    @property
    def variables(self) -> IntArray:
        """int64[n']: the original variable of each remaining one."""
        return np.arange(self.dnf.num_vars) if self.kept is None else self.kept

    @property
    def alone(self) -> bool:
        """Whether the probability of what remains is already that of the original: F = 1 and M = 1."""
        return self.fold.log_cofactor == -math.inf and self.fold.log_hit == -math.inf

    def combine(self, log_mu: float) -> float:
        """log P of the original from log mu of what remains: log F + log((1 - M) + M mu)."""
        return self.whole(log_mu, log1mexp(log_mu))[0]

    def whole(self, log_mu: float, log_nu: float, direction: int = 0) -> tuple[float, float]:
        """(log P, log(1 - P)) of the original from (log mu, log(1 - mu)) of what remains.

        1 - P is (1 - F) + F M (1 - mu). A bound is rounded down with ``direction`` -1 and up with 1.
        """
        return self.fold.whole(log_mu, log_nu, direction)


def simplify(dnf: DNF, *, solve: bool = True, seconds: float = math.inf) -> Simplified:
    """Removes what can be removed in linear time; ``solve`` also solves small components exactly.

    The steps: variables of probability 0 or 1, impossible and duplicate clauses, absorbed clauses (within a linear
    budget), negations of one-literal clauses, common literals, and independent components, of which those of one
    clause are always folded in. A formula that is true has no clause left and log M = -inf. After ``seconds`` the
    formula is left as it is.
    """
    found = _native.simplify(*dnf.arrays, solve, seconds)
    notes = {name: n for name in NOTES if (n := getattr(found, name))}
    if found.unchanged:
        return Simplified(dnf, None, found.fold, notes)
    kept = found.variables.astype(np.int64)
    names = None if dnf.names is None else tuple(dnf.names[v] for v in kept)
    rest = DNF.trusted(found.indptr, found.literals, found.prob, names=names)
    return Simplified(rest, kept, found.fold, notes)


def trivial_log_prob(dnf: DNF) -> float | None:
    """log P of a formula without clauses or with an empty one, else None."""
    if dnf.num_clauses == 0:
        return -math.inf
    return 0.0 if bool(np.any(dnf.indptr[1:] == dnf.indptr[:-1])) else None
