"""The labels that networks are held against: who computes them, and the CSV that keeps them.

A label is the logarithm of a formula's probability, from an engine with a guarantee. New weights need no new labels,
and a run that was killed goes on with those it has: the file is looked up by example, and the digest of the formula
beside each label says whether it is still about the same formula.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines import count, sampling
from sharpdnf.errors import ConfigError
from sharpdnf.learn.stream import Labeller
from sharpdnf.paper.records import Label, read_records
from sharpdnf.paper.sets import SPLITS, SetMember
from sharpdnf.streams import Stream, random_stream


def klm_label(
    dnf: DNF, *, epsilon: float, delta: float, rng: np.random.Generator, marginals: bool = False
) -> tuple[float, None]:
    """The paper's labeller: KLM, clipped to 1. It computes no posteriors, so asking it for marginals is an error."""
    if marginals:
        raise ConfigError('dataset.labels = "klm" has no marginals: use "sampling"')
    return count(dnf, engine="klm", epsilon=epsilon, delta=delta, rng=rng, threads=1).log_prob, None


LABELLERS: dict[str, Labeller] = {"sampling": sampling.label, "klm": klm_label}
"""What ``dataset.labels`` of an experiment file may name."""


def digest(dnf: DNF) -> str:
    """16 hexadecimal digits that identify the formula's arrays."""
    hashed = hashlib.sha256()
    for array in dnf.arrays:
        hashed.update(array.tobytes())
    return hashed.hexdigest()[:16]


class Labels:
    """Labels in a CSV, looked up by member of a set; a label whose formula has changed since is made anew."""

    def __init__(self, path: Path, labeller: Labeller, *, epsilon: float, delta: float, seed: int = 0) -> None:
        self.path, self.labeller, self.epsilon, self.delta, self.seed = path, labeller, epsilon, delta, seed
        self._known: dict[tuple[str, int, int], Label] = {}
        self.unsaved: list[Label] = []
        """Labels that were made or added since the last ``save``."""
        for label in read_records(path, Label):
            if label.epsilon <= epsilon and label.delta <= delta:
                self._known[label.set, label.index, label.shift] = label

    def get(self, member: SetMember, dnf: DNF) -> Label:
        """The label of a member: the file's if it is there, else made now and written by the next ``save``."""
        key, formula_digest = (member.set, member.index, member.shift), digest(dnf)
        known = self._known.get(key)
        if known is None or known.digest != formula_digest:
            rng = random_stream(self.seed, Stream.EVALUATION_LABEL, SPLITS[member.set], member.index, member.shift)
            log_prob, _ = self.labeller(dnf, epsilon=self.epsilon, delta=self.delta, rng=rng, marginals=False)
            known = Label(*key, formula_digest, self.epsilon, self.delta, min(log_prob, 0.0))
            self.add(known)
        return known

    def add(self, label: Label) -> None:
        """Takes in a label that another process made."""
        self._known[label.set, label.index, label.shift] = label
        self.unsaved.append(label)

    def save(self) -> None:
        """Appends the unsaved labels to the file."""
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(Label.__annotations__)
            writer.writerows([getattr(label, name) for name in Label.__annotations__] for label in self.unsaved)
        self.unsaved = []
