"""An experiment file: TOML into typed tables. An unknown key is an error, never a silent default."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sharpdnf.errors import ConfigError
from sharpdnf.generate import VARIANTS

Section = TypeVar("Section")
Value = TypeVar("Value")
KINDS = ("paper", "spread", "uniform", "hub")
LOSSES = ("kl", "robust", "cauchy")


def check(held: bool, message: str) -> None:
    if not held:
        raise ConfigError(message)


@dataclass(frozen=True)
class NetworkConfig:
    """The shape of the network: the table [network]."""

    k: int = 128
    """How many numbers the state and the message of every node have."""
    iterations: int = 8
    """How many iterations of message passing there are (the paper's T)."""
    architecture: str = "paper"
    """The name of the architecture: the paper's, or one that ``sharpdnf.learn.architectures`` has been told of."""

    def __post_init__(self) -> None:
        check(isinstance(self.architecture, str), f"network architecture is a name, not {self.architecture!r}")
        for name, value in (("k", self.k), ("iterations", self.iterations)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 4096:
                raise ConfigError(f"network {name} must be an integer between 1 and 4096, not {value!r}")

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> NetworkConfig:
        unknown = set(table) - {f.name for f in dataclasses.fields(cls)}
        if unknown:
            raise ConfigError(f"unknown network key {sorted(unknown)[0]!r}; known: architecture, k, iterations")
        return cls(**table)


@dataclass(frozen=True)
class MixConfig:
    """One source of training formulas, used in the steps from ``start`` to before ``stop``.

    paper: one of the paper's (w, m) settings for n; spread: the paper's generator with m = mass * 2^w clauses, so that
    the expected sum of the clauses' probabilities, and with it the answer, is spread whatever the width;
    uniform: the same m, variables drawn uniformly; hub: few variables that stand in nearly all of many clauses.
    """

    kind: str = "paper"
    """Which generator draws the formulas: "paper", "spread", "uniform" or "hub"."""
    num_vars: tuple[int, int] = (50, 1000)
    """The range of the number of variables n, which is drawn log-uniformly."""
    weight: float = 1.0
    """How often a batch comes from this source, in proportion to the weights of all sources that are active."""
    widths: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    """For spread, uniform and hub: the numbers of literals a clause may have. One is drawn for each formula; one that
    is listed twice is drawn twice as often."""
    mass: tuple[float, float] = (0.05, 6.0)
    """For spread and uniform: the range of the expected sum of the clauses' probabilities, m / 2^w, which is drawn
    log-uniformly and decides the number of clauses m."""
    max_clauses: int = 1000
    """For spread and uniform: how many clauses a formula has at most; a drawn setting with more is drawn again."""
    wide_weight: float = 1.0
    """For paper: how often a setting with w >= 21 is drawn for each draw of another one. Nearly all its answers are
    about 0, so there is little to learn from it."""
    privileged: str = "random"
    """For paper and spread: whether formulas have privileged variables, "always", "never" or "random", which is a fair
    coin as in the paper's data."""
    variant: str = "mixed"
    """For paper and spread: whom the generator follows, "code" the authors' program, "mixed" the printed appendix, with
    the program's number of privileged variables in half of the formulas and either placement."""
    clauses: tuple[float, float] = (1000.0, 12000.0)
    """For hub: the range of the number of clauses m, which is drawn log-uniformly."""
    max_hubs: int = 3
    """For hub: how many variables at most stand in most clauses; there is at least one."""
    least_share: float = 0.5
    """For hub: the smallest share of the clauses that a hub stands in."""
    epsilon: float = 0.01
    """The relative error of the labels, which is exceeded with probability 0.05 at most."""
    start: float = 0.0
    """From when on this source is used: a step, or, if it is at most 1, a share of ``run.steps``."""
    stop: float = 1.0
    """When this source is used no more: a step, or, if it is at most 1, a share of ``run.steps``."""

    def __post_init__(self) -> None:
        check(self.kind in KINDS, f"data.mix kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        check(
            2 <= self.num_vars[0] <= self.num_vars[1],
            f"data.mix num_vars must be a range from 2 up, not {self.num_vars}",
        )
        check(0 < self.mass[0] <= self.mass[1], f"data.mix mass must be a range above 0, not {self.mass}")
        check(0 < self.epsilon < 1, f"data.mix epsilon must lie between 0 and 1, not {self.epsilon}")
        check(0 < self.wide_weight <= 1, f"data.mix wide_weight must lie in (0, 1], not {self.wide_weight}")
        always = ("random", "always", "never")
        check(self.privileged in always, f"data.mix privileged is one of {', '.join(always)}, not {self.privileged!r}")
        check(self.variant in ("mixed", "code"), f"data.mix variant is mixed or code, not {self.variant!r}")
        check(self.weight >= 0, f"data.mix weight must not be negative, not {self.weight}")
        check(len(self.widths) > 0 and min(self.widths) >= 1, "data.mix widths must be positive")
        check(self.max_clauses >= 1, "data.mix max_clauses must be positive")
        check(
            1 <= self.clauses[0] <= self.clauses[1], f"data.mix clauses must be a range from 1 up, not {self.clauses}"
        )
        check(self.max_hubs >= 1, f"data.mix max_hubs must be positive, not {self.max_hubs}")
        check(0 < self.least_share <= 1, f"data.mix least_share must lie in (0, 1], not {self.least_share}")
        check(self.start >= 0, f"data.mix start must not be negative, not {self.start}")

    def steps(self, of: int) -> tuple[float, float]:
        """(first, end): the source is used in the steps first <= step < end of a run of ``of`` steps."""
        first, end = (when if when > 1 else when * of for when in (self.start, self.stop))
        return first, end


@dataclass(frozen=True)
class DataConfig:
    """What the network is trained and validated on: the table [data]."""

    source: str = "stream"
    """Where the formulas come from: "stream" draws fresh ones from ``mix``; otherwise it is the directory of a dataset,
    whose set ``train`` is used."""
    mix: tuple[MixConfig, ...] = (MixConfig(),)
    """The sources of a stream, each a table [[data.mix]] with the keys below."""
    batch_nodes: int = 2500
    """About how many literal and conjunction nodes (2 n + m) a batch has; a larger formula is a batch of its own."""
    prefetch: int = 8
    """For how many steps a side thread makes the batches ahead; with 0 they are made when they are needed."""
    validation: int = 128
    """How many formulas the network is validated on."""
    validation_vars: tuple[int, ...] = (50, 100, 250, 500, 1000)
    """The numbers of variables of these formulas, which are of the paper's settings; each gets an equal share."""

    def __post_init__(self) -> None:
        check(self.batch_nodes >= 1, "data.batch_nodes must be positive")
        check(self.prefetch >= 0 and self.validation >= 0, "data.prefetch and data.validation must not be negative")
        check(not self.validation or len(self.validation_vars) > 0, "data.validation_vars must not be empty")

    def check_cover(self, steps: int) -> None:
        """Refuses a stream that has no source of formulas in one of the steps of a run."""
        covered = 0.0
        for first, end in sorted(mix.steps(steps) for mix in self.mix if mix.weight > 0):
            if first <= covered:
                covered = max(covered, end)
        check(covered >= steps, f"data.mix has nothing to train on at step {covered:g}: see its start and stop")


@dataclass(frozen=True)
class LossConfig:
    """What training makes small: the table [loss]."""

    kind: str = "kl"
    """The loss: "kl" is the paper's, "robust" is linear in large errors, "cauchy" is like robust but logarithmic in
    large errors of the logarithm (``loss.py``)."""
    label_epsilon: float = 0.1
    """The relative error that the loss takes labels to have, whatever error they were made with. Together with
    ``label_delta`` it gives their sigma, log(1 + epsilon) / F^-1(1 - delta / 2); F is the normal distribution."""
    label_delta: float = 0.05
    """The probability with which the loss takes labels to miss ``label_epsilon``."""
    dense: float = 0.0
    """The weight of dense supervision, which trains the states to tell the posteriors of literals and clauses and the
    probabilities of clauses; 0 leaves it out."""

    def __post_init__(self) -> None:
        check(self.kind in LOSSES, f"loss.kind must be one of {', '.join(LOSSES)}, not {self.kind!r}")
        check(0 < self.label_epsilon < 1, "loss.label_epsilon must lie between 0 and 1")
        check(0 < self.label_delta < 1, "loss.label_delta must lie between 0 and 1")
        check(self.dense >= 0, "loss.dense must not be negative")


@dataclass(frozen=True)
class OptimizerConfig:
    """How Adam moves the weights: the table [optimizer]."""

    learning_rate: float = 7e-4
    """The peak of the learning rate in the first cycle."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Adam's decay of the mean and of the mean square of the gradients."""
    clip: float = 0.5
    """The largest norm that the gradient of all weights together may have; a longer one is shortened to it."""
    clip_each: tuple[bool, ...] = (False,)
    """Whether the gradient of each batch of a step is shortened to ``clip`` by itself, before they are averaged, in
    each of the cycles that ``restarts`` begin. The last one holds for all cycles that follow. Without it the batch with
    the longest gradient decides where a step goes: one of large formulas, mostly."""
    warmup_steps: int = 200
    """Over how many steps the learning rate rises in a line to its peak, at the beginning and after each restart."""
    schedule: str = "cosine"
    """How the learning rate goes on after the warm-up: "cosine" falls to ``final`` times the peak, or "constant"."""
    final: float = 0.02
    """The learning rate at the end of a cycle, as a share of the cycle's peak."""
    average: float = 0.0
    """With d > 0 a moving average of the weights is validated and kept, average <- d average + (1 - d) weights; with 0
    the weights themselves are."""
    restarts: tuple[int, ...] = ()
    """The steps at which a new cycle begins: from the averaged weights, with fresh moments and fresh heads of the dense
    supervision, warm-up and schedule start again."""
    restart_rate: tuple[float, ...] = (0.4,)
    """The peaks of the learning rate in the cycles that the restarts begin, as shares of the first cycle's peak. The
    last one holds for all cycles that follow, so a single number is the share of each of them."""

    def __post_init__(self) -> None:
        check(0 <= self.average < 1, "optimizer.average must lie in [0, 1)")
        check(self.learning_rate > 0, "optimizer.learning_rate must be positive")
        check(all(0 <= beta < 1 for beta in self.betas), "optimizer.betas must lie in [0, 1)")
        check(self.clip > 0, "optimizer.clip must be positive")
        check(self.schedule in ("cosine", "constant"), f"optimizer.schedule {self.schedule!r} is not known")
        check(0 <= self.final <= 1, "optimizer.final must lie between 0 and 1")
        check(len(self.clip_each) > 0, "optimizer.clip_each must not be empty")
        rising = all(a < b for a, b in pairwise((0, *self.restarts)))
        check(rising, f"optimizer.restarts must be positive and rise, not {list(self.restarts)}")
        shares = len(self.restart_rate) > 0 and all(0 < share <= 1 for share in self.restart_rate)
        check(shares, f"optimizer.restart_rate must lie in (0, 1], not {list(self.restart_rate)}")


@dataclass(frozen=True)
class HoldConfig:
    """How a network that answers after a few iterations learns to hold its answer through more: the table [hold].

    With ``after`` a run trains only the disjunction's cell and the read-out, on messages that are recorded in rounds
    (``hold.py``). A round begins with the run and at each of ``optimizer.restarts``.
    """

    after: int = 0
    """After how many iterations the network that the run starts from answers; 0 means that the whole network is trained
    and no answer is held."""
    batches: tuple[int, ...] = (400,)
    """For how many batches of fresh formulas the messages are recorded in each round. The last number holds for all
    rounds that follow."""
    formulas: int = 96
    """How many of the recorded formulas a step takes."""
    match: float = 1.0
    """The weight of the squared distance between the states of the disjunction before ``after`` and the recorded ones,
    beside the loss of the answers."""

    def __post_init__(self) -> None:
        check(self.after >= 0, "hold.after must not be negative")
        check(len(self.batches) > 0 and min(self.batches) >= 1, "hold.batches must be positive")
        check(self.formulas >= 1 and self.match >= 0, "hold.formulas must be positive and hold.match not negative")


@dataclass(frozen=True)
class RunConfig:
    """How long a run is, where it runs and what it starts from: the table [run]."""

    seed: int = 0
    """The seed of everything that is random in a run: weights, formulas, labels."""
    steps: int = 1000
    """The length of the run in steps of the optimizer."""
    batches: tuple[int, ...] = (1,)
    """How many batches a step averages the gradient over, in each of the cycles that ``optimizer.restarts`` begin. The
    last one holds for all cycles that follow, so a single number is that of each of them. Processes share the batches,
    so their number must divide these."""
    stop: int = 0
    """The step after which the run ends early, although its schedule is planned for ``steps``; 0 means it does not."""
    epochs: float = 0.0
    """With a dataset: how many passes over it to make, in place of ``steps``; 0 goes by ``steps``."""
    checkpoint_minutes: float = 3.0
    """How many minutes pass between two checkpoints. A run that is killed loses no more than that."""
    validate_steps: int = 200
    """How many steps lie between two validations. The best weights so far are kept at each."""
    device: str = "cpu"
    """The device of PyTorch that computes, such as "cpu" or "cuda"."""
    threads: int = 1
    """With how many threads each process computes. Two processes (torchrun) are faster than two threads."""
    init: str = ""
    """What the run starts from: the directory of a network or of another run, or an experiment file, which is then run
    first; empty for random weights."""

    def __post_init__(self) -> None:
        check(self.steps >= 1 and self.epochs >= 0, "run.steps must be positive and run.epochs not negative")
        check(self.stop >= 0, "run.stop must not be negative")
        check(len(self.batches) > 0 and min(self.batches) >= 1, "run.batches must be positive")
        check(self.validate_steps >= 1, "run.validate_steps must be positive")
        check(self.threads >= 1, "run.threads must be positive")
        check(0 <= self.seed < 2**63, "run.seed must not be negative")


@dataclass(frozen=True)
class DatasetConfig:
    """What ``dataset build`` makes: the paper's composition unless told otherwise."""

    directory: str = "datasets/paper"
    """The folder that the dataset is written to. A build that was stopped goes on there."""
    splits: tuple[str, ...] = ("structure",)
    """The sets to make: train, structure, size-10000, size-15000, fully-privileged, uniform, structure-code or
    size-code."""
    seed: int = 0
    """The seed of the formulas and of their labels; example i of a set depends on nothing else."""
    labels: str = "sampling"
    """Who labels the formulas: "sampling", or "klm", which is the paper's own."""
    train_epsilon: float = 0.01
    """The relative error of the labels of the set train."""
    test_epsilon: float = 0.005
    """The relative error of the labels of every other set."""
    delta: float = 0.05
    """The probability with which a label may miss its relative error."""
    variant: str = "text"
    """Whom the generator follows: "text" the paper's appendix, "code" its authors' program, "number" the appendix with
    the program's number of privileged variables."""
    marginals: bool = False
    """Whether each label comes with P(literal | formula) and P(clause | formula), for dense supervision."""
    scale: float = 1.0
    """The share of the paper's number of formulas to make; below 1 the set is smaller, of the same composition."""
    shard_size: int = 512
    """How many formulas one Parquet file holds."""

    def __post_init__(self) -> None:
        check(self.labels in ("sampling", "klm"), f"dataset.labels must be sampling or klm, not {self.labels!r}")
        check(self.variant in VARIANTS, f"dataset.variant is one of {', '.join(VARIANTS)}, not {self.variant!r}")
        check(0 <= self.seed < 2**63, "dataset.seed must not be negative")
        check(0 < self.scale <= 1, "dataset.scale must lie in (0, 1]")
        check(self.shard_size >= 1, "dataset.shard_size must be positive")
        for name in ("train_epsilon", "test_epsilon", "delta"):
            check(0 < getattr(self, name) < 1, f"dataset.{name} must lie between 0 and 1")


@dataclass(frozen=True)
class Config:
    """A whole experiment file."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    run: RunConfig = field(default_factory=RunConfig)
    hold: HoldConfig = field(default_factory=HoldConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)

    def __post_init__(self) -> None:
        if self.data.source == "stream":
            self.data.check_cover(self.run.steps)
        else:
            check(len(self.run.batches) == 1, "run.batches must be one number where formulas come from a dataset")
        if self.hold.after:
            self._check_hold()

    def _check_hold(self) -> None:
        """Refuses what does not go together with holding an answer."""
        last = self.network.iterations
        check(self.hold.after < last, f"hold.after must be less than network.iterations, which is {last}")
        check(self.run.init != "", "hold.after needs run.init: the network whose answers are to be held")
        check(self.network.architecture == "paper", "hold.after is for the architecture paper alone")
        check(self.data.source == "stream", 'hold.after needs data.source = "stream"')
        check(self.loss.dense == 0, "hold.after leaves no states to supervise: take loss.dense out")
        check(self.run.batches == (1,), "hold.formulas says how many formulas a step takes: take run.batches out")

    def recorded_batches(self, number: int) -> int:
        """For how many batches the messages are recorded in the given round, where an answer is held."""
        return self.hold.batches[min(number, len(self.hold.batches) - 1)]

    def batches(self, step: int) -> int:
        """How many batches the given step averages the gradient over."""
        return self._in_cycle(self.run.batches, step)

    def clips_each(self, step: int) -> bool:
        """Whether the gradient of each batch is clipped by itself in the given step."""
        return self._in_cycle(self.optimizer.clip_each, step)

    def _in_cycle(self, values: tuple[Value, ...], step: int) -> Value:
        cycle = sum(restart <= step for restart in self.optimizer.restarts)
        return values[min(cycle, len(values) - 1)]


def read_config(path: Path) -> Config:
    """Reads an experiment file; a mistake in it is a ConfigError that names the key.

    A file that begins with ``base = "other.toml"`` is the other file, beside it, with the keys that it gives itself in
    place of the other's.
    """
    table = _read_table(path, ())
    try:
        return from_table(Config, table, "")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _read_table(path: Path, readers: tuple[Path, ...]) -> dict[str, Any]:
    """The parsed file with what its bases say; ``readers`` are the files that led here."""
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if (base := table.pop("base", None)) is None:
        return table
    check(isinstance(base, str), f"{path}: base must be the name of an experiment file, not {base!r}")
    if path.resolve() in readers:
        raise ConfigError(f"{path}: base goes round in a circle to {base}")
    return _over(_read_table(path.parent / base, (*readers, path.resolve())), table)


def _over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The tables of ``base``, with the values of ``own`` where it has any."""
    both = {
        name: _over(base[name], own[name])
        for name in base
        if isinstance(base[name], dict) and isinstance(own.get(name), dict)
    }
    return {**base, **own, **both}


def from_table(kind: type[Section], table: dict[str, Any], where: str) -> Section:
    """Turns a table of parsed TOML or JSON into the frozen dataclass ``kind``, checking every key and type."""
    check(isinstance(table, dict), f"{where.rstrip('.') or 'the file'} must be a table")
    hints = get_type_hints(kind)
    values = {}
    for name, value in table.items():
        if name not in hints:
            close = difflib.get_close_matches(name, hints, 1)
            hint = f" (did you mean {where}{close[0]}?)" if close else f"; known: {', '.join(hints)}"
            raise ConfigError(f"unknown key {where}{name}{hint}")
        values[name] = _convert(hints[name], value, where + name)
    return kind(**values)


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_table(hint, value, where + ".")  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if inner[-1] is Ellipsis and isinstance(value, bool | int | float):
            value = [value]
        check(isinstance(value, list | tuple), f"{where} must be a list, not {value!r}")
        if inner[-1] is not Ellipsis:
            check(len(value) == len(inner), f"{where} must have {len(inner)} entries, not {len(value)}")
        return tuple(_convert(inner[0], entry, where) for entry in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    expected = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    check(expected, f"{where} must be of type {hint.__name__}, not {value!r}")
    return value
