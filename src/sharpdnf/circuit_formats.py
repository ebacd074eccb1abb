"""Circuit <-> text: JSON of its own, d-DNNF as c2d and d4 write it, weighted CNF for exact CNF counters.

JSON, one object: ``{"format": "sharpdnf-circuit", "prob": [0.3, 0.5], "names": ["a", "b"], "gates": [["var", 0],
["var", 1], ["not", 1], ["and", 0, 2], ["atleast", 2, 0, 1, 3]], "outputs": [3, 4]}``; names, output_names and log_scale
may be missing, and a gate reads only gates before it.

d-DNNF: ``nnf NODES EDGES VARIABLES`` and one line per node (``L -3``, ``A 2 0 1``, ``O 3 2 4 5``), or the lines of d4
(``o 1 0``, ``a 2 0``, ``t 3 0``, ``f 4 0``, and edges ``1 2 -3 0`` with the literals that hold below them). The
formats know no probabilities: ours stand in comments ``c p weight 1 0.3 0``, and what is not given is 1/2.

CNF (written only): a variable for each gate that is tied to it in both directions, so every assignment to the
circuit's variables extends in one way, and the weights of these variables are 1.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from sharpdnf.circuit import AND, ATLEAST, FALSE, KINDS, NOT, OR, TRUE, VAR, Circuit
from sharpdnf.errors import InvalidFormula, ParseError
from sharpdnf.files import FilePath, replacing

FORMAT = "sharpdnf-circuit"
DIALECTS = ("json", "cnf", "c2d", "d4")


def to_json(circuit: Circuit) -> str:
    """The circuit as JSON with one gate per line; probabilities read back bit for bit."""
    fields: list[str] = [f'"format": "{FORMAT}"', f'"prob": {json.dumps(circuit.prob.tolist())}']
    if circuit.names is not None:
        fields.append(f'"names": {json.dumps(list(circuit.names))}')
    if circuit.log_scale:
        fields.append(f'"log_scale": {circuit.log_scale!r}')
    if circuit.output_names is not None:
        fields.append(f'"output_names": {json.dumps(list(circuit.output_names))}')
    fields.append(f'"outputs": {json.dumps(circuit.outputs.tolist())}')
    inputs, bounds = circuit.inputs.tolist(), circuit.indptr.tolist()
    gates = []
    for g, (kind, arg) in enumerate(zip(circuit.kind.tolist(), circuit.arg.tolist(), strict=True)):
        own = [arg] if kind in (VAR, ATLEAST) else []
        gates.append(json.dumps([KINDS[kind], *own, *inputs[bounds[g] : bounds[g + 1]]]))
    fields.append('"gates": [\n' + ",\n".join(gates) + "\n]")
    return "{" + ",\n ".join(fields) + "}\n"


def from_json(text: str | bytes, file: str = "<text>") -> Circuit:
    """Reads what :func:`to_json` writes. What is not a circuit is a ParseError that names the gate."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ParseError(f"not JSON: {error}", file=file) from None
    except RecursionError:
        raise ParseError("not a circuit: the JSON lists are nested too deeply", file=file) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ParseError(f'expected an object with "format": "{FORMAT}"', file=file)
    known = {"format", "prob", "names", "log_scale", "output_names", "outputs", "gates"}
    for key in data:
        if key not in known:
            raise ParseError(f"unknown key {key!r}: known are {', '.join(sorted(known))}", file=file)
    for key in ("prob", "gates", "outputs"):
        if not isinstance(data.get(key), list):
            raise ParseError(f"expected a list under {key!r}", file=file)
    for key in ("names", "output_names"):
        given = data.get(key)
        if given is not None and not (isinstance(given, list) and all(isinstance(name, str) for name in given)):
            raise ParseError(f"expected a list of strings under {key!r}", file=file)
    if not all(_is_number(p) for p in [*data["prob"], data.get("log_scale", 0.0)]):
        raise ParseError("probabilities and log_scale must be finite numbers", file=file)
    if not all(_is_integer(g) for g in data["outputs"]):
        raise ParseError("outputs must be numbers of gates", file=file)
    rows = [_gate(g, row, file) for g, row in enumerate(data["gates"])]
    try:
        return Circuit(
            np.array([kind for kind, _, _ in rows], np.uint8),
            np.array([arg for _, arg, _ in rows], np.int64),
            np.concatenate([[0], np.cumsum([len(read) for _, _, read in rows])]).astype(np.int64),
            np.array([g for _, _, read in rows for g in read], np.int64),
            np.array(data["outputs"], np.int64),
            np.array(data["prob"], np.float64),
            float(data.get("log_scale", 0.0)),
            None if data.get("names") is None else tuple(data["names"]),
            None if data.get("output_names") is None else tuple(data["output_names"]),
        )
    except (InvalidFormula, OverflowError) as error:
        raise ParseError(str(error), file=file) from None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _gate(number: int, row: Any, file: str) -> tuple[int, int, list[int]]:
    """(kind, arg, inputs) of one gate."""
    if not isinstance(row, list) or not row or row[0] not in KINDS:
        raise ParseError(f"gate {number}: expected a list that starts with one of {', '.join(KINDS)}", file=file)
    if not all(_is_integer(value) for value in row[1:]):
        raise ParseError(f"gate {number}: expected integers after {row[0]!r}", file=file)
    kind = KINDS.index(row[0])
    if kind not in (VAR, ATLEAST):
        return kind, 0, row[1:]
    if len(row) < 2:
        raise ParseError(f"gate {number}: expected a number after {row[0]!r}", file=file)
    return kind, row[1], row[2:]


def to_cnf(circuit: Circuit, output: int | str = 0) -> str:
    """The weighted CNF (the model counting competition's format) whose weighted count is the output's probability.

    Tseitin's translation; at least k of n becomes a sequential counter, n k gates of two inputs. Weights are
    probabilities: the circuit's ``log_scale`` stands in a comment.
    """
    num_vars, clauses = tseitin(circuit[output])
    uniform = bool(np.all(circuit.prob == 0.5))
    lines = [f"c t {'mc' if uniform else 'wmc'}", f"p cnf {num_vars} {len(clauses)}"]
    if uniform:
        lines.append("c the number of models is that of the circuit: every other variable follows from its variables")
    else:
        for v, p in enumerate(circuit.prob.tolist(), start=1):
            lines.append(f"c p weight {v} {p!r} 0\nc p weight -{v} {1.0 - p!r} 0")
        extra = range(circuit.num_vars + 1, num_vars + 1)
        lines += [f"c p weight {v} 1 0\nc p weight -{v} 1 0" for v in extra]
    if circuit.log_scale:
        lines.append(f"c log_scale {circuit.log_scale!r}")
    lines += [f"c var {v} {name}" for v, name in enumerate(circuit.names or (), start=1) if " " not in name]
    lines += [" ".join(map(str, clause)) + " 0" for clause in clauses]
    return "\n".join(lines) + "\n"


def tseitin(circuit: Circuit) -> tuple[int, list[list[int]]]:
    """(variables, clauses of signed literals) that hold together exactly where the first output does."""
    plain = lower(circuit)
    needed = _needed(plain)
    literal = [0] * plain.num_gates  # signed, 1-based
    num_vars = plain.num_vars
    clauses: list[list[int]] = []
    bounds, inputs = plain.indptr.tolist(), plain.inputs.tolist()
    for g, (kind, arg) in enumerate(zip(plain.kind.tolist(), plain.arg.tolist(), strict=True)):
        if not needed[g]:
            continue
        read = [literal[i] for i in inputs[bounds[g] : bounds[g + 1]]]
        if kind == VAR:
            literal[g] = arg + 1
        elif kind == NOT:
            literal[g] = -read[0]
        else:
            num_vars += 1
            sign = 1 if kind in (AND, TRUE) else -1  # an OR is the negation of the AND of negations
            own, parts = sign * num_vars, [sign * lit for lit in read]
            literal[g] = num_vars
            clauses += [[-own, lit] for lit in parts]
            clauses.append([own, *(-lit for lit in parts)])
    clauses.append([literal[int(plain.outputs[0])]])
    return num_vars, clauses


def lower(circuit: Circuit) -> Circuit:
    """The same outputs without at-least gates: each becomes a sequential counter.

    With the inputs x1 .. xn, row j of column i says "at least j of x(i) .. xn": it is the row of the next column, or
    x(i) and the row below of the next column. Fewer than k true inputs are more than n - k false ones, so the
    narrower of the two counters is built.
    """
    if not np.any(circuit.kind == ATLEAST):
        return circuit
    from sharpdnf.builder import Builder, Gate

    builder = Builder()
    for p in circuit.prob.tolist():
        builder.var(None, p)
    numbers: list[int] = []
    bounds, inputs = circuit.indptr.tolist(), circuit.inputs.tolist()
    for g, (kind, arg) in enumerate(zip(circuit.kind.tolist(), circuit.arg.tolist(), strict=True)):
        read = [numbers[i] for i in inputs[bounds[g] : bounds[g + 1]]]
        if kind == VAR:
            numbers.append(builder._gate_of_var[arg])
        elif kind == NOT:
            numbers.append(builder._negate(read[0]))
        elif kind in (AND, OR):
            numbers.append(builder._nary(kind, read))
        elif kind in (FALSE, TRUE):
            numbers.append(builder._new(kind, 0, ()))
        else:
            numbers.append(_counter(builder, arg, read))
    built = builder.build(*(Gate(builder, numbers[g]) for g in circuit.outputs.tolist()))
    return Circuit.trusted(*built.arrays, built.outputs, circuit.prob, circuit.log_scale, circuit.names)


def _counter(builder: Any, k: int, read: list[int]) -> int:
    n = len(read)
    if n - k + 1 < k:
        fewer = _counter(builder, n - k + 1, [builder._negate(g) for g in read])
        return int(builder._negate(fewer))
    true, false = builder._new(TRUE, 0, ()), builder._new(FALSE, 0, ())
    if k <= 0:
        return int(true)
    row = [true] + [false] * k
    for g in reversed(read):
        for j in range(k, 0, -1):
            row[j] = builder._nary(OR, (row[j], builder._nary(AND, (g, row[j - 1]))))
    return int(row[k])


def _needed(circuit: Circuit) -> list[bool]:
    needed = [False] * circuit.num_gates
    needed[int(circuit.outputs[0])] = True
    bounds, inputs = circuit.indptr.tolist(), circuit.inputs.tolist()
    for g in range(circuit.num_gates - 1, -1, -1):
        if needed[g]:
            for i in inputs[bounds[g] : bounds[g + 1]]:
                needed[i] = True
    return needed


def read_circuit(path: FilePath) -> Circuit:
    """Reads circuit JSON or a d-DNNF, told apart by what the file holds; ``.gz`` files are unpacked."""
    import gzip

    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        text = data.decode()
    except UnicodeDecodeError:
        raise ParseError("not text in UTF-8", file=name) from None
    except (OSError, EOFError) as error:
        raise ParseError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=name) from error
    if any(line.startswith("p cnf") for line in text.splitlines()):
        raise ParseError("a CNF is written for other counters and not read back: keep the circuit as JSON", file=name)
    return from_json(text, name) if text.lstrip().startswith("{") else from_nnf(text, name)


def looks_like_circuit(path: FilePath) -> bool:
    """Whether a file holds a circuit: by its name (.json, .nnf, .ddnnf, gzipped or not), or by how it begins."""
    name = os.fspath(path)
    if name.removesuffix(".gz").endswith((".json", ".nnf", ".ddnnf")):
        return True
    try:
        with open(name, "rb") as file:
            start = file.read(256).lstrip()
    except (OSError, ValueError):
        return False
    return start.startswith(b"nnf ") or (start.startswith(b"{") and FORMAT.encode() in start)


def write_circuit(circuit: Circuit, path: FilePath, dialect: str | None = None) -> None:
    """Writes ``json``, ``cnf`` (one output), or the d-DNNF of one output as ``c2d`` or ``d4`` writes it.

    Without a dialect the name decides: .nnf is c2d, .cnf is cnf, all else JSON.
    """
    name = os.fspath(path)
    stem = name.removesuffix(".gz")
    chosen = dialect or ("c2d" if stem.endswith(".nnf") else "cnf" if stem.endswith(".cnf") else "json")
    if chosen not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}: choose from {', '.join(DIALECTS)}")
    text = to_json(circuit) if chosen == "json" else to_cnf(circuit) if chosen == "cnf" else to_nnf(circuit, chosen)
    data = text.encode()
    if name.endswith(".gz"):
        import gzip

        data = gzip.compress(data, mtime=0)
    with replacing(path) as file:
        file.write(data)


def from_nnf(text: str, file: str = "<text>") -> Circuit:
    """Reads an NNF as c2d or d4 writes it. That it is deterministic is not needed here, and not checked.

    Probabilities come from comments ``c p weight VARIABLE P 0``; a variable that has none has 1/2.
    """
    from sharpdnf.nnf import read_nnf

    return read_nnf(text, file)


def to_nnf(circuit: Circuit, dialect: str = "c2d") -> str:
    """The d-DNNF of one output, compiled here; a circuit that does not compile within the limits is a LimitError."""
    from sharpdnf.nnf import write_nnf

    return write_nnf(circuit, dialect)
