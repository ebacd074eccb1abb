"""XML that is meant to harm its reader: entities, sizes, encodings."""

from __future__ import annotations

import itertools
import time

import pytest
from openpsa_text import GOOD, chance

from sharpdnf import faulttree
from sharpdnf.errors import ParseError
from sharpdnf.fronts import safexml


def refused(text: str | bytes, message: str) -> None:
    started = time.monotonic()
    with pytest.raises(ParseError, match=message) as error:
        faulttree.reads(text)
    assert error.value.line > 0
    assert len(str(error.value)) < 1000
    assert time.monotonic() - started < 10.0


def test_entity_bombs_are_refused_before_they_grow() -> None:
    names = "abcdefghij"
    inside = "".join(f"<!ENTITY {y} '" + f"&{x};" * 10 + "'>" for x, y in itertools.pairwise(names))
    bomb = f"<!DOCTYPE opsa-mef [<!ENTITY a 'ha'>{inside}]>\n<opsa-mef>&j;</opsa-mef>"
    refused(bomb, "a document type with declarations")
    refused('<!DOCTYPE opsa-mef SYSTEM "file:///etc/passwd"><opsa-mef/>', "a document type with declarations")
    refused("<opsa-mef>&x;</opsa-mef>", "<text>:1: not XML: undefined entity")
    assert chance("<!DOCTYPE opsa-mef>" + GOOD) == pytest.approx(0.19)


def test_sizes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(GOOD.replace("'a'", f"'{'a' * 10**6}'"), r"<text>:3: a name or value of 1000000 characters")
    refused(f"<opsa-mef><{'a' * 10**6}/></opsa-mef>", r"<text>:1: a name or value of 1000000 characters")
    refused(GOOD.replace("<or>", "<or>" * 5000).replace("</or>", "</or>" * 5000), r"<text>:3: elements are nested more")
    many = " ".join(f"a{i}='1'" for i in range(100))
    refused(f"<opsa-mef {many}/>", "more than 32 attributes")
    refused(f"<opsa-mef><label>{'x' * (2 << 20)}</label></opsa-mef>", "characters of text in <label>")
    monkeypatch.setattr(safexml, "MAX_ELEMENTS", 5)
    refused(GOOD, "more than 5 elements")


def test_unknown_encodings() -> None:
    refused(b"<?xml version='1.0' encoding='klingon'?><opsa-mef/>", "not XML")
    refused(b"<opsa-mef>\xff\xfe</opsa-mef>", "not XML")
    assert chance(GOOD.encode("utf-16").decode("utf-16")) == pytest.approx(0.19)
    assert faulttree.reads(GOOD.encode("utf-16")).probability().prob == pytest.approx(0.19)
