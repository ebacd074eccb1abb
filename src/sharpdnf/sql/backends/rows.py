"""SQL and arrays that the back ends share: rows numbered, answers numbered, lineage sorted, one lock per connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sharpdnf import _native
from sharpdnf.dnf import FloatArray, IntArray
from sharpdnf.sql.backends.names import bare_value, column, quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Clauses, LineageRows, Relation, Shape

if TYPE_CHECKING:
    import pyarrow as pa

LOCKS: WeakValueDictionary[int, Any] = WeakValueDictionary()


def lock_of(connection: object) -> Any:
    """The lock of a connection: two threads would read each other's temporary tables. Keep both of them alive."""
    return LOCKS.setdefault(id(connection), threading.RLock())


def sorted_lineage(
    keys: Sequence[tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.uint8]]],
    numbers: Sequence[npt.NDArray[np.int32]],
    identity: Sequence[npt.NDArray[np.int32]],
    measures: FloatArray,
    answers: Callable[[npt.NDArray[np.int32]], pa.Table],
) -> LineageRows:
    """Sorts the columns of a lineage query, whose rows come in any order, by answer.

    Each key comes with a mask of its NULLs, which is empty if there are none; -1 in a column of row numbers means that
    there is no row. ``answers`` makes a table from the first row of every answer.
    """
    count = len(measures)
    found = _native.lineage(
        [key for key, _ in keys], [null for _, null in keys], numbers, identity, count, measures.shape[1] > 0
    )
    measured = measures[found.order] if measures.shape[1] else measures
    columns = found.identity.reshape(count, len(identity))
    return LineageRows(answers(found.first), found.starts, Clauses(found.indptr, found.literals), columns, measured)


def sorted_keys(
    keys: Sequence[npt.NDArray[np.signedinteger[Any]]],
) -> tuple[IntArray, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(where each distinct key begins in the sorted rows, with the number of rows at the end; the first row of each
    key; the order that sorts the rows)."""
    columns = [np.ascontiguousarray(key) for key in keys]
    none = [np.zeros(0, dtype=np.uint8)] * len(keys)
    found = _native.lineage(columns, none, [], [], len(columns[0]), True)
    return found.starts, found.first, found.order


def recopied(copy: exp.Table, names: list[str], bare: frozenset[int], number: str) -> exp.Expr:
    """What FROM reads of a copy: the columns ``bare`` have no affinity, like the expressions that were copied."""
    if not bare:
        return copy
    columns: list[exp.Expr] = [column(name) for name in [*names, number]]
    for i in bare:
        columns[i] = exp.alias_(bare_value(columns[i]), names[i], quoted=True)
    return exp.Subquery(this=exp.select(*columns).from_(copy))


def numbering(relation: Relation, prob: exp.Expr, base: int, kind: str = "BIGINT") -> exp.Select:
    """The SELECT that numbers the possible rows of a relation from ``base`` on:
    SELECT base + row_number() - 1, * FROM relation WHERE prob > 0."""
    number: exp.Expr = exp.Add(this=exp.Window(this=exp.RowNumber()), expression=exp.Literal.number(base - 1))
    select = exp.Select(
        expressions=[
            exp.alias_(exp.cast(number, kind), ROW_ID, quoted=True),
            exp.Column(this=exp.Star(), table=quoted("_t")),
        ]
    )
    select.set("from_", exp.From(this=relation.table("_t")))
    return select.where(exp.GT(this=prob.copy(), expression=exp.Literal.number(0)), copy=False)


def kept(name: str, select: str) -> str:
    """The statement that stores the rows of a SELECT in a temporary table."""
    return f"CREATE TEMP TABLE {quoted(name).sql()} AS {select}"


def grouped(sql: str, shape: Shape, *, bare: bool = False) -> str:
    """The lineage query with the number of the answer in front: equal answers get equal numbers, by the database's
    own notion of equality (NULLs, collations, 1 and 1.0).

    In SQLite, whose values are ``bare``, the lineage query is worked out first, on its own: where it is a UNION ALL
    with a RIGHT or FULL JOIN, SQLite 3.40 forgets conditions of the other sides while it merges it into this SELECT.
    """
    shown, measures, lineage, identity = ([f'"{name}"' for name in names] for names in shape.names())
    order = ", ".join(f"{name} NULLS LAST" for name in shown)
    rank = f"dense_rank() OVER (ORDER BY {order}) - 1" if shown else "0"
    values = [*shown, *measures]
    if bare:  # SQLite would convert the values of one type to the affinity of the first
        values = [f"coalesce({value}, NULL) AS {value}" for value in values]
    columns = ", ".join([f'{rank} AS "_g"', *values, *lineage, *identity])
    if bare:
        return f'WITH "_r" AS MATERIALIZED ({sql}) SELECT {columns} FROM "_r"'
    return f'SELECT {columns} FROM ({sql}) AS "_r"'


def stored_like(names: Sequence[str], like: str, known: Sequence[str]) -> str:
    """A SELECT without rows: each column has the type of that of its name in ``like``, the others are numbers."""
    columns = ", ".join(f'"{n}"' if n in known else f'CAST(0 AS DOUBLE PRECISION) AS "{n}"' for n in names)
    return f'SELECT {columns} FROM ({like}) AS "_r" LIMIT 0'
