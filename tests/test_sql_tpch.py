"""The 22 queries of TPC-H with uncertain orders and line items: every one is answered."""

from __future__ import annotations

import warnings
from pathlib import Path

import duckdb
import numpy as np
import pytest

import sharpdnf
from sharpdnf.errors import NoUncertainTable
from sharpdnf.sql.distributions import AggregateAnswers

QUERIES = [q.strip() for q in (Path(__file__).parent / "sql" / "tpch.sql").read_text().split(";\n") if q.strip()]
NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "CHINA"]
REGIONS = ["EUROPE", "AMERICA", "ASIA"]


@pytest.fixture(scope="module")
def db() -> sharpdnf.ProbDB:
    """Few rows, whose values are those that the queries ask for more often than chance would have it."""
    rng = np.random.default_rng(0)

    def pick(*values: str) -> str:
        return f"'{rng.choice(values)}'"

    def day(first: int, last: int) -> str:
        return f"date '{rng.integers(first, last + 1)}-{rng.integers(1, 13):02}-{rng.integers(1, 28):02}'"

    connection = duckdb.connect(config={"threads": 1})

    def table(name: str, columns: str, rows: list[tuple[object, ...]]) -> None:
        connection.execute(f"create table {name} ({columns})")
        connection.execute(f"insert into {name} values " + ", ".join(f"({', '.join(map(str, row))})" for row in rows))

    text = "varchar"
    table("region", f"r_regionkey int, r_name {text}", [(i, f"'{r}'") for i, r in enumerate(REGIONS)])
    table("nation", f"n_nationkey int, n_name {text}, n_regionkey int",
          [(i, f"'{n}'", i % 3) for i, n in enumerate(NATIONS)])  # fmt: skip
    table("supplier", f"s_suppkey int, s_name {text}, s_address {text}, s_nationkey int, s_phone {text}, s_acctbal "
          f"decimal(12,2), s_comment {text}",
          [(i, f"'s{i}'", "'x'", i % 6, "'1'", 10 * i, pick("a", "Customer Complaints"))
           for i in range(8)])  # fmt: skip
    table("part", f"p_partkey int, p_name {text}, p_mfgr {text}, p_brand {text}, p_type {text}, p_size int, "
          f"p_container {text}",
          [(i, pick("forest green", "green"), "'m'", pick("Brand#12", "Brand#23"),
            pick("ECONOMY ANODIZED STEEL", "PROMO BRASS"), pick("15", "3", "9").strip("'"), pick("MED BOX", "SM BOX"))
           for i in range(6)])  # fmt: skip
    table("partsupp", "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost decimal(12,2)",
          [(i, j, rng.integers(1, 30), rng.integers(1, 90)) for i in range(6) for j in range(8)])  # fmt: skip
    table("customer", f"c_custkey int, c_name {text}, c_address {text}, c_nationkey int, c_phone {text}, c_acctbal "
          f"decimal(12,2), c_mktsegment {text}, c_comment {text}",
          [(i, f"'c{i}'", "'x'", i % 6, pick("13-1", "31-2"), rng.integers(1, 100), "'BUILDING'", "'x'")
           for i in range(9)])  # fmt: skip
    table("orders", f"o_orderkey int, o_custkey int, o_orderstatus {text}, o_totalprice decimal(12,2), o_orderdate "
          f"date, o_orderpriority {text}, o_shippriority int, o_comment {text}, p double",
          [(i, rng.integers(0, 9), "'F'", rng.integers(1, 900), day(1993, 1996), pick("1-URGENT", "3-MEDIUM"), 0,
            pick("x", "special requests"), round(rng.uniform(0.2, 0.9), 2)) for i in range(14)])  # fmt: skip
    table("lineitem", f"l_orderkey int, l_partkey int, l_suppkey int, l_quantity decimal(12,2), l_extendedprice "
          f"decimal(12,2), l_discount decimal(12,2), l_tax decimal(12,2), l_returnflag {text}, l_linestatus {text}, "
          f"l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct {text}, l_shipmode {text}, p double",
          [(rng.integers(0, 14), rng.integers(0, 6), rng.integers(0, 8), rng.integers(1, 30), rng.integers(10, 99),
            round(rng.choice([0.05, 0.06, 0.1]), 2), 0.02, pick("R", "N"), "'O'", day(1994, 1996), day(1994, 1996),
            day(1994, 1996), "'DELIVER IN PERSON'", pick("MAIL", "AIR"), round(rng.uniform(0.2, 0.9), 2))
           for i in range(30)])  # fmt: skip
    found = sharpdnf.connect(connection)
    found.uncertain("orders", prob="p")
    found.uncertain("lineitem", prob="p")
    return found


@pytest.mark.parametrize("number", range(1, 23))
def test_every_query_is_answered(db: sharpdnf.ProbDB, number: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoUncertainTable)
        answers = db.sql(QUERIES[number - 1], rng=number, epsilon=0.2)
    assert answers.met
    assert np.all((answers.prob >= 0.0) & (answers.prob <= 1.0))
    assert set(answers.counts.guarantee) <= {"exact", "additive", "relative"}
    if number in (1, 6):
        assert isinstance(answers, AggregateAnswers)
        assert len(answers) > 0


def test_query_1_by_two_ways(db: sharpdnf.ProbDB) -> None:
    """The exact means lie where many drawn worlds say, by five standard errors."""
    query = QUERIES[0].replace("avg(l_discount) as avg_disc, ", "")
    closed, drawn = (db.sql(query, way=way, rng=1, epsilon=0.05) for way in ("closed", "worlds"))
    one, two = closed.arrow().to_pylist(), drawn.arrow().to_pylist()
    assert len(one) == len(two) > 0
    for a, b in zip(one, two, strict=True):
        for name in ("sum_qty", "sum_charge", "avg_price", "count_order"):
            assert a[f"{name}_mean"] == pytest.approx(b[f"{name}_mean"], abs=5 * b[f"{name}_stderr"] + 1e-9)
