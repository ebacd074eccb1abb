"""Prime implicants of trees with negations, against all sets of literals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from faulttree_oracle import Node, Tree, holds, random_tree, to_xml, worlds

from sharpdnf import faulttree
from sharpdnf.errors import InvalidFormula, LimitError
from sharpdnf.estimate import Limit
from sharpdnf.fronts.implicants import find_implicants


def primes(tree: Tree, names: tuple[str, ...]) -> set[frozenset[str]]:
    """Sets of literals under which the top always holds, none of them within another: by trying all."""
    table = [(world, holds(tree, Node("event", name=tree.top), world)) for world, _ in worlds(tree)]
    found: list[frozenset[str]] = []
    for size in range(len(names) + 1):
        for chosen in itertools.combinations(names, size):
            for signs in itertools.product((True, False), repeat=size):
                wanted = dict(zip(chosen, signs, strict=True))
                literals = frozenset(name if sign else f"not {name}" for name, sign in wanted.items())
                inside = [value for world, value in table if all(world[n] == s for n, s in wanted.items())]
                if all(inside) and not any(other <= literals for other in found):
                    found.append(literals)
    return set(found)


@pytest.mark.parametrize("seed", range(12))
def test_all_primes_and_no_others(seed: int) -> None:
    rng = np.random.default_rng([90, seed])
    tree = random_tree(rng, num_events=5)
    model = faulttree.reads(to_xml(tree))
    found = model.prime_implicants(top=tree.top, limit=10_000)
    names = tuple(worlds(tree)[0][0])
    assert {frozenset(events) for events in found.events} == primes(tree, names)
    assert found.total == len(found)
    chance = {name: sum(p for world, p in worlds(tree) if world[name]) for name in names}
    for events, prob in zip(found.events, found.prob, strict=True):
        factors = [1 - chance[e[4:]] if e.startswith("not ") else chance[e] for e in events]
        assert prob == pytest.approx(float(np.prod(factors)))


def test_without_negation_they_are_the_minimal_cut_sets() -> None:
    tree = faulttree.reads("top := @(2, [a, b, c & d])\np(a)=.1\np(b)=.2\np(c)=.3\np(d)=.4")
    assert set(tree.prime_implicants().events) == set(tree.cut_sets().events)


def test_a_tree_with_negations_says_what_it_has_instead_of_cut_sets() -> None:
    tree = faulttree.reads("top := (a & ~b) | (b & c)\np(a)=.1\np(b)=.2\np(c)=.3")
    with pytest.raises(InvalidFormula, match="prime_implicants"):
        tree.cut_sets()
    assert set(tree.prime_implicants().events) == {("a", "not b"), ("b", "c"), ("a", "c")}


def test_the_limits_hold() -> None:
    text = "top := " + " | ".join(f"(a{i} & ~a{(i * 7 + 3) % 40})" for i in range(40))
    tree = faulttree.reads(text, prob={f"a{i}": 0.1 for i in range(40)})
    with pytest.raises(LimitError, match="prime implicants"):
        find_implicants(tree.circuit, Limit(), max_nodes=200)
