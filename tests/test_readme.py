"""The examples that people read are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import sharpdnf

ROOT = Path(__file__).resolve().parent.parent


def test_readme_examples() -> None:
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert outcome.attempted >= 3
    assert outcome.failed == 0


def test_package_docstring() -> None:
    outcome = doctest.testmod(sharpdnf)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.dnf")), ids=lambda p: p.stem)
def test_bundled_formulas(path: Path) -> None:
    answer = sharpdnf.count(sharpdnf.read(path), guarantee="exact", timeout=60)
    expected = [line.split()[2] for line in path.read_text().splitlines() if line.startswith("c expect")]
    assert answer.met
    for value in expected:
        assert answer.prob == pytest.approx(float(value), rel=1e-9)


def test_links_in_the_papers_for_people_exist() -> None:
    for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text()
        for target in [part.split(")")[0] for part in text.split("](")[1:]]:
            assert (ROOT / target).exists(), f"{page} links to {target}"
