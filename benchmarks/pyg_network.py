"""The same network on PyTorch Geometric, with the same weights: what `make bench-neural` measures ours against.

Careful rather than literal: a message is computed once a node (not once an edge), edges are sorted by target, M_l is
reused in steps (a) and (d), and the last iteration leaves out what nothing reads. Only used by the benchmark.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from sharpdnf.learn.graph import Edges, Graph
from sharpdnf.learn.layers import LayerNormLSTM, Perceptron
from sharpdnf.learn.model import Network


class SumMessages(MessagePassing):
    """Sums what the source nodes hold into the target nodes."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        return self.propagate(edge_index, x=(x, x.new_empty(num_targets, 0)), size=(len(x), num_targets))

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


def edge_index(edges: Edges) -> Tensor:
    """int64[2, edges]: (source, target), sorted by target."""
    return torch.stack([edges.indices.long(), edges.row_of_edge])


def perceptron(layers: Perceptron, x: Tensor) -> Tensor:
    for i, layer in enumerate(layers.layers):
        x = layer(x if i == 0 else F.relu(x))
    return x


def lstm(cell: LayerNormLSTM, memory: tuple[Tensor, Tensor], *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """One product for all inputs and gates, then the usual layer-norm LSTM."""
    state, old = memory
    k = old.shape[1]
    gates = F.linear(torch.cat([*inputs, state], 1), torch.cat(list(cell.weights), 1))
    norms = zip(gates.split(k, 1), cell.gain.split(k), cell.shift.split(k), strict=False)
    i, f, g, o = (F.layer_norm(x, (k,), gain, shift) for x, gain, shift in norms)
    mixed = old * f.sigmoid() + i.sigmoid() * g.tanh()
    new = F.layer_norm(mixed, (k,), cell.gain[4 * k :], cell.shift[4 * k :])
    return new.tanh() * o.sigmoid(), new


class GeometricNetwork(nn.Module):
    """Shares the parameters of ``network``."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network, self.sum = network, SumMessages()

    def forward(self, graph: Graph) -> tuple[Tensor, Tensor]:
        net, n = self.network, graph.num_vars
        to_conjunctions, to_literals = edge_index(graph.conjunctions.forward), edge_index(graph.conjunctions.backward)
        to_disjunctions = edge_index(graph.disjunctions.forward)
        formula_of_clause = graph.disjunctions.backward.indices.long()
        literal = perceptron(net.f_enc, torch.cat([graph.prob, 1 - graph.prob]).unsqueeze(1))
        literals = (literal, torch.zeros_like(literal))
        conjunction = net.v_c.expand(graph.num_clauses, -1)
        conjunctions = (conjunction, torch.zeros_like(conjunction))
        disjunction = net.v_d.expand(graph.num_formulas, -1)
        disjunctions = (disjunction, torch.zeros_like(disjunction))
        for t in range(net.config.iterations):
            sent = perceptron(net.M_l, literals[0])
            conjunctions = lstm(net.L_c1, conjunctions, self.sum(sent, to_conjunctions, graph.num_clauses))
            received = self.sum(perceptron(net.M_c, conjunctions[0]), to_disjunctions, graph.num_formulas)
            disjunctions = lstm(net.L_d, disjunctions, received)
            if t == net.config.iterations - 1:
                break
            conjunctions = lstm(net.L_c2, conjunctions, perceptron(net.M_d, disjunctions[0])[formula_of_clause])
            received = self.sum(perceptron(net.M_c, conjunctions[0]), to_literals, 2 * n)
            literals = lstm(net.L_l, literals, received, sent.roll(n, 0))
        n_mu, n_sigma = perceptron(net.f_out, disjunctions[0]).unbind(1)
        return -(F.elu(n_mu) + 1), F.elu(n_sigma) + 1
