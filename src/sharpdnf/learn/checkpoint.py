"""A training run on disk: weights and optimizer as safetensors, everything else as JSON, never pickle.

``checkpoint.json`` is written last and by renaming, and names the tensor file with its hash: killed at any moment, a
run has either the old checkpoint or the new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sharpdnf.errors import CheckpointError
from sharpdnf.learn.config import Config
from sharpdnf.learn.model import load_network, load_weights, read_tensors

STATE_FILE = "checkpoint.json"


@dataclass
class RunState:
    """What a run knows beside its tensors."""

    step: int = 0
    seconds: float = 0.0
    formulas: int = 0
    variables: int = 0
    nodes: int = 0
    best: list[float] = field(default_factory=list)
    """the best validation so far: (score, minus mean error)"""


def identity(config: Config) -> dict[str, Any]:
    """The part of a configuration that decides the result, as JSON knows it."""
    table = asdict(config)
    for name in ("checkpoint_minutes", "threads", "device"):
        table["run"].pop(name)
    table.pop("dataset")
    normal: dict[str, Any] = json.loads(json.dumps(table))
    return normal


def save_checkpoint(
    directory: Path,
    config: Config,
    state: RunState,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: nn.Module | None = None,
) -> None:
    """Writes the tensors, then the JSON that makes them count, then forgets the checkpoint before."""
    from safetensors.torch import save

    tensors = {f"module.{name}": t for name, t in module.state_dict().items()}
    if average is not None:
        tensors |= {f"average.{name}": t for name, t in average.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(v) for name, v in values.items()}
    data = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    name = f"checkpoint-{state.step:08d}.safetensors"
    write_atomically(directory / name, data)
    table = {
        "file": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "state": asdict(state),
        "config": identity(config),
    }
    write_atomically(directory / STATE_FILE, (json.dumps(table, indent=2) + "\n").encode())
    for old in directory.glob("checkpoint-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def load_checkpoint(
    directory: Path,
    config: Config,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: nn.Module | None = None,
) -> RunState | None:
    """Fills the module, the optimizer and the average and returns the run's state; None where no run has begun."""
    if not (directory / STATE_FILE).exists():
        return None
    try:
        table = json.loads((directory / STATE_FILE).read_text())
        state, file = RunState(**table["state"]), directory / Path(table["file"]).name
        recorded, digest = table["config"], table["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / STATE_FILE} is not a checkpoint: {error}") from None
    if recorded != identity(config):
        changed = _first_difference(recorded, identity(config))
        raise CheckpointError(f"{directory} holds a run of another configuration ({changed}): use another directory")
    try:
        actual = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from None
    if actual != digest:
        raise CheckpointError(f"{file} is truncated or was changed after it was written")
    tensors = read_tensors(file)
    load_weights(module, _under("module.", tensors), file)
    if average is not None:
        load_weights(average, _under("average.", tensors), file)
    _load_optimizer(optimizer, tensors)
    return state


def load_start(objective: nn.Module, directory: Path) -> None:
    """Weights to start another run from: a run's checkpoint with its heads, or the directory of a network alone."""
    if not (directory / STATE_FILE).exists():
        load_weights(objective.network, load_network(directory).state_dict(), directory)
        return
    try:
        file = directory / Path(json.loads((directory / STATE_FILE).read_text())["file"]).name
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / STATE_FILE} is not a checkpoint: {error}") from None
    tensors = read_tensors(file)
    load_weights(objective, _under("module.", tensors), file)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    table = optimizer.state_dict()
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".")
            table["state"].setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict(table)


def write_atomically(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    partial.replace(path)


def _first_difference(old: Any, new: Any, where: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    return f"{where} was {old!r}, is {new!r}"
