"""Spark: numbered rows in files that are written once, names from its catalog, lineage as a DataFrame."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sharpdnf.dnf import FloatArray
from sharpdnf.errors import SQLError, UnsupportedSQL
from sharpdnf.sql.backends.columns import frame_rows
from sharpdnf.sql.backends.dialect import SPARK
from sharpdnf.sql.backends.names import column, lower, quoted
from sharpdnf.sql.backends.protocol import ROW_ID, Functions, LineageRows, Relation, Shape
from sharpdnf.sql.backends.rows import lock_of
from sharpdnf.sql.backends.spark_rows import SORTABLE, lineage_rows
from sharpdnf.sql.backends.spark_store import FAILURES, Store, unlogged
from sharpdnf.sql.refusal import refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

VOLATILE = frozenset(
    ["rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id",
     "spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length", "reflect",
     "try_reflect", "java_method"]
)  # fmt: skip
"""Functions whose value differs from call to call or from partition to partition, or that run any Java method."""
OWN = ("org.apache.spark.sql.catalyst.", "org.apache.spark.sql.execution.")
"""The packages of Spark's own functions."""
INTERRUPTS = "spark.job.interruptOnCancel"
READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json"}
SESSIONS = itertools.count()


class Spark:
    dialect = SPARK

    def __init__(self, connection: SparkSession) -> None:
        self.connection, self.lock = connection, lock_of(connection)
        self._check_settings()
        self._use_this_python()
        self._tag = f"sharpdnf-{next(SESSIONS)}-{uuid.uuid4().hex[:8]}"
        self.files = Store(connection)
        self._builtin: Functions | None = None

    def _check_settings(self) -> None:
        for name, reason in (
            ("spark.sql.caseSensitive", "names that differ in case would be mixed up"),
            ("spark.sql.ansi.doubleQuotedIdentifiers", '"x" would be a name to Spark and a text to the parser'),
        ):
            if str(self.connection.conf.get(name, "false")).lower() == "true":
                raise SQLError(f"a SparkSession with {name}=true is not supported: {reason}; set it to false")

    def _use_this_python(self) -> None:
        """On one machine the executors run this Python, not the first on PATH, which may not have this package.

        Spark takes ``python3`` where PYSPARK_PYTHON is not set, and a virtual environment need not be activated.
        """
        context = self.connection.sparkContext
        chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
        if (context.master or "").startswith("local") and not chosen:
            context.pythonExec = sys.executable

    def fold(self, identifier: exp.Identifier) -> str:
        return lower(str(identifier.this))

    # ---- asking

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Jobs inside can be interrupted, together with the tasks that executors work on, and their errors are ours."""
        context = self.connection.sparkContext
        context.addJobTag(self._tag)
        context.setInterruptOnCancel(True)
        try:
            with unlogged():
                yield
        except FAILURES as error:
            said = str(error).strip().partition("\n\tat ")[0]  # without the stack of calls in Java
            ours = re.search(r"^sharpdnf\.errors\.(\w+): (.*)", said, re.MULTILINE)
            if ours is not None:  # raised by our own code on an executor
                raise (UnsupportedSQL if ours[1] == "UnsupportedSQL" else SQLError)(ours[2]) from None
            raise SQLError(f"Spark: {said[:2000]}") from None
        finally:
            context.removeJobTag(self._tag)
            context.setLocalProperty(INTERRUPTS, None)  # type: ignore[arg-type]

    def frame(self, sql: str) -> DataFrame:
        """A query that is bound and not yet run."""
        with self.reported():
            return self.connection.sql(sql)

    def collected(self, frame: DataFrame) -> pa.Table:
        """The rows of a frame, here."""
        with self.reported():
            return frame.toArrow()

    def execute(self, sql: str) -> None:
        self.frame(sql)
        if sql.startswith("DROP"):
            with self.reported():
                self.files.sweep()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        frame = self.frame(sql)
        with self.reported():
            return [tuple(row) for row in frame.collect()]

    def table(self, sql: str, columns: int) -> pa.Table:
        return self.collected(self.frame(sql))

    def numbers(self, sql: str, columns: int) -> FloatArray:
        table = self.table(sql, columns)
        return np.column_stack([table.column(i).to_numpy() for i in range(columns)]).astype(np.float64)

    def describe(self, sql: str) -> tuple[str, ...] | None:
        try:
            return tuple(self.frame(sql).columns)
        except SQLError:
            return None

    def types(self, sql: str) -> tuple[str, ...] | None:
        try:
            return tuple(kind.upper() for _, kind in self.frame(sql).dtypes)
        except SQLError:
            return None

    def untyped(self, sql: str, count: int) -> frozenset[int]:
        return frozenset()

    def affinities(self, sql: str, count: int) -> tuple[str, ...]:
        return ("",) * count

    def readings(self, first: str, second: str) -> tuple[object, object]:
        """Equal if Spark's analysed plans give the same result, whatever columns and expressions are called."""
        plans = [self._analysed(re.sub(r"\brandom\(\)", "random(0)", text)) for text in (first, second)]
        one, two = plans
        if one is not None and two is not None and (one.sameResult(two) or told(one) == told(two)):
            return first, first
        return tuple(None if plan is None else text for plan, text in zip(plans, (first, second), strict=True))  # type: ignore[return-value]

    def _analysed(self, sql: str) -> Any:
        try:
            return self.frame(sql)._jdf.queryExecution().analyzed()
        except SQLError:
            return None

    # ---- names

    @property
    def _catalog(self) -> Any:
        return self.connection._jsparkSession.sessionState().catalog()

    def prepare(self, names: frozenset[str]) -> None:
        pass

    def _space(self) -> tuple[str, str]:
        """The current catalog and database."""
        return self.connection.catalog.currentCatalog(), self.connection.catalog.currentDatabase()

    def resolve(self, parts: tuple[str, ...], home: tuple[str, ...] | None) -> Relation | None:
        if len(parts) == 1 and not home:
            view = self._catalog.getRawTempView(parts[0])
            if view.isDefined():
                return self._temporary_view(parts[0], view.get())
        catalog, database = home if home else self._space()
        path = {1: (catalog, database, *parts), 2: (catalog, *parts)}.get(len(parts), parts)
        if path[-2] == "global_temp":
            refuse(f"the global temporary view {parts[-1]!r}", "another session may change it; make it a view of yours")
        name = ".".join(quoted(part).sql("spark") for part in path)
        with self.reported():
            if len(path) != 3 or not self.connection.catalog.tableExists(name):
                return None
            found = self.connection.catalog.getTable(name)
        columns = self.describe(f"SELECT * FROM {name}")
        if columns is None:
            raise SQLError(f"Spark cannot read {name}")
        key = tuple(lower(part) for part in path)
        if found.tableType == "VIEW":
            told = {row[0]: row[1] for row in self.rows(f"DESCRIBE EXTENDED {name}")}
            within = str(told.get("View Catalog and Namespace", "")).replace("`", "")
            if within and within.lower() != ".".join(key[:-1]):
                refuse(f"the view {parts[-1]!r}", f"it was made while {within} was in use; make it within its database")
            return Relation(key, path, columns, str(told["View Text"]), columns)
        return Relation(key, path, columns)

    def _temporary_view(self, name: str, view: Any) -> Relation:
        """A temporary view: its SELECT, if SQL made it; what was made of a DataFrame is a table to us."""
        columns = self.describe(f"SELECT * FROM {quoted(name).sql('spark')}")
        if columns is None:
            raise SQLError(f"Spark cannot read the temporary view {name!r}")
        text = view.tableMeta().viewText()
        if not text.isDefined():
            return Relation(("", name), (name,), columns)
        within = ".".join(list_of(view.tableMeta().viewCatalogAndNamespace()))
        if within and within.lower() != ".".join(self._space()).lower():
            refuse(f"the view {name!r}", f"it was made while {within} was in use; USE that, or make it again")
        return Relation(("", name), (name,), columns, str(text.get()), columns)

    def related(self, relation: Relation) -> tuple[Relation, ...]:
        """The temporary views of DataFrames that read what this one reads, and the relations that it reads itself."""
        mine, named = self._sources(relation)
        found = []
        for _, name, temporary in self.rows("SHOW TABLES"):
            if not temporary or name == relation.path[-1] or name.startswith("_sharpdnf_"):
                continue
            other = None
            with contextlib.suppress(SQLError):  # a view that Spark cannot read gives nobody any rows
                other = self.resolve((lower(name),), None)
            if other is not None and other.definition is None and self._sources(other)[0] & mine:
                found.append(other)
        for name in named:
            other = self.resolve(tuple(lower(part) for part in name.split(".")), None)
            if other is not None and other.key != relation.key:
                found.append(other)
        return tuple(found)

    def _sources(self, relation: Relation) -> tuple[frozenset[str], frozenset[str]]:
        """(the columns that the relation's plan begins with, by Spark's own numbers; the names that it mentions)."""
        plan = self._analysed(f"SELECT * FROM {relation.table().sql('spark')}")
        if plan is None:
            return frozenset(), frozenset()
        leaves = plan.collectLeaves()
        columns = " ".join(str(leaves.apply(i).outputSet().toString()) for i in range(leaves.size()))
        return frozenset(re.findall(r"#(\d+)", columns)), frozenset(re.findall(r"SubqueryAlias (\S+)", plan.toString()))

    def definitions(self, called: str) -> tuple[str, ...] | None:
        return None

    def collates(self) -> bool:
        return False

    def functions(self) -> Functions:
        if self._builtin is None:
            groups: dict[str, set[str]] = {}
            for info in self.connection._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos():  # type: ignore[union-attr]
                groups.setdefault(info.getGroup(), set()).add(info.getName().lower())
            aggregates = frozenset(groups["agg_funcs"] | groups.get("window_funcs", set()) | AGGREGATES)
            self._builtin = Functions(aggregates, VOLATILE, frozenset(groups["generator_funcs"]))
        return self._builtin

    def user_code(self, names: frozenset[str], sql: str) -> frozenset[str]:
        """Functions that are not Spark's own: temporary ones, also if they hide one of Spark's, and stored ones."""
        listed = {lower(row[0].split(".")[-1]) for row in self.rows("SHOW USER FUNCTIONS")}
        found = set(names & listed)
        for name in names - listed:
            with contextlib.suppress(*FAILURES):  # a keyword, or one of our own functions
                if not self.connection.catalog.getFunction(name).className.startswith(OWN):
                    found.add(name)
        dotted = (
            set(re.findall(r"\.\s*`?(\w+)`?\s*\(", lower(sql))) & names
        )  # db.f(x): no function of Spark's has a dot
        return frozenset(f"function {name}()" for name in found | dotted)

    def present(self, paths: Sequence[tuple[str, ...]], *, fresh: bool = True) -> list[str | None]:
        found = []
        for path in paths:
            relation = self.resolve(tuple(lower(part) for part in path), None)
            kind = None if relation is None else "table" if relation.definition is None else "view"
            found.append(kind)
        return found

    # ---- storing

    def drop(self, name: str) -> None:
        self.execute(SPARK.drop.format(self.temporary(name).sql("spark")))

    def temporary(self, name: str) -> exp.Table:
        return exp.Table(this=quoted(name))

    def materialise(self, name: str, relation: Relation, prob: exp.Expr, base: int) -> exp.Expr:
        item, columns = relation.table("_t").sql("spark"), ", ".join(column(c).sql("spark") for c in relation.columns)
        numbered = f"monotonically_increasing_id() + {base} AS {ROW_ID}"
        self.keep(name, f"SELECT {numbered}, {columns} FROM {item} WHERE {prob.sql('spark')} > 0", ROW_ID)
        return self.temporary(name)

    def keep(self, name: str, select: str, number: str | None = None) -> None:
        rows = self.frame(select)
        with self.reported():
            self.files.keep(name, rows, number)

    def register(self, name: str, frame: object) -> None:
        """A data frame (also one of Spark's) or file as a temporary view."""
        if isinstance(frame, str | Path):
            reader = READERS.get(Path(frame).suffix.lower())
            if reader is None:
                raise ValueError(f"register takes a data frame or a file ending in {', '.join(READERS)}, not {frame!r}")
            options = {"header": "true", "inferSchema": "true"} if reader == "csv" else {}
            with self.reported():
                self.connection.read.format(reader).options(**options).load(str(frame)).createOrReplaceTempView(name)
            return
        self._view(name, frame if hasattr(frame, "createOrReplaceTempView") else arrow_table(frame))

    def _view(self, name: str, frame: Any) -> None:
        with self.reported():
            made = frame if hasattr(frame, "createOrReplaceTempView") else self.connection.createDataFrame(frame)
            made.createOrReplaceTempView(name)

    def store(self, name: str, table: pa.Table, like: str) -> None:
        self._view(name, table)

    def discard(self, name: str) -> None:
        self.execute(SPARK.drop.format(quoted(name).sql("spark")))

    # ---- rows

    def looked_up(self) -> frozenset[str]:
        return frozenset()

    def state(self, names: frozenset[str]) -> object:
        return None  # Spark does not tell when a view or a function is made anew

    def version(self) -> object:
        return None

    def layout(self, item: exp.Expr) -> tuple[tuple[str, str], ...] | None:
        try:
            return tuple(self.frame(f"SELECT * FROM {item.sql('spark')}").dtypes)
        except SQLError:
            return None

    def contents(self, asked: Sequence[str]) -> list[object]:
        """All in one job, since a job costs more than the hashes of a small table."""
        numbered = [f"SELECT {i} AS _i, * FROM ({query}) AS _t" for i, query in enumerate(asked)]
        found = {row[0]: row[1:] for row in self.rows(" UNION ALL ".join(numbered))} if asked else {}
        return [found[i] for i in range(len(asked))]

    def contents_query(self, item: exp.Expr, columns: Sequence[tuple[str, str]], prob: exp.Expr) -> str:
        """Of the values and, for floats and nested values, of their texts: 0.0 and -0.0 have one hash."""
        parts = []
        for name, kind in columns:
            value = column(name).sql("spark")
            parts.append(f"CAST({value} AS STRING)" if kind.startswith(("map", "variant")) else value)
            if kind in ("float", "double") or kind.startswith(("array", "struct")):
                parts.append(f"CAST({value} AS STRING)")
            parts.append(f"{value} IS NULL")  # a hash passes over NULLs
        p = prob.sql("spark")
        row = f"CAST(xxhash64({', '.join(parts)}) AS DECIMAL(38, 0))"
        return f"SELECT count(*), sum({row}) FROM {item.sql('spark')} WHERE {p} <> 0 OR {p} IS NULL"

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Spark has no transactions. The numbered rows are a copy, so a query reads those of one moment; the certain
        tables are as the query finds them."""
        yield

    def interrupt(self) -> None:
        self.connection.sparkContext.cancelJobsWithTag(self._tag)

    def endangers(self) -> bool:
        return False

    def close(self) -> None:
        self.connection.stop()

    def lineage(self, sql: str, shape: Shape) -> LineageRows:
        frame = self.lineage_frame(sql, shape)
        order = [frame[name].asc_nulls_last() for name in shape.names()[0]]
        table = self.collected(frame.orderBy(*order) if order else frame)
        return lineage_rows(table, shape)

    def lineage_frame(self, sql: str, shape: Shape) -> DataFrame:
        """The lineage query as a frame, whose answer columns can be compared outside Spark as Spark compares them."""
        frame = self.frame(sql)
        for _, kind in frame.dtypes[: shape.shown]:
            if not SORTABLE.fullmatch(kind):
                refuse(f"an answer column of type {kind}", "answers of that type are not told apart; cast it to STRING")
        return frame


AGGREGATES = frozenset(["first", "last", "any", "some", "every", "std", "mean", "listagg", "string_agg", "mode"])
"""Other names of aggregates, which Spark may list under one name."""


def told(plan: Any) -> str:
    """An analysed plan as text, with Spark's running numbers of columns and common table expressions counted from 0.

    Spark's own comparison takes two common table expressions for different ones, since each has a number of its own.
    A text that leaves columns out equals nothing.
    """
    text = str(plan.toString())
    seen: dict[str, int] = {}
    if " more fields" in text:
        return uuid.uuid4().hex
    pattern = r"(#|CTERelationDef |CTERelationRef )(\d+)"
    return re.sub(pattern, lambda m: f"{m[1]}{seen.setdefault(m[1][:4] + m[2], len(seen))}", text)


def list_of(sequence: Any) -> list[str]:
    """A Scala sequence of texts."""
    return [str(sequence.apply(i)) for i in range(sequence.size())]


def arrow_table(frame: object) -> pa.Table:
    """A pandas, polars or Arrow frame, or a dict of columns, as an Arrow table."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    names, rows = frame_rows(frame)
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
