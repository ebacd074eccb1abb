"""Columns in a bound tree: which ones a piece of it reads, and the same piece over other columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from sharpdnf.sql.bind.tree import (
    Aggregated,
    All,
    Certain,
    Combined,
    Condition,
    FromItem,
    Item,
    Join,
    Leaf,
    Member,
    Merged,
    Not,
    Plain,
    Query,
    Select,
    SetOperation,
    Truth,
)

Column = tuple[str, str]
"""(alias of the FROM item, name of the column)"""


def read_by(node: exp.Expr | Condition | Query | FromItem) -> Iterator[Column]:
    """The columns of FROM items that a piece of the tree names, at any depth, repeats included."""
    if isinstance(node, exp.Expr):
        yield from ((column.table, column.name) for column in node.find_all(exp.Column) if column.table)
    elif isinstance(node, Plain):
        yield from read_by(node.expression)
    elif isinstance(node, Not | Truth):
        yield from read_by(node.part)
    elif isinstance(node, All):
        for part in node.parts:
            yield from read_by(part)
    elif isinstance(node, Member):
        for value in node.left:
            yield from read_by(value)
        yield from read_by(node.query)
    elif isinstance(node, Aggregated):
        yield from read_by(node.other)
        if node.call.argument is not None:
            yield from read_by(node.call.argument)
        if node.query is not None:
            yield from read_by(node.query)
    elif isinstance(node, Combined):
        for value in [*node.others, *(call.argument for call in node.calls if call.argument is not None)]:
            yield from read_by(value)
        for query in node.queries:
            if query is not None:
                yield from read_by(query)
    elif isinstance(node, Select):
        for expression in [*(item.expression for item in node.items), *node.keys]:
            yield from read_by(expression)
        for source in node.sources:
            yield from read_by(source)
        for condition in (node.where, node.having):
            if condition is not None:
                yield from read_by(condition)
    elif isinstance(node, SetOperation):
        for side in node.sides:
            yield from read_by(side)
    elif isinstance(node, Join):
        yield from read_by(node.left)
        yield from read_by(node.right)
        if node.on is not None:
            yield from read_by(node.on)
    elif isinstance(node, Merged):
        yield from read_by(node.select)


class Replacing:
    """Puts other columns in the place of some, and other aliases in the place of FROM items' own."""

    def __init__(self, columns: Mapping[Column, exp.Expr], aliases: Mapping[str, str] | None = None) -> None:
        self._columns, self._aliases = columns, aliases or {}

    def expression(self, node: exp.Expr) -> exp.Expr:
        """A copy over the other columns."""
        holder = exp.Paren(this=node.copy())
        for column in list(holder.find_all(exp.Column)):
            known = self._columns.get((column.table, column.name))
            if known is not None:
                column.replace(known.copy())
            elif column.table in self._aliases:
                column.set("table", exp.Identifier(this=self._aliases[column.table], quoted=True))
        bound: exp.Expr = holder.this
        return bound.pop()

    def condition(self, node: Condition) -> Condition:
        if isinstance(node, Plain):
            return Plain(self.expression(node.expression))
        if isinstance(node, Not | Truth):
            return replace(node, part=self.condition(node.part))
        if isinstance(node, Member):
            left = tuple(self.expression(value) for value in node.left)
            return replace(node, query=self.query(node.query), left=left)
        if isinstance(node, Aggregated):
            argument = self.expression(node.call.argument) if node.call.argument is not None else None
            query = self.select(node.query) if node.query is not None else None
            return replace(
                node, call=replace(node.call, argument=argument), other=self.expression(node.other), query=query
            )
        if isinstance(node, Combined):
            calls = tuple(
                replace(call, argument=self.expression(call.argument)) if call.argument is not None else call
                for call in node.calls
            )
            again = {id(query): self.select(query) for query in node.queries if query is not None}
            queries = tuple(again.get(id(query)) for query in node.queries)
            return replace(node, calls=calls, others=tuple(map(self.expression, node.others)), queries=queries)
        return replace(node, parts=tuple(self.condition(part) for part in node.parts))

    def query(self, node: Query) -> Query:
        if isinstance(node, Certain):
            return node
        if isinstance(node, SetOperation):
            return SetOperation(node.kind, [self.query(side) for side in node.sides], node.all_)
        return self.select(node)

    def select(self, node: Select) -> Select:
        items = [Item(item.label, item.key, self.expression(item.expression)) for item in node.items]
        where, having = (self.condition(part) if part is not None else None for part in (node.where, node.having))
        return replace(
            node,
            items=items,
            sources=[self.item(source) for source in node.sources],
            where=where,
            having=having,
            keys=[self.expression(key) for key in node.keys],
        )

    def item(self, node: FromItem) -> FromItem:
        if isinstance(node, Leaf):
            alias = self._aliases.get(node.source.alias)
            return Leaf(replace(node.source, alias=alias)) if alias is not None else node
        if isinstance(node, Merged):
            return Merged(self.select(node.select), node.source)
        on = self.condition(node.on) if node.on is not None else None
        return replace(node, left=self.item(node.left), right=self.item(node.right), on=on)
