"""The command count: answers for people, as JSON and in competition lines; limits and seeds."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import DATA, TWO, Run

from sharpdnf import Builder, Circuit, write_circuit
from sharpdnf.estimate import Estimate


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


def test_engines(run: Run) -> None:
    code, out, _ = run("engines", "--json")
    assert code == 0
    assert {"sampling", "dtree", "bounds"} <= {json.loads(line)["engine"] for line in out.splitlines()}
    assert "guarantee: exact" in run("engines")[1]


def test_an_unknown_dialect_is_not_the_files_fault(run: Run) -> None:
    for file in (TWO, "missing.dnf"):
        assert run("count", file, "--dialect", "foo")[2].startswith("sharpdnf: unknown dialect 'foo'")


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
