"""The examples in the documentation are run, and give what is printed there."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", ["networks.md"])
def test_examples_give_what_is_printed(name: str) -> None:
    failed, run = doctest.testfile(str(DOCS / name), module_relative=False)
    assert run > 0 and failed == 0
