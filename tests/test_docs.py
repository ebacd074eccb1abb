"""The examples in the documentation are run, and give what is printed there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", ["networks.md"])
def test_examples_give_what_is_printed(name: str) -> None:
    failed, run = doctest.testfile(str(DOCS / name), module_relative=False)
    assert run > 0 and failed == 0


def test_the_programs_about_gradients_run(capsys: pytest.CaptureFixture[str]) -> None:
    for program in re.findall(r"```python\n(.*?)```", (DOCS / "gradients.md").read_text(), re.DOTALL):
        exec(compile(program, "gradients.md", "exec"), {})
    printed = [line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines()[-3:]]
    learned = {row: float(p) for row, p in printed}
    assert learned["link(a=1, b=2)"] > 0.8 and max(learned["link(a=1, b=3)"], learned["link(a=2, b=3)"]) < 0.2
