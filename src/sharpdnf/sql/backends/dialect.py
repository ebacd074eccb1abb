"""What differs between the SQL of the databases, as data: no other module asks which database it talks to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from sqlglot import Token
from sqlglot.dialects.dialect import Dialect as Grammar


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one database: how it is spelt and what it means where the databases disagree."""

    name: str
    """The name under which sqlglot knows it."""
    cross_join: str = "CROSS"
    """The word for a join without a condition; empty where JOIN alone is one and CROSS would fix the join order."""
    comma_binds_like_join: bool = False
    """Whether ``a, b JOIN c ON ...`` sees ``a`` in its ON; elsewhere a comma separates whole joins."""
    using_comes_first: bool = False
    """Whether the columns of USING stand first in ``*``."""
    using_common_type: bool = False
    """Whether the columns of USING have the common type of both sides, also in an inner join."""
    outer_using: bool = True
    """Whether a column merged by USING in a RIGHT or FULL JOIN is the same expression for every row."""
    aliases_seen_by: Literal["", "where", "items"] = ""
    """Who may use an alias of the select list: nobody, WHERE, or WHERE and the items after it."""
    ctes_see_later: bool = False
    """Whether a common table expression sees its own name and later ones even without RECURSIVE."""
    in_reads_tables: bool = False
    """Whether ``x IN t`` reads the table t."""
    fields: tuple[str, ...] = ()
    """The types (how their names begin) of which ``column.name`` is a field; empty where a dot never reads one."""
    records: str = ""
    """How the names of those types among them begin whose fields ``(column).name`` reads, too."""
    schema_types: bool = False
    """Whether the name of a type in a view may mean another type outside the view's schema."""
    scalar_extremes: bool = False
    """Whether max(a, b) of two arguments is a function of one row."""
    affinities: bool = False
    """Whether columns have affinities instead of types: values are converted when they are stored or compared, and a
    computed value has none, so copies and set operations must not give it one."""
    qualify: bool = False
    """Whether the database has QUALIFY; where it has none, QUALIFY with prob() is all that may be written."""
    one_of_each: Literal["distinct on", "group by", "any_value"] = "distinct on"
    """What keeps one row of each number: DISTINCT ON; GROUP BY, which may show columns that are no keys; or GROUP BY
    with any value of the other columns, which agree wherever they are read."""
    row_number: str = "ROW_NUMBER() OVER ()"
    """What numbers rows in any order; if there are gaps, ``Backend.keep`` closes them."""
    quoted_names_may_be_strings: bool = False
    """Whether an unknown "name" is read as a string; an unknown `name` is an error even then."""
    numbers: tuple[str, ...] = ()
    """The types, without what stands in parentheses, whose values up to 2^53 a double keeps as they are; empty where
    values have types and columns have none."""
    added: tuple[str, ...] = ()
    """Further types that sums and averages are made of; that no rounding decides is checked value by value."""
    drop: str = "DROP TABLE IF EXISTS {}"
    """How what was stored is dropped again."""
    macros: bool = False
    """Whether what users call their functions may be macros: text that stands for the call, in which names mean what
    they mean where it is called."""
    product: str = ""
    """The aggregate that multiplies; empty where the database has none."""
    worlds: bool = True
    """Whether worlds can be played: they change temporary tables row by row."""
    counts_in_place: bool = False
    """Whether lineage stays where it is and formulas are counted there, because it may be too large for one machine."""


DUCKDB = Dialect(
    "duckdb",
    aliases_seen_by="items",
    fields=("STRUCT", "UNION", "VARIANT", "JSON"),
    records="STRUCT",
    schema_types=True,
    qualify=True,
    macros=True,
    numbers=("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
             "UHUGEINT", "FLOAT", "DOUBLE"),
    added=("DECIMAL", "BOOLEAN"),
    product="system.main.product({})",
)  # fmt: skip
POSTGRES = Dialect(
    "postgres",
    using_comes_first=True,
    using_common_type=True,
    numbers=("20", "21", "23", "701"),  # int8, int2, int4 and float8, by their object identifiers
    added=("1700",),  # numeric
)
SQLITE = Dialect(
    "sqlite",
    cross_join="",
    comma_binds_like_join=True,
    outer_using=False,
    aliases_seen_by="where",
    ctes_see_later=True,
    in_reads_tables=True,
    scalar_extremes=True,
    affinities=True,
    one_of_each="group by",
    quoted_names_may_be_strings=True,
)
SPARK = Dialect(
    "spark",
    comma_binds_like_join=True,
    using_comes_first=True,
    fields=("STRUCT", "MAP", "ARRAY", "VARIANT"),
    drop="DROP VIEW IF EXISTS {}",
    one_of_each="any_value",
    row_number="MONOTONICALLY_INCREASING_ID() + 1",
    numbers=("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    added=("DECIMAL",),
    worlds=False,
    counts_in_place=True,
)


@lru_cache(maxsize=8)
def tokens_of(sql: str, dialect: Dialect) -> list[Token]:
    """The tokens of a text; a query and what it is written back as are looked at several times."""
    return Grammar.get_or_raise(dialect.name).tokenize(sql)
