"""Learning to hold an answer: what is recorded is what the network sees, only the disjunction learns, a run resumes."""

import csv
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from networks import formula  # noqa: E402
from small_runs import tiny_config  # noqa: E402

from sharpdnf.engines.sampling import label as sampling_label  # noqa: E402
from sharpdnf.errors import ConfigError  # noqa: E402
from sharpdnf.learn.config import HoldConfig, LossConfig, NetworkConfig, OptimizerConfig  # noqa: E402
from sharpdnf.learn.graph import Graph  # noqa: E402
from sharpdnf.learn.hold import record, replay  # noqa: E402
from sharpdnf.learn.loss import graph_of  # noqa: E402
from sharpdnf.learn.model import Network, load_network  # noqa: E402
from sharpdnf.learn.stream import draw_batch  # noqa: E402
from sharpdnf.learn.train import train  # noqa: E402

LEARNING = ("v_d", "L_d.", "f_out.")


@pytest.fixture
def alone(monkeypatch):
    """Work stays in this process: for a few tiny formulas no other is worth its start."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)


@pytest.fixture(scope="module")
def early(tmp_path_factory):
    """A network that has learned to answer after three iterations."""
    folder = tmp_path_factory.mktemp("early")
    train(tiny_config(150), folder, sampling_label)
    return folder / "final"


def holding(early, steps=100, **changes):
    config = tiny_config(steps)
    return replace(
        config,
        network=NetworkConfig(k=16, iterations=9),
        loss=LossConfig(kind="robust"),
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_steps=5, average=0.9, restarts=(40,), restart_rate=(0.5,)),
        run=replace(config.run, init=str(early)),
        hold=HoldConfig(after=3, batches=(12, 6), formulas=32),
        **changes,
    )


def test_what_is_recorded_is_what_the_network_sees():
    network = Network(NetworkConfig(k=16, iterations=5))
    graph = Graph.of([formula(20, 3, seed) for seed in range(3)])
    messages, states = record(network, graph, 2, perfectly=False)
    assert messages.shape == (5, 3, 16)
    with torch.inference_mode():
        expected = [states.disjunctions[0] for states in network.run(graph)]
        torch.testing.assert_close(torch.stack(replay(network, messages)), torch.stack(expected), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(states, torch.stack(expected[:2]), atol=1e-5, rtol=1e-4)


def test_a_perfect_hold_changes_nothing_before_it_and_something_after_it():
    network = Network(NetworkConfig(k=16, iterations=5))
    graph = Graph.of([formula(20)])
    own, _ = record(network, graph, 2, perfectly=False)
    held, _ = record(network, graph, 2, perfectly=True)
    # The disjunction of the third iteration is the first that is held, and the fourth message the first to tell.
    torch.testing.assert_close(own[:3], held[:3], atol=0, rtol=0)
    assert not torch.allclose(own[3], held[3], atol=1e-6)


def mean_error(network, iterations):
    """How far the answers after so many iterations are from the labels of fresh formulas."""
    examples = draw_batch(tiny_config().data, sampling_label, 77, 0, 0, steps=1, marginals=False)
    truth = torch.tensor([example.log_prob for example in examples]).exp()
    network.config = replace(network.config, iterations=iterations)
    with torch.inference_mode():
        mean, _ = network(graph_of(examples))
    return float((mean.exp() - truth).abs().mean())


def test_a_network_learns_to_hold_and_nothing_but_the_disjunction_learns(early, tmp_path, alone):
    found = train(holding(early, 400), tmp_path, sampling_label)
    before = load_network(early).state_dict()
    for name, tensor in found.state_dict().items():
        assert torch.equal(tensor, before[name]) != name.startswith(LEARNING), name
    lost = mean_error(load_network(early), 9) - mean_error(load_network(early), 3)
    assert mean_error(found, 9) < mean_error(load_network(early), 3) + 0.5 * lost
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert float(rows[-1]["loss"]) < 0.5 * float(rows[0]["loss"])
    assert int(rows[-1]["formulas"]) > int(rows[0]["formulas"]) > 0  # the second round has recorded more


@pytest.mark.parametrize("killed_at", [20, 40, 60])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(early, tmp_path, alone, killed_at):
    whole = train(holding(early), tmp_path / "whole", sampling_label)
    config = holding(early)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "parts", sampling_label, _interrupt_at(killed_at))
    parts = train(config, tmp_path / "parts", sampling_label)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, other)
    counts = [(tmp_path / name / "log.csv").read_text().split("\n")[-2].split(",")[5:8] for name in ("whole", "parts")]
    assert counts[0] == counts[1]


def _interrupt_at(step):
    def show(report):
        if report.step == step and not report.doing:
            raise KeyboardInterrupt

    return show


def test_a_run_that_was_stopped_while_it_recorded_keeps_what_it_had(early, tmp_path, alone):
    def interrupt(report):
        if report.doing.startswith("round 1: recorded 3 of"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(holding(early), tmp_path, sampling_label, interrupt)
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "round-1").glob("0*.safetensors")}
    assert len(kept) == 3
    train(holding(early), tmp_path, sampling_label)
    assert all(file.stat().st_mtime_ns == when for file, when in kept.items())


def test_records_of_another_network_are_not_taken(early, tmp_path, alone):
    train(holding(early, 20), tmp_path, sampling_label)
    old = (tmp_path / "round-0" / "made-for").read_text()
    for file in tmp_path.glob("checkpoint*"):
        file.unlink()
    config = holding(early, 20)
    train(replace(config, run=replace(config.run, seed=5)), tmp_path, sampling_label)
    assert (tmp_path / "round-0" / "made-for").read_text() != old


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hold": HoldConfig(after=9)}, "hold.after must be less than network.iterations, which is 9"),
        ({"loss": LossConfig(dense=1.0)}, "hold.after leaves no states to supervise"),
        ({"network": NetworkConfig(k=16, iterations=9, architecture="other")}, "for the architecture paper alone"),
    ],
)
def test_what_does_not_go_with_holding_is_refused(early, changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(holding(early), **changes)


def test_holding_needs_a_network_to_start_from(early):
    config = holding(early)
    with pytest.raises(ConfigError, match=r"needs run\.init"):
        replace(config, run=replace(config.run, init=""))
