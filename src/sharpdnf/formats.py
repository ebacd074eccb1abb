"""Text <-> DNF. The parser is native (native/kernels/parse.hpp); this module feeds it, and writes.

Dialects (DIMACS lines; a clause ends in 0 and may span lines, nothing follows the 0)::

    sharpdnf   p dnf 3 2          variables, clauses
               w 1 2/3            P(x1), a decimal or a fraction, default 1/2; pepin reads the same with fractions
               c var 1 rain       optional names;  c log_scale 0.7: what multiplies P to give the weighted count
               1 -2 0
    pepin      the same, written with fractions of 16-bit numbers; refused where that would change a probability
    mcc        weights of the model counting competition: c p weight 1 0.4 0, c p weight -1 0.6 0. A missing
               polarity is 1 - w, two missing ones are 1 and 1 (so a formula without weights is counted)
    pysdd      a DNF under a header that says cnf, weights on one line c weights W1 W-1 W2 W-2 ...: only on request
    cnf-negation   (written only) the weighted CNF of the negation, for exact CNF counters

Without a dialect, ``read`` tells sharpdnf from mcc by the weights and refuses a text that mixes them.
"""

from __future__ import annotations

import math
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import IO, Literal, get_args

import numpy as np

from sharpdnf import _native
from sharpdnf.dnf import DNF, FloatArray, require_dnf
from sharpdnf.errors import InvalidFormula, LimitError, ParseError
from sharpdnf.files import FilePath, replacing

ReadDialect = Literal["sharpdnf", "mcc", "pysdd"]
WriteDialect = Literal["sharpdnf", "pepin", "mcc", "pysdd", "cnf-negation"]
READ_DIALECTS: tuple[str, ...] = get_args(ReadDialect)
WRITE_DIALECTS: tuple[str, ...] = get_args(WriteDialect)
CHUNK = 1 << 18  # bytes per call of the parser: few enough for the cache and for Ctrl-C, enough to make a call cheap
NAMELESS, NAMELESS_PER_NAME = 100_000, 100
"""How many variables without a name may stand beside those with one: each gets a name, which takes memory."""


def read(path: FilePath, dialect: str | None = None) -> DNF:
    """Reads a file, gzipped or not; ``-`` is standard input. Raises ParseError with the file and the line."""
    _check_dialect(dialect)
    name = os.fspath(path)
    shown = "<stdin>" if name == "-" else name
    try:
        if name == "-":
            return _parse(_unzipped(sys.stdin.buffer, shown), shown, dialect)
        with open(name, "rb", buffering=0) as file:
            return _parse(_unzipped(file, shown), shown, dialect)
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror or error}", file=shown) from error
    except ValueError as error:  # a path with a null byte
        if isinstance(error, InvalidFormula):
            raise
        raise ParseError(f"cannot be read: {error}", file=repr(shown)) from error


def reads(text: str | bytes, dialect: str | None = None) -> DNF:
    """Reads a formula from a string."""
    _check_dialect(dialect)
    if not isinstance(text, str | bytes | bytearray | memoryview):  # bytes(7) would be seven zeros
        raise TypeError(f"expected text or bytes, not {type(text).__name__}: sharpdnf.read takes a path")
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
    return _parse((data[i : i + CHUNK] for i in range(0, len(data), CHUNK)), "<text>", dialect)


def write(dnf: DNF, path: FilePath, dialect: str = "sharpdnf", comment: str = "") -> None:
    """Writes a file, gzipped if its name ends in ``.gz``; ``comment`` is complete ``c`` lines to put first.

    Probabilities read back bit for bit. The file appears when it is complete: until then a file of that name is as it
    was, whatever stops the writing.
    """
    lines = chain([comment.encode()], encode(dnf, dialect))  # refuses before the file is touched
    with replacing(path) as file:
        if os.fspath(path).endswith(".gz"):
            import gzip

            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


def writes(dnf: DNF, dialect: str = "sharpdnf") -> str:
    """The formula as text."""
    return b"".join(encode(dnf, dialect)).decode()


def encode(dnf: DNF, dialect: str = "sharpdnf") -> Iterator[bytes]:
    """The text in chunks; what the dialect cannot say is refused at once, not half way."""
    if dialect not in WRITE_DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}: choose from {', '.join(WRITE_DIALECTS)}")
    head = _HEADS[dialect](require_dnf(dnf))
    return _encode(dnf, head, negate=dialect == "cnf-negation")


def _encode(dnf: DNF, head: list[str], negate: bool) -> Iterator[bytes]:
    yield "".join(line + "\n" for line in head).encode()
    first = 0
    while first < dnf.num_clauses:
        # About a megabyte of text at a time, whatever the widths are.
        by_literals = int(np.searchsorted(dnf.indptr, dnf.indptr[first] + (1 << 17), side="right")) - 1
        last = min(max(by_literals, first + 1), first + (1 << 17))
        yield _native.format_clauses(dnf.indptr, dnf.literals, first, last, negate)
        first = last


def _check_dialect(dialect: str | None) -> None:
    if dialect is not None and dialect not in READ_DIALECTS:
        raise ValueError(f"unknown dialect {dialect!r}: choose from {', '.join(READ_DIALECTS)}")


def _parse(chunks: Iterable[bytes], name: str, dialect: str | None) -> DNF:
    parser = _native.Parser(dialect or "")
    try:
        for i, chunk in enumerate(chunks):
            # Editors on Windows may put a byte-order mark first.
            problem = parser.feed(chunk.removeprefix(b"\xef\xbb\xbf") if i == 0 else chunk)
            if problem:
                raise ParseError(problem, file=name, line=parser.line)
        problem = parser.finish()
        if problem:
            raise ParseError(problem, file=name, line=parser.line)
        indptr, literals, prob = parser.take()
    except MemoryError as error:
        raise LimitError(f"{name}: the formula does not fit into memory") from error
    notes = []
    if parser.repeated_literals:
        notes.append(f"{parser.repeated_literals} repeated literals merged")
    if parser.impossible_clauses:
        notes.append(f"{parser.impossible_clauses} clauses with a literal and its negation dropped")
    if parser.rounded_vars:
        notes.append(f"{parser.rounded_vars} variables with a negative weight so small that 1 - p lost digits of it")
    names = _names(parser.names(), len(prob), name)
    return DNF.trusted(indptr, literals, prob, parser.log_scale, names, tuple(notes))


def _unzipped(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The file's chunks, unpacked if it is gzip; memory stays at a chunk whatever the packing ratio."""
    chunk = file.read(CHUNK)
    while chunk and len(chunk) < 2:
        more = file.read(CHUNK)
        if not more:
            break
        chunk += more
    if not chunk.startswith(b"\x1f\x8b"):
        while chunk:
            yield chunk
            chunk = file.read(CHUNK)
        return
    unpacker = zlib.decompressobj(wbits=31)
    while chunk:
        try:
            yield unpacker.decompress(chunk, CHUNK)
        except zlib.error as error:
            raise ParseError(f"damaged gzip data: {error}", file=name) from None
        chunk = unpacker.unconsumed_tail
        if unpacker.eof:  # another member may follow, or the zeros that tape drives leave
            chunk = (unpacker.unused_data or file.read(CHUNK)).lstrip(b"\0")
            if chunk:
                unpacker = zlib.decompressobj(wbits=31)
        chunk = chunk or file.read(CHUNK)
    if not unpacker.eof:
        raise ParseError("the gzip data end too early: expected a complete file", file=name)


def _names(declared: list[tuple[int, bytes]], num_vars: int, file: str) -> tuple[str, ...] | None:
    if not declared:
        return None
    if num_vars > NAMELESS + NAMELESS_PER_NAME * len(declared):
        raise ParseError(
            f"{len(declared)} of {num_vars} variables have a name, and the others would need one: name more or none",
            file=file,
        )
    names = [f"x{v}" for v in range(1, num_vars + 1)]
    seen: dict[int, str] = {}
    for variable, raw in declared:
        try:
            text = _unquote(raw.decode())
        except UnicodeDecodeError:
            raise ParseError(f"the name of variable {variable} is not UTF-8", file=file) from None
        if seen.setdefault(variable, text) != text:
            raise ParseError(f"variable {variable} has two names, {seen[variable]!r} and {text!r}", file=file)
        names[variable - 1] = text
    if len(set(names)) != num_vars:
        raise ParseError("two variables have the same name", file=file)
    return tuple(names)


def _quote(name: str) -> str:
    """A name as one word: blanks, controls and % as %XX of their UTF-8 bytes."""
    plain = [c if c.isprintable() and not c.isspace() and c != "%" else None for c in name]
    return "".join(
        c if c is not None else "".join(f"%{byte:02X}" for byte in name[i].encode()) for i, c in enumerate(plain)
    )


def _unquote(name: str) -> str:
    if "%" not in name:
        return name
    from urllib.parse import unquote

    return unquote(name, errors="strict")


def _name_lines(dnf: DNF) -> list[str]:
    return [f"c var {v} {_quote(name)}" for v, name in enumerate(dnf.names or (), start=1)]


def _sharpdnf_head(dnf: DNF) -> list[str]:
    lines = [f"p dnf {dnf.num_vars} {dnf.num_clauses}", *_name_lines(dnf)]
    if dnf.log_scale:
        lines.append(f"c log_scale {dnf.log_scale!r}")
    declared = np.flatnonzero(dnf.prob != 0.5)
    lines += [f"w {v + 1} {p!r}" for v, p in zip(declared.tolist(), np.abs(dnf.prob[declared]).tolist(), strict=True)]
    return lines


def _pepin_head(dnf: DNF) -> list[str]:
    """Fractions of 16-bit numbers, only where they give the very same double."""
    from fractions import Fraction

    lines = [f"p dnf {dnf.num_vars} {dnf.num_clauses}", *_name_lines(dnf)]
    if dnf.log_scale:
        lines.append(f"c log_scale {dnf.log_scale!r}")
    for v in np.flatnonzero(dnf.prob != 0.5).tolist():
        p = float(dnf.prob[v])
        fraction = Fraction(p).limit_denominator(2**16 - 1)
        if fraction.numerator / fraction.denominator != p:
            raise InvalidFormula(f"pepin's 16-bit fractions cannot say P(x{v + 1}) = {p!r}: write dialect sharpdnf")
        lines.append(f"w {v + 1} {fraction.numerator}/{fraction.denominator}")
    return lines


def _mcc_head(dnf: DNF) -> list[str]:
    return _competition_head(dnf, "dnf")


def _negation_head(dnf: DNF) -> list[str]:
    return _competition_head(dnf, "cnf")


def _competition_head(dnf: DNF, form: str) -> list[str]:
    weights = _weights(dnf)
    plain = weights is None
    lines = [f"c t {'mc' if plain else 'wmc'}", f"p {form} {dnf.num_vars} {dnf.num_clauses}", *_name_lines(dnf)]
    if weights is not None:
        pairs = enumerate(zip(weights[0].tolist(), weights[1].tolist(), strict=True), start=1)
        lines += [f"c p weight {v} {plus!r} 0\nc p weight -{v} {minus!r} 0" for v, (plus, minus) in pairs]
    return lines


def _pysdd_head(dnf: DNF) -> list[str]:
    weights = _weights(dnf)
    lines = _name_lines(dnf)
    if weights is not None:
        lines.append("c weights " + " ".join(map(repr, np.stack(weights, axis=1).ravel().tolist())))
    # PySDD reads comments only before its header, and names need the header first: they are left out.
    return [*(line for line in lines if not line.startswith("c var")), f"p cnf {dnf.num_vars} {dnf.num_clauses}"]


_HEADS = {
    "sharpdnf": _sharpdnf_head,
    "pepin": _pepin_head,
    "mcc": _mcc_head,
    "pysdd": _pysdd_head,
    "cnf-negation": _negation_head,
}


def _weights(dnf: DNF) -> tuple[FloatArray, FloatArray] | None:
    """(w+, w-) with w+ / (w+ + w-) = prob to the bit and sums multiplying to exp(log_scale); None if all are 1.

    The scale goes in as powers of two, which change no bit, and its remainder into one variable.
    """
    plus, minus = np.abs(dnf.prob), 1.0 - dnf.prob
    if dnf.log_scale == 0.0:
        return plus, minus
    if dnf.num_vars == 0:
        raise InvalidFormula("a log_scale without variables cannot be written as weights: write dialect sharpdnf")
    twos = round(dnf.log_scale / math.log(2))
    rest = math.exp(dnf.log_scale - twos * math.log(2))
    if abs(rest - 1.0) < 1e-15 * max(1.0, abs(dnf.log_scale)):
        rest = 1.0
    each, extra = divmod(twos, dnf.num_vars)
    if abs(each) > 500:
        raise InvalidFormula(f"log_scale = {dnf.log_scale} is beyond what weights can carry: write dialect sharpdnf")
    powers = np.full(dnf.num_vars, 2.0**each)
    powers[:extra] *= 2.0
    if rest != 1.0:
        _scale_one(plus, minus, dnf.prob, rest)
    plus, minus = plus * powers, minus * powers
    sums = plus + minus
    sums[np.abs(sums - 1.0) <= 2.0**-52] = 1.0  # the reader takes sums this close to 1 for 1
    if not np.array_equal(plus / sums, np.abs(dnf.prob)):  # a small weight lost digits, or all of them
        raise InvalidFormula(f"log_scale = {dnf.log_scale} leaves small weights no digits: write dialect sharpdnf")
    return None if np.all(plus == 1.0) and np.all(minus == 1.0) else (plus, minus)


def _scale_one(plus: FloatArray, minus: FloatArray, prob: FloatArray, scale: float) -> None:
    """Multiplies one variable's pair so that its quotient still rounds to its probability."""
    for v in range(len(prob)):
        p = float(prob[v])
        total = scale
        for _ in range(64):
            total = math.nextafter(total, math.inf)
            a = p * total
            b = total - a
            if a / (a + b) == p and abs(a + b - 1.0) > 2.0**-50:
                plus[v], minus[v] = a, b
                return
    raise InvalidFormula("log_scale cannot be written as weights: write dialect sharpdnf")


__all__ = ["READ_DIALECTS", "WRITE_DIALECTS", "encode", "read", "reads", "write", "writes"]
