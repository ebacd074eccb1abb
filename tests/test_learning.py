"""Learning from interpretations: ProbLog's own numbers, likelihoods that no change improves, and clear errors."""

from __future__ import annotations

import doctest
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest

from sharpdnf import problog
from sharpdnf.errors import InvalidProgram
from sharpdnf.fronts import learning

pytest.importorskip("problog")
HEADS = "t(_)::heads1. t(_)::heads2. some :- heads1. some :- heads2."
TOSSES = """evidence(some,false).
evidence(heads1,false).
----------------
evidence(some,true).
evidence(heads1,true).
----------------
evidence(some,true).
evidence(heads1,false).
----------------
"""
CASES = {
    "heads": (HEADS, TOSSES),
    "burglary": (
        """t(0.5)::burglary. 0.2::earthquake. t(_)::p1. t(_)::p2. t(_)::p3.
        alarm :- burglary, earthquake, p1. alarm :- burglary, \\+earthquake, p2.
        alarm :- \\+burglary, earthquake, p3.""",
        "\n---\n".join(
            ["evidence(burglary,false). evidence(alarm,false).", "evidence(earthquake,false). evidence(alarm)."]
            + ["evidence(earthquake). evidence(alarm). evidence(burglary)."] * 4
            + ["evidence(earthquake). evidence(alarm,false). evidence(burglary).", "evidence(burglary,false)."] * 2
        ),
    ),
    "variables": (
        "person(ann). person(bob). t(_,X)::hair(X) :- person(X). t(_)::hat(X) :- person(X).",
        "evidence(hair(ann)). evidence(hair(bob)).\n---\nevidence(hair(ann),false). evidence(hair(bob)).\n---\n"
        "evidence(hair(bob)). evidence(hat(ann)).\n---\nevidence(hair(bob),false). evidence(hat(bob),false).",
    ),
    "choices": (
        "t(_)::red; t(_)::blue; 0.2::green. 0.5::dim. dark :- dim, blue. dark :- green.",
        "\n---\n".join(["evidence(red)."] * 3 + ["evidence(blue)."] * 2 + ["evidence(green).", "evidence(dark)."]),
    ),
}


@pytest.mark.parametrize("name", ["heads", "burglary", "variables"])
def test_the_numbers_are_those_of_problog(name: str) -> None:
    from problog.learning.lfi import extract_evidence, run_lfi
    from problog.program import PrologString

    program, examples = CASES[name]
    random.seed(1)
    observed = [extract_evidence(PrologString(text)) for text in learning.split(examples)]
    _, weights, *_ = run_lfi(
        PrologString(program), observed, max_iter=10_000, min_improv=1e-12, normalize=True, infer_AD_values=True
    )
    learned = problog.learn(program, examples, rng=1)
    assert learned.met
    flat = [p for w in weights for p in (w.values() if isinstance(w, dict) else [w])]
    assert sorted(learned.probabilities.values()) == pytest.approx(sorted(flat), abs=1e-5)


def test_the_manuals_example() -> None:
    learned = problog.learn(HEADS, TOSSES, rng=1)
    assert learned.probabilities == pytest.approx({"heads1": 1 / 3, "heads2": 1 / 2}, abs=1e-8)
    assert learned.log_likelihood == pytest.approx(3 * math.log(1 / 3), abs=1e-8)
    assert learned.program.splitlines()[2] == "some :- heads1."
    assert 0.0 < problog.query(learned.program + "query(some).", guarantee="exact")["some"].prob < 1.0


def likelihood(program: str, examples: str) -> float:
    """The log-likelihood of the examples, each counted by ProbLog's own evaluation of "all evidence holds"."""
    from problog import get_evaluatable
    from problog.learning.lfi import extract_evidence
    from problog.program import PrologString

    total = 0.0
    for text in learning.split(examples):
        atoms = extract_evidence(PrologString(text))
        body = ", ".join(str(atom) if value else f"\\+{atom}" for atom, value in atoms)
        found = get_evaluatable().create_from(PrologString(f"{program}\nseen :- {body}.\nquery(seen)."))
        (p,) = found.evaluate().values()
        total += math.log(p)
    return total


@pytest.mark.parametrize("name", CASES)
def test_the_likelihood_is_problogs_and_other_starts_end_there_too(name: str) -> None:
    program, examples = CASES[name]
    learned = problog.learn(program, examples, rng=2)
    assert likelihood(learned.program, examples) == pytest.approx(learned.log_likelihood, abs=1e-6)
    for start in range(3, 6):
        assert problog.learn(program, examples, rng=start).log_likelihood == pytest.approx(
            learned.log_likelihood, abs=1e-6
        )


def test_heads_of_a_disjunction_share_what_the_others_leave() -> None:
    """3 red and 2 blue seen, and a dark one that is green (0.2) or dim and blue: expectation maximisation by hand."""
    p = problog.learn(*CASES["choices"], rng=1).probabilities
    red, blue = p["red"], p["blue"]
    assert red + blue == pytest.approx(0.8)
    also_blue = 0.5 * blue / (0.5 * blue + 0.2)
    assert blue == pytest.approx(0.8 * (2 + also_blue) / (5 + also_blue), abs=1e-8)


def test_a_single_head_beside_a_fixed_one_leaves_room_for_neither() -> None:
    """Of what 0.5::b leaves, a has the share in which a was seen where b was not: 1 of 3."""
    examples = ["evidence(a). evidence(b,false).", *["evidence(a,false). evidence(b,false)."] * 2, "evidence(b)."]
    assert problog.learn("t(_)::a; 0.5::b.", examples, rng=1).probabilities["a"] == pytest.approx(0.5 / 3, abs=1e-8)


@pytest.mark.parametrize(
    ("program", "examples", "message"),
    [
        (HEADS, "", "no example"),
        (HEADS, "evidence(some). evidence(heads1,false). evidence(heads2,false).", "cannot hold"),
        (HEADS, "evidence(other).", "example 1: .*other"),
        (HEADS, "evidence(some). --- evidence(heads1", "example 2: .*"),
        ("0.5::a.", "evidence(a).", "to be learned"),
        ("t(1.5)::a.", "evidence(a).", "between 0 and 1"),
        ("b.\nt(_,X)::a(X); t(_)::c(X) :- d(X). d(1).", "evidence(a(1)).", "<program>:2: .*same variables"),
        ("a.\nb :- c d.", "evidence(a).", "<program>:2: ParseError"),
        ("t(_)::a; 0.7::b; 0.6::c.", "evidence(a).", "exceed 1"),
    ],
)
def test_bad_input_is_refused(program: str, examples: str, message: str) -> None:
    with pytest.raises(InvalidProgram, match=message):
        problog.learn(program, examples)


def test_the_command_prints_the_learned_program(tmp_path: Path) -> None:
    (tmp_path / "model.pl").write_text(HEADS)
    (tmp_path / "seen.ev").write_text(TOSSES)
    command = [sys.executable, "-m", "sharpdnf.cli", "problog", "model.pl", "--learn", "seen.ev", "--seed", "1"]
    plain = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.splitlines()[-1] == "some :- heads2."
    table = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert json.loads(table.stdout)["probabilities"]["heads1"] == pytest.approx(1 / 3, abs=1e-8)


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(learning).failed == 0
