"""Formulas -> one batched literal / conjunction / disjunction graph (the paper's Figure 1).

A batch is a bigger graph with shifted indices: N variables, M conjunctions and F disjunction nodes in all. Literal
nodes are laid out with all positive literals first, so that the negation of node x is x + N or x - N and the two
halves of any per-literal array are each other's negations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sharpdnf import _native
from sharpdnf.dnf import DNF, Batch


@dataclass(frozen=True)
class Edges:
    """A 0/1 matrix in CSR form: row r sums over ``indices[indptr[r]:indptr[r + 1]]``; int64 and int32."""

    indptr: Tensor
    indices: Tensor

    @property
    def num_rows(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def row_of_edge(self) -> Tensor:
        """int64[edges]: the row of every edge, for devices on which the sum is a scatter."""
        rows = torch.arange(self.num_rows, device=self.indptr.device)
        return torch.repeat_interleave(rows, self.indptr.diff())

    def to(self, device: torch.device | str) -> Edges:
        return Edges(self.indptr.to(device), self.indices.to(device))


@dataclass(frozen=True)
class Adjacency:
    """Edges from source to target nodes, and the same edges backwards for the other direction and the gradients."""

    forward: Edges
    backward: Edges

    @property
    def reverse(self) -> Adjacency:
        return Adjacency(self.backward, self.forward)

    @classmethod
    def of(cls, indptr: np.ndarray, indices: np.ndarray, num_sources: int) -> Adjacency:
        """The adjacency whose targets are the rows of the CSR arrays and whose sources are its columns."""
        back_indptr, back_indices = _native.transpose(indptr, indices, num_sources)
        arrays = (indptr, indices, back_indptr, back_indices)
        a, b, c, d = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
        return cls(Edges(a, b), Edges(c, d))

    def to(self, device: torch.device | str) -> Adjacency:
        return Adjacency(self.forward.to(device), self.backward.to(device))


@dataclass(frozen=True)
class Graph:
    """A batch of formulas as the network sees it."""

    prob: Tensor
    """float32[N]: P(variable); may require a gradient."""
    conjunctions: Adjacency
    """The edges from literal nodes [2N] to conjunction nodes [M]."""
    disjunctions: Adjacency
    """The edges from conjunction nodes [M] to disjunction nodes [F]."""
    var_indptr: tuple[int, ...]
    """Where the variables of each formula begin: formula f owns ``var_indptr[f]:var_indptr[f + 1]``."""

    @property
    def num_vars(self) -> int:
        return len(self.prob)

    @property
    def num_clauses(self) -> int:
        return self.conjunctions.forward.num_rows

    @property
    def num_formulas(self) -> int:
        return self.disjunctions.forward.num_rows

    @classmethod
    def of(cls, formulas: Sequence[DNF]) -> Graph:
        """Stacks formulas, each over its own variables."""
        batch = Batch.of(formulas)
        literals, num_vars = batch.dnf.literals, batch.dnf.num_vars
        nodes = ((literals >> 1) + (literals & 1) * np.int32(num_vars)).astype(np.int32)
        every_clause = np.arange(batch.dnf.num_clauses, dtype=np.int32)
        starts = np.cumsum([0] + [f.num_vars for f in formulas])
        return cls(
            torch.tensor(batch.dnf.prob, dtype=torch.float32),
            Adjacency.of(np.array(batch.dnf.indptr), nodes, 2 * num_vars),
            Adjacency.of(np.array(batch.formula_indptr), every_clause, batch.dnf.num_clauses),
            tuple(starts.tolist()),
        )

    def to(self, device: torch.device | str) -> Graph:
        return replace(
            self,
            prob=self.prob.to(device),
            conjunctions=self.conjunctions.to(device),
            disjunctions=self.disjunctions.to(device),
        )

    def with_prob(self, prob: Tensor) -> Graph:
        """The same graph under other probabilities, for gradients with respect to them."""
        return replace(self, prob=prob)
