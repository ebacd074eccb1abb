"""The command line: answers, exit codes, what goes where, interrupts, and what start-up may cost."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sharpdnf import DNF, Builder, Circuit, count, formats, reads, write_circuit
from sharpdnf.cli import main, show
from sharpdnf.cli.options import parse_options
from sharpdnf.estimate import Estimate

DATA = Path(__file__).parent / "data"
TWO = str(DATA / "two_clauses.dnf")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        caught = capsys.readouterr()
        code = stopped.value.code
        return (code if isinstance(code, int) else 0), caught.out, caught.err

    return call


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A formula that no exact engine finishes soon."""
    import numpy as np

    from sharpdnf.generate import generate

    path = tmp_path_factory.mktemp("hard") / "hard.dnf"
    formats.write(generate("uniform", np.random.default_rng(1), num_vars=400, num_clauses=3000, width=4), path)
    return str(path)


@pytest.fixture(scope="module")
def middling(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A formula whose probability is neither near 0 nor near 1, and that has no small d-tree."""
    import numpy as np

    from sharpdnf.generate import generate

    path = tmp_path_factory.mktemp("middling") / "middling.dnf"
    formats.write(generate("uniform", np.random.default_rng(1), num_vars=200, num_clauses=400, width=7), path)
    return str(path)


def program(*words: str, **rest: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sharpdnf.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **rest)  # type: ignore[call-overload, no-any-return]


def test_count_for_people(run: Run) -> None:
    code, out, err = run("count", TWO)
    assert (code, err) == (0, "")
    assert re.search(r"probability +0\.375\n", out)
    assert re.search(r"guarantee +(exact|within a factor)", out)
    _, out, _ = run("count", DATA / "unweighted.dnf", "--guarantee", "exact")
    assert re.search(r"models +5\n", out)
    _, out, _ = run("count", DATA / "weights_mcc.dnf")
    assert re.search(r"weighted count +5\.08\n", out)
    _, out, _ = run("count", DATA / "repeats.dnf")
    assert "repeated literals merged" in out


@pytest.mark.parametrize("path", sorted(DATA.glob("*.dnf")), ids=lambda p: p.stem)
def test_count_json_of_hand_counted_files(run: Run, path: Path) -> None:
    text = path.read_text()
    dialect = ["--dialect", "pysdd"] if "c dialect pysdd" in text else []
    code, out, err = run("count", path, "--json", "--guarantee", "exact", "-s", 7, *dialect)
    assert (code, err) == (0, "")
    answer = json.loads(out)
    expect = float(re.search(r"c expect (\S+)", text)[1])  # type: ignore[index]
    assert answer["prob"] == pytest.approx(expect, rel=1e-9)
    assert answer["file"] == str(path)
    assert answer["seed"] == 7
    assert answer["met"] is True
    assert set(Estimate(log_prob=0.0, guarantee="exact", engine="x").to_dict()) <= set(answer)
    if expect == 0:
        assert answer["log_prob"] is None


def test_one_object_a_line(run: Run) -> None:
    code, out, _ = run("count", "--json", TWO, DATA / "tiny.dnf", TWO)
    assert code == 0
    assert [json.loads(line)["file"] for line in out.splitlines()] == [TWO, str(DATA / "tiny.dnf"), TWO]


def test_competition_lines(run: Run, hard: str, tmp_path: Path) -> None:
    code, out, _ = run("count", "--mcc", "--guarantee", "exact", DATA / "count_mcc.dnf")
    assert code == 0
    assert out.splitlines() == [
        "s SATISFIABLE",
        "c s type mc",
        f"c s log10-estimate {math.log10(5):.15g}",
        "c s exact arb int 5",
    ]
    _, out, _ = run("count", "--mcc", "--guarantee", "exact", DATA / "weights_mcc.dnf")
    assert "c s type wmc" in out
    assert float(out.split()[-1]) == pytest.approx(5.08)
    threes = tmp_path / "threes.dnf"  # w+ = w- = 3: as likely as not, but the answer is 9 models' worth
    threes.write_text("p dnf 2 1\n" + "".join(f"c p weight {v} 3 0\n" for v in (1, -1, 2, -2)) + "1 2 0\n")
    _, out, _ = run("count", "--mcc", threes)
    assert out.splitlines()[1:] == ["c s type wmc", f"c s log10-estimate {math.log10(9):.15g}", "c s exact arb float 9"]
    assert "weighted count 9" in run("count", threes)[1]
    _, out, _ = run("count", "--mcc", DATA / "no_clause.dnf")
    assert out.startswith("s UNSATISFIABLE")
    assert "log10-estimate -inf" in out
    _, out, _ = run("count", "--mcc", "--engine", "sampling", "-e", "0.2", "-d", "0.01", hard)
    assert "c s pac guarantees epsilon: 0.2 delta: 0.01" in out
    assert "c s approx arb float" in out
    _, out, _ = run("count", "--mcc", "--engine", "bounds", hard)
    assert "pac" not in out


def test_several_files_and_a_bad_one(run: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.dnf"
    bad.write_text("p dnf 2 1\n3 0\n")
    code, out, err = run("count", TWO, bad, DATA / "tiny.dnf")
    assert code == 2
    assert len(out.splitlines()) == 3  # a header and two answers
    assert "1e-60" in out
    assert err == f"sharpdnf: {bad}:2: variable 3 is beyond the 2 variables of the header\n"


@pytest.mark.parametrize(
    "words",
    [
        ["count"],
        ["count", "missing.dnf"],
        ["count", TWO, "-e", "7"],
        ["count", TWO, "-e", "x"],
        ["count", TWO, "-d", "0"],
        ["count", TWO, "--engine", "dtre"],
        ["count", TWO, "--engine", "bounds", "--guarantee", "exact"],
        ["count", TWO, "--guarantee", "certain"],
        ["count", TWO, "--json", "--mcc"],
        ["count", TWO, "--engine", "dtree", "-o", "nosuch=1"],
        ["count", TWO, "-o", "nonsense"],
        ["count", TWO, "--dialect", "latex"],
        ["count", TWO, "--threads", "0"],
        ["count", TWO, "--timeout", "-1"],
        ["count", str(DATA)],
        ["count", str(DATA / "pysdd.dnf")],
        ["convert", TWO, "--to", "latex"],
        ["convert", TWO, "/nowhere/at/all.dnf"],
        ["generate", "nosuch"],
        ["generate", "paper", "-n", "10"],
        ["generate", "paper", "-n", "10", "-m", "5", "-w", "11"],
        ["generate", "reliability", "-o", "directed=yes"],
        ["generate", "reliability", "-o", "edges=missing.txt"],
        ["generate", "paper", "-n", "10", "-m", "5", "-w", "3", "-o", "colour=red"],
        ["marginals", "missing.dnf"],
        ["simplify", "missing.dnf"],
        ["nosuch"],
        ["--nosuch"],
    ],
    ids=" ".join,
)
def test_bad_requests_exit_2_and_print_no_answer(run: Run, words: list[str]) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert err
    assert "Traceback" not in err


def test_suggestions(run: Run) -> None:
    assert "did you mean 'dtree'" in run("count", TWO, "--engine", "dtre")[2]


def test_unmet_guarantee_exits_3_with_the_best_answer(run: Run, hard: str) -> None:
    code, out, err = run("count", hard, "--guarantee", "exact", "--timeout", "0.05", "--json")
    answer = json.loads(out)
    assert (code, err) == (3, "")
    assert answer["met"] is False
    assert 0 <= answer["certified_lower"] <= answer["prob"] <= answer["certified_upper"] <= 1
    code, out, _ = run("count", hard, "--guarantee", "exact", "--timeout", "0.05")
    assert code == 3
    assert "NOT MET" in out


@pytest.mark.parametrize("engine", ["auto", "sampling", "klm"])
@pytest.mark.parametrize("epsilon", ["1e-6", "1e-9", "1e-300"])
@pytest.mark.parametrize("guarantee", ["relative", "additive"])
def test_hopeless_tolerances_stop_at_the_limit(
    run: Run, middling: str, engine: str, epsilon: str, guarantee: str
) -> None:
    began = time.monotonic()
    words = ["--engine", engine, "-e", epsilon, "--guarantee", guarantee, "--timeout", "0.1", "--json"]
    code, out, err = run("count", middling, *words)
    assert (code, err) == (3, "")
    assert json.loads(out)["met"] is False
    assert time.monotonic() - began < 5


def test_distant_deadlines_are_none(run: Run, middling: str) -> None:
    for timeout in ("1e12", "1e300"):
        code, out, _ = run("count", middling, "--engine", "sampling", "--timeout", timeout, "--threads", 1000, "--json")
        assert code == 0
        assert json.loads(out)["met"] is True


def test_same_seed_same_answer(run: Run, middling: str) -> None:
    first, second, other = (
        json.loads(run("count", middling, "--json", "-s", seed, "--engine", "sampling", "--threads", threads)[1])
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    )
    assert first["log_prob"] == second["log_prob"] != other["log_prob"]


def test_convert(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("convert", TWO)
    assert code == 0
    assert formats.reads(out) == formats.read(TWO)
    code, out, err = run("convert", TWO, tmp_path / "out.dnf.gz", "--to", "mcc")
    assert (code, out, err) == (0, "", "")
    assert formats.read(tmp_path / "out.dnf.gz").clauses() == formats.read(TWO).clauses()
    _, out, _ = run("convert", DATA / "pysdd.dnf", "--from", "pysdd", "--to", "cnf-negation")
    assert "p cnf 3 2" in out


def test_generate(run: Run, tmp_path: Path) -> None:
    words = ("generate", "paper", "-n", 30, "-m", 20, "-w", "3-5", "-o", "privileged=false")
    code, out, err = run(*words, "-s", 3)
    assert (code, err) == (0, "")
    dnf = formats.reads(out)
    assert (dnf.num_vars, dnf.num_clauses) == (30, 20)
    assert run(*words, "-s", 3)[1] == out
    seed = re.search(r"seed=(\d+)", run(*words)[1])
    assert seed is not None
    code, out, _ = run("generate", "reliability", tmp_path / "grid.dnf", "-o", "rows=3", "-o", "cols=3")
    assert (code, out) == (0, "")
    assert formats.read(tmp_path / "grid.dnf").num_vars == 12


def test_generate_from_a_list_of_edges(run: Run, tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("# a square\na b 0.5\nb,d\n\na c 0.25  # slow\nc d 1\n")
    words = ("generate", "reliability", "-o", f"edges={edges}", "-o", "source=a", "-o", "target=d", "-o", "prob=0.5")
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert count(reads(out), guarantee="exact").prob == pytest.approx(1 - 0.75 * 0.75)
    edges.write_text("a b\na b c d\n")
    assert f"{edges}:2: expected an edge" in run(*words)[2]


@pytest.mark.parametrize("text", ["secret\n", "one two three four secret\n", "user secret-password hash\n"])
def test_a_file_that_is_no_list_of_edges_is_not_shown(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "shadow"
    path.write_text(text)
    code, out, err = run("generate", "reliability", "-o", f"edges={path}", "-o", "source=a", "-o", "target=d")
    assert code == 2 and f"{path}:1: expected an edge" in err
    assert not {word for word in text.split() if word in out + err.replace(str(path), "")} - {"a", "two", "three"}


def test_simplify(run: Run) -> None:
    code, out, err = run("simplify", DATA / "certain.dnf")
    assert code == 0
    assert "2 clauses -> 0 clauses" in err
    formats.reads(out)


def test_engines(run: Run) -> None:
    code, out, _ = run("engines", "--json")
    assert code == 0
    assert {"sampling", "dtree", "bounds"} <= {json.loads(line)["engine"] for line in out.splitlines()}
    assert "guarantee: exact" in run("engines")[1]


def test_marginals(run: Run) -> None:
    code, out, _ = run("marginals", TWO, "--json", "-s", 1)
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [a["variable"] for a in answers] == ["1", "2", "3"]
    assert answers[0]["prob"] == pytest.approx(2 / 3, rel=0.1)  # 1/4 of the 3/8
    assert "given the formula" in run("marginals", DATA / "named.dnf")[1]
    assert run("marginals", DATA / "no_variable.dnf", "--json")[1] == ""


def test_marginals_are_written_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("sharpdnf.cli.analysis.echo", said.append)
    with pytest.raises(SystemExit):
        main(["marginals", TWO])
    assert len(said) == 1 and len(said[0].splitlines()) == 4


def test_an_unknown_dialect_is_not_the_files_fault(run: Run) -> None:
    for file in (TWO, "missing.dnf"):
        assert run("count", file, "--dialect", "foo")[2].startswith("sharpdnf: unknown dialect 'foo'")


def test_version_and_help(run: Run) -> None:
    import sharpdnf

    assert run("--version")[1] == f"sharpdnf {sharpdnf.__version__}\n"
    code, out, _ = run("--help")
    assert code == 0
    for command in ("count", "generate", "convert", "simplify", "engines", "marginals"):
        assert command in out


def test_options_of_engines() -> None:
    assert parse_options(["a=1", "b-c=0.5", "d=True", "e=x=y", "f=none"]) == {
        "a": 1,
        "b_c": 0.5,
        "d": True,
        "e": "x=y",
        "f": None,
    }


def test_standard_input_and_output() -> None:
    made = program("generate", "uniform", "-n", "50", "-m", "40", "-w", "3", "-s", "1")
    done = program("count", "-", "--json", input=made.stdout)
    assert done.returncode == 0
    assert 0 < json.loads(done.stdout)["prob"] <= 1


@pytest.mark.parametrize("words", [["count", "--json", TWO], ["count", TWO], ["convert", TWO], ["engines"]])
def test_a_closed_standard_output_is_an_error_not_a_traceback(words: list[str]) -> None:
    command = 'exec "$0" -m sharpdnf.cli "$@" >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2, "sharpdnf: standard output is closed: there is nowhere to write the answer\n"
    )  # fmt: skip


def test_broken_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m sharpdnf.cli generate uniform -n 50000 -m 50000 -w 9 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("c sharpdnf generate")
    assert done.stderr == ""


def test_interrupt_keeps_what_was_done(hard: str) -> None:
    # A shell's background jobs ignore Ctrl-C, and their children inherit that: a user's terminal does not.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code += "\nfrom sharpdnf.cli import main\nmain()"
    command = [sys.executable, "-c", code, "count", "--json", "--guarantee", "exact", TWO, hard]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    rest, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 15
    assert process.returncode == 130
    assert json.loads(first)["prob"] == 0.375
    assert rest == ""
    assert "Traceback" not in err


def test_progress_goes_to_standard_error_only() -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "sharpdnf.cli", "count", "--json", TWO, TWO, TWO]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    out, _ = process.communicate(timeout=60)
    os.close(master)
    assert b"counting" in shown
    assert len([json.loads(line) for line in out.splitlines()]) == 3


def test_help_imports_nothing_heavy() -> None:
    code = """
import sys
from sharpdnf.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
print([name for name in ("numpy", "rich", "torch", "duckdb", "sharpdnf._native") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_start_up_is_short() -> None:
    """Help takes 0.2 s and a small count 0.4 s where a bare interpreter takes about 0.02: ratios, for busy machines."""

    def seconds(*words: str) -> float:
        times = []
        for _ in range(5):
            before = os.times()
            subprocess.run([sys.executable, *words], capture_output=True, check=True)
            after = os.times()
            times.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return min(times)

    numpy = seconds("-c", "import numpy, typer")
    assert seconds("-m", "sharpdnf.cli", "--help") < 1.5 * numpy
    assert seconds("-m", "sharpdnf.cli", "count", TWO) < 2.5 * numpy


def test_numbers_of_any_size() -> None:
    assert show.scientific(-math.inf) == "0"
    assert show.scientific(math.log(0.375)) == "0.375"
    assert show.scientific(-1000 * math.log(10)) == "1.00000e-1000"
    assert show.scientific(math.log(9.9999999) + 999 * math.log(10)) == "1.00000e+1000"
    assert show.whole(10**50) == "1.000000...e+50 (51 digits)"
    assert show.duration(0.0000012) == "1.2 us"
    assert show.duration(0.25) == "250 ms"
    assert show.duration(2.0) == "2 s"


def test_an_interval_without_a_promise_is_said_to_be_one() -> None:
    guess = Estimate(log_prob=-1.0, guarantee="none", engine="neural", log_lower=-2.0, log_upper=-0.5)
    dnf = DNF.from_clauses([[1]], prob=[0.3])
    assert "0.606531], not a guarantee" in show.block("f", dnf, guess)
    assert "not a guarantee" not in show.block("f", dnf, guess.replace(met=False))
    assert "not a guarantee" not in show.block("f", dnf, guess.replace(guarantee="bounds"))


def test_the_guarantee_in_words() -> None:
    estimate = Estimate(log_prob=-1.0, guarantee="relative", engine="x", epsilon=0.1, delta=0.05)
    assert show.guarantee(estimate) == "within a factor of 1 ± 0.1 with probability 95 %"
    assert show.guarantee(estimate.replace(delta=0.0)) == "within a factor of 1 ± 0.1, surely"
    assert "NOT MET" in show.guarantee(estimate.replace(met=False))
    assert "without a promise" in show.guarantee(estimate.replace(guarantee="none", epsilon=None, delta=None))
    lines = show.competition_lines(DNF.from_clauses([[1]], prob=[0.3]), estimate.replace(met=False))
    assert "pac" not in lines


def test_count_reads_circuits(run: Run, tmp_path: Path) -> None:
    circuit = Circuit.parse("(a | ~b) & c", {"a": 0.5, "b": 0.5, "c": 0.5})
    for name in ("one.json", "one.nnf", "one.txt"):
        write_circuit(circuit, tmp_path / name, "c2d" if name.endswith("nnf") else "json")
        code, out, _ = run("count", str(tmp_path / name), "--guarantee", "exact")
        assert code == 0
        assert re.search(r"models +3\n", out)
        assert "0.375" in out
    b = Builder()
    x = b.var("x", 0.25)
    write_circuit(b.build(x, ~x, names=["yes", "no"]), tmp_path / "two.json")
    code, out, _ = run("count", str(tmp_path / "two.json"), "--json")
    assert code == 0
    assert [json.loads(line)["prob"] for line in out.splitlines()] == pytest.approx([0.25, 0.75])
    assert "two.json[no]" in out
    (tmp_path / "bad.json").write_text("{")
    code, _, err = run("count", str(tmp_path / "bad.json"))
    assert code == 2
    assert "bad.json" in err
