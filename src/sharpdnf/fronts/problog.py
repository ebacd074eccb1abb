"""Probabilistic logic programs: every query of a ProbLog program, with a guarantee.

>>> from sharpdnf import problog
>>> answers = problog.query("0.4::heads(1). 0.6::heads(2). both :- heads(1), heads(2). query(both).")
>>> round(answers["both"].prob, 12)
0.24

The ``problog`` package parses and grounds; what it leaves is a set of gates that may depend on each other in circles.
A circle is unrolled as often as it has disjunctions, which is enough for its least fixpoint, and the acyclic rest is a
``Circuit`` with an output for each query; a program too large for that is sampled with its circles
(``native/kernels/fixpoint.hpp``). An annotated disjunction becomes a chain of choices, evidence a condition.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import time
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
from sharpdnf.engines.front import Seed, count, make_limit, make_rng
from sharpdnf.engines.sampling import Draws, draws_needed, from_draws, successes_needed
from sharpdnf.errors import InvalidProgram, MissingExtra
from sharpdnf.estimate import GUARANTEES, Estimate, Limit, check_tolerance, exact_estimate

FALSE, TRUE, VAR, NOT, AND, OR = range(6)
UNROLLED = 200_000
"""The most gates that unrolling circles may make; a larger program is sampled with its circles as they are."""
MAX_WORLDS = 1 << 34
UNLIMITED = 2**62


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
    learnable: tuple[int, ...] = ()
    """Variables whose probability was written t(_): it is to be learned."""

    @property
    def arrays(
        self,
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], FloatArray]:
        return self.kind, self.arg, self.indptr, self.inputs, self.prob


def query(
    program: str | Path,
    *,
    guarantee: str | None = None,
    epsilon: float = 0.1,
    delta: float = 0.05,
    rng: Seed = None,
    timeout: float | None = None,
    threads: int | None = None,
) -> dict[str, Estimate]:
    """P(query | evidence) of every query of a program, by the query's text.

    ``program`` is the text of a program, or the path of a file. Without a ``guarantee`` an answer is exact where the
    program compiles within a small budget and relative where it does not. At ``timeout`` seconds what is not answered
    comes back with its bounds and ``met=False``; a program that does not end grounding until then is an error.
    """
    if guarantee is not None and guarantee not in GUARANTEES:
        raise ValueError(f"unknown guarantee {guarantee!r}: choose from {', '.join(GUARANTEES)}")
    check_tolerance(epsilon, delta)
    limit = make_limit(timeout, threads)
    ground = read_program(program, limit)
    if ground.learnable:
        learned = ", ".join(ground.names[variable] for variable in ground.learnable[:5])
        raise InvalidProgram(f"the probability of {learned} is to be learned: write a number instead of t(...)")
    return answer(ground, guarantee=guarantee, epsilon=epsilon, delta=delta, rng=rng, limit=limit)


def answer(
    program: Program, *, guarantee: str | None, epsilon: float, delta: float, rng: Seed, limit: Limit
) -> dict[str, Estimate]:
    """Answers every query of a ground program."""
    generator, seed = make_rng(rng)
    circuit = to_circuit(program)
    if circuit is None:
        if guarantee in ("exact", "bounds"):
            raise InvalidProgram(
                f"the circles of the program unroll to more than {UNROLLED:,} gates: ask for relative or additive"
            )
        return _sampled(program, guarantee or "relative", epsilon, delta, generator, limit, seed)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "threads": limit.threads}
    return _counted(program, circuit, guarantee, asked, seed, limit)


def _counted(
    program: Program, circuit: Circuit, guarantee: str | None, asked: dict[str, Any], seed: int, limit: Limit
) -> dict[str, Estimate]:
    """Outputs 0 .. q - 1 are "query and evidence", output q is the evidence: their quotients are the answers."""
    from sharpdnf.analysis import conditional

    outputs = [circuit[i] for i in range(circuit.num_outputs)]
    given, certain = outputs[-1], program.evidence == TRUE
    if not certain and count(given, guarantee="bounds", timeout=_left(limit)).log_upper == -math.inf:
        raise InvalidProgram("the evidence cannot hold: it contradicts the program")
    out = {}
    for number, (name, _) in enumerate(program.queries):
        rest = {**asked, "guarantee": guarantee, "rng": seed + number, "timeout": _left(limit)}
        out[name] = count(outputs[number], **rest) if certain else conditional(outputs[number], given, **rest)
    return out


def _left(limit: Limit) -> float | None:
    return None if math.isinf(limit.deadline) else limit.seconds_left


def _sampled(
    program: Program, guarantee: str, epsilon: float, delta: float, rng: np.random.Generator, limit: Limit, seed: int
) -> dict[str, Estimate]:
    """Worlds of the program as it is, circles included; those in which the evidence does not hold do not count."""
    started = time.perf_counter()
    relative = guarantee == "relative"
    k = successes_needed(epsilon, delta) if relative else UNLIMITED
    trials = UNLIMITED if relative else draws_needed(epsilon, delta)
    gates = [gate for _, gate in program.queries]
    drawn = _native.fixpoint(
        *program.arrays,
        outputs=gates,
        evidence=-1 if program.evidence == TRUE else program.evidence,
        seed=int(rng.integers(2**63)),
        successes=k,
        trials=trials,
        max_worlds=MAX_WORLDS,
        seconds=limit.seconds_left,
    )
    out = {}
    info = {"worlds": drawn.worlds, "accepted": drawn.accepted, "in circles": drawn.in_circles}
    tallies = zip(drawn.trials.tolist(), drawn.successes.tolist(), drawn.done.tolist(), strict=True)
    for (name, gate), (trials, successes, done) in zip(program.queries, tallies, strict=True):
        if gate in (FALSE, TRUE):
            out[name] = exact_estimate(0.0 if gate == TRUE else -math.inf, "trivial", seed=seed)
            continue
        draws = Draws(trials, successes, bool(done))
        found = from_draws(draws, "fixpoint", guarantee=guarantee, epsilon=epsilon, delta=delta, info=info)
        out[name] = found.replace(seed=seed, seconds=time.perf_counter() - started)
    return out


def read_program(program: str | Path, limit: Limit | None = None) -> Program:
    """Parses and grounds a program in a process of its own, which ends at the time limit."""
    file, text = _text_of(program)
    if find_spec("problog") is None:
        raise MissingExtra("a logic program", "problog")
    seconds = None if limit is None or math.isinf(limit.deadline) else max(limit.seconds_left, 0.01)
    worker = [sys.executable, "-I", str(Path(__file__).with_name("problog_worker.py"))]
    try:
        ran = subprocess.run(
            worker,
            input=json.dumps({"text": text}) + "\n",
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidProgram(f"{file}: grounding did not end within the time limit: does the recursion end?") from None
    lines = ran.stdout.strip().splitlines()
    if ran.returncode != 0 or not lines:
        reason = (ran.stderr.strip().splitlines() or ["the process ended without a message"])[-1]
        raise InvalidProgram(f"{file}: the program could not be grounded: {reason[:300]}")
    table = json.loads(lines[-1])
    if "error" in table:
        where = f"{file}:{table['line']}" if table["line"] else file
        raise InvalidProgram(f"{where}: {str(table['error'])[:500]}")
    return _assemble(table, file)


def _text_of(program: str | Path) -> tuple[str, str]:
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


def _assemble(table: dict[str, Any], file: str) -> Program:
    """The gates of a ground program; an annotated disjunction is a chain of independent choices."""
    if not table["queries"]:
        raise InvalidProgram(f"{file}: the program has no query: write query(...).")
    gates, nodes = _Gates(), table["nodes"]
    gate_of: dict[int, int] = {0: TRUE}
    learnable: list[int] = []
    groups: dict[int, list[int]] = {}
    for number, node in enumerate(nodes, start=1):
        if node[0] != "atom":
            gate_of[number] = gates.reserve()
        elif node[2] is not None:
            groups.setdefault(node[2], []).append(number)
        else:
            gate_of[number] = gates.variable(node[3], _initial(node[1], len(gates.prob), learnable, node[3], file))
    for members in groups.values():
        _chain(members, nodes, gates, gate_of, learnable, file)

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
        tuple(learnable),
    )


def _initial(value: Any, variable: int, learnable: list[int], name: str, file: str) -> float:
    """A probability; what is to be learned starts at the value in t(value), or at 1/2."""
    if isinstance(value, str) and value.startswith("t("):
        learnable.append(variable)
        inside = value[2:-1]
        try:
            value = float(inside)
        except ValueError:
            return 0.5
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise InvalidProgram(f"{file}: {name} has the probability {value!r}: expected a number between 0 and 1")
    return float(value)


def _chain(
    members: list[int],
    nodes: list[Any],
    gates: _Gates,
    gate_of: dict[int, int],
    learnable: list[int],
    file: str,
) -> None:
    """Choice i of an annotated disjunction holds if its own variable does and none before it.

    Its variable has p_i / (1 - p_1 - ... - p_(i - 1)), so that the choice has p_i.
    """
    left = 1.0
    before: list[int] = []
    for number in members:
        _, value, _, name, extra = nodes[number - 1]
        if extra:  # "none of them": true if no other choice is
            gate_of[number] = gates.add(AND, 0, tuple(before))
            continue
        p = _initial(value, len(gates.prob), learnable, name, file)
        if p > left + 1e-9:
            raise InvalidProgram(f"{file}: the probabilities of the annotated disjunction with {name} exceed 1")
        own = gates.variable(name, min(1.0, p / left) if left > 0.0 else 0.0)
        gate_of[number] = gates.add(AND, 0, (*before, own)) if before else own
        before.append(gates.add(NOT, 0, (own,)))
        left = max(0.0, left - p)


def to_circuit(program: Program, limit: int = UNROLLED) -> Circuit | None:
    """Outputs "query and evidence" for each query, then the evidence; None if circles unroll beyond ``limit`` gates."""
    builder = Builder()
    variables = [builder.var(None, float(p)) for p in program.prob]
    value: dict[int, Gate | bool] = {}
    wanted = [gate for _, gate in program.queries] + [program.evidence]
    components, circular = _components(program, wanted)
    made = 0
    for component, circle in zip(components, circular, strict=True):
        # A circle starts as false. Each round takes all its disjunctions one step further from the values of the round
        # before; in any world a round that changes nothing is the last, so there are at most as many as disjunctions.
        steps = [g for g in component if program.kind[g] == OR] if circle else []
        inner = _inside_first(program, set(component) - set(steps)) if circle else component
        value |= dict.fromkeys(component if circle else (), False)
        for _ in range(max(1, len(steps))):
            for g in inner:
                value[g] = _gate(program, g, value, builder, variables)
            value |= {g: _gate(program, g, value, builder, variables) for g in steps}
            made += len(component)
            if made > limit:
                return None
        for g in inner if circle else ():  # conjunctions that are asked for themselves see the last step too
            value[g] = _gate(program, g, value, builder, variables)
    evidence = value[program.evidence]
    outputs = [builder.and_(value[gate], evidence) for _, gate in program.queries]
    return builder.build(*outputs, evidence, names=[*(name for name, _ in program.queries), "evidence"])


def _gate(
    program: Program, g: int, value: dict[int, Gate | bool], builder: Builder, variables: list[Gate]
) -> Gate | bool:
    kind = int(program.kind[g])
    if kind == VAR:
        return variables[int(program.arg[g])]
    read = [value[int(h)] for h in program.inputs[program.indptr[g] : program.indptr[g + 1]]]
    if kind == NOT:
        return builder.not_(read[0])
    if kind == AND:
        return builder.and_(*read)
    if kind == OR:
        return builder.or_(*read)
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
