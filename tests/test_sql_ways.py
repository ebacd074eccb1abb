"""The choice between the ways to an answer: the strongest that can, the reasons of the others, and guarantees."""

from __future__ import annotations

from typing import NoReturn

import pytest

from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.sql.ways import CIRCUIT, CLOSED, LINEAGE, WORLDS, Route, check_guarantee, choose


def refused(reason: str) -> NoReturn:
    raise UnsupportedSQL(reason)


def test_the_strongest_way_is_taken_and_the_others_say_why_not() -> None:
    plan, route = choose(
        [(LINEAGE, lambda: refused("it negates")), (CIRCUIT, lambda: "gates"), (WORLDS, lambda: 1 / 0)]
    )
    assert (plan, route) == ("gates", Route(CIRCUIT, ((LINEAGE, "it negates"),)))
    assert str(route) == "lineage as a DNF: no, it negates\nlineage as a circuit: yes"


def test_a_way_that_turns_out_not_to_work_is_not_tried_again() -> None:
    ways = [(LINEAGE, lambda: refused("it negates")), (CLOSED, lambda: "folded"), (WORLDS, lambda: "played")]
    _, first = choose(ways)
    plan, second = choose(ways, after=first.refused("rows share a row"))
    assert plan == "played" and second.refusals == ((LINEAGE, "it negates"), (CLOSED, "rows share a row"))


def test_a_named_way_is_the_only_one() -> None:
    ways = [(LINEAGE, lambda: "clauses"), (WORLDS, lambda: "played")]
    assert choose(ways, WORLDS) == ("played", Route(WORLDS))
    with pytest.raises(ValueError, match="did you mean 'worlds'"):
        choose(ways, "wolrds")


def test_if_no_way_is_left_the_weakest_one_speaks_first() -> None:
    ways = [(LINEAGE, lambda: refused("it negates")), (WORLDS, lambda: refused("random() differs in every world"))]
    with pytest.raises(UnsupportedSQL) as error:
        choose(ways)
    assert str(error.value).splitlines() == [
        "random() differs in every world",
        "no other way answers it either:",
        "lineage as a DNF: it negates",
    ]


def test_an_answer_is_never_weaker_than_what_was_asked_for() -> None:
    route = Route(WORLDS, ((LINEAGE, "it negates"),))
    check_guarantee(None, ["additive"], route)
    check_guarantee("additive", ["additive"], route)
    with pytest.raises(SQLError, match=r"guarantee='exact' cannot be had .* it negates.* it can have 'additive'"):
        check_guarantee("exact", ["additive"], route)
