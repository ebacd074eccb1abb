"""The CNF counter behind a subprocess: right, refusing what doubles lose, stopping in time."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from oracle import enumerate_count, enumerate_prob, random_dnf

from sharpdnf import DNF, count
from sharpdnf.engines import exact_cnf as module
from sharpdnf.engines.bounds import certified_bounds
from sharpdnf.engines.exact_cnf import exact_cnf
from sharpdnf.errors import MissingExtra
from sharpdnf.estimate import Estimate, Limit


def run(dnf: DNF, seconds: float = math.inf) -> Estimate:
    pytest.importorskip("pyganak")
    limit = Limit(deadline=time.monotonic() + seconds)
    return exact_cnf(dnf, guarantee="exact", epsilon=0.1, delta=0.1, rng=np.random.default_rng(0), limit=limit)


def test_agrees_with_enumeration() -> None:
    rng = np.random.default_rng(0)
    for _ in range(8):
        dnf = random_dnf(rng, 12, 15, (1, 5))
        estimate = run(dnf)
        assert estimate.guarantee == "exact" and estimate.prob == pytest.approx(enumerate_prob(dnf), rel=1e-9)


def test_what_the_counter_does_in_doubles_is_not_certified() -> None:
    """Its arithmetic is its own affair: the interval trusts it, the certified bounds are those of the clauses."""
    dnf = random_dnf(np.random.default_rng(1), 12, 15, (2, 4))
    estimate, truth = run(dnf), math.log(enumerate_prob(dnf))
    assert estimate.guarantee == "exact" and estimate.log_lower < truth < estimate.log_upper
    assert estimate.log_upper - estimate.log_lower < 1e-10
    assert (estimate.log_certified_lower, estimate.log_certified_upper) == certified_bounds(dnf)


def test_plain_counts_are_right_however_small() -> None:
    wide = DNF.from_clauses([list(range(1, 61)), list(range(2, 62))])
    estimate = run(wide)  # 2^-60 + 2^-60 - 2^-61
    assert estimate.guarantee == "exact" and estimate.log_prob == pytest.approx(math.log(1.5 * 2.0**-60), rel=1e-12)


def test_the_integer_is_the_counters_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyganak")
    monkeypatch.setattr("sharpdnf.engines.front._exact_models", lambda *_: None)
    clauses = [[1, 2], [2, 3], [3, 1], [5, -6], [8]]  # parts that simplification would solve, and free variables
    dnf = DNF.from_clauses([[*clause, 9] for clause in clauses], num_vars=90)
    estimate = count(dnf, engine="exact-cnf")
    assert estimate.count == enumerate_count(DNF.from_clauses([[*clause, 9] for clause in clauses])) << 81
    assert count(dnf.with_prob([0.25] * 90), engine="exact-cnf").guarantee == "exact"


def test_refuses_what_doubles_lose() -> None:
    estimate = run(DNF.from_clauses([[1, 2], [2, 3]], [1e-5, 1e-5, 0.01]))
    assert not estimate.met and "below" in estimate.info["stopped"]
    assert estimate.log_lower <= math.log(1e-5 * (1 - (1 - 1e-5) * 0.99)) <= estimate.log_upper


def test_stops_in_time() -> None:
    start = time.perf_counter()
    estimate = run(random_dnf(np.random.default_rng(1), 200, 150, 5), seconds=0.5)
    assert time.perf_counter() - start < 10.0
    assert not estimate.met and estimate.info["stopped"] == "time limit" and estimate.guarantee == "bounds"


def test_disagreeing_seeds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_run", lambda job, limit: [0.5, 0.4])
    estimate = run(DNF.from_clauses([[1, 2], [2, 3]], [0.1, 0.2, 0.3]))
    assert not estimate.met and "disagree" in estimate.info["stopped"]


def test_a_failing_counter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORKER", "raise SystemExit('no memory')")
    estimate = run(DNF.from_clauses([[1, 2]], [0.3, 0.4]))
    assert not estimate.met and "no memory" in estimate.info["stopped"]


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_folder_of_pyganak", lambda: None)
    with pytest.raises(MissingExtra, match=r"sharpdnf\[exact\]"):
        exact_cnf(
            DNF.from_clauses([[1]]),
            guarantee="exact",
            epsilon=0.1,
            delta=0.1,
            rng=np.random.default_rng(0),
            limit=Limit(),
        )


@pytest.mark.parametrize("name", ["pyganak", "json", "array", "multiprocessing"])
def test_nothing_in_the_current_folder_is_run(name: str, tmp_path: Path) -> None:
    """Files there may be anybody's, whether python was started with a script, -c or -m."""
    pytest.importorskip("pyganak")
    (tmp_path / f"{name}.py").write_text("import pathlib; pathlib.Path('run').write_text('')")
    # The current folder is put on the path after the parent has what it needs, which is not ours to choose.
    code = "import sys, json, array, sharpdnf, sharpdnf.engines.exact_cnf; sys.path.insert(0, '')\n"
    code += "print(sharpdnf.count(sharpdnf.DNF.from_clauses([[1, 2]]), engine='exact-cnf').prob)"
    path = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout == "0.25\n", done.stderr
    assert not (tmp_path / "run").exists()
