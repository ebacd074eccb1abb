"""Thresholds and top-k: what is surely in or out is not refined, ties are flagged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracle import enumerate_prob

import sharpdnf
from sharpdnf.dnf import DNF, Batch
from sharpdnf.engines.sampling import successes_needed
from sharpdnf.generate import generate
from sharpdnf.sql import topk
from sharpdnf.sql.counting import Counts, Options
from sharpdnf.sql.outermost import Cut


class FakeCounter:
    """Counts with intervals of relative width epsilon around known values, and remembers what it was asked."""

    def __init__(self, truth: list[float]) -> None:
        self.truth, self.asked = np.array(truth), []

    def __call__(self, batch: Batch, options: Options) -> Counts:
        index = np.array([int(batch[i].literals[0]) >> 1 for i in range(len(batch))])
        self.asked.append((options.epsilon, options.delta, index.tolist()))
        p = self.truth[index]
        words = np.full(len(p), "relative", dtype=object)
        return Counts(p, p / (1 + options.epsilon), np.minimum(1, p / (1 - options.epsilon)), words, words,
                      np.ones(len(p), dtype=bool))  # fmt: skip


def decide(
    monkeypatch: pytest.MonkeyPatch, truth: list[float], counter: type[FakeCounter] = FakeCounter, **question: Any
) -> tuple[FakeCounter, Any, Any]:
    fake = counter(truth)
    monkeypatch.setattr(topk, "count_batch", fake)
    monkeypatch.setattr(topk, "free_bounds", lambda batch: (np.zeros(len(batch)), np.ones(len(batch))))
    dnf = sharpdnf.DNF.from_clauses([[i + 1] for i in range(len(truth))], truth)
    batch = Batch(dnf, np.arange(len(truth) + 1))
    defaults: dict[str, Any] = {"cuts": (), "limit": None, "descending": True, "options": Options()}
    counts, kept = topk.decide(batch, **{**defaults, **question})
    return fake, counts, kept


class GammaCounter(FakeCounter):
    """The error law of the sampler for unlikely answers: (k - 1) / Gamma(k) times the truth."""

    def __call__(self, batch: Batch, options: Options) -> Counts:
        counts = super().__call__(batch, options)
        k = successes_needed(options.epsilon, options.delta)
        counts.prob *= (k - 1) / np.random.default_rng(options.rng).gamma(k, size=len(counts.prob))
        counts.lower, counts.upper = counts.prob / (1 + options.epsilon), counts.prob / (1 - options.epsilon)
        return counts


def test_threshold_and_top(db: sharpdnf.ProbDB) -> None:
    assert db.sql("SELECT src, dst FROM edge HAVING prob() > 0.5").df()["src"].tolist() == [3]
    assert len(db.sql("SELECT src, dst FROM edge HAVING prob() >= 0.5 AND prob() < 0.6")) == 3
    assert len(db.sql("SELECT src, dst FROM edge HAVING prob() BETWEEN 0.5 AND 1")) == 4
    best = db.sql("SELECT src, dst FROM edge ORDER BY prob() DESC LIMIT 1").df()
    assert best["src"].tolist() == [3] and not best["near_cut"].any()
    tied = db.sql("SELECT src, dst FROM edge ORDER BY prob() DESC LIMIT 2").df()
    assert tied["near_cut"].tolist() == [False, True]
    assert len(db.sql("SELECT src FROM edge ORDER BY prob() DESC LIMIT 0")) == 0
    assert db.sql("SELECT src, dst FROM edge ORDER BY dst DESC, src").df()["dst"].tolist() == [4, 3, 3, 2]


def test_what_is_decided_is_not_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = [0.01, 0.45, 0.5, 0.52, 0.9]
    fake, counts, kept = decide(monkeypatch, truth, cuts=(Cut(">", 0.5),))
    assert [epsilon for epsilon, _, _ in fake.asked] == [0.5, 0.25, 0.125, 0.0625, 0.1 / 2.1]
    assert 0 not in fake.asked[1][2] and 4 not in fake.asked[2][2] and 1 in fake.asked[1][2]
    assert sum(len(index) * delta for _, delta, index in fake.asked) <= 0.05
    assert kept.tolist() == [3, 4]
    assert counts.near_cut.tolist() == [False, False, True, True, False]
    last = [min(epsilon for epsilon, _, index in fake.asked if i in index) for i in range(5)]
    assert counts.guarantee.tolist() == ["relative" if epsilon <= 0.1 else "interval" for epsilon in last]
    assert "interval" in counts.guarantee and "relative" in counts.guarantee


def test_top_k_stops_early_and_flags_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, counts, kept = decide(monkeypatch, [0.9, 0.1, 0.11, 0.01, 0.8], limit=2)
    assert kept.tolist() == [0, 4] and not counts.near_cut.any()
    assert len(fake.asked) <= 2
    _, counts, kept = decide(monkeypatch, [0.5, 0.5, 0.5, 0.001], limit=2)
    assert len(kept) == 2 and counts.near_cut.tolist() == [True, True, True, False]
    _, _, kept = decide(monkeypatch, [0.9, 0.1, 0.2], limit=1, descending=False)
    assert kept.tolist() == [1]


def test_a_wrong_member_is_near_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty answers 12 % above fifty others: over seeds, with epsilon = 0.1, the best fifty are the right ones."""
    truth = [0.5] * 50 + [0.56] * 50
    wrong = 0
    for seed in range(100):
        _, _, kept = decide(monkeypatch, truth, GammaCounter, limit=50, options=Options(rng=seed))
        wrong += kept.min() < 50
    assert wrong <= 12  # 5 expected at the most; more than 12 with probability 0.0005


def test_what_time_leaves_open_is_kept_and_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Options(deadline=0.0)
    _, counts, kept = decide(monkeypatch, [0.01, 0.45, 0.9], cuts=(Cut(">", 0.5),), options=past)
    assert kept.tolist() == [1, 2] and counts.near_cut.tolist() == [False, True, False]
    assert counts.met.tolist() == [True, False, True]
    _, counts, kept = decide(monkeypatch, [0.5, 0.5, 0.6, 0.01], limit=2, options=past)
    assert len(kept) == 2 and not counts.met[kept].any()


def test_what_bounds_leave_open_is_kept() -> None:
    """The middle of certified bounds is no reason to drop an answer."""
    found = sharpdnf.connect()
    rng = np.random.default_rng(0)
    pairs = {"a": rng.integers(0, 12, 60), "b": rng.integers(0, 12, 60), "p": rng.uniform(0.2, 0.6, 60)}
    found.register("r", pa.table(pairs), prob="p")
    sql = "SELECT x.b FROM r x, r y, r z WHERE x.a = y.b AND y.a = z.b"
    plain = found.sql(sql, engine="bounds")
    at = float(np.median(plain.counts.upper))
    cut = found.sql(f"{sql} HAVING prob() > {at}", engine="bounds")
    assert 0 < len(cut) == (plain.counts.upper > at).sum() and cut.met
    assert (cut.counts.near_cut == (cut.counts.lower <= at)).all() and cut.counts.near_cut.any()


@pytest.mark.parametrize(("operator", "kept"), [(">", []), (">=", [1, 2]), ("<", []), ("<=", [1, 2])])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.7, 0.5, 1.0])
def test_a_threshold_at_an_exact_tie(operator: str, kept: list[int], p: float) -> None:
    """The answers went through logarithms; a tie is still a tie, also of a block that fills up to p."""
    found = sharpdnf.connect()
    found.register("t", pa.table({"a": [1], "p": [p]}), prob="p")
    found.register("b", pa.table({"a": [2] * 7, "x": list(range(7)), "p": [p / 7] * 7}), prob="p", block="a")
    answers = found.sql(f"SELECT a FROM (SELECT a FROM t UNION SELECT a FROM b) d HAVING prob() {operator} {p}")
    assert answers.df()["a"].tolist() == kept


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("negated", [False, True])
def test_bounds_that_cost_nothing_hold(seed: int, negated: bool) -> None:
    dnf = generate("uniform", seed, num_vars=8, num_clauses=40, width=2)
    literals = dnf.literals if negated else dnf.literals & ~1
    prob = np.random.default_rng(seed).choice([0.0, 0.2, 0.5, 1.0], size=8, p=[0.1, 0.4, 0.4, 0.1])
    batch = Batch(DNF(dnf.indptr, literals, prob), np.array([0, 1, 3, 8, 15, 40]))
    lower, upper = topk.free_bounds(batch)
    for i in range(len(batch)):
        assert lower[i] <= enumerate_prob(batch[i]) <= upper[i] + 1e-12
    assert lower[0] == pytest.approx(upper[0])  # of one clause


def test_only_what_may_be_best_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten good answers among 20,000 poor ones: the poor ones are out by their bounds."""
    rng = np.random.default_rng(1)
    prob = np.concatenate([rng.uniform(0.001, 0.1, 40_000), rng.uniform(0.6, 0.9, 20)])
    order = rng.permutation(len(prob) // 2)
    clauses = np.arange(len(prob)).reshape(-1, 2)[order].reshape(-1)
    batch = Batch(DNF(np.arange(len(prob) + 1), (2 * clauses).astype(np.int32), prob), np.arange(0, len(prob) + 1, 2))
    counted: list[int] = []
    whole = topk.count_batch

    def count(some: Batch, options: Options) -> Counts:
        counted.append(len(some))
        return whole(some, options)

    monkeypatch.setattr(topk, "count_batch", count)
    for cuts, limit in (((), 10), ((Cut(">", 0.5),), None)):
        counted.clear()
        counts, kept = topk.decide(batch, cuts, limit, descending=True, options=Options(rng=1))
        truth = 1.0 - np.prod(1.0 - prob[clauses].reshape(-1, 2), axis=1)
        assert sorted(kept.tolist()) == sorted(np.argsort(-truth)[:10].tolist())
        assert counts.prob[kept] == pytest.approx(truth[kept])
        assert sum(counted) <= 2_000 and counts.met.all()
    counted.clear()
    counts, kept = topk.decide(batch, (), 5, descending=False, options=Options(rng=1))
    assert sorted(kept.tolist()) == sorted(np.argsort(truth)[:5].tolist())


def test_an_answer_is_told_the_same_whatever_others_are_in_its_batch() -> None:
    """As on Spark, where each partition decides about its own answers: first those that bounds leave out, then those
    that they do not, some of them over exclusive rows."""
    rng = np.random.default_rng(5)
    formulas = []
    for number in range(24):
        likely = 0.02 if number < 8 else 0.5
        clauses = [[int(v) + 1 for v in rng.choice(30, 3, replace=False)] for _ in range(25)]
        if number >= 8 and number % 3 == 0:
            clauses[0][0] *= -1
        formulas.append(DNF.from_clauses(clauses, prob=np.full(30, likely), num_vars=30))
    formulas[5] = formulas[20]
    cuts = (Cut(">", 0.3),)
    asked = Options(engine="sampling", epsilon=0.2, rng=3)

    def told(numbers: np.ndarray) -> dict[int, tuple[float, ...]]:
        batch = Batch.of([formulas[i] for i in numbers])
        counts, kept = topk.decide(
            batch, cuts, None, descending=True, options=asked.replace(numbers=numbers), among=len(formulas)
        )
        return {int(numbers[i]): (counts.prob[i], counts.lower[i], counts.upper[i]) for i in kept}

    whole = told(np.arange(24))
    parts = [told(part) for part in np.split(np.arange(24), [7, 8, 13])]
    assert len(whole) > 10 and {number: row for part in parts for number, row in part.items()} == whole
