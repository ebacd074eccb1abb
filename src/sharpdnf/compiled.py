"""A finished d-tree as an arithmetic circuit: one formula under any probabilities, forwards, backwards, or exactly.

Every node is a formula: a constant, a term (product of literals), an "or" or "and" of two formulas that share no
variable, or a Shannon expansion. Children come before parents; the last node is the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.dnf import FloatArray, LitArray
from sharpdnf.estimate import Limit

FALSE, TRUE, TERM, OR, AND, SHANNON = range(6)
NO_WEIGHTS: FloatArray = np.empty(0)
"""Given as weights of outputs: each of them weighs 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """Nodes as arrays. ``a, b`` are children (Shannon: ``a`` if ``var`` is true); a term is ``literals[a:b]``."""

    kind: npt.NDArray[np.uint8]
    """uint8[k]: what each node is; a node comes after those that it reads, the root last."""
    a: npt.NDArray[np.int32]
    """int32[k]: the first child, or where a term begins in ``literals``."""
    b: npt.NDArray[np.int32]
    """int32[k]: the second child, or where a term ends."""
    var: npt.NDArray[np.int32]
    """int32[k]: the variable that a Shannon node decides."""
    literals: npt.NDArray[np.int32]
    """int32: the literals of all terms."""
    num_vars: int
    """How many variables the formula has."""

    @classmethod
    def from_native(cls, found: _native.CompiledArrays | None, num_vars: int) -> Self | None:
        """What a kernel compiled, if it got so far."""
        if found is None:
            return None
        return cls(found.kind, found.a, found.b, found.var, found.literals, num_vars)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.kind)

    def evaluate(self, probs: npt.ArrayLike, *, threads: int = 1) -> FloatArray:
        """float64[k]: log P under each row of ``probs``, shape (k, n) or (n,)."""
        rows = np.atleast_2d(self._rows(probs))
        return self._batch(rows, slopes=False, of_log=False, threads=threads)[0]

    def log_gradient(self, probs: npt.ArrayLike, *, threads: int = 1) -> tuple[Any, FloatArray]:
        """(log P, d log P / d prob[v]) by one backward pass, shapes as in ``gradient``; zeros if P is 0."""
        return self._slopes(probs, True, threads)

    def gradient(self, probs: npt.ArrayLike, *, threads: int = 1) -> tuple[Any, FloatArray]:
        """(log P, d P / d prob[v], which need not be 0 where P is).

        For n probabilities a float and float64[n]; for k rows of them, shape (k, n), float64[k] and float64[k, n].
        """
        return self._slopes(probs, False, threads)

    def _slopes(self, probs: npt.ArrayLike, of_log: bool, threads: int) -> tuple[Any, FloatArray]:
        rows = self._rows(probs)
        log_prob, slopes = self._batch(np.atleast_2d(rows), slopes=True, of_log=of_log, threads=threads)
        if rows.ndim == 1:
            return float(log_prob[0]), slopes
        return log_prob, slopes.reshape(rows.shape)

    def _rows(self, probs: npt.ArrayLike) -> FloatArray:
        rows = np.ascontiguousarray(probs, dtype=np.float64)
        if rows.ndim not in (1, 2) or rows.shape[-1] != self.num_vars:
            raise ValueError(f"expected rows of {self.num_vars} probabilities, not shape {rows.shape}")
        return rows

    def _batch(self, rows: FloatArray, *, slopes: bool, of_log: bool, threads: int) -> tuple[FloatArray, FloatArray]:
        root = np.array([self.num_nodes - 1], dtype=np.int32)
        found, gradient, _ = self.batch(root, rows, NO_WEIGHTS if slopes else None, of_log=of_log, threads=threads)
        return found, gradient

    def batch(
        self,
        outputs: npt.NDArray[np.int32],
        rows: FloatArray,
        weights: FloatArray | None = None,
        *,
        of_log: bool = True,
        threads: int = 1,
    ) -> tuple[FloatArray, FloatArray, float]:
        """(log P of the nodes ``outputs``, slopes, the largest absolute value of the slopes) under ``rows`` of
        probabilities, float64[k, n]. The arrays are flat.

        With ``weights``, float64[k, outputs], or NO_WEIGHTS where each is 1, the slopes are float64[k n]: the sums over
        the outputs of weight times d log P / d prob, or d P / d prob unless ``of_log``. A log P of minus infinity adds
        nothing.
        """
        wanted, (count, num_vars) = weights is not None, rows.shape
        flat = NO_WEIGHTS if weights is None else weights.ravel()
        return _native.compiled_batch(
            *self._arrays, outputs, rows.ravel(), count, num_vars, flat, wanted, of_log, threads
        )

    def marginals(self, prob: npt.ArrayLike) -> FloatArray:
        """float64[n] or [k, n]: P(v | formula) = p + p (1 - p) d log P / d p. The formula must be possible."""
        values = np.asarray(prob, dtype=np.float64)
        log_prob, slope = self.log_gradient(values)
        finite = np.isfinite(slope)
        out = values + values * (1.0 - values) * np.where(finite, slope, 0.0)
        if not finite.all():  # the slope is about 1 / p, beyond doubles where p is below 1e-308: then by Bayes' theorem
            for *row, v in np.argwhere(~finite).tolist():
                surely = np.array(values[tuple(row)])
                surely[v] = 1.0
                log_joint = self.evaluate(surely)[0] + np.log(values[(*row, v)])
                out[(*row, v)] = np.exp(log_joint - np.asarray(log_prob)[tuple(row)])
        return np.clip(out, 0.0, 1.0)

    def count(self, limit: Limit | None = None) -> int | None:
        """The number of satisfying assignments over all n variables, as an exact integer; None at the deadline."""
        # Values are numerator / 2^shift, a shift at most the number of variables below the node.
        value: list[tuple[int, int]] = []
        last_use = self._last_use()
        for i, kind, a, b in self._nodes():
            if kind <= TRUE:
                value.append((kind, 0))
            elif kind == TERM:
                value.append((1, b - a))
            else:
                if limit is not None and i % 1024 == 0 and limit.expired:
                    return None
                (x, s), (y, t) = value[a], value[b]
                if kind == AND:
                    value.append((x * y, s + t))
                elif kind == OR:
                    value.append(((x << t) + (y << s) - x * y, s + t))
                else:
                    shift = max(s, t)
                    value.append(((x << (shift - s)) + (y << (shift - t)), shift + 1))
                for child in (a, b):
                    if last_use[child] == i:
                        value[child] = (0, 0)  # big integers are let go as soon as nobody needs them
        numerator, shift = value[-1]
        return numerator << (self.num_vars - shift)

    def fraction(self, prob: Sequence[Fraction]) -> Fraction:
        """P as an exact rational."""
        value: list[Fraction] = []
        for i, kind, a, b in self._nodes():
            if kind <= TRUE:
                value.append(Fraction(kind))
            elif kind == TERM:
                product = Fraction(1)
                for lit in self.literals[a:b].tolist():
                    product *= 1 - prob[lit >> 1] if lit & 1 else prob[lit >> 1]
                value.append(product)
            elif kind == AND:
                value.append(value[a] * value[b])
            elif kind == OR:
                value.append(value[a] + value[b] - value[a] * value[b])
            else:
                p = prob[int(self.var[i])]
                value.append(p * value[a] + (1 - p) * value[b])
        return value[-1]

    @property
    def _arrays(self) -> tuple[npt.NDArray[np.uint8], LitArray, LitArray, LitArray, LitArray]:
        return self.kind, self.a, self.b, self.var, self.literals

    def _nodes(self) -> list[tuple[int, int, int, int]]:
        return list(zip(range(self.num_nodes), self.kind.tolist(), self.a.tolist(), self.b.tolist(), strict=True))

    def _last_use(self) -> list[int]:
        inner = self.kind >= OR
        last = np.zeros(self.num_nodes, dtype=np.int64)
        parents = np.flatnonzero(inner)
        np.maximum.at(last, self.a[inner], parents)
        np.maximum.at(last, self.b[inner], parents)
        return last.tolist()


def merged(parts: Sequence[Compiled]) -> tuple[Compiled, npt.NDArray[np.int32]]:
    """(one circuit, the node in it that is each part's whole): nodes that are equal are kept once."""
    place_of: dict[tuple[object, ...], int] = {}
    nodes: list[tuple[int, int, int, int]] = []
    literals: list[int] = []
    outputs = []
    for part in parts:
        own = part.literals.tolist()
        place: list[int] = []
        for (_, kind, a, b), var in zip(part._nodes(), part.var.tolist(), strict=True):
            term = tuple(own[a:b]) if kind == TERM else ()
            if kind > TERM:
                a, b = place[a], place[b]  # noqa: PLW2901
            key = (kind, a, b, var) if kind == SHANNON else (kind, a, b) if kind > TERM else (kind, *term)
            if key not in place_of:
                place_of[key] = len(nodes)
                ends = (len(literals), len(literals) + len(term)) if kind == TERM else (a, b) if kind > TERM else (0, 0)
                literals += term
                nodes.append((kind, *ends, var if kind == SHANNON else 0))
            place.append(place_of[key])
        outputs.append(place[-1])
    kinds, a_of, b_of, vars_ = (np.array(column) for column in zip(*nodes, strict=True))
    whole = Compiled(
        kinds.astype(np.uint8),
        a_of.astype(np.int32),
        b_of.astype(np.int32),
        vars_.astype(np.int32),
        np.array(literals, dtype=np.int32),
        max(part.num_vars for part in parts),
    )
    return whole, np.array(outputs, dtype=np.int32)
