"""Exact probabilities of gates by one formula each, wherever the inputs of every gate are independent.

Two gates are independent if no uncertain row (and no block of exclusive rows) stands below both. So AND is a product,
OR the complement of a product, "at least k" a convolution. Where a gate's inputs share a row, and above such a gate,
nothing is known here. P and 1 - P are carried side by side, so that neither loses digits by subtraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import AND, ATLEAST, NOT
from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.emit.gates import Gates, Layer, distinct
from sharpdnf.sql.emit.lineage import Rows

MOST_SUPPORT = 50_000_000
"""Rows below gates, all gates together, beyond which the rest is left to the other engines."""


@dataclass(slots=True)
class Closed:
    """What is known of each gate; ``known`` says where the two probabilities mean something."""

    true: FloatArray
    false: FloatArray
    known: npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Supports:
    """The rows below each gate: ``pool[start[g]:start[g] + size[g]]``, a block of rows counting as one row."""

    start: IntArray
    size: IntArray
    pool: list[IntArray]
    used: int

    def below(self, gates: IntArray) -> IntArray:
        """The rows below these gates, one gate after the other."""
        sizes, starts = self.size[gates], self.start[gates]
        place = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        if len(self.pool) > 1:
            self.pool = [np.concatenate(self.pool)]
        return self.pool[0][place]

    def add(self, gates: IntArray, sizes: IntArray, rows: IntArray) -> None:
        self.start[gates] = self.used + np.cumsum(sizes) - sizes
        self.size[gates] = sizes
        self.pool.append(rows)
        self.used += len(rows)


def closed_forms(gates: Gates, outputs: IntArray, rows: Rows) -> Closed:
    """The probabilities of all gates that the outputs read and that have a closed form."""
    used = gates.needed(outputs)
    true, false = np.zeros(gates.size), np.ones(gates.size)
    known = np.zeros(gates.size, dtype=bool)
    leaves = np.flatnonzero(used[: gates.rows])
    true[leaves], false[leaves] = rows.prob[leaves], 1.0 - rows.prob[leaves]
    true[gates.true], false[gates.true] = 1.0, 0.0
    known[leaves] = True
    known[[gates.true, gates.false]] = True
    found = Closed(true, false, known)
    unit = np.where(rows.block[leaves] >= 0, gates.rows + rows.block[leaves], leaves)
    supports = _Supports(np.zeros(gates.size, np.int64), np.zeros(gates.size, np.int64), [], 0)
    supports.add(leaves, np.ones(len(leaves), np.int64), unit)
    for layer in gates.layers:
        mine = np.flatnonzero(used[layer.first : layer.end])
        if len(mine):
            _layer(found, supports, layer, mine)
    return found


def rows_below(gates: Gates, outputs: IntArray, rows: Rows) -> list[IntArray]:
    """The uncertain rows below each output, in order; a block of exclusive rows counts as one row, after the others."""
    used = gates.needed(outputs)
    below: dict[int, IntArray] = {}
    none = np.zeros(0, dtype=np.int64)
    inner = {g: place for place, layer in enumerate(gates.layers) for g in range(layer.first, layer.end) if used[g]}

    def of(gate: int) -> IntArray:
        if gate < gates.rows:
            block = int(rows.block[gate])
            return np.array([gate if block < 0 else gates.rows + block])
        return below.get(gate, none)

    for gate in sorted(inner):
        layer = gates.layers[inner[gate]]
        first, last = layer.indptr[gate - layer.first], layer.indptr[gate - layer.first + 1]
        below[gate] = np.unique(np.concatenate([of(int(g)) for g in layer.inputs[first:last]] or [none]))
    return [of(int(gate)) for gate in outputs]


def _layer(found: Closed, supports: _Supports, layer: Layer, mine: IntArray) -> None:
    """The gates ``mine`` of one layer."""
    widths = layer.indptr[mine + 1] - layer.indptr[mine]
    entry = np.repeat(np.arange(len(mine)), widths)
    inputs = layer.inputs
    if len(mine) < layer.end - layer.first:
        inputs = inputs[np.repeat(layer.indptr[mine] - (np.cumsum(widths) - widths), widths) + np.arange(len(entry))]
    gate = layer.first + mine
    if layer.kind == NOT:
        found.true[gate], found.false[gate] = found.false[inputs], found.true[inputs]
        found.known[gate] = found.known[inputs]
        supports.start[gate], supports.size[gate] = supports.start[inputs], supports.size[inputs]
        return
    known, place = found.known[inputs], entry
    if not known.all():  # mostly all are, and then nothing is copied
        fine = np.bincount(entry[~known], minlength=len(mine)) == 0
        kept = fine[entry]
        place = (np.cumsum(fine) - 1)[entry[kept]]
        inputs, gate, widths = inputs[kept], gate[fine], widths[fine]
    below = supports.size[inputs]
    if supports.used + int(below.sum()) > MOST_SUPPORT or not len(gate):
        return
    rows = supports.below(inputs)
    owner = np.repeat(place, below)
    sizes = np.bincount(owner, minlength=len(gate))
    scale = int(rows.max(initial=0)) + 1
    pairs = owner * scale + rows
    once = distinct(pairs)
    apart = np.ones(len(gate), dtype=bool)
    if layer.exclusive:
        owner, rows = once // scale, once % scale
        sizes = np.bincount(owner, minlength=len(gate))
    elif len(once) < len(pairs):
        apart = np.bincount(once // scale, minlength=len(gate)) == sizes
    if not apart.all():
        sizes, rows, kept = sizes[apart], rows[apart[owner]], apart[place]
        place = (np.cumsum(apart) - 1)[place[kept]]
        inputs, gate, widths = inputs[kept], gate[apart], widths[apart]
    supports.add(gate, sizes, rows)
    found.known[gate] = True
    p, q = found.true[inputs], found.false[inputs]
    if layer.kind == ATLEAST:
        needed = layer.arg[gate - layer.first]
        ends = np.concatenate([[0], np.cumsum(widths)])
        found.true[gate], found.false[gate] = _native.at_least(needed, ends, inputs.astype(np.int32), found.true)
    elif layer.exclusive:
        found.true[gate] = np.minimum(1.0, np.bincount(place, weights=p, minlength=len(gate)))
        found.false[gate] = 1.0 - found.true[gate]
    elif layer.kind == AND:
        found.true[gate], found.false[gate] = _product(place, p, q, len(gate))
    else:
        found.false[gate], found.true[gate] = _product(place, q, p, len(gate))


def _product(group: IntArray, p: FloatArray, q: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """(the product of p in each group, 1 minus it), where q = 1 - p."""
    if not count:
        return np.zeros(0), np.zeros(0)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    with np.errstate(divide="ignore"):
        logs = np.where(q < 0.5, np.log1p(-np.minimum(q, 0.5)), np.log(p))
    total = np.minimum(np.add.reduceat(logs, starts), 0.0)
    return np.exp(total), -np.expm1(total)
