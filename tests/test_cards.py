"""The model cards (tools/cards.py): the tables in them are those of the report."""

from __future__ import annotations

from types import ModuleType

import pytest
from tools_loaded import load_tool


@pytest.fixture(scope="module")
def cards() -> ModuleType:
    return load_tool("cards")


@pytest.mark.parametrize("network", ["paper", "t2", "t32"])
def test_a_card_has_the_tables_of_the_report(cards: ModuleType, network: str) -> None:
    assert cards.CARDS[network][0].read_text() == cards.written(network), "run `make cards`"


def test_a_card_has_the_rows_of_its_own_network(cards: ModuleType) -> None:
    table = "### Table B. Both\n\n| network | a |\n| --- | --- |\n| t2 | 1 |\n| t32 | 2 |\n\nSaid below.\n"
    assert cards.own_rows(table, "t2") == table.replace("| t32 | 2 |\n", "")
    assert cards.tables_of(f"# Report\n\n{table}\n![Figure 3](x.png)\n") == {"B": table}
