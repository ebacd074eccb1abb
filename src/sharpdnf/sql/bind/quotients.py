"""Shares of a group in HAVING: ``x / COUNT(*) > c`` is ``x > c * COUNT(*)``, since a group that is there has a row.

So it must be a group of a GROUP BY, and the quotient a fraction in every database: some cut off what whole numbers
divided by each other give. Other quotients have no lineage, as what a division by 0 gives differs.
"""

from __future__ import annotations

from sqlglot import exp

from sharpdnf.sql.bind.aggregates import COMPARISONS, aggregates_in, is_aggregate


def without_shares(having: exp.Expr) -> exp.Expr:
    """HAVING of a GROUP BY with its comparisons of shares written as comparisons of products."""
    return having.transform(_multiplied)


def _multiplied(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, COMPARISONS) or node.find_ancestor(exp.Query) is not None:
        return node  # a subquery has groups of its own
    left, right = node.this.unnest(), node.expression.unnest()
    if _is_share(left) and not _is_share(right):
        return type(node)(this=_numerator(left), expression=_times(right, left))
    if _is_share(right) and not _is_share(left):
        return type(node)(this=_times(left, right), expression=_numerator(right))
    return node


def _times(value: exp.Expr, share: exp.Div) -> exp.Expr:
    return exp.Mul(this=exp.paren(value.copy()), expression=_rows(share.expression).copy())


def _numerator(share: exp.Div) -> exp.Expr:
    inner = share.this.unnest()
    return exp.paren((inner.this if isinstance(inner, exp.Cast) else inner).copy())


def _is_share(node: exp.Expr) -> bool:
    """Whether a node is a fraction with the number of all rows of the group below."""
    if not isinstance(node, exp.Div) or not _counts_all(_rows(node.expression)):
        return False
    above, found = node.this.unnest(), aggregates_in(node.this)
    names = {str((call.this if isinstance(call, exp.Filter) else call).this).lower() for call in found}
    fraction = above.is_type("double") if isinstance(above, exp.Cast) else _is_fraction(above)
    return bool(found) and names <= {"count", "sum"} and fraction


def _rows(divisor: exp.Expr) -> exp.Expr:
    """COUNT(*) of COUNT(*) and of NULLIF(COUNT(*), 0), which are the same where there is a row."""
    inner = divisor.unnest()
    if isinstance(inner, exp.Anonymous) and str(inner.this).lower() == "nullif" and len(inner.expressions) == 2:
        value, nothing = (part.unnest() for part in inner.expressions)
        return value if nothing == exp.Literal.number(0) else inner
    return inner


def _counts_all(node: exp.Expr) -> bool:
    plain = is_aggregate(node) and isinstance(node, exp.Anonymous) and str(node.this).lower() == "count"
    return plain and isinstance(node.expressions[0], exp.Star)


def _is_fraction(node: exp.Expr) -> bool:
    """Whether a sum or product has a factor such as 1.0 or 100.0, so that no database takes it for a whole number."""
    inner = node.unnest()
    if isinstance(inner, exp.Mul):
        return _is_fraction(inner.this) or _is_fraction(inner.expression)
    return isinstance(inner, exp.Literal) and not inner.is_string and "." in str(inner.this)
