"""Streams of random numbers: no two of the package coincide, and each can be made again."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import sharpdnf
from sharpdnf.learn.config import DataConfig, DatasetConfig, MixConfig
from sharpdnf.learn.stream import draw_batch, validation_slice
from sharpdnf.paper import sets
from sharpdnf.paper.build import label_formula
from sharpdnf.paper.labels import Labels
from sharpdnf.streams import Stream, random_stream

SEEDS = (0, 1, 2**32, 2**32 + 1, 2**63 - 1, 2**64, 2**128 - 1)
PLACES = [place for length in range(4) for place in itertools.product((0, 1, 2**32 - 1), repeat=length)]


def start(rng: np.random.Generator) -> tuple[int, int]:
    """The state that decides all draws of a fresh generator."""
    state = rng.bit_generator.state["state"]
    return state["state"], state["inc"]


def num_coinciding(make: Callable[..., np.random.Generator]) -> int:
    streams = [(seed, tag, *place) for seed in SEEDS for tag in Stream for place in PLACES]
    return len(streams) - len({start(make(*stream)) for stream in streams})


def test_no_two_streams_coincide() -> None:
    assert num_coinciding(random_stream) == 0


def test_lists_as_seeds_do_coincide() -> None:
    """What the package did before: the law above finds it out."""
    assert num_coinciding(lambda *numbers: np.random.default_rng(list(map(int, numbers)))) > 0


def test_tags_are_never_the_same() -> None:
    assert len({int(tag) for tag in Stream}) == len(Stream.__members__)


@pytest.mark.parametrize(("seed", "place"), [(-1, ()), (2**128, ()), (0, (2**32,)), (0, (-1,))])
def test_numbers_that_would_run_into_each_other_are_refused(seed: int, place: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        random_stream(seed, Stream.TRAIN_MIX, *place)


def one_half(dnf: object, **options: object) -> tuple[float, None]:
    return -0.7, None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """The first states of all generators that the test makes, through whatever door of numpy."""
    states: list[tuple[int, int]] = []
    make = np.random.default_rng

    def record(seed: object = None) -> np.random.Generator:
        rng = make(seed)  # type: ignore[call-overload]
        states.append(start(rng))
        return rng

    monkeypatch.setattr(np.random, "default_rng", record)
    yield states


def test_what_the_package_draws_comes_from_streams_of_its_own(started: list[tuple[int, int]], tmp_path: Path) -> None:
    """A little training, validation, dataset and evaluation under one seed: as many streams as generators."""
    data = DataConfig(mix=(MixConfig(num_vars=(50, 60)),), batch_nodes=500, validation=5)
    for step, number in itertools.product(range(4), range(3)):
        assert draw_batch(data, one_half, 0, step, number, steps=4, marginals=False)
    validation_slice(data, one_half, 0)
    for split, index in itertools.product(("train", "structure", "uniform"), range(4)):
        label_formula(DatasetConfig(seed=0), split, index, one_half)
    labels = Labels(tmp_path / "labels.csv", one_half, epsilon=0.1, delta=0.1)
    for index, shift in itertools.product(range(3), range(4)):
        what = sets.SetMember("fully-privileged", index, shift, 50, 38, 3, "privileged")
        labels.get(what, sets.draw(sets.member("fully-privileged", 10 * index + shift, 0)))
    assert len(started) > 80
    assert len(set(started)) == len(started)


def test_nothing_in_the_package_seeds_with_a_list() -> None:
    for path in Path(sharpdnf.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ("default_rng", "SeedSequence"):
                assert not any(isinstance(argument, ast.List) for argument in node.args), path
