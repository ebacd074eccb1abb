"""Teaches a network that answers after a few iterations to hold its answer through many more, T = 8 to T = 32.

A network trained for 8 iterations passes through its answer at the eighth and loses it afterwards. To hold it is a
matter of one place, the disjunction's cell, and all that this cell ever sees of a formula is one row of k numbers an
iteration, the sum of its conjunctions' messages:

    v_d^t = L_d(v_d^(t-1), x^t),   x^t = sum of M_c(v^_c) over the conjunctions        (step (b) of the iteration)

So v_d, L_d and f_out are trained and nothing else moves. The rows x^t are recorded for thousands of formulas, once,
and a step then takes a hundred formulas of all sizes at the price of a hundred rows, where training the whole network
has four large formulas a step.

What the disjunction sends back changes the messages, so there are rounds. The first records what would come if the
cell held perfectly after ``hold.after`` iterations. Each round that follows records what comes with the cell as the
round before has left it, and learns from all that was recorded since the second (dataset aggregation: Ross, Gordon,
Bagnell, AISTATS 2011).
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import save
from torch import Tensor

from sharpdnf.bulk import in_any_order
from sharpdnf.files import write_atomically
from sharpdnf.learn.architectures import Memory, States
from sharpdnf.learn.checkpoint import identity
from sharpdnf.learn.config import DataConfig
from sharpdnf.learn.graph import Graph
from sharpdnf.learn.inference import run_paper
from sharpdnf.learn.loss import answer_loss, graph_of
from sharpdnf.learn.model import Network, load_network, read_tensors, save_network
from sharpdnf.learn.stream import Example, Labeller, draw_batch, num_nodes
from sharpdnf.learn.train import Trainer
from sharpdnf.streams import Stream, random_stream


@dataclass(frozen=True)
class Records:
    """What the disjunctions of F formulas received, what they sent, and the formulas' labels."""

    messages: Tensor
    """float32[T, F, k]: x^t, the sum of the conjunctions' messages in each iteration."""
    states: Tensor
    """float32[after, F, k]: v_d^t after each of the first iterations."""
    log_prob: Tensor
    """float32[F]"""
    sizes: Tensor
    """int64[batches, 3]: how many formulas, variables and nodes each batch has."""

    @classmethod
    def read(cls, files: Sequence[Path], device: str) -> Records:
        """What was recorded in these files, one for each batch."""
        tables = [read_tensors(file) for file in files]
        messages, states = (torch.cat([table[name] for table in tables], 1) for name in ("messages", "states"))
        log_prob, sizes = torch.cat([table["log_prob"] for table in tables]), [table["sizes"] for table in tables]
        return cls(messages.to(device), states.to(device), log_prob.to(device), torch.stack(sizes))


def record(network: Network, graph: Graph, after: int, *, perfectly: bool) -> tuple[Tensor, Tensor]:
    """(messages [T, F, k], states [after, F, k]) of the disjunctions of a batch of formulas.

    With ``perfectly`` the disjunctions stay as they are after ``after`` iterations, whatever L_d would make of them.
    """
    messages: list[Tensor] = []
    states: list[Tensor] = []

    def advance(memory: Memory, received: Tensor) -> Memory:
        messages.append(received)
        memory = memory if perfectly and len(messages) > after else network.L_d(memory, received)
        states.append(memory[0])
        return memory

    with torch.inference_mode():
        for _ in run_paper(network, graph, advance):
            pass
    return torch.stack(messages), torch.stack(states[:after])


def replay(network: Network, messages: Tensor) -> list[Tensor]:
    """v_d [F, k] after each iteration, from the messages [T, F, k] that the disjunctions receive."""
    start = network.v_d.repeat(messages.shape[1], 1)
    memory: Memory = (start, torch.zeros_like(start))
    states = []
    for received in messages:
        memory = network.L_d(memory, received)
        states.append(memory[0])
    return states


@dataclass
class Holder(Trainer):
    """A run that trains v_d, L_d and f_out on recorded messages. It is made by the function ``train``."""

    records: Records | None = None
    """The messages of the current round, once a step has asked for them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        network = self._network()
        learning = [network.v_d, *network.L_d.parameters(), *network.f_out.parameters()]
        for parameter in network.parameters():
            parameter.requires_grad_(any(parameter is one for one in learning))

    def _network(self) -> Network:
        return cast(Network, self.objective.network)

    def batches(self) -> Iterator[list[list[Example]]]:
        """Nothing for each of the steps: the formulas of a step are drawn from the records."""
        for _ in range(self.state.step, self.end):
            yield []

    def _restart(self) -> None:
        super()._restart()
        self.records = None

    def _step(self, batches: list[list[Example]]) -> None:
        first = self.state.step in (0, *self.config.optimizer.restarts)
        number = self._round()
        super()._step(batches)
        self.sums["formulas"] += self.config.hold.formulas
        if first and self.records is not None:  # counted once, however often recording was interrupted
            formulas, variables, nodes = self.records.sizes[-len(self._files(number)) :].sum(0).tolist()
            self.state.formulas += formulas
            self.state.variables += variables
            self.state.nodes += nodes

    def _round(self) -> int:
        """The number of the current round, from 0 on."""
        return sum(restart <= self.state.step for restart in self.config.optimizer.restarts)

    def _gradients(self, batches: list[list[Example]]) -> list[float]:
        """Fills the gradients of what learns, with the loss of some recorded formulas.

        It is the answer's loss, in the mean over all iterations from ``hold.after`` on and once more after the last,
        and the squared distance of the first states from the recorded ones, which keeps the messages as they were
        recorded. Returned are the answer's loss after the last iteration and that distance.
        """
        records = self.records = self.records or self._record()
        hold, network = self.config.hold, self._network()
        rng = random_stream(self.config.run.seed, Stream.HOLD_ROWS, self.state.step)
        rows = torch.from_numpy(rng.integers(len(records.log_prob), size=hold.formulas)).to(self.config.run.device)
        states = replay(network, records.messages[:, rows])
        losses = [self._answer_loss(state, records.log_prob[rows]) for state in states[hold.after - 1 :]]
        recorded = records.states[:, rows]
        apart = (torch.stack(states[: hold.after]) - recorded).square().sum((0, 2)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        (torch.stack(losses).mean() + losses[-1] + hold.match * apart).backward()
        return [float(losses[-1].detach()), float(apart.detach())]

    def _answer_loss(self, state: Tensor, log_prob: Tensor) -> Tensor:
        memory = (state, state)  # f_out reads the states of the disjunctions and nothing else
        mean, std = self._network().read_out(States(memory, memory, memory))
        return answer_loss(self.config.loss, mean, std, log_prob)

    def _record(self) -> Records:
        """What the current round learns from; what is missing of it in the run's folder is made.

        The records of a round are of the weights that it began with, which lie beside them. A run that is killed while
        it records begins the round with the same weights again and finds what it had.
        """
        number = self._round()
        folder, files = self._folder(number), self._files(number)
        if self.state.step in (0, *self.config.optimizer.restarts):
            self._begin_round(folder)
        missing = [batch for batch, file in enumerate(files) if not file.exists()]
        source = _Source(folder, number, len(files), self.config.hold.after, self.config.run.seed)
        work = functools.partial(_record_batch, source, self.config.data, self.label)
        workers = None if find_spec("joblib") else 1  # one for each processor, where they can be had
        for done, _ in enumerate(in_any_order(work, missing, workers=workers), start=1):
            doing = f"round {number}: recorded {done} of {len(missing)} batches of formulas"
            self.show(replace(self.report, doing=doing))
        before = [file for earlier in range(1, number) for file in self._files(earlier)]
        return Records.read([*before, *files], self.config.run.device)

    def _folder(self, number: int) -> Path:
        return self.directory / f"round-{number}"

    def _files(self, number: int) -> list[Path]:
        """The files of a round, one for each batch of formulas."""
        batches = self.config.recorded_batches(number)
        return [self._folder(number) / f"{batch:06d}.safetensors" for batch in range(batches)]

    def _begin_round(self, folder: Path) -> None:
        """Puts the current weights into the folder of the round, after clearing it if it is of another run."""
        hashed = hashlib.sha256(json.dumps(identity(self.config), sort_keys=True).encode())
        for tensor in self._network().state_dict().values():
            hashed.update(tensor.cpu().numpy().tobytes())
        digest, mark = hashed.hexdigest(), folder / "made-for"
        if mark.exists() and mark.read_text() == digest:
            return
        shutil.rmtree(folder, ignore_errors=True)
        save_network(self._network(), folder)
        write_atomically(mark, digest.encode())


@dataclass(frozen=True)
class _Source:
    """Where the batches of a round come from, and where their records go."""

    folder: Path
    number: int
    batches: int
    after: int
    seed: int


@functools.lru_cache(maxsize=1)
def _in_worker(folder: Path) -> Network:
    """The network of a round, loaded with the first batch that a worker is given."""
    torch.set_num_threads(1)
    return cast(Network, load_network(folder))


def _record_batch(source: _Source, data: DataConfig, label: Labeller, batch: int) -> None:
    """Records one batch of a round into its file."""
    examples = draw_batch(data, label, source.seed, batch, source.number, steps=source.batches, marginals=False)
    network = _in_worker(source.folder)
    messages, states = record(network, graph_of(examples), source.after, perfectly=source.number == 0)
    formulas = [example.dnf for example in examples]
    tensors = {
        "messages": messages,
        "states": states,
        "log_prob": torch.tensor([example.log_prob for example in examples], dtype=torch.float32),
        "sizes": torch.tensor([len(formulas), sum(f.num_vars for f in formulas), sum(map(num_nodes, formulas))]),
    }
    write_atomically(source.folder / f"{batch:06d}.safetensors", save(tensors))
