"""Training: it learns, it resumes bit for bit, it survives a kill, and bad input is a clear error."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sharpdnf.cli.learn import _stages  # noqa: E402
from sharpdnf.dnf import DNF  # noqa: E402
from sharpdnf.engines.sampling import label as sampling_label  # noqa: E402
from sharpdnf.errors import CheckpointError, ConfigError, SharpDNFError  # noqa: E402
from sharpdnf.learn.config import Config, LossConfig, MixConfig, NetworkConfig, OptimizerConfig, read_config  # noqa: E402
from sharpdnf.learn.loss import Targets, accuracy, answer_loss, cauchy, kl, label_sigma, pseudo_huber, robust  # noqa: E402
from sharpdnf.learn.stream import Example, ahead, draw_batch, draw_formula, num_nodes, pack  # noqa: E402
from sharpdnf.learn.train import Objective, Trainer, learning_rate, train  # noqa: E402

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
TINY = MixConfig(kind="spread", num_vars=(4, 8), widths=(1, 2), mass=(0.3, 3.0), max_clauses=12, epsilon=0.1)


def tiny_config(steps=40, **changes):
    base = Config()
    config = replace(
        base,
        network=NetworkConfig(k=16, iterations=3),
        data=replace(base.data, mix=(TINY,), batch_nodes=400, validation=0, prefetch=0),
        loss=LossConfig(kind="robust", dense=1.0),
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_steps=10),
        run=replace(base.run, steps=steps, checkpoint_minutes=0.0),
    )
    return replace(config, **changes)


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


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_resume_continues_bit_for_bit(tmp_path, average):
    config = tiny_config(12)
    config = replace(config, optimizer=replace(config.optimizer, average=average))
    whole = weights(train(config, tmp_path / "whole", sampling_label))
    for calls in (60, 120):
        with pytest.raises(Interrupted):
            train(config, tmp_path / "parts", stop_after(calls))
    state = json.loads((tmp_path / "parts" / "checkpoint.json").read_text())["state"]
    assert 0 < state["step"] < 12
    parts = weights(train(config, tmp_path / "parts", sampling_label))
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


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
        "from test_train import tiny_config, sampling_label, train\n"
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[run]\nstesp = 3\n", "did you mean run.steps"),
        ("[runn]\nsteps = 3\n", "unknown key runn"),
        ("[[data.mix]]\nwidth = 3\n", "data.mix.width"),
        ("[run]\nsteps = 'many'\n", "must be of type int"),
        ("[run]\nsteps = 0\n", "must be positive"),
        ("[loss]\nkind = 'l2'\n", "loss.kind"),
        ("[network]\nk = -1\n", "network k"),
        ("[[data.mix]]\nstop = 0.5\n", "nothing to train on at progress 0.5"),
        ("[[data.mix]]\nstop = 0.5\n[[data.mix]]\nstart = 0.6\n", "nothing to train on at progress 0.5"),
        ("[[data.mix]]\nweight = 0\n", "nothing to train on at progress 0"),
        ("[data]\nvalidation_vars = []\n", "validation_vars"),
        ("[optimizer]\nbetas = [0.9, 1.5]\n", "betas"),
        ("[dataset]\nseed = -1\n", "dataset.seed"),
        ("[run\n", "="),
    ],
)
def test_bad_experiment_files(tmp_path, text, message):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message if message != "=" else None):
        read_config(file)


def test_missing_experiment_and_device(tmp_path):
    with pytest.raises(ConfigError):
        read_config(tmp_path / "none.toml")
    config = tiny_config()
    with pytest.raises(ConfigError, match=r"run\.device"):
        train(replace(config, run=replace(config.run, device="toaster")), tmp_path, sampling_label)


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_experiments_run(file, tmp_path):
    """Every shipped recipe takes two steps, on its own network, with its own loss, optimizer and first data."""
    config = read_config(file)
    data = replace(config.data, source="stream", batch_nodes=200, validation=0)
    run = replace(config.run, device="cpu", steps=2, init="")
    network = train(replace(config, data=data, run=run), tmp_path, sampling_label)
    assert all(torch.isfinite(p).all() for p in network.parameters())


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.toml")), ids=lambda p: p.stem)
def test_shipped_experiments_go_on_from_what_fits(file, monkeypatch):
    """The stages before are there, end somewhere, and their weights have the shapes that are gone on with."""
    monkeypatch.chdir(EXPERIMENTS.parent)
    stages = _stages(file.relative_to(EXPERIMENTS.parent), read_config)
    assert stages[0][1].run.init == ""
    for (_, before), (_, after) in pairwise(stages):
        assert before.network.k == after.network.k and (before.loss.dense > 0) == (after.loss.dense > 0)
    first = {"t2": "t2-1-small", "t32": "paper"}.get(file.stem, stages[0][0].stem)
    assert stages[0][0].stem == first and stages[-1][0].stem == file.stem


def test_label_sigma_and_losses():
    sigma = label_sigma(0.1, 0.05)
    assert math.isclose(sigma, 0.0486, abs_tol=5e-5)
    mean, std, label = torch.tensor([-1.0]), torch.tensor([0.3]), torch.tensor([-1.2])
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, std), normal(label, torch.tensor([sigma])))
    assert torch.allclose(kl(mean, std, label, sigma), expected)
    for loss in (kl, robust):
        assert float(loss(label, torch.tensor([sigma]), label, sigma)) == pytest.approx(0, abs=1e-6)
        assert float(loss(mean, torch.tensor([sigma]), label, sigma)) > 0


def test_cauchy_pulls_less_on_tiny_answers():
    """Both penalties agree on small errors; a log error of 5 at an answer of e^-20 must not dominate."""
    small, large = torch.tensor([0.01]), torch.tensor([100.0])
    assert torch.allclose(cauchy(small), pseudo_huber(small), rtol=1e-3)
    assert float(cauchy(large)) < 0.1 * float(pseudo_huber(large))
    values = {
        kind: float(answer_loss(LossConfig(kind=kind), *(torch.tensor([v]) for v in (-15.0, 0.0486, -20.0))))
        for kind in ("kl", "robust", "cauchy")
    }
    assert values["kl"] > values["robust"] > values["cauchy"] > 0


def test_targets_follow_the_graph():
    dnf = DNF.from_clauses([[1, -2], [3]], [0.2, 0.5, 0.4])
    log_prob = math.log(1 - 0.9 * 0.6)
    targets = Targets.of([Example(dnf, log_prob, np.array([0.3, 0.4, 0.9]))] * 2)
    assert torch.allclose(targets.clause_posterior[:2], torch.tensor([0.1, 0.4]) / (1 - 0.9 * 0.6))
    assert targets.literal_posterior.tolist() == pytest.approx([0.3, 0.4, 0.9] * 2 + [0.7, 0.6, 0.1] * 2)


def test_learning_rate_warms_up_and_falls():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=10, final=0.02)
    rates = [learning_rate(config, step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1, rel=0.01) and max(rates) == rates[9] and rates[100] == pytest.approx(0.02)


def test_batches_are_pure_functions_of_their_index():
    data = tiny_config().data
    first, again = (draw_batch(data, sampling_label, 3, 5, 1, progress=0.0, marginals=True) for _ in range(2))
    assert [e.log_prob for e in first] == [e.log_prob for e in again]
    for seed, step, number in ((3, 6, 1), (3, 5, 0), (4, 5, 1)):
        other = draw_batch(data, sampling_label, seed, step, number, progress=0.0, marginals=True)
        assert [e.log_prob for e in first] != [e.log_prob for e in other]
    assert len({e.dnf.num_vars for e in first}) == 1
    assert sum(num_nodes(e.dnf) for e in first) <= data.batch_nodes


def test_errors_of_the_side_thread_reach_the_loop():
    def broken():
        yield []
        raise Interrupted

    with pytest.raises(Interrupted):
        list(ahead(broken, 2))
    endless = ahead(lambda: iter(lambda: [], None), 2)
    next(endless)
    endless.close()  # stops its thread


def test_pack_and_accuracy():
    dnf = DNF.from_clauses([[1, 2]], num_vars=2)
    batches = pack([Example(dnf, -1.0, None)] * 5, lambda example: num_nodes(example.dnf), 10)
    assert [len(b) for b in batches] == [2, 2, 1]
    shares = accuracy(torch.tensor([0.0, -1.0]), torch.tensor([-0.03, -1.0]))
    assert shares == {0.02: 0.5, 0.05: 1.0, 0.10: 1.0, 0.15: 1.0}


SHARED_RUN = """
import os, sys
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
    return replace(config, run=replace(config.run, batches=4), data=replace(config.data, batch_nodes=150))


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
    """One process and two (DDP over gloo) see the same formulas, and lose the same up to rounding."""
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
    run_shared(tmp_path / "parts", 2, 4, calls=30)
    before = json.loads((tmp_path / "parts" / "checkpoint.json").read_text())["state"]
    assert 0 < before["step"] < 4
    run_shared(tmp_path / "parts", 1, 4)
    (alone, counts), (parts, same) = logged(tmp_path / "whole"), logged(tmp_path / "parts")
    assert counts == same and len(counts) == 4
    np.testing.assert_allclose(alone, parts, rtol=5e-3)


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


def test_a_mix_may_ask_for_privileged_variables():
    def most_frequent(privileged):
        mix = MixConfig(kind="spread", num_vars=(100, 100), widths=(4,), mass=(5.0, 5.0), privileged=privileged)
        formulas = [draw_formula(mix, 100, np.random.default_rng(i)) for i in range(40)]
        return np.array([np.bincount(f.literals >> 1).max() / f.num_clauses for f in formulas])

    always, never, either = most_frequent("always"), most_frequent("never"), most_frequent("random")
    assert never.max() < 0.4 < always.min()
    assert 8 <= (either > 0.4).sum() <= 32
    with pytest.raises(ConfigError, match="privileged"):
        MixConfig(privileged="sometimes")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stage_trains_what_it_goes_on_from(tmp_path, processes):
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
