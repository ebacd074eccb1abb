"""The learning commands from outside: what is missing, a full disk, and a folder with traps in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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

reproduce.SUBSETS = {"paper": {"train": 4, "structure": 12}}
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
