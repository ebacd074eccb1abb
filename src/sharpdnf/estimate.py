"""Estimate, limits, and the (epsilon, delta) arithmetic that the engines share."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from sharpdnf.notebook import facts_table

Guarantee = Literal["exact", "relative", "additive", "bounds", "none"]
GUARANTEES: tuple[str, ...] = get_args(Guarantee)

OF = ("prob", "complement")
"""What a relative guarantee is about: P, or 1 - P, which is what matters where P is near 1."""

# A guarantee on the left also serves a request for one on the right, at the same epsilon.
SERVES: dict[str, tuple[str, ...]] = {
    "exact": ("exact", "relative", "additive", "bounds", "none"),
    "relative": ("relative", "additive", "none"),
    "additive": ("additive", "none"),
    "bounds": ("bounds", "none"),
    "none": ("none",),
}


UNIT = 2.0**-53  # the relative rounding of one operation on doubles

# What each field about 1 - P is derived from, and which way it is rounded: 1 - P is least where P is largest.
COMPLEMENTS = {
    "log_complement": ("log_prob", 0),
    "log_complement_lower": ("log_upper", -1),
    "log_complement_upper": ("log_lower", 1),
}


def log1mexp(x: float) -> float:
    """log(1 - exp(x)) for x <= 0."""
    if x >= 0.0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -math.log(2) else math.log1p(-math.exp(x)) + 0.0  # not -0


def log1mexp_towards(log_prob: float, direction: int) -> float:
    """log(1 - P) from log P, rounded down (-1), up (1) or not (0)."""
    out = log1mexp(log_prob)
    if math.isinf(log_prob) or math.isinf(out):
        return out
    return min(0.0, out + direction * max(8.0 * UNIT * abs(out), sys.float_info.min))


def exp_down(x: float) -> float:
    """A double that is at most exp(x), for x <= 0: exp may err by a unit in the last place."""
    return 1.0 if x == 0.0 else max(0.0, math.nextafter(math.nextafter(math.exp(x), 0.0), 0.0))


def exp_up(x: float) -> float:
    """A double that is at least exp(x), and at most 1."""
    return 0.0 if x == -math.inf else min(1.0, math.nextafter(math.nextafter(math.exp(x), 2.0), 2.0))


def safe_log(p: float) -> float:
    return math.log(p) if p > 0.0 else -math.inf


def check_tolerance(epsilon: float, delta: float) -> None:
    """Both in (0, 1): anything else is the caller's mistake."""
    if not 0.0 < epsilon < 1.0:
        raise ValueError(f"epsilon must lie strictly between 0 and 1, not {epsilon}")
    check_delta(delta)


def check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")


@dataclass(frozen=True, slots=True)
class Limit:
    """How long and with how much an engine may work. Engines return their best at the deadline, never nothing."""

    deadline: float = math.inf
    """In seconds of ``time.monotonic()``."""
    threads: int = 1
    memory: int = 2 << 30
    """Bytes an exact engine may use before it stops with its bounds."""

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self.deadline


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate:
    """An answer and what is promised about it.

    ``lower, upper`` hold with probability 1 - delta (surely, if the guarantee is exact or bounds);
    ``certified_lower, certified_upper`` hold surely. Logarithms are natural and primary: probabilities far below
    the smallest double come out right in ``log_prob``.

    ``log_complement`` is log(1 - P), right to many digits also where P is 1 within rounding; its interval
    ``log_complement_lower, log_complement_upper`` holds as ``lower, upper`` do. An engine that knows nothing better
    leaves the three out, and they are derived: near 1 log P is about -(1 - P), so ``log_prob`` has the digits of both.
    """

    log_prob: float
    """The natural logarithm of the answer; minus infinity if it is 0."""
    guarantee: str
    """What is promised: "exact", "relative", "additive", "bounds" or "none"."""
    engine: str
    """The name of the engine that gave the answer."""
    epsilon: float | None = None
    """The tolerance that is promised; None if the guarantee has none."""
    delta: float | None = None
    """The probability with which the promise may fail; None if the guarantee has none."""
    log_lower: float = -math.inf
    """The logarithm of ``lower``."""
    log_upper: float = 0.0
    """The logarithm of ``upper``."""
    log_certified_lower: float = -math.inf
    """The logarithm of ``certified_lower``."""
    log_certified_upper: float = 0.0
    """The logarithm of ``certified_upper``."""
    of: str = "prob"
    """What a relative guarantee is about: "complement" says 1 - P, which serves P too where P is at least 1/2."""
    log_complement: float = math.nan
    """The logarithm of 1 - P."""
    log_complement_lower: float = math.nan
    """The logarithm of ``complement_lower``."""
    log_complement_upper: float = math.nan
    """The logarithm of ``complement_upper``."""
    samples: int = 0
    """How many draws the answer rests on; 0 if none was made."""
    seconds: float = 0.0
    """The wall-clock time of the whole call, in seconds."""
    seed: int | None = None
    """The seed that repeats this answer when it is passed as ``rng``; None if the engine was called directly."""
    met: bool = True
    """Whether the guarantee that was asked for is kept; False where a limit of time or memory came first."""
    count: int | float | None = None
    """2^n P, an int where it is exact; None for an answer that is not a count, such as a conditional probability."""
    log_wmc: float | None = None
    """The natural logarithm of the weighted model count; None for an answer that is not a count."""
    info: dict[str, Any] = field(default_factory=dict)
    """What the engine tells about its work, by name: which method answered, why it stopped."""

    def __repr__(self) -> str:
        """The probability, its interval and what is promised; the fields have the rest."""
        return f"Estimate({self.prob:.6g} in [{self.lower:.6g}, {self.upper:.6g}], {self.promise()}, {self.engine})"

    def _repr_html_(self) -> str:
        facts = [("probability", f"{self.prob:.6g}" if self.log_prob > -690.0 else f"exp({self.log_prob:.6g})")]
        if self.prob > 0.5:
            facts.append(("1 - probability", f"{self.complement:.6g}"))
        facts += [("interval", f"[{self.lower:.6g}, {self.upper:.6g}]"), ("guarantee", self.promise())]
        return facts_table("Estimate", [*facts, ("engine", self.engine)])

    def promise(self) -> str:
        """What is promised, in a few words."""
        if not self.met:
            return "not met in the limit"
        if self.guarantee in ("relative", "additive") and self.epsilon is not None and self.delta is not None:
            what = "1 - P within a factor 1 ± " if self.of == "complement" else "within a factor 1 ± "
            width = f"{what}{self.epsilon:g}" if self.guarantee == "relative" else f"within ± {self.epsilon:g}"
            return f"{width} with probability {1.0 - self.delta:g}" if self.delta else f"{width} surely"
        return {"bounds": "a certain interval", "none": "no guarantee"}.get(self.guarantee, self.guarantee)

    def __post_init__(self) -> None:
        for name, (of, direction) in COMPLEMENTS.items():
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, log1mexp_towards(getattr(self, of), direction))

    @property
    def prob(self) -> float:
        """The answer P; 0 where it is smaller than any double, although ``log_prob`` tells it."""
        return math.exp(self.log_prob)

    @property
    def complement(self) -> float:
        """1 - P, which subtraction from 1 would lose where P is near 1."""
        return math.exp(self.log_complement)

    @property
    def complement_lower(self) -> float:
        """The lower end of the interval of 1 - P, which holds as ``lower`` does."""
        return exp_down(self.log_complement_lower)

    @property
    def complement_upper(self) -> float:
        """The upper end of the interval of 1 - P, which holds as ``upper`` does."""
        return exp_up(self.log_complement_upper)

    @property
    def lower(self) -> float:
        """The lower end of the interval that holds P with probability 1 - delta, or surely: see the class."""
        return exp_down(self.log_lower)

    @property
    def upper(self) -> float:
        """The upper end of that interval."""
        return exp_up(self.log_upper)

    @property
    def certified_lower(self) -> float:
        """A lower bound of P that holds surely; 0 if none is known."""
        return exp_down(self.log_certified_lower)

    @property
    def certified_upper(self) -> float:
        """An upper bound of P that holds surely; 1 if none is known."""
        return exp_up(self.log_certified_upper)

    def replace(self, **changes: Any) -> Estimate:
        """A copy with some fields changed; a changed probability takes its complement along."""
        for name, (of, _) in COMPLEMENTS.items():
            if of in changes and changes[of] != getattr(self, of):
                changes.setdefault(name, math.nan)
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON: -inf and nan become null."""
        names = [
            "prob",
            "log_prob",
            "lower",
            "upper",
            "certified_lower",
            "certified_upper",
            "log_lower",
            "log_upper",
            "log_certified_lower",
            "log_certified_upper",
            "complement",
            "log_complement",
            "log_complement_lower",
            "log_complement_upper",
            "guarantee",
            "of",
            "epsilon",
            "delta",
            "engine",
            "samples",
            "seconds",
            "seed",
            "met",
            "count",
            "log_wmc",
            "info",
        ]

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {str(key): plain(item) for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [plain(item) for item in value]
            return None if isinstance(value, float) and not math.isfinite(value) else value

        return {name: plain(getattr(self, name)) for name in names}


def model_count(log_prob: float, num_vars: int) -> float:
    """2^n P as a double, inf beyond it."""
    log_count = log_prob + num_vars * math.log(2.0)
    return math.exp(log_count) if log_count < 709.0 else math.inf


def exact_estimate(
    log_prob: float,
    engine: str,
    *,
    log_lower: float | None = None,
    log_upper: float | None = None,
    seconds: float = 0.0,
    **rest: Any,
) -> Estimate:
    """An Estimate whose interval is as wide as rounding, or what was left out, may have made it.

    Without bounds the logarithm itself is taken for right to eight units in its last place, and 0 and 1 for exact.
    """
    log_lower = log_prob * (1.0 + 8.0 * UNIT) if log_lower is None else log_lower
    log_upper = log_prob * (1.0 - 8.0 * UNIT) if log_upper is None else log_upper
    return Estimate(
        log_prob=log_prob,
        guarantee="exact",
        engine=engine,
        log_lower=log_lower,
        log_upper=log_upper,
        log_certified_lower=log_lower,
        log_certified_upper=log_upper,
        seconds=seconds,
        **rest,
    )
