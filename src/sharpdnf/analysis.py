"""Beyond a number: marginals, models, conditioning, one formula under many probability vectors.

Where the formula compiles to a small d-tree the answers are exact; otherwise they come from samples, and say so. At a
deadline what comes back is the best so far; plain arrays cannot say so, so those functions warn (NotMetWarning).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Never, TypeVar

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.circuit import Circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import DNF, FloatArray, plain_array, require_dnf
from sharpdnf.engines.bounds import log_midpoint
from sharpdnf.engines.dtree import compile as compile_tree
from sharpdnf.engines.exact import compile as compile_dnf
from sharpdnf.engines.front import Seed, count, make_limit, make_rng
from sharpdnf.engines.registry import refuse_options
from sharpdnf.engines.sampling import sample_marginals, successes_needed
from sharpdnf.errors import InvalidFormula, LimitError, NotMetWarning, did_you_mean
from sharpdnf.estimate import Estimate, Limit, check_tolerance
from sharpdnf.simplify import trivial_log_prob

AnyFormula = TypeVar("AnyFormula", DNF, Circuit)
COMPILE_WORK, COMPILE_LITERALS = 500_000, 20_000
"""When sampling is cheaper than an exact method. Each exact method may take COMPILE_WORK operations, about a third of a
second for all of them together. A formula of more than COMPILE_LITERALS literals is tried with the d-tree alone,
because finding an order of its variables for the other methods would take longer than sampling."""
TREE_NODES, TREE_WORK, TREE_WORK_PER_LITERAL = 20_000, 4_000_000, 4
"""What the d-tree may cost: TREE_NODES expansions, and TREE_WORK literals looked at plus TREE_WORK_PER_LITERAL for each
literal of the formula."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """P(variable | formula) for all variables, float64[n], and how they were found."""

    prob: FloatArray
    log_prob: float
    """The natural logarithm of the probability of the formula itself."""
    exact: bool
    samples: int
    std_error: FloatArray
    """float64[n]: one standard error of each marginal; 0 where it is exact."""
    met: bool = True


def marginals(dnf: DNF | Circuit, **asked: Any) -> FloatArray:
    """float64[n]: P(variable | formula) for all variables; takes the options of :func:`posterior`."""
    found = posterior(dnf, **asked)
    _warn_unless(found.met, f"{found.samples} samples")
    return found.prob


def posterior(
    dnf: DNF | Circuit,
    *,
    epsilon: float = 0.02,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    exact: bool | None = None,
    **unknown: Never,
) -> Posterior:
    """The marginals and how they were found: exactly where cheap, else from the samples that count the formula.

    ``exact=True`` insists on the d-tree, ``exact=False`` on samples; epsilon and delta are those of the count.
    """
    refuse_options(posterior, unknown)
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    generator, _ = make_rng(rng)
    if isinstance(dnf, Circuit):
        from sharpdnf.circuit_analysis import posterior as of_circuit

        seed = int(generator.integers(2**63))
        return of_circuit(dnf, epsilon=epsilon, delta=delta, seed=seed, limit=limit, exact=exact)
    if trivial_log_prob(require_dnf(dnf)) == 0.0:
        return Posterior(dnf.prob.copy(), 0.0, True, 0, np.zeros(dnf.num_vars))
    _require_possible(dnf)
    compiled = None if exact is False else _compile(dnf, limit, insist=exact is True)
    if compiled is not None:
        log_prob = float(compiled.evaluate(dnf.prob[None, :])[0])
        return Posterior(compiled.marginals(dnf.prob), log_prob, True, 0, np.zeros(dnf.num_vars))
    successes = successes_needed(epsilon, delta)
    found = sample_marginals(dnf, successes=successes, seed=int(generator.integers(2**63)), limit=limit)
    std_error = np.sqrt(found.prob * (1.0 - found.prob) / max(1, found.successes))
    return Posterior(found.prob, found.log_prob, False, found.draws, std_error, found.complete)


def sample_models(
    dnf: DNF | Circuit, k: int, *, rng: Seed = None, timeout: float | None = None, **unknown: Never
) -> npt.NDArray[np.bool_]:
    """bool[k, n]: k independent assignments distributed as the variables are, given that the formula is true.

    More than 2 GiB of them, or fewer than k within ``timeout`` seconds, are a LimitError.
    """
    refuse_options(sample_models, unknown)
    if k < 0:
        raise ValueError(f"k must not be negative, not {k}")
    limit = make_limit(timeout, None)
    size = k * _formula(dnf).num_vars
    if size > limit.memory:
        raise LimitError(
            f"{k} models of {dnf.num_vars} variables take {size} bytes, the limit is {limit.memory}: "
            f"ask for at most {limit.memory // dnf.num_vars} at a time"
        )
    generator, _ = make_rng(rng)
    if isinstance(dnf, Circuit):
        from sharpdnf.circuit_analysis import sample_models as of_circuit

        models, made = of_circuit(dnf, k, generator, limit)
    elif trivial_log_prob(dnf) == 0.0:
        models, made = _draw_rows(dnf.prob, k, generator, limit)
    else:
        _require_possible(dnf)
        seed = int(generator.integers(2**63))
        flat, made = _native.sample_models(*dnf.arrays, seed=seed, count=k, seconds=limit.seconds_left)
        models = flat.reshape(k, dnf.num_vars).view(np.bool_)
    if made < k:
        raise LimitError(f"only {made} of {k} models within {timeout} seconds: ask for fewer or give more time")
    return models


def _draw_rows(prob: FloatArray, k: int, rng: np.random.Generator, limit: Limit) -> tuple[npt.NDArray[np.bool_], int]:
    """(bool[k, n] with the variables' own probabilities, how many rows were made), a few megabytes at a time."""
    out = np.empty((k, len(prob)), dtype=np.bool_)
    step = max(1, (1 << 20) // max(1, len(prob)))
    for first in range(0, k, step):
        if limit.expired:
            return out, first
        rows = out[first : first + step]
        rows[:] = rng.random(rows.shape) < prob
    return out, k


def condition(dnf: AnyFormula, evidence: Mapping[int | str, bool]) -> AnyFormula:
    """The formula given that variables have values: ``{1: True, "b": False}``, by 1-based number or by name.

    They keep their place with probability 0 or 1, so numbering does not change.
    """
    prob = _formula(dnf).prob.copy()
    if not isinstance(evidence, Mapping):
        raise TypeError(f"evidence must be a mapping such as {{1: True}}, not {type(evidence).__name__}")
    for variable, value in evidence.items():
        if not isinstance(value, bool | int | np.bool_ | np.integer) or value not in (0, 1):
            raise InvalidFormula(f"variable {variable!r} can be given as True or False, not as {value!r}")
        prob[_index(dnf, variable)] = float(value)
    return dnf.with_prob(prob)


def _formula(dnf: DNF | Circuit) -> DNF | Circuit:
    return dnf if isinstance(dnf, Circuit) else require_dnf(dnf)


def _index(dnf: DNF | Circuit, variable: int | str) -> int:
    if isinstance(variable, str):
        if dnf.names is None:
            raise InvalidFormula(f"no variable is named {variable!r}: the formula has no names, only numbers from 1")
        if variable not in dnf.names:
            raise InvalidFormula(f"no variable is named {variable!r}{did_you_mean(variable, dnf.names)}")
        return dnf.names.index(variable)
    if isinstance(variable, bool | np.bool_) or not isinstance(variable, int | np.integer):
        raise InvalidFormula(f"a variable is a number from 1 or a name, not {variable!r}")
    if not 1 <= variable <= dnf.num_vars:
        raise InvalidFormula(f"variable {variable} is not one of 1..{dnf.num_vars}")
    return int(variable) - 1


def conjunction(left: DNF | Circuit, right: DNF | Circuit) -> DNF | Circuit:
    """The formula that is true where both are: a DNF if both are DNFs (every pair of clauses joined), else a circuit.

    Variables with the same name are one variable; without names, variables with the same number are.
    """
    if isinstance(left, Circuit) or isinstance(right, Circuit):
        from sharpdnf.circuit_analysis import conjunction as of_circuits

        return of_circuits(_formula(left), _formula(right))
    return require_dnf(left) & require_dnf(right)


def conditional(
    formula: DNF | Circuit,
    given: DNF | Circuit,
    *,
    guarantee: str | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    **asked: Any,
) -> Estimate:
    """P(formula | given) = P(formula and given) / P(given), relative (epsilon, delta) unless asked otherwise.

    Each count gets epsilon / (2 + epsilon) and delta / 2: then the ratio of the two is within 1 +- epsilon. Additive
    errors of both would promise nothing about the ratio, so ``guarantee="additive"`` is served by a relative one. Of
    ``timeout`` the condition may take half; where the rest does not suffice for a single draw of the joint event, the
    answer is the middle of what is known, with ``met=False``.
    """
    check_tolerance(epsilon, delta)
    generator, seed = make_rng(rng)
    limit = make_limit(timeout, None)
    asked |= {"guarantee": "relative" if guarantee == "additive" else guarantee, "rng": generator}
    asked |= {"epsilon": epsilon / (2.0 + epsilon), "delta": delta / 2.0}
    both = conjunction(formula, given)
    below = count(given, timeout=None if timeout is None else timeout / 2.0, **asked)
    if below.log_prob == -math.inf:
        raise InvalidFormula("the formula given as the condition has probability 0: nothing can be conditioned on it")
    above = count(both, timeout=_left(timeout, limit), **asked)
    log_lower = _log_ratio(above.log_lower, below.log_upper, -1)
    log_upper = _log_ratio(above.log_upper, below.log_lower, 1)
    blind = not above.met and above.samples == 0
    log_prob = log_midpoint(log_lower, log_upper) if blind else min(0.0, above.log_prob - below.log_prob)
    rest: dict[str, Any] = {"seed": seed, "seconds": above.seconds + below.seconds}
    rest["info"] = {"joint": above.to_dict(), "given": below.to_dict()}
    promises = {above.guarantee, below.guarantee}
    promise = "relative" if promises <= {"exact", "relative"} else "none"
    promise = "bounds" if promises <= {"exact", "bounds"} else promise
    promise = "exact" if promises == {"exact"} else promise
    return Estimate(
        log_prob=log_prob,
        guarantee=promise,
        engine="conditional",
        epsilon=epsilon if promise == "relative" else None,
        delta=delta if promise == "relative" else None,
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=_log_ratio(above.log_certified_lower, below.log_certified_upper, -1),
        log_certified_upper=_log_ratio(above.log_certified_upper, below.log_certified_lower, 1),
        samples=above.samples + below.samples,
        met=above.met and below.met,
        **rest,
    )


def _log_ratio(above: float, below: float, direction: int) -> float:
    """log(a / b) from log a and log b, at most 0, rounded down (-1) or up (1)."""
    if above == -math.inf or below == -math.inf:
        return above if direction < 0 or below > -math.inf else 0.0
    return min(0.0, math.nextafter(above - below, direction * math.inf))


def most_probable_model(dnf: DNF | Circuit, *, timeout: float | None = None) -> tuple[npt.NDArray[np.bool_], float]:
    """(bool[n], log probability): the likeliest satisfying assignment, exactly, of a DNF in one pass.

    A circuit is compiled for it; where ``timeout`` seconds or the memory do not suffice, that is a LimitError.

    Some clause holds in it; given that, every other variable takes its likelier value. So it is the best over clauses
    of log p(C) plus the sum of log max(p, 1 - p) over the variables outside C.
    """
    if isinstance(dnf, Circuit):
        from sharpdnf.circuit_analysis import most_probable_model as of_circuit

        return of_circuit(dnf, make_limit(timeout, None))
    if require_dnf(dnf).num_clauses == 0:
        raise InvalidFormula("a formula without clauses has no model")
    with np.errstate(divide="ignore"):
        likelier = np.log(np.maximum(dnf.prob, 1.0 - dnf.prob))
    loss = dnf.clause_log_probs()
    if dnf.num_literals:
        inside = np.concatenate([[0.0], np.cumsum(likelier[dnf.literals >> 1])])
        loss = loss - (inside[dnf.indptr[1:]] - inside[dnf.indptr[:-1]])
    best = int(np.argmax(loss))
    if loss[best] == -math.inf:
        raise InvalidFormula("the formula has probability 0: it has no model of positive weight")
    model = dnf.prob > 0.5
    chosen = dnf.literals[dnf.indptr[best] : dnf.indptr[best + 1]]
    model[chosen >> 1] = (chosen & 1) == 0
    return model, float(likelier.sum() + loss[best])


def count_weights(
    dnf: DNF | Circuit,
    probs: npt.ArrayLike,
    *,
    log: bool = False,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
    **unknown: Never,
) -> FloatArray:
    """float64[k]: P(formula) under each row of ``probs`` (k, n); with ``log`` its natural logarithm.

    Exact, all rows in one evaluation, where the formula compiles; else each row is counted at (epsilon, delta).
    """
    refuse_options(count_weights, unknown)
    num_vars, rows = _formula(dnf).num_vars, plain_array("probs", probs, np.float64)
    if rows.ndim != 2 or rows.shape[1] != num_vars:
        raise InvalidFormula(f"expected probabilities of shape (k, {dnf.num_vars}), not {rows.shape}")
    if not bool(np.all((rows >= 0.0) & (rows <= 1.0))):
        raise InvalidFormula("probabilities must lie in [0, 1]")
    log_probs = _count_rows(dnf, rows, epsilon=epsilon, delta=delta, rng=rng, timeout=timeout, threads=threads)
    return log_probs if log else np.exp(log_probs)


def _count_rows(
    dnf: DNF | Circuit, rows: FloatArray, *, timeout: float | None, threads: int | None, rng: Seed, **tolerance: float
) -> FloatArray:
    check_tolerance(tolerance["epsilon"], tolerance["delta"])
    trivial = None if isinstance(dnf, Circuit) else trivial_log_prob(dnf)
    if trivial is not None:
        return np.full(len(rows), trivial)
    limit = make_limit(timeout, threads)
    compiled = _compile(dnf, limit)
    if compiled is not None:
        return compiled.evaluate(rows)
    asked: dict[str, Any] = {"threads": threads, "rng": make_rng(rng)[0], **tolerance}
    counted = [count(dnf.with_prob(row), timeout=_left(timeout, limit), **asked) for row in rows]
    met = sum(estimate.met for estimate in counted)
    _warn_unless(met == len(rows), f"{met} of {len(rows)} rows within epsilon, the others' certified bounds")
    return np.array([estimate.log_prob for estimate in counted])


def _compile(dnf: DNF | Circuit, limit: Limit, *, insist: bool = False) -> Compiled | None:
    """The compiled formula, or None where that is not cheap; with ``insist``, an error at the limit."""
    if isinstance(dnf, Circuit):
        from sharpdnf.circuit_analysis import compile_cheaply

        return compile_cheaply(dnf, limit, insist=insist)
    if insist:
        compiled = compile_dnf(dnf, limit)
        if compiled is None:
            raise LimitError(
                "the formula could not be compiled within the limit: give more time, or leave out exact=True"
            )
        return compiled
    half = replace(limit, deadline=min(limit.deadline, time.monotonic() + limit.seconds_left / 2.0))
    if dnf.num_literals <= COMPILE_LITERALS:
        return compile_dnf(dnf, half, operations=COMPILE_WORK)
    return compile_tree(dnf, half, nodes=TREE_NODES, work=TREE_WORK + TREE_WORK_PER_LITERAL * dnf.num_literals)


def _left(timeout: float | None, limit: Limit) -> float | None:
    """What is left of the caller's timeout for the next of several counts."""
    return None if timeout is None else limit.seconds_left


def _warn_unless(met: bool, used: str) -> None:
    if not met:
        message = f"the deadline came first: the answer rests on {used} and keeps no (epsilon, delta)"
        warnings.warn(message, NotMetWarning, stacklevel=3)


def _possible(dnf: DNF) -> bool:
    return dnf.num_clauses > 0 and bool(np.any(dnf.clause_log_probs() > -math.inf))


def _require_possible(dnf: DNF) -> None:
    if not _possible(dnf):
        raise InvalidFormula("the formula has probability 0: nothing can be conditioned on it")
