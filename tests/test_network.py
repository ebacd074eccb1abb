"""Networks against the enumeration of all their worlds, and the promises of sampled answers over thousands of seeds."""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
import time

import numpy as np
import pytest
from network_worlds import Case, failure, nodes_of, random_case, reliability, worlds
from scipy import stats

from sharpdnf.engines.front import make_limit
from sharpdnf.engines.sampling import anytime_width, successes_needed
from sharpdnf.errors import InvalidNetwork, LimitError
from sharpdnf.fronts import network, rare
from sharpdnf.fronts.connection import Promise, sample_connection
from sharpdnf.fronts.frontier import Budget, Question, solve
from sharpdnf.fronts.links import read_network

BRIDGE = [("a", "b", 0.9), ("a", "c", 0.8), ("b", "c", 0.5), ("b", "d", 0.8), ("c", "d", 0.9)]


def grid(side: int, p: float) -> list[tuple[int, int, float]]:
    across = [(i * side + j, i * side + j + 1, p) for i in range(side) for j in range(side - 1)]
    return across + [(i * side + j, (i + 1) * side + j, p) for i in range(side - 1) for j in range(side)]


def too_many(seeds: int, delta: float) -> int:
    """More failures than this has probability below 1e-7 if each has probability delta."""
    return int(stats.binom.isf(1e-7, seeds, delta))


def cases(seed: int, number: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    found = (random_case(rng) for _ in itertools.count())
    return list(itertools.islice((case for case in found if case is not None), number))


@pytest.mark.parametrize("seed", range(8))
def test_reliability_against_enumeration(seed: int) -> None:
    for case in cases(seed, 250):
        answer = network.reliability(case.links, **case.asked, guarantee="exact")
        right, wrong = reliability(case), failure(case)
        assert answer.prob == pytest.approx(right, rel=1e-12, abs=1e-300), case
        assert answer.complement == pytest.approx(wrong, rel=1e-7, abs=1e-16), case
        assert answer.lower <= right * (1 + 1e-14) and right <= answer.upper * (1 + 1e-14), case
        assert answer.met and answer.guarantee == "exact"


@pytest.mark.parametrize("seed", range(4))
def test_importance_and_strengthen_against_enumeration(seed: int) -> None:
    for case in cases(100 + seed, 25):
        table = network.importance(case.links, **case.asked)
        slope = np.empty(len(case.links))
        slope[table["link"]] = table["birnbaum"]
        differences = [
            reliability(case.with_link(e, 1.0)) - reliability(case.with_link(e, 0.0)) for e in range(len(case.links))
        ]
        assert slope == pytest.approx(np.array(differences), abs=1e-12), case
        assert list(table["birnbaum"]) == sorted(table["birnbaum"], reverse=True)
        best = network.strengthen(case.links, 2, **case.asked, to=0.95)
        chosen, now = case, reliability(case)
        for link, value in zip(best["link"], best["reliability"], strict=True):
            raised = [chosen.with_link(e, max(0.95, p)) for e, (_, _, p) in enumerate(chosen.links)]
            greatest = max(reliability(c) for c in raised)
            chosen = raised[int(link)]
            assert value == pytest.approx(greatest, abs=1e-12) and value == pytest.approx(
                reliability(chosen), abs=1e-12
            )
            assert value >= now - 1e-12
            now = value


@pytest.mark.parametrize("seed", range(2))
def test_reached_against_enumeration(seed: int) -> None:
    for i, case in enumerate(cases(200 + seed, 40)):
        weight, found = worlds(case)
        right = dict(zip(nodes_of(case.links), weight @ found, strict=True))
        asked = {"directed": case.directed, "node_prob": case.node_prob or None, "hops": case.hops}
        table = network.reached(case.links, case.terminals[0], **asked)
        assert table["met"] and table["exact"].all() and table["samples"] == 0
        for node, prob, lower, upper in zip(*(table[c] for c in ("node", "prob", "lower", "upper")), strict=True):
            assert prob == pytest.approx(right[node], abs=1e-12) and lower - 1e-15 <= right[node] <= upper + 1e-15
        expected = network.expected_reached(case.links, case.terminals[0], **asked)
        assert expected.value == pytest.approx(sum(right.values()), abs=1e-11) and expected.guarantee == "exact"
        if i % 20 == 0:
            sampled = network._reached_sampled(
                Question(read_network(case.links, **{k: asked[k] for k in ("directed", "node_prob")}),
                         (nodes_of(case.links).index(case.terminals[0]),), case.hops),
                20_000, np.random.default_rng(i), make_limit(None, 1),
            )  # fmt: skip
            assert sampled[1:] == (20_000, True)
            assert sampled[0] == pytest.approx(np.array([right[n] for n in table["node"]]), abs=0.025)


def test_complements_keep_their_digits() -> None:
    """Side by side two links fail with 1e-18: 1 - R is not 0, and neither is the importance of a link."""
    q = 1.0 - (1.0 - 1e-9)
    side_by_side = network.reliability([(0, 1, 1.0 - 1e-9)] * 2, 0, 1)
    assert side_by_side.complement == pytest.approx(q * q, rel=1e-12)
    assert side_by_side.complement_lower <= q * q <= side_by_side.complement_upper
    ladder = [(0, 1, 1.0 - 1e-9), (0, 2, 1.0 - 1e-9), (1, 2, 0.5), (1, 3, 1.0 - 1e-9), (2, 3, 1.0 - 1e-9)]
    assert network.reliability(ladder, 0, 3).complement == pytest.approx(3.0 * q * q, rel=1e-6)
    table = network.importance(ladder, 0, 3)
    assert table["birnbaum"][list(table["link"]).index(2)] == pytest.approx(2.0 * q * q, rel=1e-6)


def wide(case: Case) -> Question:
    """The question as the samplers get it."""
    graph = read_network(case.links, directed=case.directed, node_prob=case.node_prob or None)
    return Question(graph, tuple(graph.number(t) for t in case.terminals), case.hops)


def sampled(case: Case, seeds: int, **asked: object) -> list[tuple[float, float, float]]:
    """(P, lower, upper) of worlds, or of their complement, for each seed."""
    wanted = Promise(**asked)
    limit, question, out = make_limit(None, 1), wide(case), []
    for seed in range(seeds):
        e = sample_connection(question, wanted, np.random.default_rng(seed), limit)
        assert e.met and e.guarantee == wanted.guarantee
        sides = [e.log_complement, e.log_complement_lower, e.log_complement_upper] if wanted.of_failure else []
        out.append(tuple(math.exp(x) for x in sides or [e.log_prob, e.log_lower, e.log_upper]))
    return out


MIXED = Case(
    [(0, 1, 0.3), (0, 2, 0.2), (1, 2, 0.5), (1, 3, 0.2), (2, 3, 0.3), (0, 1, 0.1)], {1: 0.7}, False, None, [0, 3], True
)


@pytest.mark.parametrize("directed,hops", [(False, None), (True, None), (False, 2)])
def test_sampled_worlds_keep_their_promises(directed: bool, hops: int | None) -> None:
    case = Case(MIXED.links, MIXED.node_prob, directed, hops, MIXED.terminals, True)
    seeds, epsilon, delta = 1000, 0.4, 0.2
    for of, truth in (("prob", reliability(case)), ("complement", failure(case))):
        found = sampled(case, seeds, guarantee="relative", epsilon=epsilon, delta=delta, of=of)
        assert sum(abs(p - truth) > epsilon * truth for p, *_ in found) <= too_many(seeds, delta)
        assert sum(not low <= truth <= high for _, low, high in found) <= too_many(seeds, delta)
    found = sampled(case, seeds, guarantee="additive", epsilon=0.05, delta=delta)
    assert sum(not low <= reliability(case) <= high for _, low, high in found) <= too_many(seeds, delta)
    assert len({p for p, *_ in found}) > 20


RARE = {
    "bridge": Case(
        [(u, v, 1.0 - 1e-6) for u, v in ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))], {}, False, None, [0, 3], True
    ),
    "all of a wheel": Case(
        [(0, i, 1.0 - 3e-4) for i in range(1, 6)] + [(i, i % 5 + 1, 0.999) for i in range(1, 6)],
        {}, False, None, [0, 1, 2, 3, 4, 5], False,
    ),
    "nodes fail": Case(
        [(0, 1, 0.9999), (0, 2, 0.9999), (1, 3, 0.9999), (2, 3, 0.9999), (1, 2, 0.9999), (0, 3, 0.9)],
        {2: 0.99999}, False, None, [0, 3], True,
    ),
    "uneven": Case(
        [(0, 1, 0.5), (0, 2, 0.9999), (0, 3, 1.0), (1, 3, 1.0 - 1e-12), (2, 4, 0.999), (3, 4, 0.9999), (1, 4, 0.99)],
        {}, False, None, [0, 2, 4], False,
    ),
}  # fmt: skip


def unsolved(question: Question):
    """As after an exact run that was stopped before its first step, so that all is left to the sampler."""
    return solve(question, make_limit(None, 1), Budget(states=1))


@pytest.mark.parametrize("name", RARE)
def test_rare_failures_keep_their_promise(name: str) -> None:
    case, question = RARE[name], wide(RARE[name])
    truth, seeds, epsilon, delta = failure(case), 300, 0.5, 0.2
    left = unsolved(question)
    assert not left.complete
    found = []
    for seed in range(seeds):
        e = rare.sample_failure(question, left, epsilon, delta, np.random.default_rng(seed), make_limit(None, 1))
        assert e is not None and e.met and e.certified_lower <= 1.0 - truth
        found.append((e.complement, e.complement_lower, e.complement_upper))
    assert sum(abs(p - truth) > epsilon * truth for p, *_ in found) <= too_many(seeds, delta)
    assert sum(not low <= truth <= high for _, low, high in found) <= too_many(seeds, delta)
    mean = np.mean([p for p, *_ in found]) / truth  # (k - 1)/(N - 1) is unbiased
    assert mean == pytest.approx(1.0, abs=0.2)


def test_rare_failures_of_random_networks_are_unbiased() -> None:
    """Many successes on each of many random networks, nodes that fail and solved blocks included."""
    rng, tried = np.random.default_rng(5), 0
    while tried < 25:
        case = random_case(rng)
        if case is None or case.directed or case.hops is not None:
            continue
        links = [(u, v, p if p in (0.0, 1.0) else 1.0 - 10.0 ** -(1.0 + 3.0 * p)) for u, v, p in case.links]
        nodes = {v: 1.0 - 0.01 * p for v, p in case.node_prob.items()}
        case = Case(links, nodes, False, None, case.terminals, case.two)
        question = wide(case)
        e = rare.sample_failure(
            question, unsolved(question), 0.1, 1e-7, np.random.default_rng(tried), make_limit(None, 1)
        )
        if e is not None:
            tried += 1
            assert e.complement == pytest.approx(failure(case), rel=0.1), case


def test_a_wide_network_with_rare_failures_is_answered_within_its_promise() -> None:
    """The four corners of a grid have two links each: 1 - R is 4 q^2 (1 + O(q))."""
    q = 1e-5
    answer = network.reliability(grid(12, 1.0 - q), guarantee="relative", of="complement", epsilon=0.2, rng=1)
    if answer.engine == "frontier":
        pytest.skip("it is not wide any more")
    assert answer.met and answer.engine == "creation"
    assert answer.complement == pytest.approx(4.0 * q * q, rel=0.21)
    assert answer.log_certified_lower < answer.log_prob <= answer.log_certified_upper


@pytest.mark.parametrize("of", ["prob", "complement"])
def test_threads_do_not_change_an_answer(of: str) -> None:
    question = wide(Case(grid(40, 0.7), {}, False, None, [0, 1599], True))
    wanted = Promise("relative", 0.3, 0.1, of)
    answers = [sample_connection(question, wanted, np.random.default_rng(3), make_limit(None, t)) for t in (1, 2, 5)]
    assert len({(a.log_prob, a.samples) for a in answers}) == 1
    question = wide(RARE["all of a wheel"])
    left, found = unsolved(question), []
    for threads in (1, 3):
        e = rare.sample_failure(question, left, 0.1, 0.1, np.random.default_rng(3), make_limit(None, threads))
        assert e is not None
        found.append((e.log_complement, e.samples))
    assert found[0] == found[1]
    counted = [
        network._reached_sampled(wide(Case(grid(40, 0.6), {}, False, None, [0], True)), 3000,
                                 np.random.default_rng(1), make_limit(None, t))[0]
        for t in (1, 4)
    ]  # fmt: skip
    assert (counted[0] == counted[1]).all()


def test_a_time_limit_gives_certified_bounds() -> None:
    """Too wide for the frontier, and too little time for the draws: nothing is promised, and what is certain holds."""
    links = grid(30, 0.9)
    for asked in ({"guarantee": "exact"}, {"guarantee": "relative", "of": "complement", "epsilon": 0.001}):
        started = time.monotonic()
        answer = network.reliability(links, 0, 899, **asked, timeout=0.5, rng=1)
        assert time.monotonic() - started < 10.0
        assert not answer.met
        assert answer.certified_lower <= answer.prob <= answer.certified_upper
        assert answer.certified_lower <= 0.97 <= answer.certified_upper + 0.03  # R is about (1 - 0.01 - ...)^2
    bounds = network.reliability(links, 0, 899, guarantee="bounds", timeout=0.2)
    assert bounds.met and bounds.guarantee == "bounds" and bounds.lower < bounds.upper
    table = network.reached(links, 0, guarantee="exact", timeout=0.3)
    assert not table["met"] and (table["lower"] <= table["upper"]).all()
    with pytest.raises(LimitError, match="wide"):
        network.importance(links, 0, 899, timeout=0.3)


def test_a_memory_limit_gives_certified_bounds() -> None:
    question = wide(Case(grid(14, 0.9), {}, False, None, [0, 195], True))
    limit = make_limit(30.0, 1)
    small = type(limit)(deadline=limit.deadline, threads=1, memory=1 << 20)
    solved = solve(question, small)
    assert not solved.complete and 0.0 <= math.exp(solved.log_lower) < math.exp(solved.log_upper) <= 1.0


def test_what_an_interval_promises_whenever_one_stops() -> None:
    """At the worst of all stopping times the interval misses no more often than delta."""
    rng, delta, missed = np.random.default_rng(0), 0.2, 0
    widths = np.array([anytime_width(n, delta) for n in range(1, 2001)])
    for _ in range(500):
        mean = np.cumsum(rng.random(2000) < 0.5) / np.arange(1, 2001)
        missed += bool((np.abs(mean - 0.5) > widths).any())
    assert missed <= too_many(500, delta)
    assert anytime_width(0, delta) == 1.0 and anytime_width(10**6, 0.05) < 0.003


def test_expected_reached_of_a_wide_network_is_within_its_interval() -> None:
    links = grid(40, 0.6)
    got = network.expected_reached(links, 0, epsilon=0.05, rng=2)
    assert got.met and got.guarantee == "additive" and got.samples > 0 and got.lower < got.value < got.upper
    table = network.reached(links, 0, epsilon=0.05, rng=2)
    assert got.value == pytest.approx(float(np.sum(table["prob"])), rel=0.15)
    assert not table["exact"].all() and table["prob"][1] == pytest.approx(0.6 + 0.4 * 0.3, abs=0.15)


BAD = [
    ({"source": "a", "target": "z"}, "target 'z' is not in the network"),
    ({"source": "z", "target": "a"}, "source 'z' is not in the network"),
    ({"source": "a", "target": "a"}, "same node 'a'"),
    ({"source": "a"}, "needs a target"),
    ({"target": "a"}, "a target a source"),
    ({"terminals": []}, "at least two"),
    ({"terminals": ["a"]}, "at least two"),
    ({"terminals": ["a", "a"]}, "at least two"),
    ({"terminals": "ab"}, "not the text"),
    ({"terminals": ["a", "q"]}, "terminal 'q' is not in the network"),
    ({"terminals": ["a", "b"], "source": "a", "target": "b"}, "not both"),
    ({"terminals": ["a", "b"], "directed": True}, "needs a source and a target"),
    ({"directed": True}, "needs a source and a target"),
    ({"hops": 3}, "needs a source and a target"),
    ({"source": "a", "target": "d", "hops": -1}, "hops must be"),
    ({"source": "a", "target": "d", "hops": 251}, "hops must be"),
    ({"source": "a", "target": "d", "hops": True}, "hops must be"),
    ({"source": "a", "target": "d", "node_prob": {"z": 0.5}}, "node of node_prob 'z'"),
    ({"source": "a", "target": "d", "node_prob": {"a": 1.5}}, "node 'a'"),
    ({"source": "a", "target": "d", "node_prob": [0.5]}, "node_prob maps"),
    ({"source": ["a"], "target": "d"}, "is not in the network"),
]


@pytest.mark.parametrize("asked,message", BAD)
def test_a_bad_question_says_what_is_wrong(asked: dict, message: str) -> None:
    for front in (network.reliability, network.importance):
        with pytest.raises(InvalidNetwork, match=message):
            front(BRIDGE, **asked)


def test_bad_arguments_are_the_callers_mistake() -> None:
    for asked in ({"guarantee": "none"}, {"of": "x"}, {"epsilon": 0.0}, {"delta": 1.0}, {"timeout": -1.0}):
        with pytest.raises(ValueError):
            network.reliability(BRIDGE, "a", "d", **asked)
    with pytest.raises(ValueError, match="'exact' or 'additive'"):
        network.reached(BRIDGE, "a", guarantee="relative")
    with pytest.raises(InvalidNetwork, match="source 'z'"):
        network.reached(BRIDGE, "z")
    with pytest.raises(ValueError, match="k must be"):
        network.strengthen(BRIDGE, 0, "a", "d")
    with pytest.raises(ValueError, match="to must be"):
        network.strengthen(BRIDGE, 1, "a", "d", to=1.5)


def test_what_can_never_be_connected_has_probability_0() -> None:
    apart = [("a", "b", 0.5), ("c", "d", 0.5), ("b", "c", 0.0)]
    answer = network.reliability(apart, "a", "d")
    assert answer.prob == 0.0 and answer.complement == 1.0 and answer.guarantee == "exact"
    never = sample_connection(
        wide(Case([(0, 1, 0.5), (2, 3, 0.5)], {}, False, None, [0, 3], True)),
        Promise("relative", 0.1, 0.1), np.random.default_rng(0), make_limit(None, 1),
    )  # fmt: skip
    assert never.prob == 0.0 and never.met and never.samples == 0
    assert network.reliability([("a", "a", 0.5), ("a", "b", 1.0)], "a", "b").prob == 1.0


def test_ctrl_c_ends_a_long_run(heard_interrupts: None) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        network.reliability(grid(30, 0.5), 0, 899, guarantee="exact")
    assert time.monotonic() - started < 20.0


def test_seeds_are_told_and_repeat() -> None:
    links = grid(16, 0.6)
    first = network.reliability(links, 0, 255, guarantee="additive", epsilon=0.01)
    if first.samples:
        again = network.reliability(links, 0, 255, guarantee="additive", epsilon=0.01, rng=first.seed)
        assert (first.prob, first.samples) == (again.prob, again.samples)
    assert successes_needed(0.1, 0.05) == 385


def run(*arguments: str) -> tuple[int, str]:
    from typer.testing import CliRunner

    from sharpdnf.cli import app, load_commands

    load_commands()
    result = CliRunner().invoke(app, ["network", *arguments])
    return result.exit_code, result.output


def test_the_command_answers_and_says_what_is_wrong(tmp_path) -> None:
    path, nodes, picture = tmp_path / "bridge.csv", tmp_path / "nodes.csv", tmp_path / "x.svg"
    path.write_text("".join(f"{u},{v},{p}\n" for u, v, p in BRIDGE))
    nodes.write_text("a,0.5\n")
    code, text = run(str(path), "--source", "a", "--target", "d", "--importance", "--strengthen", "1")
    assert code == 0 and "0.941" in text and "0.0388" in text and "0.976" in text
    code, text = run(str(path), "--source", "a", "--target", "d", "--node-prob", str(nodes), "--json")
    assert code == 0 and '"prob": 0.4705' in text
    code, text = run(str(path), "--source", "a", "--reached", "--guarantee", "exact")
    assert code == 0 and "0.9688" in text
    assert run(str(path), "--draw", str(picture))[0] == 0 and picture.exists()
    for wrong in (["--source", "a"], ["--reached"], ["--source", "a", "--target", "zz"]):
        assert run(str(path), *wrong)[0] != 0
    wide = tmp_path / "wide.csv"
    wide.write_text("".join(f"{u},{v},{p}\n" for u, v, p in grid(30, 0.9)))
    assert run(str(wide), "--guarantee", "exact", "--timeout", "0.2")[0] == 3
