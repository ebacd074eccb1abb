"""The batched network against a slow loop over literals, and the laws it must keep."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from sharpdnf.dnf import DNF  # noqa: E402
from sharpdnf.errors import CheckpointError, ConfigError  # noqa: E402
from sharpdnf.learn.graph import Graph  # noqa: E402
from sharpdnf.learn.model import Network, NetworkConfig, load_network, predict_batch, save_network  # noqa: E402


def random_formula(rng, n=7, m=5, width=3):
    clauses = []
    for _ in range(m):
        variables = rng.choice(n, size=min(width, n), replace=False) + 1
        clauses.append((variables * rng.choice([-1, 1], size=len(variables))).tolist())
    return DNF.from_clauses(clauses, rng.random(n), num_vars=n)


def small_network(seed=0, k=16, iterations=3):
    torch.manual_seed(seed)
    return Network(NetworkConfig(k=k, iterations=iterations))


def mlp(perceptron, x):
    for i, layer in enumerate(perceptron.layers):
        x = layer.weight.double() @ (x if i == 0 else x.clamp(min=0)) + layer.bias.double()
    return x


def lstm(cell, memory, message):
    weight = torch.cat(list(cell.weights), dim=1).double()
    gates = weight @ torch.cat([message, memory[0]])
    k = len(memory[0])
    norm = [(cell.gain[q * k : (q + 1) * k].double(), cell.shift[q * k : (q + 1) * k].double()) for q in range(5)]
    i, f, g, o = (F.layer_norm(gates[q * k : (q + 1) * k], (k,), *norm[q]) for q in range(4))
    c = F.layer_norm(memory[1] * torch.sigmoid(f) + torch.sigmoid(i) * torch.tanh(g), (k,), *norm[4])
    return torch.tanh(c) * torch.sigmoid(o), c


def slow_forward(net, dnf):
    """The paper's equations, one node at a time, in double precision."""
    k, zero = net.config.k, torch.zeros(net.config.k, dtype=torch.float64)
    literal_probs = [p for v in dnf.prob for p in (v, 1 - v)]
    literal = [(mlp(net.f_enc, torch.tensor([p])), zero) for p in literal_probs]
    clauses = [dnf.literals[a:b].tolist() for a, b in zip(dnf.indptr[:-1], dnf.indptr[1:], strict=True)]
    conj = [(net.v_c.double(), zero) for _ in clauses]
    disj = (net.v_d.double(), zero)
    for _ in range(net.config.iterations):
        m_l = [mlp(net.M_l, s) for s, _ in literal]
        conj = [lstm(net.L_c1, s, sum((m_l[x] for x in c), zero)) for s, c in zip(conj, clauses, strict=True)]
        disj = lstm(net.L_d, disj, sum((mlp(net.M_c, s) for s, _ in conj), zero))
        conj = [lstm(net.L_c2, s, mlp(net.M_d, disj[0])) for s in conj]
        m_c = [mlp(net.M_c, s) for s, _ in conj]
        received = [sum((m_c[j] for j, c in enumerate(clauses) if x in c), zero) for x in range(len(literal))]
        literal = [lstm(net.L_l, s, torch.cat([received[x], m_l[x ^ 1]])) for x, s in enumerate(literal)]
    assert len(disj[0]) == k
    out = mlp(net.f_out, disj[0])
    return -(F.elu(out[0]) + 1), F.elu(out[1]) + 1


def test_batched_network_equals_the_slow_loop(rng=None):
    rng = np.random.default_rng(1)
    net = small_network()
    with torch.no_grad():  # away from the symmetric start, so that gains and shifts matter
        for p in net.parameters():
            p.add_(0.1 * torch.randn_like(p))
    formulas = [random_formula(rng, n, m, w) for n, m, w in [(7, 5, 3), (3, 1, 2), (12, 20, 4)]]
    formulas += [DNF.from_clauses([[1], []], [0.3]), DNF.from_clauses([], num_vars=2)]
    mean, std = predict_batch(net, formulas)
    with torch.no_grad():
        for i, dnf in enumerate(formulas):
            slow_mean, slow_std = slow_forward(net, dnf)
            assert abs(float(mean[i] - slow_mean)) < 1e-5
            assert abs(float(std[i] - slow_std)) < 1e-5


def test_order_and_batching_change_nothing():
    rng = np.random.default_rng(2)
    net = small_network()
    dnf, other = random_formula(rng, 30, 40, 4), random_formula(rng, 9, 3, 2)
    renamed = rng.permutation(30)
    clauses = [[int(np.sign(x) * (renamed[abs(x) - 1] + 1)) for x in c] for c in dnf.clauses()]
    prob = np.empty(30)
    prob[renamed] = dnf.prob
    shuffled = DNF.from_clauses([clauses[i] for i in rng.permutation(len(clauses))], prob)
    alone = predict_batch(net, [dnf])[0][0]
    assert torch.allclose(predict_batch(net, [shuffled])[0][0], alone, atol=1e-5)
    assert torch.allclose(predict_batch(net, [other, dnf, other])[0][1], alone, atol=1e-5)


def test_read_out_can_reach_probability_one():
    net = small_network()
    with torch.no_grad():
        net.f_out.layers[-1].bias[0] = -20.0
    mean, std = predict_batch(net, [DNF.from_clauses([[1]])])
    assert -1e-3 < float(mean[0]) <= 0 and float(std[0]) > 0


def test_trace_ends_in_the_prediction():
    net = small_network()
    dnf = random_formula(np.random.default_rng(5))
    with torch.no_grad():
        assert torch.equal(net.trace(Graph.of([dnf]))[-1], net(Graph.of([dnf]))[0])


def test_paper_size():
    assert 0.75e6 < Network().num_parameters < 0.85e6


def test_save_load_and_bad_files(tmp_path):
    net, dnf = small_network(), random_formula(np.random.default_rng(6))
    save_network(net, tmp_path, {"seed": 1})
    assert torch.equal(predict_batch(load_network(tmp_path), [dnf])[0], predict_batch(net, [dnf])[0])
    weights = tmp_path / "model.safetensors"
    data = weights.read_bytes()
    for bad in (data[:-100], data[:20], b"", b"\x80\x04K\x01."):
        weights.write_bytes(bad)
        with pytest.raises(CheckpointError):
            load_network(tmp_path)
    weights.write_bytes(data)
    config = json.loads((tmp_path / "config.json").read_text())
    for change in ({"k": 32}, {"depth": 1}, {"k": "x"}):
        (tmp_path / "config.json").write_text(json.dumps({**config, "network": {**config["network"], **change}}))
        with pytest.raises((CheckpointError, ConfigError)):
            load_network(tmp_path)
    with pytest.raises(CheckpointError):
        load_network(tmp_path / "missing")
