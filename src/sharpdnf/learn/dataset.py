"""A dataset of labelled formulas, read back from Parquet shards, and the batches of its epochs.

One row of a shard is one formula: its clauses once, and a label for each of its distributions p, p + 1/4, p + 1/2,
p + 3/4 modulo 1. ``manifest.json`` is written last, so that a folder that has one is complete; it holds the hash of
every shard. ``sharpdnf.paper.build`` makes such folders.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.errors import CheckpointError, needs_extra
from sharpdnf.generate import quarter_shifts
from sharpdnf.learn.stream import Example
from sharpdnf.streams import Stream, random_stream

MANIFEST = "manifest.json"
SHARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.parquet")


def file_digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def arrow() -> tuple[Any, Any]:
    with needs_extra("a dataset", "train"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


class Dataset:
    """A complete dataset, read by row group. ``shards`` are the files of one set, or of all sets.

    When it is opened, every file's hash is compared with the manifest: a file that was cut, emptied or exchanged is an
    error.
    """

    def __init__(self, directory: Path, split: str | None = None) -> None:
        self.directory = directory
        try:
            manifest = json.loads((directory / MANIFEST).read_text())
            entries = [(str(e["file"]), str(e["split"]), str(e["sha256"])) for e in manifest["shards"]]
        except FileNotFoundError:
            raise CheckpointError(
                f"{directory} has no {MANIFEST}: it is not a dataset, or its build has not finished; "
                "run sharpdnf dataset build again"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{directory / MANIFEST} cannot be read: {error}") from None
        for file, _, _ in entries:
            if not SHARD_NAME.fullmatch(file):
                raise CheckpointError(f"{directory / MANIFEST} names {file!r}, which is not a shard of this folder")
        wanted = {file: digest for file, name, digest in entries if split in (None, name)}
        self.shards = list(wanted)
        if not self.shards:
            raise CheckpointError(f"{directory} has no set {split!r}")
        for file, digest in wanted.items():
            try:
                actual = file_digest(directory / file)
            except FileNotFoundError:
                raise CheckpointError(f"{directory / file} is missing: run dataset build again") from None
            except OSError as error:
                raise CheckpointError(f"{directory / file} cannot be read: {error.strerror}") from None
            if actual != digest:
                raise CheckpointError(f"{directory / file} is truncated or was changed: run dataset build again")

    def _open(self, file: str) -> Any:
        pa, parquet = arrow()
        try:
            return parquet.ParquetFile(self.directory / file)
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(f"{self.directory / file} cannot be read: {error}") from None

    def read_group(self, shard: int, group: int) -> list[Example]:
        """The examples of one row group: every formula under every one of its distributions."""
        rows = self._open(self.shards[shard]).read_row_group(group).to_pylist()
        return [labelled for row in rows for labelled in _examples(row)]

    def __iter__(self) -> Iterator[Example]:
        for shard, file in enumerate(self.shards):
            for group in range(self._open(file).num_row_groups):
                yield from self.read_group(shard, group)


def _examples(row: dict[str, Any]) -> list[Example]:
    base = DNF(np.array(row["indptr"]), np.array(row["literals"], dtype=np.int32), np.array(row["prob"]))
    posteriors = row.get("literal_posterior") or [None] * len(row["log_prob"])
    return [
        Example(dnf, log_prob, None if posterior is None else np.array(posterior, dtype=np.float64))
        for dnf, log_prob, posterior in zip(quarter_shifts(base), row["log_prob"], posteriors, strict=False)
    ]


class Epochs:
    """The batches of a training set, epoch after epoch: batch b is a pure function of (seed, b).

    A batch comes from one row group, whose formulas are of one size; each epoch visits all batches in its own order.
    """

    def __init__(self, dataset: Dataset, batch_nodes: int, seed: int) -> None:
        self.dataset, self.batch_nodes, self.seed = dataset, batch_nodes, seed
        self.places: list[tuple[int, int, int]] = []
        self.parts: dict[tuple[int, int], int] = {}
        for shard, file in enumerate(dataset.shards):
            reader = dataset._open(file)
            for group in range(reader.num_row_groups):
                columns = reader.read_row_group(group, columns=["num_vars", "num_clauses", "log_prob"]).to_pylist()
                nodes = sum((2 * r["num_vars"] + r["num_clauses"]) * len(r["log_prob"]) for r in columns)
                examples = sum(len(r["log_prob"]) for r in columns)
                parts = min(max(1, math.ceil(nodes / batch_nodes)), examples)
                self.parts[shard, group] = parts
                self.places += [(shard, group, part) for part in range(parts)]

    def __len__(self) -> int:
        return len(self.places)

    def read(self, index: int) -> list[Example]:
        """Batch ``index``, counted through all epochs: an even share of its row group's examples."""
        epoch, place = divmod(index, len(self.places))
        order = random_stream(self.seed, Stream.EPOCH_ORDER, epoch).permutation(len(self.places))
        shard, group, part = self.places[int(order[place])]
        examples = self.dataset.read_group(shard, group)
        shuffled = random_stream(self.seed, Stream.EPOCH_SHUFFLE, shard, group, epoch).permutation(len(examples))
        return [examples[int(i)] for i in shuffled[part :: self.parts[shard, group]]]
