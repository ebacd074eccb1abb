"""A ProbLog program as gates: grounded in a process of its own, its circles unrolled into a ``Circuit``.

The ``problog`` package parses and grounds; what it leaves is a set of gates that may depend on each other in circles.
A circle is unrolled as often as it has disjunctions, which is enough for its least fixpoint. An annotated disjunction
becomes a chain of choices.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sharpdnf import _native
from sharpdnf.builder import Builder, Gate
from sharpdnf.circuit import Circuit
from sharpdnf.dnf import FloatArray
from sharpdnf.errors import InvalidProgram, MissingExtra
from sharpdnf.estimate import Limit

FALSE, TRUE, VAR, NOT, AND, OR = range(6)
UNROLLED = 200_000
"""Gates that unrolling circles may take; a program that needs more is sampled as it is, or only bounded."""


@dataclass(frozen=True, slots=True)
class Program:
    """A ground program: gates that may depend on each other in circles. Gates 0 and 1 are false and true."""

    kind: npt.NDArray[np.uint8]
    arg: npt.NDArray[np.int32]
    """int32[gates]: for a gate that is a variable, its number."""
    indptr: npt.NDArray[np.int64]
    inputs: npt.NDArray[np.int32]
    prob: FloatArray
    names: tuple[str, ...]
    """The name of each variable: a probabilistic fact, or one choice of an annotated disjunction."""
    queries: tuple[tuple[str, int], ...]
    evidence: int
    """The gate that says whether all evidence holds."""
    choices: tuple[tuple[tuple[int, float, int], ...], ...] = ()
    """Every fact and annotated disjunction: (variable, its probability, -1) of each choice in order, or (variable,
    nan, parameter) where the probability is to be learned."""

    @property
    def arrays(
        self,
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], FloatArray]:
        return self.kind, self.arg, self.indptr, self.inputs, self.prob


def read_program(program: str | Path, limit: Limit | None = None) -> Program:
    """Parses and grounds a program in a process of its own, which ends at the time limit."""
    file, text = text_of(program)
    table = ground(file, {"text": text}, limit)
    if not table["queries"]:
        raise InvalidProgram(f"{file}: the program has no query: write query(...).")
    return assemble(table, file)


def ground(file: str, job: dict[str, Any], limit: Limit | None) -> dict[str, Any]:
    """What the process that grounds answers to a request about a file."""
    if find_spec("problog") is None:
        raise MissingExtra("a logic program", "problog")
    seconds = None if limit is None or math.isinf(limit.deadline) else max(limit.seconds_left, 0.01)
    worker = [sys.executable, "-I", str(Path(__file__).with_name("problog_worker.py"))]
    request = json.dumps(job) + "\n"
    try:
        ran = subprocess.run(worker, input=request, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise InvalidProgram(f"{file}: grounding did not end within the time limit: does the recursion end?") from None
    lines = ran.stdout.strip().splitlines()
    if ran.returncode != 0 or not lines:
        reason = (ran.stderr.strip().splitlines() or ["the process ended without a message"])[-1]
        raise InvalidProgram(f"{file}: the program could not be grounded: {reason[:300]}")
    table: dict[str, Any] = json.loads(lines[-1])
    if "error" in table:
        where = f"{file}:{table['line']}" if table["line"] else file
        raise InvalidProgram(f"{where}: {str(table['error'])[:500]}")
    return table


def text_of(program: str | Path) -> tuple[str, str]:
    """(name for errors, text): a path that exists is read, anything else is the text itself."""
    if isinstance(program, Path) or ("\n" not in program and program.endswith((".pl", ".pro", ".problog"))):
        path = Path(program)
        try:
            return str(path), path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProgram(f"{path} cannot be read: {error}") from None
    return "<program>", program


class _Gates:
    """Gates as they are added; what is equal is added once."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, tuple[int, ...]]] = []
        self.known: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self.prob: list[float] = []
        self.names: list[str] = []
        self.add(FALSE), self.add(TRUE)

    def add(self, kind: int, arg: int = 0, inputs: tuple[int, ...] = ()) -> int:
        return self.known.setdefault((kind, arg, inputs), self._append(kind, arg, inputs))

    def _append(self, kind: int, arg: int, inputs: tuple[int, ...]) -> int:
        if (kind, arg, inputs) not in self.known:
            self.rows.append((kind, arg, inputs))
        return len(self.rows) - 1

    def reserve(self) -> int:
        """Adds a gate whose inputs are set later, and returns its number."""
        self.rows.append((FALSE, 0, ()))
        return len(self.rows) - 1

    def variable(self, name: str, prob: float) -> int:
        self.prob.append(prob)
        self.names.append(name)
        return self.add(VAR, len(self.prob) - 1)


def assemble(table: dict[str, Any], file: str) -> Program:
    """The gates of a ground program; an annotated disjunction is a chain of independent choices."""
    gates, nodes = _Gates(), table["nodes"]
    gate_of: dict[int, int] = {0: TRUE}
    choices: list[tuple[tuple[int, float, int], ...]] = []
    groups: dict[int, list[int]] = {}
    for number, node in enumerate(nodes, start=1):
        if node[0] != "atom":
            gate_of[number] = gates.reserve()
        else:  # a fact is a group of its own
            groups.setdefault(-number if node[2] is None else node[2], []).append(number)
    for members in groups.values():
        choices.append(_chain(members, nodes, gates, gate_of, file))

    def literal(child: int | None) -> int:
        if child is None:
            return FALSE
        return gate_of[child] if child >= 0 else gates.add(NOT, 0, (gate_of[-child],))

    for number, node in enumerate(nodes, start=1):
        if node[0] != "atom":
            own = tuple(literal(child) for child in node[1])
            gates.rows[gate_of[number]] = (AND if node[0] == "conj" else OR, 0, own)
    held = [literal(node) for _, node in table["evidence"]]
    evidence = TRUE if all(gate == TRUE for gate in held) else gates.add(AND, 0, tuple(held))
    queries = tuple((name, literal(node)) for name, node in table["queries"])
    indptr = np.cumsum([0, *(len(row[2]) for row in gates.rows)], dtype=np.int64)
    return Program(
        np.array([row[0] for row in gates.rows], dtype=np.uint8),
        np.array([row[1] for row in gates.rows], dtype=np.int32),
        indptr,
        np.array([g for row in gates.rows for g in row[2]], dtype=np.int32),
        np.array(gates.prob, dtype=np.float64),
        tuple(gates.names),
        queries,
        evidence,
        tuple(choices),
    )


def _chain(
    members: list[int], nodes: list[Any], gates: _Gates, gate_of: dict[int, int], file: str
) -> tuple[tuple[int, float, int], ...]:
    """Choice i of an annotated disjunction holds if its own variable does and none before it.

    Its variable has p_i / (1 - p_1 - ... - p_(i - 1)), so that the choice has p_i.
    """
    before: list[int] = []
    made: list[tuple[int, float, int]] = []
    for number in members:
        _, value, _, name, extra = nodes[number - 1]
        if extra:  # "none of them": true if no other choice is
            gate_of[number] = gates.add(AND, 0, tuple(before))
            continue
        to_learn = isinstance(value, list)
        if not to_learn and (not isinstance(value, int | float) or not 0.0 <= value <= 1.0):
            raise InvalidProgram(f"{file}: {name} has the probability {value!r}: expected a number between 0 and 1")
        own = gates.variable(name, math.nan)
        made.append((len(gates.prob) - 1, math.nan if to_learn else float(value), value[0] if to_learn else -1))
        gate_of[number] = gates.add(AND, 0, (*before, own)) if before else own
        before.append(gates.add(NOT, 0, (own,)))
    chances = [0.0 if parameter >= 0 else p for _, p, parameter in made]
    if sum(chances) > 1.0 + 1e-9:
        raise InvalidProgram(f"{file}: the probabilities of the annotated disjunction with {name} exceed 1")
    for (variable, *_), own_prob in zip(made, chain_prob(chances), strict=True):
        gates.prob[variable] = own_prob
    return tuple(made)


def chain_prob(chances: list[float]) -> list[float]:
    """The probability of each choice's own variable, given that none before it holds."""
    left, out = 1.0, []
    for p in chances:
        out.append(min(1.0, p / left) if left > 0.0 else 0.0)
        left = max(0.0, left - p)
    return out


def to_circuit(program: Program, limit: int = UNROLLED) -> Circuit | None:
    """Outputs "query and evidence" for each query, then the evidence; None if circles unroll beyond ``limit`` gates."""
    if _size(program) > limit:
        return None
    builder = Builder()
    value = _unrolled(program, builder, math.inf, lower_is_upper=True)
    evidence = value[program.evidence][0]
    outputs = [builder.and_(value[gate][0], evidence) for _, gate in program.queries]
    return builder.build(*outputs, evidence, names=[*(name for name, _ in program.queries), "evidence"])


def bracket(program: Program, limit: int = UNROLLED) -> Circuit:
    """A circuit of about ``limit`` gates that is certainly below, and one that is certainly above, what is asked.

    A circle of which fewer rounds are taken than it needs is too small if it starts as false and too large if it
    starts as true; negation turns the two round. Four outputs for each query: "query and evidence" from below and from
    above, then "not the query, and evidence" likewise.
    """
    builder = Builder()
    value = _unrolled(program, builder, limit / 2, lower_is_upper=False)
    low, high = value[program.evidence]
    outputs = []
    for _, gate in program.queries:
        least, most = value[gate]
        outputs += [builder.and_(least, low), builder.and_(most, high)]
        outputs += [builder.and_(builder.not_(most), low), builder.and_(builder.not_(least), high)]
    return builder.build(*outputs)


GateBounds = tuple[Gate | bool, Gate | bool]
"""A gate from below and from above."""


def _wanted(program: Program) -> list[int]:
    return [gate for _, gate in program.queries] + [program.evidence]


def _size(program: Program) -> int:
    """The gates of the program with all its circles unrolled."""
    components, circular = _components(program, _wanted(program))
    rounds = [
        max(1, sum(program.kind[g] == OR for g in c)) if circle else 1
        for c, circle in zip(components, circular, strict=True)
    ]
    return sum(len(c) * r for c, r in zip(components, rounds, strict=True))


def _unrolled(program: Program, builder: Builder, limit: float, *, lower_is_upper: bool) -> dict[int, GateBounds]:
    """Every gate that is wanted, from below and above; circles take ``limit`` gates together, or all they need."""
    variables = [builder.var(None, float(p)) for p in program.prob]
    value: dict[int, GateBounds] = {}
    components, circular = _components(program, _wanted(program))
    in_circles = sum(len(c) for c, circle in zip(components, circular, strict=True) if circle)
    most_rounds = max(1.0, limit / max(1, in_circles))

    def made(g: int) -> GateBounds:
        below, above = (_gate(program, g, value, side, builder, variables) for side in (0, 1))
        return below, above

    def once(g: int) -> GateBounds:
        one = _gate(program, g, value, 0, builder, variables)
        return one, one

    make: Callable[[int], GateBounds] = once if lower_is_upper else made
    for component, circle in zip(components, circular, strict=True):
        if not circle:
            value |= {g: make(g) for g in component}
            continue
        # A circle starts as false. Each round takes all its disjunctions one step further from the values of the round
        # before; in any world a round that changes nothing is the last, so there are at most as many as disjunctions.
        steps = [g for g in component if program.kind[g] == OR]
        inner = _inside_first(program, set(component) - set(steps))
        value |= dict.fromkeys(component, (False, False))
        if not lower_is_upper:
            value |= dict.fromkeys(steps, (False, len(steps) > most_rounds))
        for _ in range(int(min(max(1, len(steps)), most_rounds))):
            for g in inner:
                value[g] = make(g)
            value |= {g: make(g) for g in steps}
        for g in inner:  # conjunctions that are asked for themselves see the last step too
            value[g] = make(g)
    return value


def _gate(
    program: Program, g: int, value: dict[int, GateBounds], side: int, builder: Builder, variables: list[Gate]
) -> Gate | bool:
    """One gate from below (side 0) or above (side 1), from its inputs."""
    kind = int(program.kind[g])
    if kind == VAR:
        return variables[int(program.arg[g])]
    inputs = program.inputs[program.indptr[g] : program.indptr[g + 1]].tolist()
    if kind == NOT:
        return builder.not_(value[inputs[0]][1 - side])
    if kind == AND:
        return builder.and_(*(value[h][side] for h in inputs))
    if kind == OR:
        return builder.or_(*(value[h][side] for h in inputs))
    return kind == TRUE


def _inside_first(program: Program, gates: set[int]) -> list[int]:
    """Conjunctions of a circle, inputs first; those that only wait for themselves are false and left out."""
    order: list[int] = []
    read_by = {g: program.inputs[program.indptr[g] : program.indptr[g + 1]].tolist() for g in gates}
    open_inputs = {g: [h for h in read if h in gates] for g, read in read_by.items()}
    readers: dict[int, list[int]] = {}
    for g, read in open_inputs.items():
        for h in read:
            readers.setdefault(h, []).append(g)
    left = {g: len(read) for g, read in open_inputs.items()}
    ready = sorted(g for g, count_left in left.items() if not count_left)
    while ready:
        g = ready.pop()
        order.append(g)
        for reader in readers.get(g, ()):
            left[reader] -= 1
            if not left[reader]:
                ready.append(reader)
    return order


def _components(program: Program, wanted: list[int]) -> tuple[list[list[int]], list[bool]]:
    """The strongly connected components that the wanted gates need, inputs first, and which of them are circles."""
    found = _native.fixpoint_order(*program.arrays, outputs=wanted)
    components = [found.gates[a:b].tolist() for a, b in itertools.pairwise(found.start)]
    return components, [bool(c) for c in found.circle]
