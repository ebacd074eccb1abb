"""The program as a whole: exit codes, what goes where, and what start-up may cost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import DATA, TWO, Run


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


def test_version_and_help(run: Run) -> None:
    import sharpdnf

    assert run("--version")[1] == f"sharpdnf {sharpdnf.__version__}\n"
    code, out, _ = run("--help")
    assert code == 0
    for command in ("count", "generate", "convert", "simplify", "engines", "marginals"):
        assert command in out


@pytest.mark.parametrize("words", [["count", "--json", TWO], ["count", TWO], ["convert", TWO], ["engines"]])
def test_a_closed_standard_output_is_an_error_not_a_traceback(words: list[str]) -> None:
    command = 'exec "$0" -m sharpdnf.cli "$@" >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2, "sharpdnf: standard output is closed: there is nowhere to write the answer\n"
    )  # fmt: skip


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
