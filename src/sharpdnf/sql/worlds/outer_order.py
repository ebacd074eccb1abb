"""The order of answers that were found by worlds: the outermost ORDER BY, applied to all answers together."""

from __future__ import annotations

from sqlglot import exp

from sharpdnf.sql.computed import SortKey
from sharpdnf.sql.refusal import refuse


def sort_keys(tree: exp.Query, labels: tuple[str, ...]) -> tuple[SortKey, ...]:
    """The keys of ORDER BY, as positions among the answer columns.

    With LIMIT, ORDER BY decides in each world which rows it has, so it may name what is not an answer column; then the
    answers are in no particular order."""
    order = tree.args.get("order")
    found = []
    for ordered in order.expressions if order is not None else ():
        column = _column(ordered.this.unnest(), tree, labels)
        if column is None:
            if tree.args.get("limit") or tree.args.get("offset") or tree.args.get("distinct"):
                return ()
            refuse(f"ORDER BY {ordered.this.sql()}", "answers are ordered by prob() and by their own columns")
        found.append(SortKey(f"_c{column}", bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))))
    return tuple(found)


def _column(key: exp.Expr, tree: exp.Query, labels: tuple[str, ...]) -> int | None:
    """The answer column that a key means: by its position, by its label, or as an expression of the select list."""
    if isinstance(key, exp.Literal):
        position = int(key.this) if key.is_int else 0
        return position - 1 if 1 <= position <= len(labels) else None
    if isinstance(key, exp.Column) and not key.table:
        same = [i for i, label in enumerate(labels) if label.lower() == key.name.lower()]
        if len(same) == 1:
            return same[0]
    items = [item.unalias().unnest() for item in tree.selects] if isinstance(tree, exp.Select) else []
    if len(items) != len(labels):
        return None
    return next((i for i, item in enumerate(items) if item == key), None)
