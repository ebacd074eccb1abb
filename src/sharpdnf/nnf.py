"""d-DNNF text as c2d and d4 write it <-> circuits. ``circuit_formats`` describes the two formats."""

from __future__ import annotations

import numpy as np

from sharpdnf.builder import Builder, Gate
from sharpdnf.circuit import Circuit
from sharpdnf.compiled import AND, FALSE, OR, SHANNON, TERM, TRUE, Compiled
from sharpdnf.dnf import MAX_VARS
from sharpdnf.errors import InvalidFormula, LimitError, ParseError


def read_nnf(text: str, file: str = "<text>") -> Circuit:
    """The circuit of an NNF file of either kind; the first line that is no comment tells which."""
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    prob: dict[int, float] = {}
    body = []
    num_vars = 0
    for number, words in lines:
        if words[0] != "c":
            body.append((number, words))
        elif words[1:3] == ["p", "weight"]:
            _weight(words, prob, file, number)
        elif words[1:2] == ["vars"]:
            num_vars = _integers(words[2:], 1, file, number)[0]
    if not body:
        raise ParseError("the file holds no node", file=file)
    reader = _C2D(file) if body[0][1][0] == "nnf" else _D4(file)
    for number, words in body:
        reader.line(words, number)
    return reader.finish(max(num_vars, *prob, 0, 0), prob)


def _weight(words: list[str], prob: dict[int, float], file: str, line: int) -> None:
    try:
        literal, value = int(words[3]), float(words[4])
    except (IndexError, ValueError):
        raise ParseError("expected c p weight LITERAL PROBABILITY 0", file=file, line=line) from None
    if not 0.0 <= value <= 1.0 or literal == 0:
        raise ParseError(f"a weight must be a probability, not {words[4]}", file=file, line=line)
    if literal > 0:
        prob[literal] = value
    elif -literal in prob and abs(prob[-literal] + value - 1.0) > 1e-9:
        raise ParseError(f"the weights of variable {-literal} do not add up to 1", file=file, line=line)
    else:
        prob.setdefault(-literal, 1.0 - value)


def _integers(words: list[str], at_least: int, file: str, line: int) -> list[int]:
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        raise ParseError(f"expected integers, not {' '.join(words)!r}", file=file, line=line) from None
    if len(numbers) < at_least:
        raise ParseError(f"expected {at_least} numbers, not {len(numbers)}", file=file, line=line)
    return numbers


class _NnfReader:
    """What both formats share: a builder whose variables are made once all of them are known."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.num_vars = 0

    def line(self, words: list[str], number: int) -> None:
        raise NotImplementedError

    def root(self, builder: Builder, literal: dict[int, Gate]) -> Gate:
        raise NotImplementedError

    def seen(self, literal: int, line: int) -> int:
        if literal == 0 or abs(literal) > MAX_VARS:
            raise ParseError(f"{literal} is not a literal", file=self.file, line=line)
        self.num_vars = max(self.num_vars, abs(literal))
        return literal

    def finish(self, num_vars: int, prob: dict[int, float]) -> Circuit:
        builder = Builder()
        literal: dict[int, Gate] = {}
        for v in range(1, max(num_vars, self.num_vars) + 1):
            literal[v] = builder.var(None, prob.get(v, 0.5))
            literal[-v] = ~literal[v]
        return builder.build(self.root(builder, literal))


class _C2D(_NnfReader):
    """Reads c2d's format: nodes are numbered in order, children come before parents, and the last node is the root."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.nodes: list[tuple[str, list[int]]] = []
        self.declared = 0

    def line(self, words: list[str], number: int) -> None:
        tag, rest = words[0], _integers(words[1:], 0, self.file, number)
        if tag == "nnf":
            if len(rest) != 3 or self.declared or not 0 <= rest[2] <= MAX_VARS:
                raise ParseError("expected one line nnf NODES EDGES VARIABLES", file=self.file, line=number)
            self.declared, _, self.num_vars = rest
            return
        if tag == "L" and len(rest) == 1:
            if not 0 < abs(rest[0]) <= self.num_vars:
                raise ParseError(f"literal {rest[0]} is beyond the header", file=self.file, line=number)
            self.nodes.append((tag, rest))
            return
        skip = {"A": 1, "O": 2}.get(tag, 0)
        if not skip or len(rest) < skip or len(rest) - skip != rest[skip - 1]:
            raise ParseError(
                "expected L LITERAL, A COUNT CHILDREN or O VARIABLE COUNT CHILDREN", file=self.file, line=number
            )
        for child in rest[skip:]:
            if not 0 <= child < len(self.nodes):
                raise ParseError(f"node {child} does not come before this one", file=self.file, line=number)
        self.nodes.append((tag, rest[skip:]))

    def root(self, builder: Builder, literal: dict[int, Gate]) -> Gate:
        if len(self.nodes) != self.declared or not self.nodes:
            raise ParseError(f"the header says {self.declared} nodes, there are {len(self.nodes)}", file=self.file)
        gates: list[Gate] = []
        for tag, rest in self.nodes:
            if tag == "L":
                gates.append(literal[rest[0]])
            else:
                gates.append((builder.and_ if tag == "A" else builder.or_)(*(gates[i] for i in rest)))
        return gates[-1]


class _D4(_NnfReader):
    """Reads d4's format: nodes come in any order, edges carry literals, and the root is the node without a parent."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.tag: dict[int, str] = {}
        self.edges: dict[int, list[tuple[int, list[int]]]] = {}

    def line(self, words: list[str], number: int) -> None:
        if words[-1] != "0":
            raise ParseError("expected 0 at the end of the line", file=self.file, line=number)
        if words[0] in ("o", "a", "t", "f"):
            node = _integers(words[1:], 2, self.file, number)[0]
            if node in self.tag:
                raise ParseError(f"node {node} is declared twice", file=self.file, line=number)
            self.tag[node] = words[0]
            self.edges[node] = []
            return
        parent, child, *literals = _integers(words[:-1], 2, self.file, number)
        for node in (parent, child):
            if node not in self.tag:
                raise ParseError(f"node {node} is not declared", file=self.file, line=number)
        if self.tag[parent] in ("t", "f"):
            raise ParseError(f"node {parent} is a constant and has no children", file=self.file, line=number)
        self.edges[parent].append((child, [self.seen(literal, number) for literal in literals]))

    def root(self, builder: Builder, literal: dict[int, Gate]) -> Gate:
        children = {child for edges in self.edges.values() for child, _ in edges}
        roots = [node for node in self.tag if node not in children]
        roots = [node for node in roots if self.tag[node] in ("o", "a")] or roots
        if len(roots) != 1:
            raise ParseError(f"expected one root, a node without a parent, not {len(roots)}", file=self.file)
        made: dict[int, Gate] = {}
        opened: set[int] = set()
        stack = [roots[0]]
        while stack:
            node = stack[-1]
            missing = [child for child, _ in self.edges[node] if child not in made]
            if node in made or not missing:
                stack.pop()
                if node not in made:
                    made[node] = self.gate(node, builder, literal, made)
            elif node in opened:
                raise ParseError(f"node {node} is below itself", file=self.file)
            else:
                opened.add(node)
                stack += missing
        return made[roots[0]]

    def gate(self, node: int, builder: Builder, literal: dict[int, Gate], made: dict[int, Gate]) -> Gate:
        if self.tag[node] in ("t", "f"):
            return builder.const(self.tag[node] == "t")
        parts = [builder.and_(made[child], *(literal[x] for x in lits)) for child, lits in self.edges[node]]
        return (builder.and_ if self.tag[node] == "a" else builder.or_)(*parts)


def write_nnf(circuit: Circuit, dialect: str = "c2d") -> str:
    """The d-DNNF of a circuit's only output, compiled under the usual limits."""
    from sharpdnf.circuit_compile import compile_circuit

    if dialect not in ("c2d", "d4"):
        raise ValueError(f"unknown dialect {dialect!r}: choose from c2d, d4")
    if circuit.num_outputs != 1:
        raise InvalidFormula(f"an NNF has one output, not {circuit.num_outputs}: write circuit[i]")
    compiled = compile_circuit(circuit)
    if compiled is None:
        raise LimitError("the circuit could not be compiled within the limit")
    nodes = _Deterministic(compiled).nodes
    head = [] if bool(np.all(circuit.prob == 0.5)) else _weights(circuit)
    return "\n".join([*head, *(_c2d if dialect == "c2d" else _d4)(nodes, circuit.num_vars)]) + "\n"


def _weights(circuit: Circuit) -> list[str]:
    return [f"c p weight {v} {p!r} 0" for v, p in enumerate(circuit.prob.tolist(), start=1)]


Node = tuple[str, int, tuple[int, ...]]


class _Deterministic:
    """A compiled formula with ORs whose sides exclude each other, negations pushed to the literals.

    Its own ORs are of independent parts: a or b becomes a or (not a and b). ``nodes`` are (L, A or O, literal or the
    variable that decides an O, children), children first.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.c = compiled
        self.nodes: list[Node] = []
        self.same: dict[Node, int] = {}
        self.found: dict[tuple[int, bool], int] = {}
        stack = [(compiled.num_nodes - 1, False)]
        while stack:
            key = stack[-1]
            missing = [child for child in self.below(key) if child not in self.found]
            if key in self.found or not missing:
                stack.pop()
                if key not in self.found:
                    self.found[key] = self.make(key)
            else:
                stack += missing
        root = self.found[(compiled.num_nodes - 1, False)]
        if root != len(self.nodes) - 1:  # the root stands last, so that readers find it
            self.nodes.append(("A", 0, (root,)))

    def below(self, key: tuple[int, bool]) -> list[tuple[int, bool]]:
        node, negated = key
        kind = int(self.c.kind[node])
        if kind < OR:
            return []
        a, b = int(self.c.a[node]), int(self.c.b[node])
        out = [(a, negated), (b, negated)]
        return out if kind == SHANNON or (kind == AND) != negated else [*out, (a, not negated)]

    def add(self, tag: str, value: int, children: tuple[int, ...]) -> int:
        key = (tag, value, children)
        if key not in self.same:
            self.same[key] = len(self.nodes)
            self.nodes.append(key)
        return self.same[key]

    def make(self, key: tuple[int, bool]) -> int:
        node, negated = key
        kind = int(self.c.kind[node])
        if kind in (FALSE, TRUE):
            return self.add("A" if (kind == TRUE) != negated else "O", 0, ())
        if kind == TERM:
            signed = [(-1 if lit & 1 else 1) * ((lit >> 1) + 1) for lit in self.literals(node)]
            return self.none_of(signed) if negated else self.add("A", 0, tuple(self.add("L", x, ()) for x in signed))
        a, b = (self.found[child] for child in self.below(key)[:2])
        if kind == SHANNON:
            v = int(self.c.var[node]) + 1
            sides = (self.add("A", 0, (self.add("L", v, ()), a)), self.add("A", 0, (self.add("L", -v, ()), b)))
            return self.add("O", v, sides)
        if (kind == AND) != negated:
            return self.add("A", 0, (a, b))
        other = self.found[self.below(key)[2]]
        return self.add("O", 0, (a, self.add("A", 0, (other, b))))

    def literals(self, node: int) -> list[int]:
        found: list[int] = self.c.literals[int(self.c.a[node]) : int(self.c.b[node])].tolist()
        return found

    def none_of(self, signed: list[int]) -> int:
        """The node for "not all of these literals": the last is false, or it is true and not all of the others are."""
        out = self.add("O", 0, ())
        for x in signed:
            true = self.add("A", 0, (self.add("L", x, ()), out))
            out = self.add("O", abs(x), (self.add("L", -x, ()), true))
        return out


def _c2d(nodes: list[Node], num_vars: int) -> list[str]:
    lines = [f"nnf {len(nodes)} {sum(len(children) for _, _, children in nodes)} {num_vars}"]
    for tag, value, children in nodes:
        own = [value] if tag == "L" else [len(children)] if tag == "A" else [value, len(children)]
        lines.append(" ".join(map(str, [tag, *own, *children])))
    return lines


def _d4(nodes: list[Node], num_vars: int) -> list[str]:
    """The lines of d4's format: the root is node 1, and a literal is an edge to the true node that carries it."""
    top = len(nodes)
    lines = [f"c vars {num_vars}"]
    inner = [i for i, (tag, _, _) in enumerate(nodes) if tag != "L"]
    true = top + 1
    if nodes[-1][0] == "L":
        return [*lines, "a 1 0", f"t {true} 0", f"1 {true} {nodes[-1][1]} 0"]
    for i in reversed(inner):
        tag, _, children = nodes[i]
        kind = ("a" if tag == "A" else "o") if children else ("t" if tag == "A" else "f")
        lines.append(f"{kind} {top - i} 0")
    if len(inner) < len(nodes):
        lines.append(f"t {true} 0")
    for i in reversed(inner):
        for child in nodes[i][2]:
            tag, value, _ = nodes[child]
            lines.append(f"{top - i} {true} {value} 0" if tag == "L" else f"{top - i} {top - child} 0")
    return lines
