"""Training on several machines: two on this one, each with its own torchrun and its own folder."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

RUN = """
import sys, time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from small_runs import tiny_config
from sharpdnf.engines.sampling import label
from sharpdnf.learn.train import train

directory, steps, pause = Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])

def slow_label(dnf, **options):
    time.sleep(pause)
    return label(dnf, **options)

config = tiny_config(steps)
config = replace(config, run=replace(config.run, batches=(2,)), optimizer=replace(config.optimizer, average=0.9))
train(config, directory, slow_label)
"""


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def start(directory: Path, launcher: list[str], steps: int, pause: float = 0.0) -> subprocess.Popen[str]:
    """One torchrun in a session of its own, so that it can be killed with its workers."""
    script = directory.with_suffix(".py")
    script.write_text(RUN)
    command = [sys.executable, "-m", "torch.distributed.run", *launcher, str(script), str(Path(__file__).parent)]
    return subprocess.Popen(
        [*command, str(directory), str(steps), str(pause)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def two_machines(folder: Path, steps: int, pause: float = 0.0) -> list[subprocess.Popen[str]]:
    port = free_port()
    common = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=test"]
    common += [f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1"]
    names = ["first", "second"]
    runs = []
    for name in names:
        runs.append(start(folder / name, [*common, f"--rdzv-conf=is_host={int(name == 'first')}"], steps, pause))
    return runs


def finish(runs: list[subprocess.Popen[str]]) -> None:
    for run in runs:
        _, errors = run.communicate(timeout=200)
        assert run.returncode == 0, errors


def losses(directory: Path) -> list[tuple[str, str]]:
    return [(row["step"], row["loss"]) for row in csv.DictReader((directory / "log.csv").open())]


def run_folder(folder: Path) -> Path:
    """Rank 0 may be on either machine: the rendezvous decides. Its folder has the run."""
    (found,) = [path for path in (folder / "first", folder / "second") if (path / "checkpoint.json").exists()]
    return found


def step_of(folder: Path) -> int:
    files = [path / "checkpoint.json" for path in (folder / "first", folder / "second")]
    return max([json.loads(file.read_text())["state"]["step"] for file in files if file.exists()], default=0)


STEPS = 12


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of the same run on one machine with two processes."""
    directory = tmp_path_factory.mktemp("runs") / "alone"
    finish([start(directory, ["--standalone", "--nproc-per-node=2"], STEPS)])
    return directory


def test_two_machines_lose_what_one_machine_with_two_processes_loses(tmp_path, alone):
    finish(two_machines(tmp_path, STEPS))
    assert losses(run_folder(tmp_path)) == losses(alone)


def test_a_machine_that_is_killed_stops_the_run_with_a_word_and_a_resume_goes_on(tmp_path, alone):
    runs = two_machines(tmp_path, STEPS, pause=0.02)
    until = time.monotonic() + 120
    while time.monotonic() < until and step_of(tmp_path) < 3:
        time.sleep(0.1)
    stopped_at = step_of(tmp_path)
    assert 0 < stopped_at < STEPS
    first = run_folder(tmp_path) == tmp_path / "first"
    victim, witness = (runs[1], runs[0]) if first else (runs[0], runs[1])
    kill_with_workers(victim)
    _, errors = witness.communicate(timeout=200)
    assert witness.returncode != 0
    assert "another process of this run has gone, at step" in errors
    victim.communicate(timeout=20)
    finish(two_machines(tmp_path, STEPS))
    ends = [path / "final" / "model.safetensors" for path in (tmp_path / "first", tmp_path / "second")]
    (end,) = [path for path in ends if path.exists()]
    assert end.read_bytes() == (alone / "final" / "model.safetensors").read_bytes()


def test_the_run_goes_on_when_its_folder_is_on_another_machine(tmp_path, alone):
    """The machines' folders are exchanged between two starts, as if the rendezvous had numbered them anew."""
    runs = two_machines(tmp_path, STEPS, pause=0.02)
    until = time.monotonic() + 120
    while time.monotonic() < until and step_of(tmp_path) < 2:
        time.sleep(0.1)
    for run in runs:
        kill_with_workers(run)
        run.communicate(timeout=20)
    assert 0 < step_of(tmp_path) < STEPS
    before = run_folder(tmp_path)
    other = tmp_path / ("second" if before.name == "first" else "first")
    if other.exists():
        other.rename(tmp_path / "aside")
    before.rename(other)
    finish(two_machines(tmp_path, STEPS))
    ends = [path / "final" / "model.safetensors" for path in (tmp_path / "first", tmp_path / "second")]
    assert (alone / "final" / "model.safetensors").read_bytes() in [end.read_bytes() for end in ends if end.exists()]


def kill_with_workers(run: subprocess.Popen[str]) -> None:
    """As if the power had gone: the launcher and the worker that it started, which has a session of its own."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True, check=False)
    for process in [run.pid, *map(int, found.stdout.split())]:
        os.kill(process, signal.SIGKILL)
