"""`make bench-spark`: counting on Spark beside DuckDB, with the time split into lineage, shuffle, survey and counting.

A random graph and its paths of two edges, about as many clauses as asked for (1,000,000). Wall time, since Spark works
in processes of its own; so run it on an idle machine, and read ratios of one run. Writes benchmarks/results/spark.csv.
"""

from __future__ import annotations

import csv
import os
import platform
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import sharpdnf
from sharpdnf.sql.counting import Options, count_batch
from sharpdnf.sql.distributed import count_in_place
from sharpdnf.sql.emit.lineage import build
from sharpdnf.sql.plan import make_plan

RESULTS = Path(__file__).parent / "results"
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"
DEGREE = 5
"""Edges of a node, so an answer has about 25 clauses."""


def graph(clauses: int) -> pa.Table:
    """A graph with about so many paths of two edges."""
    edges = clauses // DEGREE
    rng = np.random.default_rng(1)
    ends = {name: pa.array(rng.integers(0, edges // DEGREE, edges), pa.int32()) for name in ("src", "dst")}
    return pa.table({**ends, "p": 0.5 * rng.random(edges)})


def on_spark(table: pa.Table) -> tuple[dict[str, float], float]:
    """Seconds of each stage, and the sum of all probabilities."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "8").config("spark.driver.memory", "4g")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    seconds: dict[str, float] = {}
    with sharpdnf.connect(session) as db:
        db.register("edge", table, prob="p")
        plan = make_plan(TWO_STEPS, db.backend, db._uncertain())
        last = [time.perf_counter()]

        def stage(name: str) -> None:
            now = time.perf_counter()
            seconds[name] = now - last[0]
            last[0] = now

        answers = count_in_place(db, plan, db.known_rows(), Options(rng=1), stage)
        answers.counted().count()
        stage("counting")
        total = float(answers.prob.sum())
    session.stop()
    return seconds, total


def on_duckdb(table: pa.Table) -> tuple[dict[str, float], float, int]:
    """Seconds of each stage, the sum of all probabilities, the number of clauses."""
    with sharpdnf.connect(duckdb.connect(config={"threads": 2})) as db:
        db.register("edge", table, prob="p")
        plan = make_plan(TWO_STEPS, db.backend, db._uncertain())
        start = time.perf_counter()
        found = db._run(plan)
        formulas = build(found.clauses, found.indptr, db.known_rows())
        middle = time.perf_counter()
        counts = count_batch(formulas.batch, Options(rng=1, threads=2))
        end = time.perf_counter()
    return {"lineage": middle - start, "counting": end - middle}, float(counts.prob.sum()), len(found.clauses)


def main() -> None:
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    table = graph(asked)
    duck, total, clauses = on_duckdb(table)
    spark, other = on_spark(table)
    assert total == other, f"the sums of all probabilities differ: {total} and {other}"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    rows = [(machine, clauses, engine, stage, f"{seconds:.2f}")
            for engine, stages in (("duckdb", duck), ("spark local[2]", spark))
            for stage, seconds in stages.items()]  # fmt: skip
    path = RESULTS / "spark.csv"
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(("machine", "clauses", "engine", "stage", "seconds"))
        writer.writerows(rows)
    for row in rows:
        print(*row, sep="\t")


if __name__ == "__main__":
    main()
