"""`make bench-sql`: probabilistic SQL against the rewritten SQL itself, in one run.

Random graphs (paths of two edges) and TPC-H-shaped data. Every figure is the median ratio to the rewritten SQL over
rounds in which all stages take turns, on one thread, in processor time. The rewritten SQL is what we run, delivered as
Arrow: DuckDB does not sort, a kernel of ours brings each answer's rows together. Beside it stand the ratios to the same
SQL with ORDER BY, which is what bringing them together would cost there. Prints a line per measurement with its target
and writes benchmarks/results/sql.csv.
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
import numpy as np

import sharpdnf
from sharpdnf.dnf import FloatArray
from sharpdnf.sql.emit.lineage import build
from sharpdnf.sql.plan import make_plan

RESULTS = Path(__file__).parent / "results"
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"
ROUNDS = 7
Row = tuple[str, float, str, bool]
TPCH = {
    "nations that returned goods": "SELECT DISTINCT c_nationkey FROM customer JOIN orders ON c_custkey = o_custkey "
    "JOIN lineitem ON l_orderkey = o_orderkey WHERE l_returnflag = 'R' AND l_quantity > 45",
    "customers with two orders in a year": "SELECT DISTINCT a.o_custkey FROM orders a JOIN orders b ON a.o_custkey = "
    "b.o_custkey AND a.o_orderkey < b.o_orderkey WHERE year(a.o_orderdate) = year(b.o_orderdate)",
    "parts a supplier of a small order ships": "SELECT DISTINCT l_suppkey FROM lineitem WHERE EXISTS (SELECT 1 FROM "
    "orders WHERE o_orderkey = l_orderkey AND o_totalprice < 20000)",
}


def in_turns(actions: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, FloatArray]:
    """Processor seconds of every action in each of a few rounds: the machine may be shared."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.process_time()
            action()
            seconds[name].append(time.process_time() - start)
    return {name: np.array(times) for name, times in seconds.items()}


def one_thread() -> duckdb.DuckDBPyConnection:
    """An empty database that works on one thread, with the same random numbers every time."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SELECT setseed(0.5)")
    return connection


def graph(nodes: int, edges: int) -> sharpdnf.ProbDB:
    connection = one_thread()
    connection.execute(
        f"CREATE TABLE edge AS SELECT CAST(random() * {nodes} AS INTEGER) AS src, CAST(random() * {nodes} AS INTEGER) "
        f"AS dst, 0.5 * random() AS p FROM range({edges})"
    )
    db = sharpdnf.connect(connection)
    db.uncertain("edge", prob="p")
    return db


def measure(db: sharpdnf.ProbDB, name: str, query: str, *, targets: bool) -> list[Row]:
    """One query as lines with their targets."""
    plan = make_plan(query, db.backend, db.declared.uncertain())
    found = db._run(plan, None)
    statement = plan.sql
    ordered = f"SELECT * FROM ({statement}) AS _r ORDER BY {', '.join(f'_c{i}' for i in range(plan.shape.shown))}"
    batch = build(found.clauses, found.indptr, db.known_rows()).batch

    def to_formulas() -> None:
        rows = db._run(plan, None)
        build(rows.clauses, rows.indptr, db.known_rows())

    def check() -> None:
        with db.backend.snapshot():
            db.declared.bring_up_to_date(plan.text)

    seconds = in_turns(
        {
            "rewrite": lambda: make_plan(query, db.backend, db.declared.uncertain()),
            "ordered": lambda: db.backend.arrow(ordered),  # type: ignore[attr-defined]
            "sql": lambda: db.backend.arrow(statement),  # type: ignore[attr-defined]
            "check": check,
            "formulas": to_formulas,
            "count": lambda: sharpdnf.count_many(batch, epsilon=0.1, delta=0.05, rng=0, threads=1),
        }
    )
    rewriting = 1e3 * float(np.median(seconds["rewrite"]))
    lines = [(f"rewriting in ms, {name}", rewriting, "< 20", rewriting < 20)]
    checking = float(np.median(seconds["check"] / seconds["sql"]))
    lines.append((f"seeing that no row changed / rewritten SQL, {name}", checking, "< 0.5" if targets else "",
                  checking < 0.5))  # fmt: skip
    for against, note, wanted in (("sql", "", targets), ("ordered", " with ORDER BY", False)):
        lineage = float(np.median(seconds["formulas"] / seconds[against]))
        whole = float(np.median((seconds["formulas"] + seconds["count"]) / seconds[against]))
        size = f"{name} ({len(batch)} answers, {batch.dnf.num_clauses} clauses)"
        lines += [
            (f"lineage to formulas / rewritten SQL{note}, {size}", lineage, "< 1.5" if wanted else "", lineage < 1.5),
            (f"lineage and counting / rewritten SQL{note}, {size}", whole, "<= 4" if wanted else "", whole <= 4.0),
        ]
    return lines


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
    """Peak resident bytes of a process that answers a query with 5 million clauses."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sql, resource\n"
        "db = sql.graph(60_000, 550_000)\n"
        "answers = db.sql(sql.TWO_STEPS, rng=0)\n"
        "print(answers.num_clauses.sum(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=True, capture_output=True,
                           text=True, env=os.environ)  # fmt: skip
    clauses, kilobytes = map(int, shown.stdout.split()[:2])
    assert clauses >= 4_900_000
    return kilobytes * 1024.0


def report(lines: list[Row], file_name: str) -> None:
    """Prints the measurements and writes them down, with the commit and the machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / file_name, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["commit", "machine", "measurement", "value", "target", "met"])
        for name, value, target, met in lines:
            writer.writerow([commit.stdout.strip(), machine, name, f"{value:.3g}", target, met if target else ""])
            print(f"{name:100s} {value:8.3g}  {target:6s} {('met' if met else 'MISSED') if target else ''}")


def main() -> None:
    lines = measure(graph(20_000, 100_000), "random graph", TWO_STEPS, targets=True)
    with tempfile.TemporaryDirectory() as directory:
        db = tpch(Path(directory))
        for name, query in TPCH.items():
            lines += measure(db, f"TPC-H, {name}", query, targets=False)
    peak = memory_of_five_million() / 2**30
    lines.append(("peak memory in GiB, 5 million clauses, lineage and counting", peak, "<= 2", peak <= 2.0))
    report(lines, "sql.csv")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
