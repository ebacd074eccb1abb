"""Agreement with tools that share no code with us: PySDD and pyganak, on a few hundred formulas."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest
from oracle import random_dnf

from sharpdnf import DNF
from sharpdnf.engines.dtree import compile as compile_dnf
from sharpdnf.engines.dtree import dtree
from sharpdnf.estimate import Limit


def formulas(count: int, seed: int) -> list[DNF]:
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        n = int(rng.integers(5, 26))
        out.append(random_dnf(rng, n, int(rng.integers(1, 30)), (1, min(n, 6)), unate=bool(rng.integers(2))))
    return out


def exact(dnf: DNF) -> float:
    limit = Limit(deadline=time.monotonic() + 30)
    estimate = dtree(dnf, guarantee="exact", epsilon=0.1, delta=0.1, rng=np.random.default_rng(0), limit=limit)
    assert estimate.guarantee == "exact"
    return estimate.prob


def test_pysdd_agrees() -> None:
    sdd = pytest.importorskip("pysdd.sdd")
    for dnf in formulas(150, seed=11):
        manager = sdd.SddManager(var_count=dnf.num_vars)
        node = manager.false()
        for clause in dnf.clauses():
            term = manager.true()
            for literal in clause:
                term = term & manager.literal(literal)
            node = node | term
        counter = node.wmc(log_mode=False)
        for v in range(1, dnf.num_vars + 1):
            counter.set_literal_weight(v, float(dnf.prob[v - 1]))
            counter.set_literal_weight(-v, 1.0 - float(dnf.prob[v - 1]))
        assert exact(dnf) == pytest.approx(counter.propagate(), rel=1e-9)


GANAK = """
import json, sys, pyganak
for line in sys.stdin:
    job = json.loads(line)
    plain, weighted = pyganak.Counter(), pyganak.WeightedCounter()
    for counter in (plain, weighted):
        counter.new_vars(len(job["prob"]))
        counter.add_clauses([[-x for x in clause] for clause in job["clauses"]])
    for v, p in enumerate(job["prob"], 1):
        weighted.set_lit_weight(v, p)
        weighted.set_lit_weight(-v, 1 - p)
    print("answer", plain.count(), weighted.count())
"""


def test_pyganak_agrees() -> None:
    pytest.importorskip("pyganak")
    batch = formulas(150, seed=12)
    jobs = "".join(json.dumps({"clauses": d.clauses(), "prob": d.prob.tolist()}) + "\n" for d in batch)
    done = subprocess.run([sys.executable, "-c", GANAK], input=jobs, capture_output=True, text=True, check=True)
    answers = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert len(answers) == len(batch)
    for dnf, (models, weight) in zip(batch, answers, strict=True):
        circuit = compile_dnf(dnf)
        assert circuit is not None and circuit.count() == 2**dnf.num_vars - int(models)
        assert exact(dnf) == pytest.approx(1.0 - float(weight), rel=1e-7, abs=1e-12)
        assert math.exp(circuit.evaluate(dnf.prob)[0]) == pytest.approx(exact(dnf), rel=1e-9)
