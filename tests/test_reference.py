"""The pages that are made from the program (tools/reference.py): every key, command and option is explained there."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import ModuleType

import pytest
from tools_loaded import load_tool

from sharpdnf.learn.config import Config, MixConfig, read_config

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return load_tool("reference")


def sections(page: str) -> dict[str, str]:
    """The text under each heading of the second level, by the heading."""
    parts = re.split(r"^## `(.*)`$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_about_configurations_is_the_program_s(reference: ModuleType) -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    assert page == reference.configuration_page(), "run make reference, and commit docs/reference/configuration.md"


def test_every_table_and_key_of_a_configuration_is_explained(reference: ModuleType) -> None:
    tables = {f"[{field.name}]": type(getattr(Config(), field.name)) for field in dataclasses.fields(Config)}
    tables["[[data.mix]]"] = MixConfig
    found = sections(reference.configuration_page())
    assert set(found) == set(tables)
    for heading, table in tables.items():
        for field in dataclasses.fields(table):
            (row,) = re.findall(rf"^\| `{field.name}` \|.*$", found[heading], re.MULTILINE)
            *_, kind, default, meaning = (cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])
            assert kind and default and len(meaning) > 20 and meaning.endswith("."), (heading, field.name)


def test_the_example_on_the_page_is_an_experiment(reference: ModuleType, tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", reference.configuration_page(), re.DOTALL)
    (tmp_path / "small.toml").write_text(example)
    config = read_config(tmp_path / "small.toml")
    assert config.network.k == 64 and config.run.steps == 500 and config.data.mix[0].num_vars == (50, 200)


def test_every_command_and_option_is_explained(reference: ModuleType) -> None:
    found = sections(reference.commands_page())
    known = dict(reference.commands())
    assert set(found) == set(known) and {"sharpdnf count", "sharpdnf sql", "sharpdnf dataset build"} <= set(known)
    for words, command in known.items():
        assert command.help, f"{words} has no help"
        for parameter in command.params:
            shown = parameter.opts if parameter.param_type_name == "option" else ["meaning"]
            for flag in shown:
                assert flag in found[words], f"{words} {flag}"
            assert getattr(parameter, "help", None), f"{words} {parameter.name} has no help"
