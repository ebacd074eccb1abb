"""`make bench-spark`: counting on Spark beside DuckDB, with the time split into lineage, shuffle, survey and counting.

A random graph and its paths of two edges, about as many clauses as asked for (CLAUSES="100000 1000000"). The wall time
of each stage, and for counting the processor time too: that of the Python workers of Spark, against that of the kernels
on the formulas of DuckDB in one thread. Wall time is that of the machine as it is; processor time and ratios of one run
compare. Writes benchmarks/results/spark.csv and draws it (docs/figures/spark.png). A size written "duckdb:30000000" is
asked of DuckDB alone.
"""

from __future__ import annotations

import csv
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sharpdnf
from sharpdnf.drawing import new_figure, save_figure
from sharpdnf.sql.counting import Options, count_batch
from sharpdnf.sql.distributed import count_in_place
from sharpdnf.sql.distributed_lineage import place
from sharpdnf.sql.emit.lineage import build
from sharpdnf.sql.partitions import Work
from sharpdnf.sql.plan import make_plan

RESULTS = Path(__file__).parent / "results" / "spark.csv"
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "spark.png"
COLUMNS = ("machine", "clauses", "engine", "stage", "seconds", "processor seconds", "megabytes")
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"
ALONE = "duckdb:"
DEGREE = 5
"""Edges of a node, so an answer has about 25 clauses."""
Stages = dict[str, tuple[float, float | None]]
"""(wall seconds, processor seconds if they were taken) of each stage."""


def graph(clauses: int) -> pa.Table:
    """A graph with about so many paths of two edges."""
    edges = clauses // DEGREE
    rng = np.random.default_rng(1)
    ends = {name: pa.array(rng.integers(0, edges // DEGREE, edges), pa.int32()) for name in ("src", "dst")}
    return pa.table({**ends, "p": 0.5 * rng.random(edges)})


def measured(work: Work) -> Any:
    """What counts a partition and tells the sum of its probabilities, its processor seconds and its largest memory."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start, total, answers = time.process_time(), 0.0, 0
        for batch in work.count(batches):
            total += float(np.sum(batch.column("prob").to_numpy()))
            answers += batch.num_rows
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield pa.record_batch({"total": [total], "answers": [answers], "cpu": [time.process_time() - start],
                               "memory": [memory]})  # fmt: skip

    return run


def on_spark(table: pa.Table) -> tuple[Stages, float, float]:
    """The stages, the sum of all probabilities, and the largest memory of the JVM and of a Python worker together."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "8").config("spark.driver.memory", "4g")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    stages: Stages = {}
    with sharpdnf.connect(session) as db:
        last = [time.perf_counter()]

        def stage(name: str, cpu: float | None = None) -> None:
            now = time.perf_counter()
            stages[name] = (now - last[0], cpu)
            last[0] = now

        db.register("edge", table, prob="p")
        stage("numbering")
        plan = make_plan(TWO_STEPS, db.backend, db.declared.uncertain())
        last[0] = time.perf_counter()
        answers = count_in_place(db, plan, place(db.backend, plan), db.known_rows(), None, None, Options(rng=1), stage)
        schema = "total double, answers long, cpu double, memory double"
        rows = answers._lineage_rows.mapInArrow(measured(answers._work), schema).collect()
        stage("counting", sum(row.cpu for row in rows))
        java = int(session._jvm.java.lang.ProcessHandle.current().pid())
        status = Path(f"/proc/{java}/status")
        peak = int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024 if status.exists() else 0.0
    session.stop()
    return stages, sum(row.total for row in rows), peak + 2 * max(row.memory for row in rows)


def on_duckdb(table: pa.Table) -> tuple[Stages, float, int]:
    """The stages, the sum of all probabilities, the number of clauses; the kernel counts once more in one thread."""
    with sharpdnf.connect(duckdb.connect(config={"threads": 2})) as db:
        db.register("edge", table, prob="p")
        plan = make_plan(TWO_STEPS, db.backend, db.declared.uncertain())
        start = time.perf_counter()
        found = db._run(plan, None)
        formulas = build(found.clauses, found.indptr, db.known_rows())
        middle = time.perf_counter()
        counts = count_batch(formulas.batch, Options(rng=1, threads=2))
        end = time.perf_counter()
        cpu = time.process_time()
        count_batch(formulas.batch, Options(rng=1, threads=1))
        cpu = time.process_time() - cpu
    return (
        {"lineage": (middle - start, None), "counting": (end - middle, cpu)},
        float(counts.prob.sum()),
        len(found.clauses),
    )


def measure(asked: int, *, alone: bool = False) -> list[dict[str, Any]]:
    """The rows of one size, DuckDB first, and if not ``alone`` then Spark."""
    table = graph(asked)
    duck, total, clauses = on_duckdb(table)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    engines = [("duckdb", duck, memory)]
    if not alone:
        spark, other, peak = on_spark(table)
        assert abs(total - other) <= 1e-9 * total, f"the sums of all probabilities differ: {total} and {other}"
        engines.append(("spark local[2]", spark, peak))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    return [
        dict(zip(COLUMNS, (machine, clauses, engine, stage, f"{wall:.2f}", "" if cpu is None else f"{cpu:.2f}",
                           f"{size:.0f}"), strict=True))
        for engine, stages, size in engines
        for stage, (wall, cpu) in stages.items()
    ]  # fmt: skip


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Clauses against seconds on both engines, and against the processor seconds of counting."""
    figure, (left, right) = new_figure(9, 3.4, 2)
    for engine, mark in (("duckdb", "o-"), ("spark local[2]", "s-")):
        mine = [row for row in rows if row["engine"] == engine and row["stage"] != "numbering"]
        sizes = sorted({int(row["clauses"]) for row in mine})
        wall = [sum(float(r["seconds"]) for r in mine if int(r["clauses"]) == n) for n in sizes]
        cpu = [float(r["processor seconds"]) for n in sizes for r in mine
               if int(r["clauses"]) == n and r["stage"] == "counting"]  # fmt: skip
        left.loglog(sizes, wall, mark, label=engine)
        right.loglog(sizes, cpu, mark, label=engine)
    left.set(xlabel="clauses", ylabel="wall seconds, busy machine")
    right.set(xlabel="clauses", ylabel="processor seconds of counting")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    save_figure(figure, path)


def main() -> None:
    rows: list[dict[str, Any]] = []
    if RESULTS.exists():
        with RESULTS.open(newline="") as file:
            rows = list(csv.DictReader(file))
    sizes = sys.argv[1:] or ["100000", "1000000"]
    if not all(text.startswith(ALONE) for text in sizes):
        measure(10_000)  # Spark's first query compiles and loads more than it counts
    for text in sizes:
        new = measure(int(text.removeprefix(ALONE)), alone=text.startswith(ALONE))
        rows = [row for row in rows if int(row["clauses"]) != new[0]["clauses"]] + new
        for row in new:
            print(*row.values(), sep="\t", flush=True)
        with RESULTS.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda row: int(row["clauses"])))
    draw(rows, FIGURE)


if __name__ == "__main__":
    main()
