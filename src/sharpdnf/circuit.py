"""The second core type: an immutable Boolean circuit over independent variables, with outputs that share gates.

A DNF is one shape; negation, "at least two of these", fault trees and reachability are circuits. Gates stand in an
order in which inputs come before the gates that read them. Build one with :meth:`Circuit.parse`, with a
:class:`~sharpdnf.builder.Builder`, from a DNF, or from arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sharpdnf.dnf import DNF, MAX_VARS, FloatArray, IntArray, _check_names, _finite, _freeze, own, plain_array
from sharpdnf.errors import InvalidFormula, LimitError, did_you_mean

FALSE, TRUE, VAR, NOT, AND, OR, ATLEAST = range(7)
KINDS = ("false", "true", "var", "not", "and", "or", "atleast")
DNF_LIMIT = 100_000
"""The most literals that ``to_dnf`` makes, unless its caller names another limit."""

ByteArray = npt.NDArray[np.uint8]
GateArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Circuit:
    """Gates as arrays: gate ``g`` reads the gates ``inputs[indptr[g]:indptr[g + 1]]``, all of them before ``g``.

    ``kind[g]`` is FALSE, TRUE, VAR (variable ``arg[g]``, 0-based), NOT (one input), AND, OR or ATLEAST (at least
    ``arg[g]`` of the inputs are true; an input that is listed twice counts twice). ``outputs`` are the gates that are
    asked about. ``prob``, ``log_scale`` and ``names`` of the variables are as in :class:`~sharpdnf.DNF`.
    """

    kind: ByteArray
    """uint8[g]: what each gate does."""
    arg: GateArray
    """int32[g]: the variable of a VAR, the k of an ATLEAST, else 0."""
    indptr: IntArray
    """int64[g + 1]: where the inputs of each gate begin and end."""
    inputs: GateArray
    """int32[indptr[g]]: the gates that are read, all before the reader."""
    outputs: GateArray
    """int32[k]: the gates that are asked about."""
    prob: FloatArray
    """float64[n]: the probability that each variable is true."""
    log_scale: float = 0.0
    """The logarithm of the factor that turns a probability into the weighted model count; 0 without weights."""
    names: tuple[str, ...] | None = None
    """The names of the variables, or None if they have none."""
    output_names: tuple[str, ...] | None = None
    """The names of the outputs, or None if they have none."""
    notes: tuple[str, ...] = field(default=())
    """What reading a file changed on the way in, in words."""

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            array = plain_array(name, getattr(self, name), dtype)
            if array.ndim != 1:
                raise InvalidFormula(f"{name} must be one-dimensional, not of shape {array.shape}")
            object.__setattr__(self, name, own(array))
        _check_gates(self)
        object.__setattr__(self, "log_scale", _finite("log_scale", self.log_scale))
        if self.names is not None:
            object.__setattr__(self, "names", tuple(self.names))
            _check_names(tuple(self.names), self.num_vars)
        if self.output_names is not None:
            object.__setattr__(self, "output_names", tuple(self.output_names))
            if len(self.output_names) != self.num_outputs:
                raise InvalidFormula(f"{len(self.output_names)} output names for {self.num_outputs} outputs")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied through ``trusted``, so that the arrays stay read-only."""
        return type(self).trusted, tuple(getattr(self, name) for name in Circuit.__slots__)

    @classmethod
    def trusted(cls, *values: Any, **rest: Any) -> Self:
        """Wraps arrays of a valid circuit that nobody else can write, in the order of the fields: no check, no copy."""
        self = object.__new__(cls)
        given = dict(zip(cls.__slots__, values, strict=False)) | rest
        given = {"log_scale": 0.0, "names": None, "output_names": None, "notes": ()} | given
        for name in cls.__slots__:
            object.__setattr__(self, name, _freeze(given[name]) if name in _DTYPES else given[name])
        return self

    @classmethod
    def parse(cls, text: str, prob: Mapping[str, float] | None = None) -> Circuit:
        """Builds from text such as ``(a | ~b) & atleast(2, c, d, e)``.

        ``~`` or ``!`` negates and binds tightest, then ``&``, ``^`` (exclusive or) and ``|``; ``true`` and ``false``
        are constants. Variables are numbered in the order in which they appear. Without ``prob`` all probabilities
        are 1/2; with it a name that it does not have is an error, and names that only it has are variables too.
        """
        from sharpdnf.builder import parse

        return parse(text, prob)

    @classmethod
    def from_dnf(cls, dnf: DNF) -> Circuit:
        """The OR of an AND for each clause, over the same variables. NOT gates are made for negated literals only."""
        n, m = dnf.num_vars, dnf.num_clauses
        negated = np.unique(dnf.literals[(dnf.literals & 1) == 1] >> 1)
        place = np.arange(2 * n, dtype=np.int64) >> 1
        place[2 * negated + 1] = n + np.arange(len(negated))
        first_clause = n + len(negated)
        kind = np.repeat(np.array([VAR, NOT, AND, OR], np.uint8), [n, len(negated), m, 1])
        arg = np.zeros(len(kind), np.int32)
        arg[:n] = np.arange(n)
        widths = np.concatenate([np.zeros(n, np.int64), np.ones(len(negated), np.int64), dnf.widths, [m]])
        inputs = np.concatenate([negated, place[dnf.literals], first_clause + np.arange(m)])
        indptr = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        outputs = np.array([len(kind) - 1], np.int32)
        arrays = (kind, arg, indptr, inputs.astype(np.int32), outputs, dnf.prob)
        return cls.trusted(*arrays, dnf.log_scale, dnf.names, None, dnf.notes)

    def to_dnf(self, limit: int = DNF_LIMIT, output: int | str = 0) -> DNF:
        """One output as a DNF of at most ``limit`` literals, by distributing AND over OR; beyond it a LimitError.

        Repeated clauses are dropped; clauses that another one implies are not, so the DNF need not be the shortest.
        """
        from sharpdnf.relax import to_dnf

        dnf = to_dnf(self[output], limit)
        if dnf is None:
            raise LimitError(
                f"the circuit has no DNF of at most {limit} literals by distributing AND over OR: "
                "raise the limit, or count the circuit as it is"
            )
        return dnf

    @property
    def num_vars(self) -> int:
        """How many variables there are, also those that no gate reads."""
        return len(self.prob)

    @property
    def num_gates(self) -> int:
        """How many gates there are, variables and constants included."""
        return len(self.kind)

    @property
    def num_inputs(self) -> int:
        """The inputs of all gates together."""
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        """How many gates are asked about."""
        return len(self.outputs)

    @property
    def arrays(self) -> tuple[ByteArray, GateArray, IntArray, GateArray]:
        """(kind, arg, indptr, inputs): what the kernels take for the gates."""
        return self.kind, self.arg, self.indptr, self.inputs

    def __len__(self) -> int:
        return self.num_outputs

    def __getitem__(self, output: int | str) -> Circuit:
        """The circuit of one output, by position or by name, over the same variables and gates."""
        index = self.output_index(output)
        if self.num_outputs == 1:
            return self
        names = None if self.output_names is None else (self.output_names[index],)
        chosen = self.outputs[index : index + 1].copy()
        return Circuit.trusted(*self.arrays, chosen, self.prob, self.log_scale, self.names, names, self.notes)

    def output_index(self, output: int | str) -> int:
        """The position of an output that is given by position (negative: from the end) or by name."""
        if isinstance(output, str):
            if self.output_names is None or output not in self.output_names:
                raise InvalidFormula(f"no output is named {output!r}{did_you_mean(output, self.output_names or ())}")
            return self.output_names.index(output)
        if not -self.num_outputs <= output < self.num_outputs:
            raise IndexError(f"output {output} of a circuit with {self.num_outputs} outputs")
        return int(output) % self.num_outputs

    def with_prob(self, prob: npt.ArrayLike) -> Circuit:
        """The same gates under other probabilities."""
        values = np.array(prob, dtype=np.float64)
        if values.shape != self.prob.shape:
            raise InvalidFormula(f"expected {self.num_vars} probabilities, not an array of shape {values.shape}")
        _check_prob(values)
        return Circuit.trusted(
            *self.arrays, self.outputs, values, self.log_scale, self.names, self.output_names, self.notes
        )

    def negated(self) -> Circuit:
        """The circuit whose outputs are true where those of this one are false."""
        size, outputs = self.num_gates, self.num_outputs
        return Circuit.trusted(
            np.concatenate([self.kind, np.full(outputs, NOT, np.uint8)]),
            np.concatenate([self.arg, np.zeros(outputs, np.int32)]),
            np.concatenate([self.indptr, self.num_inputs + np.arange(1, outputs + 1)]).astype(np.int64),
            np.concatenate([self.inputs, self.outputs]),
            np.arange(size, size + outputs, dtype=np.int32),
            self.prob,
            self.log_scale,
            self.names,
            self.output_names,
            self.notes,
        )

    def evaluate(self, assignments: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """bool[k, outputs]: the outputs under each of k assignments, bool[k, n]."""
        rows = np.atleast_2d(np.asarray(assignments, dtype=np.bool_))
        if rows.shape[1] != self.num_vars:
            raise ValueError(f"expected rows of {self.num_vars} values, not shape {rows.shape}")
        value = np.zeros((self.num_gates, len(rows)), dtype=np.bool_)
        for g, (kind, arg) in enumerate(zip(self.kind.tolist(), self.arg.tolist(), strict=True)):
            read = value[self.inputs[self.indptr[g] : self.indptr[g + 1]]]
            if kind == VAR:
                value[g] = rows[:, arg]
            elif kind == NOT:
                value[g] = ~read[0]
            elif kind == AND:
                value[g] = read.all(axis=0)
            elif kind == OR:
                value[g] = read.any(axis=0)
            elif kind == ATLEAST:
                value[g] = read.sum(axis=0, dtype=np.int64) >= arg
            else:
                value[g] = kind == TRUE
        return value[self.outputs].T

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Circuit):
            return NotImplemented
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _DTYPES)
        same = same and self.names == other.names and self.output_names == other.output_names
        return same and self.log_scale == other.log_scale

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        from sharpdnf.notebook import facts_table

        sizes = [("variables", self.num_vars), ("gates", self.num_gates), ("outputs", self.num_outputs)]
        return facts_table("Circuit", [(name, f"{size:,}") for name, size in sizes])

    def __repr__(self) -> str:
        return (
            f"Circuit(num_vars={self.num_vars}, num_gates={self.num_gates}, num_inputs={self.num_inputs}, "
            f"num_outputs={self.num_outputs})"
        )


_DTYPES: dict[str, type[np.generic]] = {
    "kind": np.uint8,
    "arg": np.int32,
    "indptr": np.int64,
    "inputs": np.int32,
    "outputs": np.int32,
    "prob": np.float64,
}


def require_circuit(circuit: object) -> Circuit:
    if not isinstance(circuit, Circuit):
        raise TypeError(f"expected a Circuit, not {type(circuit).__name__}: build one with Circuit.parse or a Builder")
    return circuit


def over_same_variables(circuits: Sequence[Circuit]) -> Circuit:
    """One circuit with the outputs of all, in order.

    Variables with the same name become one variable; without names, variables with the same number do. Two
    probabilities for one variable are an error.
    """
    from sharpdnf.builder import Builder

    builder = Builder()
    outputs = [gate for circuit in circuits for gate in builder.include(circuit)]
    names: list[str] | None = []
    for circuit in circuits:
        names = None if names is None or circuit.output_names is None else [*names, *circuit.output_names]
    return builder.build(*outputs, names=names)


def stacked(circuits: Sequence[Circuit]) -> Circuit | None:
    """One circuit with the outputs of all, in order, where all have the same variables; None where they have not.

    Gates are put one after the other: equal gates of two circuits stay two.
    """
    first = circuits[0]
    for other in circuits[1:]:
        if other.names != first.names or not (other.prob is first.prob or np.array_equal(other.prob, first.prob)):
            return None
    if len(circuits) == 1:
        return first
    shifts = np.cumsum([0, *(c.num_gates for c in circuits)])
    if shifts[-1] > MAX_VARS:
        raise InvalidFormula(f"{shifts[-1]} gates are more than the {MAX_VARS} that one circuit can number")
    ends = np.cumsum([0, *(c.num_inputs for c in circuits)])
    return Circuit.trusted(
        np.concatenate([c.kind for c in circuits]),
        np.concatenate([c.arg for c in circuits]),
        np.concatenate([[0], *(c.indptr[1:] + end for c, end in zip(circuits, ends, strict=False))]).astype(np.int64),
        np.concatenate([c.inputs + shift for c, shift in zip(circuits, shifts, strict=False)]).astype(np.int32),
        np.concatenate([c.outputs + shift for c, shift in zip(circuits, shifts, strict=False)]).astype(np.int32),
        first.prob,
        first.log_scale,
        first.names,
    )


def _check_prob(prob: FloatArray) -> None:
    bad = np.flatnonzero(~((prob >= 0.0) & (prob <= 1.0)))
    if len(bad):
        raise InvalidFormula(f"the probability of variable {bad[0] + 1} must lie in [0, 1], not {prob[bad[0]]}")


def _check_gates(circuit: Circuit) -> None:
    """Every fact that the kernels rely on, with the gate at which it fails."""
    kind, arg, indptr, inputs, outputs = circuit.kind, circuit.arg, circuit.indptr, circuit.inputs, circuit.outputs
    size = len(kind)
    if len(arg) != size or len(indptr) != size + 1:
        raise InvalidFormula(f"{size} gates need {size} args and {size + 1} entries of indptr")
    if size > MAX_VARS or circuit.num_vars > MAX_VARS:
        raise InvalidFormula(f"a circuit has at most {MAX_VARS} gates and variables")
    if indptr[0] != 0 or indptr[-1] != len(inputs) or np.any(np.diff(indptr) < 0):
        raise InvalidFormula("indptr must start at 0, not decrease, and end at the number of inputs")
    if size and int(kind.max()) > ATLEAST:
        raise InvalidFormula(f"gate {int(np.argmax(kind > ATLEAST))} has the unknown kind {int(kind.max())}")
    widths = np.diff(indptr)
    leaf = kind <= VAR
    for wrong, what in (
        (leaf & (widths > 0), "a constant or a variable reads no gate"),
        ((kind == NOT) & (widths != 1), "NOT reads one gate"),
        ((kind == VAR) & ((arg < 0) | (arg >= circuit.num_vars)), f"its variable is not one of {circuit.num_vars}"),
    ):
        if np.any(wrong):
            raise InvalidFormula(f"gate {int(np.argmax(wrong))}: {what}")
    late = (inputs < 0) | (inputs >= np.repeat(np.arange(size), widths))
    if np.any(late):
        gate = int(np.searchsorted(indptr, int(np.argmax(late)), side="right")) - 1
        raise InvalidFormula(f"gate {gate} reads gate {int(inputs[np.argmax(late)])}, which does not come before it")
    if len(outputs) == 0:
        raise InvalidFormula("a circuit needs at least one output")
    if np.any((outputs < 0) | (outputs >= size)):
        raise InvalidFormula(f"an output must be one of the {size} gates")
    _check_prob(circuit.prob)


__all__ = ["AND", "ATLEAST", "FALSE", "KINDS", "NOT", "OR", "TRUE", "VAR", "Circuit"]
