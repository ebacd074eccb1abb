"""Which uncertain rows matter for an answer: P(answer | row) - P(answer | no row) of all of them at once."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF, FloatArray, IntArray, LitArray
from sharpdnf.engines.front import Seed, make_limit, make_rng
from sharpdnf.errors import NotMetWarning, SQLError
from sharpdnf.sensitivity import Influence, compile_within, exact_influence, influence
from sharpdnf.shapley import banzhaf, shapley, shares_of
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.lineage import Rows, build, possible

TOGETHER = 2_000_000
"""How many probabilities one evaluation under many vectors may hold: 16 MB of doubles."""
CIRCUIT_SECONDS = 10.0
"""For compiling a lineage that negates."""
SAMPLE_SECONDS = 20.0
"""How many seconds sampling may take for all rows of blocks together, unless the caller's timeout is shorter."""


def influences(
    clauses: Clauses,
    known: Rows,
    *,
    epsilon: float = 0.05,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
) -> tuple[IntArray, Influence]:
    """(rows, P(answer | row) - P(answer | no row) of each) for all rows that matter to one answer.

    Those are the rows in its clauses and the others of their blocks, whose presence excludes them.
    An independent row is a variable, so its influence is d P / d p: one pass gives all of them. A row of a block is a
    conjunction of choices: given the row they are all made, the others of its block are absent, and the formula is
    evaluated under these probabilities. Exact where the formula compiles, else sampled as :func:`influence` says.
    """
    rows = np.unique(clauses.literals >> 1).astype(np.int64)
    if not len(rows) or not np.diff(clauses.indptr).all():  # a certain answer needs no row
        return rows, exact_influence(np.zeros(len(rows)))
    others, first_of_other = _alternatives(rows, known)
    rows = np.union1d(rows, others[first_of_other])
    used = (2 * rows).astype(clauses.literals.dtype)
    # One more clause for each row shows how the row is encoded; beside the clauses' own only alternatives come in.
    more = clauses.indptr[-1] + np.arange(1, len(used) + 1)
    both = Clauses(np.concatenate([clauses.indptr, more]), np.concatenate([clauses.literals, used]))
    whole, literals = _split(build(both, np.array([0, len(both)]), known).batch[0], len(rows))
    limit = make_limit(timeout, None)
    in_block = known.block[rows] >= 0
    compiled = compile_within(whole, limit)
    if compiled is not None:
        slopes = compiled.gradient(whole.prob)[1]
        found = np.array([slopes[some[0] >> 1] for some in literals])
        chosen = np.flatnonzero(in_block)
        found[chosen] = _of_blocks(whole, compiled, [literals[i] for i in chosen], known.prob[rows[chosen]])
        known_rows = exact_influence(found)
    else:
        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta / (1 + int(in_block.sum())), "exact": False}
        asked["rng"] = make_rng(rng)[0]
        left = None if timeout is None else limit.seconds_left
        known_rows = _sampled(clauses, known, rows, whole, literals, asked, left)
    return _spread(rows, known_rows, others, first_of_other, known)


def shares(
    clauses: Clauses, known: Rows, *, measure: str, epsilon: float = 0.05, delta: float = 0.05, rng: Seed = None
) -> tuple[IntArray, Influence]:
    """(rows, the Banzhaf or Shapley value of each) of one answer: a coalition of rows wins if it holds a clause.

    Clauses that no world can have, as they need two rows that exclude each other, do not count.
    """
    clauses = clauses.take(np.flatnonzero(possible(clauses, known)))
    rows, variable = np.unique(clauses.literals >> 1, return_inverse=True)
    if not len(rows) or not np.diff(clauses.indptr).all():
        return rows.astype(np.int64), exact_influence(np.zeros(len(rows)))
    dnf = DNF.from_arrays(clauses.indptr, (2 * variable).astype(np.int32), known.prob[rows])
    value = shapley if measure == "shapley" else banzhaf
    return rows.astype(np.int64), value(dnf, epsilon=epsilon, delta=delta, rng=rng)


def circuit_shares(circuit: Circuit, rows: IntArray, known: Rows, measure: str) -> tuple[IntArray, Influence]:
    """(rows, the influence, Banzhaf or Shapley value of each) of an answer whose lineage negates.

    Only where the circuit compiles and its rows are independent: then each row is a variable.
    """
    if bool((rows < 0).any()) or bool((known.block[rows] >= 0).any()):
        raise SQLError("explain() knows no lineage with negation over exclusive rows: lineage(i) is the circuit")
    compiled = compile_circuit(circuit, make_limit(CIRCUIT_SECONDS, None))
    if compiled is None:
        raise SQLError(f"this lineage does not compile within {CIRCUIT_SECONDS:g} s: lineage(i) is the circuit")
    if measure == "influence":
        return rows, exact_influence(compiled.gradient(circuit.prob)[1])
    return rows, exact_influence(shares_of(compiled, circuit.num_vars, measure))


def _alternatives(rows: IntArray, known: Rows) -> tuple[IntArray, IntArray]:
    """(the other rows of the blocks of ``rows``, ordered by block; for each, the place of the least probable row of its
    block)."""
    blocks = np.unique(known.block[rows])
    others = np.setdiff1d(np.flatnonzero(np.isin(known.block, blocks[blocks >= 0])), rows)
    others = others[np.lexsort((known.prob[others], known.block[others]))]
    _, first, inverse = np.unique(known.block[others], return_index=True, return_inverse=True)
    return others, first[inverse]


def _spread(
    rows: IntArray, found: Influence, others: IntArray, first_of_other: IntArray, known: Rows
) -> tuple[IntArray, Influence]:
    """Adds the alternatives beside the one of each block whose influence was found.

    Given an alternative with probability q the rest of its block is absent, so P(F | row) is the same for all of a
    block, and with P(F) the influence (P(F | row) - P(F)) / (1 - q): one of them tells those of the others.
    """
    kept = np.flatnonzero(first_of_other != np.arange(len(others)))
    if not len(kept):
        return rows, found
    firsts = others[first_of_other[kept]]
    rest = 1.0 - known.prob[others[kept]]
    scale = np.where(rest > 0.0, (1.0 - known.prob[firsts]) / np.where(rest > 0.0, rest, 1.0), 0.0)
    places = np.searchsorted(rows, firsts)
    values, stderr, lower, upper = (
        np.concatenate([old, np.clip(old[places] * scale, -1.0, 1.0)])
        for old in (found.values, found.stderr, found.lower, found.upper)
    )
    wider = Influence(values, stderr, lower, upper, found.exact, found.samples, met=found.met)
    return np.concatenate([rows, others[kept]]), wider


def _split(dnf: DNF, singles: int) -> tuple[DNF, list[LitArray]]:
    """The formula without its last clauses, and the literals of these."""
    last = dnf.num_clauses - singles
    tails = [dnf.literals[a:b] for a, b in zip(dnf.indptr[last:-1], dnf.indptr[last + 1 :], strict=True)]
    return DNF(dnf.indptr[: last + 1].copy(), dnf.literals[: dnf.indptr[last]].copy(), dnf.prob), tails


def _of_blocks(whole: DNF, compiled: Compiled, literals: list[LitArray], prob: FloatArray) -> FloatArray:
    """P(F | no row) follows from P(F) = p P(F | row) + (1 - p) P(F | no row), and for p = 1 from an empty block."""
    plain = float(np.exp(compiled.evaluate(whole.prob))[0])
    step = max(1, TOGETHER // max(1, whole.num_vars))
    out = np.empty(len(literals))
    for start in range(0, len(literals), step):
        some = range(start, min(start + step, len(literals)))
        given, without = (np.repeat(whole.prob[None, :], len(some), axis=0) for _ in range(2))
        for place, i in enumerate(some):
            given[place, literals[i] >> 1] = (literals[i] & 1) == 0
            positive = literals[i][(literals[i] & 1) == 0]
            without[place, positive[0] >> 1] = 0.0  # the row's own choice in a chain, the root of a tree
        p = prob[start : start + len(some)]
        here = np.exp(compiled.evaluate(given))
        rest = (plain - p * here) / np.where(p < 1.0, 1.0 - p, 1.0)
        if (p == 1.0).any():
            rest[p == 1.0] = np.exp(compiled.evaluate(without[p == 1.0]))
        out[start : start + len(some)] = here - np.clip(rest, 0.0, 1.0)
    return out


def _sampled(
    clauses: Clauses,
    known: Rows,
    rows: IntArray,
    whole: DNF,
    literals: list[LitArray],
    asked: dict[str, Any],
    seconds: float | None,
) -> Influence:
    """All independent rows from one set of worlds; every row of a block from worlds of its own.

    A difference of two counts would be off by more than most influences are, so a row of a block becomes a variable.
    """
    in_block = known.block[rows] >= 0
    parts: list[tuple[Influence, int]] = []
    common: Influence | None = None
    until = time.monotonic() + (SAMPLE_SECONDS if seconds is None else seconds)
    left = int(in_block.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotMetWarning)
        if not in_block.all():
            common = influence(whole, timeout=None if seconds is None else seconds / (1 + bool(left)), **asked)
        for row, inside, encoded in zip(rows.tolist(), in_block.tolist(), literals, strict=True):
            if not inside:
                assert common is not None
                parts.append((common, int(encoded[0] >> 1)))
                continue
            dnf, variable = _as_variable(clauses, known, row)
            parts.append((influence(dnf, timeout=max(0.0, until - time.monotonic()) / left, **asked), variable))
            left -= 1
    values, stderr, lower, upper = (
        np.array([getattr(some, name)[v] for some, v in parts]) for name in ("values", "stderr", "lower", "upper")
    )
    samples = sum({id(some): some.samples for some, _ in parts}.values())
    found = Influence(values, stderr, lower, upper, False, samples, met=all(some.met for some, _ in parts))
    if not found.met:
        width = float(np.max(found.upper - found.lower, initial=0.0))
        message = f"there was no time for more draws: influences are known to intervals of up to {width:.2g} only"
        warnings.warn(message, NotMetWarning, stacklevel=4)
    return found


def _as_variable(clauses: Clauses, known: Rows, row: int) -> tuple[DNF, int]:
    """The formula with a row of a block as the first choice, a variable of its own; and that variable.

    The others of the block need that it is false, and then have their probabilities given that it is absent.
    """
    same = known.block == known.block[row]
    same[row] = False
    prob, block = known.prob.copy(), known.block.copy()
    prob[same] = prob[same] / (1.0 - prob[row]) if prob[row] < 1.0 else 0.0
    block[row] = -1
    clauses = clauses.take(np.flatnonzero(possible(clauses, known)))
    if not len(clauses):
        return DNF.from_clauses([], [float(prob[row])]), 0
    formulas = build(clauses, np.array([0, len(clauses)]), Rows(np.minimum(prob, 1.0), block))
    dnf = formulas.batch[0]
    place = np.flatnonzero(formulas.row_of_var == row)
    variable = int(place[0]) if len(place) else dnf.num_vars
    probs = dnf.prob if len(place) else np.append(dnf.prob, prob[row])
    excluded = np.zeros(len(clauses), dtype=bool)
    excluded[np.repeat(np.arange(len(clauses)), np.diff(clauses.indptr))[same[clauses.literals >> 1]]] = True
    literals = np.insert(dnf.literals, dnf.indptr[1:][excluded], 2 * variable + 1)
    indptr = dnf.indptr + np.concatenate([[0], np.cumsum(excluded)])
    return DNF.from_arrays(indptr, literals.astype(np.int32), probs), variable
