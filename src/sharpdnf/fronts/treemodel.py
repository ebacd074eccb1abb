"""What a fault-tree file says, whatever its format: gates, house events, basic events, sequences; and their circuit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sharpdnf.builder import Builder, Gate
from sharpdnf.circuit import Circuit
from sharpdnf.errors import ParseError
from sharpdnf.fronts.quantities import Expression
from sharpdnf.fronts.safexml import Place, shown

NOT_COHERENT = ("not", "nand", "nor", "xor", "iff", "imply", "cardinality")
MANY_NAMES = 5
"""How many names an error lists at most."""
House = frozenset[tuple[str, bool]]
"""The house events that an event tree has set on the way, with their values."""


@dataclass(frozen=True, slots=True)
class TreeFormula:
    """A Boolean formula. ``kind`` is event (called ``name``), true, false or a connective of ``args``; ``low`` and
    ``high`` are the bounds of atleast and cardinality."""

    kind: str
    place: Place
    args: tuple[TreeFormula, ...] = ()
    name: str = ""
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class GateDefinition:
    name: str
    formula: TreeFormula
    place: Place


@dataclass(frozen=True, slots=True)
class BasicEvent:
    name: str
    place: Place
    expression: Expression | None = None
    """The probability of the event; None if the file gives none."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One end of an event tree.

    For each way to it there are the formulas that hold on that way, each with the house events as they were set when it
    was collected. If ``chance`` is given there is no formula, but the probability itself.
    """

    name: str
    place: Place
    ways: tuple[tuple[tuple[TreeFormula, House], ...], ...] = ()
    chance: Expression | None = None
    frequency: Expression | None = None


@dataclass(slots=True)
class Model:
    """A whole fault-tree model. Names are those that results use: a private element's is its path, such as
    ``tree.pump.stuck``."""

    gates: dict[str, GateDefinition] = field(default_factory=dict)
    houses: dict[str, bool] = field(default_factory=dict)
    events: dict[str, BasicEvent] = field(default_factory=dict)
    parameters: dict[str, Expression] = field(default_factory=dict)
    sequences: list[Sequence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Basic events that became gates, as members of a common-cause group do."""

    def tops(self) -> tuple[str, ...]:
        """The gates that no other gate reads."""
        read = {name for gate in self.gates.values() for name in events_of(gate.formula)}
        return tuple(name for name in self.gates if name not in read and name not in self.replaced)


def events_of(formula: TreeFormula) -> list[str]:
    """The names that stand in a formula, from left to right."""
    out: list[str] = []
    stack = [formula]
    while stack:
        f = stack.pop()
        if f.kind == "event":
            out.append(f.name)
        stack += reversed(f.args)
    return out


def in_order(gates: Mapping[str, GateDefinition], wanted: Iterable[str]) -> list[str]:
    """The wanted gates and all gates below them, each after those it reads. A cycle is an error that names it."""
    order: list[str] = []
    done: dict[str, bool] = {}
    path: list[str] = []
    stack: list[tuple[str, bool]] = [(name, False) for name in reversed(list(wanted))]
    while stack:
        name, leaving = stack.pop()
        if leaving:
            done[name] = True
            order.append(path.pop())
        elif name not in done:
            done[name] = False
            path.append(name)
            stack.append((name, True))
            read = [other for other in events_of(gates[name].formula) if other in gates]
            for other in reversed(read):
                if done.get(other) is False:
                    raise gates[name].place.error(_cycle([*path[path.index(other) :], other]))
                stack.append((other, False))
    return order


def _cycle(names: list[str]) -> str:
    shown_names = names if len(names) <= 2 * MANY_NAMES else [*names[:MANY_NAMES], "...", *names[-MANY_NAMES:]]
    return "gates read each other in a cycle: " + " -> ".join(shown_names)


class Assembler:
    """Builds the gates of a model, once for every setting of the house events."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.builder = Builder()
        self.built: dict[House, dict[str, Gate]] = {}

    def gate(self, name: str, house: House = frozenset()) -> Gate:
        built = self.built.setdefault(house, {})
        if name not in built:
            values = {**self.model.houses, **dict(house)}
            for other in in_order(self.model.gates, [name]):
                if other not in built:
                    built[other] = self.formula(self.model.gates[other].formula, built, values)
        return built[name]

    def collected(self, formula: TreeFormula, house: House) -> Gate:
        """A formula that stands outside all gates, as event trees have them."""
        for name in events_of(formula):
            if name in self.model.gates:
                self.gate(name, house)
        return self.formula(formula, self.built.setdefault(house, {}), {**self.model.houses, **dict(house)})

    def formula(self, f: TreeFormula, built: Mapping[str, Gate], houses: Mapping[str, bool]) -> Gate:
        b = self.builder
        if f.kind == "event":
            if f.name in built:
                return built[f.name]
            return b.const(houses[f.name]) if f.name in houses else b.var(f.name)
        if f.kind in ("true", "false"):
            return b.const(f.kind == "true")
        args = [self.formula(arg, built, houses) for arg in f.args]
        if f.kind in ("and", "nand"):
            out = b.and_(*args)
        elif f.kind in ("or", "nor"):
            out = b.or_(*args)
        elif f.kind in ("xor", "iff"):
            out = args[0]
            for arg in args[1:]:
                out = b.xor(out, arg) if f.kind == "xor" else ~b.xor(out, arg)
        elif f.kind == "imply":
            out = ~args[0] | args[1]
        elif f.kind == "atleast":
            out = b.atleast(f.low, *args)
        elif f.kind == "cardinality":
            out = b.atleast(f.low, *args) & ~b.atleast(f.high + 1, *args)
        else:
            out = args[0]  # of a "not": it is negated below
        return ~out if f.kind in ("not", "nand", "nor") else out


def assemble(model: Model, file: str) -> Circuit:
    """One circuit whose outputs are the tops, then the sequences; its variables are the basic events they depend on."""
    in_order(model.gates, model.gates)
    assembler = Assembler(model)
    tops = model.tops()
    outputs = [assembler.gate(name) for name in tops]
    for sequence in model.sequences:
        if sequence.chance is not None:
            outputs.append(assembler.builder.var(_chance_name(sequence.name)))
            continue
        ways = [[assembler.collected(formula, house) for formula, house in way] for way in sequence.ways]
        outputs.append(assembler.builder.or_(*(assembler.builder.and_(*way) for way in ways)))
    if not outputs:
        raise ParseError("no gate and no sequence is defined: there is no top event", file=file)
    return assembler.builder.build(*outputs, names=[*tops, *(sequence.name for sequence in model.sequences)])


def _chance_name(sequence: str) -> str:
    """The variable that stands for a sequence whose probability is given as a number."""
    return f"sequence {sequence}"


def variable_events(model: Model) -> dict[str, BasicEvent]:
    """The basic events, and for each sequence that has its probability as a number an event of its own."""
    chances = {
        _chance_name(s.name): BasicEvent(_chance_name(s.name), s.place, s.chance)
        for s in model.sequences
        if s.chance is not None
    }
    return {**model.events, **chances}


def why_not_coherent(model: Model, output: str) -> str:
    """Where the first negation below an output stands, in words."""
    formulas = {name: gate.formula for name, gate in model.gates.items()}
    if output in formulas:
        starts = [formulas[output]]
    else:
        starts = [f for s in model.sequences if s.name == output for way in s.ways for f, _ in way]
    below = in_order(model.gates, [name for f in starts for name in events_of(f) if name in formulas])
    for formula in [*starts, *(formulas[name] for name in below)]:
        stack = [formula]
        while stack:
            f = stack.pop()
            if f.kind in NOT_COHERENT:
                return f"<{f.kind}> at {f.place.file}:{f.place.line}"
            stack += f.args
    return f"a negation below {shown(output)}"
