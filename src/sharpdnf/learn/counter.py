"""NeuralCounter: a trained network with the manners of a counter. Loading executes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import save

from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.errors import CheckpointError
from sharpdnf.estimate import Estimate, check_delta, exact_estimate, model_count
from sharpdnf.learn.architectures import Architecture
from sharpdnf.learn.family import unlike_training
from sharpdnf.learn.graph import Graph
from sharpdnf.learn.inference import check_memory, gradient_memory_needed, memory_needed, run_in_blocks
from sharpdnf.learn.model import check_device, load_network, save_network
from sharpdnf.learn.remainder import Remainder
from sharpdnf.learn.residuals import Hardness, Residuals
from sharpdnf.learn.stream import num_nodes, pack

DEFAULT = "paper"
MEMORY = 8 << 30
BATCH_NODES = 16_384
NOT_A_GUARANTEE = "interval from held-out residuals on the paper's family: not a guarantee"


def shipped() -> dict[str, Path]:
    """The networks by name: the one inside the package and, in a checkout of the project, those of the ablations."""
    package = Path(str(files("sharpdnf")))
    found = [path for root in (*_checkouts(), package / "weights") if root.is_dir() for path in sorted(root.iterdir())]
    return {path.name: path for path in found if (path / "config.json").is_file()}


def _checkouts() -> list[Path]:
    """Where a checkout keeps the weights that are not installed: beside the sources, or above the current folder."""
    roots = [Path(__file__).resolve().parents[3], Path.cwd(), *Path.cwd().parents]
    return [root / "experiments" / "weights" for root in roots if (root / "src" / "sharpdnf").is_dir()]


class NeuralCounter:
    """The paper's network as a counter: estimates in linear time, without a guarantee."""

    def __init__(
        self,
        network: Architecture,
        residuals: Residuals | None = None,
        *,
        card: dict[str, Any] | None = None,
        memory: int = MEMORY,
    ) -> None:
        self.network = network.eval()
        """The network itself, a module of PyTorch."""
        self.residuals = residuals
        """The errors on held-out formulas that intervals come from; None if the network shows none."""
        self.card = dict(card or {})
        """What config.json says about the network beside its shape: data, recipe, seed, commit."""
        self.memory = memory
        """How many bytes an estimate may take. A formula that needs more is refused, with both figures."""

    @property
    def digest(self) -> str:
        """sha256 of the weights, as they are saved."""
        return hashlib.sha256(self._saved()).hexdigest()

    def _saved(self) -> bytes:
        data: bytes = save({name: t.detach().cpu().contiguous() for name, t in self.network.state_dict().items()})
        return data

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path | None = None, *, memory: int = MEMORY, device: str = "cpu"
    ) -> Self:
        """The shipped default, a shipped network by name, or a directory that ``save_pretrained`` wrote."""
        known = shipped()
        name = DEFAULT if name_or_path is None else str(name_or_path)
        directory = known.get(name, Path(name))
        if not directory.is_dir():
            have = ", ".join(known) or "none"
            raise CheckpointError(f"no network {name!r}: it is neither a directory nor shipped (shipped are: {have})")
        check_device(device)
        card = _read_config(directory)
        _check_digest(directory, card)
        with one_thread():
            network = load_network(directory, device=device)
        residuals = card.pop("residuals", None)
        for key in ("network", "sha256"):
            card.pop(key, None)
        return cls(network, None if residuals is None else Residuals.from_json(residuals), card=card, memory=memory)

    def save_pretrained(self, directory: str | Path) -> None:
        """Writes config.json (with the digest of the weights) and model.safetensors."""
        extra: dict[str, Any] = {**self.card, "sha256": self.digest}
        if self.residuals is not None:
            extra["residuals"] = self.residuals.to_json()
        save_network(self.network, Path(directory), extra)

    def predict(
        self, dnf: DNF, *, delta: float = 0.05, factor: bool = True, after_block: Callable[[], None] = lambda: None
    ) -> Estimate:
        """The network's estimate, with an interval from held-out residuals (not a guarantee).

        What ``simplify`` takes out of a formula, such as a literal that all clauses share or a small part that shares
        no variable with the rest, is computed, and a literal that stands in most clauses is decided on
        (``remainder.py``); the network answers for what remains. ``factor=False`` gives it the whole.

        A formula that is not recognisably of the training family gets no interval: ``info["interval"]`` says why.
        """
        return self.predict_batch([dnf], delta=delta, factor=factor, after_block=after_block)[0]

    def predict_many(self, dnfs: Iterable[DNF], *, delta: float = 0.05, factor: bool = True) -> list[Estimate]:
        """Estimates in the order of the formulas, which go through the network in batches of similar size."""
        formulas = list(dnfs)
        out: list[Estimate | None] = [None] * len(formulas)
        for batch in node_batches(formulas):
            estimates = self.predict_batch([formulas[i] for i in batch], delta=delta, factor=factor)
            for index, estimate in zip(batch, estimates, strict=True):
                out[index] = estimate
        return [estimate for estimate in out if estimate is not None]

    def predict_batch(
        self,
        formulas: Sequence[DNF],
        *,
        delta: float = 0.05,
        factor: bool = True,
        after_block: Callable[[], None] = lambda: None,
    ) -> list[Estimate]:
        """Estimates for formulas whose remainders go through the network as one graph; what leaves none needs no
        network."""
        check_delta(delta)
        start = time.perf_counter()
        parts: list[Remainder | None] = [
            None if _trivial(dnf) or not factor else Remainder.about(dnf) for dnf in formulas
        ]
        questions = [_questions(dnf, part) for dnf, part in zip(formulas, parts, strict=True)]
        asked = [question for own in questions for question in own]
        found: list[tuple[float, float]] = []
        if asked:
            check_memory(max(memory_needed(question, self.network.config.k) for question in asked), self.memory)
            after_block()
            with torch.inference_mode(), one_thread():
                for step in run_in_blocks(self.network, self._graph(asked), after_block):
                    mean, std = step
            found = list(zip(mean.tolist(), std.tolist(), strict=True))
        seconds = (time.perf_counter() - start) / max(1, sum(map(bool, questions)))
        out = []
        for dnf, part, own in zip(formulas, parts, questions, strict=True):
            answers, found = found[: len(own)], found[len(own) :]
            if not own:
                trivial = _trivial(dnf) if part is None else _solved(dnf, part)
                assert trivial is not None
                out.append(trivial)
                continue
            if not all(math.isfinite(mu) for mu, _ in answers):
                raise CheckpointError("the network's estimate is not finite: these weights cannot be used")
            means = [min(mu, 0.0) for mu, _ in answers]
            mean_of_whole = means[0] if part is None else part.combine(means)
            estimate = self._estimate(dnf, mean_of_whole, max(sigma for _, sigma in answers), delta, seconds)
            notes = {} if part is None else {"taken out": part.notes} if part.notes else {}
            out.append(estimate.replace(info={**estimate.info, **notes}))
        return out

    def trace(self, dnf: DNF) -> list[Estimate]:
        """The estimate read out after every message-passing iteration (the paper's Figure 4), of the whole formula."""
        trivial = _trivial(dnf)
        if trivial is not None:
            return [trivial] * self.network.config.iterations
        check_memory(memory_needed(dnf, self.network.config.k), self.memory)
        with torch.inference_mode(), one_thread():
            steps = [(float(mean[0]), float(std[0])) for mean, std in run_in_blocks(self.network, self._graph([dnf]))]
        return [self._estimate(dnf, *step, 0.05, 0.0) for step in steps]

    def gradient(self, dnf: DNF) -> FloatArray:
        """float64[n]: d estimate / d p_v of the estimated probability, to be held against ``influence``.

        The network is given the whole formula, as by ``predict(dnf, factor=False)``.
        """
        config = self.network.config
        check_memory(gradient_memory_needed(dnf, config.k, config.iterations), self.memory)
        with one_thread():
            graph = self._graph([dnf])
            prob = graph.prob.detach().clone().requires_grad_(True)
            slope = torch.zeros_like(prob)
            if _trivial(dnf) is None:
                mean, _ = self.network(graph.with_prob(prob))
                (slope,) = torch.autograd.grad(mean.sum().clamp(max=0.0).exp(), prob)
        out: FloatArray = slope.cpu().double().numpy()
        return out

    def _graph(self, formulas: Sequence[DNF]) -> Graph:
        return Graph.of(formulas).to(self.network.device)

    def _estimate(self, dnf: DNF, mean: float, sigma: float, delta: float, seconds: float) -> Estimate:
        if not math.isfinite(mean):
            raise CheckpointError("the network's estimate is not finite: these weights cannot be used")
        mean = min(mean, 0.0)
        low, high, interval = self.interval(dnf, mean, delta)
        info = {"sigma": sigma, "interval": interval}
        return Estimate(
            log_prob=mean,
            guarantee="none",
            engine="neural",
            log_lower=low,
            log_upper=high,
            seconds=seconds,
            info=info,
            log_wmc=mean + dnf.log_scale,
            count=model_count(mean, dnf.num_vars),
        )

    def interval(self, dnf: DNF, log_prob: float, delta: float) -> tuple[float, float, str]:
        """(log lower, log upper, what they are) around an estimate; (-inf, 0, why) where no interval can be given."""
        if self.residuals is None:
            return -math.inf, 0.0, "none: these weights carry no held-out residuals"
        unlike = unlike_training(dnf)
        if unlike is not None:
            return -math.inf, 0.0, f"none: the formula is unlike those the network was trained on, because {unlike}"
        low, high = self.residuals.interval(log_prob, Hardness.of(dnf), delta)
        if low == -math.inf:
            return low, 0.0, f"none: too few held-out formulas were like this one for a delta of {delta:g}"
        return low, high, NOT_A_GUARANTEE


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within this block the tensor library computes with the calling thread alone.

    The network works through blocks that fit in a core's cache: more threads mostly wait for each other, at the price
    of their processor time. And a pool of them does not survive a fork: the child would wait for threads that it has
    not got, deaf to its deadline.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _trivial(dnf: DNF) -> Estimate | None:
    """The answer for a formula without clauses (false) or with an empty one (true), for which no message would flow;
    None for any other."""
    if dnf.num_clauses == 0:
        return exact_estimate(-math.inf, "neural", count=0, log_wmc=-math.inf)
    if int(dnf.widths.min()) == 0:
        return exact_estimate(0.0, "neural", count=1 << dnf.num_vars, log_wmc=dnf.log_scale)
    return None


def _questions(dnf: DNF, part: Remainder | None) -> list[DNF]:
    """What the network is asked about a formula: what remains of it, or the whole where nothing is to be taken out."""
    if part is not None:
        return part.asked
    return [] if _trivial(dnf) else [dnf]


def _solved(dnf: DNF, part: Remainder) -> Estimate:
    """The answer for a formula of which nothing remains."""
    log_prob = part.combine([])
    count = model_count(log_prob, dnf.num_vars)
    return exact_estimate(log_prob, "neural", count=count, log_wmc=log_prob + dnf.log_scale)


def node_batches(formulas: Sequence[DNF]) -> list[list[int]]:
    """Indices of the formulas by rising size, in batches of at most BATCH_NODES nodes."""
    nodes = [num_nodes(dnf) for dnf in formulas]
    return pack(sorted(range(len(formulas)), key=nodes.__getitem__), nodes.__getitem__, BATCH_NODES)


def _read_config(directory: Path) -> dict[str, Any]:
    file = directory / "config.json"
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from None
    if not isinstance(table, dict):
        raise CheckpointError(f"{file} does not describe a network")
    return table


def _check_digest(directory: Path, card: dict[str, Any]) -> None:
    """The weights must be the bytes that the configuration was written for."""
    file = directory / "model.safetensors"
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from None
    if card.get("sha256", digest) != digest:
        raise CheckpointError(f"{file} is truncated or was changed: its digest is not the one in config.json")
