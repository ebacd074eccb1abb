"""The loop: batches -> loss -> Adam with clipping, warm-up and cosine decay; checkpoints, log, validation, resume.

A run is a pure function of its configuration: batch b of step s is rebuilt from (seed, s, b), so a resumed run
continues bit for bit. With torchrun, process r of R takes batches r, r + R, ... of each step and gradients are
averaged, so the number of processes changes the order of additions and nothing else; it may change when a run is
resumed. They may run on several machines, of which only the first needs the run's folder (see ``processes``).
"""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sharpdnf.errors import ConfigError, SharpDNFError
from sharpdnf.files import make_folder, sole_writer, write_atomically
from sharpdnf.learn.architectures import Architecture, make_network
from sharpdnf.learn.checkpoint import RunState, load_checkpoint, load_start, save_checkpoint
from sharpdnf.learn.config import Config, OptimizerConfig
from sharpdnf.learn.curve import draw_curves
from sharpdnf.learn.dataset import Dataset, Epochs
from sharpdnf.learn.graph import Graph
from sharpdnf.learn.loss import Heads, Targets, accuracy, answer_loss, graph_of
from sharpdnf.learn.model import check_device, save_network
from sharpdnf.learn.processes import lost_a_peer, peer_is_gone, process_group, send_weights, shared_checkpoint
from sharpdnf.learn.stream import Example, Labeller, ahead, draw_batch, num_nodes, pack, validation_slice

LOG_EVERY = 20  # how many steps make one row of log.csv
LOG_FIELDS = (
    "step",
    "loss",
    "dense",
    "grad_norm",
    "learning_rate",
    "formulas",
    "variables",
    "nodes",
    "seconds",
    "val_loss",
    "val_error",
    "val_02",
    "val_05",
    "val_10",
    "val_15",
)


@dataclass
class Report:
    """The state of a run, for a line of progress that is shown while it works."""

    step: int = 0
    steps: int = 0
    loss: float = math.nan
    formulas_per_second: float = 0.0
    seconds_left: float = math.nan
    validation: dict[float, float] = field(default_factory=dict)
    doing: str = ""
    """What is done before the next step, where that takes long; empty while steps are made."""


class Objective(nn.Module):
    """The network with its training-only heads; forward gives the loss."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.loss = config.loss
        self.network = make_network(config.network)
        self.heads = Heads(config.network.k) if config.loss.dense > 0 else None

    def forward(self, graph: Graph, targets: Targets) -> tuple[Tensor, Tensor]:
        """(answer loss, dense loss) of the states after the last iteration, both scalars."""
        for states in self.network.run(graph, dense=self.heads is not None):
            final = states
        mean, std = self.network.read_out(final)
        answer = answer_loss(self.loss, mean, std, targets.log_prob)
        dense = self.heads(final, targets) if self.heads is not None else answer.new_zeros(())
        return answer, dense


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """In each cycle a linear warm-up, then half a cosine from the cycle's peak to ``final`` of it."""
    starts = [0, *(restart for restart in config.restarts if restart <= step)]
    end = min((restart for restart in config.restarts if restart > step), default=steps)
    shares = (1.0, *config.restart_rate)  # of the first cycle's peak, the last for all cycles that follow
    peak = config.learning_rate * shares[min(len(starts), len(shares)) - 1]
    done, length = step - starts[-1], max(1, end - starts[-1])
    warm = min(1.0, (done + 1) / max(1, config.warmup_steps))
    if config.schedule == "constant":
        return peak * warm
    fall = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done / length)))
    return peak * warm * (config.final + (1.0 - config.final) * fall)


@dataclass
class Trainer:
    """One process of a run. It is made by the function ``train``."""

    config: Config
    directory: Path
    label: Labeller
    show: Callable[[Report], None]
    rank: int = 0
    """Which of the processes this is; process 0 validates, logs and writes."""
    world: int = 1
    """How many processes share the run."""
    state: RunState = field(default_factory=RunState)
    report: Report = field(default_factory=Report)
    objective: Objective = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    average: Architecture | None = field(init=False)
    """The moving average of the weights, if the configuration asks for one."""
    epochs: Epochs | None = field(init=False)
    """The batches of a dataset; None where formulas are drawn afresh."""
    steps: int = field(init=False)
    """The steps that the schedule is planned for."""
    end: int = field(init=False)
    """The step at which this run stops, which may be before the schedule's end."""
    validation: list[list[Example]] | None = None
    """The validation slice in batches, once it has been labelled."""
    sums: dict[str, float] = field(default_factory=dict)
    """What is to be logged, added up since the last line of the log."""
    board: Any = None
    """TensorBoard's writer, where that is installed."""

    def __post_init__(self) -> None:
        run = self.config.run
        for batches in run.batches:
            if batches % self.world:
                raise ConfigError(f"run.batches = {batches} cannot be shared evenly by {self.world} processes")
        torch.manual_seed(run.seed)
        self.objective = Objective(self.config).to(run.device)
        if run.init and self.rank == 0:
            load_start(self.objective, self.objective.network, Path(run.init))
        if self.world > 1:
            send_weights(self.objective)
        self.optimizer = torch.optim.Adam(
            self.objective.parameters(), lr=self.config.optimizer.learning_rate, betas=self.config.optimizer.betas
        )
        self.average = copy.deepcopy(self.objective.network) if self.config.optimizer.average > 0 else None
        with shared_checkpoint(self.directory, self.rank, self.world, run.device) as folder:
            restored = load_checkpoint(folder, self.config, self.objective, self.optimizer, self.average)
        self.state = restored or self.state
        self.epochs = self._open_epochs()
        self.steps = self._count_steps()
        self.end = min(self.config.run.stop or self.steps, self.steps)

    def _open_epochs(self) -> Epochs | None:
        data = self.config.data
        if data.source == "stream":
            return None
        return Epochs(Dataset(Path(data.source), "train"), data.batch_nodes, self.config.run.seed)

    def _count_steps(self) -> int:
        run = self.config.run
        if self.epochs is not None and run.epochs:
            return max(1, round(run.epochs * len(self.epochs) / run.batches[0]))
        return run.steps

    def batches(self) -> Iterator[list[list[Example]]]:
        """This process's batches of each step, from the current step on."""
        data, seed = self.config.data, self.config.run.seed
        marginals = self.config.loss.dense > 0
        for step in range(self.state.step, self.end):
            own = range(self.rank, self.config.batches(step), self.world)
            if self.epochs is not None:
                yield [self.epochs.read(step * self.config.run.batches[0] + number) for number in own]
            else:
                yield [
                    draw_batch(data, self.label, seed, step, number, steps=self.steps, marginals=marginals)
                    for number in own
                ]

    def run(self) -> Architecture:
        """Trains to the end and returns the final network."""
        last_checkpoint = last_row = time.monotonic()
        done = self.state.step
        if self.rank == 0:
            self._open_log()
        for batches in ahead(self.batches, self.config.data.prefetch):
            self._step(batches)
            now = time.monotonic()
            finished = self.state.step == self.end
            if self.rank == 0:
                if finished or self.state.step % self.config.run.validate_steps == 0:
                    self._validate()
                if self.state.step % LOG_EVERY == 0 or finished:
                    self._log((now - last_row) / (self.state.step - done))
                    last_row, done = now, self.state.step
                if finished or now - last_checkpoint > 60 * self.config.run.checkpoint_minutes:
                    self.save()
                    last_checkpoint = time.monotonic()
        return self.network

    @property
    def network(self) -> Architecture:
        """The network to validate and keep: the moving average of the weights where there is one, else the weights."""
        network: Architecture = self.objective.network if self.average is None else self.average
        return network

    def save(self) -> None:
        """Writes a checkpoint, and draws the log so far into loss.png."""
        if self.rank == 0:
            save_checkpoint(self.directory, self.config, self.state, self.objective, self.optimizer, self.average)
            draw_curves(self.directory / "log.csv", self.directory / "loss.png")

    def _restart(self) -> None:
        """Begins a cycle: with the averaged weights, and with heads and moments that know nothing yet.

        This happens at the beginning of a step, when no checkpoint holds anything of the new cycle: a run that is
        resumed at this very step does it again with the same result.
        """
        torch.manual_seed(self.config.run.seed + self.state.step)
        fresh = Objective(self.config).to(self.config.run.device)
        fresh.network.load_state_dict(self.network.state_dict())
        self.objective.load_state_dict(fresh.state_dict())
        self.optimizer.state.clear()

    def _step(self, batches: list[list[Example]]) -> None:
        started = time.monotonic()
        if self.state.step in self.config.optimizer.restarts:
            self._restart()
        rate = learning_rate(self.config.optimizer, self.state.step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = self._gradients(batches)
        formulas = [example.dnf for examples in batches for example in examples]
        sizes = len(formulas), sum(dnf.num_vars for dnf in formulas), sum(map(num_nodes, formulas))
        loss, dense_loss, *totals = self._sum_over_processes(*losses, *sizes)
        norm = float(nn.utils.clip_grad_norm_(self.objective.parameters(), self.config.optimizer.clip))
        with _whole():
            if math.isfinite(norm):  # the same on every process, because the gradients are
                self.optimizer.step()
            if self.average is not None:
                self._follow(self.average)
            self.state.step += 1
            self.state.formulas += round(totals[0])
            self.state.variables += round(totals[1])
            self.state.nodes += round(totals[2])
            self.state.seconds += time.monotonic() - started
        values = {"loss": loss, "dense": dense_loss, "grad_norm": norm, "steps": 1.0, "formulas": totals[0]}
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def _sum_over_processes(self, *values: float) -> list[float]:
        """Adds up values over all processes, so that log and state do not depend on how many there are."""
        if self.world == 1:
            return list(values)
        together = torch.tensor(values, dtype=torch.float64, device=self.config.run.device)
        torch.distributed.all_reduce(together)
        sums: list[float] = together.tolist()
        return sums

    def _gradients(self, batches: list[list[Example]]) -> list[float]:
        """Fills the parameters' gradients with the mean over the batches of all processes.

        Returns this process's share of the mean losses, of the answers and of the dense supervision. Where each batch
        is clipped by itself, one formula with a steep loss does not drown out the other batches of the step.
        """
        parameters, optimizer = list(self.objective.parameters()), self.config.optimizer
        mean = [torch.zeros_like(parameter) for parameter in parameters]
        losses, share = [0.0, 0.0], 1.0 / (len(batches) * self.world)
        for examples in batches:
            self.optimizer.zero_grad(set_to_none=True)
            device = self.config.run.device
            answer, dense = self.objective(graph_of(examples, device), Targets.of(examples, device))
            (answer + self.config.loss.dense * dense).backward()
            if self.config.clips_each(self.state.step):
                nn.utils.clip_grad_norm_(parameters, optimizer.clip)
            for total, parameter in zip(mean, parameters, strict=True):
                if parameter.grad is not None:
                    total.add_(parameter.grad, alpha=share)
            losses[0] += float(answer.detach()) * share
            losses[1] += float(dense.detach()) * share
        if self.world > 1:
            flat = nn.utils.parameters_to_vector(mean)
            torch.distributed.all_reduce(flat)
            nn.utils.vector_to_parameters(flat, mean)
        for total, parameter in zip(mean, parameters, strict=True):
            parameter.grad = total
        return losses

    @torch.no_grad()
    def _follow(self, average: Architecture) -> None:
        """Moves the average towards the weights: average <- d average + (1 - d) weights.

        In the first steps d is smaller, so that the random start is forgotten sooner.
        """
        begun = max((restart for restart in self.config.optimizer.restarts if restart <= self.state.step), default=0)
        decay = min(self.config.optimizer.average, (self.state.step - begun + 1) / (self.state.step - begun + 10))
        for kept, current in zip(average.parameters(), self.objective.network.parameters(), strict=True):
            kept.lerp_(current, 1.0 - decay)

    def _validate(self) -> None:
        if self.validation is None:
            data = self.config.data
            examples = validation_slice(data, self.label, self.config.run.seed)
            self.validation = pack(examples, lambda example: num_nodes(example.dnf), 2 * data.batch_nodes)
        if not self.validation:
            return
        means, labels = [], []
        with torch.no_grad():
            for examples in self.validation:
                mean, _ = self.network(graph_of(examples, self.config.run.device))
                means.append(mean.cpu())
                labels.append(torch.tensor([e.log_prob for e in examples], dtype=torch.float32))
        mean, log_prob = torch.cat(means), torch.cat(labels)
        self.report.validation = accuracy(mean, log_prob)
        error = float((mean.exp() - log_prob.exp()).abs().mean())
        self.sums |= {f"val_{round(100 * t):02d}": share for t, share in self.report.validation.items()}
        self.sums |= {"val_error": error, "val_loss": float((mean - log_prob).abs().mean())}
        score = [sum(self.report.validation.values()) / 4, -error]
        if score > self.state.best:
            save_network(self.network, self.directory / "best", {"step": self.state.step})
            self.state.best = score

    def _open_log(self) -> None:
        """Starts log.csv, or drops the rows after the checkpoint that the run resumes from."""
        file = self.directory / "log.csv"
        rows = []
        if file.exists() and self.state.step:
            with file.open(newline="") as old:
                rows = [row for row in csv.DictReader(old) if int(row["step"]) <= self.state.step]
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, LOG_FIELDS)
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(file, text.getvalue().encode())
        self.board = _tensorboard(self.directory)

    def _log(self, pace: float) -> None:
        count = self.sums.pop("steps", 1.0)
        recent = self.sums.pop("formulas", 0.0)
        row: dict[str, float] = {n: self.sums[n] / count for n in ("loss", "dense", "grad_norm") if n in self.sums}
        row |= {n: v for n, v in self.sums.items() if n.startswith("val_")}
        row |= {"learning_rate": self.optimizer.param_groups[0]["lr"], "seconds": round(self.state.seconds, 1)}
        row |= {n: getattr(self.state, n) for n in ("step", "formulas", "variables", "nodes")}
        self.sums = {}
        with (self.directory / "log.csv").open("a", newline="") as log:
            csv.DictWriter(log, LOG_FIELDS).writerow(
                {n: f"{v:.6g}" if isinstance(v, float) else v for n, v in row.items()}
            )
        if self.board is not None:
            for name, value in row.items():
                self.board.add_scalar(name, value, self.state.step)
        self.report = replace(
            self.report,
            step=self.state.step,
            steps=self.end,
            loss=row.get("loss", math.nan),
            formulas_per_second=recent / (count * pace),
            seconds_left=(self.end - self.state.step) * pace,
        )
        self.show(self.report)


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Holds Ctrl-C back until the block has ended, so that weights and state change together and can be resumed."""
    if threading.current_thread() is not threading.main_thread():  # only there do signals arrive
        yield
        return
    came: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *args: came.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])


def _tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory / "tensorboard"))


def _kind_of(config: Config, world: int) -> type[Trainer]:
    """Who trains: the whole network, or, where an answer is to be held, what holds it."""
    if not config.hold.after:
        return Trainer
    if world > 1:
        raise ConfigError("a run with hold.after makes processes of its own: start it without torchrun")
    from sharpdnf.learn.hold import Holder  # which is a Trainer

    return Holder


def train(
    config: Config, directory: Path, label: Labeller, show: Callable[[Report], None] = lambda report: None
) -> Architecture:
    """Trains, or resumes, the run in ``directory``; leaves checkpoint, log.csv, loss.png, best/ and final/ there."""
    torch.set_num_threads(config.run.threads)
    check_device(config.run.device, "run.device")
    try:
        make_folder(directory)
    except OSError as error:
        raise SharpDNFError(f"{directory} cannot be made: {error.strerror}") from None
    rank, world = process_group(config.run.device)
    with sole_writer(directory) if rank == 0 else contextlib.nullcontext():  # only process 0 writes files
        trainer = _kind_of(config, world)(config, directory, label, show, rank, world)
        try:
            network = trainer.run()
        except KeyboardInterrupt:
            trainer.save()
            raise
        except RuntimeError as error:
            if not lost_a_peer(error, world):
                raise
            trainer.save()
            raise peer_is_gone(trainer.state.step) from error
        if rank == 0:
            save_network(network, directory / "final", {"step": trainer.state.step})
        if world > 1:
            torch.distributed.barrier()  # what comes next may start from these weights
        return network
