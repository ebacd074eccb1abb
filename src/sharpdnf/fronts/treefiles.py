"""Fault-tree files: which format it is, and what it says. Files may be gzipped."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Sequence

from sharpdnf.errors import ParseError
from sharpdnf.fronts.aralia import read_aralia, read_cut_sets
from sharpdnf.fronts.openpsa import read_openpsa
from sharpdnf.fronts.safexml import MAX_BYTES, Place, parse_xml
from sharpdnf.fronts.treemodel import Model


def contents(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, unpacked; never more than a byte over the limit."""
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.open(io.BytesIO(data)) as packed:
            return packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ParseError(f"not a whole gzip file: {error}", file=os.fspath(path)) from None


def read_model(parts: Sequence[tuple[bytes, str]]) -> Model:
    """The model that (contents, file name) pairs describe together: Open-PSA, Aralia or a list of cut sets."""
    for data, file in parts:
        if len(data) > MAX_BYTES:
            raise ParseError(f"more than {MAX_BYTES} bytes", file=file)
    if all(_is_xml(data) for data, _ in parts):
        return read_openpsa([parse_xml(data, file) for data, file in parts])
    if len(parts) > 1:
        raise ParseError("several files are read together only if all are Open-PSA models", file=parts[0][1])
    return _read_text(*parts[0])


def _is_xml(data: bytes) -> bool:
    start = data[:1000].removeprefix(b"\xef\xbb\xbf").lstrip()
    return start[:1] == b"<" or data[:2] in (b"\xff\xfe", b"\xfe\xff")


def _read_text(data: bytes, file: str) -> Model:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Place(file, line).error("neither XML nor text in UTF-8") from None
    return read_aralia(text, file) if ":=" in text else read_cut_sets(text, file)
