"""The outermost SELECT taken apart: what speaks of a world, and what speaks of the answers and their probabilities.

A query that mentions prob() or an expected value in its outermost SELECT speaks of the table of answers: prob() stands
for the probability of the answer at hand, and HAVING and QUALIFY with prob(), DISTINCT ON, ORDER BY, LIMIT and OFFSET
choose among the answers. What is left, the core, is a query of plain SQL that has a meaning in every world. Expressions
with prob() are worked out by the database itself over a temporary table of the answers: ``_c0``... are their columns,
``_e0``... expected values, ``_prob`` the probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from sqlglot import exp

from sharpdnf.sql.backends.names import column
from sharpdnf.sql.backends.protocol import Catalog
from sharpdnf.sql.parse.allowed import PROBABILITY_FUNCTIONS, check_expression, is_scalar_extreme
from sharpdnf.sql.parse.text import LABEL
from sharpdnf.sql.refusal import refuse

AGGREGATE_OF = {
    "expected_count": "count",
    "expected_sum": "sum",
    "expected_avg": "avg",
    "expected_min": "min",
    "expected_max": "max",
}
"""The aggregate whose mean each expected value is."""
EXPECTED = tuple(AGGREGATE_OF)
LINEAR = ("expected_count", "expected_sum")
"""Expected values that are sums over result rows."""
COMPUTED = "_sharpdnf_computed"
"""The label of the constant that stands in the core for an item with prob()."""
HIDDEN = "_sharpdnf_hidden"
"""The label of a column that only expressions with prob() read."""
PROB = "_prob"
NUMBER = "_n"
"""The column of the table of answers that numbers them."""
COMPARISONS: dict[type[exp.Expr], str] = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
WINDOWED = (exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, exp.Paren)
Aliases = dict[str, exp.Expr]
ExprT = TypeVar("ExprT", bound=exp.Expr)


@dataclass(frozen=True, slots=True)
class Cut:
    """HAVING prob() ``operator`` ``value``."""

    operator: str
    value: float


@dataclass(slots=True)
class Outermost:
    """What speaks of the answers. Expressions read the table of answers; in ``order`` they are the user's own."""

    speaks: bool
    """Whether prob() or an expected value occurs, so that LIMIT chooses among the answers."""
    cuts: list[Cut] = field(default_factory=list)
    computed: list[tuple[str, exp.Expr | None]] = field(default_factory=list)
    """Label and expression of each item with prob(); None for prob() itself, which every answer shows anyway."""
    hidden: list[exp.Expr] = field(default_factory=list)
    """Expressions of the core that the computed ones read: the last columns of the core, in this order."""
    having: list[exp.Expr] = field(default_factory=list)
    qualify: exp.Expr | None = None
    order: list[tuple[exp.Ordered, exp.Expr | None]] = field(default_factory=list)
    """Sort keys; with an expression over the answers where a key is more than prob() or a column."""
    limit: int | None = None
    offset: int = 0
    expected: list[exp.Expr] = field(default_factory=list)
    """The calls of expected values in the select list."""


def is_call(node: exp.Expr | None, *names: str) -> bool:
    """Whether a node calls one of these functions."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in names


def mentions(node: exp.Expr | None, *names: str) -> bool:
    """Whether an expression calls one of these functions, its subqueries left aside."""
    return node is not None and any(
        is_call(part, *names) for part in node.walk(prune=lambda part: isinstance(part, exp.Query))
    )


def take_apart(tree: exp.Query, catalog: Catalog, *, uncertain: bool) -> Outermost:
    """Takes off the outermost query what speaks of the answers, and leaves the core in ``tree``.

    A query that reads no uncertain row (``uncertain`` is false) and does not mention prob() stays as it is.
    """
    parts = [*_items(tree), *(tree.args.get(name) for name in ("having", "qualify", "order"))]
    found = Outermost(any(mentions(part, *PROBABILITY_FUNCTIONS) for part in parts))
    order = tree.args.get("order")
    found.order = [(key, None) for key in order.expressions] if order is not None else []
    if not found.speaks and not uncertain:
        return found
    tree.set("order", None)
    if isinstance(tree, exp.Select) and found.speaks:
        Taker(tree, catalog, found).take()
    _take_limit(tree, found)
    return found


def _items(tree: exp.Query) -> list[exp.Expr]:
    return list(tree.expressions) if isinstance(tree, exp.Select) else []


@dataclass(frozen=True, slots=True)
class Taker:
    """Takes prob() off one SELECT, clause by clause."""

    tree: exp.Select
    catalog: Catalog
    found: Outermost

    def take(self) -> None:
        items = self.tree.expressions
        self.found.expected += [item.unalias() for item in items if is_call(item.unalias(), *EXPECTED)]
        every = {item.alias.lower(): item.this for item in items if item.alias}
        ours = {name: value for name, value in every.items() if mentions(value, "prob")}
        self._take_having(ours)
        self._take_qualify(ours if self.catalog.dialect.aliases_seen_by == "items" else every)
        self._take_distinct_on(every)
        self.found.order = [self._sort_key(key, ours) for key, _ in self.found.order]
        self._take_items()

    def _take_having(self, aliases: Aliases) -> None:
        """HAVING with prob() goes off; what else it asks for stays in the core."""
        having = self.tree.args.get("having")
        if having is None:
            return
        kept = []
        condition = _resolved(having.this, aliases)
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            if not mentions(part, *PROBABILITY_FUNCTIONS):
                kept.append(part.copy())
                continue
            cuts = _cuts(part.unnest())
            if cuts is not None:
                self.found.cuts += cuts
            else:
                self.found.having.append(self._over_answers(part, "HAVING"))
        self.tree.set("having", exp.Having(this=exp.and_(*kept)) if kept else None)

    def _take_qualify(self, aliases: Aliases) -> None:
        """QUALIFY goes off if it reads prob(), as in row_number() OVER (PARTITION BY g ORDER BY prob() DESC) = 1."""
        qualify = self.tree.args.get("qualify")
        condition = None if qualify is None else _resolved(qualify.this, aliases)
        if condition is not None and mentions(condition, *PROBABILITY_FUNCTIONS):
            self.found.qualify = self._over_answers(condition, "QUALIFY")
            self.tree.set("qualify", None)

    def _take_distinct_on(self, aliases: Aliases) -> None:
        """DISTINCT ON (g) ... ORDER BY g, prob() DESC keeps the best answer of each g."""
        distinct = self.tree.args.get("distinct")
        on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
        order = [_resolved(key, aliases) for key, _ in self.found.order]
        if on is None or not any(mentions(key, *PROBABILITY_FUNCTIONS) for key in order):
            return
        if self.found.qualify is not None:
            refuse("DISTINCT ON beside QUALIFY with prob()", "say in QUALIFY alone which answers to keep")
        keys = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
        for key in [*keys, *(ordered.this for ordered in order)]:
            if isinstance(key, exp.Literal):
                refuse(f"the place {key.sql()} in DISTINCT ON or its ORDER BY", "name the column")
        number = exp.Window(
            this=exp.Anonymous(this="row_number"),
            partition_by=[self._over_answers(_resolved(key, aliases), "DISTINCT ON") for key in keys],
            order=exp.Order(expressions=[self._over_answers(key, "ORDER BY") for key in order]),
        )
        self.found.qualify = exp.EQ(this=number, expression=exp.Literal.number(1))
        self.tree.set("distinct", None)

    def _sort_key(self, key: exp.Ordered, aliases: Aliases) -> tuple[exp.Ordered, exp.Expr | None]:
        """A key with its expression over the answers, if it is more than prob() or a column."""
        key = _resolved(key, aliases)
        plain = is_call(key.this.unnest(), "prob") or key.this in self.found.expected
        if plain or not mentions(key, *PROBABILITY_FUNCTIONS):
            key.set("this", key.this.unnest() if plain else key.this)
            return key, None
        return key, self._over_answers(key.this, "ORDER BY")

    def _take_items(self) -> None:
        """Items with prob() become constants in the core, so that the others keep their places."""
        items = []
        for item in self.tree.expressions:
            inner = item.unalias()
            if not mentions(inner, "prob"):
                items.append(item)
                continue
            bare = is_call(inner.unnest(), "prob") and item.alias.lower() in ("", "prob")
            value = self._over_answers(inner, "the select list")
            label = item.alias or str(item.meta.get(LABEL, "prob()")).replace("PROB()", "prob()")
            self.found.computed.append((label, None if bare else value))
            name = f"{COMPUTED}{len(self.found.computed) - 1}"
            items.append(exp.alias_(exp.Literal.number(0), name, quoted=True))
        hidden = enumerate(self.found.hidden)
        items += [exp.alias_(node.copy(), f"{HIDDEN}{i}", quoted=True) for i, node in hidden]
        self.tree.set("expressions", items)

    # ---- expressions over the table of answers

    def _over_answers(self, node: exp.Expr, where: str) -> exp.Expr:
        """prob() becomes ``_prob``, an expected value ``_e0``..., and what the core has to give a hidden column."""
        holder = exp.Paren(this=node.copy())
        self._replace(holder.this, where)
        found: exp.Expr = holder.this
        return found.pop()

    def _replace(self, node: exp.Expr, where: str) -> None:
        if is_call(node, "prob"):
            if node.expressions:
                refuse(node.sql(), "prob() takes no argument: it is the probability of the answer at hand")
            node.replace(column(PROB))
        elif is_call(node, *EXPECTED):
            if node not in self.found.expected:
                refuse(f"{node.sql().lower()} in {where}", "put the same expected value into the select list, too")
            node.replace(column(f"_e{self.found.expected.index(node)}"))
        elif isinstance(node, exp.Query):
            refuse(f"a subquery beside prob() in {where}", "join it in FROM, or put it into a column of its own")
        elif _is_core(node):
            if node not in self.found.hidden:
                self.found.hidden.append(node.copy())
            node.replace(column(f"{HIDDEN}{self.found.hidden.index(node)}"))
        else:
            self._check(node, where)
            for child in list(_children(node)):
                self._replace(child, where)

    def _check(self, node: exp.Expr, where: str) -> None:
        """Refuses what would make more or fewer rows of the answers than there are."""
        if isinstance(node, WINDOWED):
            return
        windowed = isinstance(node.parent, exp.Window) and node.arg_key == "this"
        check_expression(node, aggregates=windowed)
        if isinstance(node, exp.Func) and not is_scalar_extreme(node, self.catalog.dialect):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if not windowed and name in self.catalog.functions().aggregates:
                refuse(
                    f"the aggregate {name}() of prob() in {where}",
                    f"expected_count() adds probabilities up; or write {name}(prob()) OVER (PARTITION BY ...)",
                )


def _resolved(node: ExprT, aliases: Aliases) -> ExprT:
    """A copy with these aliases written out."""
    holder = exp.Paren(this=node.copy())
    for name in list(holder.find_all(exp.Column)):
        if not name.table and name.name.lower() in aliases:
            inside = aliases[name.name.lower()].copy()
            name.replace(inside if isinstance(name.parent, exp.Ordered) else exp.paren(inside, copy=False))
    found: ExprT = holder.this
    return found


def _cuts(condition: exp.Expr) -> list[Cut] | None:
    """prob() compared with numbers; None for anything else."""
    if isinstance(condition, exp.Between) and is_call(condition.this, "prob"):
        low, high = (_number(condition.args[name]) for name in ("low", "high"))
        return None if low is None or high is None else [Cut(">=", low), Cut("<=", high)]
    operator = COMPARISONS.get(type(condition))
    if operator is None:
        return None
    left, right = condition.this.unnest(), condition.args["expression"].unnest()
    if is_call(right, "prob"):
        left, right, operator = right, left, MIRRORED[operator]
    value = _number(right)
    return [Cut(operator, value)] if is_call(left, "prob") and value is not None else None


def _number(node: exp.Expr) -> float | None:
    node = node.unnest()
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    return -float(literal.this) if negative else float(literal.this)


def _is_core(node: exp.Expr) -> bool:
    """Whether a scalar without prob() reads a column, and no window, which over the answers has another value."""
    if not isinstance(node, exp.Condition) or node.find(exp.Column) is None or node.find(exp.Window) is not None:
        return False
    if isinstance(node.parent, exp.Window) and node.arg_key == "this":  # what a window adds up is not the core's
        return False
    return not mentions(node, *PROBABILITY_FUNCTIONS)


def _children(node: exp.Expr) -> Iterator[exp.Expr]:
    for value in node.args.values():
        yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr))


def _take_limit(tree: exp.Query, found: Outermost) -> None:
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if limit is None and offset is None:
        return
    if not found.speaks:
        refuse(
            "LIMIT or OFFSET without prob()",
            "which rows it keeps differs from world to world; to choose among the answers, mention prob() in the "
            "outermost SELECT: SELECT ..., prob() ... ORDER BY prob() DESC LIMIT k",
        )
    if limit is not None:
        found.limit = _whole_number(limit, exp.Limit)
    if offset is not None:
        found.offset = _whole_number(offset, exp.Offset)
    tree.set("limit", None)
    tree.set("offset", None)


def _whole_number(clause: exp.Expr, kind: type[exp.Expr]) -> int:
    count = clause.args.get("expression")
    others = any(value for name, value in clause.args.items() if name != "expression")
    if not isinstance(clause, kind) or others or not isinstance(count, exp.Literal) or not count.is_int:
        refuse(clause.sql().strip(), "write LIMIT, and OFFSET, with a whole number")
    return int(count.this)
