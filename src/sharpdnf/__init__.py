"""Weighted #DNF counting: exact, guaranteed and learned.

>>> import sharpdnf
>>> round(sharpdnf.count(sharpdnf.DNF.from_clauses([[1, 2], [-1, 3]])).prob, 12)
0.5
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharpdnf.analysis import (
        condition,
        conditional,
        count_weights,
        marginals,
        most_probable_model,
        sample_models,
    )
    from sharpdnf.builder import Builder
    from sharpdnf.circuit import Circuit
    from sharpdnf.circuit_formats import read_circuit, write_circuit
    from sharpdnf.dnf import DNF, Batch
    from sharpdnf.engines.front import count
    from sharpdnf.engines.many import count_many
    from sharpdnf.engines.registry import discover, engine
    from sharpdnf.errors import NotMetWarning, ParseError, SharpDNFError
    from sharpdnf.estimate import Estimate
    from sharpdnf.formats import read, reads, write, writes
    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.sensitivity import Influence, influence
    from sharpdnf.sql import ProbDB, connect

# Public name -> the module that defines it. None may be called like a module: importing that would hide it.
# Imported at first use, so that a command line's --help needs no numpy.
_HOME = {
    "DNF": "dnf",
    "Batch": "dnf",
    "Circuit": "circuit",
    "Builder": "builder",
    "read_circuit": "circuit_formats",
    "write_circuit": "circuit_formats",
    "Estimate": "estimate",
    "SharpDNFError": "errors",
    "ParseError": "errors",
    "NotMetWarning": "errors",
    "read": "formats",
    "reads": "formats",
    "write": "formats",
    "writes": "formats",
    "count": "engines.front",
    "count_many": "engines.many",
    "discover": "engines.registry",
    "engine": "engines.registry",
    "marginals": "analysis",
    "influence": "sensitivity",
    "Influence": "sensitivity",
    "sample_models": "analysis",
    "condition": "analysis",
    "conditional": "analysis",
    "most_probable_model": "analysis",
    "count_weights": "analysis",
    "NeuralCounter": "learn.counter",
    "connect": "sql",
    "ProbDB": "sql",
}
_MODULES = {
    "network": "fronts.network",
    "faulttree": "fronts.faulttree",
    "problog": "fronts.problog",
    "torch": "torch",
}
_EXTRA = {"torch": "neural", "safetensors": "neural", "duckdb": "sql", "sqlglot": "sql", "pyarrow": "sql"}
__all__ = [  # noqa: RUF022 - in the order a newcomer meets them
    "DNF", "Batch", "read", "reads", "write", "writes",
    "Circuit", "Builder", "read_circuit", "write_circuit",
    "count", "count_many", "Estimate", "discover", "engine",
    "marginals", "influence", "Influence", "sample_models", "condition", "conditional", "most_probable_model",
    "count_weights",
    "NeuralCounter", "connect", "ProbDB", "SharpDNFError", "ParseError", "NotMetWarning",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(f"module 'sharpdnf' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"sharpdnf.{_MODULES.get(name) or _HOME[name]}")
    except ModuleNotFoundError as error:
        extra = _EXTRA.get(error.name or "")
        if extra is None:
            raise
        from sharpdnf.errors import MissingExtra

        raise MissingExtra(name, extra) from error
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def _version() -> str:
    """The version that is installed; pyproject.toml is the one place where it is written down."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sharpdnf")
    except PackageNotFoundError:
        return "0+not-installed"


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_MODULES])
