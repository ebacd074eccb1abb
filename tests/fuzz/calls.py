"""Public functions with arguments that nobody should pass: a clear error, or an answer that is one."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from oracle import enumerate_prob

import sharpdnf
from sharpdnf import DNF, Batch, Estimate, NotMetWarning, SharpDNFError

# Python expressions, so that a finding is a line of JSON that can be read.
ODD = [
    "None", "True", "'x'", "''", "b'x'", "0", "1", "-1", "2", "2**31", "2**63", "2**64", "10**30", "-0.0", "0.5", "1.0",
    "2.5", "1e-300", "1e300", "float('nan')", "float('inf')", "-float('inf')", "[]", "{}", "()", "[[]]", "[[1]]",
    "[[0]]", "[[-1, 1]]", "[[1], [2, 3]]", "[[1.0]]", "[['a']]", "[[True]]", "[None]", "object()", "len",
    "np.int32(3)", "np.float32(0.25)", "np.bool_(True)", "np.array(0.5)", "np.array([0.5])", "np.array([0, 1])",
    "np.array([[1, 2], [3, 4]])", "np.array(['a'])", "np.array([None])", "np.array([0.5, np.nan])",
    "np.ma.array([0.5, 0.5], mask=[0, 1])", "np.array([0.2, 0.7, 0.5], dtype='>f8')", "np.zeros((0, 3))",
    "np.full(3, 0.5)[::-1]", "np.arange(9)[::3]", "np.random.default_rng(1)", "formula", "batch", "{1: 0.5}",
    "{1: True}", "{'a': 0.5}", "'a & ~b | c'", "'p dnf 2 1\\n1 2 0\\n'", "'exact'", "'sampling'", "'relative'",
    "'complement'", "iter([formula])", "[formula, formula]", "(x for x in [[1, 2]])", "range(3)",
]  # fmt: skip
ARGUMENTS = {
    "DNF.from_clauses": ["clauses", "prob", "num_vars"],
    "DNF.parse": ["text", "prob"],
    "DNF": ["indptr", "literals", "prob", "log_scale", "names"],
    "Batch": ["formula", "formula_indptr"],
    "reads": ["text", "dialect"],
    "writes": ["dnf", "dialect"],
    "count": ["dnf", "guarantee", "epsilon", "delta", "rng", "timeout", "threads", "engine", "of"],
    "count_many": ["batch", "guarantee", "epsilon", "delta", "rng", "timeout", "threads", "engine", "of"],
    "marginals": ["dnf", "epsilon", "delta", "rng", "timeout", "threads", "exact"],
    "influence": ["dnf", "epsilon", "delta", "rng", "timeout", "exact"],
    "sample_models": ["dnf", "k", "rng", "timeout"],
    "condition": ["dnf", "evidence"],
    "conditional": ["formula", "given", "guarantee", "epsilon", "delta", "rng"],
    "most_probable_model": ["dnf"],
    "count_weights": ["dnf", "probs", "log", "rng"],
}
SENSIBLE = {
    "dnf": "formula", "formula": "formula", "given": "formula", "batch": "batch", "clauses": "[[1, -2], [3]]",
    "text": "'a & b'", "indptr": "np.array([0, 2, 3])", "literals": "np.array([0, 3, 4], dtype=np.int32)",
    "prob": "np.full(3, 0.5)", "formula_indptr": "np.array([0, 1, 2])", "k": "3", "evidence": "{1: True}",
    "probs": "np.full((2, 3), 0.4)", "timeout": "0.05", "rng": "1",
}  # fmt: skip
REQUIRED = set(SENSIBLE) - {"prob", "rng"}


def cases(seed: int) -> Iterator[Any]:
    random_ = random.Random(seed)
    for _ in range(100):
        call = random_.choice(list(ARGUMENTS))
        given = {}
        for name in ARGUMENTS[call]:
            sensible = SENSIBLE.get(name)
            needed = name in REQUIRED or (call == "DNF" and name == "prob")
            if random_.random() < 0.3:
                given[name] = random_.choice(ODD)
            elif needed and sensible is not None:
                given[name] = sensible
        yield {"call": call, "given": given}


def check(case: Any) -> bool:
    formula = DNF.from_clauses([[1, -2], [3]], [0.3, 0.6, 0.2])
    space = {"np": np, "formula": formula, "batch": Batch(formula, np.array([0, 1, 2]))}
    given = {name: eval(text, space) for name, text in case["given"].items()}
    function: Any = sharpdnf
    for part in case["call"].split("."):
        function = getattr(function, part)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NotMetWarning)
            answer = function(**given)
    except (SharpDNFError, ValueError, TypeError) as error:
        assert str(error) and len(str(error)) < 2000, error
        return False
    check_answer(answer)
    return True


def check_answer(answer: Any) -> None:
    """What an answer of any call must be, whatever was asked."""
    if isinstance(answer, Estimate):
        assert 0.0 <= answer.lower <= answer.prob + 1e-12 and answer.prob <= answer.upper + 1e-12 <= 1.0 + 2e-12
        assert answer.certified_lower <= answer.certified_upper
        answer.to_dict()
    elif isinstance(answer, DNF):
        again = DNF(*answer.arrays, log_scale=answer.log_scale, names=answer.names)
        assert again == answer
        if len(np.unique(answer.literals >> 1)) <= 12:
            assert 0.0 <= enumerate_prob(answer) <= 1.0 + 1e-9
    elif isinstance(answer, np.ndarray) and answer.dtype == np.float64:
        assert not np.isnan(answer).any()
