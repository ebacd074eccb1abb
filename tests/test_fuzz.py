"""Parser fuzzing: whatever the bytes, reading gives a ParseError or a valid formula that writes and reads back."""

from __future__ import annotations

import contextlib
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import dnfs

from sharpdnf import DNF, formats
from sharpdnf.errors import InvalidFormula, ParseError

pytestmark = pytest.mark.native

SEEDS = [path.read_bytes() for path in sorted((Path(__file__).parent / "data").glob("*.dnf"))]
# A busy machine is no failure, a hang is.
QUIET = settings(deadline=10_000, suppress_health_check=[HealthCheck.too_slow])
DIALECTS = st.sampled_from([None, *formats.READ_DIALECTS])
# What a mutation puts in: the words of the formats, numbers at their limits, and bytes of no meaning.
WORDS = (
    b"p dnf|p cnf|w 1 |c p weight |c weights |c var 1 a|c log_scale 1|c t wmc|c p show|0|-|-0|1/0|1e999|1e-999|"
    b"nan|\r|\n|\n\n| 0\n|\t|\0|\xff\xfe|\xef\xbb\xbf|18446744073709551616|9223372036854775807|2147483648|"
    b"-9223372036854775808|1073741824|4611686018427387904|0.5|1|2/3|0000000000000000000000|+1|1e|.|/|"
    b"\x1f\x8b\x08".split(b"|")
)
PIECES = st.one_of(
    st.sampled_from(WORDS), st.binary(max_size=8), st.integers(-(10**20), 10**20).map(lambda i: b"%d" % i)
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid file with a few places replaced, cut out, repeated or swapped for another file's."""
    data = draw(st.sampled_from(SEEDS) | dnfs(max_vars=5).map(lambda dnf: formats.writes(dnf, "mcc").encode()))
    for _ in range(draw(st.integers(1, 4))):
        i, j = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        if draw(st.booleans()):
            j = min(j, i + 3)
        kind = draw(st.sampled_from(["put", "cut", "repeat", "splice", "truncate"]))
        if kind == "put":
            data = data[:i] + draw(PIECES) + data[i:]
        elif kind == "cut":
            data = data[:i] + data[j:]
        elif kind == "repeat":
            data = data[:j] + data[i:]
        elif kind == "splice":
            data = data[:i] + draw(st.sampled_from(SEEDS))[i:]
        else:
            data = data[:i]
    return data


def check_reading(data: bytes, dialect: str | None) -> bool:
    """Whether the text is a formula. If it is not the error says where, if it is it is valid and comes back."""
    try:
        dnf = formats.reads(data, dialect)
    except ParseError as error:
        assert error.line >= 0
        assert error.line <= data.count(b"\n") + 1
        assert str(error).isprintable()
        return False
    checked = DNF(*dnf.arrays, log_scale=dnf.log_scale, names=dnf.names)  # the full check of every invariant
    assert np.isfinite(dnf.log_scale)
    assert dnf.num_literals <= len(data)
    assert formats.reads(formats.writes(dnf)) == checked
    if dnf.num_vars:
        try:
            back = formats.reads(formats.writes(dnf, "mcc"), "mcc")
        except InvalidFormula:
            return True  # a scale that weights cannot carry
        assert all(np.array_equal(a, b) for a, b in zip(back.arrays, dnf.arrays, strict=True))
    return True


@settings(QUIET, max_examples=800)
@given(st.binary(max_size=200), DIALECTS)
def test_raw_bytes(data: bytes, dialect: str | None) -> None:
    check_reading(data, dialect)


@settings(QUIET, max_examples=500)
@given(st.lists(PIECES, max_size=30).map(b" ".join), DIALECTS)
def test_raw_bytes_after_a_header(rest: bytes, dialect: str | None) -> None:
    check_reading((b"p cnf 4 3\n" if dialect == "pysdd" else b"p dnf 4 3\n") + rest, dialect)


@settings(QUIET, max_examples=800)
@given(mutated(), DIALECTS)
def test_mutated_files(data: bytes, dialect: str | None) -> None:
    check_reading(data, dialect)


@settings(QUIET, max_examples=500)
@given(mutated(), st.integers(1, 16))
def test_chunks_change_nothing(data: bytes, chunk: int) -> None:
    def outcome(size: int) -> str:
        pieces = (data[i : i + size] for i in range(0, len(data), size))
        try:
            dnf = formats._parse(pieces, "<text>", None)
            return formats.writes(dnf) + str(dnf.notes)
        except ParseError as error:
            return str(error)

    assert outcome(chunk) == outcome(1 << 20) or data.startswith(b"\xef")  # a mark may be cut by a tiny chunk


@settings(QUIET, max_examples=500)
@given(st.sampled_from(SEEDS), st.data())
def test_damaged_gzip(seed: bytes, data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(seed, mtime=0))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(2, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    stop = data.draw(st.integers(2, len(packed)))
    with contextlib.suppress(ParseError):
        formats._parse(formats._unzipped(io.BytesIO(bytes(packed[:stop])), "x.gz"), "x.gz", None)
