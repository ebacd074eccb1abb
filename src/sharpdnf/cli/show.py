"""Estimate -> text: for people, as JSON, and as the lines of the model counting competition."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharpdnf.circuit import Circuit
    from sharpdnf.dnf import DNF
    from sharpdnf.estimate import Estimate

LN10 = math.log(10)
SMALLEST = math.log(1e-300)  # smaller doubles lose digits, and then become 0


def scientific(log_value: float, digits: int = 6) -> str:
    """exp(log_value) to ``digits`` significant digits, whatever its size."""
    if log_value == -math.inf:
        return "0"
    if SMALLEST < log_value < -SMALLEST:
        return f"{math.exp(log_value):.{digits}g}"
    exponent = math.floor(log_value / LN10)
    mantissa = f"{math.exp(log_value - exponent * LN10):.{digits - 1}f}"
    if mantissa.startswith("10"):
        exponent, mantissa = exponent + 1, f"{1:.{digits - 1}f}"
    return f"{mantissa}e{exponent:+03d}"


def true_digits(log_value: float) -> int:
    """How many digits of exp(log_value) a double's logarithm still knows: its rounding grows with its size."""
    return 15 - math.ceil(math.log10(max(1.0, abs(log_value)))) if math.isfinite(log_value) else 15


def whole(value: int) -> str:
    """An integer in full if a person can read it, else its leading digits."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[0]}.{text[1:7]}...e+{len(text) - 1} ({len(text)} digits)"


def duration(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1.0 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


def guarantee(estimate: Estimate) -> str:
    """What the estimate promises, as a phrase for people."""
    if not estimate.met:
        return "NOT MET in the limit: the best estimate so far; the interval holds surely"
    promised = {
        "exact": "exact",
        "relative": f"within a factor of 1 ± {estimate.epsilon:g}" if estimate.epsilon else "relative",
        "additive": f"within ± {estimate.epsilon:g}" if estimate.epsilon else "additive",
        "bounds": "the interval holds surely",
        "none": "none: an estimate without a promise",
    }[estimate.guarantee]
    if estimate.guarantee == "relative" and estimate.of == "complement":
        promised = "the complement is " + promised
    if estimate.guarantee in ("relative", "additive") and estimate.delta is not None:
        promised += f" with probability {100 * (1 - estimate.delta):.10g} %" if estimate.delta else ", surely"
    return promised


def interval(estimate: Estimate) -> str:
    low, high = estimate.log_lower, estimate.log_upper
    if not estimate.met:
        low, high = estimate.log_certified_lower, estimate.log_certified_upper
    return f"[{scientific(low)}, {scientific(high)}]"


def interval_holds(estimate: Estimate) -> bool:
    """Whether the interval is promised; that of an engine without a promise may be a guess."""
    certain = (estimate.log_certified_lower, estimate.log_certified_upper)
    return not estimate.met or estimate.guarantee != "none" or (estimate.log_lower, estimate.log_upper) == certain


def unweighted(dnf: DNF | Circuit) -> bool:
    """Whether the answer is a number of models: no weights (a scale of 1) or weights of 1 (a scale of 2^n)."""
    plain = dnf.log_scale == 0.0 or math.isclose(dnf.log_scale, dnf.num_vars * math.log(2), rel_tol=1e-12)
    return plain and bool((dnf.prob == 0.5).all())


def weighted_count(dnf: DNF | Circuit, estimate: Estimate) -> tuple[str, str] | None:
    """(name, value) of the count that the formula asks for, if it is more than a probability."""
    if unweighted(dnf):
        if isinstance(estimate.count, int):
            return "models", whole(estimate.count)
        return "models", "about " + scientific(estimate.log_prob + dnf.num_vars * math.log(2))
    if dnf.log_scale:
        return "weighted count", scientific(estimate.log_prob + dnf.log_scale)
    return None


def _parts(dnf: DNF | Circuit) -> str:
    from sharpdnf.circuit import Circuit

    if isinstance(dnf, Circuit):
        return f"{dnf.num_gates} gates, {dnf.num_inputs} inputs"
    return f"{dnf.num_clauses} clauses, {dnf.num_literals} literals"


def _may_hold(dnf: DNF | Circuit, estimate: Estimate) -> bool:
    """Whether a formula has models: a DNF has them if it has clauses, a circuit if its probability is not surely 0."""
    from sharpdnf.circuit import Circuit

    return estimate.log_certified_upper > -math.inf if isinstance(dnf, Circuit) else dnf.num_clauses > 0


def block(name: str, dnf: DNF | Circuit, estimate: Estimate) -> str:
    """One formula and its answer as text, one fact per line."""
    title = f"{name}: {dnf.num_vars} variables, {_parts(dnf)}"
    notes = [("note", note) for note in dnf.notes]
    return "\n".join([title, *("  " + line for line in estimate_lines(estimate, weighted_count(dnf, estimate), notes))])


def estimate_lines(
    estimate: Estimate, counted: tuple[str, str] | None = None, notes: Sequence[tuple[str, str]] = ()
) -> list[str]:
    """An answer as text, one fact per line; the count of a formula comes after the probability, notes come last."""
    facts = [("probability", scientific(estimate.log_prob))]
    if counted is not None:
        facts.append(counted)
    if estimate.of == "complement" or estimate.prob > 0.5:
        low, high = scientific(estimate.log_complement_lower), scientific(estimate.log_complement_upper)
        facts.append(("complement", f"{scientific(estimate.log_complement)} in [{low}, {high}]"))
    facts.append(("interval", interval(estimate) + ("" if interval_holds(estimate) else ", not a guarantee")))
    facts.append(("guarantee", guarantee(estimate)))
    samples = f", {estimate.samples} samples, seed {estimate.seed}" if estimate.samples else ""
    facts.append(("engine", f"{estimate.engine} in {duration(estimate.seconds)}{samples}"))
    return [f"{key:<15}{value}" for key, value in [*facts, *notes]]


def row_header(width: int) -> str:
    return f"{'file':<{width}}  {'probability':<12}  {'interval':<27}  {'guarantee':<10}  {'engine':<11}  time"


def row(name: str, estimate: Estimate, width: int) -> str:
    """An answer as one line of a table; ``width`` is that of the first column, in characters."""
    kind = estimate.guarantee if estimate.met else "NOT MET"
    return (
        f"{name:<{width}}  {scientific(estimate.log_prob):<12}  {interval(estimate):<27}  {kind:<10}  "
        f"{estimate.engine:<11}  {duration(estimate.seconds)}"
    )


def json_line(name: str, estimate: Estimate) -> str:
    """The file's name and the fields of its Estimate as one line of JSON, with null for -inf."""

    def plain(value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else str(value)  # numpy's scalars and arrays

    return json.dumps({"file": name, **estimate.to_dict()}, default=plain, allow_nan=False)


def competition_lines(dnf: DNF | Circuit, estimate: Estimate) -> str:
    """The output of the model counting competition; a pac line only where that guarantee holds."""
    plain = unweighted(dnf)
    log_value = estimate.log_prob + (dnf.num_vars * math.log(2) if plain else dnf.log_scale)
    log10 = "-inf" if log_value == -math.inf else f"{log_value / LN10:.15g}"
    lines = [
        f"s {'SATISFIABLE' if _may_hold(dnf, estimate) else 'UNSATISFIABLE'}",
        f"c s type {'mc' if plain else 'wmc'}",
        f"c s log10-estimate {log10}",
    ]
    exact = estimate.met and estimate.guarantee == "exact"
    if estimate.met and estimate.guarantee == "relative":
        lines.append(f"c s pac guarantees epsilon: {estimate.epsilon:g} delta: {estimate.delta:g}")
    if exact and plain and isinstance(estimate.count, int):
        lines.append(f"c s exact arb int {estimate.count}")
    else:
        digits = scientific(log_value, true_digits(log_value))
        lines.append(f"c s {'exact' if exact and not plain else 'approx'} arb float {digits}")
    return "\n".join(lines)


def plain_table(rows: list[dict[str, Any]]) -> str:
    """Rows as a table in plain text: numbers with six digits aligned to the right, words to the left."""
    if not rows:
        return "(no rows)"
    cells = [[f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    numeric = [all(isinstance(row[name], int | float) for row in rows) for name in rows[0]]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(rows[0])]
    lines = []
    for line in [list(rows[0]), *cells]:
        padded = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(line, widths, numeric, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
