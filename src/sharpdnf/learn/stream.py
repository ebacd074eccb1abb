"""Fresh labelled formulas: a batch of a run is a pure function of (seed, step, its number in the step, steps in all).

The labeller is handed in, so that learning does not import the engines.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import numpy as np

from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.errors import InvalidFormula
from sharpdnf.generate import HubSpec, PaperSpec, UniformSpec, Variant, hub, paper, settings, uniform
from sharpdnf.learn.config import DataConfig, MixConfig
from sharpdnf.streams import Stream, random_stream

LABEL_DELTA = 0.05
Item = TypeVar("Item")


class Labeller(Protocol):
    """Labels a formula: returns log P(formula) and, if marginals are asked for, P(variable | formula), else None."""

    def __call__(
        self, dnf: DNF, *, epsilon: float, delta: float, rng: np.random.Generator, marginals: bool
    ) -> tuple[float, FloatArray | None]: ...


@dataclass(frozen=True)
class Example:
    """A labelled formula."""

    dnf: DNF
    log_prob: float
    posterior: FloatArray | None
    """float64[n]: P(variable | formula), or None if it was not asked for."""


def num_nodes(dnf: DNF) -> int:
    """How many literal and conjunction nodes the network needs for a formula, which decides its cost."""
    return 2 * dnf.num_vars + dnf.num_clauses


def draw_formula(mix: MixConfig, num_vars: int, rng: np.random.Generator) -> DNF:
    """A formula of the mix with ``num_vars`` variables; settings that cannot be generated are drawn again."""
    if mix.kind == "hub":
        m = round(_log_uniform(mix.clauses, rng))
        return hub(HubSpec(num_vars, m, int(rng.choice(mix.widths)), mix.max_hubs, mix.least_share), rng)
    while True:
        width, m = _draw_setting(mix, num_vars, rng)
        if mix.kind == "uniform":
            return uniform(UniformSpec(num_vars, m, width), rng)
        variant: Variant = "text" if rng.integers(2) else "number"
        placement: Literal["weighted", "strict"] = "weighted" if rng.integers(2) else "strict"
        privileged: bool | Literal["random"] = "random" if mix.privileged == "random" else mix.privileged == "always"
        spec = PaperSpec(num_vars, m, width, privileged, "code" if mix.variant == "code" else variant, placement)
        try:
            return paper(spec, rng)
        except InvalidFormula:
            continue


def _draw_setting(mix: MixConfig, n: int, rng: np.random.Generator) -> tuple[int, int]:
    if mix.kind == "paper":
        valid = settings(n)
        if not valid:
            raise InvalidFormula(f"the paper has no setting for {n} variables")
        weights = np.array([mix.wide_weight if width >= 21 else 1.0 for width, _ in valid])
        return valid[int(rng.choice(len(valid), p=weights / weights.sum()))]
    for _ in range(1000):
        width = int(rng.choice(mix.widths))
        mass = _log_uniform(mix.mass, rng)
        m = max(round(mass * 2.0**width), math.ceil(n / width))
        slots = m * width / n
        likely = slots < m and n * math.exp(-((m - slots) ** 2) / (3 * slots)) < 0.99
        if width < n and m <= mix.max_clauses and (likely or mix.kind == "uniform"):
            return width, m
    raise InvalidFormula(f"no width in {mix.widths} gives at most {mix.max_clauses} clauses over {n} variables")


def _log_uniform(bounds: tuple[float, float], rng: np.random.Generator) -> float:
    return math.exp(rng.uniform(math.log(bounds[0]), math.log(bounds[1])))


def draw_batch(
    data: DataConfig, label: Labeller, seed: int, step: int, number: int, *, steps: int, marginals: bool
) -> list[Example]:
    """Batch ``number`` of a step of a run of ``steps``: formulas of one size, about ``data.batch_nodes`` nodes."""
    rng = random_stream(seed, Stream.TRAIN_MIX, step, number)
    active = [mix for mix in data.mix for first, end in [mix.steps(steps)] if first <= step < end]
    weights = np.array([mix.weight for mix in active])
    mix = active[int(rng.choice(len(active), p=weights / weights.sum()))]
    num_vars = round(_log_uniform(mix.num_vars, rng))
    examples: list[Example] = []
    nodes = 0
    while True:
        own = random_stream(seed, Stream.TRAIN_FORMULA, step, number, len(examples))
        dnf = draw_formula(mix, num_vars, own)
        if examples and nodes + num_nodes(dnf) > data.batch_nodes:
            return examples
        log_prob, posterior = label(dnf, epsilon=mix.epsilon, delta=LABEL_DELTA, rng=own, marginals=marginals)
        examples.append(Example(dnf, log_prob, posterior))
        nodes += num_nodes(dnf)
        if nodes >= data.batch_nodes:
            return examples


def validation_slice(data: DataConfig, label: Labeller, seed: int) -> list[Example]:
    """Held-out formulas of the paper's settings, in order of size, labelled at epsilon 0.01."""
    examples = []
    for i in range(data.validation):
        rng = random_stream(seed, Stream.VALIDATION, i)
        num_vars = data.validation_vars[i * len(data.validation_vars) // data.validation]
        dnf = draw_formula(MixConfig(kind="paper"), num_vars, rng)
        log_prob, _ = label(dnf, epsilon=0.01, delta=LABEL_DELTA, rng=rng, marginals=False)
        examples.append(Example(dnf, log_prob, None))
    return examples


def pack(items: Iterable[Item], size: Callable[[Item], int], room: int) -> list[list[Item]]:
    """Cuts the items, in their order, into batches whose sizes add up to at most ``room``.

    An item larger than that is a batch of its own.
    """
    batches: list[list[Item]] = []
    left = 0
    for item in items:
        if not batches or size(item) > left:
            batches.append([])
            left = room
        batches[-1].append(item)
        left -= size(item)
    return batches


def ahead(make: Callable[[], Iterator[Item]], depth: int) -> Iterator[Item]:
    """The items of ``make()``, made up to ``depth`` ahead by a side thread; its errors are raised here."""
    if depth == 0:
        yield from make()
        return
    ready: queue.Queue[Item | BaseException | None] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: Item | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def produce() -> None:
        try:
            for made in make():
                put(made)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=produce, daemon=True, name="formulas")
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
