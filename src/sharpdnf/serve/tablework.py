"""The tables of one session and the queries over them, inside the worker process."""

from __future__ import annotations

import io
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from sharpdnf.dnf import IntArray
from sharpdnf.errors import LimitError, SQLError, SQLTimeout, UncertainTableError, did_you_mean
from sharpdnf.serve.asked import Fields, OverLimit
from sharpdnf.serve.plain import cell, number, numbers, rows_of
from sharpdnf.serve.rounds import COARSE, Watcher, estimate_json
from sharpdnf.sql.answers import Answers
from sharpdnf.sql.backends.duckdb import DuckDB
from sharpdnf.sql.backends.names import quoted
from sharpdnf.sql.database import ProbDB
from sharpdnf.sql.sandbox_process import from_bytes, to_bytes
from sharpdnf.sql.uncertain import SLACK, UncertainRow
from sharpdnf.sql.ways import CIRCUIT, CLOSED, LINEAGE, NETWORK, WAYS, WORLDS
from sharpdnf.sql.whatif import WhatIf

PREVIEW, SHOWN, PROBLEMS, CLAUSES, RUNS = 50, 1_000, 100, 200, 16
"""How many rows of a table, answers, problems and clauses are shown, and how many runs are kept."""
MOST_ROWS, LISTED = 5_000, 200
"""How many rows an answer may depend on to be explained, and how many of them are listed."""
IN_WORDS = {
    LINEAGE: "Each answer is a formula over the uncertain rows (its lineage, a DNF), and that formula was counted.",
    CIRCUIT: "Each answer is a circuit over the uncertain rows, as the query negates or aggregates; it was counted.",
    CLOSED: "The distributions of the aggregates were computed from the independent rows directly.",
    NETWORK: "The recursion asks what can be reached over uncertain links, and was answered as a network.",
    WORLDS: "The query itself was played in possible worlds, and the worlds in which each answer stands were added up.",
}


@dataclass(slots=True)
class TableRun:
    """The answers of a query, and what was compiled of them."""

    answers: Answers
    what_ifs: OrderedDict[int, WhatIf] = field(default_factory=OrderedDict)
    rows: dict[str, int] = field(default_factory=dict)
    """The numbers of uncertain rows by the names that the client was told, such as ``pair:3``."""


class TableWork:
    """A database of one session's tables, and its runs."""

    def __init__(self, db: ProbDB, watcher: Watcher) -> None:
        assert isinstance(db.backend, DuckDB), "the locked database is one"
        self.db, self.backend, self.watcher = db, db.backend, watcher
        self.places: dict[str, IntArray] = {}
        """By table, the 1-based data rows with a probability above 0, in order: only these are numbered."""
        self.marked: dict[str, tuple[str, Any]] = {}
        self.runs: OrderedDict[str, TableRun] = OrderedDict()

    # ---- tables

    def load(self, name: str, path: str, form: str, most: int) -> tuple[dict[str, Any], bytes]:
        """Reads a file, makes it a table, and hands its rows over as Arrow for the service to keep."""
        table = read_file(path, form, most)
        self._register(name, table)
        return {"info": self.describe(name)}, to_bytes(table)

    def register(self, name: str, data: bytes, prob: str | None, block: Any) -> None:
        """A table from the rows that the service has kept."""
        self._register(name, from_bytes(data))
        if prob is not None:
            self.mark(name, prob, block)

    def _register(self, name: str, table: pa.Table) -> None:
        if name in self.marked:
            self.db.forget(sql_name(name))
            del self.marked[name]
        self.db.register(name, table)

    def drop(self, name: str) -> None:
        """Forgets a table."""
        self.mark(name, None, None)
        self.backend.connection.unregister(name)

    def describe(self, name: str) -> dict[str, Any]:
        """Columns and first rows."""
        backend = self.backend
        found = backend.arrow(f"SELECT * FROM {sql_name(name)} LIMIT {PREVIEW}")
        types = backend.rows(f"DESCRIBE SELECT * FROM {sql_name(name)}")
        total = backend.rows(f"SELECT count(*) FROM {sql_name(name)}")[0][0]
        return {
            "name": name,
            "rows": total,
            "columns": [{"name": str(row[0]), "type": str(row[1])} for row in types],
            "preview": rows_of(found),
        }

    def rows(self, name: str, offset: int, limit: int) -> dict[str, Any]:
        """Some rows of a table, in the order of the file."""
        backend = self.backend
        found = backend.arrow(f"SELECT * FROM {sql_name(name)} LIMIT {limit:d} OFFSET {offset:d}")
        total = backend.rows(f"SELECT count(*) FROM {sql_name(name)}")[0][0]
        return {"rows": rows_of(found), "offset": offset, "total": total}

    def mark(self, name: str, prob: str | None, block: Any) -> dict[str, Any]:
        """Declares the rows of a table uncertain, or certain again; what speaks against it is told row by row."""
        columns = None if block is None else [block] if isinstance(block, str) else list(block)
        value = None if prob is None else self.db.row_probability(sql_name(name), prob).value.sql("duckdb")
        found: list[dict[str, Any]] = []
        total = 0
        if value is not None:
            assert prob is not None
            found, total = self._problems(name, prob, value, columns)
        if name in self.marked:
            self.db.forget(sql_name(name))
            del self.marked[name]
        if value is not None and not total:
            assert prob is not None
            self.db.uncertain(sql_name(name), prob=prob, block=columns)
            self.marked[name] = (prob, columns)
            counted = f"SELECT row_number() OVER () AS n, CAST({value} AS DOUBLE) AS v FROM {sql_name(name)}"
            places = self.backend.numbers(f"SELECT n FROM ({counted}) WHERE v > 0 ORDER BY n", 1)
            self.places[name] = places[:, 0].astype(np.int64)
        return {"problems": found, "problems_total": total}

    def _problems(self, name: str, prob: str, value: str, block: list[str] | None) -> tuple[list[dict[str, Any]], int]:
        """What keeps the rows of a table from being events: the first of them, and how many there are."""
        backend = self.backend
        known = {row[0] for row in backend.rows(f"DESCRIBE SELECT * FROM {sql_name(name)}")}
        for column in block or ():
            if column not in known:
                raise UncertainTableError(f"{name} has no column {column!r}{did_you_mean(column, known)}")
        inner = (
            f"SELECT row_number() OVER () AS n, {value} AS v, TRY_CAST({value} AS DOUBLE) AS p FROM {sql_name(name)}"
        )
        bad = f"FROM ({inner}) WHERE p IS NULL OR NOT (p >= 0 AND p <= 1) OR isnan(p)"
        total = int(backend.rows(f"SELECT count(*) {bad}")[0][0])
        rows = backend.rows(f"SELECT n, CAST(v AS VARCHAR) {bad} ORDER BY n LIMIT {PROBLEMS}")
        found = [{"row": n, "column": prob, "message": _wrong(prob, v)} for n, v in rows]
        if total or not block:
            return found, total
        keys = ", ".join(quoted(column).sql("duckdb") for column in block)
        sums = (
            f"SELECT min(n) AS n, sum(p) AS s FROM (SELECT {keys}, row_number() OVER () AS n, "
            f"CAST({value} AS DOUBLE) AS p FROM {sql_name(name)}) GROUP BY {keys} HAVING s > {1.0 + SLACK!r}"
        )
        total = int(backend.rows(f"SELECT count(*) FROM ({sums})")[0][0])
        rows = backend.rows(f"SELECT n, s FROM ({sums}) ORDER BY n LIMIT {PROBLEMS}")
        text = "the probabilities of this block add up to {:.6g}: rows that exclude each other cannot exceed 1"
        return [{"row": n, "column": prob, "message": text.format(s)} for n, s in rows], total

    # ---- queries

    def query(self, run: str, query: str, asked: dict[str, Any], stream: bool) -> dict[str, Any]:
        """Answers a query; with ``stream`` the watcher sees coarser answers before."""
        request = Fields(asked)
        options = request.promise()
        given = request.text("given")
        deadline = time.monotonic() + options["timeout"]
        if given is not None:
            options["given"] = given

        def progress(done: int, total: int) -> None:
            self.watcher.progress(done / max(1, total), f"{done:,} of {total:,}")

        coarse = [e for e in COARSE if e > 1.5 * options["epsilon"]] if stream else []
        if options["guarantee"] not in (None, "relative", "additive"):
            coarse = []
        answers: Answers | None = None
        with warnings.catch_warnings(record=True) as heard, _late(options["timeout"]):
            warnings.simplefilter("always")
            for epsilon in [*coarse[:2], options["epsilon"]]:
                left = max(0.0, deadline - time.monotonic())
                try:
                    answers = self.db.sql(query, progress=progress, **{**options, "epsilon": epsilon, "timeout": left})
                except (SQLTimeout, duckdb.InterruptException):
                    if answers is None:
                        raise
                    answers.counts.met &= answers.counts.guarantee == "exact"  # the rest is coarser than was asked
                    break
                exact = bool((answers.counts.guarantee == "exact").all()) and answers.met
                if exact or epsilon == options["epsilon"]:
                    break
                self.watcher.event("answers", {"run": run, "final": False, **shown(answers)})
        assert answers is not None, "the last round answers or raises"
        self.runs[run] = TableRun(answers)
        while len(self.runs) > RUNS:
            self.runs.popitem(last=False)
        notes = list(dict.fromkeys(str(warning.message) for warning in heard))[:10]
        return {"run": run, "final": True, **shown(answers), "notes": notes}

    def _run(self, run: str) -> TableRun:
        if run not in self.runs:
            raise SQLError("these answers are gone: run the query again")
        return self.runs[run]

    def _what_if(self, run: TableRun, index: int) -> WhatIf:
        if index not in run.what_ifs:
            run.what_ifs[index] = run.answers.what_if(index)
            while len(run.what_ifs) > RUNS:
                run.what_ifs.popitem(last=False)
        return run.what_ifs[index]

    def detail(self, run: str, index: int) -> dict[str, Any]:
        """The rows that an answer depends on, the most influential first, its clauses and a picture."""
        kept = self._run(run)
        what_if = self._what_if(kept, index)
        if len(what_if.rows) > MOST_ROWS:
            raise LimitError(f"this answer depends on {len(what_if.rows):,} rows: at most {MOST_ROWS:,} are weighed")
        answers, database = kept.answers, kept.answers._database
        values = database.row_values(what_if.rows, answers._reading)
        influence = what_if.influences()
        prob = database.known_rows().prob
        name = {row: self._name(values[row]) for row in what_if.rows.tolist()}
        kept.rows.update({known: row for row, known in name.items()})
        order = np.argsort(-np.abs(influence.values), kind="stable")
        listed = []
        for i in order[:LISTED].tolist():
            row = int(what_if.rows[i])
            known = values[row]
            listed.append(
                {
                    "id": name[row],
                    "table": known.table,
                    "number": int(name[row].rpartition(":")[2]),
                    "values": {c: cell(v) for c, v in zip(known.columns, known.values, strict=True)},
                    "prob": float(prob[row]),
                    "influence": number(influence.values[i]),
                    "influence_low": number(influence.lower[i]),
                    "influence_high": number(influence.upper[i]),
                }
            )
        clauses = answers.clause_rows(index, CLAUSES)
        return {
            "rows": listed,
            "rows_total": len(what_if.rows),
            "clauses": None if clauses is None else [[name[row] for row in clause] for clause in clauses],
            "clauses_total": int(answers.num_clauses[index]),
            "svg": _picture(answers, index),
            "prob": float(answers.prob[index]),
            "exact": what_if.exact,
        }

    def _name(self, row: UncertainRow) -> str:
        places = self.places.get(row.table)
        return f"{row.table}:{row.place + 1 if places is None else places[row.place]}"

    def what_if(self, run: str, index: int, prob: dict[str, float]) -> dict[str, Any]:
        """The answer where some rows have other probabilities."""
        kept = self._run(run)
        what_if = self._what_if(kept, index)
        if not kept.rows:
            self.detail(run, index)
        unknown = [name for name in prob if name not in kept.rows]
        if unknown:
            raise SQLError(f"this answer has no row {unknown[0]!r:.80}{did_you_mean(unknown[0], kept.rows)}")
        return estimate_json(what_if({kept.rows[name]: p for name, p in prob.items()}))

    def export(self, run: str, form: str) -> bytes:
        """All answers as CSV or Parquet."""
        table = self._run(run).answers.arrow()
        sink = io.BytesIO()
        if form == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, sink)
        else:
            from pyarrow import csv

            flat = [c.cast(pa.string()) if pa.types.is_nested(c.type) else c for c in table.columns]
            csv.write_csv(pa.table(flat, names=table.column_names), sink)
        return sink.getvalue()


@contextmanager
def _late(seconds: float) -> Iterator[None]:
    """Says in one way that the time was up, whoever noticed it."""
    try:
        yield
    except (SQLTimeout, duckdb.InterruptException):
        raise SQLTimeout(f"the query took longer than {seconds:g} seconds, which is its limit") from None


def shown(answers: Answers) -> dict[str, Any]:
    """The first answers as the API tells them."""
    table = answers.arrow().slice(0, SHOWN)
    own = [name for name in table.column_names if name not in HIDDEN]
    counts = answers.counts
    route = answers.plan()
    because = [f"{WAYS[way]}: {reason}" for way, reason in route.refusals]
    way = IN_WORDS.get(route.way, route.way)
    if because:
        way += " A stronger way was not open. " + " ".join(f"{reason.rstrip('.')}." for reason in because)
    return {
        "columns": own,
        "rows": rows_of(table.select(own)),
        "prob": numbers(counts.prob[:SHOWN]),
        "low": numbers(counts.lower[:SHOWN]),
        "high": numbers(counts.upper[:SHOWN]),
        "guarantee": [str(word) for word in counts.guarantee[:SHOWN]],
        "met": [bool(met) for met in counts.met[:SHOWN]],
        "way": " ".join([way, *route.notes]),
        "kind": route.way,
        "total": len(answers),
    }


HIDDEN = ("prob", "lower", "upper", "guarantee", "engine", "num_clauses", "near_cut")
"""The columns of the answers that are told apart from their own."""


def _wrong(prob: str, value: str | None) -> str:
    if value is None:
        return f"{prob} is NULL: give the row a probability, or leave it out"
    return f"{prob} is {value:.40}: a probability lies in [0, 1]"


def _picture(answers: Answers, index: int) -> str | None:
    """None where a picture could not be read."""
    try:
        return answers.lineage_svg(index)
    except LimitError:
        return None


def sql_name(name: str) -> str:
    """The name of a table as SQL writes it."""
    return exp.Table(this=quoted(name)).sql("duckdb")


def read_file(path: str, form: str, most: int) -> pa.Table:
    """The rows of a CSV or Parquet file, by a database of its own that can read this file and nothing else."""
    reader = {"csv": "read_csv", "parquet": "read_parquet"}[form]
    quiet = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "temp_directory": ""}
    with duckdb.connect(config={**quiet, "threads": "1"}) as connection:
        listed = exp.Literal.string(path).sql("duckdb")
        connection.execute(f"SET allowed_paths = [{listed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            relation = connection.sql(f"SELECT * FROM {reader}({listed}) LIMIT {most + 1:d}")
            convert = getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table
            table: pa.Table = convert()
        except duckdb.Error as error:
            raise SQLError(_said(error, path)) from None
    if table.num_rows > most:
        raise OverLimit(f"the file has more than {most:,} rows, which is the limit")
    if not table.num_columns:
        raise SQLError("the file has no columns")
    return table


def _said(error: Exception, path: str) -> str:
    """What the database says of a file, without the name that the service gave to it."""
    text = str(error).replace(path, "the file").partition("\\n\\nPossible")[0]
    return f"the file cannot be read: {text}"
