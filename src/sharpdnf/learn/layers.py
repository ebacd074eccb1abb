"""The network's building blocks with their own backward passes: message sums, message MLPs, layer-norm LSTM cells.

On the CPU in float32 the sums and the elementwise half of the LSTM run in the native kernels (a row at a time, in L1);
elsewhere the same mathematics in plain torch, which the tests hold the kernels to. ``ROW_BLOCK`` rows go through
all layers of a block together, so that their activations stay in the cache, and so that inference over a million
variables never holds the gates of more than one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sharpdnf import _native
from sharpdnf.learn.graph import Adjacency, Edges

ROW_BLOCK = 1024


def _kernels_apply(x: Tensor) -> bool:
    return bool(x.device.type == "cpu" and x.dtype == torch.float32)


def _blocks(num_rows: int) -> Iterator[slice]:
    for start in range(0, num_rows, ROW_BLOCK):
        yield slice(start, min(start + ROW_BLOCK, num_rows))


# --- sums along edges ---------------------------------------------------------------------------------------------


def sum_edges(edges: Edges, x: Tensor) -> Tensor:
    """[rows, k] from [sources, k]: row r is the sum of x over its edges, without a gradient."""
    if _kernels_apply(x):
        out = x.new_empty(edges.num_rows, x.shape[1])
        _native.aggregate(edges.indptr.numpy(), edges.indices.numpy(), x.detach().contiguous().numpy(), out.numpy())
        return out
    return x.new_zeros(edges.num_rows, x.shape[1]).index_add_(0, edges.row_of_edge, x[edges.indices.long()])


def _apply(function: type[Function], *arguments: Any) -> Any:
    """Calls a function that has its own backward pass; torch declares no types for this."""
    return function.apply(*arguments)


class _Aggregate(Function):
    @staticmethod
    def forward(ctx: Any, adjacency: Adjacency, x: Tensor) -> Tensor:
        ctx.adjacency = adjacency
        return sum_edges(adjacency.forward, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, sum_edges(ctx.adjacency.backward, grad)


def aggregate(adjacency: Adjacency, x: Tensor) -> Tensor:
    """[targets, k] from [sources, k]: the sum over each target's neighbours."""
    out: Tensor = _apply(_Aggregate, adjacency, x)
    return out


# --- message MLPs -------------------------------------------------------------------------------------------------


def _propagate(x: Tensor, layers: Sequence[Tensor], outputs: Sequence[Tensor | None]) -> None:
    """Runs the layers one after the other and writes what each makes into ``outputs``; None there means not kept,
    which is allowed for all but the last."""
    weights, biases = layers[0::2], layers[1::2]
    last = len(weights) - 1
    for rows in _blocks(len(x)):
        a = x[rows]
        for i, (weight, bias, out) in enumerate(zip(weights, biases, outputs, strict=True)):
            a = torch.addmm(bias, a, weight.t(), out=None if out is None else out[rows])
            if i < last:
                a.relu_()


class _Perceptron(Function):
    """x -> W_L relu(... relu(W_1 x + b_1) ...) + b_L, block of rows by block of rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *layers: Tensor) -> Tensor:
        weights, biases = layers[0::2], layers[1::2]
        outputs = [x.new_empty(len(x), len(b)) for b in biases]
        _propagate(x, layers, outputs)
        ctx.save_for_backward(x, *outputs[:-1], *weights)
        return outputs[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        depth = len(ctx.saved_tensors) // 2
        inputs, weights = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        dx = torch.empty_like(inputs[0]) if ctx.needs_input_grad[0] else None
        dweights = [torch.zeros_like(w) for w in weights]
        dbiases = [w.new_zeros(len(w)) for w in weights]
        grad = grad.contiguous()
        for rows in _blocks(len(grad)):
            g = grad[rows]
            for i in range(depth - 1, -1, -1):
                a = inputs[i][rows]
                dweights[i].addmm_(g.t(), a)
                dbiases[i].add_(g.sum(0))
                if i > 0:
                    g = torch.mm(g, weights[i])
                    torch.ops.aten.threshold_backward.grad_input(g, a, 0.0, grad_input=g)
                elif dx is not None:
                    torch.mm(g, weights[0], out=dx[rows])
        return (dx, *(d for pair in zip(dweights, dbiases, strict=True) for d in pair))


class Perceptron(nn.Module):
    """A multi-layer perceptron, ReLU between layers and none after the last: ``sizes`` = input, hidden..., output."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        if _kernels_apply(x):
            out: Tensor = _apply(_Perceptron, x.contiguous(), *self._flat())
            return out
        for i, layer in enumerate(self.layers):
            x = layer(x if i == 0 else F.relu(x))
        return x

    def write(self, x: Tensor, out: Tensor) -> None:
        """``out`` <- self(x) without gradients: nothing but the last layer is kept, and it is not copied."""
        if _kernels_apply(x):
            _propagate(x, self._flat(), [None] * (len(self.layers) - 1) + [out])
        else:
            out.copy_(self(x))

    def _flat(self) -> list[Tensor]:
        return [p for layer in self.layers for p in layer.parameters()]  # weight, then bias


# --- layer-norm LSTM ----------------------------------------------------------------------------------------------


def lstm_elementwise(gates: Tensor, cell: Tensor, gain: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """(state, cell) from the gates' pre-activations [rows, 4k] in the order input, forget, candidate, output.

    c' = LN(c * sigmoid(LN f) + sigmoid(LN i) * tanh(LN g)), h = tanh(c') * sigmoid(LN o); ``gain`` and ``shift`` are
    those of the five layer norms, [5k] (Ba, Kiros, Hinton 2016; the carried cell is the normalised one).
    """
    k = cell.shape[1]
    norms = zip(gates.split(k, 1), gain.split(k), shift.split(k), strict=False)
    i, f, g, o = (F.layer_norm(x, (k,), scale, offset) for x, scale, offset in norms)
    mixed = cell * f.sigmoid() + i.sigmoid() * g.tanh()
    new_cell = F.layer_norm(mixed, (k,), gain[4 * k :], shift[4 * k :])
    return new_cell.tanh() * o.sigmoid(), new_cell


def _step(
    gates: Tensor,
    with_base: bool,
    pairs: Sequence[Tensor],
    rows: slice,
    norms: tuple[Tensor, Tensor],
    cell: Tensor,
    out: tuple[Tensor, Tensor],
) -> None:
    """Writes the next (state, cell) of some rows into ``out``, which may be the current ones.

    ``gates`` gets the products of the inputs with their weights added, x_i W_i', before the elementwise half.
    """
    for i, (x, weight) in enumerate(zip(pairs[0::2], pairs[1::2], strict=True)):
        if i == 0 and not with_base:
            torch.mm(x[rows], weight.t(), out=gates)
        else:
            gates.addmm_(x[rows], weight.t())
    arrays = (gates, cell[rows], *norms, *(t[rows] for t in out))
    _native.lstm_forward(*(t.detach().numpy() for t in arrays))


class _Cell(Function):
    """One LSTM step with its products: gates = base + sum_i x_i W_i', where base may be indexed rows.

    Inputs come as pairs (x, weight); ``base`` is [targets, 4k] or, with ``spread``, [sources, 4k] to be spread along
    the adjacency's edges (the disjunction's message is the same for all conjunctions of a formula, so its product
    is taken once per formula).
    """

    @staticmethod
    def forward(
        ctx: Any, spread: Adjacency | None, base: Tensor | None, cell: Tensor, *rest: Tensor
    ) -> tuple[Tensor, Tensor]:
        gain, shift, *pairs = rest
        state, new_cell = torch.empty_like(cell), torch.empty_like(cell)
        spread_base = sum_edges(spread.forward, base) if spread is not None and base is not None else base
        gates = spread_base if spread_base is not None else cell.new_empty(len(cell), 4 * cell.shape[1])
        for rows in _blocks(len(cell)):
            _step(gates[rows], base is not None, pairs, rows, (gain, shift), cell, (state, new_cell))
        ctx.spread = spread
        ctx.save_for_backward(gates, cell, gain, shift, *pairs)
        return state, new_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dstate: Tensor, dnew_cell: Tensor) -> tuple[Tensor | None, ...]:
        gates, cell, gain, shift, *pairs = (t.detach() for t in ctx.saved_tensors)
        inputs, weights = pairs[0::2], pairs[1::2]
        has_base = ctx.needs_input_grad[1]
        dgates = torch.empty_like(gates) if has_base else torch.empty_like(gates[:ROW_BLOCK])
        dcell = torch.empty_like(cell)
        dgain, dshift = torch.zeros_like(gain), torch.zeros_like(shift)
        dinputs, dweights = [torch.empty_like(x) for x in inputs], [torch.zeros_like(w) for w in weights]
        dstate, dnew_cell = dstate.contiguous(), dnew_cell.contiguous()
        for rows in _blocks(len(cell)):
            d = dgates[rows] if has_base else dgates[: rows.stop - rows.start]
            given = (gates[rows], cell[rows], gain, shift, dstate[rows], dnew_cell[rows])
            _native.lstm_backward(*(t.numpy() for t in (*given, d, dcell[rows], dgain, dshift)))
            for x, weight, dx, dw in zip(inputs, weights, dinputs, dweights, strict=True):
                torch.mm(d, weight, out=dx[rows])
                dw.addmm_(d.t(), x[rows])
        dbase = None
        if has_base:
            dbase = sum_edges(ctx.spread.backward, dgates)
        return (None, dbase, dcell, dgain, dshift, *(t for pair in zip(dinputs, dweights, strict=True) for t in pair))


class LayerNormLSTM(nn.Module):
    """A layer-norm LSTM cell: layer norm on each of the four gates and on the new cell, forget bias 1.

    ``num_inputs`` messages of k values each enter side by side; each has its own k columns of the input weights.
    """

    def __init__(self, k: int, num_inputs: int = 1) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.empty(4 * k, k)) for _ in range(num_inputs + 1))
        self.gain = nn.Parameter(torch.ones(5 * k))
        self.shift = nn.Parameter(torch.zeros(5 * k))
        with torch.no_grad():
            for weight in self.weights:
                nn.init.uniform_(weight, -(k**-0.5), k**-0.5)
            self.shift[k : 2 * k] = 1.0  # the forget bias

    def forward(self, memory: tuple[Tensor, Tensor], *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The next (state, cell) [rows, k] of every row from the current ones and its messages."""
        state, cell = memory
        if _kernels_apply(state):
            out: tuple[Tensor, Tensor] = _apply(
                _Cell, None, None, cell, self.gain, self.shift, *self._pairs((*inputs, state))
            )
            return out
        first, *rest = (F.linear(x, w) for x, w in zip((*inputs, state), self.weights, strict=True))
        gates = sum(rest, start=first)
        return lstm_elementwise(gates, cell, self.gain, self.shift)

    def forward_shared(
        self, memory: tuple[Tensor, Tensor], message: Tensor, spread: Adjacency
    ) -> tuple[Tensor, Tensor]:
        """The next (state, cell) where many rows share a message: ``message`` [sources, k] reaches them along
        ``spread``, and is multiplied with its weights once, not once per row."""
        state, cell = memory
        input_weight, state_weight = self.weights
        base = F.linear(message, input_weight)
        if _kernels_apply(state):
            out: tuple[Tensor, Tensor] = _apply(_Cell, spread, base, cell, self.gain, self.shift, state, state_weight)
            return out
        gates = aggregate(spread, base) + F.linear(state, state_weight)
        return lstm_elementwise(gates, cell, self.gain, self.shift)

    def advance(self, memory: tuple[Tensor, Tensor], *inputs: Tensor) -> None:
        """``memory`` <- self(memory, *inputs), in place and without gradients."""
        state, cell = memory
        if not _kernels_apply(state):
            _overwrite(memory, self(memory, *inputs))
            return
        gates = state.new_empty(min(ROW_BLOCK, len(state)), len(self.weights[0]))
        pairs = self._pairs((*inputs, state))
        for rows in _blocks(len(state)):
            _step(gates[: rows.stop - rows.start], False, pairs, rows, (self.gain, self.shift), cell, memory)

    def advance_shared(self, memory: tuple[Tensor, Tensor], base: Tensor, spread: Adjacency) -> None:
        """``memory`` <- self.forward_shared(...), in place and without gradients; ``base`` is the message's product."""
        state, cell = memory
        *_, state_weight = self.weights
        gates = sum_edges(spread.forward, base)
        if not _kernels_apply(state):
            _overwrite(memory, lstm_elementwise(gates + F.linear(state, state_weight), cell, self.gain, self.shift))
            return
        for rows in _blocks(len(state)):
            _step(gates[rows], True, (state, state_weight), rows, (self.gain, self.shift), cell, memory)

    def _pairs(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [t for pair in zip(inputs, self.weights, strict=True) for t in pair]


def _overwrite(old: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> None:
    for kept, value in zip(old, new, strict=True):
        kept.copy_(value)
