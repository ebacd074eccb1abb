"""``exact-cnf`` for circuits: pyganak on the weighted Tseitin CNF, in a process of its own with a time limit.

The cautions of ``exact_cnf`` hold here too: two seeds must agree where the counter's cache works with hashes only. The
probability itself is counted, not that of the negation, so small answers keep their digits down to ``SMALLEST``.
"""

from __future__ import annotations

import json
import math
import subprocess

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.circuit_formats import tseitin
from sharpdnf.engines.exact_cnf import SEEDS, _agree, _folder_of_pyganak, _log_ratio, _run
from sharpdnf.errors import MissingExtra
from sharpdnf.estimate import Estimate, Limit, exact_estimate

SMALLEST = 1e-280
"""Answers below this are refused: the counter's doubles may have lost digits on the way."""


def count_cnf(circuit: Circuit, limit: Limit) -> Estimate:
    """The exact answer. Where there is none, the bounds are 0 and 1 and ``info["stopped"]`` says why."""
    folder = _folder_of_pyganak()
    if folder is None:
        raise MissingExtra("engine 'exact-cnf'", "exact")
    uniform = bool(np.all(circuit.prob == 0.5))
    num_vars, clauses = tseitin(circuit)
    prob = None if uniform else circuit.prob.tobytes().hex()
    head = {"num_vars": num_vars, "prob": prob, "seeds": SEEDS, "folder": folder}
    lines = [json.dumps(head), *(" ".join(map(str, clause)) + " 0" for clause in clauses)]
    try:
        answers = _run(("\n".join(lines) + "\n").encode(), limit)
    except subprocess.TimeoutExpired:
        return _refuse("time limit")
    if isinstance(answers, str):
        return _refuse(answers)
    if any(not _agree(answers[0], other) for other in answers[1:]):
        return _refuse("two seeds disagree: a hash collision in the counter's cache")
    info = {"seeds": len(answers), "clauses": len(clauses)}
    if uniform:
        models = int(answers[0], 16)
        return exact_estimate(_log_ratio(models, circuit.num_vars), "exact-cnf", count=models, info=info)
    value = min(float(answers[0]), 1.0)
    if value < SMALLEST:
        return _refuse(f"the answer is below {SMALLEST:g}, where the counter's doubles lose it")
    log_prob = math.log(value)
    # The counter adds and multiplies doubles; how often is not known, so what it says is taken for right to 1e-9.
    return exact_estimate(
        log_prob, "exact-cnf", log_lower=log_prob - 1e-9, log_upper=min(0.0, log_prob + 1e-9), info=info
    )


def _refuse(reason: str) -> Estimate:
    return Estimate(
        log_prob=-math.log(2.0), guarantee="bounds", engine="exact-cnf", met=False, info={"stopped": reason}
    )
