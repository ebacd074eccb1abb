"""Formulas from formulas: ``a | b``, ``a & b``, and text with parentheses multiplied out."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from sharpdnf.dnf import DNF, MAX_VARS
from sharpdnf.errors import InvalidFormula, LimitError

EXPANDED = 200_000
"""The most literals that a text with parentheses may have once it is multiplied out; beyond that it is refused."""
_TOKEN = re.compile(r"\s*(?:([()|&~!])|([^\s()|&~!]+))")
_BINDS = {"|": 1, "&": 2, "~": 3}

Clause = frozenset[int]
Clauses = frozenset[Clause]


def disjunction(left: DNF, right: DNF) -> DNF:
    """The formula that is true where either is: the clauses of both.

    Variables with the same name are one variable; without names, variables with the same number are.
    """
    left, right = over_same_variables(left, right)
    indptr = np.concatenate([left.indptr, right.indptr[1:] + left.num_literals])
    return DNF.trusted(indptr, np.concatenate([left.literals, right.literals]), left.prob, names=left.names)


def conjunction(left: DNF, right: DNF) -> DNF:
    """The formula that is true where both are: every clause of one joined with every clause of the other.

    Variables with the same name are one variable; without names, variables with the same number are.
    """
    left, right = over_same_variables(left, right)
    size = left.num_literals * right.num_clauses + right.num_literals * left.num_clauses
    if size > MAX_VARS:
        raise LimitError(
            f"as a DNF the conjunction of the two formulas has {size:,} literals, more than the {MAX_VARS:,} allowed: "
            "join them as circuits instead (Circuit.from_dnf, Builder.include)"
        )
    a = np.repeat(np.arange(left.num_clauses), right.num_clauses)
    b = np.tile(np.arange(right.num_clauses), left.num_clauses)
    widths = np.stack([left.widths[a], right.widths[b]], axis=1)
    starts = np.stack([left.indptr[a], right.indptr[b] + left.num_literals], axis=1)
    ends = np.cumsum(widths.ravel())
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - widths.ravel(), widths.ravel())
    literals = np.concatenate([left.literals, right.literals])[np.repeat(starts.ravel(), widths.ravel()) + within]
    indptr = np.concatenate([[0], np.cumsum(widths.sum(axis=1))]).astype(np.int64)
    joined = DNF.from_arrays(indptr, literals.astype(np.int32), left.prob, names=left.names)
    return DNF.trusted(*joined.arrays, names=left.names)


def over_same_variables(left: DNF, right: DNF) -> tuple[DNF, DNF]:
    """Both formulas over the variables of either: those with one name are one variable, whatever their numbers."""
    if left.names is not None and right.names is not None and left.names != right.names:
        place = {name: v for v, name in enumerate(left.names)}
        moved = np.array([place.setdefault(name, len(place)) for name in right.names], dtype=np.int32)
        prob = np.empty(len(place))
        prob[moved], prob[: left.num_vars] = right.prob, left.prob
        if not np.array_equal(prob[moved], right.prob):
            wrong = right.names[int(np.argmax(prob[moved] != right.prob))]
            raise InvalidFormula(f"the two formulas give the variable {wrong!r} different probabilities")
        literals = 2 * moved[right.literals >> 1] + (right.literals & 1)
        left = DNF(left.indptr, left.literals, prob, names=tuple(place))
        right = DNF.from_arrays(right.indptr, literals, prob, names=tuple(place))
    if left.num_vars != right.num_vars or not np.array_equal(left.prob, right.prob):
        raise InvalidFormula("both formulas must have the same variables and probabilities")
    return left, right


def expand(text: str, index: dict[str, int]) -> list[list[int]]:
    """The clauses of a text with parentheses, as signed 1-based literals; names are numbered in ``index``.

    ``&`` is distributed over ``|`` and a negation is driven inwards, clauses that another one implies are dropped, and
    a formula that grows beyond ``EXPANDED`` literals is refused: count it as a ``Circuit`` instead.
    """
    values: list[Clauses] = []
    waiting: list[tuple[str, int]] = []
    operand_next = True

    def fail(at: int, expected: str) -> InvalidFormula:
        shown = text[at : at + 40].strip() or "the end"
        return InvalidFormula(f"expected {expected} at column {at + 1}, not {shown!r}")

    def reduce(least: int) -> None:
        while waiting and waiting[-1][0] != "(" and _BINDS[waiting[-1][0]] >= least:
            sign, _ = waiting.pop()
            if sign == "~":
                values.append(_negate(values.pop()))
            else:
                right, left = values.pop(), values.pop()
                values.append(_minimal(left | right) if sign == "|" else _product(left, right))

    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise fail(at, "a name")
        sign, name = match[1], match[2]
        start = match.start(1) if sign else match.start(2)
        if name or sign in ("(", "~", "!"):
            if not operand_next:
                raise fail(start, "| or &")
            if name:
                values.append(_literal(name, index))
                operand_next = False
            else:
                waiting.append(("(" if sign == "(" else "~", start))
        elif operand_next:
            raise fail(start, "a name or (")
        elif sign == ")":
            reduce(0)
            if not waiting:
                raise fail(start, "| or &: this ) closes nothing")
            waiting.pop()
        else:
            reduce(_BINDS[sign])
            waiting.append((sign, start))
            operand_next = True
        at = match.end()
    if operand_next:
        raise fail(len(text), "a name or (")
    reduce(0)
    if waiting:
        raise InvalidFormula(f"the ( at column {waiting[-1][1] + 1} is never closed")
    return [sorted(clause, key=abs) for clause in sorted(values[0], key=lambda c: sorted(c, key=abs))]


def _literal(name: str, index: dict[str, int]) -> Clauses:
    if name in ("true", "false"):
        return frozenset([frozenset[int]()]) if name == "true" else frozenset()
    return frozenset([frozenset([index.setdefault(name, len(index) + 1)])])


def _negate(clauses: Clauses) -> Clauses:
    """The negation, by De Morgan: a clause for every way to take one literal of each clause and negate it."""
    out: Clauses = frozenset([frozenset[int]()])
    for clause in sorted(clauses, key=len):
        out = _product(out, frozenset(frozenset([-lit]) for lit in clause))
    return out


def _product(left: Clauses, right: Clauses) -> Clauses:
    if sum(map(len, left)) * len(right) + sum(map(len, right)) * len(left) > EXPANDED:
        raise LimitError(f"the text has more than {EXPANDED:,} literals as a DNF: use Circuit.parse")
    pairs = (a | b for a in left for b in right)
    return _minimal(pair for pair in pairs if not any(-lit in pair for lit in pair))


def _minimal(clauses: Iterable[Clause]) -> Clauses:
    """Drops the clauses that contain another one. Where there are very many, only repeated clauses are dropped."""
    distinct = sorted(set(clauses), key=len)
    if len(distinct) > 2_000:
        return frozenset(distinct)
    kept: list[Clause] = []
    for clause in distinct:
        if not any(other <= clause for other in kept):
            kept.append(clause)
    return frozenset(kept)
