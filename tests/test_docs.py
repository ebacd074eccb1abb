"""The documentation is true: its examples run and give what is printed, its links lead somewhere, and its reference has
every public name, each explained."""

from __future__ import annotations

import doctest
import importlib
import os
import re
from pathlib import Path

import pytest

import sharpdnf

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md"))
PAPERS = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
MADE_BY_THE_BUILD = {DOCS / "reference" / "commands.md"}
NEEDS = {"sql": "duckdb", "analyst": "duckdb", "logic": "problog", "learner": "torch", "researcher": "torch"}
"""Pages whose examples need an extra, by the module that it brings."""


def text_of(page: Path) -> str:
    """A page with what it includes (`--8<-- "FILE"`) in its place."""
    included = re.sub(r'^--8<-- "(.*)"$', lambda m: (ROOT / m[1]).read_text(), page.read_text(), flags=re.MULTILINE)
    return str(included)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def examples() -> list[Path]:
    return [page for page in PAGES if ">>>" in page.read_text()]


@pytest.mark.parametrize("page", examples(), ids=lambda page: page.stem)
def test_examples_give_what_is_printed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    monkeypatch.setitem(os.environ, "COLUMNS", "100")
    monkeypatch.chdir(ROOT)
    failed, run = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert run > 0 and failed == 0


def test_the_programs_about_gradients_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    for program in re.findall(r"```python\n(.*?)```", (DOCS / "gradients.md").read_text(), re.DOTALL):
        exec(compile(program, "gradients.md", "exec"), {})
    printed = [line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines()[-3:]]
    learned = {row: float(p) for row, p in printed}
    assert learned["link(a=1, b=2)"] > 0.8 and max(learned["link(a=1, b=3)"], learned["link(a=2, b=3)"]) < 0.2


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and GitHub name them."""
    headings = re.findall(r"^#+ (.*)$", without_fences(text_of(page)), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower() for heading in headings]
    return {re.sub(r"[\s-]+", "-", heading) for heading in plain}


def without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def links(text: str) -> list[str]:
    """The targets of the links and pictures of a text, those into the web left out."""
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(text)) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [target for target in found if not target.startswith(("http://", "https://", "mailto:"))]


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in links(text_of(page)):
        file, _, anchor = target.partition("#")
        goal = (page.parent / file).resolve() if file else page
        if goal in MADE_BY_THE_BUILD:
            continue
        inside = not goal.is_relative_to(DOCS) and page.is_relative_to(DOCS)
        if not goal.exists() or inside or (anchor and anchor not in anchors(goal)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", [*PAPERS, *PAGES], ids=lambda page: page.stem)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    assert not broken_links(page)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n[a](page.md#one) [b](page.md#two) [c](none.md) `[d](code.md)` ![e](none.svg)\n")
    assert broken_links(page) == ["page.md#two", "none.md", "none.svg"]


def documented() -> set[str]:
    """The names that the reference shows, as they are written after ":::"."""
    pages = (DOCS / "reference").glob("*.md")
    return {name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)}


def meaning(name: str) -> object:
    """What a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_public_name_is_in_the_reference() -> None:
    for extra in ("torch", "duckdb", "problog"):
        pytest.importorskip(extra)
    shown = {id(meaning(name)) for name in documented()}
    modules = ["sharpdnf", "sharpdnf.sql", *(f"sharpdnf.{module}" for module in sharpdnf._MODULES.values())]
    names = [f"{module}.{name}" for module in modules for name in importlib.import_module(module).__all__]
    errors = importlib.import_module("sharpdnf.errors")
    own = [name for name, of in vars(errors).items() if isinstance(of, type) and of.__module__ == errors.__name__]
    names += [f"sharpdnf.errors.{name}" for name in own]
    assert len(names) > 60
    assert not [name for name in names if id(meaning(name)) not in shown]


def test_what_the_reference_shows_is_explained() -> None:
    griffe = pytest.importorskip("griffe")
    package = griffe.load("sharpdnf", search_paths=[str(ROOT / "src")], resolve_aliases=True)
    missing = []
    for name in sorted(documented()):
        found = package[name.removeprefix("sharpdnf.")]
        found = found.final_target if found.is_alias else found
        inner = found.members.values() if found.is_class else []
        public = [member for member in inner if not member.name.startswith("_") and not member.is_alias]
        missing += [f"{name} {member.name}" for member in public if not member.docstring]
        missing += [] if found.docstring else [name]
    assert not missing


def test_the_site_names_every_page() -> None:
    import tomllib

    def pages(nav: list[object]) -> list[str]:
        found = []
        for entry in nav:
            assert isinstance(entry, dict)
            for target in entry.values():
                found += pages(target) if isinstance(target, list) else [target]
        return found

    named = pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    there = {str(page.relative_to(DOCS)) for page in [*PAGES, *MADE_BY_THE_BUILD]}
    assert len(named) == len(set(named)) and set(named) == there
