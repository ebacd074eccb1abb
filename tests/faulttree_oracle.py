"""Random fault trees: written as Open-PSA XML and as Aralia text, evaluated in every world without a circuit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sharpdnf import faulttree
from sharpdnf.errors import InvalidFormula, LimitError, ParseError

KINDS = ("and", "or", "not", "xor", "iff", "nand", "nor", "imply", "atleast", "cardinality")
COHERENT = ("and", "or", "atleast")


@dataclass(frozen=True)
class Node:
    kind: str
    args: tuple[Node, ...] = ()
    name: str = ""
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Tree:
    gates: dict[str, Node]
    houses: dict[str, bool]
    prob: dict[str, float]
    top: str


def random_tree(rng: np.random.Generator, kinds: tuple[str, ...] = KINDS, num_events: int = 7) -> Tree:
    prob = {f"e{i}": float(rng.random()) for i in range(int(rng.integers(1, num_events + 1)))}
    houses = {f"h{i}": bool(rng.integers(2)) for i in range(int(rng.integers(3)))}
    names = [*prob, *houses]
    gates: dict[str, Node] = {}
    for i in range(int(rng.integers(1, 7))):
        gates[f"g{i}"] = random_formula(rng, names, kinds, 2)
        names.append(f"g{i}")
    return Tree(gates, houses, prob, names[-1])


def random_formula(rng: np.random.Generator, names: list[str], kinds: tuple[str, ...], depth: int) -> Node:
    kind = str(rng.choice(kinds))
    n = {"not": 1, "imply": 2}.get(kind, int(rng.integers(2, 5)))
    args = []
    for _ in range(n):
        if depth and rng.random() < 0.25:
            args.append(random_formula(rng, names, kinds, depth - 1))
        else:
            args.append(Node("event", name=str(rng.choice(names))))
    low = int(rng.integers(0, n + 1)) if kind == "cardinality" else int(rng.integers(1, n + 1))
    return Node(kind, tuple(args), low=low, high=int(rng.integers(low, n + 1)))


def holds(tree: Tree, node: Node, world: dict[str, bool]) -> bool:
    if node.kind == "event":
        if node.name in tree.gates:
            return holds(tree, tree.gates[node.name], world)
        return tree.houses[node.name] if node.name in tree.houses else world[node.name]
    values = [holds(tree, arg, world) for arg in node.args]
    rules: dict[str, Callable[[], bool]] = {
        "and": lambda: all(values),
        "or": lambda: any(values),
        "not": lambda: not values[0],
        "nand": lambda: not all(values),
        "nor": lambda: not any(values),
        "xor": lambda: sum(values) % 2 == 1,
        "iff": lambda: (len(values) - sum(values)) % 2 == 0,  # ((a <=> b) <=> c) ...: an even number is false
        "imply": lambda: values[1] or not values[0],
        "atleast": lambda: sum(values) >= node.low,
        "cardinality": lambda: node.low <= sum(values) <= node.high,
    }
    return rules[node.kind]()


def worlds(tree: Tree) -> list[tuple[dict[str, bool], float]]:
    out = []
    for values in itertools.product([False, True], repeat=len(tree.prob)):
        world = dict(zip(tree.prob, values, strict=True))
        out.append((world, math.prod(p if world[e] else 1.0 - p for e, p in tree.prob.items())))
    return out


def probability(tree: Tree, fixed: dict[str, bool] | None = None) -> float:
    """P(top), given that some events happen or do not."""
    fixed = fixed or {}
    prob = {e: float(fixed[e]) if e in fixed else p for e, p in tree.prob.items()}
    changed = Tree(tree.gates, tree.houses, prob, tree.top)
    return math.fsum(p for world, p in worlds(changed) if holds(tree, Node("event", name=tree.top), world))


def to_xml(tree: Tree) -> str:
    def formula(node: Node) -> str:
        if node.kind == "event":
            kind = "gate" if node.name in tree.gates else "house-event" if node.name in tree.houses else "basic-event"
            return f'<{kind} name="{node.name}"/>'
        limits = {"atleast": f' min="{node.low}"', "cardinality": f' min="{node.low}" max="{node.high}"'}
        return f"<{node.kind}{limits.get(node.kind, '')}>{''.join(map(formula, node.args))}</{node.kind}>"

    gates = [f'<define-gate name="{name}">{formula(node)}</define-gate>' for name, node in tree.gates.items()]
    houses = [
        f'<define-house-event name="{name}"><constant value="{str(value).lower()}"/></define-house-event>'
        for name, value in tree.houses.items()
    ]
    events = [
        f'<define-basic-event name="{name}"><float value="{p!r}"/></define-basic-event>'
        for name, p in tree.prob.items()
    ]
    inside = "\n".join(["<model-data>", *houses, *events, "</model-data>"])
    return "\n".join(
        ["<opsa-mef>", '<define-fault-tree name="T">', *gates, "</define-fault-tree>", inside, "</opsa-mef>"]
    )


def to_aralia(tree: Tree) -> str:
    signs = {"and": " & ", "or": " | ", "xor": " ^ ", "iff": " <=> ", "imply": " => "}

    def formula(node: Node) -> str:
        if node.kind == "event":
            return node.name
        args = [formula(arg) for arg in node.args]
        if node.kind in signs:
            return f"({signs[node.kind].join(args)})"
        if node.kind in ("atleast", "cardinality"):
            head = f"@({node.low}" if node.kind == "atleast" else f"#({node.low}, {node.high}"
            return f"{head}, [{', '.join(args)}])"
        return f"~({(' & ' if node.kind == 'nand' else ' | ').join(args)})"

    lines = [f"{name} := {formula(node)}" for name, node in tree.gates.items()]
    lines += [f"p({name}) = {p!r};" for name, p in tree.prob.items()]
    return "\n".join([*lines, *(f"s({name}) = {str(value).lower()}" for name, value in tree.houses.items())])


def minimal(tree: Tree) -> set[frozenset[str]]:
    top = Node("event", name=tree.top)
    true = [frozenset(e for e in world if world[e]) for world, _ in worlds(tree) if holds(tree, top, world)]
    return {s for s in true if not any(t < s for t in true)}


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at, kind = int(rng.integers(len(out) + 1)), int(rng.integers(4))
        piece = out[at : at + int(rng.integers(1, 30))]
        if kind == 0:
            del out[at : at + len(piece)]
        elif kind == 1:
            out[at:at] = out[int(rng.integers(len(out) + 1)) :][: int(rng.integers(1, 40))]
        elif kind == 2:
            out[at:at] = bytes(rng.integers(0, 256, 1, dtype=np.uint8))
        else:
            out[at:at] = rng.choice([b"(", b")", b"<", b"/>", b"&", b"-", b"1e999", b'"', b"@(", b"]", b"0"])
    return bytes(out)


def ask_anything(data: bytes) -> None:
    """Whatever is read is answered or refused as something a user can mend."""
    try:
        tree = faulttree.reads(data)
        for top in (*tree.tops, *tree.sequence_names)[:3]:
            found = tree.probability(top, mission_time=10.0, timeout=5.0)
            assert 0.0 <= found.lower <= found.upper <= 1.0
            tree.cut_sets(limit=3, top=top, mission_time=10.0, timeout=5.0)
    except (ParseError, InvalidFormula, LimitError):
        pass
