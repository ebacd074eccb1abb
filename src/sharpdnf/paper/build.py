"""Builds a dataset of the paper's formulas: Parquet shards with labels, then the manifest that says they are whole.

Row i of a set (see ``sets``) is a pure function of (seed, set, i), so shards can be made in any order by any number of
processes, and a build that was killed goes on with the shards it has not got. Beside each shard lies a record of its
hash, written after it: a shard that is not what was made, or that belongs to another dataset, is made again here and
refused by ``sharpdnf.learn.dataset.Dataset``, which reads what this module writes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from sharpdnf.bulk import in_any_order
from sharpdnf.errors import CheckpointError, ConfigError
from sharpdnf.files import make_folder, sole_writer, write_atomically
from sharpdnf.generate import quarter_shifts
from sharpdnf.learn.config import DatasetConfig
from sharpdnf.learn.dataset import MANIFEST, arrow, file_digest
from sharpdnf.learn.stream import Labeller
from sharpdnf.paper.sets import SETS, SPLITS, draw, member, num_distributions
from sharpdnf.streams import Stream, random_stream

PLAN = "build.json"
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
    """The row of formula ``index`` of a set. It depends on nothing else, so any example can be rebuilt alone."""
    what = member(split, index, 0, config.seed)
    dnf = draw(what, config.seed, config.variant)
    epsilon = config.train_epsilon if split == "train" else config.test_epsilon
    rng = random_stream(config.seed, Stream.DATASET_LABEL, SPLITS[split], index)
    distributions = quarter_shifts(dnf)[: num_distributions(split)]
    labels = [label(f, epsilon=epsilon, delta=config.delta, rng=rng, marginals=config.marginals) for f in distributions]
    row = {
        "split": split,
        "index": index,
        "num_vars": dnf.num_vars,
        "num_clauses": dnf.num_clauses,
        "width": what.width,
        "family": what.family,
        "indptr": dnf.indptr,
        "literals": dnf.literals,
        "prob": dnf.prob,
        "epsilon": epsilon,
        "delta": config.delta,
        "log_prob": [min(log_prob, 0.0) for log_prob, _ in labels],
    }
    if config.marginals:
        clauses = [f.clause_log_probs() - log_prob for f, (log_prob, _) in zip(distributions, labels, strict=True)]
        row["literal_posterior"] = [np.asarray(p, dtype=np.float32) for _, p in labels]
        row["clause_posterior"] = [np.exp(np.minimum(c, 0.0)).astype(np.float32) for c in clauses]
    return row


def write_shard(config: DatasetConfig, directory: Path, shard: Shard, label: Labeller) -> None:
    """Makes one shard, which appears under its name only when it is whole, and then its record."""
    pa, parquet = arrow()
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
    arrow()
    make_folder(directory)
    with sole_writer(directory):
        _claim(config, directory)
        total = sum(len(s.indices) for s in shards)
        missing = [s for s in shards if _verified(config, directory, s) is None]
        if missing:  # a damaged dataset must not pass for complete because it once was
            (directory / MANIFEST).unlink(missing_ok=True)
        done = total - sum(len(s.indices) for s in missing)
        began, made = time.monotonic(), 0
        write = functools.partial(write_shard, config, directory, label=label)
        for place, _ in in_any_order(write, missing, workers=workers):
            shard = missing[place]
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
        digest = file_digest(directory / shard.file)
    except (OSError, ValueError):
        return None
    return digest if record == {"dataset": _dataset_digest(config), **_entry(shard, digest)} else None


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
