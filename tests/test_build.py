"""Building a dataset: resumable, and complete only when every shard is what was made."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
parquet = pytest.importorskip("pyarrow.parquet")

from small_runs import SMALL, tiny_config  # noqa: E402

from sharpdnf.engines.sampling import label  # noqa: E402
from sharpdnf.errors import CheckpointError, SharpDNFError  # noqa: E402
from sharpdnf.learn.config import DatasetConfig  # noqa: E402
from sharpdnf.learn.dataset import Dataset  # noqa: E402
from sharpdnf.learn.train import train  # noqa: E402
from sharpdnf.paper.build import build, label_formula, plan  # noqa: E402
from sharpdnf.paper.sets import SETS  # noqa: E402


def failing_after(calls):
    seen = []

    def labeller(dnf, **options):
        seen.append(dnf)
        if len(seen) > calls:
            raise KeyboardInterrupt
        return label(dnf, **options)

    return labeller


def test_the_paper_composition():
    config = DatasetConfig(splits=tuple(SETS))
    sizes = {}
    for shard in plan(config):
        sizes[shard.split] = sizes.get(shard.split, 0) + len(shard.indices)
    assert sizes == {
        "train": 105_000, "structure": 13_080, "size-10000": 348, "size-15000": 116, "fully-privileged": 13_080,
        "uniform": 13_080, "structure-code": 13_080, "size-code": 464,
    }  # fmt: skip


def test_rows_can_be_rebuilt_alone(dataset):
    rows = [row for file in sorted(dataset.glob("train-*.parquet")) for row in parquet.read_table(file).to_pylist()]
    for row in rows[:: len(rows) // 4]:
        alone = label_formula(SMALL, "train", row["index"], label)
        assert alone["log_prob"] == row["log_prob"]
        assert alone["literals"].tolist() == row["literals"]
        assert row["epsilon"] == 0.2 and row["delta"] == 0.05
        assert len(row["log_prob"]) == len(row["clause_posterior"]) == 4


def test_a_killed_build_goes_on_and_the_number_of_workers_changes_nothing(dataset, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        list(build(SMALL, tmp_path, failing_after(40), workers=1))
    done = sorted(tmp_path.glob("*.parquet"))
    assert done and not (tmp_path / "manifest.json").exists()
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        Dataset(tmp_path)
    list(build(SMALL, tmp_path, label, workers=2))
    shards = [json.loads((d / "manifest.json").read_text())["shards"] for d in (dataset, tmp_path)]
    assert shards[0] == shards[1]


def copy_of(dataset, directory):
    directory.mkdir()
    for file in dataset.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    return directory


def truncate(shard, other):
    shard.write_bytes(shard.read_bytes()[:-100])


def empty(shard, other):
    shard.write_bytes(b"")


def swap(shard, other):
    first, second = shard.read_bytes(), other.read_bytes()
    shard.write_bytes(second)
    other.write_bytes(first)


def swap_with_records(shard, other):
    swap(shard, other)
    swap(shard.with_name(f"{shard.name}.json"), other.with_name(f"{other.name}.json"))


def flip_a_bit(shard, other):
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)


def lose_its_record(shard, other):
    truncate(shard, other)
    shard.with_name(f"{shard.name}.json").unlink()


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("damage", [truncate, empty, swap, swap_with_records, flip_a_bit, lose_its_record])
def test_a_damaged_shard_is_never_blessed(dataset, tmp_path, damage, finished):
    """Training refuses it; a build makes it again, whether there was a manifest already or not."""
    directory = copy_of(dataset, tmp_path / "data")
    if not finished:
        (directory / "manifest.json").unlink()
    damage(*sorted(directory.glob("train-*.parquet"))[:2])
    if finished:
        config = tiny_config()
        data = replace(config.data, source=str(directory))
        with pytest.raises(CheckpointError, match=r"train-0000\d\.parquet is truncated or was changed"):
            train(replace(config, data=data), tmp_path / "run", label)
    made = [formulas for _, formulas, _, _ in build(SMALL, directory, label, workers=1)]
    assert len(made) == (2 if damage in (swap, swap_with_records) else 1)
    for file in dataset.iterdir():
        if file.name != "lock":
            assert (directory / file.name).read_bytes() == file.read_bytes()
    assert list(build(SMALL, directory, label, workers=1)) == []


def test_a_shard_of_another_dataset_is_made_again(dataset, tmp_path):
    other = replace(SMALL, seed=9, splits=("size-10000",))
    list(build(other, tmp_path / "other", label, workers=1))
    directory = copy_of(dataset, tmp_path / "data")
    for file in (tmp_path / "other").glob("size-*"):
        (directory / file.name).write_bytes(file.read_bytes())
    assert len(list(build(SMALL, directory, label, workers=1))) == 1
    assert (directory / "manifest.json").read_bytes() == (dataset / "manifest.json").read_bytes()


def test_an_interrupted_repair_is_not_complete(dataset, tmp_path):
    directory = copy_of(dataset, tmp_path / "data")
    empty(next(directory.glob("train-*.parquet")), None)
    with pytest.raises(KeyboardInterrupt):
        list(build(SMALL, directory, failing_after(0), workers=1))
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        Dataset(directory)


def test_shards_are_on_the_disk_before_the_manifest_says_complete(tmp_path, monkeypatch):
    done, sync, rename = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda f: (done.append(Path(os.readlink(f"/proc/self/fd/{f}")).name), sync(f))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append(f"-> {to.name}"), rename(self, to))[1])
    config = replace(SMALL, splits=("size-10000",))
    list(build(config, tmp_path / "data", label, workers=1))
    last = done.index("-> manifest.json")
    for file in [f.name for f in (tmp_path / "data").glob("size-*")]:
        named = done.index(f"-> {file}")
        assert done[named - 1].startswith(file) and done[named + 1] == "data" and named < last
    assert done[last - 1].startswith("manifest.json") and done[last + 1 :] == ["data"]


def test_two_builds_in_one_folder_exclude_each_other(tmp_path):
    first = build(SMALL, tmp_path, label, workers=1)
    next(first)
    with pytest.raises(SharpDNFError, match="another process"):
        next(build(SMALL, tmp_path, label, workers=1))
    first.close()
    next(build(SMALL, tmp_path, label, workers=1))
