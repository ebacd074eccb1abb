"""P(formula) as a layer of a neural network: probabilities in, log P out, with gradients. Needs the extra [neural].

A formula that compiles is exact, forwards and backwards, in one native pass over all outputs. One that does not is
sampled. Its gradient is still without bias, which training needs (Maene, Derkinderen, De Raedt, "On the Hardness of
Probabilistic Neurosymbolic Learning", ICML 2024): with x a model drawn in proportion to its weight,

    d log P / d p_v = E[x_v / p_v - (1 - x_v) / (1 - p_v)] = (P(v | formula) - p_v) / (p_v (1 - p_v)),

and the successes of the coverage sampler are such models.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sharpdnf.circuit import Circuit
from sharpdnf.circuit_analysis import possible_cover
from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.compiled import NO_WEIGHTS, Compiled, merged
from sharpdnf.dnf import DNF, FloatArray, IntArray
from sharpdnf.engines.circuit_sampling import sample_posterior
from sharpdnf.engines.exact import compile as compile_dnf
from sharpdnf.engines.front import make_limit
from sharpdnf.engines.sampling import SampledMarginals, sample_marginals, successes_needed
from sharpdnf.errors import InvalidFormula, LimitError, NotMetWarning
from sharpdnf.estimate import Limit, check_tolerance

OPERATIONS = 5_000_000
"""How many operations a compilation may take; a formula that does not compile is given up after about half a second."""
MAX_MODELS = 1 << 18
"""The most models for one gradient, unless the caller says otherwise."""
FEWEST_MODELS = 8
"""The fewest models for one gradient: the inverse of a count of two or three has no variance to speak of."""


class Probability(torch.nn.Module):
    """Probabilities of the variables, shape (..., n), to log P of every formula, shape (..., outputs).

    ``formulas`` is a DNF, a Circuit (each of its outputs is one of ours) or several of them. Variables with one name
    are one variable if all formulas have names, else those with one number; ``names`` tells their order. The formulas'
    own probabilities are not looked at. Inputs are float32 or float64 on any device; the work is done in doubles on
    the processor.

    Where P is 0, log P is minus infinity and its gradient is 0 by convention: it has none. With ``log=False`` the
    outputs are P itself, whose gradient exists everywhere.

    ``exact`` tells for every output whether it was compiled. Those that were not, within ``operations``, are drawn:
    log P is within a factor of 1 +- epsilon with probability 1 - delta, and the gradient of log P (of P, with
    ``log=False``) has no bias and a root mean square error of at most epsilon times its length: draws that are then
    thrown away say how many models that takes. Where it takes more than ``max_models``, there are as many and a
    NotMetWarning. ``torch.manual_seed`` makes draws repeatable. ``timeout`` limits the seconds of one pass over a
    sampled formula for one row; a LimitError tells that it was too short.
    """

    def __init__(
        self,
        formulas: DNF | Circuit | Iterable[DNF | Circuit],
        *,
        log: bool = True,
        exact: bool | None = None,
        operations: float = OPERATIONS,
        epsilon: float = 0.1,
        delta: float = 0.05,
        max_models: int = MAX_MODELS,
        timeout: float | None = None,
        threads: int | None = None,
    ) -> None:
        """Compiles the formulas. ``exact=True`` compiles each whatever it takes; ``exact=False`` draws samples of all.

        ``threads`` None means as many as torch uses itself.
        """
        super().__init__()
        check_tolerance(epsilon, delta)
        make_limit(timeout, threads)
        self.log, self.epsilon, self.delta, self.max_models = log, epsilon, delta, max_models
        self.timeout, self.threads = timeout, threads
        singles = _one_output_each(formulas)
        self.names, columns = _columns(singles)
        self.num_vars = len(self.names) if self.names else max(formula.num_vars for formula in singles)
        """How many probabilities a row of input has."""
        parts: list[Compiled] = []
        self._sampled: list[_Sampled] = []
        exact_of = np.zeros(len(singles), dtype=np.bool_)
        for i, (formula, own) in enumerate(zip(singles, columns, strict=True)):
            found = None if exact is False else _compile(formula, math.inf if exact else operations)
            if found is not None:
                parts.append(_renamed(found, own))
                exact_of[i] = True
            elif exact:
                raise LimitError(f"formula {i} could not be compiled within the limit of memory")
            else:
                self._sampled.append(_Sampled(i, formula, own))
        self.exact: tuple[bool, ...] = tuple(exact_of.tolist())
        """Whether each formula was compiled; the others are drawn."""
        self._places = np.flatnonzero(exact_of)
        self._compiled: Compiled | None = None
        self._outputs = np.zeros(0, dtype=np.int32)
        if parts:
            self._compiled, self._outputs = merged(parts)

    @property
    def num_outputs(self) -> int:
        """How many formulas there are."""
        return len(self.exact)

    def forward(self, probs: torch.Tensor) -> torch.Tensor:
        """log P of every formula (P, with ``log=False``), shape (..., outputs); what a call of the module does."""
        if probs.ndim == 0 or probs.shape[-1] != self.num_vars:
            raise ValueError(f"expected probabilities of shape (..., {self.num_vars}), not {tuple(probs.shape)}")
        if not probs.is_floating_point():
            raise TypeError(f"probabilities must be floating-point numbers, not {probs.dtype}")
        out: torch.Tensor = _Evaluate.apply(probs, self)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """What the module shows of itself: variables, outputs, nodes."""
        nodes = self._compiled.num_nodes if self._compiled is not None else 0
        sampled = f", {len(self._sampled)} sampled" if self._sampled else ""
        return f"{self.num_vars} variables, {self.num_outputs} outputs, {nodes} nodes{sampled}"

    # --- in numpy ---------------------------------------------------------------------------------------------------

    def _log_probs(self, rows: FloatArray) -> FloatArray:
        """float64[k outputs], flat or not: log P under every row."""
        found = np.empty(0)
        if self._compiled is not None:
            found, _, _ = self._compiled.batch(self._outputs, rows, threads=self._threads)
        if not self._sampled:
            return found
        out = np.empty((len(rows), self.num_outputs))
        out[:, self._places] = found.reshape(len(rows), len(self._places))
        for part in self._sampled:
            for r, row in enumerate(rows):
                out[r, part.output] = part.log_prob(row, successes_needed(self.epsilon, self.delta), self._limit)
        return out

    def _with_slopes(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """(float64[k]: log P under every row; float64[k n]: its gradients; the largest absolute value of these), of the
        only output, which is compiled."""
        assert self._compiled is not None
        return self._compiled.batch(self._outputs, rows, NO_WEIGHTS, of_log=self.log, threads=self._threads)

    def _pull_back(self, rows: FloatArray, weights: FloatArray) -> FloatArray:
        """float64[k, n], flat or not: the sum over the outputs of weight times gradient, for every row."""
        if self._compiled is None:
            out = np.zeros(rows.shape)
        else:
            chosen = weights[:, self._places] if self._sampled else weights
            _, out, _ = self._compiled.batch(self._outputs, rows, chosen, of_log=self.log, threads=self._threads)
        if not self._sampled:
            return out
        out = out.reshape(rows.shape)
        for part in self._sampled:
            for r in np.flatnonzero(weights[:, part.output]).tolist():
                slopes, met = part.gradient(rows[r], self.epsilon, self.delta, self.max_models, self._limit, self.log)
                out[r, part.columns] += weights[r, part.output] * slopes
                if not met:
                    message = (
                        f"{self.max_models} models do not bring the gradient of formula {part.output} within "
                        f"{self.epsilon}: give a larger max_models or epsilon"
                    )
                    warnings.warn(message, NotMetWarning, stacklevel=2)
        return out

    @property
    def _threads(self) -> int:
        return self.threads or torch.get_num_threads()

    @property
    def _limit(self) -> Limit:
        return make_limit(self.timeout, self._threads)


class _Evaluate(torch.autograd.Function):
    """What torch's differentiation calls. Second derivatives are an error.

    One compiled output is differentiated on the way forwards, while its values are at hand. Several are on the way
    back, when it is known what each of them weighs: one pass for all.
    """

    @staticmethod
    def forward(ctx: Any, probs: torch.Tensor, module: Probability) -> torch.Tensor:
        rows = _as_rows(probs)
        if ctx.needs_input_grad[0] and module.exact == (True,):
            found, slopes, steepest = module._with_slopes(rows)
            kept = torch.from_numpy(slopes).view(probs.shape)
            # In a narrower type they might be infinite, and a weight of 0 times that is no number.
            narrow = steepest <= torch.finfo(probs.dtype).max
            ctx.save_for_backward(probs, kept.to(probs) if narrow else kept.to(probs.device))
        else:
            if module._sampled:
                _check(rows)
            found = module._log_probs(rows)
            ctx.module, ctx.rows = module, rows
            ctx.save_for_backward(probs)
        return _like(probs, found if module.log else np.exp(found), module.num_outputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        probs, *slopes = ctx.saved_tensors  # an error if somebody has changed the probabilities since
        if slopes:
            out = grad * slopes[0]
            if out.dtype != probs.dtype:
                out = out.to(probs.dtype)
        else:
            out = _like(probs, ctx.module._pull_back(ctx.rows, _as_rows(grad)), ctx.module.num_vars)
        if torch.is_grad_enabled():  # create_graph=True: somebody may differentiate the gradient, which depends on both
            out = _NotAgain.apply(out, probs, grad)  # type: ignore[no-untyped-call]
        return out, None


class _NotAgain(torch.autograd.Function):
    """A gradient of P that must not be differentiated: without this torch would take it for a constant."""

    @staticmethod
    def forward(ctx: Any, slopes: torch.Tensor, probs: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return slopes.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, None, None]:
        raise RuntimeError("sharpdnf.torch.Probability has no second derivatives: detach its gradient")


def _as_rows(values: torch.Tensor) -> FloatArray:
    """float64[k, last]: the entries in the processor's memory, all dimensions but the last made one."""
    out = np.ascontiguousarray(values.detach().to("cpu", torch.float64).numpy())
    return out if out.ndim == 2 else out.reshape(math.prod(out.shape[:-1]), out.shape[-1])


def _like(model: torch.Tensor, rows: FloatArray, last: int) -> torch.Tensor:
    """``rows``, flat or not, as a tensor of the type, the device and the dimensions of ``model``, but for the last:
    ``last``."""
    out = torch.from_numpy(rows).to(model)
    return out.reshape(*model.shape[:-1], last)


def _check(rows: FloatArray) -> None:
    # Read as integers, the doubles from 0 to 1 are those up to that of 1: one pass. The rest, -0.0 too, is looked at.
    if rows.size and rows.view(np.uint64).max() > np.float64(1.0).view(np.uint64):
        bad = np.argwhere(~((rows >= 0.0) & (rows <= 1.0)))
        if len(bad):
            row, variable = bad[0].tolist()
            raise ValueError(f"row {row}, variable {variable}: {rows[row, variable]} is not a probability in [0, 1]")


def _one_output_each(formulas: DNF | Circuit | Iterable[DNF | Circuit]) -> list[DNF | Circuit]:
    out: list[DNF | Circuit] = []
    for formula in [formulas] if isinstance(formulas, DNF | Circuit) else formulas:
        if isinstance(formula, Circuit):
            out += [formula[i] for i in range(formula.num_outputs)]
        elif isinstance(formula, DNF):
            out.append(formula)
        else:
            raise TypeError(f"expected a DNF or a Circuit, not {type(formula).__name__}")
    if not out:
        raise ValueError("there must be at least one formula")
    return out


def _columns(formulas: Sequence[DNF | Circuit]) -> tuple[tuple[str, ...] | None, list[IntArray]]:
    """(the names of all variables, or None; for each formula the column of each of its variables)."""
    names: dict[str, int] = {}
    for formula in formulas:
        if formula.names is None:
            return None, [np.arange(other.num_vars) for other in formulas]
        for name in formula.names:
            names.setdefault(name, len(names))
    return tuple(names), [np.array([names[name] for name in f.names or ()], dtype=np.int64) for f in formulas]


def _compile(formula: DNF | Circuit, operations: float) -> Compiled | None:
    if isinstance(formula, DNF):
        return compile_dnf(formula, operations=None if operations == math.inf else operations)
    return compile_circuit(formula, work=None if operations == math.inf else int(operations))


def _renamed(compiled: Compiled, columns: IntArray) -> Compiled:
    """The same circuit whose variable v is called ``columns[v]``."""
    as_int = columns.astype(np.int32)
    literals = 2 * as_int[compiled.literals >> 1] + (compiled.literals & 1) if len(as_int) else compiled.literals
    var = as_int[compiled.var] if len(as_int) else compiled.var
    num_vars = int(columns.max(initial=-1)) + 1
    return Compiled(compiled.kind, compiled.a, compiled.b, var, literals.astype(np.int32), num_vars)


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A formula that did not compile: output number ``output``, its variables in these ``columns`` of a row."""

    output: int
    formula: DNF | Circuit
    columns: IntArray

    def log_prob(self, row: FloatArray, successes: int, limit: Limit) -> float:
        found = self._draw(row[self.columns], successes, limit)
        return -math.inf if found is None else found.log_prob

    def gradient(
        self, row: FloatArray, epsilon: float, delta: float, most: int, limit: Limit, log: bool
    ) -> tuple[FloatArray, bool]:
        """(float64[own variables]: d log P / d p, or d P / d p; whether ``most`` models were enough for epsilon)."""
        prob = row[self.columns]
        drawn, needed = successes_needed(epsilon, delta), math.inf
        while drawn <= most and needed == math.inf:
            pilot = self._log_slopes(prob, drawn, limit)
            if pilot is None:
                break
            slopes, noise = pilot
            if not log:  # P is estimated too, and its relative error adds to that of the slopes
                noise = np.append(noise, slopes @ slopes)
            needed = models_needed(slopes, noise, drawn, epsilon, delta)
            drawn *= 4
        models = int(min(max(needed, FEWEST_MODELS), most))
        found = self._log_slopes(prob, models, limit)
        if found is None:
            return np.zeros(len(prob)) if log else self._slopes_from_zero(prob, epsilon, limit), True
        slopes = found[0]
        if not log:  # P and the gradient of log P come from different draws, so their product has no bias either
            other = self._draw(prob, models, limit)
            slopes *= 0.0 if other is None else math.exp(other.log_prob)
        return slopes, needed <= most

    def _log_slopes(self, prob: FloatArray, models: int, limit: Limit) -> tuple[FloatArray, FloatArray] | None:
        """(d log P / d p, float64[own variables]; the variance of each from a single model); None if P is 0.

        No drawn model may have shown a rare variable, so its variance counts as at least that without the formula.
        """
        found = self._draw(prob, models, limit)
        if found is None:
            return None
        spread = (prob > 0.0) & (prob < 1.0)
        p, q = np.where(spread, prob, 0.5), np.where(spread, found.prob, 0.5)
        scale = 1.0 / (p * (1.0 - p))
        slopes = (q - p) * scale
        # A variable that no clause of a model read has no influence.
        noise = np.where(q != p, np.maximum(q * (1.0 - q), p * (1.0 - p)) * scale**2, 0.0)
        for v in np.flatnonzero(~spread).tolist():
            ratio = self._ratio_at_the_end(prob, v, found, models, limit)
            slopes[v] = (1.0 - 2.0 * float(prob[v])) * (ratio - 1.0)
            noise[v] = 3.0 * ratio**2  # two relative variances of about 1 / k each, from FEWEST_MODELS on
        return slopes, noise

    def _ratio_at_the_end(self, prob: FloatArray, v: int, here: SampledMarginals, models: int, limit: Limit) -> float:
        """(P with v flipped) / P for p_v = 0 or 1, where models all agree in v. Less 1, it is the slope but for a sign.

        The mean number of draws that a success takes is 1 / P(success), so N / k has no bias as an estimate of it, and
        (k - 1) / (N - 1) none as one of P(success); the two are from different draws.
        """
        other = self._draw(_flipped(prob, v), models, limit)
        if other is None:
            return 0.0
        scale = math.exp(other.log_scale - here.log_scale)
        return scale * (other.successes - 1) / (other.draws - 1) * here.draws / here.successes

    def _slopes_from_zero(self, prob: FloatArray, epsilon: float, limit: Limit) -> FloatArray:
        """float64[own variables]: d P / d p where P is 0. Only a variable that is certain can lift it, by flipping."""
        out = np.zeros(len(prob))
        for v in np.flatnonzero((prob == 0.0) | (prob == 1.0)).tolist():
            found = self._draw(_flipped(prob, v), math.ceil(epsilon**-2) + FEWEST_MODELS, limit)
            out[v] = 0.0 if found is None else (1.0 - 2.0 * float(prob[v])) * math.exp(found.log_prob)
        return out

    def _draw(self, prob: FloatArray, successes: int, limit: Limit) -> SampledMarginals | None:
        """Draws so many models of the formula; None if it has none."""
        seed = int(torch.randint(2**62, ()).item())
        formula = self.formula.with_prob(prob)
        if isinstance(formula, Circuit):
            try:
                cover = possible_cover(formula, limit)
            except InvalidFormula:
                return None
            found = sample_posterior(formula, seed=seed, successes=successes, limit=limit, cover=cover)
        elif not formula.num_clauses or bool(np.all(formula.clause_log_probs() == -math.inf)):
            return None
        else:
            found = sample_marginals(formula, successes=successes, seed=seed, limit=limit)
        if not found.complete:
            raise LimitError(
                f"only {found.successes} of {successes} models of formula {self.output} in time: give more time, "
                "or a larger epsilon"
            )
        return found


def _flipped(prob: FloatArray, v: int) -> FloatArray:
    out = prob.copy()
    out[v] = 1.0 - prob[v]
    return out


def models_needed(slopes: FloatArray, noise: FloatArray, drawn: int, epsilon: float, delta: float) -> float:
    """How many models bring the gradient's root mean square error below epsilon times its length.

    ``slopes`` is the gradient as ``drawn`` models show it, ``noise`` what one model adds to its variance. With k models
    the squared error is expected to be V / k, V the sum of the noise. The gradient is at least as long as the one seen,
    less what the seen one may be off: by Markov's inequality sqrt(V / (drawn delta)) but for delta. Infinity if that is
    more than half of it: then more must be drawn to tell.
    """
    variance, length = float(noise.sum()), float(np.linalg.norm(slopes))
    if variance == 0.0:
        return float(drawn)
    least = length - math.sqrt(variance / (drawn * delta))
    return math.ceil(variance / (epsilon * least) ** 2) if least > length / 2.0 else math.inf


__all__ = ["Probability"]
