"""The network of Neural#DNF (Abboud, Ceylan, Lukasiewicz, AAAI 2020), exactly as in the text.

Where the text is silent or misprinted: L_c1 and L_c2 share one cell state per conjunction; cell states start at 0; the
negated literal enters as f_enc(1 - p); ELU+1 is e^x for x <= 0 (printed as e^-x, which could predict no probability
above 1/e).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from sharpdnf.dnf import DNF
from sharpdnf.errors import CheckpointError, ConfigError
from sharpdnf.files import make_folder, write_atomically
from sharpdnf.learn.architectures import Architecture, States, architecture, make_network
from sharpdnf.learn.config import NetworkConfig
from sharpdnf.learn.graph import Graph
from sharpdnf.learn.layers import LayerNormLSTM, Perceptron, aggregate


@architecture("paper")
class Network(Architecture):
    """The paper's network: from a batch of formulas to the mean and standard deviation of a Gaussian over
    log P(formula)."""

    def __init__(self, config: NetworkConfig | None = None) -> None:
        super().__init__(config)
        k = self.config.k
        self.f_enc = Perceptron(1, 8, 32, k)
        self.v_c = nn.Parameter(torch.randn(k) / k**0.5)
        self.v_d = nn.Parameter(torch.randn(k) / k**0.5)
        self.M_l = Perceptron(k, k, k, k, k)
        self.M_c = Perceptron(k, k, k, k, k)
        self.M_d = Perceptron(k, k, k, k, k)
        self.L_c1 = LayerNormLSTM(k)
        self.L_c2 = LayerNormLSTM(k)
        self.L_d = LayerNormLSTM(k)
        self.L_l = LayerNormLSTM(k, num_inputs=2)
        self.f_out = Perceptron(k, 32, 8, 2)

    def encode(self, graph: Graph, f_enc: Callable[[Tensor], Tensor] | None = None) -> States:
        """The states before the first iteration, v_{x,0}: f_enc(p) for a literal, f_enc(1 - p) for a negated one, and
        the learned v_c and v_d for conjunctions and disjunctions.

        ``f_enc`` may be handed in as another way of computing the same function.
        """
        literal_prob = torch.cat([graph.prob, 1.0 - graph.prob])
        literals = (f_enc or self.f_enc)(literal_prob.to(self.v_c.dtype).unsqueeze(1))
        # Copies even of one row: inference writes into the states, and a view would write into the weights.
        conjunctions = self.v_c.repeat(graph.num_clauses, 1)
        disjunctions = self.v_d.repeat(graph.num_formulas, 1)
        return States(
            (literals, torch.zeros_like(literals)),
            (conjunctions, torch.zeros_like(conjunctions)),
            (disjunctions, torch.zeros_like(disjunctions)),
        )

    def iterate(self, graph: Graph, states: States, *, last: bool, dense: bool) -> States:
        """One message-passing iteration, steps (a) to (d):

        (a)  v^_c = L_c1(v_c, sum of M_l(v_l) over its literals)
        (b)  v_d  = L_d(v_d, sum of M_c(v^_c) over its conjunctions)
        (c)  v_c  = L_c2(v^_c, M_d(v_d))
        (d)  v_l  = L_l(v_l, [sum of M_c(v_c) over its conjunctions || M_l(v_not l)])

        The last iteration leaves out what nothing reads: (d), and (c) unless the states are supervised (``dense``).
        """
        literals, conjunctions, disjunctions = states.literals, states.conjunctions, states.disjunctions
        from_literals = self.M_l(literals[0])
        conjunctions = self.L_c1(conjunctions, aggregate(graph.conjunctions, from_literals))  # (a)
        disjunctions = self.L_d(disjunctions, aggregate(graph.disjunctions, self.M_c(conjunctions[0])))  # (b)
        if last and not dense:
            return States(literals, conjunctions, disjunctions)
        from_disjunction = self.M_d(disjunctions[0])
        conjunctions = self.L_c2.forward_shared(conjunctions, from_disjunction, graph.disjunctions.reverse)  # (c)
        if last:
            return States(literals, conjunctions, disjunctions)
        from_conjunctions = aggregate(graph.conjunctions.reverse, self.M_c(conjunctions[0]))
        from_negation = from_literals.roll(graph.num_vars, 0)  # the halves are each other's negations
        literals = self.L_l(literals, from_conjunctions, from_negation)  # (d)
        return States(literals, conjunctions, disjunctions)

    def run(self, graph: Graph, *, dense: bool = False) -> Iterator[States]:
        """The states after each of the T iterations."""
        states = self.encode(graph)
        for t in range(self.config.iterations):
            states = self.iterate(graph, states, last=t == self.config.iterations - 1, dense=dense)
            yield states

    def read_out(self, states: States) -> tuple[Tensor, Tensor]:
        """(mean, std) [F] of log P(formula): -(ELU+1) and ELU+1 of f_out(v_d)."""
        n_mu, n_sigma = self.f_out(states.disjunctions[0]).unbind(1)
        return -(F.elu(n_mu) + 1.0), F.elu(n_sigma) + 1.0


def check_device(name: str, what: str = "device") -> None:
    """Refuses a device that this machine, or this build of torch, does not have.

    ``what`` says in the error where the device was asked for.
    """
    try:
        torch.zeros(1, device=torch.device(name))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"{what} {name!r} cannot be used: {error}") from None


def predict_batch(network: Architecture, formulas: Sequence[DNF]) -> tuple[Tensor, Tensor]:
    """(mean, std) float32[F] of log P(formula) for formulas taken together as one graph, without gradients."""
    with torch.inference_mode():
        mean, std = network(Graph.of(formulas).to(network.device))
    return mean.cpu(), std.cpu()


def save_network(network: Architecture, directory: Path, extra: dict[str, Any] | None = None) -> None:
    """Writes config.json and model.safetensors; ``extra`` is put beside the network's own configuration."""
    make_folder(directory)
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    table = {"network": asdict(network.config), **(extra or {})}
    write_atomically(directory / "model.safetensors", save(tensors))
    write_atomically(directory / "config.json", (json.dumps(table, indent=2) + "\n").encode())


def load_network(directory: Path, *, device: str = "cpu") -> Architecture:
    """Reads what :func:`save_network` wrote. Nothing in the files is executed; a bad file is a CheckpointError."""
    try:
        table = json.loads((directory / "config.json").read_text())
        config = NetworkConfig.from_dict(table["network"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / 'config.json'} does not describe a network: {error}") from None
    network = make_network(config)
    load_weights(network, read_tensors(directory / "model.safetensors"), directory)
    network.to(device).eval()
    return network


def read_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or a CheckpointError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read as weights: {error}") from None
    return parse_tensors(data, file)


def parse_tensors(data: bytes, file: Path) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file, or a CheckpointError that names ``file``."""
    try:
        tensors: dict[str, Tensor] = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{file} cannot be read as weights: {error}") from None
    return tensors


def load_weights(module: nn.Module, tensors: dict[str, Tensor], source: Path) -> None:
    """Copies tensors into a module of exactly the same names and shapes; all values must be finite."""
    expected = {name: tuple(t.shape) for name, t in module.state_dict().items()}
    found = {name: tuple(t.shape) for name, t in tensors.items()}
    if expected != found:
        wrong = sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n))[0]
        raise CheckpointError(
            f"{source} holds weights of another shape: {wrong} is {found.get(wrong)}, expected {expected.get(wrong)}"
        )
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise CheckpointError(f"{source}: {name} holds values that are not finite")
    module.load_state_dict(tensors)
