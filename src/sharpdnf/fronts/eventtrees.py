"""Event trees of the Open-PSA format: every way from an initiating event to a sequence, with what holds on it.

Forks, paths, named branches, rules, blocks, links to other event trees, ``collect-formula``, ``collect-expression`` and
``set-house-event`` (forward) are read; other instructions are errors that name them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sharpdnf.fronts.quantities import Expression, operation
from sharpdnf.fronts.safexml import Element, shown
from sharpdnf.fronts.treemodel import House, Sequence, TreeFormula

if TYPE_CHECKING:
    from sharpdnf.fronts.openpsa import Reader

MAX_WAYS = 100_000
"""The most ways that may lead through all event trees together."""
MAX_STEPS = 100
"""The most branches, rules, links and forks on one way; with more, the branches are taken to form a cycle."""


@dataclass(frozen=True, slots=True)
class Trail:
    """What was collected so far on one way through the event trees."""

    formulas: tuple[tuple[TreeFormula, House], ...] = ()
    expressions: tuple[Expression, ...] = ()
    house: House = frozenset()


def read_event_trees(reader: Reader, elements: Iterable[Element]) -> None:
    """Adds the sequences of all initiating events, or of all event trees if there is no initiating event."""
    walker = _Walker(reader)
    starts: list[tuple[str, Element, str]] = []
    for element in elements:
        name = walker.name_of(element)
        if element.tag == "define-initiating-event":
            starts.append((name, element, element.attributes.get("event-tree", "")))
        else:
            walker.define(element, walker.trees if element.tag == "define-event-tree" else walker.rules)
    for tree in walker.trees.values():
        walker.parts(tree)
    if not starts:
        starts = [(name, tree, name) for name, tree in walker.trees.items()]
    used = [start for start in starts if start[2]]
    seen: set[str] = set()
    for name, element, tree_name in used:
        for found in walker.sequences(element, tree_name):
            sequence = found if len(used) == 1 else replace(found, name=f"{name}:{found.name}")
            if sequence.name in seen or sequence.name in reader.model.gates:
                raise sequence.place.error(f"the sequence {shown(sequence.name)} has the name of something else")
            seen.add(sequence.name)
            reader.model.sequences.append(sequence)


class _Walker:
    def __init__(self, reader: Reader) -> None:
        from sharpdnf.fronts.openpsa import body, name_of

        self.body, self.name_of = body, name_of
        self.reader = reader
        self.trees: dict[str, Element] = {}
        self.rules: dict[str, Element] = {}
        self.branches: dict[tuple[str, str], Element] = {}
        self.initial: dict[str, Element] = {}
        self.ends: dict[str, Element] = {}
        self.functional: dict[str, set[str]] = {}
        self.found: dict[str, list[Trail]] = {}
        self.num_ways = 0

    def define(self, element: Element, table: dict[str, Element]) -> None:
        name = self.name_of(element)
        if name in table:
            place = table[name].place
            raise element.error(f"{shown(name)} is defined already at {place.file}:{place.line}")
        table[name] = element

    def parts(self, tree: Element) -> None:
        """Finds the branches, sequences, functional events and the start of an event tree."""
        name = self.name_of(tree)
        self.functional[name] = set()
        for child in self.body(tree):
            if child.tag == "define-branch":
                key = (name, self.name_of(child))
                if key in self.branches:
                    raise child.error(f"the branch {shown(key[1])} is defined already")
                self.branches[key] = child
            elif child.tag == "define-sequence":
                self.define(child, self.ends)
            elif child.tag == "define-functional-event":
                self.functional[name].add(self.name_of(child))
            elif child.tag == "initial-state" and name not in self.initial:
                self.initial[name] = child
            else:
                raise child.error(f"<{child.tag[:60]}> is not expected here in <define-event-tree>")
        if name not in self.initial:
            raise tree.error(f"the event tree {shown(name)} has no <initial-state>")

    def sequences(self, start: Element, tree: str) -> list[Sequence]:
        """The sequences that can be reached from one initiating event."""
        self.found = {}
        trail, frequency = Trail(), None
        inside = self.body(start) if start.tag == "define-initiating-event" else []
        if len(inside) > 1:
            raise start.error("an initiating event holds one gate, basic event or number at most")
        for child in inside:
            if child.tag in ("gate", "basic-event", "event"):
                trail = Trail(formulas=((self.reader.formula(child, ()), frozenset()),))
            else:
                frequency = self.reader.expression(child, ())
        self.link(start, tree, trail, 0)
        return [self.sequence(name, trails, frequency) for name, trails in self.found.items()]

    def sequence(self, name: str, trails: list[Trail], frequency: Expression | None) -> Sequence:
        place = self.ends[name].place
        if not any(trail.expressions for trail in trails):
            return Sequence(name, place, tuple(trail.formulas for trail in trails), None, frequency)
        if any(trail.formulas for trail in trails):
            raise place.error(
                f"the sequence {shown(name)} mixes collected formulas with collected expressions: "
                "make the expressions basic events"
            )
        chances = [operation("mul", place, *trail.expressions) for trail in trails if trail.expressions]
        if len(chances) < len(trails):
            raise place.error(f"a way to the sequence {shown(name)} collects nothing, so it has no probability")
        return Sequence(name, place, chance=operation("add", place, *chances), frequency=frequency)

    def link(self, element: Element, tree: str, trail: Trail, depth: int) -> None:
        if tree not in self.initial:
            raise element.error(f"the event tree {shown(tree)} is not defined")
        self.walk(self.initial[tree], tree, trail, depth + 1)

    def walk(self, branch: Element, tree: str, trail: Trail, depth: int) -> None:
        """Follows the instructions of a branch, then its fork, its sequence or the branch it names."""
        if depth > MAX_STEPS:
            raise branch.error(f"more than {MAX_STEPS} steps on one way: the branches form a cycle")
        inside = self.body(branch)
        if not inside:
            raise branch.error(f"<{branch.tag}> leads nowhere")
        for child in inside[:-1]:
            trail = self.instruct(child, trail, 0)
        self.leave(inside[-1], tree, trail, depth)

    def leave(self, end: Element, tree: str, trail: Trail, depth: int) -> None:
        if end.tag == "fork":
            self.fork(end, tree, trail, depth)
        elif end.tag == "branch":
            found = self.branches.get((tree, self.name_of(end)))
            if found is None:
                raise end.error(f"the branch {shown(self.name_of(end))} is not defined")
            self.walk(found, tree, trail, depth + 1)
        elif end.tag == "sequence":
            self.finish(end, trail, depth)
        else:
            raise end.error(f"expected <fork>, <sequence> or <branch>, not <{end.tag[:60]}>")

    def fork(self, fork: Element, tree: str, trail: Trail, depth: int) -> None:
        event = fork.attributes.get("functional-event", "")
        if event not in self.functional[tree]:
            raise fork.error(f"the functional event {shown(event)} is not defined in this event tree")
        states: set[str] = set()
        for path in self.body(fork):
            state = path.attributes.get("state", "")
            if path.tag != "path" or not state or state in states:
                raise path.error("a fork holds paths, each with a state of its own")
            states.add(state)
            self.walk(path, tree, trail, depth + 1)
        if not states:
            raise fork.error("a fork holds at least one path")

    def finish(self, end: Element, trail: Trail, depth: int) -> None:
        name = self.name_of(end)
        if name not in self.ends:
            raise end.error(f"the sequence {shown(name)} is not defined")
        inside = self.body(self.ends[name])
        linked = inside[-1] if inside and inside[-1].tag == "event-tree" else None
        for child in inside if linked is None else inside[:-1]:
            trail = self.instruct(child, trail, 0)
        if linked is not None:
            self.link(linked, self.name_of(linked), trail, depth + 1)
            return
        self.num_ways += 1
        if self.num_ways > MAX_WAYS:
            raise end.error(f"more than {MAX_WAYS} ways through the event trees")
        self.found.setdefault(name, []).append(trail)

    def instruct(self, e: Element, trail: Trail, depth: int) -> Trail:
        if depth > MAX_STEPS:
            raise e.error("the rules form a cycle")
        if e.tag == "collect-formula":
            formula = self.reader.formula(self.reader.only(e), ())
            return replace(trail, formulas=(*trail.formulas, (formula, trail.house)))
        if e.tag == "collect-expression":
            return replace(trail, expressions=(*trail.expressions, self.reader.expression(self.reader.only(e), ())))
        if e.tag == "set-house-event":
            return replace(trail, house=self.set_house(e, trail.house))
        if e.tag in ("block", "rule"):
            inside = e
            if e.tag == "rule":
                if self.name_of(e) not in self.rules:
                    raise e.error(f"the rule {shown(self.name_of(e))} is not defined")
                inside = self.rules[self.name_of(e)]
            for child in self.body(inside):
                trail = self.instruct(child, trail, depth + 1)
            return trail
        raise e.error(f"the instruction <{e.tag[:60]}> of event trees is not supported")

    def set_house(self, e: Element, house: House) -> House:
        name = self.name_of(e)
        found = self.reader.find(name, ())
        if found is None or found.kind != "house-event":
            raise e.error(f"{shown(name)} is not a house event")
        if e.attributes.get("direction", "forward") != "forward":
            raise e.error("only the direction forward is supported in <set-house-event>")
        value = self.reader.boolean(self.reader.only(e))
        return frozenset({**dict(house), found.name: value}.items())
