"""The outermost query: what HAVING prob(), ORDER BY prob() and LIMIT become before anything is counted."""

from __future__ import annotations

import re

import pytest
from pairs import SQLPair, opened, pairs

from sharpdnf.errors import SQLError
from sharpdnf.sql.plan import Plan, make_plan


def shown(plan: Plan) -> str:
    cuts = [f"prob {cut.operator} {cut.value:g}" for cut in plan.cuts]
    order = [f"{key.column} {'desc' if key.descending else 'asc'}" for key in plan.order]
    expected = [
        f"{label} of {'rows' if measure is None else f'measure {measure}'}" for _, label, measure in plan.expected
    ]
    limit = [] if plan.limit is None else [f"limit {plan.limit}"]
    return "; ".join([*cuts, *order, *limit, *expected]) or "nothing"


@pytest.mark.parametrize("pair", pairs("plan.sql"))
def test_what_is_left_to_us(pair: SQLPair) -> None:
    with opened(pair.kind) as db:
        if pair.after.startswith("refused: "):
            with pytest.raises(SQLError, match=re.escape(pair.after.removeprefix("refused: "))):
                make_plan(pair.before, db.backend, db.declared.uncertain())
            return
        assert shown(make_plan(pair.before, db.backend, db.declared.uncertain())) == pair.after
