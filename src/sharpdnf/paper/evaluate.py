"""A network against labelled formulas: one row per formula, and the traces of Figure 4."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sharpdnf.dnf import DNF
from sharpdnf.engines.registry import find
from sharpdnf.estimate import Estimate, Limit, log1mexp
from sharpdnf.paper.labels import Labels
from sharpdnf.paper.records import Label, Row, Trace
from sharpdnf.paper.sets import SetMember, draw

Predictor = Callable[[Sequence[DNF]], list[Estimate]]


def log_independent(dnf: DNF) -> float:
    """The logarithm of 1 - prod(1 - p(C)), which would be the probability if the clauses were independent events."""
    log_probs = dnf.clause_log_probs()
    if np.any(log_probs >= 0.0):
        return 0.0
    total = float(np.log1p(-np.exp(log_probs)).sum())
    # Where the sum is below the smallest double, the union has the same digits as the sum of the probabilities.
    return log1mexp(total) if total < 0.0 else float(np.logaddexp.reduce(log_probs, initial=-math.inf))


def run_engine(name: str, dnf: DNF) -> Estimate:
    """The engine's own answer with one thread and a fixed seed, without the simplification that ``count`` does."""
    engine = find(name)
    guarantee, rng, limit = engine.guarantees[0], np.random.default_rng(0), Limit(threads=1)
    return engine.run(dnf, guarantee=guarantee, epsilon=0.1, delta=0.05, rng=rng, limit=limit)


def conditioned(dnf: DNF) -> float:
    """log P(formula) as the ``conditioned`` engine estimates it."""
    return run_engine("conditioned", dnf).log_prob


def sampled(dnf: DNF) -> float:
    """log P(formula) as ``sampling`` estimates it, within 10 % with probability 95 %."""
    return run_engine("sampling", dnf).log_prob


def evaluate(
    model: str,
    weights: str,
    members: Sequence[SetMember],
    labels: Labels,
    *,
    predict: Predictor,
    conditioned: Callable[[DNF], float] = conditioned,
) -> list[Row]:
    """One row per member: the label, the prediction, its interval, sigma and seconds, and the engines beside it."""
    rows: list[Row] = []
    formulas = [draw(member, labels.seed) for member in members]
    start = time.perf_counter()
    estimates = predict(formulas)
    mean_seconds = (time.perf_counter() - start) / max(len(members), 1)
    for member, dnf, estimate in zip(members, formulas, estimates, strict=True):
        label = labels.get(member, dnf)
        rows.append(
            Row(
                model=model,
                weights=weights,
                set=member.set,
                index=member.index,
                shift=member.shift,
                n=member.num_vars,
                m=member.num_clauses,
                w=member.width,
                family=member.family,
                epsilon=label.epsilon,
                log_label=label.log_label,
                log_prediction=estimate.log_prob,
                log_lower=estimate.log_lower,
                log_upper=estimate.log_upper,
                sigma=float(estimate.info.get("sigma", math.nan)),
                seconds=estimate.seconds or mean_seconds,
                log_conditioned=conditioned(dnf),
                log_independent=log_independent(dnf),
                log_sampling=sampled(dnf),
            )
        )
    return rows


def figure_members(members: Sequence[SetMember], labels: Labels, count: int = 21) -> list[tuple[SetMember, DNF, Label]]:
    """The paper's choice for Figure 4: the members whose labels are nearest to (21 - i) / 20 for i = 1..21."""
    pool = [(member, labels.get(member, draw(member, labels.seed))) for member in members]
    chosen = []
    for i in range(count):
        target = (count - 1 - i) / (count - 1)
        member, label = min(pool, key=lambda pair: abs(math.exp(pair[1].log_label) - target))
        pool.remove((member, label))
        chosen.append((member, draw(member, labels.seed), label))
    return chosen


def trace_rows(
    model: str, chosen: Iterable[tuple[SetMember, DNF, Label]], trace: Callable[[DNF], Sequence[Estimate]]
) -> list[Trace]:
    """The estimates after every iteration for the formulas of Figure 4."""
    return [
        Trace(model, formula, label.log_label, iteration, estimate.log_prob)
        for formula, (_, dnf, label) in enumerate(chosen, 1)
        for iteration, estimate in enumerate(trace(dnf), 1)
    ]
