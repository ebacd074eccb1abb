"""The commands generate, convert and simplify."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import DATA, TWO, Run, program

from sharpdnf import count, formats, reads


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


def test_standard_input_and_output() -> None:
    made = program("generate", "uniform", "-n", "50", "-m", "40", "-w", "3", "-s", "1")
    done = program("count", "-", "--json", input=made.stdout)
    assert done.returncode == 0
    assert 0 < json.loads(done.stdout)["prob"] <= 1


def test_broken_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m sharpdnf.cli generate uniform -n 50000 -m 50000 -w 9 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("c sharpdnf generate")
    assert done.stderr == ""
