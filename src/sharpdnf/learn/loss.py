"""What the network is trained to: the paper's divergence, a robust alternative, and dense supervision.

``kl``: KL(prediction || label) between Gaussians of log probability, the paper's loss.
``robust``: 0.2 x pseudo-Huber(log error / 0.0486) + pseudo-Huber(probability error / 0.02), which weighs what the
additive metric weighs: under ``kl`` the squared log error of tiny answers swamps everything else. The predicted sigma
is trained by the divergence's own sigma terms.
``cauchy``: the same with log(1 + z^2) / 2 of the log error, whose pull fades with distance: an answer of 1e-10 that is
ten times too large is no concern of the metric, and under ``robust`` such answers still gave most of the gradient.
Dense supervision adds heads on the final literal and conjunction states, thrown away after training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpdnf.learn.architectures import States
from sharpdnf.learn.config import LossConfig
from sharpdnf.learn.graph import Graph
from sharpdnf.learn.stream import Example

LOG_SCALE = 0.0486
PROB_SCALE = 0.02
Penalty = Callable[[Tensor], Tensor]


def label_sigma(epsilon: float, delta: float) -> float:
    """The sigma of a Gaussian that is within log(1 + epsilon) of its mean with probability 1 - delta.

    At (0.1, 0.05) it is 0.0486.
    """
    return math.log1p(epsilon) / NormalDist().inv_cdf(1.0 - delta / 2.0)


@dataclass(frozen=True)
class Targets:
    log_prob: Tensor
    """float32[F]"""
    clause_log_prob: Tensor
    """float32[M]"""
    clause_posterior: Tensor
    """float32[M]: P(clause | formula), which is p(clause) / P(formula)."""
    literal_posterior: Tensor | None
    """float32[2N]: P(literal | formula), positive literals first as in the graph; None if the labels have none."""

    @classmethod
    def of(cls, examples: Sequence[Example], device: str = "cpu") -> Targets:
        clause_log = [e.dnf.clause_log_probs() for e in examples]
        shifted = [c - e.log_prob for c, e in zip(clause_log, examples, strict=True)]
        posterior = np.exp(np.minimum(np.concatenate(shifted), 0.0))
        given = [e.posterior for e in examples if e.posterior is not None]
        literals = None
        if len(given) == len(examples):
            positive = np.concatenate(given)
            literals = _tensor(np.concatenate([positive, 1.0 - positive]), device)
        clauses = np.maximum(np.concatenate(clause_log), -200.0)
        labels = np.array([e.log_prob for e in examples])
        return cls(_tensor(labels, device), _tensor(clauses, device), _tensor(posterior, device), literals)


def _tensor(array: np.ndarray, device: str) -> Tensor:
    return torch.tensor(array, dtype=torch.float32, device=device)


def sigma_divergence(std: Tensor, sigma: float) -> Tensor:
    """The part of KL(prediction || label) that depends on the predicted sigma; it is least, and 0, at ``sigma``."""
    ratio = std / sigma
    return 0.5 * (ratio.square() - 1.0) - torch.log(ratio)


def kl(mean: Tensor, std: Tensor, log_prob: Tensor, sigma: float) -> Tensor:
    """[F]: KL(prediction || label) of two Gaussians, log(s2/s1) - 1/2 + (s1^2 + (m1 - m2)^2) / (2 s2^2).

    m1 and s1 are mean and sigma of the prediction, m2 and s2 those of the label.
    """
    return sigma_divergence(std, sigma) + 0.5 * ((mean - log_prob) / sigma).square()


def pseudo_huber(z: Tensor) -> Tensor:
    return torch.sqrt(1.0 + z.square()) - 1.0


def cauchy(z: Tensor) -> Tensor:
    return 0.5 * torch.log1p(z.square())


def robust(mean: Tensor, std: Tensor, log_prob: Tensor, sigma: float, *, log_term: Penalty = pseudo_huber) -> Tensor:
    """[F]: a robust penalty of the log error, and a linear one of large errors of the probability."""
    log_error = log_term((mean - log_prob) / LOG_SCALE)
    prob_error = pseudo_huber((mean.exp() - log_prob.exp()) / PROB_SCALE)
    return 0.2 * log_error + prob_error + 0.1 * sigma_divergence(std, sigma)


class Heads(nn.Module):
    """Linear read-outs of the final states, for training only."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.literal = nn.Linear(k, 1)
        self.clause = nn.Linear(k, 2)

    def forward(self, states: States, targets: Targets) -> Tensor:
        """Cross-entropy of P(literal | formula) and P(clause | formula), smooth L1 of log p(clause) / 5."""
        clause_log, clause_logit = self.clause(states.conjunctions[0]).unbind(1)
        total = F.smooth_l1_loss(clause_log, targets.clause_log_prob / 5.0)
        total = total + F.binary_cross_entropy_with_logits(clause_logit, targets.clause_posterior)
        if targets.literal_posterior is not None:
            logit = self.literal(states.literals[0]).squeeze(1)
            total = total + F.binary_cross_entropy_with_logits(logit, targets.literal_posterior)
        return total


def answer_loss(config: LossConfig, mean: Tensor, std: Tensor, log_prob: Tensor) -> Tensor:
    """The configured loss, averaged over the formulas of the batch."""
    sigma = label_sigma(config.label_epsilon, config.label_delta)
    if config.kind == "kl":
        return kl(mean, std, log_prob, sigma).mean()
    log_term = pseudo_huber if config.kind == "robust" else cauchy
    return robust(mean, std, log_prob, sigma, log_term=log_term).mean()


def accuracy(mean: Tensor, log_prob: Tensor) -> dict[float, float]:
    """The share of predictions within each of the paper's additive thresholds."""
    error = (mean.double().exp() - log_prob.double().exp()).abs()
    return {t: float((error <= t).double().mean()) for t in (0.02, 0.05, 0.10, 0.15)}


def graph_of(examples: Sequence[Example], device: str = "cpu") -> Graph:
    return Graph.of([e.dnf for e in examples]).to(device)
