"""Labelled formulas as Parquet shards; ``manifest.json``, written last, means the dataset is complete.

One row is one formula of a set of the paper (see ``composition``): its clauses once, and a label for each of its
distributions p, p + 1/4, p + 1/2, p + 3/4 modulo 1. Row i of a set is a pure function of (seed, set, i), so shards can
be made in any order by any number of processes, and a build that was killed goes on with the shards it has not got.
Beside each shard lies a record of its hash, written after it: a shard that is not what was made, or that belongs to
another dataset, is made again by ``build`` and refused by ``Dataset``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.errors import CheckpointError, ConfigError, needs_extra
from sharpdnf.files import make_folder, sole_writer, write_atomically
from sharpdnf.generate import quarter_shifts
from sharpdnf.learn.composition import SETS, SPLITS, draw, example, num_distributions
from sharpdnf.learn.config import DatasetConfig
from sharpdnf.learn.stream import Example, Labeller
from sharpdnf.learn.workers import worker_pool
from sharpdnf.streams import Stream, random_stream

MANIFEST, PLAN = "manifest.json", "build.json"
SHARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.parquet")
ROW_GROUP = 32  # formulas read together: a training batch comes from one group


@dataclass(frozen=True)
class Shard:
    """Formulas ``indices`` of one set, in one file."""

    split: str
    file: str
    indices: tuple[int, ...]


def plan(config: DatasetConfig) -> list[Shard]:
    """The shards of a dataset: of every size of a set the first part, which is stratified by setting."""
    shards = []
    for split in config.splits:
        if split not in SETS:
            raise ConfigError(f"dataset.splits: no set {split!r}; known: {', '.join(SETS)}")
        counts = SETS[split].values()
        starts = [0, *accumulate(counts)]
        indices = [
            i for a, c in zip(starts, counts, strict=False) for i in range(a, a + max(1, round(c * config.scale)))
        ]
        for number, start in enumerate(range(0, len(indices), config.shard_size)):
            part = tuple(indices[start : start + config.shard_size])
            shards.append(Shard(split, f"{split}-{number:05d}.parquet", part))
    return shards


def label_formula(config: DatasetConfig, split: str, index: int, label: Labeller) -> dict[str, Any]:
    """The row of formula ``index``: any example can be rebuilt alone."""
    what = example(split, index, 0, config.seed)
    dnf = draw(what, config.seed, config.variant)
    epsilon = config.train_epsilon if split == "train" else config.test_epsilon
    rng = random_stream(config.seed, Stream.DATASET_LABEL, SPLITS[split], index)
    distributions = quarter_shifts(dnf)[: num_distributions(split)]
    labels = [label(f, epsilon=epsilon, delta=config.delta, rng=rng, marginals=config.marginals) for f in distributions]
    row = {
        "split": split, "index": index, "num_vars": dnf.num_vars, "num_clauses": dnf.num_clauses, "width": what.width,
        "family": what.family, "indptr": dnf.indptr, "literals": dnf.literals, "prob": dnf.prob, "epsilon": epsilon,
        "delta": config.delta, "log_prob": [min(log_prob, 0.0) for log_prob, _ in labels],
    }  # fmt: skip
    if config.marginals:
        clauses = [f.clause_log_probs() - log_prob for f, (log_prob, _) in zip(distributions, labels, strict=True)]
        row["literal_posterior"] = [np.asarray(p, dtype=np.float32) for _, p in labels]
        row["clause_posterior"] = [np.exp(np.minimum(c, 0.0)).astype(np.float32) for c in clauses]
    return row


def write_shard(config: DatasetConfig, directory: Path, shard: Shard, label: Labeller) -> None:
    """Makes one shard, which appears under its name only when it is whole, and then its record."""
    pa, parquet = _arrow()
    rows = [label_formula(config, shard.split, i, label) for i in shard.indices]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    types = {"indptr": pa.list_(pa.int64()), "literals": pa.list_(pa.int32()), "prob": pa.list_(pa.float64())}
    types |= {name: pa.list_(pa.list_(pa.float32())) for name in ("literal_posterior", "clause_posterior")}
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, row_group_size=ROW_GROUP, compression="zstd")
    data = sink.getvalue().to_pybytes()
    write_atomically(directory / shard.file, data)
    record = {"dataset": _dataset_digest(config), **_entry(shard, hashlib.sha256(data).hexdigest())}
    write_atomically(_record_file(directory, shard), (json.dumps(record) + "\n").encode())


def build(
    config: DatasetConfig, directory: Path, label: Labeller, workers: int | None = None
) -> Iterator[tuple[str, int, int, float]]:
    """Builds what is missing or damaged, yielding (set, formulas done, formulas in all, seconds left).

    The manifest comes last, when every shard is on the disk and is what its record says.
    """
    shards = plan(config)
    _arrow()
    make_folder(directory)
    with sole_writer(directory):
        _claim(config, directory)
        total = sum(len(s.indices) for s in shards)
        missing = [s for s in shards if _verified(config, directory, s) is None]
        if missing:  # a damaged dataset is not complete, whatever was true before
            (directory / MANIFEST).unlink(missing_ok=True)
        done = total - sum(len(s.indices) for s in missing)
        began, made = time.monotonic(), 0
        for shard in _made(config, directory, missing, label, workers or os.cpu_count() or 1):
            made += len(shard.indices)
            pace = (time.monotonic() - began) / made
            yield shard.split, done + made, total, pace * (total - done - made)
        entries = []
        for shard in shards:
            digest = _verified(config, directory, shard)
            if digest is None:
                raise CheckpointError(f"{directory / shard.file} was changed during the build: build again")
            entries.append(_entry(shard, digest))
        table = {"config": _identity(config), "shards": entries}
        write_atomically(directory / MANIFEST, (json.dumps(table, indent=1) + "\n").encode())


def _entry(shard: Shard, digest: str) -> dict[str, Any]:
    return {"file": shard.file, "split": shard.split, "formulas": len(shard.indices), "sha256": digest}


def _record_file(directory: Path, shard: Shard) -> Path:
    return directory / f"{shard.file}.json"


def _verified(config: DatasetConfig, directory: Path, shard: Shard) -> str | None:
    """The hash of a shard that is there and is what was made for this place of this dataset, else None."""
    try:
        record = json.loads(_record_file(directory, shard).read_text())
        digest = _digest(directory / shard.file)
    except (OSError, ValueError):
        return None
    return digest if record == {"dataset": _dataset_digest(config), **_entry(shard, digest)} else None


def _made(
    config: DatasetConfig, directory: Path, shards: Sequence[Shard], label: Labeller, workers: int
) -> Iterator[Shard]:
    if workers == 1 or len(shards) <= 1:
        for shard in shards:
            write_shard(config, directory, shard, label)
            yield shard
        return
    with worker_pool(min(workers, len(shards))) as pool:
        futures = {pool.submit(write_shard, config, directory, shard, label): shard for shard in shards}
        for future in as_completed(futures):
            future.result()
            yield futures[future]


def _claim(config: DatasetConfig, directory: Path) -> None:
    """Records what is being built, and refuses to mix two datasets in one directory."""
    file = directory / PLAN
    if not file.exists():
        write_atomically(file, (json.dumps(_identity(config), indent=1) + "\n").encode())
    try:
        recorded = json.loads(file.read_text())
    except ValueError as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from None
    if recorded != _identity(config):
        raise CheckpointError(f"{directory} holds a dataset of another configuration: use another directory")


def _identity(config: DatasetConfig) -> dict[str, Any]:
    table = asdict(config)
    table.pop("directory")
    normal: dict[str, Any] = json.loads(json.dumps(table))
    return normal


def _dataset_digest(config: DatasetConfig) -> str:
    return hashlib.sha256(json.dumps(_identity(config), sort_keys=True).encode()).hexdigest()


def _digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _arrow() -> tuple[Any, Any]:
    with needs_extra("a dataset", "train"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow, pyarrow.parquet


class Dataset:
    """A complete dataset, read by row group. ``shards`` are the files of one set, or of all.

    Their hashes are compared with the manifest's first: a file that was cut, emptied or exchanged is an error.
    """

    def __init__(self, directory: Path, split: str | None = None) -> None:
        self.directory = directory
        try:
            manifest = json.loads((directory / MANIFEST).read_text())
            entries = [(str(e["file"]), str(e["split"]), str(e["sha256"])) for e in manifest["shards"]]
        except FileNotFoundError:
            raise CheckpointError(
                f"{directory} has no {MANIFEST}: no dataset, or its build has not finished; run dataset build again"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{directory / MANIFEST} cannot be read: {error}") from None
        for file, _, _ in entries:
            if not SHARD_NAME.fullmatch(file):
                raise CheckpointError(f"{directory / MANIFEST} names a file {file!r}, which is no shard of this folder")
        wanted = {file: digest for file, name, digest in entries if split in (None, name)}
        self.shards = list(wanted)
        if not self.shards:
            raise CheckpointError(f"{directory} has no set {split!r}")
        for file, digest in wanted.items():
            try:
                actual = _digest(directory / file)
            except FileNotFoundError:
                raise CheckpointError(f"{directory / file} is missing: run dataset build again") from None
            except OSError as error:
                raise CheckpointError(f"{directory / file} cannot be read: {error.strerror}") from None
            if actual != digest:
                raise CheckpointError(f"{directory / file} is truncated or was changed: run dataset build again")

    def _open(self, file: str) -> Any:
        pa, parquet = _arrow()
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
