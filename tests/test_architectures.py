"""Another architecture is registered as an engine is: it trains, saves, loads and counts like the paper's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sharpdnf import DNF, count  # noqa: E402
from sharpdnf.engines.sampling import label  # noqa: E402
from sharpdnf.errors import ConfigError  # noqa: E402
from sharpdnf.learn.architectures import Architecture, architecture, make_network  # noqa: E402
from sharpdnf.learn.config import Config, DataConfig, LossConfig, MixConfig, NetworkConfig, RunConfig  # noqa: E402
from sharpdnf.learn.counter import NeuralCounter  # noqa: E402
from sharpdnf.learn.model import Network  # noqa: E402
from sharpdnf.learn.train import train  # noqa: E402


def example() -> str:
    """The example of an architecture that stands in ARCHITECTURE.md."""
    text = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text()
    found = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "@architecture(" in block]
    assert len(found) == 1
    return found[0]


def tiny(steps: int, dense: float) -> Config:
    mix = MixConfig(kind="spread", num_vars=(10, 20), widths=(2, 3), mass=(0.1, 2.0), max_clauses=40, epsilon=0.05)
    return Config(
        network=NetworkConfig(k=8, iterations=3, architecture="products"),
        loss=LossConfig(kind="cauchy", dense=dense),
        run=RunConfig(steps=steps, seed=3, validate_steps=steps),
        data=DataConfig(mix=(mix,), batch_nodes=200, validation=4, validation_vars=(50,)),
    )


@pytest.mark.parametrize("dense", [0.0, 1.0])
def test_the_example_trains_saves_and_counts(tmp_path: Path, dense: float) -> None:
    exec(example(), {})
    trained = train(tiny(4, dense), tmp_path / "run", label)
    assert type(trained).__name__ == "Products"
    untrained = make_network(trained.config)
    assert any(not torch.equal(a, b) for a, b in zip(trained.parameters(), untrained.parameters(), strict=True))
    NeuralCounter(trained).save_pretrained(tmp_path / "net")
    again = NeuralCounter.from_pretrained(tmp_path / "net")
    rng = np.random.default_rng(5)
    clauses = [list((rng.choice(60, 3, replace=False) + 1) * rng.choice([-1, 1], 3)) for _ in range(90)]
    dnf = DNF.from_clauses(clauses, rng.uniform(0.2, 0.8, 60))
    found = count(dnf, engine="neural", weights=str(tmp_path / "net"))
    assert found.guarantee == "none" and 0.0 <= found.prob <= 1.0
    assert again.predict(dnf).log_prob == pytest.approx(NeuralCounter(trained).predict(dnf).log_prob)
    assert len(again.trace(dnf)) == 3
    assert np.isfinite(again.gradient(dnf)).all()


def test_the_default_is_the_papers() -> None:
    assert type(make_network(NetworkConfig(k=8, iterations=1))) is Network


def test_names_that_nobody_registered_are_refused() -> None:
    with pytest.raises(ConfigError, match="no architecture 'papre': did you mean 'paper'"):
        make_network(NetworkConfig(architecture="papre"))
    with pytest.raises(TypeError, match="must inherit from Architecture"):
        architecture("no")(torch.nn.Linear)  # type: ignore[type-var]
    assert issubclass(Network, Architecture)
