"""Checkpoints: what does not fit the run is a clear error, before anything is computed with it."""

import hashlib
import json
import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import safetensors.torch as safetensors  # noqa: E402
from small_runs import tiny_config  # noqa: E402

from sharpdnf.engines.sampling import label as sampling_label  # noqa: E402
from sharpdnf.errors import CheckpointError  # noqa: E402
from sharpdnf.learn.train import train  # noqa: E402


def rewrite_checkpoint(directory, change):
    """Changes the tensors of a checkpoint and records the hash of the new file."""
    table = json.loads((directory / "checkpoint.json").read_text())
    tensors = safetensors.load((directory / table["file"]).read_bytes())
    change(tensors)
    data = safetensors.save(tensors)
    (directory / table["file"]).write_bytes(data)
    table["sha256"] = hashlib.sha256(data).hexdigest()
    (directory / "checkpoint.json").write_text(json.dumps(table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update({"optimizer.0.exp_avg": torch.zeros(3)}), r"optimizer's 0\.exp_avg is \(3,\)"),
        (lambda t: t.update({"optimizer.0.exp_avg": torch.full_like(t["optimizer.0.exp_avg"], math.nan)}), "finite"),
        (lambda t: t.update({"optimizer.0.exp_avg_sq": t["optimizer.0.exp_avg_sq"] - 1}), "below 0"),
        (lambda t: t.update({"optimizer.0.step": torch.zeros(2)}), r"0\.step is \(2,\)"),
        (lambda t: t.update({"optimizer.999.exp_avg": torch.zeros(3)}), r"999\.exp_avg is \(3,\), expected None"),
        (lambda t: t.update({"optimizer.momentum": torch.zeros(3)}), "momentum is"),
        (lambda t: t.update({"optimizer.0.exp_avg.x": torch.zeros(3)}), r"exp_avg\.x is"),
        (lambda t: t.pop("optimizer.0.exp_avg_sq"), "only exp_avg, step of parameter 0"),
        (lambda t: t.pop("module.network.v_c"), "v_c"),
    ],
)
def test_wrong_tensors_in_a_checkpoint_are_refused(tmp_path, change, message):
    config = tiny_config(3)
    train(config, tmp_path, sampling_label)
    rewrite_checkpoint(tmp_path, lambda tensors: None)
    train(config, tmp_path, sampling_label)
    rewrite_checkpoint(tmp_path, change)
    with pytest.raises(CheckpointError, match=message):
        train(config, tmp_path, sampling_label)


@pytest.mark.parametrize("state", [{"step": "3"}, {"step": -1}, {"best": 0.5}, {"best": ["x"]}, {"pace": 3}])
def test_wrong_states_in_a_checkpoint_are_refused(tmp_path, state):
    config = tiny_config(3)
    train(config, tmp_path, sampling_label)
    table = json.loads((tmp_path / "checkpoint.json").read_text())
    table["state"] |= state
    (tmp_path / "checkpoint.json").write_text(json.dumps(table))
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        train(config, tmp_path, sampling_label)


def test_a_run_starts_only_from_a_whole_checkpoint(tmp_path):
    config = tiny_config(3)
    train(config, tmp_path / "first", sampling_label)
    after = replace(config, run=replace(config.run, init=str(tmp_path / "first")))
    train(after, tmp_path / "second", sampling_label)
    file = next((tmp_path / "first").glob("checkpoint-*.safetensors"))
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="truncated or was changed"):
        train(after, tmp_path / "third", sampling_label)
