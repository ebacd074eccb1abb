"""Options of engines on the command line."""

from __future__ import annotations

from sharpdnf.cli.options import parse_options


def test_options_of_engines() -> None:
    assert parse_options(["a=1", "b-c=0.5", "d=True", "e=x=y", "f=none"]) == {
        "a": 1,
        "b_c": 0.5,
        "d": True,
        "e": "x=y",
        "f": None,
    }
