"""What ``analysis`` and ``sensitivity`` do, for circuits: exact where the circuit compiles, else from draws."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.analysis import Posterior
from sharpdnf.circuit import Circuit, over_same_variables
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.compiled import AND, OR, SHANNON, TERM, TRUE, Compiled
from sharpdnf.dnf import DNF, FloatArray
from sharpdnf.engines.circuit_auto import SMALL_DNF, cover_of, impossible
from sharpdnf.engines.circuit_sampling import LANES, Cover, sample_posterior, sample_rows
from sharpdnf.engines.circuits import one_output
from sharpdnf.engines.sampling import UNLIMITED, successes_needed
from sharpdnf.errors import InvalidFormula, LimitError
from sharpdnf.estimate import Limit, safe_log
from sharpdnf.relax import relax
from sharpdnf.sensitivity import Influence, _binomial_bounds, _is_met, exact_influence

COMPILE_WORK, COMPILE_WORK_PER_INPUT = 20_000_000, 64
"""When drawing is cheaper than compiling: a compilation may look at COMPILE_WORK gate inputs, and at
COMPILE_WORK_PER_INPUT times the circuit's own, which takes about half a second."""
MAX_DRAWS = 1 << 23
"""How many worlds are drawn at most for influences before they come back with ``met=False``."""
_IMPOSSIBLE = "the circuit has probability 0: nothing can be conditioned on it"


def compile_cheaply(circuit: Circuit, limit: Limit, *, insist: bool = False) -> Compiled | None:
    """The compiled circuit, or None where that is not cheap; with ``insist``, an error at the limit."""
    if insist:
        compiled = compile_circuit(one_output(circuit), limit)
        if compiled is None:
            raise LimitError(
                "the circuit could not be compiled within the limit: give more time, or leave out exact=True"
            )
        return compiled
    half = replace(limit, deadline=min(limit.deadline, time.monotonic() + limit.seconds_left / 2.0))
    work = COMPILE_WORK + COMPILE_WORK_PER_INPUT * circuit.num_inputs
    return compile_circuit(one_output(circuit), half, work=work)


def conjunction(left: DNF | Circuit, right: DNF | Circuit) -> Circuit:
    """The circuit that is true where both formulas are.

    Variables with the same name are one variable; without names, variables with the same number are.
    """
    from sharpdnf.builder import Builder

    both = [one_output(Circuit.from_dnf(side) if isinstance(side, DNF) else side) for side in (left, right)]
    if (both[0].names is None or both[1].names is None) and both[0].num_vars != both[1].num_vars:
        raise InvalidFormula("both formulas must have the same variables and probabilities")
    joined = over_same_variables(both)
    builder = Builder()
    return builder.build(builder.and_(*builder.include(joined)))


def posterior(
    circuit: Circuit, *, epsilon: float, delta: float, seed: int, limit: Limit, exact: bool | None
) -> Posterior:
    """P(variable | circuit) for all variables, and how they were found."""
    compiled = None if exact is False else compile_cheaply(circuit, limit, insist=exact is True)
    if compiled is not None:
        log_prob = float(compiled.evaluate(circuit.prob[None, :])[0])
        if log_prob == -math.inf:
            raise InvalidFormula(_IMPOSSIBLE)
        return Posterior(compiled.marginals(circuit.prob), log_prob, True, 0, np.zeros(circuit.num_vars))
    cover = possible_cover(one_output(circuit), limit)
    successes = successes_needed(epsilon, delta)
    found = sample_posterior(circuit, seed=seed, successes=successes, limit=limit, cover=cover)
    std_error = np.sqrt(found.prob * (1.0 - found.prob) / max(1, found.successes))
    return Posterior(found.prob, found.log_prob, False, found.draws, std_error, found.complete)


def possible_cover(circuit: Circuit, limit: Limit) -> Cover | None:
    dnf = relax(circuit, SMALL_DNF, within=limit)[0]
    if impossible(dnf):
        raise InvalidFormula(_IMPOSSIBLE)
    return cover_of(dnf)


def influence(
    circuit: Circuit, *, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit, exact: bool | None
) -> Influence:
    """d P / d p_v of every variable: P(circuit | v) - P(circuit | not v)."""
    compiled = None if exact is False else compile_cheaply(circuit, limit)
    if compiled is not None:
        return exact_influence(compiled.gradient(circuit.prob)[1], circuit.names)
    dnf = relax(one_output(circuit), SMALL_DNF, within=limit)[0]
    certain = np.flatnonzero((circuit.prob == 0.0) | (circuit.prob == 1.0))
    found = _drawn_influence(circuit, None if impossible(dnf) else cover_of(dnf), epsilon, delta / 2.0, rng, limit)
    values, stderr, lower, upper = (np.array(x) for x in (found.values, found.stderr, found.lower, found.upper))
    met, worlds = found.met, found.samples
    for v in certain.tolist():  # P is linear in p_v, so its slope may be measured at 1/2
        prob = np.array(circuit.prob)
        prob[v] = 0.5
        share = delta / (2.0 * len(certain))
        one = _drawn_influence(circuit.with_prob(prob), None, epsilon, share, rng, limit, only=v)
        values[v], stderr[v], lower[v], upper[v] = one.values[v], one.stderr[v], one.lower[v], one.upper[v]
        worlds += one.samples
        met = met and one.met
    out = Influence(values, stderr, lower, upper, False, worlds, met, circuit.names)
    return replace(out, met=met and _is_met(out, epsilon))


def _drawn_influence(
    circuit: Circuit,
    cover: Cover | None,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    limit: Limit,
    only: int | None = None,
) -> Influence:
    """P(circuit and v) / p_v - P(circuit and not v) / (1 - p_v), from the models among draws, direct or from a cover.

    The draws double until the intervals are narrow enough; look j has delta / 2^j. A variable that the circuit does
    not read, or that is certain, comes out as 0.
    """
    n = circuit.num_vars
    draws, look = LANES << 4, 1
    spread = (circuit.prob > 0.0) & (circuit.prob < 1.0)
    if only is not None:
        spread &= np.arange(n) == only
    seed = int(rng.integers(2**63))
    while True:
        found = _native.circuit_sample(
            *circuit.arrays,
            circuit.prob,
            circuit.outputs,
            *((np.zeros(1, np.int64), np.zeros(0, np.int32)) if cover is None else cover.arrays),
            seed=seed,
            first_block=0,
            successes=UNLIMITED,
            max_draws=draws,
            threads=limit.threads,
            seconds=limit.seconds_left,
            marginals=True,
        )
        if not found.complete[0]:
            unknown = np.where(spread, 1.0, 0.0)
            made = int(found.draws[0])
            return Influence(np.zeros(n), unknown, -unknown, unknown, False, made, False, circuit.names)
        true, hits = found.true_count, int(found.successes[0])
        out = _influence_from(circuit, spread & (true >= 0), true, hits, draws, found.log_scale, delta / 2**look)
        if only is not None:
            narrow = float(out.upper[only] - out.lower[only]) <= epsilon * max(abs(out.values[only]), 1e-3)
        else:
            narrow = _is_met(out, epsilon)
        if narrow or 2 * draws > MAX_DRAWS or limit.expired:
            return replace(out, met=narrow)
        draws, look = 2 * draws, look + 1


def _influence_from(
    circuit: Circuit, known: npt.NDArray[np.bool_], true: Any, hits: int, draws: int, log_scale: float, delta: float
) -> Influence:
    scale = math.exp(log_scale)
    share = delta / max(1, 4 * int(known.sum()))
    with_v = np.where(known, true, 0)
    without = np.where(known, hits - true, 0)
    p = np.where(known, circuit.prob, 0.5)
    low_with, high_with = (x * scale / p for x in _binomial_bounds(with_v, draws, share))
    low_without, high_without = (x * scale / (1.0 - p) for x in _binomial_bounds(without, draws, share))
    lower = np.where(known, np.maximum(low_with - np.minimum(high_without, 1.0), -1.0), 0.0)
    upper = np.where(known, np.minimum(np.minimum(high_with, 1.0) - low_without, 1.0), 0.0)
    rate_with, rate_without = with_v / draws, without / draws
    values = np.where(known, scale * (rate_with / p - rate_without / (1.0 - p)), 0.0)
    variance = rate_with / p**2 + rate_without / (1.0 - p) ** 2 - (rate_with / p - rate_without / (1.0 - p)) ** 2
    stderr = np.where(known, scale * np.sqrt(np.maximum(variance, 0.0) / draws), 0.0)
    return Influence(np.clip(values, lower, upper), stderr, lower, upper, False, draws, True, circuit.names)


def sample_models(
    circuit: Circuit, k: int, rng: np.random.Generator, limit: Limit
) -> tuple[npt.NDArray[np.bool_], int]:
    """(bool[k, n] independent models, how many were made): from the compiled circuit, or by drawing and testing."""
    compiled = compile_cheaply(circuit, limit)
    if compiled is not None:
        return draw_models(compiled, circuit.prob, k, rng), k
    cover = possible_cover(circuit, limit)
    return sample_rows(circuit, k, seed=int(rng.integers(2**63)), limit=limit, cover=cover)


def draw_models(compiled: Compiled, prob: FloatArray, k: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """bool[k, n]: k independent models, each as the variables are given the formula.

    From the root down, every node is wanted true by some rows and false by others; what a row does not ask about keeps
    its own draw. Two independent parts of which one at least must hold are decided one after the other.
    """
    log_true, log_false = _node_logs(compiled, prob)
    if log_true[-1] == -math.inf:
        raise InvalidFormula(_IMPOSSIBLE)
    rows = rng.random((k, compiled.num_vars)) < prob
    wanted: dict[tuple[int, bool], list[npt.NDArray[np.int64]]] = {(compiled.num_nodes - 1, True): [np.arange(k)]}
    for node in range(compiled.num_nodes - 1, -1, -1):
        for want in (True, False):
            parts = wanted.pop((node, want), None)
            if parts is None:
                continue
            own = np.concatenate(parts)
            kind, a, b = int(compiled.kind[node]), int(compiled.a[node]), int(compiled.b[node])
            if kind == TERM:
                _set_term(rows, own, compiled.literals[a:b].tolist(), want, prob, rng)
            elif kind == SHANNON:
                v = int(compiled.var[node])
                log = log_true if want else log_false
                high = math.exp(safe_log(float(prob[v])) + log[a] - log[node]) if log[node] > -math.inf else 0.0
                up = rng.random(len(own)) < high
                rows[own, v] = up
                wanted.setdefault((a, want), []).append(own[up])
                wanted.setdefault((b, want), []).append(own[~up])
            elif kind in (OR, AND):
                if (kind == AND) == want:  # both parts are fixed
                    wanted.setdefault((a, want), []).append(own)
                    wanted.setdefault((b, want), []).append(own)
                else:  # one of them is enough: a, and then b is free; or b without a
                    log = log_true if want else log_false
                    first = rng.random(len(own)) < math.exp(min(0.0, log[a] - log[node]))
                    wanted.setdefault((a, want), []).append(own[first])
                    wanted.setdefault((a, not want), []).append(own[~first])
                    wanted.setdefault((b, want), []).append(own[~first])
    return rows


def _set_term(
    rows: npt.NDArray[np.bool_],
    own: npt.NDArray[np.int64],
    literals: list[int],
    want: bool,
    prob: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Makes a product of literals true in some rows, or false: then the first false literal is drawn."""
    if want:
        for lit in literals:
            rows[own, lit >> 1] = not lit & 1
        return
    chance = [1.0 - prob[lit >> 1] if lit & 1 else prob[lit >> 1] for lit in literals]
    for i, lit in enumerate(literals):
        missing = 1.0 - math.prod(chance[i:])
        fails = rng.random(len(own)) < ((1.0 - chance[i]) / missing if missing > 0.0 else 1.0)
        rows[own, lit >> 1] = np.where(fails, bool(lit & 1), not lit & 1)
        own = own[~fails]


def _node_logs(compiled: Compiled, prob: FloatArray) -> tuple[list[float], list[float]]:
    """log P and log(1 - P) of every node."""
    yes: list[float] = []
    no: list[float] = []
    columns = (compiled.kind.tolist(), compiled.a.tolist(), compiled.b.tolist(), compiled.var.tolist())
    for kind, a, b, v in zip(*columns, strict=True):
        if kind == TERM:
            p, q = 0.0, -math.inf
            for lit in compiled.literals[a:b].tolist():
                own = float(prob[lit >> 1])
                own, other = (1.0 - own, own) if lit & 1 else (own, 1.0 - own)
                p, q = p + safe_log(own), _log_add(q, p + safe_log(other))
        elif kind == SHANNON:
            high, low = safe_log(float(prob[v])), safe_log(1.0 - float(prob[v]))
            p, q = _log_add(high + yes[a], low + yes[b]), _log_add(high + no[a], low + no[b])
        elif kind == AND:
            p, q = yes[a] + yes[b], _log_add(no[a], yes[a] + no[b])
        elif kind == OR:
            p, q = _log_add(yes[a], no[a] + yes[b]), no[a] + no[b]
        else:
            p, q = (0.0, -math.inf) if kind == TRUE else (-math.inf, 0.0)
        yes.append(p)
        no.append(q)
    return yes, no


def _log_add(a: float, b: float) -> float:
    high, low = (a, b) if a >= b else (b, a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def most_probable_model(circuit: Circuit, limit: Limit) -> tuple[npt.NDArray[np.bool_], float]:
    """(bool[n], log probability): the likeliest model, exactly, from the compiled circuit; a LimitError without it.

    Each node is given what its best model loses against the likelier value of every variable. Independent parts add
    up; of parts one of which must hold, the one that loses less is made to hold.
    """
    compiled = compile_cheaply(circuit, limit, insist=True)
    assert compiled is not None
    prob = circuit.prob
    with np.errstate(divide="ignore"):
        likelier = np.log(np.maximum(prob, 1.0 - prob))
        if_true = np.log(prob) - likelier
        if_false = np.log1p(-prob) - likelier
    loss: list[float] = []
    columns = (compiled.kind.tolist(), compiled.a.tolist(), compiled.b.tolist(), compiled.var.tolist())
    for kind, a, b, v in zip(*columns, strict=True):
        if kind == TERM:
            loss.append(float(sum((if_false if lit & 1 else if_true)[lit >> 1] for lit in compiled.literals[a:b])))
        elif kind == SHANNON:
            loss.append(float(max(if_true[v] + loss[a], if_false[v] + loss[b])))
        elif kind == AND:
            loss.append(loss[a] + loss[b])
        elif kind == OR:
            loss.append(max(loss[a], loss[b]))
        else:
            loss.append(0.0 if kind == TRUE else -math.inf)
    if loss[-1] == -math.inf:
        raise InvalidFormula("the circuit has probability 0: it has no model of positive weight")
    model = prob > 0.5
    stack = [compiled.num_nodes - 1]
    while stack:
        node = stack.pop()
        kind, a, b = int(compiled.kind[node]), int(compiled.a[node]), int(compiled.b[node])
        if kind == TERM:
            for lit in compiled.literals[a:b].tolist():
                model[lit >> 1] = not lit & 1
        elif kind == SHANNON:
            v = int(compiled.var[node])
            model[v] = if_true[v] + loss[a] >= if_false[v] + loss[b]
            stack.append(a if model[v] else b)
        elif kind in (AND, OR):
            stack += [a, b] if kind == AND else [a if loss[a] >= loss[b] else b]
    return model, float(likelier.sum() + loss[-1])
