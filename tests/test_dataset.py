"""Reading a dataset: only a complete one, unchanged, and every example once an epoch."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
parquet = pytest.importorskip("pyarrow.parquet")

from small_runs import SMALL, tiny_config  # noqa: E402
from test_build import copy_of  # noqa: E402

from sharpdnf.engines.sampling import label  # noqa: E402
from sharpdnf.errors import CheckpointError, ConfigError  # noqa: E402
from sharpdnf.learn.dataset import Dataset, Epochs  # noqa: E402
from sharpdnf.learn.train import train  # noqa: E402
from sharpdnf.paper.build import build, plan  # noqa: E402


def test_examples_carry_the_four_distributions(dataset):
    examples = list(Dataset(dataset, "train"))
    first, second = examples[:2]
    assert np.allclose(second.dnf.prob, (first.dnf.prob + 0.25) % 1.0)
    assert first.posterior is not None and np.all((first.posterior >= 0) & (first.posterior <= 1))
    assert len(list(Dataset(dataset, "size-10000"))) == max(1, round(348 * SMALL.scale))


def test_bad_datasets(dataset, tmp_path):
    with pytest.raises(CheckpointError, match="another configuration"):
        list(build(replace(SMALL, seed=9), dataset, label, workers=1))
    with pytest.raises(CheckpointError, match="no set"):
        Dataset(dataset, "structure")
    with pytest.raises(ConfigError, match="no set"):
        plan(replace(SMALL, splits=("strukture",)))
    for file in dataset.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = next(tmp_path.glob("train-*.parquet"))
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="truncated"):
        Dataset(tmp_path)
    shard.unlink()
    with pytest.raises(CheckpointError, match="missing"):
        Dataset(tmp_path)


@pytest.mark.parametrize(
    "name", ["../outside.parquet", "/etc/passwd", "..", "", "a/b.parquet", "train\0.parquet", "x.csv"]
)
def test_a_manifest_cannot_lead_out_of_its_folder(dataset, tmp_path, name):
    directory = copy_of(dataset, tmp_path / "data")
    shard = next(directory.glob("train-*.parquet"))
    (tmp_path / "outside.parquet").write_bytes(shard.read_bytes())
    manifest = json.loads((directory / "manifest.json").read_text())
    next(e for e in manifest["shards"] if e["file"] == shard.name)["file"] = name
    (directory / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="not a shard of this folder"):
        Dataset(directory, "train")


def test_epochs_visit_every_example_once(dataset):
    data = Dataset(dataset, "train")
    epochs = Epochs(data, 2000, seed=0)
    for epoch in (0, 1):
        start = epoch * len(epochs)
        labels = sorted(e.log_prob for i in range(len(epochs)) for e in epochs.read(start + i))
        assert labels == sorted(e.log_prob for e in data)


def test_training_from_a_dataset(dataset, tmp_path):
    config = tiny_config()
    data = replace(config.data, source=str(dataset), batch_nodes=50_000)
    config = replace(config, data=data, run=replace(config.run, epochs=1.0))
    train(config, tmp_path, label)
    assert (tmp_path / "final" / "config.json").exists()
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        train(replace(config, data=replace(data, source=str(tmp_path))), tmp_path / "other", label)
