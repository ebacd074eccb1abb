"""The answers of a query as a layer: what it computes is what the query says, and rows learn from answers."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import sharpdnf
from sharpdnf.errors import SQLError

EXAMPLES = Path(__file__).parent.parent / "examples"


def database(probs: np.ndarray | None = None) -> sharpdnf.ProbDB:
    """Edges that are independent and cities of which one a person lives in, with these probabilities or others."""
    probs = np.array([0.5, 0.25, 0.8, 0.3, 0.2, 0.3, 0.4, 0.35, 0.25]) if probs is None else probs
    db = sharpdnf.connect()
    db.register("edge", pa.table({"a": [1, 2, 1, 3], "b": [2, 3, 3, 4], "p": probs[:4]}), prob="p")
    lives = {"person": [1, 1, 1, 2, 2], "city": [1, 2, 3, 1, 4], "q": probs[4:]}
    db.register("lives", pa.table(lives), prob="q", block="person")
    db.register("sure", pa.table({"x": [1, 2]}))
    return db


QUERIES = [
    "SELECT x.a, y.b FROM edge x JOIN edge y ON x.b = y.a",
    "SELECT DISTINCT city FROM lives",
    "SELECT DISTINCT person FROM lives WHERE city > 1",
    "SELECT DISTINCT l.person, e.b FROM lives l JOIN edge e ON e.a = l.city",
    "SELECT 1 FROM lives l JOIN lives m ON l.city = m.city WHERE l.person < m.person",
    "SELECT x FROM sure WHERE x NOT IN (SELECT a FROM edge WHERE b = 3)",
    "SELECT x FROM sure",
    "SELECT x FROM sure UNION SELECT a FROM edge",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_layer_computes_what_the_query_says(query: str) -> None:
    answers = database().sql(query, guarantee="exact")
    layer = answers.module()
    assert layer().exp().tolist() == pytest.approx(answers.prob.tolist(), abs=1e-12)
    other = np.array([0.1, 0.9, 0.6, 0.7, 0.3, 0.2, 0.4, 0.8, 0.1])
    rows = {f"edge(a={a}, b={b})": p for a, b, p in zip([1, 2, 1, 3], [2, 3, 3, 4], other[:4], strict=True)}
    rows |= {
        f"lives(person={w}, city={c})": p for w, c, p in zip([1, 1, 1, 2, 2], [1, 2, 3, 1, 4], other[4:], strict=True)
    }
    batch = torch.tensor([[rows[name] for name in layer.rows]] * 2, dtype=torch.float32)
    expected = database(other).sql(query, guarantee="exact").prob
    assert layer(batch).exp()[1].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert layer(batch).dtype == torch.float32


def test_no_answers_are_nothing_to_learn() -> None:
    with pytest.raises(SQLError, match="no answers"):
        database().sql("SELECT a FROM edge WHERE a > 7").module()


@pytest.mark.parametrize("query", QUERIES[:5])
def test_gradcheck(query: str) -> None:
    layer = database().sql(query).module()
    probs = layer.prob.clone() * 0.9
    assert torch.autograd.gradcheck(layer, (probs.requires_grad_(),))


def test_a_block_with_a_certain_row_or_too_much() -> None:
    layer = database().sql("SELECT DISTINCT city FROM lives ORDER BY city").module()
    place = {name: i for i, name in enumerate(layer.rows)}
    probs = torch.zeros(len(layer.rows), dtype=torch.float64)
    probs[place["lives(person=1, city=2)"]] = 1.0
    probs[place["lives(person=2, city=4)"]] = 0.5
    probs.requires_grad_()
    found = layer(probs).exp()
    assert found.tolist() == pytest.approx([0.0, 1.0, 0.0, 0.5])
    found.sum().backward()
    assert probs.grad is not None and bool(torch.isfinite(probs.grad).all())
    with pytest.raises(ValueError, match="more than 1"):
        layer(torch.full((len(layer.rows),), 0.6))
    with pytest.raises(ValueError, match="shape"):
        layer(torch.rand(2))


def test_what_has_no_lineage_over_rows_is_refused() -> None:
    db = database()
    given = db.sql("SELECT DISTINCT a FROM edge", given="SELECT 1 FROM edge WHERE b = 3")
    with pytest.raises(SQLError, match="evidence"):
        given.module()
    absent = db.sql("SELECT x FROM sure WHERE x NOT IN (SELECT city FROM lives)")
    with pytest.raises(SQLError, match="blocks"):
        absent.module()


def test_softmax_of_a_block_stays_finite() -> None:
    """What a network's last layer gives adds up to 1 with float32's rounding, some of it near 0."""
    layer = runpy.run_path(str(EXAMPLES / "digit_sums.py"))["sum_layer"]()
    torch.manual_seed(0)
    logits = (30.0 * torch.randn(200, 2, 10)).requires_grad_()
    probs = logits.softmax(-1)
    found = layer(probs.reshape(200, 20)).exp()
    first, second = probs.detach().double().unbind(1)
    both = first[:, :, None] * second[:, None, :]
    expected = torch.stack([sum(both[:, i, s - i] for i in range(max(0, s - 9), min(9, s) + 1)) for s in range(19)], 1)
    assert torch.allclose(found.double(), expected, atol=2e-6)
    found.clamp_min(1e-6).log().sum().backward()
    assert logits.grad is not None and bool(torch.isfinite(logits.grad).all())


def test_links_are_learned_from_known_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    before, after, told = runpy.run_path(str(EXAMPLES / "learn_links.py"))["main"](people=40, steps=80)
    assert before < 0.8 and after > 0.85 and told > 0.85
    assert "links told apart" in capsys.readouterr().out


def test_digits_are_learned_from_sums(capsys: pytest.CaptureFixture[str]) -> None:
    """A reduced form of the example: a few epochs; the whole is above 98 %."""
    right = runpy.run_path(str(EXAMPLES / "digit_sums.py"))["main"](epochs=5)
    assert right > 0.85
    assert "of the digits right" in capsys.readouterr().out
