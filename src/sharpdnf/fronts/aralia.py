"""Fault trees as text: the Aralia notation, and lists of cut sets.

Aralia: ``top := (a & b) | @(2, [c, d, e])``, ``~`` or ``-`` for not, ``^`` exclusive or, ``=>`` and ``<=>``,
``#(l, h, [...])`` for between l and h; ``p(a) = 0.1`` is a probability and ``s(h) = true`` a house event. Statements
may end in ``;``; a lone name first is a title. A list of cut sets has one per line, its events separated by spaces or
commas, and the same ``p(a) = 0.1``; ``#`` starts a comment there, ``//`` and ``/* */`` in Aralia.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sharpdnf.fronts.quantities import constant
from sharpdnf.fronts.safexml import MAX_DEPTH, MAX_NAME, Place, shown
from sharpdnf.fronts.treemodel import BasicEvent, GateDefinition, Model, TreeFormula

NAME = r"[^\W\d][\w.]*(?:-[\w.]+)*"
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
TOKEN = re.compile(
    rf"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<name>{NAME})|(?P<number>{NUMBER})|(?P<sign>:=|<=>|=>|[()\[\],;=&|^~!@#-])",
    re.DOTALL,
)
BINARY = (("<=>", "iff"), ("=>", "imply"), ("|", "or"), ("^", "xor"), ("&", "and"))
"""The operators with the names of what they make, those that bind most weakly first."""
LISTED_NAME = r"[\w.:/+-]+"
"""In a list of cut sets a name may also start with a digit."""
PROBABILITY = re.compile(rf"p\s*\(\s*({LISTED_NAME})\s*\)\s*=\s*({NUMBER})\s*;?")


@dataclass(frozen=True, slots=True)
class Token:
    group: str
    text: str
    line: int


def tokens_of(text: str, file: str) -> list[Token]:
    out: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise Place(file, line).error(f"unexpected {shown(text[at])}")
        if len(match[0]) > MAX_NAME and match.lastgroup != "space":
            raise Place(file, line).error(f"a name or number of {len(match[0])} characters, more than {MAX_NAME}")
        if match.lastgroup != "space":
            out.append(Token(match.lastgroup, match[0], line))
        line += match[0].count("\n")
        at = match.end()
    out.append(Token("end", "the end of the file", line))
    return out


class _Aralia:
    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.tokens = tokens_of(text, file)
        self.at = 0
        self.model = Model()
        self.numbers: dict[str, BasicEvent] = {}
        self.used: dict[str, Place] = {}

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def place(self) -> Place:
        return Place(self.file, self.token.line)

    def take(self, text: str | None = None, group: str | None = None) -> str:
        """The token here, which must be that one or of that group."""
        token = self.token
        if (text is not None and token.text != text) or (group is not None and token.group != group):
            raise self.place.error(f"expected {text or f'a {group}'} before {shown(token.text)}")
        self.at += 1
        return token.text

    def follows(self, *texts: str) -> bool:
        return tuple(token.text for token in self.tokens[self.at : self.at + len(texts)]) == texts

    def read(self) -> Model:
        if self.token.group == "name" and self.tokens[self.at + 1].text not in (":=", "("):
            self.at += 1  # a title
            self.end_statement()
        while self.token.group != "end":
            self.statement()
        return self.finish()

    def end_statement(self) -> None:
        while self.token.text == ";":
            self.at += 1

    def statement(self) -> None:
        place = self.place
        name = self.take(group="name")
        if self.token.text == ":=":
            self.at += 1
            if name in self.model.gates:
                before = self.model.gates[name].place
                raise place.error(f"the gate {shown(name)} is defined already at {before.file}:{before.line}")
            self.model.gates[name] = GateDefinition(name, self.formula(0, 0), place)
        elif name in ("p", "s") and self.token.text == "(":
            self.at += 1
            event = self.take(group="name")
            self.take(")"), self.take("=")
            if event in self.numbers or event in self.model.houses:
                raise place.error(f"{shown(event)} has a value already")
            if name == "p":
                self.numbers[event] = BasicEvent(event, place, constant(float(self.take(group="number")), place))
            else:
                value = self.token.text
                if value not in ("true", "false", "1", "0"):
                    raise self.place.error(f"a house event is true or false, not {shown(value)}")
                self.at += 1
                self.model.houses[event] = value in ("true", "1")
        else:
            raise place.error(f"expected {shown(name)} := ..., p(event) = ... or s(event) = ...")
        self.end_statement()

    def formula(self, strength: int, depth: int) -> TreeFormula:
        """A chain of the operator of this strength, of formulas that bind more strongly."""
        if strength == len(BINARY):
            return self.operand(depth)
        sign, kind = BINARY[strength]
        place = self.place
        args = [self.formula(strength + 1, depth)]
        while self.token.text == sign:
            self.at += 1
            args.append(self.formula(strength + 1, depth))
        if len(args) == 1:
            return args[0]
        if kind == "imply" and len(args) > 2:
            raise place.error("a => b => c is not clear: write brackets")
        return TreeFormula(kind, place, tuple(args))

    def operand(self, depth: int) -> TreeFormula:
        if depth > MAX_DEPTH // 2:
            raise self.place.error(f"brackets are nested more than {MAX_DEPTH // 2} deep")
        place, token = self.place, self.token
        if token.text in ("~", "-", "!"):
            self.at += 1
            return TreeFormula("not", place, (self.operand(depth + 1),))
        if token.text == "(":
            self.at += 1
            inside = self.formula(0, depth + 1)
            self.take(")")
            return inside
        if token.text in ("@", "#"):
            return self.counted(token.text, depth)
        name = self.take(group="name")
        self.used.setdefault(name, place)
        return TreeFormula("event", place, name=name)

    def counted(self, sign: str, depth: int) -> TreeFormula:
        """Reads ``@(k, [a, b, c])``, at least k of them, or ``#(l, h, [a, b, c])``, between l and h of them."""
        place = self.place
        self.at += 1
        self.take("(")
        numbers = []
        for _ in range(1 if sign == "@" else 2):
            number = self.take(group="number")
            if not re.fullmatch(r"\d{1,9}", number):
                raise place.error(f"expected a whole number, not {shown(number)}")
            numbers.append(int(number))
            self.take(",")
        self.take("[")
        args = [self.formula(0, depth + 1)]
        while self.token.text == ",":
            self.at += 1
            args.append(self.formula(0, depth + 1))
        self.take("]"), self.take(")")
        low, high = numbers[0], numbers[-1] if sign == "#" else len(args)
        if not low <= high <= len(args):
            raise place.error(f"of {len(args)} events there cannot be between {low} and {high}")
        return TreeFormula("atleast" if sign == "@" else "cardinality", place, tuple(args), low=low, high=high)

    def finish(self) -> Model:
        model = self.model
        for name, event in self.numbers.items():
            if name in model.gates:
                raise event.place.error(f"{shown(name)} is a gate: it has no probability of its own")
        for name in model.houses:
            if name in model.gates:
                raise model.gates[name].place.error(f"{shown(name)} is a house event, not a gate")
        for name, place in self.used.items():
            if name not in model.gates and name not in model.houses:
                model.events[name] = self.numbers.get(name) or BasicEvent(name, place)
        return model


def read_aralia(text: str, file: str) -> Model:
    return _Aralia(text, file).read()


TOP = "top"
"""The name of the gate that a list of cut sets becomes."""


def read_cut_sets(text: str, file: str) -> Model:
    """Reads a list of cut sets, one per line, as the OR of them. If any probability is given, every event needs one."""
    model = Model()
    numbers: dict[str, BasicEvent] = {}
    sets: list[TreeFormula] = []
    for number, line in enumerate(text.splitlines(), 1):
        place = Place(file, number)
        words = line.partition("#")[0].strip()
        if not words:
            continue
        given = PROBABILITY.fullmatch(words)
        if given is not None:
            if given[1] in numbers:
                raise place.error(f"{shown(given[1])} has a probability already")
            numbers[given[1]] = BasicEvent(given[1], place, constant(float(given[2]), place))
            continue
        names = [name for name in re.split(r"[\s,;&*]+", words.strip("{}[]() ")) if name]
        for name in names:
            if not re.fullmatch(LISTED_NAME, name) or len(name) > MAX_NAME:
                raise place.error(f"expected the name of an event, not {shown(name)}")
            model.events.setdefault(name, BasicEvent(name, place))
        if names:
            sets.append(TreeFormula("and", place, tuple(TreeFormula("event", place, name=name) for name in names)))
    if not sets:
        raise Place(file, 0).error("no cut set: expected the events of one cut set on each line")
    top = TOP
    while top in model.events:
        top += "'"
    for name, event in model.events.items():
        if numbers and name not in numbers:
            raise event.place.error(f"the event {shown(name)} has no probability: add p({name[:100]}) = ...")
    model.events |= {name: numbers[name] for name in model.events if name in numbers}
    model.gates[top] = GateDefinition(top, TreeFormula("or", Place(file, 1), tuple(sets)), Place(file, 1))
    return model
