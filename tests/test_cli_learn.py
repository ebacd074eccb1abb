"""The learning commands from outside: what is missing, a full disk, and a folder with traps in it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sharpdnf.cli.learn import _stages
from sharpdnf.engines.sampling import label
from sharpdnf.learn.config import read_config
from sharpdnf.learn.model import load_network
from sharpdnf.paper.sets import SETS, draw, member

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from sharpdnf.cli import main
main(sys.argv[1:])
"""
EXPERIMENT = """
[network]
k = 8
iterations = 2
[run]
steps = 2
[data]
batch_nodes = 60
validation = 0
[[data.mix]]
kind = "spread"
num_vars = [4, 8]
widths = [1, 2]
max_clauses = 12
epsilon = 0.3
[dataset]
directory = "data"
splits = ["size-10000"]
test_epsilon = 0.3
scale = 0.0001
shard_size = 1
"""


def run(code: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "small.toml").write_text(EXPERIMENT)
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("train", "small.toml"), "torch"),
        (("train", "small.toml"), "safetensors"),
        (("calibrate", "weights"), "torch"),
        (("reproduce", "--out", "out"), "torch"),
        (("dataset", "build", "small.toml"), "pyarrow"),
    ],
)
def test_a_missing_dependency_is_named(tmp_path: Path, words: tuple[str, ...], missing: str) -> None:
    done = run(WITHOUT.format(modules={missing}), *words, folder=tmp_path)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    assert "pip install 'sharpdnf[train]'" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_dataset_is_built_without_the_tensor_library(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    done = run(WITHOUT.format(modules={"torch", "safetensors"}), "dataset", "build", "small.toml", folder=tmp_path)
    assert done.returncode == 0 and "the dataset is in data" in done.stdout, done.stderr
    assert (tmp_path / "data" / "manifest.json").exists()


FULL_DISK = """
import resource, sys
import sharpdnf.learn.train
from sharpdnf.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the log fits, the checkpoint does not."""
    pytest.importorskip("torch")
    done = run(FULL_DISK, "4096", "train", "small.toml", "--out", "run", folder=tmp_path)
    assert done.returncode == 2 and "checkpoint-" in done.stderr and "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.partial"))


WEIGHTS = """
import resource, sys
from pathlib import Path
from sharpdnf.learn.model import Network, NetworkConfig, save_network
save_network(Network(NetworkConfig(k=8, iterations=2)), Path("net"))
before = Path("net/model.safetensors").read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    save_network(Network(NetworkConfig(k=8, iterations=2)), Path("net"))
except OSError as error:
    print(error.filename)
print(Path("net/model.safetensors").read_bytes() == before, len(list(Path("net").iterdir())))
"""


def test_weights_survive_a_full_disk(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = run(WEIGHTS, folder=tmp_path)
    assert done.stdout.split() == ["net/model.safetensors", "True", "2"], done.stderr


TRAP = """
from pathlib import Path
Path(__file__).with_name("sprung").touch()
raise SystemExit("a file of the current folder was run")
"""
COMMAND = """
from sharpdnf.paper import reproduce
from sharpdnf.cli import main

reproduce.SUBSET = {"train": 4, "structure": 12}
reproduce.SUBSETS = {"paper": reproduce.SUBSET}
if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("command", ["dataset", "reproduce"])
def test_workers_run_nothing_from_the_current_folder(tmp_path: Path, command: str) -> None:
    """As the installed command does, a script elsewhere starts the program in a folder that has traps in it."""
    pytest.importorskip("pyarrow")
    torch = pytest.importorskip("torch")
    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.learn.model import Network, NetworkConfig

    folder, elsewhere = tmp_path / "folder", tmp_path / "bin"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "program.py").write_text(COMMAND)
    for name in ("multiprocessing", "numpy", "signal", "pyarrow", "torch", "sharpdnf", "runpy", "sitecustomize"):
        (folder / f"{name}.py").write_text(TRAP)
    (folder / "small.toml").write_text(EXPERIMENT.replace('size-10000"', 'size-10000", "size-15000"'))
    words = ["dataset", "build", "small.toml", "--workers", "2"]
    if command == "reproduce":
        torch.manual_seed(0)
        NeuralCounter(Network(NetworkConfig(k=8, iterations=1))).save_pretrained(tmp_path / "net")
        words = ["reproduce", "--model", str(tmp_path / "net"), "--set", "structure", "--out", "out", "--jobs", "2"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, str(elsewhere / "program.py"), *words], cwd=folder, env=environment, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert not (folder / "sprung").exists()
    assert done.returncode == 0, done.stderr


PAPERS_LABELS = """
[network]
k = 8
iterations = 2
[data]
source = "data"
batch_nodes = 20000
validation = 0
[run]
epochs = 1.0
[dataset]
directory = "data"
splits = ["train"]
labels = "klm"
train_epsilon = 0.3
delta = 0.05
scale = 0.00002
"""


def test_commands_build_the_papers_labels_and_train_on_them(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("torch")
    """KLM labels are clipped to 1 and hold their guarantee against a tight label; the commands say where things are."""
    (tmp_path / "small.toml").write_text(PAPERS_LABELS)

    def run(*words):
        command = [sys.executable, "-m", "sharpdnf.cli", *words]
        options = {"cwd": tmp_path, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, **options)

    early = run("train", "small.toml", "--out", "run")
    assert early.returncode == 2 and "manifest.json" in early.stderr and early.stdout == ""
    built = run("dataset", "build", "small.toml", "--workers", "1")
    assert built.returncode == 0 and "the dataset is in data" in built.stdout and "formulas" in built.stderr
    wrong = 0
    rows = [
        row for file in sorted((tmp_path / "data").glob("*.parquet")) for row in parquet.read_table(file).to_pylist()
    ]
    assert {row["num_vars"] for row in rows} == set(SETS["train"])
    for row in (row for row in rows if row["num_vars"] <= 1000):
        for shift, log_prob in enumerate(row["log_prob"]):
            tight, _ = label(
                draw(member("train", row["index"], shift)), epsilon=0.01, delta=1e-6,
                rng=np.random.default_rng(1), marginals=False,
            )  # fmt: skip
            assert log_prob <= 0.0 and row["epsilon"] == 0.3
            wrong += not math.log(0.7) - 0.011 <= log_prob - tight <= math.log(1.3) + 0.011
    assert (
        wrong <= 8
    )  # of 40 or more at delta 0.05 each: more happens with probability below 1e-3 even if all are tight
    trained = run("train", "small.toml", "--out", "run")
    assert trained.returncode == 0 and "the trained network is in run/final" in trained.stdout, trained.stderr
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()
    again = run("train", "small.toml", "--out", "run")
    assert again.returncode == 0, again.stderr
    (tmp_path / "small.toml").write_text(PAPERS_LABELS.replace("klm", "sampling"))
    other = run("dataset", "build", "small.toml", "--workers", "1")
    assert other.returncode == 2 and "data" in other.stderr  # another dataset is not mixed into this one


EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_experiments_go_on_from_what_fits(file, monkeypatch):
    """The stages before are there, end somewhere, and their weights have the shapes that are gone on with."""
    monkeypatch.chdir(EXPERIMENTS.parent)
    stages = _stages(file.relative_to(EXPERIMENTS.parent), read_config)
    init = stages[0][1].run.init  # nothing, or weights that are in the repository
    assert init == "" or load_network(Path(init)).config.k == stages[0][1].network.k
    for (_, before), (_, after) in pairwise(stages):
        assert before.network.k == after.network.k and (before.loss.dense > 0) == (after.loss.dense > 0)
    assert stages[-1][0].stem == file.stem


STAGE = """
[network]
k = 8
iterations = 2
[loss]
kind = "robust"
dense = 1.0
[optimizer]
learning_rate = 1e-3
[run]
steps = 3
batches = 2
seed = SEED
INIT
[data]
batch_nodes = 60
validation = 0
[[data.mix]]
kind = "spread"
num_vars = [4, 8]
widths = [1, 2]
mass = [0.3, 3.0]
max_clauses = 12
epsilon = 0.3
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stage_trains_what_it_goes_on_from(tmp_path, processes):
    pytest.importorskip("torch")
    for number, init in enumerate(("", 'init = "first.toml"')):
        text = STAGE.replace("SEED", str(number)).replace("INIT", init)
        (tmp_path / ("first.toml", "second.toml")[number]).write_text(text)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"] if processes == 2 else []
    command = [sys.executable, *launcher, "-m", "sharpdnf.cli", "train", "second.toml", "--out", "runs/second"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("first", "second"):
        state = json.loads((tmp_path / "runs" / name / "checkpoint.json").read_text())["state"]
        assert state["step"] == 3
    (tmp_path / "first.toml").write_text(STAGE.replace("SEED", "1").replace("INIT", 'init = "second.toml"'))
    circle = subprocess.run(
        [sys.executable, "-m", "sharpdnf.cli", "train", "second.toml"], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert circle.returncode == 2 and "circle" in circle.stderr
