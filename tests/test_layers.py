"""The network's layers: kernels equal plain torch, with gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from test_model import random_formula, small_network  # noqa: E402

from sharpdnf.learn.graph import Graph  # noqa: E402
from sharpdnf.learn.layers import LayerNormLSTM, lstm_elementwise  # noqa: E402


def test_kernels_equal_plain_torch_with_gradients():
    """float64 takes the torch path: both paths must agree in value and in every gradient."""
    rng = np.random.default_rng(3)
    graph = Graph.of([random_formula(rng, 40, 60, 3), random_formula(rng, 11, 6, 5)])
    fast = small_network(4, k=32)
    slow = small_network(4, k=32).double()
    results = []
    for net, prob in ((fast, graph.prob.clone()), (slow, graph.prob.double())):
        prob.requires_grad_()
        net.zero_grad()
        for states in net.run(graph.with_prob(prob), dense=True):
            final = states
        mean, std = net.read_out(final)
        loss = (mean * std).sum() + final.literals[0].square().sum() + final.conjunctions[1].square().sum()
        loss.backward()
        results.append([loss.detach(), prob.grad, *(p.grad for p in net.parameters())])
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a.double(), b.double(), rtol=2e-3, atol=2e-4 * float(b.abs().max() + 1))


def test_forget_bias_and_carried_cell():
    cell = LayerNormLSTM(8)
    assert torch.equal(cell.shift[8:16], torch.ones(8))
    gates, memory = torch.randn(5, 32), torch.randn(5, 8)
    state, carried = lstm_elementwise(gates, memory, cell.gain, cell.shift)
    assert torch.allclose(carried.mean(1), torch.zeros(5), atol=1e-5)  # normalised: it is what the next step sees
    assert state.shape == (5, 8)
