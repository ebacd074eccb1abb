"""Small networks, fault trees and logic programs against enumeration; broken files are answered or refused."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Iterator
from typing import Any

import faulttree_oracle as trees
import network_worlds as nets
import numpy as np

from sharpdnf import faulttree, network, problog
from sharpdnf.engines.front import make_limit
from sharpdnf.errors import SharpDNFError
from sharpdnf.fronts.connection import Promise, sample_connection
from sharpdnf.fronts.links import read_network

BROKEN = [
    "",
    ",",
    "\n",
    "1.5",
    "-1",
    "nan",
    "'",
    '"',
    ":-",
    "::",
    "(",
    ")",
    ".",
    "\\+",
    "\0",
    "é",
    "query(",
    "a,a,",
    "1e999",
]


def cases(seed: int) -> Iterator[Any]:
    rng, random_ = np.random.default_rng(seed), random.Random(seed)
    for _ in range(6):
        case = nets.random_case(rng)
        if case is not None:
            table = {"kind": "network", **dataclasses.asdict(case), "seed": random_.randrange(2**32)}
            yield json.loads(json.dumps(table))  # tuples and numbered nodes as a kept case has them
    for _ in range(3):
        yield {"kind": "tree", "seed": random_.randrange(2**32)}
    yield program(random_)
    text = program(random_)["text"]
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(text))
        text = text[:at] + random_.choice(BROKEN) + text[at + random_.randrange(3) :]
    yield {"kind": "text", "text": text}
    rows = "source,target,prob\na,b,0.5\nb,c,0.25\nc,a,1\n"
    at = random_.randrange(len(rows))
    yield {"kind": "rows", "text": rows[:at] + random_.choice(BROKEN) + rows[at + random_.randrange(3) :]}


def check(case: Any) -> bool:
    return bool(CHECKS[case["kind"]](case))


def check_network(case: Any) -> bool:
    fields = {key: value for key, value in case.items() if key not in ("kind", "seed")}
    fields["node_prob"] = {int(node): p for node, p in fields["node_prob"].items()}
    asked = nets.Case(**fields)
    truth = nets.reliability(asked)
    exact = network.reliability(asked.links, **asked.asked, guarantee="exact")
    assert exact.met and math.isclose(exact.prob, truth, rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(exact.complement, nets.failure(asked), rel_tol=1e-6, abs_tol=1e-15)
    question = network.ask(
        read_network(asked.links, directed=asked.directed, node_prob=asked.node_prob or None),
        **{key: value for key, value in asked.asked.items() if key not in ("directed", "node_prob")},
    )
    wanted = Promise("additive", 0.02, 1e-9)
    drawn = sample_connection(question, wanted, np.random.default_rng(case["seed"]), make_limit(20, 1))
    assert abs(drawn.prob - truth) <= 0.02
    return True


def check_tree(case: Any) -> bool:
    tree = trees.random_tree(np.random.default_rng(case["seed"]))
    model = faulttree.reads(trees.to_xml(tree))
    truth = trees.probability(tree)
    assert math.isclose(model.probability(tree.top).prob, truth, rel_tol=1e-9, abs_tol=1e-12)
    table = model.importance(tree.top)
    for event, birnbaum in zip(table["event"], table["birnbaum"], strict=True):
        up, down = (trees.probability(tree, {event: value}) for value in (True, False))
        assert math.isclose(birnbaum, up - down, rel_tol=1e-9, abs_tol=1e-12)
    found = model.prime_implicants(top=tree.top)
    assert found.rare_event >= truth * (1 - 1e-9)
    return True


def program(random_: random.Random) -> dict[str, Any]:
    """Facts, rules in circles over them, and one rule that negates: propositional, so that worlds are easily tried."""
    facts = {f"f{i}": round(random_.choice([random_.random(), 0.0, 1.0, 0.5]), 6) for i in range(random_.randint(1, 6))}
    heads = [f"r{i}" for i in range(random_.randint(1, 4))]
    rules = [
        (head, random_.choices([*facts, *heads], k=random_.randint(1, 3)))
        for head in heads
        for _ in range(random_.randint(1, 3))
    ]
    negated = random_.choice([*heads, *facts])
    top = ("top", [random_.choice([*heads, *facts])])
    lines = [*(f"{p}::{name}." for name, p in facts.items()), *(f"{h} :- {', '.join(body)}." for h, body in rules)]
    lines += [f"top :- {top[1][0]}, \\+ {negated}.", *(f"query({name})." for name in [*heads, "top"])]
    return {"kind": "program", "text": "\n".join(lines), "facts": facts, "rules": rules, "top": [top[1][0], negated]}


def check_program(case: Any) -> bool:
    facts, rules = case["facts"], case["rules"]
    total: dict[str, float] = {}
    for up in itertools.product([False, True], repeat=len(facts)):
        weight = math.prod(p if on else 1.0 - p for p, on in zip(facts.values(), up, strict=True))
        true = {name for name, on in zip(facts, up, strict=True) if on}
        while new := {head for head, body in rules if set(body) <= true} - true:
            true |= new
        if case["top"][0] in true and case["top"][1] not in true:
            true.add("top")
        for name in true:
            total[name] = total.get(name, 0.0) + weight
    answers = problog.query(case["text"], guarantee="exact", timeout=30)
    for name, answer in answers.items():
        assert math.isclose(answer.prob, total.get(name, 0.0), rel_tol=1e-9, abs_tol=1e-12), name
    return True


def check_text(case: Any) -> bool:
    try:
        answers = problog.query(case["text"], timeout=20, rng=1)
    except SharpDNFError:
        return False
    assert all(0.0 <= answer.prob <= 1.0 for answer in answers.values())
    return True


def check_rows(case: Any) -> bool:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "links.csv"
        path.write_text(case["text"], encoding="utf-8", newline="")
        try:
            answer = network.reliability(path, guarantee="exact")
        except SharpDNFError:
            return False
    assert 0.0 <= answer.prob <= 1.0
    return True


CHECKS = {
    "network": check_network,
    "tree": check_tree,
    "program": check_program,
    "text": check_text,
    "rows": check_rows,
}
