"""Builds circuits: operators on handles, and text such as ``(a | ~b) & atleast(2, c, d, e)``.

Equal gates are made once: a gate that reads the same inputs as an earlier one of its kind is that one, in whatever
order the inputs are given. Constants, repeats and double negations disappear on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sharpdnf.circuit import AND, ATLEAST, FALSE, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.errors import InvalidFormula, did_you_mean


@dataclass(frozen=True, slots=True)
class Gate:
    """A handle on a gate of a :class:`Builder`; ``&``, ``|``, ``^`` and ``~`` make new gates of the same builder."""

    builder: Builder
    number: int

    def __and__(self, other: Gate | bool) -> Gate:
        return self.builder.and_(self, other)

    def __or__(self, other: Gate | bool) -> Gate:
        return self.builder.or_(self, other)

    def __xor__(self, other: Gate | bool) -> Gate:
        return self.builder.xor(self, other)

    def __invert__(self) -> Gate:
        return self.builder.not_(self)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __bool__(self) -> bool:
        raise TypeError("a gate has no truth value: write & | ~ instead of and, or, not")

    def __repr__(self) -> str:
        return f"Gate({self.number})"


class Builder:
    """Grows a circuit gate by gate.

    >>> b = Builder()
    >>> rain, bike = b.var("rain", 0.3), b.var("bike", 0.5)
    >>> b.build(rain & ~bike).num_gates
    4
    """

    def __init__(self) -> None:
        self._kind: list[int] = []
        self._arg: list[int] = []
        self._inputs: list[tuple[int, ...]] = []
        self._same: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self._gate_of_var: list[int] = []
        self._prob: list[float] = []
        self._names: dict[str, int] = {}
        self._log_scale = 0.0

    @property
    def num_vars(self) -> int:
        """How many variables were made so far."""
        return len(self._prob)

    @property
    def num_gates(self) -> int:
        """How many different gates were made so far."""
        return len(self._kind)

    def var(self, name: str | None = None, prob: float | None = None) -> Gate:
        """A variable, with probability 1/2 unless given. A name that is known gives the variable that has it.

        Variables without a name are called x1, x2, ... by their number where others have names.
        """
        if name is not None and name in self._names:
            v = self._names[name]
            if prob is not None and float(prob) != self._prob[v]:
                raise InvalidFormula(f"variable {name!r} has probability {self._prob[v]} already, not {prob}")
            return Gate(self, self._gate_of_var[v])
        value = 0.5 if prob is None else float(prob)
        if not 0.0 <= value <= 1.0:
            shown = f"variable {name!r}" if name is not None else f"variable {self.num_vars + 1}"
            raise InvalidFormula(f"the probability of {shown} must lie in [0, 1], not {prob}")
        if name is not None:
            if not isinstance(name, str) or not name:
                raise InvalidFormula(f"a name must be a string that is not empty, not {name!r}")
            self._names[name] = self.num_vars
        self._prob.append(value)
        gate = self._new(VAR, self.num_vars - 1, ())
        self._gate_of_var.append(gate)
        return Gate(self, gate)

    def vars(self, probs: Mapping[str, float]) -> tuple[Gate, ...]:
        """A variable for each name of the mapping."""
        return tuple(self.var(name, prob) for name, prob in probs.items())

    def const(self, value: bool) -> Gate:
        """The gate that is always true, or always false."""
        return Gate(self, self._new(TRUE if value else FALSE, 0, ()))

    def not_(self, gate: Gate | bool) -> Gate:
        """The gate that is true where this one is false."""
        return Gate(self, self._negate(self._number(gate)))

    def and_(self, *gates: Gate | bool) -> Gate:
        """The gate that is true where all of these are; without any gate it is always true."""
        return Gate(self, self._nary(AND, [self._number(gate) for gate in gates]))

    def or_(self, *gates: Gate | bool) -> Gate:
        """The gate that is true where at least one of these is; without any gate it is always false."""
        return Gate(self, self._nary(OR, [self._number(gate) for gate in gates]))

    def xor(self, left: Gate | bool, right: Gate | bool) -> Gate:
        """The gate that is true where exactly one of the two is: (left and not right) or (right and not left)."""
        a, b = self._number(left), self._number(right)
        return Gate(self, self._xor(a, b))

    def atleast(self, k: int, *gates: Gate | bool) -> Gate:
        """The gate that is true where at least k of these are; a gate that is listed twice counts twice."""
        return Gate(self, self._atleast(k, [self._number(gate) for gate in gates]))

    def include(self, circuit: Circuit) -> list[Gate]:
        """Copies a circuit into this builder and returns its outputs.

        Variables with the same name become one variable; without names, variables with the same number do.
        """
        named = circuit.names is not None and (self.num_vars == 0 or bool(self._names))
        place: list[int] = []
        for v, p in enumerate(circuit.prob.tolist()):
            if named and circuit.names is not None:
                place.append(self.var(circuit.names[v], p).number)
            elif v < self.num_vars:
                if self._prob[v] != p:
                    raise InvalidFormula(f"variable {v + 1} has probability {self._prob[v]} already, not {p}")
                place.append(self._gate_of_var[v])
            else:
                place.append(self.var(None if circuit.names is None else circuit.names[v], p).number)
        numbers: list[int] = []
        bounds = circuit.indptr.tolist()
        inputs = circuit.inputs.tolist()
        for g, (kind, arg) in enumerate(zip(circuit.kind.tolist(), circuit.arg.tolist(), strict=True)):
            read = [numbers[i] for i in inputs[bounds[g] : bounds[g + 1]]]
            if kind == VAR:
                numbers.append(place[arg])
            elif kind == NOT:
                numbers.append(self._negate(read[0]))
            elif kind in (AND, OR):
                numbers.append(self._nary(kind, read))
            elif kind == ATLEAST:
                numbers.append(self._atleast(arg, read))
            else:
                numbers.append(self._new(kind, 0, ()))
        self._log_scale = max(self._log_scale, circuit.log_scale, key=abs)
        return [Gate(self, numbers[g]) for g in circuit.outputs.tolist()]

    def build(self, *outputs: Gate | bool, names: Sequence[str] | None = None) -> Circuit:
        """The circuit with these outputs: all variables, and the gates that the outputs need.

        ``names`` are the names of the outputs, one each.
        """
        if not outputs:
            raise InvalidFormula("a circuit needs at least one output")
        wanted = [self._number(gate) for gate in outputs]
        needed = [False] * self.num_gates
        for g in self._gate_of_var + wanted:
            needed[g] = True
        for g in range(self.num_gates - 1, -1, -1):
            if needed[g]:
                for i in self._inputs[g]:
                    needed[i] = True
        kept = [g for g in range(self.num_gates) if needed[g]]
        place = np.zeros(self.num_gates, np.int32)
        place[kept] = np.arange(len(kept))
        flat = [i for g in kept for i in self._inputs[g]]
        indptr = np.concatenate([[0], np.cumsum([len(self._inputs[g]) for g in kept])]).astype(np.int64)
        return Circuit(
            np.array([self._kind[g] for g in kept], np.uint8),
            np.array([self._arg[g] for g in kept], np.int32),
            indptr,
            place[np.array(flat, np.int64)],
            place[wanted],
            np.array(self._prob, np.float64),
            self._log_scale,
            self._all_names(),
            None if names is None else tuple(names),
        )

    def _all_names(self) -> tuple[str, ...] | None:
        if not self._names:
            return None
        out = [f"x{v}" for v in range(1, self.num_vars + 1)]
        for name, v in self._names.items():
            out[v] = name
        return tuple(out)

    def _number(self, gate: Gate | bool) -> int:
        if isinstance(gate, Gate):
            if gate.builder is not self:
                raise InvalidFormula("the gate belongs to another builder: include its circuit first")
            return gate.number
        if isinstance(gate, bool | np.bool_):
            return self._new(TRUE if gate else FALSE, 0, ())
        raise TypeError(f"expected a gate, True or False, not {type(gate).__name__}")

    def _new(self, kind: int, arg: int, inputs: tuple[int, ...]) -> int:
        key = (kind, arg, inputs)
        found = self._same.get(key)
        if found is None:
            found = self._same[key] = len(self._kind)
            self._kind.append(kind)
            self._arg.append(arg)
            self._inputs.append(inputs)
        return found

    def _negate(self, g: int) -> int:
        kind = self._kind[g]
        if kind == NOT:
            return self._inputs[g][0]
        if kind <= TRUE:
            return self._new(TRUE + FALSE - kind, 0, ())
        return self._new(NOT, 0, (g,))

    def _nary(self, kind: int, gates: Iterable[int]) -> int:
        nothing, all_of_it = (TRUE, FALSE) if kind == AND else (FALSE, TRUE)
        chosen = {g for g in gates if self._kind[g] != nothing}
        if any(self._kind[g] == all_of_it for g in chosen):
            return self._new(all_of_it, 0, ())
        if any(self._kind[g] == NOT and self._inputs[g][0] in chosen for g in chosen):
            return self._new(all_of_it, 0, ())
        if len(chosen) <= 1:
            return chosen.pop() if chosen else self._new(nothing, 0, ())
        return self._new(kind, 0, tuple(sorted(chosen)))

    def _xor(self, a: int, b: int) -> int:
        left = self._nary(AND, (a, self._negate(b)))
        return self._nary(OR, (left, self._nary(AND, (b, self._negate(a)))))

    def _atleast(self, k: int, gates: Sequence[int]) -> int:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise InvalidFormula(f"at least how many must be an integer, not {k!r}")
        need = int(k) - sum(self._kind[g] == TRUE for g in gates)
        rest = sorted(g for g in gates if self._kind[g] > TRUE)
        if need <= 0 or need > len(rest):
            return self._new(TRUE if need <= 0 else FALSE, 0, ())
        if need == 1 or need == len(rest):
            return self._nary(OR if need == 1 else AND, rest)
        return self._new(ATLEAST, need, tuple(rest))


_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d][\w.:\[\]]*)|(?P<number>\d+)|(?P<sign>[()~!&^|,]))")
_STRENGTH = {"|": 1, "^": 2, "&": 3}


class _TextReader:
    """Reads the text in one pass with a stack of its own, so that brackets may be nested as deeply as memory allows."""

    def __init__(self, text: str, prob: Mapping[str, float] | None) -> None:
        self.text, self.prob = text, prob
        self.builder = Builder()
        # Open brackets and operators that wait for their right side; each bracket remembers where it stands, whether
        # it is that of atleast, its number, and how many operands came before it.
        self.waiting: list[tuple[str, int, int, int]] = []
        self.values: list[int] = []

    def fail(self, at: int, message: str) -> InvalidFormula:
        line, column = self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1
        place = f"line {line}, column {column}" if "\n" in self.text else f"column {column}"
        return InvalidFormula(f"{place}: {message}")

    def tokens(self) -> Iterator[tuple[str, str, int]]:
        at, end = 0, len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                raise self.fail(at, f"unexpected {self.text[at]!r}: expected a name, ~ & ^ | or a bracket")
            yield match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)
            at = match.end()
        yield "end", "the end", len(self.text)

    def variable(self, name: str, at: int) -> int:
        if self.prob is None:
            return self.builder.var(name).number
        if name not in self.prob:
            raise self.fail(at, f"no probability is given for {name!r}{did_you_mean(name, self.prob)}")
        return self.builder.var(name, self.prob[name]).number

    def reduce(self, least: int) -> None:
        """Carries out the operators on top of the stack that bind at least as strongly."""
        while self.waiting and _STRENGTH.get(self.waiting[-1][0], 0) >= least:
            sign, _, before, _ = self.waiting.pop()
            operands = self.values[before:]
            del self.values[before:]
            if sign == "^":
                value = operands[0]
                for operand in operands[1:]:
                    value = self.builder._xor(value, operand)
            else:
                value = self.builder._nary(AND if sign == "&" else OR, operands)
            self.values.append(value)

    def operand(self, value: int) -> None:
        """A value stands here: negations before it apply to it."""
        while self.waiting and self.waiting[-1][0] == "~":
            self.waiting.pop()
            value = self.builder._negate(value)
        self.values.append(value)

    def operator(self, sign: str, at: int) -> None:
        """Ends what binds more strongly; a chain of the same operator becomes one gate."""
        self.reduce(_STRENGTH[sign] + 1)
        if not (self.waiting and self.waiting[-1][0] == sign):
            self.waiting.append((sign, at, len(self.values) - 1, 0))

    def close(self, at: int) -> None:
        self.reduce(1)
        if not self.waiting:
            raise self.fail(at, "this ) closes no bracket")
        sign, _, before, k = self.waiting.pop()
        operands = self.values[before:]
        del self.values[before:]
        self.operand(operands[0] if sign == "(" else self.builder._atleast(k, operands))

    def read(self) -> Circuit:
        tokens = self.tokens()
        value_next = True
        for group, token, at in tokens:
            if value_next:
                value_next = self.start(group, token, at, tokens)
            elif token in _STRENGTH:
                self.operator(token, at)
                value_next = True
            elif token == ",":
                self.reduce(1)
                if not self.waiting or self.waiting[-1][0] != "atleast":
                    raise self.fail(at, "a comma stands only inside atleast(k, ...)")
                value_next = True
            elif token == ")":
                self.close(at)
            elif group == "end":
                self.reduce(1)
                if self.waiting:
                    raise self.fail(self.waiting[-1][1], "this bracket is never closed")
            else:
                raise self.fail(at, f"expected & ^ | or ) before {token!r}")
        return self.finish()

    def start(self, group: str, token: str, at: int, tokens: Iterator[tuple[str, str, int]]) -> bool:
        """Reads what a value can start with; returns whether a value is still to come."""
        if token in ("~", "!"):
            self.waiting.append(("~", at, 0, 0))
        elif token == "(":
            self.waiting.append(("(", at, len(self.values), 0))
        elif group == "name" and token == "atleast":
            self.open_atleast(at, tokens)
        elif group == "name" and token in ("true", "false"):
            self.operand(self.builder.const(token == "true").number)
            return False
        elif group == "name":
            self.operand(self.variable(token, at))
            return False
        else:
            shown = repr(token) if group != "end" else "the end of the text"
            raise self.fail(at, f"expected a name, ~ or ( before {shown}")
        return True

    def open_atleast(self, at: int, tokens: Iterator[tuple[str, str, int]]) -> None:
        _, bracket, where = next(tokens)
        if bracket != "(":
            raise self.fail(where, "expected ( after atleast: write atleast(2, a, b, c)")
        group, k, where = next(tokens)
        if group != "number":
            raise self.fail(where, "expected a number after atleast(: write atleast(2, a, b, c)")
        _, comma, after = next(tokens)
        if comma != ",":
            raise self.fail(after, f"expected a comma after atleast({k}: write atleast(2, a, b, c)")
        self.waiting.append(("atleast", at, len(self.values), int(k)))

    def finish(self) -> Circuit:
        if self.prob is not None:
            self.builder.vars(self.prob)
        return self.builder.build(Gate(self.builder, self.values[0]))


def parse(text: str, prob: Mapping[str, float] | None = None) -> Circuit:
    """Builds from text such as ``(a | ~b) & atleast(2, c, d, e)``: see :meth:`sharpdnf.Circuit.parse`."""
    if not isinstance(text, str):
        raise TypeError(f"expected text such as '(a | ~b) & c', not {type(text).__name__}")
    if prob is not None and not isinstance(prob, Mapping):
        raise TypeError(f"prob must map names to probabilities, not be {type(prob).__name__}")
    return _TextReader(text, prob).read()
