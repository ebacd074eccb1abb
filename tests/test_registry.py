"""Engines are found by name, and asked only for what they can do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sharpdnf import DNF, count
from sharpdnf.errors import UnknownEngine
from sharpdnf.generate import PaperSpec, paper


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
