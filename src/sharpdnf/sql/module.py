"""The answers of a query as a layer: probabilities of uncertain rows in, log P of every answer out, with gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sharpdnf.circuit import VAR, Circuit
from sharpdnf.dnf import DNF, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.torch import Probability

Lineage = Clauses | tuple[Circuit, IntArray] | bool
"""Clauses over numbers of rows; a circuit and the number of the row behind each of its variables; or a constant."""
SLACK = 1e-6
"""How far above 1 the probabilities of a block may add up to: float32 rounds by as much."""
TINY = 1e-12


class AnswersModule(torch.nn.Module):
    """Probabilities of the uncertain rows, shape (..., rows), to log P of the answers, shape (..., answers).

    ``rows`` names the rows in the order of the input, ``prob`` are their probabilities in the tables, float64[rows]:
    what goes in if nothing does. Rows of one block exclude each other, so their probabilities may add up to 1 at most.
    ``probability`` is the layer behind it; its options are those of :class:`sharpdnf.torch.Probability`.
    """

    prob: torch.Tensor

    def __init__(
        self, answers: Sequence[Lineage], numbers: IntArray, names: Sequence[str], known: Rows, **options: Any
    ) -> None:
        """``answers`` are over the rows ``numbers``; one that needs no row is True, an impossible one False."""
        super().__init__()
        self.rows = tuple(names)
        self.register_buffer("prob", torch.from_numpy(known.prob[numbers].copy()))
        block = known.block[numbers]
        order = np.lexsort((numbers, block))
        self._chained = torch.from_numpy(order[block[order] >= 0])
        place, first = _places(block[self._chained.numpy()])
        self._first = torch.from_numpy(first)
        formulas: list[DNF | Circuit] = []
        for answer in answers:
            if isinstance(answer, tuple):
                formulas.append(_renumbered(*answer, numbers, known))
            else:
                formulas.append(_formula(answer, numbers, self._chained.numpy(), place))
        self.probability = Probability(formulas, **options)

    def forward(self, probs: torch.Tensor | None = None) -> torch.Tensor:
        probs = self.prob if probs is None else probs
        if probs.ndim == 0 or probs.shape[-1] != len(self.rows):
            raise ValueError(f"expected probabilities of shape (..., {len(self.rows)}), not {tuple(probs.shape)}")
        out: torch.Tensor = self.probability(self._choices(probs) if len(self._chained) else probs)
        return out.to(probs.dtype)

    def _choices(self, probs: torch.Tensor) -> torch.Tensor:
        """Row j of a block becomes p_j / (1 - p_1 - ... - p_{j-1}): it is chosen after those before it were not."""
        p = probs[..., self._chained].double()
        up_to = p.cumsum(-1)
        before = up_to - p
        before = (before - before[..., self._first]).clamp_min(0.0)
        if bool((before + p > 1.0 + SLACK).any()):
            raise ValueError("the probabilities of a block of exclusive rows add up to more than 1")
        # Rounding may leave less than p_j, and after a certain row nothing: never divide by less than either.
        chosen = p / torch.maximum(1.0 - before, p).clamp_min(TINY)
        return probs.double().index_copy(-1, self._chained, chosen)

    def extra_repr(self) -> str:
        return f"{len(self.rows)} uncertain rows, {len(self._chained)} of them in blocks"


def _places(block: IntArray) -> tuple[IntArray, IntArray]:
    """(the place of each row within its block, the position of the block's first row), for rows sorted by block."""
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    first = np.repeat(starts, np.diff(np.append(starts, len(block)))).astype(np.int64)
    return np.arange(len(block)) - first, first


def _formula(answer: Clauses | bool, numbers: IntArray, chained: IntArray, place: IntArray) -> DNF:
    """The lineage of one answer, where a row of a block is "not x_1, ..., not x_{j-1}, x_j"."""
    n = len(numbers)
    if isinstance(answer, bool):
        return DNF.from_clauses([[]] if answer else [], num_vars=n)
    literals_of: dict[int, list[int]] = {int(number): [i + 1] for i, number in enumerate(numbers)}
    for position, (i, j) in enumerate(zip(chained.tolist(), place.tolist(), strict=True)):
        earlier = chained[position - j : position].tolist()
        literals_of[int(numbers[i])] = [*(-(e + 1) for e in earlier), i + 1]
    rows, ends = (answer.literals >> 1).tolist(), answer.indptr.tolist()
    clauses = [[lit for row in rows[a:b] for lit in literals_of[row]] for a, b in itertools.pairwise(ends)]
    return DNF.from_clauses(clauses, num_vars=n)


def _renumbered(circuit: Circuit, rows: IntArray, numbers: IntArray, known: Rows) -> Circuit:
    """The circuit over all rows ``numbers``."""
    if bool((rows < 0).any()) or bool((known.block[rows] >= 0).any()):
        raise SQLError("module() knows no negation over blocks of exclusive rows yet")
    variables = np.searchsorted(numbers, rows).astype(np.int32)
    arg = circuit.arg.copy()
    arg[circuit.kind == VAR] = variables[arg[circuit.kind == VAR]]
    return Circuit(circuit.kind, arg, circuit.indptr, circuit.inputs, circuit.outputs, np.full(len(numbers), 0.5))


def uncertain_rows(answers: Sequence[Lineage]) -> IntArray:
    """The numbers of the rows that occur in some answer, in order."""
    found = [np.zeros(0, dtype=np.int64)]
    for answer in answers:
        if isinstance(answer, tuple):
            found.append(answer[1][answer[1] >= 0])
        elif not isinstance(answer, bool):
            found.append(np.asarray(answer.literals >> 1))
    return np.unique(np.concatenate(found)).astype(np.int64)
