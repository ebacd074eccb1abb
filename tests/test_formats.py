"""The file formats: every dialect by hand-counted examples, round trips to the bit, and each kind of bad input."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import dnfs, enumerate_count, enumerate_prob

from sharpdnf import DNF, count, formats
from sharpdnf.errors import InvalidFormula, ParseError
from sharpdnf.formats import WRITE_DIALECTS, encode, read, reads, write, writes

pytestmark = pytest.mark.native

HERE = Path(__file__).parent
DATA = sorted((HERE / "data").glob("*.dnf"))
EXAMPLES = sorted((HERE.parent / "examples").glob("*.dnf"))


def comment(text: str, key: str, default: str | None = None) -> str | None:
    found = re.search(rf"^c {key} (\S+)", text, re.MULTILINE)
    return found[1] if found else default


@pytest.mark.parametrize("path", DATA, ids=lambda p: p.stem)
def test_hand_counted_files(path: Path) -> None:
    text = path.read_text()
    dnf = read(path, comment(text, "dialect"))
    expect = comment(text, "expect")
    assert expect is not None
    assert enumerate_prob(dnf) == pytest.approx(float(expect), rel=1e-12, abs=0)
    assert math.exp(dnf.log_scale) == pytest.approx(float(comment(text, "scale", "1") or 1), rel=1e-12)
    DNF(*dnf.arrays)  # the parser's arrays pass the full check


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples(path: Path) -> None:
    text = path.read_text()
    dnf = read(path)
    expect = comment(text, "expect")
    assert dnf.num_clauses > 0
    assert not dnf.notes
    if expect is not None:
        assert count(dnf, guarantee="exact").prob == pytest.approx(float(expect), rel=1e-12)


def test_no_dialect_is_guessed() -> None:
    text = (HERE / "data" / "pysdd.dnf").read_text()
    with pytest.raises(ParseError, match="PySDD"):
        reads(text)
    with pytest.raises(ParseError, match=r"says cnf.*pysdd"):
        reads("p cnf 1 1\n1 0\n")


def test_reading_gives_the_same_formula_as_building() -> None:
    dnf = reads("p dnf 3 2\nw 1 0.4\n3 -1 0\n2 0\n")
    assert dnf == DNF.from_clauses([[-1, 3], [2]], prob={1: 0.4}, num_vars=3)
    assert not dnf.literals.flags.writeable
    assert dnf.notes == ()


def test_changes_are_said() -> None:
    dnf = reads("p dnf 3 3\n1 1 2 0\n3 -3 0\n2 1 0\n")
    assert dnf.clauses() == [[1, 2], [1, 2]]
    assert dnf.notes == ("1 repeated literals merged", "1 clauses with a literal and its negation dropped")


def test_unweighted_competition_count_is_exact() -> None:
    dnf = reads("p dnf 1000 1\n1 0\n", dialect="mcc")
    assert dnf.log_scale == 1000 * math.log(2)
    assert reads("p dnf 1000 1\n1 0\n").log_scale == 0.0
    small = reads("c t mc\np dnf 3 1\n1 0\n")
    assert math.exp(small.log_scale) * enumerate_prob(small) == pytest.approx(enumerate_count(small))


SCALES = st.sampled_from([0.0, 0.3, -7.25, 5 * math.log(2), 33.3])


@given(dnf=dnfs(), scale=SCALES, dialect=st.sampled_from(WRITE_DIALECTS[:4]))
def test_round_trip(dnf: DNF, scale: float, dialect: str) -> None:
    dnf = DNF(*dnf.arrays, log_scale=scale)
    try:
        text = writes(dnf, dialect)
    except InvalidFormula:
        assert dialect == "pepin" or dnf.num_vars == 0 or (scale and bool(np.all((dnf.prob > 0) & (dnf.prob < 1e-100))))
        return
    back = reads(text, dialect=dialect if dialect in ("mcc", "pysdd") else None)
    assert all(np.array_equal(a, b) for a, b in zip(back.arrays, dnf.arrays, strict=True))
    assert back.log_scale == pytest.approx(scale, rel=1e-13, abs=1e-13)
    assert b"".join(encode(back, "sharpdnf")) == writes(back).encode()


@given(prob=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_probabilities_round_trip_to_the_bit(prob: list[float]) -> None:
    dnf = DNF.from_clauses([[1]], prob=np.abs(prob))
    for dialect in ("sharpdnf", "mcc", "pysdd"):
        back = reads(writes(dnf, dialect), dialect=dialect)
        assert back.prob.tobytes() == dnf.prob.tobytes(), dialect


@given(dnf=dnfs(max_vars=5), chunk=st.integers(1, 7), packed=st.booleans())
def test_chunks_do_not_matter(dnf: DNF, chunk: int, packed: bool) -> None:
    from sharpdnf import formats

    data = writes(dnf).encode()
    source = io.BytesIO(gzip.compress(data) if packed else data)
    saved, formats.CHUNK = formats.CHUNK, chunk
    try:
        assert formats._parse(formats._unzipped(source, "x"), "x", None) == dnf
    finally:
        formats.CHUNK = saved


def test_names_round_trip() -> None:
    names = ("rain", "wet grass", "100%", "Zürich\t", "")
    dnf = DNF.from_clauses([[1, -2], [3]], num_vars=4, names=names[:4])
    assert reads(writes(dnf)).names == names[:4]
    assert reads(writes(dnf, "mcc")).names == names[:4]
    assert reads("p dnf 3 0\nc var 2 b\n").names == ("x1", "b", "x3")
    assert reads("p dnf 3 0\nc var 2 is the one that matters\nc variables: 3\n").names is None


def test_negation_is_the_complement() -> None:
    dnf = reads("p dnf 3 2\nw 1 0.3\nw 3 0.9\n1 -2 0\n3 0\n")
    lines = writes(dnf, "cnf-negation").splitlines()
    assert "p cnf 3 2" in lines
    assert lines[-2:] == ["-1 2 0", "-3 0"]
    assert "c p weight 1 0.3 0" in lines
    assert "c p weight -1 0.7 0" in lines


def test_pysdd_reads_what_we_write(tmp_path: Path) -> None:
    sdd = pytest.importorskip("pysdd.sdd")
    dnf = reads("p dnf 4 3\n1 -2 0\n3 4 0\n-1 -4 0\n")
    path = tmp_path / "f.dnf"
    write(dnf, path, "pysdd")
    _, node = sdd.SddManager.from_dnf_file(str(path).encode())
    assert node.global_model_count() == enumerate_count(dnf)


def test_pepin_fractions() -> None:
    dnf = DNF.from_clauses([[1, 2, 3, 4]], prob=[2 / 3, 0.1, 0.5, 0.0])
    assert [line for line in writes(dnf, "pepin").splitlines() if line[0] == "w"] == ["w 1 2/3", "w 2 1/10", "w 4 0/1"]
    with pytest.raises(InvalidFormula, match="16-bit"):
        writes(DNF.from_clauses([[1]], prob=[0.1234567891234]), "pepin")


def test_files(tmp_path: Path) -> None:
    dnf = DNF.from_clauses([[1, -2], [3]], prob=[0.1, 0.2, 0.3])
    for name in ("plain.dnf", "packed.dnf.gz"):
        write(dnf, tmp_path / name)
        assert read(tmp_path / name) == dnf
    data = (tmp_path / "packed.dnf.gz").read_bytes()
    assert data[:2] == b"\x1f\x8b"
    write(dnf, tmp_path / "packed.dnf.gz")
    assert (tmp_path / "packed.dnf.gz").read_bytes() == data
    (tmp_path / "no_suffix").write_bytes(data + b"\0" * 100)
    assert read(tmp_path / "no_suffix") == dnf
    first, rest = writes(dnf).encode()[:9], writes(dnf).encode()[9:]
    (tmp_path / "two_members").write_bytes(gzip.compress(first) + gzip.compress(rest))
    assert read(tmp_path / "two_members") == dnf
    with pytest.raises(ValueError, match="unknown dialect"):
        write(dnf, tmp_path / "never", "latex")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("name", ["f.dnf", "f.dnf.gz"])
def test_a_file_is_replaced_only_when_the_new_one_is_complete(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, dnf = tmp_path / name, DNF.from_clauses([[1, -2], [3]])
    formats.write(dnf, path)
    path.chmod(0o640)
    before = path.read_bytes()

    def broken(*_: object) -> Iterator[bytes]:
        yield b"p dnf 9 9\n" * 100_000
        assert path.read_bytes() == before
        raise OSError("disk full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(formats, "encode", broken)
        formats.write(dnf, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [name]
    link = tmp_path / f"link-{name}"
    link.symlink_to(path)
    formats.write(DNF.from_clauses([[4]]), link)
    assert link.is_symlink() and formats.read(path).clauses() == [[4]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and len(os.listdir(tmp_path)) == 2
    with pytest.raises(FileNotFoundError, match=r"'/nowhere/f\.dnf'"):
        formats.write(dnf, "/nowhere/f.dnf")
    formats.write(dnf, os.devnull)


@pytest.mark.speed
def test_few_names_of_many_variables_do_not_fill_the_memory() -> None:
    text = "p dnf 10000000 1\nc var 1 a\n1 0\n"
    tracemalloc.start()
    with pytest.raises(ParseError, match="1 of 10000000 variables have a name"):
        formats.reads(text)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
    assert formats.reads(text.replace("10000000", "1000")).names[:2] == ("a", "x2")


def test_standard_input() -> None:
    code = "import sharpdnf.formats as f; d = f.read('-'); print(d.num_vars, d.num_clauses)"
    for data in (b"p dnf 3 1\n1 0\n", gzip.compress(b"p dnf 3 1\n1 0\n")):
        done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
        assert done.stdout.split() == [b"3", b"1"]


BAD = {
    "": (1, "expected a header"),
    "1 2 0\n": (1, "header"),
    "p dnf 3\n": (1, "VARIABLES CLAUSES"),
    "p dnf 3 x\n": (1, "'x'"),
    "p dnf -3 1\n1 0\n": (1, "'-3'"),
    "p dnf 3 1 1\n1 0\n": (1, "header"),
    "p wcnf 3 1\n1 0\n": (1, "p dnf"),
    "pdnf 3 1\n": (1, "'pdnf'"),
    "p dnf 3 1\np dnf 3 1\n1 0\n": (2, "second header"),
    "p dnf 1000000000000000000 1\n1 0\n": (1, "1000000000000000000"),
    "p dnf 99999999999999999999999 1\n1 0\n": (1, "99999999999999999999999"),
    "p dnf 1000000000 1\n1 0\n": (1, "expected at most 10000000"),
    "p dnf 1000000000 1\nw 999999999 0.5\n1 0\n": (1, "expected at most 10000000"),
    "p dnf 3 1000000000000000000\n1 0\n": (1, "announces 1000000000000000000 clauses, but there are 1"),
    "p dnf 3 1\n1 0 2 0\n": (2, "literal 0 inside a clause"),
    "p dnf 3 1\n1 -0 2 0\n": (2, "-0"),
    "p dnf 3 1\n1 4 0\n": (2, "variable 4 is beyond the 3"),
    "p dnf 3 1\n1 99999999999999999999999 0\n": (2, "18 digits"),
    "p dnf 3 2\n1 0\n": (1, "announces 2 clauses, but there are 1"),
    "p dnf 3 1\n1 0\n2 0\n": (3, "one clause more"),
    "p dnf 3 1\n1 2\n": (2, "closing 0"),
    "p dnf 3 1\n1 2": (2, "closing 0"),
    "p dnf 3 1\n1 2\nw 1 0.5\n0\n": (3, "begins on line 2"),
    "p dnf 3 1\n1 - 2 0\n": (2, "digits after '-'"),
    "p dnf 3 1\n1 --2 0\n": (2, "'-'"),
    "p dnf 3 1\n1 2.5 0\n": (2, "'.'"),
    "p dnf 3 1\n+1 0\n": (2, r"'\+'"),
    "p dnf 3 1\n1 0 x\n": (2, "'x'"),
    "p dnf 3 1\n1 0\n%\n0\n": (3, "'%'"),
    "p dnf 3 1\nw 1 1.5\n1 0\n": (2, r"\[0, 1\].*'1.5'"),
    "p dnf 3 1\nw 1 -0.5\n1 0\n": (2, r"\[0, 1\]"),
    "p dnf 3 1\nw 1 nan\n1 0\n": (2, "'nan'"),
    "p dnf 3 1\nw 1 inf\n1 0\n": (2, "'inf'"),
    "p dnf 3 1\nw 1 0x1p-1\n1 0\n": (2, "'0x1p-1'"),
    "p dnf 3 1\nw 1 1e-400\n1 0\n": (2, "1e-400"),
    "p dnf 3 1\nw 1 1e400\n1 0\n": (2, "1e400"),
    "p dnf 3 1\nw 1 1e\n1 0\n": (2, "1e"),
    "p dnf 3 1\nw 1 .\n1 0\n": (2, r"'\.'"),
    "p dnf 3 1\nw 1 1/0\n1 0\n": (2, "1/0"),
    "p dnf 3 1\nw 1 0/0\n1 0\n": (2, "0/0"),
    "p dnf 3 1\nw 1 3/2\n1 0\n": (2, "3/2"),
    "p dnf 3 1\nw 1 1/2/3\n1 0\n": (2, "1/2/3"),
    "p dnf 3 1\nw 1 0.99999999999999999999\n1 0\n": (2, "tell from 1"),
    "p dnf 3 1\nw -1 0.5\n1 0\n": (2, "expected a variable, not '-1'"),
    "p dnf 3 1\nw 0 0.5\n1 0\n": (2, "expected a variable"),
    "p dnf 3 1\nw 4 0.5\n1 0\n": (2, "beyond the 3"),
    "p dnf 3 1\nw 1\n1 0\n": (2, "w VARIABLE PROBABILITY"),
    "p dnf 3 1\nw 1 0.5 0\n1 0\n": (2, "w VARIABLE PROBABILITY"),
    "p dnf 3 1\nw 1 0.5\nw 1 0.6\n1 0\n": (3, "second, different"),
    "w 1 0.5\np dnf 3 1\n1 0\n": (1, "header"),
    "p dnf 3 1\nw 1 0.5\nc p weight 2 0.5 0\n1 0\n": (3, "two kinds of weights"),
    "p dnf 3 1\nc p weight 2 0.5 0\nw 1 0.5\n1 0\n": (3, "two kinds of weights"),
    "c t wmc\np dnf 3 1\nw 1 0.5\n1 0\n": (3, "c p weight"),
    "p dnf 3 1\nw 1 0.5\nc t wmc\n1 0\n": (3, "contradict"),
    "p dnf 3 1\nc p weight 1 0.5\n1 0\n": (2, "LITERAL WEIGHT 0"),
    "p dnf 3 1\nc p weight 1 0.5 1\n1 0\n": (2, "LITERAL WEIGHT 0"),
    "p dnf 3 1\nc p weight 1 -0.5 0\n1 0\n": (2, "0 or more"),
    "p dnf 3 1\nc p weight 0 0.5 0\n1 0\n": (2, "expected a literal"),
    "p dnf 3 1\nc p weight -1 0.5 0\nc p weight -1 0.6 0\n1 0\n": (3, "second, different"),
    "p dnf 3 1\nc p weight 1 2 0\n1 0\n": (2, "for both literals"),
    "p dnf 3 1\nc p weight 1 0 0\nc p weight -1 0 0\n1 0\n": (3, "positive sum"),
    "p dnf 3 1\nc p weight 1 1e308 0\nc p weight -1 1e308 0\n1 0\n": (3, "double"),
    "p dnf 3 1\nc p weight -1 1e-20 0\n1 0\n": (2, "vanishes"),
    "p dnf 3 1\nc p weight 1 1e-300 0\nc p weight -1 1e300 0\n1 0\n": (3, "vanishes"),
    "p dnf 3 1\nc p show 1 2 0\n1 0\n": (2, "projected"),
    "c t pmc\np dnf 3 1\n1 0\n": (1, "projected"),
    "p dnf 1 1\nc weights 0.5 0.5\n1 0\n": (2, "PySDD"),
    "p dnf 3 1\nc log_scale nan\n1 0\n": (2, "log_scale"),
    "p dnf 3 1\nc log_scale 1\nc log_scale 2\n1 0\n": (3, "second, different"),
    "p dnf 3 1\nc var 4 d\n1 0\n": (2, "beyond"),
    "p dnf 3 1\nc var 1 a\nc var 1 b\n1 0\n": (0, "two names"),
    "p dnf 3 1\nc var 1 a\nc var 2 a\n1 0\n": (0, "same name"),
    "\x7fELF\x02\x01\x01\x00": (1, r"\\x7f"),
    "p dnf 3 1\n1 \x00 0\n": (2, r"\\x00"),
    "PK\x03\x04": (1, "'P'"),
    "w " + "1" * 100_000: (1, "at most 65536 bytes"),
    "p dnf 3 1\nc p weight 1 0." + "1" * 100_000 + " 0\n1 0\n": (2, "at most 65536 bytes"),
}


@pytest.mark.parametrize("text", BAD, ids=lambda t: repr(t)[:50])
def test_bad_input_is_refused_with_its_line(text: str) -> None:
    line, message = BAD[text]
    with pytest.raises(ParseError, match=message) as caught:
        reads(text)
    assert caught.value.line == line
    assert len(str(caught.value)) < 300


BAD_PYSDD = {
    "p dnf 2 1\n1 0\n": (1, "p cnf"),
    "c weights 1 1 1\np cnf 2 1\n1 0\n": (1, "two weights for each of the 2 variables, not 3"),
    "p cnf 2 1\nc weights 1 1 1 1 1\n1 0\n": (2, "end of the line"),
    "p cnf 2 1\nc weights 1 1 1 -1\n1 0\n": (2, "0 or more"),
    "p cnf 2 1\nw 1 0.5\n1 0\n": (2, "another dialect"),
    "p cnf 2 1\nc p weight 1 0.5 0\n1 0\n": (2, "another dialect"),
}


@pytest.mark.parametrize("text", BAD_PYSDD, ids=repr)
def test_bad_pysdd_input(text: str) -> None:
    line, message = BAD_PYSDD[text]
    with pytest.raises(ParseError, match=message) as caught:
        reads(text, dialect="pysdd")
    assert caught.value.line == line


def test_bad_files(tmp_path: Path) -> None:
    good = gzip.compress(b"p dnf 2000 1\n" + b" ".join(b"%d" % i for i in range(1, 2001)) + b" 0\n")
    cases = {"short.gz": good[:-20], "stump.gz": good[:5], "magic": b"\x1f\x8b", "flipped.gz": good[:40] + b"\xff" * 60}
    for name, data in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ParseError, match="gzip"):
            read(tmp_path / name)
    (tmp_path / "tail.gz").write_bytes(good + b"tail")
    with pytest.raises(ParseError, match="gzip"):
        read(tmp_path / "tail.gz")
    for path in (tmp_path, tmp_path / "missing.dnf", "a\0b"):
        with pytest.raises(ParseError, match="cannot be read"):
            read(path)
    if os.geteuid() != 0:
        (tmp_path / "secret").write_text("p dnf 0 0\n")
        (tmp_path / "secret").chmod(0)
        with pytest.raises(ParseError, match="cannot be read"):
            read(tmp_path / "secret")
    with pytest.raises(ValueError, match="unknown dialect"):
        reads("p dnf 0 0\n", dialect="latex")


def test_a_clause_of_a_million_literals() -> None:
    n = 10**6
    text = f"p dnf {n} 1\n" + " ".join(str(-v if v % 3 else v) for v in range(n, 0, -1)) + " 0\n"
    dnf = reads(text)
    assert dnf.num_literals == n
    assert dnf.literals[2] == 4
    assert dnf.literals[0] == 1


def test_long_comments_cost_nothing() -> None:
    assert reads("c " + "x" * 10**6 + "\np dnf 1 1\n1 0\nc " + "p " * 10**5).num_clauses == 1


def test_byte_order_mark() -> None:
    assert reads(b"\xef\xbb\xbfp dnf 1 1\n1 0\n").num_clauses == 1


MEASURE = """
import resource, sys, time
import numpy as np
from sharpdnf.formats import read
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
read(sys.argv[2])
before = peak()
start = time.process_time(); dnf = read(sys.argv[1]); seconds = time.process_time() - start
print((peak() - before) / sum(a.nbytes for a in dnf.arrays), seconds)
"""


@pytest.mark.speed
def test_reading_is_fast_and_lean(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n, m, w = 10**5, 10**6, 4
    signed = (1 + rng.integers(0, n, (m, w))) * rng.choice([-1, 1], (m, w))
    literals = (2 * (np.abs(signed) - 1) + (signed < 0)).astype(np.int32).ravel()
    big = DNF.from_arrays(np.arange(0, m * w + 1, w), literals, rng.random(n))
    write(big, tmp_path / "big.dnf")
    write(DNF.from_clauses([[1]]), tmp_path / "small.dnf")
    size = (tmp_path / "big.dnf").stat().st_size
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "big.dnf"), str(tmp_path / "small.dnf")]
    runs = [
        [float(x) for x in subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()]
        for _ in range(3)
    ]
    assert min(memory for memory, _ in runs) < 3.0
    assert size / min(seconds for _, seconds in runs) > 50e6  # aim: 100 MB/s; half of it, for a busy machine


@pytest.mark.parametrize("dialect", ["mcc", "pysdd", "cnf-negation"])
def test_weights_that_would_underflow_are_refused(dialect: str) -> None:
    """1e-300 times a share of exp(-275) is no double: another formula must not be written instead."""
    base = DNF.from_clauses([[-1, 2], [1]], [1e-300, 1.0])
    dnf = DNF(*base.arrays, log_scale=-275.3)
    with pytest.raises(InvalidFormula, match="write dialect sharpdnf"):
        writes(dnf, dialect)
    assert reads(writes(dnf, "sharpdnf")) == dnf
