"""Logic programs: ProbLog's own numbers where it gives them, and clear errors for bad programs."""

from __future__ import annotations

import doctest
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from sharpdnf import problog
from sharpdnf.errors import InvalidProgram
from sharpdnf.fronts import ground

pytest.importorskip("problog")
GRAPH = "0.6::e(1,2). 0.1::e(2,1). 0.4::e(2,5). 0.3::e(2,6). 0.3::e(1,3). 0.8::e(3,4). 0.2::e(4,5). 0.7::e(5,6).\n"
PROGRAMS = {
    "coins": "0.4::heads(1). 0.6::heads(2). some :- heads(_). both :- heads(1), heads(2). query(some). query(both).",
    "dice": "1/6::d(1); 1/6::d(2); 1/6::d(3); 1/6::d(4); 1/6::d(5); 1/6::d(6). odd :- d(X), 1 is X mod 2. query(odd).",
    "alarm": """0.7::burglary. 0.2::earthquake.
        0.9::alarm :- burglary, earthquake. 0.8::alarm :- burglary, \\+earthquake.
        0.1::alarm :- \\+burglary, earthquake. person(john). person(mary). 0.8::calls(X) :- alarm, person(X).
        0.1::calls(X) :- \\+alarm, person(X). evidence(calls(john)). evidence(calls(mary), false).
        query(burglary). query(earthquake).""",
    "cyclic path": GRAPH + "p(X,Y) :- e(X,Y). p(X,Y) :- e(X,Z), Y \\== Z, p(Z,Y). query(p(1,5)). query(p(1,X)).",
    "evidence in a circle": GRAPH + "p(X,Y) :- e(X,Y). p(X,Y) :- p(X,Z), e(Z,Y). evidence(p(1,6)). query(p(2,1)).",
    "heads with a body": "0.5::w. 0.2::a(X); 0.3::b(X); 0.4::c(X) :- w, n(X). n(1). n(2). query(a(X)). query(c(2)).",
    "expressions": "P::b(K) :- K = 10, P is 1/K. 0.25::s(X) :- n(X). n(1). n(2). a :- b(10). a :- s(_). query(a).",
    "inhibition": "0.3::x. 0.5::y. 0.4::stop. z :- x, \\+stop. z :- y. evidence(z). query(stop). query(x).",
    "lists": ":- use_module(library(lists)).\n0.3::p(X) :- member(X,[1,3]). q :- p(1), \\+p(3). query(q). query(p(1)).",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_exact_answers_are_problogs(name: str) -> None:
    from problog import get_evaluatable
    from problog.program import PrologString

    expected = get_evaluatable().create_from(PrologString(PROGRAMS[name])).evaluate()
    found = problog.query(PROGRAMS[name], guarantee="exact")
    assert {key: answer.prob for key, answer in found.items()} == pytest.approx(
        {str(key): value for key, value in expected.items()}, abs=1e-9
    )
    assert all(answer.guarantee == "exact" and answer.met for answer in found.values())


@pytest.mark.parametrize("name", ["alarm", "cyclic path", "evidence in a circle"])
def test_sampled_answers_keep_their_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = problog.query(PROGRAMS[name], guarantee="exact")
    monkeypatch.setattr(problog, "to_circuit", lambda program: None)
    relative = problog.query(PROGRAMS[name], guarantee="relative", epsilon=0.1, delta=1e-6, rng=1)
    additive = problog.query(PROGRAMS[name], guarantee="additive", epsilon=0.02, delta=1e-6, rng=1)
    for key, answer in exact.items():
        assert relative[key].prob == pytest.approx(answer.prob, rel=0.1)
        assert additive[key].prob == pytest.approx(answer.prob, abs=0.02)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("a.\nb :- c d.\nquery(a).", "<program>:2: ParseError"),
        ("0.5::p(X) :- true.\nquery(p(X)).", "<program>:1: NonGround"),
        ("0.5::a.", "no query"),
        ("0.5::a.\nb :- a, zzz(1).\nquery(b).", "<program>:2: .*zzz/1"),
        ("a.\n1.5::b.\nquery(a).", "<program>:2: .*between 0 and 1"),
        ("0.7::a; 0.6::b.\nquery(b).", "<program>:1: .*more than 1"),
        ("c.\n0.7::a; 0.6::b :- c.\nquery(b).", "<program>:2: .*more than 1"),
        ("0.5::a. b :- a.\nevidence(a). evidence(b,false).\nquery(b).", "evidence cannot hold"),
        ("0.5::x. a :- \\+b, x. b :- \\+a.\nquery(a).", "[Nn]egative"),
    ],
)
def test_a_bad_program_is_refused(program: str, message: str) -> None:
    with pytest.raises(InvalidProgram, match=message):
        problog.query(program, guarantee="exact")


def test_recursion_without_an_end_ends_at_the_time_limit() -> None:
    with pytest.raises(InvalidProgram, match="time limit"):
        problog.query("n(X) :- Y is X+1, n(Y).\nquery(n(0)).", timeout=3)


@pytest.mark.parametrize("how", [":- use_module('{}').", ":- consult('{}').", "b :- X = use_module('{}'), call(X)."])
def test_foreign_code_does_not_run(how: str, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InvalidProgram, match="only ProbLog's own libraries"):
        problog.query("b.\n" + how.format(tmp_path / "evil.py") + "\nquery(b).")
    assert not (tmp_path / "ran").exists()


def test_the_command_answers_and_says_what_is_wrong(tmp_path: Path) -> None:
    def run(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "p.pl").write_text(text)
        command = [sys.executable, "-m", "sharpdnf.cli", "problog", str(tmp_path / "p.pl"), "--json"]
        return subprocess.run([*command, "--guarantee", "exact"], capture_output=True, text=True, check=False)

    good = run(PROGRAMS["coins"])
    assert good.returncode == 0, good.stderr
    assert [json.loads(line)["prob"] for line in good.stdout.splitlines()] == pytest.approx([0.76, 0.24])
    bad = run("a.\nb :- c d.\nquery(a).")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "p.pl:2:" in bad.stderr


def test_the_page_about_logic_programs_is_true() -> None:
    page = Path(__file__).resolve().parent.parent / "docs" / "logic.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert (outcome.attempted, outcome.failed) == (8, 0)


def random_program(rng: random.Random, tag: str) -> str:
    """Facts, annotated disjunctions and rules, some of them in circles, negation only of what comes before."""
    facts = [f"f{tag}{i}" for i in range(4)]
    lines = [f"{rng.uniform(0.1, 0.9):.3f}::{name}." for name in facts]
    p, q = rng.uniform(0.1, 0.5), rng.uniform(0.1, 0.5)
    lines.append(f"{p:.3f}::x{tag}; {q:.3f}::y{tag} :- {rng.choice(facts)}.")
    below = [*facts, f"x{tag}", f"y{tag}"]
    heads = [f"r{tag}{i}" for i in range(4)]
    for head in heads:
        for _ in range(rng.randint(1, 3)):
            body = [rng.choice(below) for _ in range(rng.randint(1, 2))] + rng.choices(heads, k=rng.randint(0, 1))
            lines.append(f"{head} :- {', '.join(body)}.")
    negated = f"\\+ {rng.choice(heads)}"
    lines.append(f"top{tag} :- {rng.choice(heads)}, {negated}.")
    lines.append(f"top{tag} :- {rng.choice(below)}, {negated}.")
    return "\n".join([*lines, f"query(top{tag}).", *(f"query({head})." for head in heads)])


def test_random_programs_give_the_numbers_of_problog() -> None:
    rng = random.Random(5)
    text = "\n".join(random_program(rng, f"_{i}_") for i in range(40))
    from problog import get_evaluatable
    from problog.program import PrologString

    expected = {str(name): p for name, p in get_evaluatable().create_from(PrologString(text)).evaluate().items()}
    answers = problog.query(text, guarantee="exact")
    assert len(answers) == 200
    assert {name: e.prob for name, e in answers.items()} == pytest.approx(expected, abs=1e-9)


def test_a_probability_to_be_learned_is_refused() -> None:
    with pytest.raises(InvalidProgram, match=r"<program>:2: the probability of a is to be learned"):
        problog.query("b.\nt(0.3)::a. query(a).")


RING = "\n".join(
    [
        *(f"0.5::e({i},{(i + 1) % 7}). 0.3::e({(i + 2) % 7},{i})." for i in range(7)),
        "p(X) :- s(X). p(Y) :- p(X), e(X,Y).",
    ]
)
BOUNDED = {
    "plain": RING + " s(0). query(p(3)). query(p(5)).",
    "negation": RING + " s(0). q :- \\+p(4), p(2). query(q).",
    "evidence": RING + " 0.5::s(0). s(1). evidence(p(3)). evidence(p(6), false). query(p(2)). query(s(0)).",
}


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("gates", [1, 60, 200, 1000])
def test_circles_too_large_to_unroll_get_bounds_that_hold(
    name: str, gates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = problog.query(BOUNDED[name], guarantee="exact")
    monkeypatch.setattr(problog, "to_circuit", lambda program: None)
    monkeypatch.setattr(problog, "bracket", lambda program: ground.bracket(program, gates))
    for key, answer in problog.query(BOUNDED[name], guarantee="exact").items():
        assert (answer.guarantee, answer.met) == ("bounds", False)
        assert answer.certified_lower <= exact[key].prob <= answer.certified_upper
        assert (answer.lower, answer.upper) == (answer.certified_lower, answer.certified_upper)
        if gates == 1000:  # all rounds fit: nothing but rounding is left open
            assert answer.upper - answer.lower < 1e-9
    assert all(answer.met for answer in problog.query(BOUNDED[name], guarantee="bounds").values())


def test_a_large_circle_is_bounded_when_an_exact_answer_is_asked_for() -> None:
    rng = random.Random(3)
    edges = "".join(f"0.9::e({rng.randrange(300)},{rng.randrange(300)}). " for _ in range(900))
    answer = problog.query(edges + "p(0). p(Y) :- p(X), e(X,Y). query(p(5)).", guarantee="exact", timeout=20)["p(5)"]
    sampled = problog.query(edges + "p(0). p(Y) :- p(X), e(X,Y). query(p(5)).", rng=1, delta=1e-6)["p(5)"]
    assert (answer.guarantee, answer.met) == ("bounds", False)
    assert answer.lower <= sampled.upper and sampled.lower <= answer.upper
