"""Gates grown by whole arrays: the events behind the rows of a query that negates.

Gate r below ``rows`` is uncertain row r; then stand FALSE and TRUE; the others read gates before them. A column of
events is an array of gate numbers, and every operation takes and gives such columns: no loop runs over rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf.circuit import AND, ATLEAST, FALSE, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.dnf import IntArray
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.blocks import encode
from sharpdnf.sql.emit.lineage import Rows


@dataclass(frozen=True, slots=True)
class Layer:
    """Gates of one kind that were made together: gate ``first + i`` reads ``inputs[indptr[i]:indptr[i + 1]]``."""

    first: int
    kind: int
    arg: IntArray
    """Of ATLEAST: how many inputs must be true."""
    indptr: IntArray
    inputs: IntArray
    exclusive: bool = False
    """Of OR: whether no two inputs are ever true together."""

    @property
    def end(self) -> int:
        return self.first + len(self.indptr) - 1


def distinct(values: IntArray) -> IntArray:
    """The different values in order; the same array if it is that already. Faster than numpy's hash of them."""
    if (values[1:] > values[:-1]).all():
        return values
    ordered = np.sort(values)
    found: IntArray = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return found


class Gates:
    """The events of one query so far."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.false, self.true = rows, rows + 1
        self.layers: list[Layer] = []
        self.size = rows + 2

    def _new(
        self, kind: int, indptr: IntArray, inputs: IntArray, arg: IntArray | None = None, *, exclusive: bool = False
    ) -> IntArray:
        count = len(indptr) - 1
        if count:
            needed = np.zeros(count, np.int64) if arg is None else arg
            self.layers.append(Layer(self.size, kind, needed, indptr, inputs, exclusive))
        first, self.size = self.size, self.size + count
        return np.arange(first, self.size)

    def branch(self) -> Gates:
        """The same gates, to be grown apart from these."""
        found = Gates(self.rows)
        found.layers, found.size = list(self.layers), self.size
        return found

    def constant(self, value: npt.NDArray[np.bool_]) -> IntArray:
        """TRUE or FALSE for each entry."""
        return np.where(value, self.true, self.false)

    def negate(self, gates: IntArray) -> IntArray:
        """NOT of each gate; equal gates get one."""
        result = np.where(gates == self.false, self.true, self.false)
        open_ = (gates != self.false) & (gates != self.true)
        asked, size = gates[open_], self.size
        if 8 * len(asked) < size:
            once = distinct(asked)
            made = self._new(NOT, np.arange(len(once) + 1), once)
            result[open_] = made[np.searchsorted(once, asked)] if len(once) else made
            return result
        place = np.zeros(size, dtype=np.int64)  # for many gates a table of all is faster than sorting and searching
        place[asked] = 1
        once = np.flatnonzero(place)
        place[once] = self._new(NOT, np.arange(len(once) + 1), once)
        result[open_] = place[asked]
        return result

    def all_of(self, indptr: IntArray, inputs: IntArray) -> IntArray:
        """AND of the inputs of each entry; of none TRUE."""
        return self._nary(AND, indptr, inputs)

    def one_of(self, indptr: IntArray, inputs: IntArray, *, exclusive: bool = False) -> IntArray:
        """OR of the inputs of each entry; of none FALSE. Those that are ``exclusive`` are never true together."""
        return self._nary(OR, indptr, inputs, exclusive=exclusive)

    def _nary(self, kind: int, indptr: IntArray, inputs: IntArray, *, exclusive: bool = False) -> IntArray:
        nothing, decides = (self.true, self.false) if kind == AND else (self.false, self.true)
        count = len(indptr) - 1
        if len(inputs) == count and (np.diff(indptr) == 1).all():
            return inputs.astype(np.int64)
        entry = np.repeat(np.arange(count), np.diff(indptr))
        decided = np.bincount(entry[inputs == decides], minlength=count) > 0
        keep = (inputs != nothing) & ~decided[entry]
        if not keep.all():
            entry, inputs = entry[keep], inputs[keep]
        pairs = entry * self.size + inputs
        once = distinct(pairs)
        if once is not pairs:
            entry, inputs = once // self.size, once % self.size
        widths = np.bincount(entry, minlength=count)
        result = np.where(decided, decides, nothing)
        alone = widths[entry] == 1
        result[entry[alone]] = inputs[alone]
        several = widths > 1
        ends = np.concatenate([[0], np.cumsum(widths[several])])
        result[several] = self._new(kind, ends, inputs[~alone], exclusive=exclusive)
        return result

    def both(self, columns: list[IntArray], kind: int = AND) -> IntArray:
        """AND (or OR) of several columns of events, entry by entry."""
        if len(columns) == 1:
            return columns[0]
        count = len(columns[0])
        inputs = np.stack(columns, axis=1).ravel()
        return self._nary(kind, np.arange(count + 1) * len(columns), inputs)

    def at_least(self, needed: IntArray, indptr: IntArray, inputs: IntArray) -> IntArray:
        """Whether at least so many inputs of each entry are true; one that is listed twice counts twice."""
        count = len(indptr) - 1
        entry = np.repeat(np.arange(count), np.diff(indptr))
        needed = needed - np.bincount(entry[inputs == self.true], minlength=count)
        open_ = (inputs != self.true) & (inputs != self.false)
        entry, inputs = entry[open_], inputs[open_]
        widths = np.bincount(entry, minlength=count)
        result = np.where(needed <= 0, self.true, self.false)
        for kind, chosen in ((OR, needed == 1), (AND, (needed == widths) & (needed > 1))):
            mine = chosen & (needed <= widths)
            ends = np.concatenate([[0], np.cumsum(widths[mine])])
            result[mine] = self._nary(kind, ends, inputs[mine[entry]])
        rest = (needed > 1) & (needed < widths)
        ends = np.concatenate([[0], np.cumsum(widths[rest])])
        result[rest] = self._new(ATLEAST, ends, inputs[rest[entry]], needed[rest])
        return result

    def clauses(self, clauses: Clauses, event: IntArray) -> IntArray:
        """AND of the events of each clause; ``event`` is the gate behind each number."""
        return self.all_of(clauses.indptr, event[clauses.literals >> 1])

    def needed(self, outputs: IntArray) -> npt.NDArray[np.bool_]:
        """bool[gates]: what the outputs read, themselves included."""
        found = np.zeros(self.size, dtype=bool)
        found[outputs] = True
        for layer in reversed(self.layers):
            mine = found[layer.first : layer.end]
            found[layer.inputs[np.repeat(mine, np.diff(layer.indptr))]] = True
        return found

    def circuit(self, outputs: IntArray, known: Rows) -> tuple[Circuit, IntArray]:
        """The circuit of these outputs over the rows that they read, and the row behind each variable (-1: none).

        Rows of a block are conjunctions of independent variables, as ``blocks.py`` says.
        """
        used = self.needed(outputs)
        place = np.full(self.size, -1, dtype=np.int64)
        leaves = _Leaves.of(np.flatnonzero(used[: self.rows]), known)
        place[leaves.rows] = leaves.gate
        parts, none = [leaves.layer], np.zeros(1, np.int64)
        size = len(leaves.layer[0])
        for constant, kind in ((self.false, FALSE), (self.true, TRUE)):
            if used[constant]:
                place[constant] = size
                parts.append((np.array([kind]), none, none, none[:0]))
                size += 1
        for layer in self.layers:
            mine = used[layer.first : layer.end]
            widths = np.diff(layer.indptr)
            inputs = place[layer.inputs[np.repeat(mine, widths)]]
            count = int(mine.sum())
            place[layer.first + np.flatnonzero(mine)] = size + np.arange(count)
            parts.append((np.full(count, layer.kind), layer.arg[mine], widths[mine], inputs))
            size += count
        kinds, arg, widths, inputs = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        circuit = Circuit(
            kinds.astype(np.uint8),
            arg.astype(np.int32),
            np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
            inputs.astype(np.int32),
            place[outputs].astype(np.int32),
            leaves.prob,
        )
        return circuit, leaves.row_of_var


@dataclass(frozen=True, slots=True)
class _Leaves:
    """Uncertain rows as the first gates of a circuit."""

    rows: IntArray
    gate: IntArray
    """The gate of each row."""
    prob: npt.NDArray[np.float64]
    row_of_var: IntArray
    layer: tuple[IntArray, IntArray, IntArray, IntArray]
    """(kind, arg, widths, inputs) of the gates."""

    @classmethod
    def of(cls, rows: IntArray, known: Rows) -> _Leaves:
        block = known.block[rows]
        free, bound = rows[block < 0], rows[block >= 0]
        bound = bound[np.argsort(known.block[bound], kind="stable")]
        code = encode(np.zeros(len(bound), np.int64), known.block[bound], known.prob[bound])
        prob = np.concatenate([known.prob[free], code.prob])
        variables, first = len(prob), len(free)
        literal = code.literals + 2 * first
        negated = np.unique(literal[(literal & 1) == 1] >> 1)
        of_literal = np.arange(2 * variables) >> 1
        of_literal[2 * negated + 1] = variables + np.arange(len(negated))
        start = variables + len(negated)
        gate = np.concatenate([np.arange(first), start + np.arange(len(bound))])
        kind = np.repeat([VAR, NOT, AND], [variables, len(negated), len(bound)])
        arg = np.concatenate([np.arange(variables), np.zeros(len(negated) + len(bound), np.int64)])
        widths = np.concatenate([np.zeros(variables, np.int64), np.ones(len(negated), np.int64), np.diff(code.indptr)])
        inputs = np.concatenate([negated, of_literal[literal]])
        of_block = np.where(code.pair_of_var >= 0, bound[np.maximum(code.pair_of_var, 0)], -1) if len(bound) else bound
        return cls(
            np.concatenate([free, bound]), gate, prob, np.concatenate([free, of_block]), (kind, arg, widths, inputs)
        )
