"""Model or engine x test set -> one row per formula.

Labels come from a function that is handed in (an engine with a guarantee), and are kept in a CSV by formula digest:
new weights need no new labels, and a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import csv
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.estimate import Estimate, log1mexp
from sharpdnf.learn.composition import SPLITS, Example, draw
from sharpdnf.learn.rows import Label, Row, Trace, read_records
from sharpdnf.streams import Stream, random_stream

Labeller = Callable[[DNF, np.random.Generator], float]
"""formula, rng -> log P(formula)"""
Predictor = Callable[[Sequence[DNF]], list[Estimate]]
CHUNK_LITERALS = 400_000  # formulas evaluated together; bounds what is lost when a run is killed


def digest(dnf: DNF) -> str:
    """16 hexadecimal digits that identify the formula's arrays."""
    hashed = hashlib.sha256()
    for array in dnf.arrays:
        hashed.update(array.tobytes())
    return hashed.hexdigest()[:16]


def log_independent(dnf: DNF) -> float:
    """log of 1 - prod(1 - p(C)): the answer if clauses were independent."""
    log_probs = dnf.clause_log_probs()
    if np.any(log_probs >= 0.0):
        return 0.0
    total = float(np.log1p(-np.exp(log_probs)).sum())
    # A sum below the smallest double: the union is the sum to all digits.
    return log1mexp(total) if total < 0.0 else float(np.logaddexp.reduce(log_probs, initial=-math.inf))


class Labels:
    """Labels in a CSV, looked up by example; a label whose formula has changed since is made anew."""

    def __init__(self, path: Path, labeller: Labeller, *, epsilon: float, delta: float, seed: int = 0) -> None:
        self.path, self.labeller, self.epsilon, self.delta, self.seed = path, labeller, epsilon, delta, seed
        self._known: dict[tuple[str, int, int], Label] = {}
        self.unsaved: list[Label] = []
        for label in read_records(path, Label):
            if label.epsilon <= epsilon and label.delta <= delta:
                self._known[label.set, label.index, label.shift] = label

    def get(self, what: Example, dnf: DNF) -> Label:
        """The label of an example: the file's if it is there, else made now and written by the next ``save``."""
        key, formula_digest = (what.set, what.index, what.shift), digest(dnf)
        known = self._known.get(key)
        if known is None or known.digest != formula_digest:
            rng = random_stream(self.seed, Stream.EVALUATION_LABEL, SPLITS[what.set], what.index, what.shift)
            log_label = min(self.labeller(dnf, rng), 0.0)
            known = Label(*key, formula_digest, self.epsilon, self.delta, log_label)
            self.add(known)
        return known

    def add(self, label: Label) -> None:
        self._known[label.set, label.index, label.shift] = label
        self.unsaved.append(label)

    def save(self) -> None:
        """Appends what is new to the file."""
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(Label.__annotations__)
            writer.writerows([getattr(label, name) for name in Label.__annotations__] for label in self.unsaved)
        self.unsaved = []


def evaluate(
    model: str,
    weights: str,
    examples: Sequence[Example],
    labels: Labels,
    *,
    predict: Predictor,
    conditioned: Callable[[DNF], float],
) -> list[Row]:
    """One row per example: the label, the prediction, its interval, sigma and seconds, and the two baselines."""
    rows: list[Row] = []
    formulas = [draw(what, labels.seed) for what in examples]
    start = time.perf_counter()
    estimates = predict(formulas)
    mean_seconds = (time.perf_counter() - start) / max(len(examples), 1)
    for what, dnf, estimate in zip(examples, formulas, estimates, strict=True):
        label = labels.get(what, dnf)
        rows.append(
            Row(
                model=model, weights=weights, set=what.set, index=what.index, shift=what.shift, n=what.num_vars,
                m=what.num_clauses, w=what.width, family=what.family, epsilon=label.epsilon, log_label=label.log_label,
                log_prediction=estimate.log_prob, log_lower=estimate.log_lower, log_upper=estimate.log_upper,
                sigma=float(estimate.info.get("sigma", math.nan)), seconds=estimate.seconds or mean_seconds,
                log_conditioned=conditioned(dnf), log_independent=log_independent(dnf),
            )
        )  # fmt: skip
    return rows


def chunks(examples: Sequence[Example]) -> Iterable[list[Example]]:
    """Runs of examples in order of size, so that formulas of one size go through the network together."""
    chunk: list[Example] = []
    literals = 0
    for what in sorted(examples, key=lambda e: (e.num_vars, e.width, e.index)):
        if chunk and literals + what.num_clauses * what.width > CHUNK_LITERALS:
            yield chunk
            chunk, literals = [], 0
        chunk.append(what)
        literals += what.num_clauses * what.width
    if chunk:
        yield chunk


def figure_examples(examples: Sequence[Example], labels: Labels, count: int = 21) -> list[tuple[Example, DNF, Label]]:
    """The paper's choice for Figure 4: the examples whose labels are nearest to (21 - i) / 20 for i = 1..21."""
    pool = [(what, labels.get(what, draw(what, labels.seed))) for what in examples]
    chosen = []
    for i in range(count):
        target = (count - 1 - i) / (count - 1)
        what, label = min(pool, key=lambda pair: abs(math.exp(pair[1].log_label) - target))
        pool.remove((what, label))
        chosen.append((what, draw(what, labels.seed), label))
    return chosen


def trace_rows(
    model: str, chosen: Iterable[tuple[Example, DNF, Label]], trace: Callable[[DNF], Sequence[Estimate]]
) -> list[Trace]:
    """The estimates after every iteration for the formulas of Figure 4."""
    return [
        Trace(model, formula, label.log_label, iteration, estimate.log_prob)
        for formula, (_, dnf, label) in enumerate(chosen, 1)
        for iteration, estimate in enumerate(trace(dnf), 1)
    ]
