"""`make bench-sql`: probabilistic SQL against the rewritten SQL itself, in one run.

Random graphs (paths of two edges) and TPC-H-shaped data. Every figure is a ratio to the rewritten SQL of the same run,
delivered as Arrow and sorted by answer, so that each answer's clauses stand together as in the formulas; all on one
thread, in processor time. DuckDB never sorts for us (the rows are grouped by a kernel of ours), so the ratios to the
rewritten SQL without ORDER BY are given too. Prints a line per measurement with its target and writes
benchmarks/results/sql.csv.
"""

from __future__ import annotations

import csv
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

import sharpdnf
from sharpdnf.sql.lineage import build
from sharpdnf.sql.plan import make_plan

RESULTS = Path(__file__).parent / "results"
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"
REPEATS = 5
Row = tuple[str, float, str, bool]
TPCH = {
    "nations that returned goods": "SELECT DISTINCT c_nationkey FROM customer JOIN orders ON c_custkey = o_custkey "
    "JOIN lineitem ON l_orderkey = o_orderkey WHERE l_returnflag = 'R' AND l_quantity > 45",
    "customers with two orders in a year": "SELECT DISTINCT a.o_custkey FROM orders a JOIN orders b ON a.o_custkey = "
    "b.o_custkey AND a.o_orderkey < b.o_orderkey WHERE year(a.o_orderdate) = year(b.o_orderdate)",
    "parts a supplier of a small order ships": "SELECT DISTINCT l_suppkey FROM lineitem WHERE EXISTS (SELECT 1 FROM "
    "orders WHERE o_orderkey = l_orderkey AND o_totalprice < 20000)",
}


def best(action: Callable[[], Any]) -> float:
    """Processor seconds of the fastest of a few runs on one thread: the machine may be shared."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def graph(nodes: int, edges: int) -> sharpdnf.ProbDB:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"CREATE TABLE edge AS SELECT CAST(random() * {nodes} AS INTEGER) AS src, CAST(random() * {nodes} AS INTEGER) "
        f"AS dst, 0.5 * random() AS p FROM range({edges})"
    )
    db = sharpdnf.connect(connection)
    db.uncertain("edge", prob="p")
    return db


def measure(db: sharpdnf.ProbDB, query: str) -> dict[str, float]:
    """Seconds of every stage, and the sizes."""
    plan = make_plan(query, db.backend, db._uncertain())
    found = db._run(plan)
    shown = ", ".join(f"_c{i}" for i in range(plan.shape.shown))
    statement = f"SELECT * FROM ({plan.query.sql('duckdb')}) AS _r ORDER BY {shown}"
    formulas = build(found.rows, found.indptr, db.known_rows())

    def to_formulas() -> None:
        rows = db._run(plan)
        build(rows.rows, rows.indptr, db.known_rows())

    return {
        "rewrite": best(lambda: make_plan(query, db.backend, db._uncertain())),
        "sql": best(lambda: db.backend.arrow(statement)),  # type: ignore[attr-defined]
        "unsorted": best(lambda: db.backend.arrow(plan.query.sql("duckdb"))),  # type: ignore[attr-defined]
        "formulas": best(to_formulas),
        "count": best(lambda: sharpdnf.count_many(formulas.batch, epsilon=0.1, delta=0.05, rng=0, threads=1)),
        "clauses": float(formulas.batch.dnf.num_clauses),
        "answers": float(len(formulas.batch)),
    }


def rows_of(name: str, seconds: dict[str, float], *, targets: bool) -> list[Row]:
    """One measurement as lines with their targets."""
    size = f"{name} ({seconds['answers']:.0f} answers, {seconds['clauses']:.0f} clauses)"
    lineage = seconds["formulas"] / seconds["sql"]
    whole = (seconds["formulas"] + seconds["count"]) / seconds["sql"]
    wanted = ("< 1.5", "<= 4") if targets else ("", "")
    rows = [
        (f"rewriting in ms, {name}", seconds["rewrite"] * 1e3, "< 20", seconds["rewrite"] < 0.020),
        (f"lineage to formulas / rewritten SQL, {size}", lineage, wanted[0], lineage < 1.5),
        (f"lineage and counting / rewritten SQL, {size}", whole, wanted[1], whole <= 4.0),
    ]
    share = seconds["sql"] / seconds["unsorted"]
    rows.append((f"lineage to formulas / rewritten SQL without ORDER BY, {name}", lineage * share, "", True))
    rows.append((f"lineage and counting / rewritten SQL without ORDER BY, {name}", whole * share, "", True))
    return rows


def tpch(directory: Path) -> sharpdnf.ProbDB:
    """TPC-H at scale 0.05, orders and line items uncertain."""
    generator = shutil.which("tpchgen-cli") or str(Path(sys.executable).parent / "tpchgen-cli")
    subprocess.run([generator, "parquet", "-s", "0.05", f"--output-dir={directory}"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET enable_progress_bar = false")
    for name in ("customer", "orders", "lineitem"):
        file = next(directory.rglob(f"{name}*.parquet"))
        connection.execute(
            f"CREATE TABLE {name} AS SELECT *, 0.05 + 0.9 * (hash(#1, #2) % 1000) / 1000 AS p FROM "
            f"read_parquet('{file}')"
        )
    db = sharpdnf.connect(connection)
    db.uncertain("orders", prob="p")
    db.uncertain("lineitem", prob="p")
    return db


def memory_of_five_million() -> float:
    """Peak resident bytes of a process that makes formulas of 5 million clauses."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sql, resource\n"
        "db = sql.graph(60_000, 550_000)\n"
        "plan = sql.make_plan(sql.TWO_STEPS, db.backend, db._uncertain())\n"
        "rows = db._run(plan)\n"
        "batch = sql.build(rows.rows, rows.indptr, db.known_rows()).batch\n"
        "print(batch.dnf.num_clauses, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=True, capture_output=True,
                           text=True, env=os.environ)  # fmt: skip
    clauses, kilobytes = map(int, shown.stdout.split()[:2])
    assert clauses >= 4_900_000
    return kilobytes * 1024.0


def main() -> None:
    lines = rows_of("random graph", measure(graph(20_000, 100_000), TWO_STEPS), targets=True)
    with tempfile.TemporaryDirectory() as directory:
        db = tpch(Path(directory))
        for name, query in TPCH.items():
            lines += rows_of(f"TPC-H, {name}", measure(db, query), targets=False)
    peak = memory_of_five_million() / 2**30
    lines.append(("peak memory in GiB, 5 million clauses to formulas", peak, "<= 2", peak <= 2.0))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / "sql.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["commit", "machine", "measurement", "value", "target", "met"])
        for name, value, target, met in lines:
            writer.writerow([commit.stdout.strip(), machine, name, f"{value:.3g}", target, met if target else ""])
            print(f"{name:100s} {value:8.3g}  {target:6s} {('met' if met else 'MISSED') if target else ''}")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
