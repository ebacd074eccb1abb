"""``exact-cnf``: 1 - WMC(negation) with pyganak, an exact CNF counter, in a subprocess with a time limit.

The negation of a DNF is a CNF: one clause per clause, every literal flipped. Two cautions. Ganak may identify cached
components by hash only, and pyganak's interface has no switch for that; so the switch is used where it exists, and
otherwise the count is made under two seeds, whose hashes are unrelated, and refused unless both agree. And pyganak
returns a double, so 1 - x loses an answer that is small: below ``SMALLEST`` the engine refuses and says so, except
when all probabilities are 1/2 and the count is an integer of any size.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.dnf import DNF
from sharpdnf.engines.bounds import certified_bounds, log_midpoint
from sharpdnf.engines.registry import engine
from sharpdnf.errors import MissingExtra
from sharpdnf.estimate import UNIT, Estimate, Limit, exact_estimate, log1mexp, safe_log

SMALLEST = 1e-6
DOUBLE_ERROR = 1e-12
"""The error that a weighted count in doubles is taken to have (more for many variables). Two seeds must agree up to it.
"""
SEEDS = (1, 2)
CHUNK = 1 << 12  # how many clauses are written between two looks at the clock
_WORKER = """
import array, json, sys
job = json.loads(sys.stdin.readline())
if job["folder"] not in sys.path:
    sys.path.append(job["folder"])
import pyganak
clauses = [list(map(int, line.split()[:-1])) for line in sys.stdin]
def count(seed):
    kind = pyganak.Counter if job["prob"] is None else pyganak.WeightedCounter
    try:
        counter, certain = kind(seed=seed, prob=0), True
    except TypeError:
        counter, certain = kind(seed=seed), False
    counter.new_vars(job["num_vars"])
    counter.add_clauses(clauses)
    for v, p in enumerate(array.array("d", bytes.fromhex(job["prob"] or "")), 1):
        counter.set_lit_weight(v, p)
        counter.set_lit_weight(-v, 1.0 - p)
    return counter.count(), certain
answers = []
for seed in job["seeds"]:
    answer, certain = count(seed)
    answers.append(hex(answer) if isinstance(answer, int) else answer)
    if certain:
        break
print("\\nanswers " + json.dumps(answers))
"""


@engine(
    "exact-cnf",
    guarantees=("exact",),
    summary="pyganak on the negated CNF, in a subprocess; refuses answers below 1e-6",
    extra="exact",
    counts_models=True,
)
def exact_cnf(
    dnf: DNF, *, guarantee: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit
) -> Estimate:
    """The exact answer, or certified bounds and the reason in ``info["stopped"]``."""
    folder = _folder_of_pyganak()
    if folder is None:
        raise MissingExtra("engine 'exact-cnf'", "exact")
    used = np.flatnonzero(np.bincount(dnf.literals >> 1, minlength=dnf.num_vars))
    uniform = bool(np.all(dnf.prob[used] == 0.5))
    try:
        answers = _run(_job(dnf, used, uniform, folder, limit), limit)
    except subprocess.TimeoutExpired:
        return _refuse(dnf, "time limit", limit)
    if isinstance(answers, str):
        return _refuse(dnf, answers, limit)
    if any(not _agree(answers[0], other) for other in answers[1:]):
        return _refuse(dnf, "two seeds disagree: a hash collision in the counter's cache", limit)
    info: dict[str, Any] = {"seeds": len(answers)}
    if uniform:
        models = (1 << len(used)) - int(answers[0], 16)
        whole = models << (dnf.num_vars - len(used))
        return exact_estimate(_log_ratio(models, len(used)), "exact-cnf", count=whole, info=info)
    prob = 1.0 - answers[0]
    if prob < SMALLEST:
        return _refuse(dnf, f"the answer is below {SMALLEST:g}, where doubles lose it", limit, SMALLEST)
    return _in_doubles(dnf, prob, len(used), limit, info)


def _in_doubles(dnf: DNF, prob: float, num_vars: int, limit: Limit, info: dict[str, Any]) -> Estimate:
    """A weighted answer: its interval trusts the counter's arithmetic, its certified bounds do not.

    A sum of products of non-negative doubles over n variables takes about 4 n roundings one after the other; twice that
    is allowed here. How the counter adds and multiplies is its own affair, so nothing of it is certified.
    """
    error = max(DOUBLE_ERROR, 8.0 * num_vars * UNIT)
    certified_lower, certified_upper = certified_bounds(dnf, seconds=limit.seconds_left)
    log_prob = math.log(min(prob, 1.0))
    return Estimate(
        log_prob=log_prob,
        guarantee="exact",
        engine="exact-cnf",
        log_lower=min(log_prob, max(certified_lower, safe_log(prob - error))),
        log_upper=max(log_prob, min(certified_upper, math.log(min(prob + error, 1.0)))),
        log_certified_lower=certified_lower,
        log_certified_upper=certified_upper,
        info=info,
    )


def _folder_of_pyganak() -> str | None:
    """Where pyganak is installed. The current folder does not count: it may be anybody's, and so may a file in it."""
    here = os.path.realpath(os.curdir)
    path = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    spec = PathFinder.find_spec("pyganak", path)
    return None if spec is None or spec.origin is None else _parent(spec)


def _parent(spec: ModuleSpec) -> str:
    """The folder to put on the path so that the module is found: above the package, or around the single file."""
    assert spec.origin is not None
    folder = os.path.dirname(os.path.abspath(spec.origin))
    return os.path.dirname(folder) if spec.submodule_search_locations else folder


def _job(dnf: DNF, used: npt.NDArray[np.int64], uniform: bool, folder: str, limit: Limit) -> bytes:
    """What the worker reads: a line of JSON, then the clauses of the negated CNF over the variables that occur."""
    prob = None if uniform else dnf.prob[used].tobytes().hex()  # decimal text would take long to write and to read
    head = {"num_vars": len(used), "prob": prob, "seeds": SEEDS, "folder": folder}
    chunks = [json.dumps(head).encode() + b"\n"]
    place = np.zeros(dnf.num_vars, dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    literals = 2 * place[dnf.literals >> 1] + (dnf.literals & 1)
    for first in range(0, dnf.num_clauses, CHUNK):
        if limit.expired:
            raise subprocess.TimeoutExpired(sys.executable, 0.0)
        last = min(first + CHUNK, dnf.num_clauses)
        chunks.append(_native.format_clauses(dnf.indptr, literals, first, last, True))
    return b"".join(chunks)


def _run(job: bytes, limit: Limit) -> list[Any] | str:
    """The worker's answers, or what went wrong."""
    timeout = None if math.isinf(limit.deadline) else max(0.001, limit.deadline - time.monotonic())
    command = [sys.executable, "-I", "-c", _WORKER]  # isolated: nothing from the current folder or the environment
    done = subprocess.run(command, input=job, capture_output=True, timeout=timeout, check=False)
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("answers ")]
    if done.returncode != 0 or not lines:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return f"pyganak failed: {reason[0]}"
    answers: list[Any] = json.loads(lines[-1].removeprefix("answers "))
    return answers


def _agree(a: Any, b: Any) -> bool:
    return bool(a == b) if isinstance(a, str) else math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)


def _log_ratio(models: int, num_vars: int) -> float:
    """log(models / 2^num_vars) for integers of any size."""
    if models == 0:
        return -math.inf
    rest = (1 << num_vars) - models
    if rest < models:
        return log1mexp(_log_ratio(rest, num_vars))
    return math.log(models) - num_vars * math.log(2.0)


def _refuse(dnf: DNF, reason: str, limit: Limit, upper: float = 1.0) -> Estimate:
    log_lower, log_upper = certified_bounds(dnf, seconds=limit.seconds_left)
    log_upper = max(log_lower, min(log_upper, math.log(upper) + 1e-9))
    return Estimate(
        log_prob=log_midpoint(log_lower, log_upper),
        guarantee="bounds",
        engine="exact-cnf",
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        met=False,
        info={"stopped": reason},
    )
