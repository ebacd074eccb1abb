"""The architectures that can be trained and asked: the paper's, and those that users register.

An architecture is a class that inherits from :class:`Architecture` and is registered under a name::

    @architecture("mean-field")
    class MeanField(Architecture): ...

A configuration chooses it with ``architecture = "mean-field"`` in its table [network]. Training, checkpoints,
``NeuralCounter``, ``reproduce --model`` and the engine ``neural`` then use it as they use the paper's. Another package
names the module that registers it under the entry point group ``sharpdnf.architectures``, so that saved weights find
their class by themselves.
"""

from __future__ import annotations

import abc
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TypeVar

import torch
from torch import Tensor, nn

from sharpdnf.errors import ConfigError, did_you_mean
from sharpdnf.learn.config import NetworkConfig
from sharpdnf.learn.graph import Graph

ENTRY_POINTS = "sharpdnf.architectures"
"""The group under which another package names the modules that register its architectures."""
OWN = {"paper": "sharpdnf.learn.model"}
"""The modules of this package that register an architecture, by the architecture's name."""

Memory = tuple[Tensor, Tensor]
"""The (state, cell) of the nodes of one layer, each of shape [nodes, k]; a network without cells gives zeros."""


@dataclass(frozen=True)
class States:
    """What the network holds after an iteration; heads for dense supervision read the literals and conjunctions."""

    literals: Memory
    conjunctions: Memory
    disjunctions: Memory


class Architecture(nn.Module, abc.ABC):
    """A network from a batch of formulas to the mean and standard deviation of a Gaussian over log P(formula)."""

    def __init__(self, config: NetworkConfig | None = None) -> None:
        super().__init__()
        self.config = config or NetworkConfig()

    @abc.abstractmethod
    def run(self, graph: Graph, *, dense: bool = False) -> Iterator[States]:
        """The states after each of the ``config.iterations`` iterations.

        With ``dense`` the states of literals and conjunctions are supervised too, so the last ones must be complete.
        """

    @abc.abstractmethod
    def read_out(self, states: States) -> tuple[Tensor, Tensor]:
        """(mean, std) [F] of log P(formula), from the states after some iteration; std is positive."""

    def forward(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """(mean, std) [F] of log P(formula)."""
        for states in self.run(graph):
            final = states
        return self.read_out(final)

    def trace(self, graph: Graph) -> Tensor:
        """[T, F]: the mean of log P(formula) read out after every iteration (the paper's Figure 4)."""
        return torch.stack([self.read_out(states)[0] for states in self.run(graph)])

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


Kind = TypeVar("Kind", bound=type[Architecture])
_ARCHITECTURES: dict[str, type[Architecture]] = {}


def architecture(name: str) -> Callable[[Kind], Kind]:
    """Registers the decorated class under ``name``; the class takes a NetworkConfig."""

    def register(kind: Kind) -> Kind:
        if not issubclass(kind, Architecture):
            raise TypeError(f"the architecture {name!r} must inherit from Architecture: {kind.__name__} does not")
        _ARCHITECTURES[name] = kind
        return kind

    return register


def make_network(config: NetworkConfig) -> Architecture:
    """An untrained network of the architecture that the configuration names, which is imported if need be."""
    name = config.architecture
    if name not in _ARCHITECTURES and name in OWN:
        importlib.import_module(OWN[name])
    if name not in _ARCHITECTURES:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            entry.load()
    if name not in _ARCHITECTURES:
        known = sorted({*_ARCHITECTURES, *OWN, *entry_points(group=ENTRY_POINTS).names})
        raise ConfigError(
            f"no architecture {name!r}{did_you_mean(name, known)}: known are {', '.join(known)}; import the module "
            "that registers it before its weights are loaded"
        )
    return _ARCHITECTURES[name](config)
