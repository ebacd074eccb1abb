"""WHERE conditions in the positive normal form that lineage needs: a disjunction of conjunctions of atoms.

A condition keeps a row if it is TRUE. In SQL's three-valued logic AND is TRUE iff both sides are, OR iff one side is,
NOT x iff x is FALSE; EXISTS is TRUE iff the subquery has a row and ``x = ANY (q)`` iff some row makes ``x = row`` TRUE.
So the conjunctions split without looking at NULLs, and a subquery over uncertain rows may stand wherever the condition
is monotone in it. Anywhere else (under an odd number of NOTs, in CASE, compared with a truth value) it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from sharpdnf.sql.parse.allowed import check_structure
from sharpdnf.sql.refusal import refuse

MAX_BRANCHES = 256


@dataclass(frozen=True, slots=True)
class Plain:
    """A condition that reads no uncertain row in a subquery."""

    node: exp.Expr
    positive: bool

    def condition(self) -> exp.Expr:
        """The condition, or its negation if it stands under NOT."""
        node = self.node.copy()
        return exp.paren(node) if self.positive else exp.Not(this=exp.paren(node))


@dataclass(frozen=True, slots=True)
class Member:
    """TRUE iff some row of ``query`` compares as asked with ``left``; without ``left``: iff there is a row."""

    query: exp.Expr
    left: tuple[exp.Expr, ...] = ()
    compare: type[exp.Binary] = exp.EQ


Atom = Plain | Member
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


def branches(node: exp.Expr, touches: Callable[[exp.Expr], bool], *, positive: bool = True) -> list[list[Atom]]:
    """The condition (its negation, if not ``positive``) as alternatives of atoms."""
    if not touches(node):
        return [[Plain(node, positive)]]
    if isinstance(node, exp.Paren):
        return branches(node.this, touches, positive=positive)
    if isinstance(node, exp.Not):
        return branches(node.this, touches, positive=not positive)
    if isinstance(node, exp.And | exp.Or):
        parts = [branches(part, touches, positive=positive) for part in node.flatten(unnest=False)]
        if isinstance(node, exp.And) == positive:
            return _all_of(parts)
        return [branch for part in parts for branch in part]
    atom = _member(node)
    if atom is None:
        refuse(
            f"a subquery over uncertain rows in {node.sql()[:80]!r}",
            "it may stand only as EXISTS, IN or = ANY, combined by AND and OR",
        )
    if not positive:
        name = {exp.Exists: "NOT EXISTS", exp.In: "NOT IN"}.get(type(node), "NOT ... ANY")
        refuse(f"{name} over uncertain rows", "it asks that rows be absent, which is no disjunction of rows")
    return [[atom]]


def _all_of(parts: list[list[list[Atom]]]) -> list[list[Atom]]:
    size = 1
    for part in parts:
        size *= len(part)
        if size > MAX_BRANCHES:
            refuse("a condition with this many ORs around subqueries", f"it splits into more than {MAX_BRANCHES} parts")
    return [[atom for branch in choice for atom in branch] for choice in product(*parts)]


def _member(node: exp.Expr) -> Member | None:
    """EXISTS, IN and comparisons with ANY as one atom; None for everything else."""
    if isinstance(node, exp.Exists):
        return Member(node.this)
    if isinstance(node, exp.In):
        check_structure(node)
        query = node.args.get("query")
        if query is None:
            return None
        return Member(query, _row(node.this))
    if isinstance(node, COMPARISONS):
        kind, left, right = type(node), node.this, node.expression
        if isinstance(left, exp.Any) and not isinstance(right, exp.Any):
            kind, left, right = MIRRORED.get(kind, kind), right, left
        if isinstance(right, exp.All) or isinstance(left, exp.All):
            refuse("ALL over uncertain rows", "it asks that rows be absent, which is no disjunction of rows")
        if isinstance(right, exp.Any):
            row = _row(left)
            if len(row) > 1 and kind is not exp.EQ:
                refuse("a row comparison other than = with ANY", "rows compare column by column only for =")
            return Member(right.this, row, kind)
    return None


def _row(node: exp.Expr) -> tuple[exp.Expr, ...]:
    inner = node.unnest()
    return tuple(inner.expressions) if isinstance(inner, exp.Tuple) else (node,)
