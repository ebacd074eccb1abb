"""Learning from interpretations: the probabilities t(_) of a ProbLog program from examples of what was seen.

>>> from sharpdnf import problog
>>> examples = "evidence(some, false). --- evidence(some). evidence(one). --- evidence(some). evidence(one, false)."
>>> learned = problog.learn("t(_)::one. t(_)::two. some :- one. some :- two.", examples, rng=1)
>>> {name: round(p, 6) for name, p in learned.probabilities.items()}
{'one': 0.333333, 'two': 0.5}

Each example is a circuit, compiled once; from then on its likelihood and the slope in every probability are one pass
forwards and one backwards through ``Compiled``. With the slope s of log P(example) in the probability p of a fact,
P(fact | example) = p (1 + (1 - p) s), so a step of expectation maximisation, whose likelihood never falls, needs
nothing but slopes. The steps are extrapolated (Varadhan and Roland 2008, SQUAREM) as long as that does not make the
examples less likely. As in ProbLog, several heads t(_) of one annotated disjunction share all that its other heads
leave: one of them holds.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

import numpy as np

from sharpdnf.circuit_compile import compile_circuit
from sharpdnf.compiled import Compiled
from sharpdnf.dnf import FloatArray
from sharpdnf.engines.front import Seed, make_limit, make_rng
from sharpdnf.engines.registry import refuse_options
from sharpdnf.errors import InvalidProgram, LimitError
from sharpdnf.estimate import Limit
from sharpdnf.fronts.ground import Program, assemble, chain_prob, ground, text_of, to_circuit

SEPARATOR = re.compile(r"-{3,}")
PLACES = 15
"""How many digits a probability has in the text of a learned program."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The parameters under which the examples are most likely, as far as climbing from the start found them."""

    probabilities: dict[str, float]
    """The probability of each head that was written t(...)::head."""
    program: str
    """The program with these numbers. A clause that no example needs keeps its t(...)."""
    log_likelihood: float
    """log P(all examples together) under the learned probabilities."""
    iterations: int
    """How many steps the climb took."""
    met: bool
    """Whether the climb came to its end; else the limit on iterations or time came first."""
    seed: int
    """The seed of the random numbers at which probabilities written t(_) start."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """An annotated disjunction (or fact) of a ground example: the variable and the probability of each choice, or its
    parameter. Choices that the example does not need are not among them."""

    variables: list[int]
    chances: list[float]
    parameters: list[int]
    heads: int
    """The number of the clause whose heads these choices are."""

    def known(self, theta: FloatArray) -> list[float]:
        return [p if k < 0 else float(theta[k]) for p, k in zip(self.chances, self.parameters, strict=True)]


@dataclass(frozen=True, slots=True)
class _Example:
    compiled: Compiled
    prob: FloatArray
    """float64[n]: the probabilities of the variables; those of ``choices`` follow from the parameters."""
    choices: list[_Choice]
    times: int
    """How many examples are like this one."""
    text: str

    def look(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """(log P(example), P(variable | example) of each variable, P(variable)), by one pass there and back."""
        for choice in self.choices:
            self.prob[choice.variables] = chain_prob(choice.known(theta))
        log_prob, slope = self.compiled.log_gradient(self.prob)
        return log_prob, self.prob * (1.0 + (1.0 - self.prob) * slope), self.prob


@dataclass(frozen=True, slots=True)
class _Heads:
    """The heads to be learned of one clause and binding, and what the other heads of the clause leave to them."""

    parameters: list[int]
    left: float

    def fit(self, theta: FloatArray) -> None:
        """Several heads share all that is left; a single one has at most that."""
        own = theta[self.parameters]
        if len(own) > 1:
            own = own * self.left / own.sum() if own.sum() > 0.0 else np.full(len(own), self.left / len(own))
        theta[self.parameters] = np.clip(own, 0.0, self.left)


def learn(
    program: str | Path,
    examples: str | Path | Iterable[str],
    *,
    iterations: int = 10_000,
    tolerance: float = 1e-10,
    rng: Seed = None,
    timeout: float | None = None,
    **unknown: Never,
) -> Learned:
    """The probabilities written t(...) in a program, learned from examples.

    ``examples`` is a file or a text of ``evidence(atom).`` and ``evidence(atom, false).`` with a line of dashes between
    two examples, as ProbLog reads it, or one text an example. ``t(0.3)`` starts at 0.3, ``t(_)`` at random, and
    ``t(_, X)`` has a parameter for each value of X. It ends when a step changes no parameter by ``tolerance``.
    """
    refuse_options(learn, unknown)
    if iterations < 1 or not 0.0 < tolerance < 1.0:
        raise ValueError("iterations must be at least 1, and tolerance between 0 and 1")
    limit = make_limit(timeout, 1)
    generator, seed = make_rng(rng)
    file, text = text_of(program)
    texts = Counter(split(examples))
    if not texts:
        raise InvalidProgram(f"{file}: there is no example to learn from")
    table = ground(file, {"text": text, "examples": list(texts)}, limit)
    parameters = table["parameters"]
    if not parameters:
        raise InvalidProgram(f"{file}: no example needs a probability that is to be learned: write t(_)::head")
    heads = _heads(parameters)
    heads_of = {k: number for number, own in enumerate(heads) for k in own.parameters}
    made = [
        _compile(assemble(ground_program, file), heads_of, text, times, file, limit)
        for ground_program, (text, times) in zip(table["programs"], texts.items(), strict=True)
    ]
    climb = _Climb(made, heads, limit)
    theta, log_likelihood, steps, met = climb.run(_start(parameters, heads, generator, file), iterations, tolerance)
    named = {entry["name"]: float(p) for entry, p in zip(parameters, theta, strict=True)}
    assert len(named) == len(parameters), "two parameters have one name"
    return Learned(named, _written(table, theta), log_likelihood, steps, met, seed)


def split(examples: str | Path | Iterable[str]) -> list[str]:
    """The texts of the examples; those without evidence are left out."""
    if isinstance(examples, Path) or (isinstance(examples, str) and "\n" not in examples and examples.endswith(".ev")):
        try:
            examples = Path(examples).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProgram(f"{examples} cannot be read: {error}") from None
    several = SEPARATOR.split(examples) if isinstance(examples, str) else list(examples)
    return [text.strip() for text in several if "evidence" in text]


def _compile(program: Program, heads_of: dict[int, int], text: str, times: int, file: str, limit: Limit) -> _Example:
    circuit = to_circuit(program)
    compiled = None if circuit is None else compile_circuit(circuit[circuit.num_outputs - 1], limit)
    if compiled is None:
        raise LimitError(f"{file}: the example {text!r:.80} could not be compiled within the time or memory limit")
    choices = []
    for members in program.choices:
        if not members:
            continue
        variables, chances, parameters = (list(column) for column in zip(*members, strict=True))
        own = [k for k in parameters if k >= 0]
        if own:
            choices.append(_Choice(variables, chances, parameters, heads_of[own[0]]))
    return _Example(compiled, program.prob.copy(), choices, times, text)


def _heads(parameters: list[dict[str, Any]]) -> list[_Heads]:
    firsts = [entry for number, entry in enumerate(parameters) if entry["heads"][0] == number]
    return [_Heads(entry["heads"], 1.0 - entry["fixed"]) for entry in firsts]


def _room(all_heads: list[_Heads]) -> FloatArray:
    """float64[parameters]: the most that each may be."""
    room = np.ones(sum(len(heads.parameters) for heads in all_heads))
    for heads in all_heads:
        room[heads.parameters] = heads.left
    return room


def _start(
    parameters: list[dict[str, Any]], all_heads: list[_Heads], rng: np.random.Generator, file: str
) -> FloatArray:
    """What t(p) says, or a draw; the heads of one clause are then brought into the room they have."""
    given = np.array([math.nan if entry["start"] is None else entry["start"] for entry in parameters])
    for entry, p in zip(parameters, given, strict=True):
        if p < 0.0 or p > 1.0:
            raise InvalidProgram(f"{file}: {entry['name']} starts at {p:g}: expected a number between 0 and 1")
    drawn = rng.uniform(0.2, 0.8, len(given)) * _room(all_heads)
    theta = np.where(np.isnan(given), drawn, given)
    for heads in all_heads:
        if heads.left < -1e-9:
            name = parameters[heads.parameters[0]]["name"]
            raise InvalidProgram(f"{file}: the other heads of the annotated disjunction with {name} exceed 1")
        heads.fit(theta)
    return theta


class _Climb:
    """Expectation maximisation: every step makes the examples at least as likely as they were."""

    def __init__(self, examples: list[_Example], heads: list[_Heads], limit: Limit) -> None:
        self.examples, self.heads, self.limit = examples, heads, limit
        self.room = _room(heads)

    def run(self, theta: FloatArray, iterations: int, tolerance: float) -> tuple[FloatArray, float, int, bool]:
        """(parameters, log-likelihood, steps taken, whether the last step changed nothing)."""
        self._possible(theta)
        steps = 0
        while steps < iterations and not self.limit.expired:
            _, first = self.step(theta)
            steps += 1
            if np.abs(first - theta).max() < tolerance:
                return first, self.step(first)[0], steps, True
            before, second = self.step(first)
            far = self._further(theta, first, second)
            likelihood, further = self.step(far)
            steps += 2
            theta = further if likelihood >= before else second
        return theta, self.step(theta)[0], steps, False

    def _further(self, theta: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
        """Where steps of this length and change lead to, but at most nine tenths of the way to their ends: what has
        arrived at 0 could not come back."""
        one, change = first - theta, second - 2.0 * first + theta
        size = float(np.linalg.norm(change))
        stride = max(1.0, float(np.linalg.norm(one)) / size) if size > 0.0 else 1.0
        out: FloatArray = theta + 2.0 * stride * one + stride**2 * change
        out = np.clip(out, 0.1 * second, self.room - 0.1 * (self.room - second))
        for heads in self.heads:
            heads.fit(out)
        return out

    def step(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The log-likelihood of the parameters, and the parameters after one step."""
        total, taken = 0.0, np.zeros(len(theta))
        tries, none = np.zeros(len(self.heads)), np.zeros(len(self.heads))
        for example in self.examples:
            log_prob, posterior, own = example.look(theta)
            if log_prob == -math.inf:
                return -math.inf, theta
            total += example.times * log_prob
            for choice in example.choices:
                heads = self.heads[choice.heads]
                left = _tally(choice, posterior, own, example.times, taken)
                # Choices that the example does not need share the rest in proportion to their probabilities.
                missing = [k for k in heads.parameters if k not in choice.parameters]
                room = 1.0 - sum(choice.known(theta))
                if room > 0.0:
                    taken[missing] += left * theta[missing] / room
                    none[choice.heads] += left * max(heads.left - float(theta[heads.parameters].sum()), 0.0) / room
                tries[choice.heads] += example.times
        after = theta.copy()
        for number, heads in enumerate(self.heads):
            counts = taken[heads.parameters]
            of = float(counts.sum()) + (none[number] if len(counts) == 1 else 0.0)
            if tries[number] and of > 0.0:
                after[heads.parameters] = heads.left * counts / of
        return total, after

    def _possible(self, theta: FloatArray) -> None:
        for example in self.examples:
            if example.look(theta)[0] == -math.inf:
                raise InvalidProgram(f"the example {example.text!r:.200} cannot hold: it contradicts the program")


def _tally(choice: _Choice, posterior: FloatArray, own: FloatArray, times: int, taken: FloatArray) -> float:
    """Adds how often each choice was taken, given the example; returns how often none of them was."""
    earlier = 0.0  # a variable behind a choice that was taken is free: it follows its own probability
    for v, k in zip(choice.variables, choice.parameters, strict=True):
        here = max(float(posterior[v] - own[v] * earlier), 0.0)
        earlier += here
        if k >= 0:
            taken[k] += times * here
    return times * max(1.0 - earlier, 0.0)


def _written(table: dict[str, Any], theta: FloatArray) -> str:
    """The program with its learned numbers, a clause of several bindings once for each."""
    text = []
    for line in table["lines"]:
        if isinstance(line, str):
            text.append(line)
            continue
        entries = [(entry, p) for entry, p in zip(table["parameters"], theta, strict=True) if entry["clause"] == line]
        for clause in dict.fromkeys(entry["text"] for entry, _ in entries):
            own = [(f"{entry['marker']}::", f"{float(f'{p:.{PLACES}f}')!r}::") for entry, p in entries]
            text.append(functools.reduce(lambda line, change: line.replace(*change), own, clause))
    return "\n".join(text) + "\n"
