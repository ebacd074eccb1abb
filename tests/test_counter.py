"""NeuralCounter and the neural engine: agreement with the network, batching, memory, files that are not weights."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import appendix  # noqa: E402
from networks import formula  # noqa: E402
from test_neural import run_engine  # noqa: E402

from sharpdnf import DNF, count_many, formats  # noqa: E402
from sharpdnf.errors import CheckpointError, ConfigError, LimitError  # noqa: E402
from sharpdnf.generate import settings  # noqa: E402
from sharpdnf.learn.counter import NeuralCounter, shipped  # noqa: E402
from sharpdnf.learn.graph import Graph  # noqa: E402
from sharpdnf.learn.inference import check_memory  # noqa: E402
from sharpdnf.learn.model import Network, NetworkConfig  # noqa: E402


def test_predict_is_the_network_as_it_is(counter: NeuralCounter) -> None:
    dnf = formula()
    with torch.inference_mode():
        mean, std = counter.network(Graph.of([dnf]))
    estimate = counter.predict(dnf, factor=False)
    assert estimate.log_prob == pytest.approx(float(mean), abs=1e-6)
    assert estimate.info["sigma"] == pytest.approx(float(std), abs=1e-6)
    assert estimate.guarantee == "none" and "not a guarantee" in estimate.info["interval"]
    assert estimate.log_lower < estimate.log_prob < estimate.log_upper <= 0.0
    assert estimate.seconds > 0


def test_the_network_answers_for_what_simplification_leaves(counter: NeuralCounter) -> None:
    rest = formula(40)
    alone = counter.predict(rest, factor=False).log_prob
    assert counter.predict(rest).log_prob == pytest.approx(alone, abs=1e-6)
    prob = np.append(rest.prob, [0.3, 0.2, 0.9])
    clauses = clauses_of(rest)
    common = DNF.from_clauses([[41, *clause] for clause in clauses], prob)  # a literal that all clauses share
    beside = DNF.from_clauses([*clauses, [42, 43]], prob)  # and a part of its own
    assert counter.predict(common).prob == pytest.approx(0.3 * math.exp(alone), rel=1e-5)
    assert counter.predict(beside).prob == pytest.approx(1 - (1 - 0.2 * 0.9) * (1 - math.exp(alone)), rel=1e-5)
    assert counter.predict(common).info["taken out"] == {"factored": 1}
    solved = counter.predict(DNF.from_clauses([[1, 2], [3]], [0.5, 0.5, 0.2]))
    assert solved.prob == pytest.approx(1 - 0.75 * 0.8) and solved.guarantee == "exact"


def clauses_of(dnf: DNF) -> list[list[int]]:
    signed = np.where(dnf.literals & 1, -1, 1) * ((dnf.literals >> 1) + 1)
    return [signed[a:b].tolist() for a, b in zip(dnf.indptr[:-1], dnf.indptr[1:], strict=True)]


def test_batches_keep_order_and_values(counter: NeuralCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    dnfs = [formula(n, 3, seed) for seed, n in enumerate((80, 20, 300, 20, 150))]
    dnfs.insert(2, DNF.from_clauses([], num_vars=3))
    alone = [counter.predict(dnf).log_prob for dnf in dnfs]
    for nodes in (1, 500, 10**6):
        monkeypatch.setattr("sharpdnf.learn.counter.BATCH_NODES", nodes)
        together = [estimate.log_prob for estimate in counter.predict_many(iter(dnfs))]
        np.testing.assert_allclose(together, alone, atol=1e-5)
    assert counter.predict_many([]) == []


def test_trace_ends_in_the_prediction(counter: NeuralCounter) -> None:
    dnf = formula()
    steps = counter.trace(dnf)
    assert len(steps) == 4
    assert steps[-1].log_prob == counter.predict(dnf, factor=False).log_prob
    assert len({step.log_prob for step in steps}) == 4


def test_gradient_matches_finite_differences(counter: NeuralCounter) -> None:
    dnf = formula(12)
    slope = counter.gradient(dnf)
    assert slope.shape == (12,)
    double = NeuralCounter(Network(counter.network.config).double())
    double.network.load_state_dict(counter.network.state_dict())
    step = 1e-3
    for v in range(12):
        up, down = (np.array(dnf.prob) for _ in range(2))
        up[v], down[v] = up[v] + step, down[v] - step
        ends = [double.predict(dnf.with_prob(np.clip(p, 0, 1)), factor=False).prob for p in (up, down)]
        assert slope[v] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=0.02, abs=1e-5)


def test_counts_and_weights_come_with_the_estimate(counter: NeuralCounter) -> None:
    dnf = DNF(np.array([0, 2, 4]), np.array([0, 2, 2, 4]), np.full(3, 0.25), log_scale=2.0)
    estimate = counter.predict(dnf)
    assert estimate.log_wmc == pytest.approx(estimate.log_prob + 2.0)
    assert estimate.count == pytest.approx(8.0 * estimate.prob)
    with pytest.raises(ValueError, match="delta must lie"):
        counter.predict(dnf, delta=2.0)


def test_trivial_formulas_need_no_network(counter: NeuralCounter) -> None:
    assert counter.predict(DNF.from_clauses([])).prob == 0.0
    assert counter.predict(DNF.from_clauses([[], [1]])).prob == 1.0
    assert not counter.gradient(DNF.from_clauses([[], [1]])).any()
    assert [e.prob for e in counter.trace(DNF.from_clauses([], num_vars=2))] == [0.0] * 4
    assert 0.0 <= counter.predict(DNF.from_clauses([[1]], prob=[0.0])).prob <= 1.0


def test_round_trip(counter: NeuralCounter, tmp_path: Path) -> None:
    counter.save_pretrained(tmp_path / "net")
    back = NeuralCounter.from_pretrained(tmp_path / "net")
    assert sorted(p.name for p in (tmp_path / "net").iterdir()) == ["config.json", "model.safetensors"]
    assert back.card == {"seed": 1}
    first, again = counter.predict(formula()), back.predict(formula())
    assert (first.log_prob, first.log_lower, first.log_upper) == (again.log_prob, again.log_lower, again.log_upper)


@pytest.mark.parametrize(
    "damage", ["truncated", "tampered", "shape", "config", "list", "residuals", "missing", "pickle"]
)
def test_damaged_files_are_clear_errors(counter: NeuralCounter, tmp_path: Path, damage: str) -> None:
    counter.save_pretrained(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    table = json.loads(config.read_text())
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "tampered":
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(data)
    elif damage == "shape":
        config.write_text(json.dumps(table | {"network": {"k": 32, "iterations": 4}}))
    elif damage == "config":
        config.write_text("{")
    elif damage == "list":
        config.write_text("[1]")
    elif damage == "residuals":
        config.write_text(json.dumps(table | {"residuals": {"levels": [1]}}))
    elif damage == "missing":
        weights.unlink()
    else:
        table.pop("sha256")
        config.write_text(json.dumps(table))
        torch.save({"x": torch.zeros(1)}, weights)
    with pytest.raises(CheckpointError, match=str(tmp_path) if damage != "residuals" else "residuals"):
        NeuralCounter.from_pretrained(tmp_path)


def test_unknown_network_names_what_is_shipped() -> None:
    with pytest.raises(CheckpointError, match="no network 'nosuch'"):
        NeuralCounter.from_pretrained("nosuch")


EXAMPLES = Path(__file__).parent.parent / "examples"


def test_an_interval_is_shown_for_the_training_family_only(counter: NeuralCounter, tmp_path: Path) -> None:
    counter.save_pretrained(tmp_path)
    network = formats.read(str(EXAMPLES / "network.dnf"))
    bare = counter.predict(network)
    assert (bare.log_lower, bare.log_upper) == (-math.inf, 0.0)
    for estimate in (bare, run_engine(network, weights=str(tmp_path))):
        assert "unlike those the network was trained on" in estimate.info["interval"]
        assert "6 to 14 literals" in estimate.info["interval"]
    shown = run_engine(network, weights=str(tmp_path))
    assert (shown.log_lower, shown.log_upper) == (shown.log_certified_lower, shown.log_certified_upper)
    assert shown.lower <= 0.678 <= shown.upper
    family = counter.predict(formula(200, 5))
    assert "not a guarantee" in family.info["interval"] and -math.inf < family.log_lower


def test_the_network_computes_with_one_thread_and_leaves_the_users_alone(counter: NeuralCounter) -> None:
    seen = []
    torch.set_num_threads(3)
    try:
        counter.predict(formula(), after_block=lambda: seen.append(torch.get_num_threads()))
        counter.trace(formula())
        counter.gradient(formula())
        with pytest.raises(LimitError):
            counter.predict(formula(), after_block=lambda: check_memory(2, 1))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert set(seen[1:]) == {1}


FORKED = """
import os, signal, sys
import numpy as np
import torch
from sharpdnf import count
from sharpdnf.generate import PaperSpec, paper
torch.set_num_threads(2)
(torch.rand(500, 500) @ torch.rand(500, 500)).sum()  # the program has threads of its own
formulas = [paper(PaperSpec(2000, 1500, 5), np.random.default_rng(seed)) for seed in range(2)]
if "loaded" in sys.argv:
    count(formulas[1], engine="neural", weights=sys.argv[1])
child = os.fork()
if child == 0:
    signal.alarm(60)
    estimate = count(formulas[0], engine="neural", weights=sys.argv[1])
    late = count(formulas[0], engine="neural", weights=sys.argv[1], timeout=0.0)
    os._exit(0 if estimate.met and not late.met else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("when", ["loaded", "fresh"])
def test_the_network_works_in_a_forked_child(counter: NeuralCounter, tmp_path: Path, when: str) -> None:
    """A pool of threads does not survive a fork: a child that asks for it waits forever."""
    torch.manual_seed(0)
    NeuralCounter(Network(NetworkConfig(k=128, iterations=2))).save_pretrained(tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", FORKED, str(tmp_path), when]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "0\n", (done.stdout, done.stderr)


@pytest.mark.parametrize("name", sorted(shipped()) or [pytest.param("none", marks=pytest.mark.skip("none shipped"))])
def test_shipped_networks_load_and_count(name: str) -> None:
    counter = NeuralCounter.from_pretrained(name)
    dnf = DNF.from_clauses([[1, 2], [-1, 3]], prob=[0.5, 0.4, 0.7])
    assert counter.predict(dnf).prob == pytest.approx(0.55, abs=0.3)


def test_a_formula_of_one_clause_leaves_the_weights_alone(counter: NeuralCounter) -> None:
    before, dnf = counter.digest, DNF.from_clauses([[1, -2]])
    answers = [counter.predict(dnf, factor=False), counter.trace(dnf)[-1], counter.predict(dnf, factor=False)]
    assert len({answer.log_prob for answer in answers}) == 1
    assert counter.digest == before


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="device 'nowhere' cannot be used"):
        NeuralCounter.from_pretrained(device="nowhere")


def test_the_shipped_network_counts_formulas_of_a_second_implementation():
    formulas = []
    for variant in ("text", "code"):
        for seed, (width, m) in enumerate(settings(100)):
            formulas.append(appendix.draw(100, m, width, variant, np.random.default_rng(seed)))
    truth = np.exp(count_many(formulas, epsilon=0.01, delta=1e-6, rng=0)["log_prob"])
    error = np.abs(np.array([e.prob for e in NeuralCounter.from_pretrained().predict_many(formulas)]) - truth)
    assert (error < 0.05).mean() >= 0.95
