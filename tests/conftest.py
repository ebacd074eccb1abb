"""Hypothesis without a clock: an example that takes long on a busy machine, or under sanitizers, is not a failure.

And what several modules share: a PostgreSQL server of their own, ears for Ctrl-C, the command
line as a function, a small network and a small dataset.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from command_line import Run

    import sharpdnf
    from sharpdnf.learn.counter import NeuralCounter

settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a private PostgreSQL server listens, one a module."""
    from sql_servers import postgres_directory, private_postgres

    if postgres_directory() is None:
        pytest.skip("no postgres binary: install Debian's postgresql package to run these tests")
    with private_postgres() as found:
        yield found


@pytest.fixture
def db() -> sharpdnf.ProbDB:
    """A database of four uncertain edges."""
    from sql_edges import edge_database

    return edge_database()


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """Background jobs of a shell are started deaf to SIGINT; here it is KeyboardInterrupt again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line as a function: words -> (exit code, standard output, standard error)."""
    from sharpdnf.cli import main

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        caught = capsys.readouterr()
        code = stopped.value.code
        return (code if isinstance(code, int) else 0), caught.out, caught.err

    return call


@pytest.fixture(scope="session")
def hard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a formula that no exact engine finishes soon."""
    return _uniform(tmp_path_factory, "hard", num_vars=400, num_clauses=3000, width=4)


@pytest.fixture(scope="session")
def middling(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a formula whose probability is neither near 0 nor near 1, and that has no small d-tree."""
    return _uniform(tmp_path_factory, "middling", num_vars=200, num_clauses=400, width=7)


def _uniform(folders: pytest.TempPathFactory, name: str, **spec: int) -> str:
    from sharpdnf import formats
    from sharpdnf.generate import generate

    path = folders.mktemp(name) / f"{name}.dnf"
    formats.write(generate("uniform", 1, **spec), path)
    return str(path)


@pytest.fixture(scope="module")
def counter() -> NeuralCounter:
    """A small network that was not trained, with intervals from made-up residuals."""
    torch = pytest.importorskip("torch")
    from networks import held_out

    from sharpdnf.learn.counter import NeuralCounter
    from sharpdnf.learn.model import Network, NetworkConfig
    from sharpdnf.learn.residuals import Hardness
    from sharpdnf.paper.calibrate import fit_residuals

    torch.manual_seed(0)
    rows = held_out()
    residuals = fit_residuals(rows, [Hardness(row.n) for row in rows])
    return NeuralCounter(Network(NetworkConfig(k=16, iterations=4)), residuals, card={"seed": 1})


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a complete dataset of a few formulas; tests copy it before they damage it."""
    pytest.importorskip("pyarrow")
    from small_runs import SMALL

    from sharpdnf.engines.sampling import label
    from sharpdnf.paper.build import build, plan

    directory = tmp_path_factory.mktemp("data") / "small"
    progress = list(build(SMALL, directory, label, workers=1))
    assert progress[-1][1] == progress[-1][2] == sum(len(s.indices) for s in plan(SMALL))
    return directory
