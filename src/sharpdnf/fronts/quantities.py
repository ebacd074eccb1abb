"""Numbers of a fault tree that depend on time, on parameters and on chance: the Open-PSA format's expressions.

An expression has a value (random deviates stand for their means) or, drawn many times, an array of values. In each draw
a parameter has one value for everything that reads it, so events that share a failure rate move together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import FloatArray
from sharpdnf.fronts.safexml import Place

Value = float | FloatArray
Draw = Callable[..., FloatArray]
"""Draws a random deviate: (rng, size, the values of its parameters) -> float64[size]."""
MAX_TESTS = 10_000_000
"""The most periodic tests that may fall into a mission time."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An operation ``op`` on the values of ``args``. A constant has a ``value``, a parameter a ``name``."""

    op: str
    place: Place
    args: tuple[Expression, ...] = ()
    value: float = 0.0
    name: str = ""


def constant(value: float, place: Place) -> Expression:
    return Expression("constant", place, value=value)


def operation(op: str, place: Place, *args: Expression) -> Expression:
    """The operation, with its number of arguments checked."""
    least, most, _ = OPERATIONS[op]
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"at least {least}" if most >= MANY else f"{least} to {most}"
        raise place.error(f"<{op}> takes {wanted} arguments, not {len(args)}")
    if op == "periodic-test" and len(args) not in (4, 5):
        raise place.error(f"<periodic-test> with {len(args)} arguments is not supported: 4 or 5 are")
    if op == "histogram" and len(args) % 2 == 0:
        raise place.error("<histogram> takes a lower bound and bins of two expressions")
    return Expression(op, place, args)


class Evaluator:
    """What expressions are evaluated under: a mission time, the parameters, and draws instead of means if asked."""

    def __init__(
        self,
        parameters: Mapping[str, Expression],
        mission_time: float | None = None,
        rng: np.random.Generator | None = None,
        size: int = 1,
    ) -> None:
        self.parameters, self.mission_time, self.rng, self.size = parameters, mission_time, rng, size
        self.known: dict[str, Value] = {}

    def value(self, expression: Expression) -> Value:
        """The value, or float64[size] of draws. It may be nan or infinite: who needs a probability checks."""
        for name in needed(expression, self.parameters):
            if name not in self.known:
                self.known[name] = self._value(self.parameters[name])
        return self._value(expression)

    def _value(self, e: Expression) -> Value:
        if e.op == "constant":
            return e.value
        if e.op == "parameter":
            return self.known[e.name]
        if e.op == "system-mission-time":
            if self.mission_time is None:
                raise e.place.error("the mission time is used here: give it as mission_time= (--mission-time)")
            return self.mission_time
        args = [self._value(arg) for arg in e.args]
        _, _, function = OPERATIONS[e.op]
        with np.errstate(all="ignore"):
            if e.op in DEVIATES:
                return self._deviate(e, args)
            try:
                return function(*args)
            except (OverflowError, ZeroDivisionError):
                return math.nan

    def _deviate(self, e: Expression, args: list[Value]) -> Value:
        mean, draw = DEVIATES[e.op]
        try:
            if self.rng is None:
                return mean(*args)
            return np.broadcast_to(np.asarray(draw(self.rng, self.size, *args), dtype=np.float64), (self.size,))
        except (ValueError, OverflowError) as error:
            raise e.place.error(f"<{e.op}>: {error}") from None


def needed(expression: Expression, parameters: Mapping[str, Expression]) -> list[str]:
    """The parameters that an expression reads, each after those that it reads itself; a cycle is an error."""
    order: list[str] = []
    state: dict[str, bool] = {}
    stack: list[tuple[str, bool]] = [(name, False) for name in direct(expression)]
    while stack:
        name, leaving = stack.pop()
        if leaving:
            state[name] = True
            order.append(name)
            continue
        if name in state:
            if not state[name]:
                raise parameters[name].place.error(f"the parameter {name!r} is defined by itself")
            continue
        state[name] = False
        stack.append((name, True))
        stack += [(inner, False) for inner in direct(parameters[name]) if not state.get(inner, False)]
    return order


def direct(expression: Expression) -> list[str]:
    """The names of the parameters that stand in the expression itself."""
    found: list[str] = []
    stack = [expression]
    while stack:
        e = stack.pop()
        if e.op == "parameter":
            found.append(e.name)
        stack += e.args
    return found


def is_random(expression: Expression, parameters: Mapping[str, Expression]) -> bool:
    """Whether a random deviate stands in the expression or in a parameter that it reads."""
    stack = [expression, *(parameters[name] for name in needed(expression, parameters))]
    while stack:
        e = stack.pop()
        if e.op in DEVIATES:
            return True
        stack += e.args
    return False


# --- what the operations do ---------------------------------------------------------------------------------------


def _where(condition: npt.ArrayLike, value: npt.ArrayLike, otherwise: npt.ArrayLike = math.nan) -> Value:
    out = np.where(condition, value, otherwise).astype(np.float64)
    return float(out) if out.ndim == 0 else out


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    def folded(*args: Value) -> Value:
        out: Any = np.float64(args[0]) if np.ndim(args[0]) == 0 else args[0]
        for arg in args[1:]:
            out = function(out, arg)
        return _where(True, out)

    return folded


def _one(function: Callable[[Any], Any]) -> Callable[..., Value]:
    return lambda x: _where(True, function(np.asarray(x, dtype=np.float64)))


def _exponential(rate: Value, t: Value) -> Value:
    """The probability of a failure within t at a constant rate: 1 - exp(-rate t)."""
    return _where(True, -np.expm1(-np.multiply(rate, t)))


def _glm(gamma: Value, failure: Value, repair: Value, t: Value) -> Value:
    """Failure on demand with probability gamma, then a failure rate and a repair rate."""
    total = np.add(failure, repair)
    share = np.where(total > 0.0, np.divide(failure, np.where(total > 0.0, total, 1.0)), 0.0)
    sound = (np.asarray(failure) >= 0.0) & (np.asarray(repair) >= 0.0) & (np.asarray(t) >= 0.0)
    return _where(sound, -share * np.expm1(-total * t) + gamma * np.exp(-total * t))


def _weibull(scale: Value, shape: Value, shift: Value, t: Value) -> Value:
    """1 - exp(-((t - shift) / scale)^shape), and 0 before the shift."""
    sound = (np.asarray(scale) > 0.0) & (np.asarray(shape) > 0.0)
    age = np.maximum(np.subtract(t, shift), 0.0) / np.where(sound, scale, 1.0)
    return _where(sound, -np.expm1(-(age ** np.where(sound, shape, 1.0))))


def _periodic_test(*args: Value) -> Value:
    """The unavailability of a component that is tested every ``tau`` hours, first after ``theta``; tests take no time
    and find every failure. With a repair rate (five arguments) a found failure is repaired at that rate, else at once.
    """
    repair: Value = math.inf if len(args) == 4 else args[1]
    rate, tau, theta, t = (np.asarray(x, dtype=np.float64) for x in (args[0], *args[-3:]))
    sound = (rate >= 0.0) & (tau > 0.0) & (theta >= 0.0) & (t >= 0.0) & (np.asarray(repair) >= 0.0)
    # At the instant of a test the component is as before it: tests strictly before t, up to rounding.
    periods = (t - theta) / np.where(tau > 0.0, tau, 1.0)
    tests = np.where(t > theta, np.ceil(periods - 1e-9 * np.maximum(periods, 1.0)), 0.0)
    since = np.where(tests > 0.0, t - theta - (tests - 1.0) * tau, t)
    if np.any(tests > MAX_TESTS):
        raise OverflowError
    if len(args) == 4:
        return _where(sound, -np.expm1(-rate * since))
    # (working, failed, in repair): the first test comes after theta, the others tau apart, a test moves what failed
    # into repair.
    shape = np.broadcast(rate, tau, theta, t, np.asarray(repair)).shape
    state = np.broadcast_to(np.array([1.0, 0.0, 0.0]), (*shape, 3))[..., None]
    test = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    first = np.broadcast_to(np.minimum(theta, t), shape)
    state = _life(rate, repair, first, shape) @ state
    once = np.where(np.broadcast_to(tests > 0.0, shape)[..., None, None], test, np.eye(3))
    step = test @ _life(rate, repair, np.broadcast_to(tau, shape), shape)
    state = _power(step, np.broadcast_to(np.maximum(tests - 1.0, 0.0), shape)) @ (once @ state)
    last = _life(rate, repair, np.broadcast_to(np.where(tests > 0.0, since, 0.0), shape), shape)
    return _where(sound, 1.0 - (last @ state)[..., 0, 0])


def _life(rate: Value, repair: Value, t: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """[..., 3, 3]: where (working, failed, in repair) go within t hours between tests."""
    rate, repair = (np.broadcast_to(np.asarray(x, dtype=np.float64), shape) for x in (rate, repair))
    out = np.zeros((*shape, 3, 3))
    works, repaired = np.exp(-rate * t), -np.expm1(-repair * t)
    # Repaired and not failed again: the integral of repair e^(-repair s) e^(-rate (t - s)).
    gap = rate - repair
    near = np.abs(gap) * t < 1e-7
    again = np.where(near, repair * t * works, repair * (np.exp(-repair * t) - works) / np.where(near, 1.0, gap))
    again = np.where(np.isfinite(again), again, works)  # a repair rate beyond all bounds
    out[..., 0, 0], out[..., 1, 0] = works, 1.0 - works
    out[..., 1, 1] = 1.0
    out[..., 0, 2], out[..., 1, 2], out[..., 2, 2] = again, repaired - again, 1.0 - repaired
    return out


def _power(matrix: FloatArray, exponent: FloatArray) -> FloatArray:
    """Raises each matrix to its own power, by repeated squaring."""
    out = np.broadcast_to(np.eye(3), matrix.shape)
    left = exponent.astype(np.int64)
    while np.any(left > 0):
        out = np.where((left % 2 == 1)[..., None, None], matrix @ out, out)
        matrix, left = matrix @ matrix, left // 2
    return out


def _switch(*args: Value) -> Value:
    """The value of the first pair (condition, value) whose condition holds, or the last argument if none does."""
    out = args[-1]
    for condition, value in list(zip(args[:-1:2], args[1:-1:2], strict=True))[::-1]:
        out = _where(np.asarray(condition) != 0.0, value, out)
    return out


# --- random deviates: (mean, draw) --------------------------------------------------------------------------------


def _check(condition: npt.ArrayLike, message: str) -> None:
    if not np.all(condition):
        raise ValueError(message)


def _lognormal_parameters(args: tuple[Value, ...]) -> tuple[Value, Value]:
    """The (mu, sigma) of a lognormal, given as they are, or by the mean, the error factor and its level."""
    if len(args) == 2:
        _check(np.asarray(args[1]) > 0.0, "sigma must be positive")
        return args
    mean, factor, level = args
    _check(np.asarray(mean) > 0.0, "the mean must be positive")
    _check(np.asarray(factor) > 1.0, "the error factor must be more than 1")
    if np.ndim(level) != 0 or not 0.5 < float(level) < 1.0:
        raise ValueError("the level of the error factor must be a number between 0.5 and 1")
    sigma = np.log(factor) / NormalDist().inv_cdf(float(level))
    return np.log(mean) - 0.5 * sigma**2, sigma


def _lognormal_mean(*args: Value) -> Value:
    mu, sigma = _lognormal_parameters(args)
    return args[0] if len(args) == 3 else _where(True, np.exp(mu + 0.5 * np.square(sigma)))


def _uniform_mean(low: Value, high: Value) -> Value:
    _check(np.asarray(low) <= high, "the lower bound is above the upper one")
    return _where(True, (np.asarray(low) + high) / 2.0)


def _normal_mean(mean: Value, sigma: Value) -> Value:
    _check(np.asarray(sigma) >= 0.0, "the standard deviation must not be negative")
    return mean


def _positive(a: Value, b: Value) -> None:
    _check((np.asarray(a) > 0.0) & (np.asarray(b) > 0.0), "both parameters must be positive")


def _gamma_mean(shape: Value, scale: Value) -> Value:
    _positive(shape, scale)
    return _where(True, np.multiply(shape, scale))


def _beta_mean(a: Value, b: Value) -> Value:
    _positive(a, b)
    return _where(True, np.asarray(a) / np.add(a, b))


def _histogram_edges(args: tuple[Value, ...]) -> tuple[FloatArray, list[Value]]:
    if any(np.ndim(x) for x in (args[0], *args[1::2])):
        raise ValueError("the bounds of the bins must not be random")
    edges = np.array([args[0], *args[1::2]], dtype=np.float64)
    _check(np.diff(edges) > 0.0, "the bounds of the bins must rise")
    return edges, list(args[2::2])


def _histogram_mean(*args: Value) -> Value:
    edges, values = _histogram_edges(args)
    parts = [width * np.asarray(value) for width, value in zip(np.diff(edges), values, strict=True)]
    return _where(True, sum(parts[1:], parts[0]) / (edges[-1] - edges[0]))


def _histogram_draw(rng: np.random.Generator, size: int, *args: Value) -> FloatArray:
    edges, values = _histogram_edges(args)
    place = np.searchsorted(edges[1:], rng.uniform(edges[0], edges[-1], size), side="left")
    table = np.stack([np.broadcast_to(value, (size,)) for value in values])
    out: FloatArray = table[np.minimum(place, len(values) - 1), np.arange(size)]
    return out


def _checked(mean: Callable[..., Value], draw: Draw) -> tuple[Callable[..., Value], Draw]:
    """The two functions of a deviate, where drawing checks the parameters as the mean does."""

    def drawn(rng: np.random.Generator, size: int, *args: Value) -> FloatArray:
        mean(*args)
        return draw(rng, size, *args)

    return mean, drawn


DEVIATES: dict[str, tuple[Callable[..., Value], Draw]] = {
    "uniform-deviate": _checked(_uniform_mean, lambda rng, size, low, high: rng.uniform(low, high, size)),
    "normal-deviate": _checked(_normal_mean, lambda rng, size, mean, sigma: rng.normal(mean, sigma, size)),
    "lognormal-deviate": _checked(
        _lognormal_mean, lambda rng, size, *args: rng.lognormal(*_lognormal_parameters(args), size)
    ),
    "gamma-deviate": _checked(_gamma_mean, lambda rng, size, shape, scale: rng.gamma(shape, scale, size)),
    "beta-deviate": _checked(_beta_mean, lambda rng, size, a, b: rng.beta(a, b, size)),
    "histogram": _checked(_histogram_mean, _histogram_draw),
}

MANY = 1 << 30
OPERATIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "neg": (1, 1, _one(np.negative)),
    "add": (1, MANY, _fold(np.add)),
    "sub": (1, MANY, _fold(np.subtract)),
    "mul": (1, MANY, _fold(np.multiply)),
    "div": (1, MANY, _fold(np.divide)),
    "pi": (0, 0, lambda: math.pi),
    "mod": (2, 2, _fold(np.fmod)),
    "pow": (2, 2, _fold(np.power)),
    "min": (1, MANY, _fold(np.minimum)),
    "max": (1, MANY, _fold(np.maximum)),
    "mean": (1, MANY, lambda *args: _where(True, np.divide(_fold(np.add)(*args), len(args)))),
    "ite": (3, 3, lambda c, x, y: _where(np.asarray(c) != 0.0, x, y)),
    "switch": (1, MANY, _switch),
    "exponential": (2, 2, _exponential),
    "GLM": (4, 4, _glm),
    "Weibull": (4, 4, _weibull),
    "periodic-test": (4, 11, _periodic_test),
    "not": (1, 1, lambda x: _where(np.asarray(x) == 0.0, 1.0, 0.0)),
    "and": (1, MANY, lambda *args: _where(_fold(np.logical_and)(1.0, *args), 1.0, 0.0)),
    "or": (1, MANY, lambda *args: _where(_fold(np.logical_or)(0.0, *args), 1.0, 0.0)),
}
OPERATIONS |= {
    name: (1, 1, _one(function))
    for name, function in {
        "abs": np.abs, "acos": np.arccos, "asin": np.arcsin, "atan": np.arctan, "cos": np.cos, "cosh": np.cosh,
        "exp": np.exp, "log": np.log, "log10": np.log10, "sin": np.sin, "sinh": np.sinh, "tan": np.tan,
        "tanh": np.tanh, "sqrt": np.sqrt, "ceil": np.ceil, "floor": np.floor,
    }.items()
}  # fmt: skip
OPERATIONS |= {
    name: (2, 2, _fold(function))
    for name, function in {
        "eq": np.equal,
        "df": np.not_equal,
        "lt": np.less,
        "gt": np.greater,
        "leq": np.less_equal,
        "geq": np.greater_equal,
    }.items()
}
OPERATIONS |= {name: (2, 2, mean) for name, (mean, _) in DEVIATES.items()}
OPERATIONS["lognormal-deviate"] = (2, 3, _lognormal_mean)
OPERATIONS["histogram"] = (3, MANY, _histogram_mean)
