"""Training: it learns, it resumes bit for bit, it survives a kill, and bad input is a clear error."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_runs import tiny_config  # noqa: E402

from sharpdnf.engines.sampling import label as sampling_label  # noqa: E402
from sharpdnf.errors import CheckpointError, ConfigError, SharpDNFError  # noqa: E402
from sharpdnf.learn.config import OptimizerConfig, read_config  # noqa: E402
from sharpdnf.learn.loss import Targets, graph_of  # noqa: E402
from sharpdnf.learn.train import Objective, Trainer, learning_rate, train  # noqa: E402

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


def weights(network):
    return [p.detach().clone() for p in network.parameters()]


def test_a_run_of_seconds_learns(tmp_path):
    config = tiny_config(150)
    config = replace(config, data=replace(config.data, prefetch=4), run=replace(config.run, checkpoint_minutes=1))
    train(config, tmp_path, sampling_label)
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    losses = [float(row["loss"]) for row in rows]
    assert losses[-1] < 0.5 * losses[0]
    assert (tmp_path / "final" / "model.safetensors").exists()
    assert (tmp_path / "loss.png").exists()


class Interrupted(Exception):
    pass


def stop_after(batches):
    seen = []

    def label(dnf, **options):
        seen.append(dnf)
        if len(seen) > batches:
            raise Interrupted
        return sampling_label(dnf, **options)

    return label


@pytest.mark.parametrize(("average", "restarts"), [(0.0, ()), (0.9, ()), (0.9, (3, 7))])
def test_resume_continues_bit_for_bit(tmp_path, average, restarts):
    config = tiny_config(12)
    config = replace(config, optimizer=replace(config.optimizer, average=average, restarts=restarts))
    whole = weights(train(config, tmp_path / "whole", sampling_label))
    for calls in (60, 120):
        with pytest.raises(Interrupted):
            train(config, tmp_path / "parts", stop_after(calls))
    state = json.loads((tmp_path / "parts" / "checkpoint.json").read_text())["state"]
    assert 0 < state["step"] < 12
    parts = weights(train(config, tmp_path / "parts", sampling_label))
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


def test_a_cycle_starts_from_the_average_with_fresh_moments_and_heads(tmp_path):
    """A run that is stopped where its second cycle begins knows nothing of that cycle; one step later it has begun."""
    config = tiny_config(12)
    config = replace(config, optimizer=replace(config.optimizer, average=0.9, restarts=(5,)))
    trainer = Trainer(replace(config, run=replace(config.run, stop=5)), tmp_path, sampling_label, lambda report: None)
    trainer.run()
    average, heads = weights(trainer.network), weights(trainer.objective.heads)
    assert any(not torch.equal(a, b) for a, b in zip(average, weights(trainer.objective.network), strict=True))
    trainer._restart()
    assert all(torch.equal(a, b) for a, b in zip(average, weights(trainer.objective.network), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(heads, weights(trainer.objective.heads), strict=True))
    assert not trainer.optimizer.state


def test_each_cycle_warms_up_and_falls():
    config = OptimizerConfig(
        learning_rate=1.0, warmup_steps=10, final=0.1, restarts=(100, 150, 200), restart_rate=(0.5, 0.25)
    )
    rates = [learning_rate(config, step, 300) for step in range(300)]
    plain = OptimizerConfig(learning_rate=1.0, warmup_steps=10, final=0.1)
    assert rates[:100] == [learning_rate(plain, step, 100) for step in range(100)]
    assert rates[100:150] == [0.5 * learning_rate(plain, step, 50) for step in range(50)]
    assert rates[150:200] == [0.25 * learning_rate(plain, step, 50) for step in range(50)]
    assert rates[200:] == [0.25 * learning_rate(plain, step, 100) for step in range(100)]  # the last share goes on
    with pytest.raises(ConfigError, match="restarts must be positive and rise"):
        OptimizerConfig(restarts=(7, 7))


def test_a_run_may_stop_before_its_schedule_ends(tmp_path):
    """The same weights as the planned run had at that step."""
    config = tiny_config(12)
    stopped = train(replace(config, run=replace(config.run, stop=5)), tmp_path / "stopped", sampling_label)
    assert json.loads((tmp_path / "stopped" / "checkpoint.json").read_text())["state"]["step"] == 5
    shorter = train(tiny_config(5), tmp_path / "shorter", sampling_label)
    assert any(not torch.equal(a, b) for a, b in zip(weights(stopped), weights(shorter), strict=True))
    again = train(replace(config, run=replace(config.run, stop=5)), tmp_path / "stopped", sampling_label)
    assert all(torch.equal(a, b) for a, b in zip(weights(stopped), weights(again), strict=True))


def test_the_average_follows_the_weights(tmp_path):
    """A run of one step ends at 1/10 of the start and 9/10 of the step's weights, a run without average at those."""
    config = tiny_config(1)
    torch.manual_seed(config.run.seed)
    start = weights(Objective(config).network)
    moved = weights(train(config, tmp_path / "weights", sampling_label))
    kept = replace(config, optimizer=replace(config.optimizer, average=0.99))
    average = weights(train(kept, tmp_path / "average", sampling_label))
    for first, last, between in zip(start, moved, average, strict=True):
        assert torch.allclose(between, 0.1 * first + 0.9 * last, atol=1e-7)
    assert any(not torch.equal(first, last) for first, last in zip(start, moved, strict=True))


def test_a_kill_loses_only_what_follows_the_checkpoint(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[1])\n"
        "from test_train import sampling_label, tiny_config, train\n"
        "train(tiny_config(100000), Path(sys.argv[2]), sampling_label)\n"
    )
    run = tmp_path / "run"
    command = [sys.executable, str(script), str(Path(__file__).parent), str(run)]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if list(run.glob("checkpoint-*.safetensors")) and (run / "checkpoint.json").exists():
                break
            time.sleep(0.05)
        time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = json.loads((run / "checkpoint.json").read_text())["state"]["step"]
    assert before > 0
    with pytest.raises(Interrupted):  # the checkpoint is whole: the run goes on from it
        train(tiny_config(100000), run, stop_after(60))
    assert json.loads((run / "checkpoint.json").read_text())["state"]["step"] >= before


def test_damaged_checkpoints_are_refused_and_kept(tmp_path):
    config = tiny_config(3)
    train(config, tmp_path, sampling_label)
    file = next(tmp_path.glob("checkpoint-*.safetensors"))
    data = file.read_bytes()
    for bad in (data[:-50], b"", data[:-8] + b"tampered"):
        file.write_bytes(bad)
        with pytest.raises(CheckpointError, match="truncated or was changed"):
            train(config, tmp_path, sampling_label)
        assert file.read_bytes() == bad
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="another configuration"):
        train(tiny_config(4), tmp_path, sampling_label)
    (tmp_path / "checkpoint.json").write_text("{}")
    with pytest.raises(CheckpointError):
        train(config, tmp_path, sampling_label)


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_experiments_run(file, tmp_path, monkeypatch):
    """Every shipped recipe takes two steps, on its own network, with its own loss, optimizer and first data."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # what is recorded first is too little for other processes
    config = read_config(file)
    data = replace(config.data, source="stream", batch_nodes=200, validation=0)
    init = "" if config.run.init.endswith(".toml") else str(EXPERIMENTS.parent / config.run.init)
    run = replace(config.run, device="cpu", steps=2, init=init if config.run.init else "")
    hold = replace(config.hold, batches=(2,))
    network = train(replace(config, data=data, run=run, hold=hold), tmp_path, sampling_label)
    assert all(torch.isfinite(p).all() for p in network.parameters())


def test_learning_rate_warms_up_and_falls():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=10, final=0.02)
    rates = [learning_rate(config, step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1, rel=0.01) and max(rates) == rates[9] and rates[100] == pytest.approx(0.02)


SHARED_RUN = """
import os, sys, time
from pathlib import Path
tests, directory, steps, calls = sys.argv[1:]
sys.path.insert(0, tests)
import sharpdnf.learn.train
from test_train import sampling_label, shared_config, train
from sharpdnf.paper.labels import digest
sharpdnf.learn.train.LOG_EVERY = 1
seen = []

def label(dnf, **options):
    if len(seen) >= int(calls):
        while not Path(directory, "checkpoint.json").exists():  # of the other process, which may be slower
            time.sleep(0.05)
        os._exit(1)
    log_prob, posterior = sampling_label(dnf, **options)
    seen.append(f"{digest(dnf)} {log_prob!r}")
    return log_prob, posterior

train(shared_config(int(steps)), Path(directory), label)
Path(f"{directory}/seen-{os.environ.get('RANK', 0)}.txt").write_text("\\n".join(seen))
"""


def shared_config(steps):
    """Four batches a step, for one, two or four processes."""
    config = tiny_config(steps)
    return replace(config, run=replace(config.run, batches=(4,)), data=replace(config.data, batch_nodes=150))


def run_shared(directory, processes, steps, calls=10**9):
    """Trains in other processes; each ends itself before it makes more than ``calls`` labels."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    script = directory.with_suffix(".py")
    script.write_text(SHARED_RUN)
    command = [sys.executable, *(launcher if processes > 1 else []), str(script), str(Path(__file__).parent)]
    options = {"timeout": 200, "env": {**os.environ, "OMP_NUM_THREADS": "1"}, "capture_output": True, "text": True}
    done = subprocess.run([*command, str(directory), str(steps), str(calls)], check=False, **options)
    assert (done.returncode == 0) == (calls == 10**9), done.stderr


def logged(directory):
    """(losses, counts of formulas and of nodes) by step."""
    rows = list(csv.DictReader((directory / "log.csv").open()))
    return np.array([[float(row["loss"]), float(row["dense"])] for row in rows]), [
        (row["formulas"], row["variables"], row["nodes"]) for row in rows
    ]


def test_the_number_of_processes_changes_no_data(tmp_path):
    """One process and two (over gloo) see the same formulas, and lose the same up to rounding."""
    seen = {}
    for processes in (1, 2):
        run_shared(tmp_path / f"run{processes}", processes, 3)
        files = sorted((tmp_path / f"run{processes}").glob("seen-*.txt"))
        assert len(files) == processes
        seen[processes] = [line for file in files for line in file.read_text().splitlines()]
    assert len(seen[1]) > 30 and len(set(seen[1])) == len(seen[1])
    assert sorted(seen[1]) == sorted(seen[2])
    (alone, counts), (shared, same) = logged(tmp_path / "run1"), logged(tmp_path / "run2")
    assert counts == same and len(counts) == 3
    np.testing.assert_allclose(alone[0], shared[0], rtol=1e-5)  # the same weights
    np.testing.assert_allclose(alone, shared, rtol=5e-3)  # Adam magnifies what rounding does to tiny gradients


def test_a_run_may_go_on_with_another_number_of_processes(tmp_path):
    run_shared(tmp_path / "whole", 1, 4)
    for _ in range(3):  # on a busy machine the processes may not find each other in time
        run_shared(tmp_path / "parts", 2, 4, calls=30)
        if (tmp_path / "parts" / "checkpoint.json").exists():
            break
    before = json.loads((tmp_path / "parts" / "checkpoint.json").read_text())["state"]
    assert 0 < before["step"] < 4
    run_shared(tmp_path / "parts", 1, 4)
    (alone, counts), (parts, same) = logged(tmp_path / "whole"), logged(tmp_path / "parts")
    assert counts == same and len(counts) == 4
    np.testing.assert_allclose(alone, parts, rtol=5e-3)


@pytest.mark.parametrize("each", [False, True])
def test_batches_are_averaged_and_may_be_clipped_each(tmp_path, each):
    """The gradient of a step is the mean of its batches' gradients, each of them shortened first if that is asked."""
    config = shared_config(3)
    config = replace(config, optimizer=replace(config.optimizer, clip=0.05, clip_each=(each,)))
    trainer = Trainer(config, tmp_path, sampling_label, print)
    batches = next(trainer.batches())
    parameters = list(trainer.objective.parameters())
    mean, shortened = torch.zeros(sum(p.numel() for p in parameters)), 0
    for examples in batches:
        trainer.objective.zero_grad()
        answer, dense = trainer.objective(graph_of(examples), Targets.of(examples))
        (answer + dense).backward()
        gradient = torch.cat(
            [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
        )
        factor = min(1.0, 0.05 / float(gradient.norm())) if each else 1.0
        shortened += factor < 1.0
        mean += gradient * factor / len(batches)
    assert len(batches) == 4 and (shortened > 0) == each
    trainer._gradients(batches)
    found = torch.cat([p.grad.flatten() for p in parameters])
    torch.testing.assert_close(found, mean, rtol=1e-4, atol=1e-7)


def test_batches_that_processes_cannot_share_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"run\.batches = 4 cannot be shared evenly by 3 processes"):
        Trainer(shared_config(3), tmp_path, sampling_label, print, rank=0, world=3)


def test_the_best_weights_do_not_depend_on_the_clock(tmp_path, monkeypatch):
    config = tiny_config(9)
    data = replace(config.data, validation=6, validation_vars=(50,))
    config = replace(config, data=data, run=replace(config.run, validate_steps=2, checkpoint_minutes=60.0))
    validated = {}
    for name, pace in (("usual", 1.0), ("slow", 3600.0)):
        steps, clock = [], time.monotonic
        validate = Trainer._validate
        with monkeypatch.context() as patched:
            patched.setattr(Trainer, "_validate", lambda self: (steps.append(self.state.step), validate(self)))  # noqa: B023
            patched.setattr("sharpdnf.learn.train.time.monotonic", lambda: pace * clock())  # noqa: B023
            train(config, tmp_path / name, sampling_label)
        validated[name] = steps
    assert validated["usual"] == validated["slow"] == [2, 4, 6, 8, 9]
    files = [(tmp_path / name / "best" / "model.safetensors").read_bytes() for name in validated]
    assert files[0] == files[1]


def test_two_trainings_in_one_folder_exclude_each_other(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, time\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[1])\n"
        "from test_train import tiny_config, train\n"
        "def label(dnf, **options):\n    print('training', flush=True)\n    time.sleep(60)\n"
        "train(tiny_config(3), Path(sys.argv[2]), label)\n"
    )
    run = tmp_path / "run"
    command = [sys.executable, str(script), str(Path(__file__).parent), str(run)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "training\n"
        with pytest.raises(SharpDNFError, match=rf"another process \({first.pid}\) is writing in"):
            train(tiny_config(3), run, sampling_label)
        assert not (run / "checkpoint.json").exists()
    finally:
        first.kill()
        first.wait()
    train(tiny_config(3), run, sampling_label)  # the lock of a killed process is none
    assert json.loads((run / "checkpoint.json").read_text())["state"]["step"] == 3


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_an_interrupt_inside_a_step_still_resumes_bit_for_bit(tmp_path, monkeypatch, average, heard_interrupts):
    config = tiny_config(6)
    config = replace(config, optimizer=replace(config.optimizer, average=average))
    whole = weights(train(config, tmp_path / "whole", sampling_label))
    step, calls = torch.optim.Adam.step, []

    def interrupted(self, *args, **options):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return step(self, *args, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", interrupted)
    late = replace(config, run=replace(config.run, checkpoint_minutes=60.0))  # only the interrupt saves
    with pytest.raises(KeyboardInterrupt):
        train(late, tmp_path / "parts", sampling_label)
    assert json.loads((tmp_path / "parts" / "checkpoint.json").read_text())["state"]["step"] == 3
    parts = weights(train(late, tmp_path / "parts", sampling_label))
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
