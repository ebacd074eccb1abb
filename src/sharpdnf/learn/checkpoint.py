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
from safetensors.torch import save
from torch import Tensor, nn

from sharpdnf.errors import CheckpointError
from sharpdnf.files import write_atomically
from sharpdnf.learn.config import Config
from sharpdnf.learn.model import load_network, load_weights, parse_tensors

STATE_FILE = "checkpoint.json"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""The names of the tensors that Adam keeps for every parameter it has moved."""


@dataclass
class RunState:
    """What a run has to remember beside its tensors to be resumed."""

    step: int = 0
    seconds: float = 0.0
    formulas: int = 0
    variables: int = 0
    nodes: int = 0
    best: list[float] = field(default_factory=list)
    """The best validation so far, as (score, minus the mean error); empty before the first."""


def identity(config: Config) -> dict[str, Any]:
    """The part of a configuration that decides the result, as JSON knows it.

    The number of processes does not belong to it: they share the ``run.batches`` batches of a step, so it changes no
    formula and no label, only the order in which gradients are added. A run may be resumed with another number.
    """
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
    """Writes the tensors, then the JSON that makes them the current checkpoint, then removes the previous one."""
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


def checkpoint_step(directory: Path) -> int:
    """The step of the checkpoint in ``directory``; -1 where no run has begun."""
    return _read(directory).state.step if (directory / STATE_FILE).exists() else -1


def checkpoint_files(directory: Path) -> dict[str, bytes]:
    """What another folder needs to go on with the run: files by name, the one that makes the others count last."""
    names = [_read(directory).file.name, *(name for name in ("log.csv",) if (directory / name).exists()), STATE_FILE]
    return {name: (directory / name).read_bytes() for name in names}


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
    stored = _read(directory)
    if stored.config != identity(config):
        changed = _first_difference(stored.config, identity(config))
        raise CheckpointError(f"{directory} holds a run of another configuration ({changed}): use another directory")
    load_weights(module, _under("module.", stored.tensors), stored.file)
    if average is not None:
        load_weights(average, _under("average.", stored.tensors), stored.file)
    _load_optimizer(optimizer, _under("optimizer.", stored.tensors), stored.file)
    return stored.state


def load_start(objective: nn.Module, network: nn.Module, directory: Path) -> None:
    """Fills the weights that a new run starts from.

    ``directory`` is a run, whose checkpoint fills the whole objective, or holds only a network, which fills the
    objective's ``network`` and leaves its heads as they are.
    """
    if not (directory / STATE_FILE).exists():
        load_weights(network, load_network(directory).state_dict(), directory)
        return
    stored = _read(directory)
    load_weights(objective, _under("module.", stored.tensors), stored.file)


@dataclass(frozen=True)
class _Stored:
    """The checkpoint in a run's directory, once the hash has shown that the tensors are those that were written."""

    state: RunState
    config: Any
    file: Path
    tensors: dict[str, Tensor]


def _read(directory: Path) -> _Stored:
    where = directory / STATE_FILE
    try:
        table = json.loads(where.read_text())
        state, file = RunState(**table["state"]), directory / Path(table["file"]).name
        config, digest = table["config"], table["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{where} is not a checkpoint: {error}") from None
    numbers = (state.seconds, *(state.best if isinstance(state.best, list) else [None]))
    counts = (state.step, state.formulas, state.variables, state.nodes)
    if not all(type(n) is int and n >= 0 for n in counts) or not all(type(n) in (int, float) for n in numbers):
        raise CheckpointError(f"{where} is not a checkpoint: its state is {asdict(state)}")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise CheckpointError(f"{file} is truncated or was changed after it was written")
    return _Stored(state, config, file, parse_tensors(data, file))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Fills Adam's moments from tensors named ``{parameter}.{moment}``; what does not fit is a CheckpointError.

    torch itself takes any name and shape here, and fails, or computes something else, in the step that follows.
    """
    expected = {
        f"{index}.{moment}": tuple(parameter.shape) if moment != "step" else ()
        for index, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"])
        for moment in MOMENTS
    }
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if expected.get(name) != tuple(tensor.shape):
            problem = f"is {tuple(tensor.shape)}, expected {expected.get(name)}"
        elif not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
            problem = "holds values that are not finite"
        elif not name.endswith(".exp_avg") and bool((tensor < 0).any()):
            problem = "holds values below 0"
        else:
            place, moment = name.split(".")
            state.setdefault(int(place), {})[moment] = tensor
            continue
        raise CheckpointError(f"{source}: the optimizer's {name} {problem}")
    for index, moments in state.items():
        if len(moments) < len(MOMENTS):
            raise CheckpointError(f"{source}: the optimizer has only {', '.join(sorted(moments))} of parameter {index}")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _first_difference(old: Any, new: Any, where: str = "") -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                return _first_difference(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    return f"{where} was {old!r}, is {new!r}"
