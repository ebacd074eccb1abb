"""Making a query positive: the tables of candidates, what decides them, and the query that is left."""

from __future__ import annotations

import re

import pytest
from pairs import SQLPair, opened, pairs, readable

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql.emit.stages import Absent, Counted, Decision, Formula, Found
from sharpdnf.sql.plan import make_plan


def shown(formula: Formula) -> str:
    """A formula in words, its queries in full."""
    if isinstance(formula, Found):
        return f"({formula.sql})" if formula.keyed else f"for all ({formula.sql})"
    if isinstance(formula, Counted):
        sign = f"{'not ' if formula.negated else ''}{formula.compare} {formula.number}"
        return f"{'values' if formula.values else 'rows'} {sign} of ({formula.sql})"
    if isinstance(formula, Absent):
        return f"none of {shown(formula.part)}"
    word = "all" if type(formula).__name__ == "AllOf" else "one"
    return f"{word} of [{', '.join(shown(part) for part in formula.parts)}]"


@pytest.mark.parametrize("pair", pairs("absence.sql"))
def test_what_a_query_becomes(pair: SQLPair) -> None:
    with opened(pair.kind) as db:
        if pair.after.startswith("refused: "):
            with pytest.raises(UnsupportedSQL, match=re.escape(pair.after.removeprefix("refused: "))):
                make_plan(pair.before, db.backend, db.declared.uncertain())
            return
        plan = make_plan(pair.before, db.backend, db.declared.uncertain())
        lines = []
        for step in plan.steps:
            said = f"decide {step.name}: {shown(step.formula)}" if isinstance(step, Decision) else ""
            lines.append(said or f"make {step.name}: {step.select}")  # type: ignore[union-attr]
        text = "\n".join([*lines, f"ask: {plan.sql}"])
        assert readable(text, db).split() == pair.after.split()
