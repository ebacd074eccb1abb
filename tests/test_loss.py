"""The losses, their targets, and the accuracy that validation shows."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from sharpdnf.dnf import DNF  # noqa: E402
from sharpdnf.learn.config import LossConfig  # noqa: E402
from sharpdnf.learn.loss import Targets, accuracy, answer_loss, cauchy, kl, label_sigma, pseudo_huber, robust  # noqa: E402
from sharpdnf.learn.stream import Example, num_nodes, pack  # noqa: E402


def test_label_sigma_and_losses():
    sigma = label_sigma(0.1, 0.05)
    assert math.isclose(sigma, 0.0486, abs_tol=5e-5)
    mean, std, label = torch.tensor([-1.0]), torch.tensor([0.3]), torch.tensor([-1.2])
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, std), normal(label, torch.tensor([sigma])))
    assert torch.allclose(kl(mean, std, label, sigma), expected)
    for loss in (kl, robust):
        assert float(loss(label, torch.tensor([sigma]), label, sigma)) == pytest.approx(0, abs=1e-6)
        assert float(loss(mean, torch.tensor([sigma]), label, sigma)) > 0


def test_cauchy_pulls_less_on_tiny_answers():
    """Both penalties agree on small errors; a log error of 5 at an answer of e^-20 must not dominate."""
    small, large = torch.tensor([0.01]), torch.tensor([100.0])
    assert torch.allclose(cauchy(small), pseudo_huber(small), rtol=1e-3)
    assert float(cauchy(large)) < 0.1 * float(pseudo_huber(large))
    values = {
        kind: float(answer_loss(LossConfig(kind=kind), *(torch.tensor([v]) for v in (-15.0, 0.0486, -20.0))))
        for kind in ("kl", "robust", "cauchy")
    }
    assert values["kl"] > values["robust"] > values["cauchy"] > 0


def test_targets_follow_the_graph():
    dnf = DNF.from_clauses([[1, -2], [3]], [0.2, 0.5, 0.4])
    log_prob = math.log(1 - 0.9 * 0.6)
    targets = Targets.of([Example(dnf, log_prob, np.array([0.3, 0.4, 0.9]))] * 2)
    assert torch.allclose(targets.clause_posterior[:2], torch.tensor([0.1, 0.4]) / (1 - 0.9 * 0.6))
    assert targets.literal_posterior.tolist() == pytest.approx([0.3, 0.4, 0.9] * 2 + [0.7, 0.6, 0.1] * 2)


def test_pack_and_accuracy():
    dnf = DNF.from_clauses([[1, 2]], num_vars=2)
    batches = pack([Example(dnf, -1.0, None)] * 5, lambda example: num_nodes(example.dnf), 10)
    assert [len(b) for b in batches] == [2, 2, 1]
    shares = accuracy(torch.tensor([0.0, -1.0]), torch.tensor([-0.03, -1.0]))
    assert shares == {0.02: 0.5, 0.05: 1.0, 0.10: 1.0, 0.15: 1.0}
