"""Reads fault trees in the Open-PSA Model Exchange Format (version 2, https://open-psa.github.io/mef/).

First every definition is found, with the containers it stands in; then formulas and expressions are read, and names
are looked up from the innermost container outwards, then among the public names. What the format has and this reader
has not is an error that names it: substitutions, alignments, external functions, includes, phi-factors, and
instructions of event trees beyond those of :mod:`sharpdnf.fronts.eventtrees`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharpdnf.errors import did_you_mean
from sharpdnf.fronts.quantities import OPERATIONS, Expression, constant, needed, operation
from sharpdnf.fronts.safexml import Element, Place, shown
from sharpdnf.fronts.treemodel import BasicEvent, GateDefinition, Model, TreeFormula

FORMULAS = ("and", "or", "not", "xor", "iff", "nand", "nor", "atleast", "cardinality", "imply", "constant")
REFERENCES = ("event", "gate", "house-event", "basic-event")
CONTAINERS = ("define-fault-tree", "define-component", "model-data")
KINDS = {
    "define-gate": "gate",
    "define-house-event": "house-event",
    "define-basic-event": "basic-event",
    "define-parameter": "parameter",
}
EVENT_TREES = ("define-event-tree", "define-initiating-event", "define-rule")
UNSUPPORTED = {
    "define-substitution": "substitutions (delete terms, recovery rules, exchange events)",
    "define-alignment": "alignments and phases",
    "define-extern-library": "external libraries",
    "define-extern-function": "external functions",
    "define-consequence": "consequences",
    "define-consequence-group": "consequences",
    "define-initiating-event-group": "groups of initiating events",
    "include": "including other files: give all files together",
    "xi:include": "including other files: give all files together",
}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HOURS = ("hours", "hours-1", "bool", "int", "float", "demands")
"""Units that need no conversion where the mission time is in hours."""
MAX_GROUP = 12
"""The most members that a common-cause group may have: n of them become up to 2^n - 1 events."""
CCF_MODELS = ("beta-factor", "MGL", "alpha-factor")


@dataclass(slots=True)
class Definition:
    """An element that defines something, the path of its containers, and the name that results use for it."""

    kind: str
    element: Element
    path: tuple[str, ...]
    name: str


def name_of(element: Element) -> str:
    name = element.attributes.get("name", "").strip()
    if not name:
        raise element.error(f"<{element.tag}> needs a name")
    return name


def body(element: Element) -> list[Element]:
    """The children that say something: labels and attributes only describe."""
    return [child for child in element.children if child.tag not in ("label", "attributes")]


def unsupported(element: Element, within: str) -> Exception:
    if element.tag in UNSUPPORTED:
        return element.error(f"<{element.tag}> is not supported: {UNSUPPORTED[element.tag]}")
    return element.error(f"<{element.tag[:60]}> is not known in {within}")


class Reader:
    """Reads the files of one model together: names of one may be defined in another."""

    def __init__(self) -> None:
        self.model = Model()
        self.by_path: dict[str, Definition] = {}
        self.public: dict[str, Definition] = {}
        self.parameters_by_path: dict[str, Definition] = {}
        self.public_parameters: dict[str, Definition] = {}
        self.shown: dict[str, Definition] = {}
        self.shown_parameters: dict[str, Definition] = {}
        self.groups: list[Definition] = []
        self.event_tree_elements: list[Element] = []

    def read(self, roots: Sequence[Element]) -> Model:
        for root in roots:
            if root.tag != "opsa-mef":
                raise root.error(
                    f"the root is <{root.tag[:60]}>, not <opsa-mef>: this is not a model of the Open-PSA format"
                )
            for child in body(root):
                if child.tag in CONTAINERS:
                    self.container(child, (), True)
                elif child.tag == "define-CCF-group":
                    self.groups.append(Definition("group", child, (), name_of(child)))
                elif child.tag in EVENT_TREES:
                    self.event_tree_elements.append(child)
                else:
                    raise unsupported(child, "a model")
        for group in self.groups:
            self.declare_members(group)
        for definition in [*self.parameters_by_path.values(), *self.by_path.values()]:
            self.define(definition)
        for name in self.model.parameters:
            needed(self.model.parameters[name], self.model.parameters)
        for group in self.groups:
            self.group(group)
        if self.event_tree_elements:
            from sharpdnf.fronts.eventtrees import read_event_trees

            read_event_trees(self, self.event_tree_elements)
        return self.model

    # --- definitions ------------------------------------------------------------------------------------------------

    def container(self, element: Element, path: tuple[str, ...], public: bool) -> None:
        inside = path if element.tag == "model-data" else (*path, name_of(element))
        role = element.attributes.get("role")
        public = public if role is None else role == "public"
        for child in body(element):
            if child.tag == "define-component":
                self.container(child, inside, public)
            elif child.tag == "define-CCF-group" and element.tag != "model-data":
                self.groups.append(Definition("group", child, inside, name_of(child)))
            elif child.tag in KINDS:
                self.declare(child, inside, public)
            else:
                raise unsupported(child, f"<{element.tag}>")

    def declare(self, element: Element, path: tuple[str, ...], public: bool) -> None:
        name, role = name_of(element), element.attributes.get("role")
        if role not in (None, "public", "private"):
            raise element.error(f"the role of {shown(name)} is public or private, not {shown(role)}")
        public = public if role is None else role == "public"
        full = ".".join((*path, name))
        definition = Definition(KINDS[element.tag], element, path, name if public else full)
        is_parameter = definition.kind == "parameter"
        tables = [self.parameters_by_path if is_parameter else self.by_path]
        keys = [full]
        if public:
            tables.append(self.public_parameters if is_parameter else self.public)
            keys.append(name)
        tables.append(self.shown_parameters if is_parameter else self.shown)
        keys.append(definition.name)
        for table, key in zip(tables, keys, strict=True):
            before = table.setdefault(key, definition)
            if before is not definition:
                place = before.element.place
                raise element.error(f"{shown(key)} is defined already at {place.file}:{place.line}")

    def declare_members(self, group: Definition) -> None:
        """The members of a common-cause group are basic events even if nothing else says so."""
        for outer in body(group.element):
            for member in body(outer) if outer.tag == "members" else ():
                if self.find(name_of(member), group.path) is None:
                    attributes = {"name": name_of(member)}
                    self.declare(Element("define-basic-event", attributes, member.place), group.path, True)

    def define(self, d: Definition) -> None:
        inside = body(d.element)
        if d.kind == "gate":
            self.model.gates[d.name] = GateDefinition(
                d.name, self.formula(self.only(d.element), d.path), d.element.place
            )
        elif d.kind == "house-event":
            self.model.houses[d.name] = self.boolean(self.only(d.element)) if inside else False
        elif d.kind == "basic-event":
            chance = self.expression(self.only(d.element), d.path) if inside else None
            self.model.events[d.name] = BasicEvent(d.name, d.element.place, chance)
        else:
            self.model.parameters[d.name] = self.expression(self.only(d.element), d.path)
            unit = d.element.attributes.get("unit", "float")
            if unit not in HOURS:
                self.model.notes.append(f"the unit {shown(unit)} of parameter {shown(d.name)} is not converted")

    def only(self, element: Element) -> Element:
        inside = body(element)
        if len(inside) != 1:
            raise element.error(f"<{element.tag}> holds one element beside its label, not {len(inside)}")
        return inside[0]

    def find(self, name: str, path: tuple[str, ...], parameter: bool = False) -> Definition | None:
        """The definition of a name: looked up from the innermost container outwards, then as a full path, then among
        the public names."""
        by_path = self.parameters_by_path if parameter else self.by_path
        for depth in range(len(path), -1, -1):
            found = by_path.get(".".join((*path[:depth], name)))
            if found is not None:
                return found
        return (self.public_parameters if parameter else self.public).get(name)

    # --- formulas ---------------------------------------------------------------------------------------------------

    def formula(self, e: Element, path: tuple[str, ...]) -> TreeFormula:
        if e.tag in REFERENCES:
            return self.reference(e, path)
        if e.tag == "constant":
            return TreeFormula("true" if self.boolean(e) else "false", e.place)
        if e.tag not in FORMULAS:
            raise e.error(f"<{e.tag[:60]}> is not a formula: expected one of {', '.join((*REFERENCES[:2], *FORMULAS))}")
        args = tuple(self.formula(child, path) for child in body(e))
        count = {"not": (1, 1), "imply": (2, 2), "xor": (2, len(args)), "iff": (2, len(args))}.get(
            e.tag, (1, len(args))
        )
        if not count[0] <= len(args) <= count[1]:
            raise e.error(f"<{e.tag}> takes {count[0]} argument{'s' * (count[0] > 1)}, not {len(args)}")
        low = high = 0
        if e.tag in ("atleast", "cardinality"):
            key = "k" if e.tag == "atleast" and "k" in e.attributes and "min" not in e.attributes else "min"
            low = self.integer(e, key)
            high = self.integer(e, "max") if e.tag == "cardinality" else len(args)
            if not 0 <= low <= high <= len(args):
                raise e.error(f"<{e.tag}> of {len(args)} arguments cannot have between {low} and {high} of them true")
        return TreeFormula(e.tag, e.place, args, low=low, high=high)

    def reference(self, e: Element, path: tuple[str, ...]) -> TreeFormula:
        name = name_of(e)
        wanted = e.attributes.get("type") if e.tag == "event" else e.tag
        found = self.find(name, path)
        if found is None:
            if wanted == "basic-event":  # the format allows basic events that are not declared: they have no number
                self.model.events.setdefault(name, BasicEvent(name, e.place))
                return TreeFormula("event", e.place, name=name)
            raise e.error(f"{wanted or 'event'} {shown(name)} is not defined{did_you_mean(name[:100], self.public)}")
        if wanted not in (None, found.kind):
            raise e.error(f"{shown(name)} is a {found.kind}, not a {wanted}")
        return TreeFormula("event", e.place, name=found.name)

    def boolean(self, e: Element) -> bool:
        value = e.attributes.get("value", "").strip()
        if e.tag not in ("constant", "bool") or value not in ("true", "false", "1", "0"):
            raise e.error(f'expected <constant value="true"/> or false, not <{e.tag[:60]}> with {shown(value)}')
        return value in ("true", "1")

    def integer(self, e: Element, key: str) -> int:
        value = e.attributes.get(key, "").strip()
        if not re.fullmatch(r"\d{1,9}", value):
            raise e.error(f"<{e.tag}> needs {key}=, a number that is not negative, not {shown(value)}")
        return int(value)

    # --- expressions ------------------------------------------------------------------------------------------------

    def expression(self, e: Element, path: tuple[str, ...]) -> Expression:
        if e.tag == "bool":
            return constant(float(self.boolean(e)), e.place)
        if e.tag in ("float", "int"):
            text = e.attributes.get("value", "").strip()
            number = float(text) if NUMBER.fullmatch(text) else math.inf
            if not math.isfinite(number):
                raise e.error(f"<{e.tag}> needs value=, a finite number, not {shown(text)}")
            return constant(number, e.place)
        if e.tag == "parameter":
            name = name_of(e)
            found = self.find(name, path, parameter=True)
            if found is None:
                known = self.public_parameters
                raise e.error(f"parameter {shown(name)} is not defined{did_you_mean(name[:100], known)}")
            return Expression("parameter", e.place, name=found.name)
        if e.tag == "system-mission-time":
            return Expression(e.tag, e.place)
        inside = body(e)
        if e.tag in ("histogram", "switch"):  # bins and cases are pairs
            pairs = ("bin",) if e.tag == "histogram" else ("case",)
            inside = [inner for child in inside for inner in (body(child) if child.tag in pairs else [child])]
            for child in body(e):
                if child.tag in pairs and len(body(child)) != 2:
                    raise child.error(f"<{child.tag}> holds two expressions")
        elif e.tag not in OPERATIONS:
            raise e.error(f"the expression <{e.tag[:60]}> is not supported")
        args = tuple(self.expression(child, path) for child in inside)
        if e.tag == "switch" and len(args) % 2 == 0:
            raise e.error("<switch> ends in the value that holds if no case does")
        return operation(e.tag, e.place, *args)

    # --- common-cause groups ----------------------------------------------------------------------------------------

    def group(self, d: Definition) -> None:
        """Every member becomes the OR of new events, one for each set of members that can fail together."""
        e, model = d.element, d.element.attributes.get("model", "")
        if model not in CCF_MODELS:
            raise e.error(f"the common-cause model {shown(model)} is not supported: {', '.join(CCF_MODELS)} are")
        parts: dict[str, list[Element]] = {}
        for child in body(e):
            parts.setdefault(child.tag, []).append(child)
        if set(parts) - {"members", "distribution", "factor", "factors"} or any(
            len(parts.get(tag, ())) != 1 for tag in ("members", "distribution")
        ):
            raise e.error("a common-cause group has members, a distribution and factors")
        members = self.members(parts["members"][0], d.path)
        total = self.expression(self.only(parts["distribution"][0]), d.path)
        elements = [f for outer in parts.get("factors", []) for f in body(outer)] + parts.get("factor", [])
        factors = self.factors(e, model, elements, len(members), d.path)
        for size, chance in self.levels(model, factors, total, len(members), e.place):
            for chosen in itertools.combinations(members, size):
                name = f"[{' '.join(chosen)}]"
                self.model.events[name] = BasicEvent(name, e.place, chance)
                for member in chosen:
                    gate = self.model.gates[member]
                    args = (*gate.formula.args, TreeFormula("event", e.place, name=name))
                    self.model.gates[member] = GateDefinition(member, TreeFormula("or", e.place, args), e.place)

    def members(self, e: Element, path: tuple[str, ...]) -> list[str]:
        """The members' names; from here on they are gates, without inputs yet."""
        names: list[str] = []
        for child in body(e):
            if child.tag != "basic-event":
                raise child.error("the members of a common-cause group are basic events")
            name = self.reference(child, path).name
            if name not in self.model.events:
                raise child.error(f"{shown(name)} is in a common-cause group already")
            if self.model.events.pop(name).expression is not None:
                raise child.error(f"{shown(name)} has a probability of its own: the group's distribution is for all")
            self.model.gates[name] = GateDefinition(name, TreeFormula("or", child.place), child.place)
            self.model.replaced.add(name)
            names.append(name)
        if not 2 <= len(names) <= MAX_GROUP:
            raise e.error(f"a common-cause group has 2 to {MAX_GROUP} members, not {len(names)}")
        return names

    def factors(
        self, e: Element, model: str, elements: Iterable[Element], n: int, path: tuple[str, ...]
    ) -> dict[int, Expression]:
        """The factor of each level; a factor without a level belongs to the level after the one before."""
        out: dict[int, Expression] = {}
        first = {"beta-factor": n, "MGL": 2, "alpha-factor": 1}[model]
        for place, child in enumerate(elements, first):
            if child.tag != "factor":
                raise child.error(f"expected <factor>, not <{child.tag[:60]}>")
            level = self.integer(child, "level") if "level" in child.attributes else place
            if level != place or level > n:
                raise child.error(f"expected the factor of level {place}, not of {level}, in a group of {n}")
            out[level] = self.expression(self.only(child), path)
        if not out:
            raise e.error("a common-cause group needs its factors")
        return out

    def levels(
        self, model: str, factors: dict[int, Expression], total: Expression, n: int, place: Place
    ) -> Iterable[tuple[int, Expression]]:
        """(how many members fail together, the probability of one such set), as the format defines the models."""

        def op(name: str, *args: Expression) -> Expression:
            return operation(name, place, *args)

        one = constant(1.0, place)
        if model == "beta-factor":
            yield 1, op("mul", op("sub", one, factors[n]), total)
            yield n, op("mul", factors[n], total)
        elif model == "MGL":
            greek = one
            for k in range(1, max(factors) + 1):
                greek = greek if k == 1 else op("mul", greek, factors[k])
                rest = op("sub", one, factors[k + 1]) if k + 1 in factors else one
                yield k, op("div", op("mul", greek, rest, total), constant(math.comb(n - 1, k - 1), place))
        else:
            parts = [op("mul", constant(k, place), factors[k]) for k in factors]
            for k, part in zip(factors, parts, strict=True):
                yield k, op("div", op("mul", part, total), constant(math.comb(n - 1, k - 1), place), op("add", *parts))


def read_openpsa(roots: Sequence[Element]) -> Model:
    """The model that the files, given by their root elements, describe together."""
    return Reader().read(roots)
