"""Engines are found by name, those of other packages too, and asked only for what they can do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdnf
from sharpdnf import DNF, count, faulttree, network, problog
from sharpdnf.engines import registry
from sharpdnf.errors import UnknownEngine
from sharpdnf.estimate import Limit
from sharpdnf.generate import PaperSpec, generate, paper

ROOT = Path(__file__).resolve().parent.parent
DNF_OF_TWO = DNF.from_clauses([[1, 2], [2, 3]], [0.5, 0.5, 0.5])


@pytest.fixture(autouse=True)
def _no_engine_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.discover()  # an engine that is first imported by a test would be forgotten with it
    monkeypatch.setattr(registry, "_ENGINES", dict(registry._ENGINES))


def test_the_example_of_an_engine_runs_as_it_stands() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (code,) = re.findall(r"```python\n(import numpy.*?)```", text, flags=re.DOTALL)
    exec(code, {"__name__": "example"})
    asked = {"guarantee": "none", "epsilon": 0.1, "delta": 0.05, "rng": np.random.default_rng(0), "limit": Limit()}
    assert registry.find("independent").run(DNF_OF_TWO, **asked).prob == pytest.approx(1 - 0.75**2)
    large = generate("uniform", 1, num_vars=200, num_clauses=150, width=3)
    assert sharpdnf.count(large, engine="independent").engine == "independent"
    low, high = (sharpdnf.count(large, engine="independent", damping=d).prob for d in (0.1, 0.2))
    assert 0.0 < low < high < 1.0
    assert "independent" in registry.discover()
    with pytest.raises(ValueError, match="did you mean 'damping'"):
        sharpdnf.count(DNF_OF_TWO, engine="independent", dampening=1.0)


def test_an_engine_of_another_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_engine.py").write_text(
        "from sharpdnf.engines.registry import engine\n"
        "from sharpdnf.estimate import Estimate\n"
        "@engine('theirs', guarantees=('none',), summary='half')\n"
        "def theirs(dnf, *, guarantee, epsilon, delta, rng, limit):\n"
        "    return Estimate(log_prob=-1.0, guarantee='none', engine='theirs')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = EntryPoints([
        EntryPoint("theirs", "their_engine", registry.ENTRY_POINTS),
        EntryPoint("broken", "no_such_module_at_all", registry.ENTRY_POINTS),
    ])  # fmt: skip

    def entry_points(**asked: Any) -> EntryPoints:
        return found.select(**asked)

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert registry.find("theirs").summary == "half"
    with pytest.warns(UserWarning, match="broken"):
        assert "theirs" in registry.discover()


def test_a_seed_is_called_rng() -> None:
    with pytest.raises(ValueError, match="rng=3 instead of seed=3"):
        sharpdnf.count(DNF_OF_TWO, seed=3)
    with pytest.raises(ValueError, match="rng=3 instead of seed=3"):
        sharpdnf.count(sharpdnf.Circuit.from_dnf(DNF_OF_TWO), seed=3)


LINKS = [("a", "b", 0.5)]
SEEDED: dict[str, Callable[..., object]] = {
    "marginals": partial(sharpdnf.marginals, DNF_OF_TWO),
    "influence": partial(sharpdnf.influence, DNF_OF_TWO),
    "sample_models": partial(sharpdnf.sample_models, DNF_OF_TWO, 1),
    "count_many": partial(sharpdnf.count_many, [DNF_OF_TWO]),
    "count_weights": partial(sharpdnf.count_weights, DNF_OF_TWO, [[0.5, 0.5, 0.5]]),
    "conditional": partial(sharpdnf.conditional, DNF_OF_TWO, DNF_OF_TWO),
    "reliability": partial(network.reliability, LINKS),
    "reached": partial(network.reached, LINKS, "a"),
    "expected_reached": partial(network.expected_reached, LINKS, "a"),
    "probability": faulttree.reads("top := a & b; p(a) = 0.5; p(b) = 0.5;").probability,
    "uncertainty": faulttree.reads("top := a & b; p(a) = 0.5; p(b) = 0.5;").uncertainty,
    "query": partial(problog.query, "0.5::a. query(a)."),
    "learn": partial(problog.learn, "t(0.5)::a.", ["evidence(a)."]),
}


@pytest.mark.parametrize("name", SEEDED)
def test_every_function_that_draws_says_how_a_seed_is_given(name: str) -> None:
    for option in ("seed", "random_state"):
        with pytest.raises(ValueError, match=f"write rng=3 instead of {option}=3"):
            SEEDED[name](**{option: 3})


def test_an_option_that_a_function_does_not_have() -> None:
    with pytest.raises(TypeError, match=r"posterior\(\) has no option 'epsilom': did you mean 'epsilon'"):
        sharpdnf.marginals(DNF_OF_TWO, epsilom=0.1)
    with pytest.raises(TypeError, match=r"importance\(\) has no option 'seed'"):  # it draws nothing
        network.importance(LINKS, "a", "b", seed=3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def large() -> DNF:
    return paper(PaperSpec(2000, 1500, 8), np.random.default_rng(1))


def test_bad_requests_say_what_to_do(large: DNF) -> None:
    for no_name in (None, 3, b"auto"):
        with pytest.raises(UnknownEngine, match="chosen by its name"):
            count(DNF.from_clauses([[1]]), engine=no_name)  # type: ignore[arg-type]
    with pytest.raises(UnknownEngine, match="did you mean 'sampling'"):
        count(large, engine="samplng")
    with pytest.raises(ValueError, match="did you mean 'estimator'"):
        count(large, engine="sampling", estimater="direct")
    with pytest.raises(ValueError, match="cannot give 'exact'"):
        count(large, engine="sampling", guarantee="exact")
    with pytest.raises(ValueError, match="unknown guarantee"):
        count(large, guarantee="perfect")
    for bad in (
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"timeout": -1.0},
        {"threads": 0},
        {"rng": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(bad)) if "rng" not in bad else "seed"):
            count(large, **bad)
    with pytest.raises(TypeError, match="from_clauses"):
        count([[1, 2]])  # type: ignore[arg-type]


def test_known_engines_are_listed_once() -> None:
    with pytest.raises(UnknownEngine) as caught:
        count(DNF.from_clauses([[1]]), engine="atuo")
    assert str(caught.value).count("auto") == 2  # the hint and the list


@pytest.mark.parametrize(
    ("engine", "option", "bad", "good"),
    [
        ("dtree", "nodes", "abc", 5),
        ("dtree", "nodes", 1.5, None),
        ("dtree", "tables", "maybe", False),
        ("conditioned", "variables", True, np.int64(3)),
        ("lbp", "damping", "0.5", 0),
        ("sampling", "estimator", 3, "direct"),
    ],
)
def test_options_of_another_type_are_refused(engine: str, option: str, bad: object, good: object) -> None:
    dnf = DNF.from_clauses([[1, 2], [2, 3], [-1, -3]])
    with pytest.raises(ValueError, match=f"option '{option}' of engine '{engine}' must be"):
        count(dnf, engine=engine, **{option: bad})
    count(dnf, engine=engine, **{option: good})
