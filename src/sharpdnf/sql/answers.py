"""The answers of a probabilistic query: tables for people and programs, their lineage, the rows that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdnf.dnf import DNF, IntArray
from sharpdnf.errors import SQLError
from sharpdnf.sql.backends.columns import readable
from sharpdnf.sql.backends.protocol import Clauses, LineageRows
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.emit.lineage import Formulas, Rows
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.explain import influences
from sharpdnf.sql.ways import LINEAGE, Route

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sharpdnf.sql.database import ProbDB

COLUMNS = ("prob", "lower", "upper", "guarantee", "engine", "num_clauses")

FOLDED = 10
"""Values longer than this many characters may be folded into several lines before a column is left out."""


@dataclass(frozen=True, slots=True)
class Reason:
    """An uncertain row and what it means for an answer: P(answer | row) - P(answer | no row)."""

    row: str
    prob: float
    influence: float
    stderr: float = 0.0
    """One standard error of the influence; 0 where it is exact."""
    lower: float = -1.0
    upper: float = 1.0
    """The influence lies between the two, for all rows together with probability 95 %; surely where it is exact."""
    best: int = 1
    worst: int = 1
    """Its place among all rows of the answer, as far as the draws can tell: ties and doubts share places."""


def _word(value: object) -> str:
    return "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def unique_names(names: Sequence[str]) -> list[str]:
    """The names of answer columns, with a number where two are equal; one called prob must not hide ours."""
    taken = {*COLUMNS, "near_cut"}
    found = []
    for name in names:
        unique, suffix = name, 1
        while unique in taken:
            suffix += 1
            unique = f"{name}_{suffix}"
        taken.add(unique)
        found.append(unique)
    return found


class Answers:
    """One row per answer: its columns, then prob, lower, upper, guarantee, engine, num_clauses."""

    def __init__(
        self,
        labels: tuple[str, ...],
        values: Sequence[pa.ChunkedArray],
        counts: Counts,
        formulas: Formulas,
        formula_of_answer: IntArray,
        number_of_answer: IntArray,
        found: LineageRows,
        database: ProbDB,
        expected: list[tuple[int, Expected]],
        known: Rows,
        reading: int,
    ) -> None:
        self.labels, self.counts = labels, counts
        self._values, self._formulas, self._formula_of_answer = values, formulas, formula_of_answer
        self._number_of_answer, self._found = number_of_answer, found
        self._database, self._expected = database, expected
        self._known, self._reading = known, reading
        self.route = Route(LINEAGE)

    def __len__(self) -> int:
        return len(self.counts.prob)

    def plan(self) -> Route:
        """Which way the query went, and why not a stronger one; as text: one line a way."""
        return self.route

    @property
    def prob(self) -> Any:
        """float64[answers]: the probabilities."""
        return self.counts.prob

    @property
    def met(self) -> bool:
        """Whether every answer reached the guarantee asked for within the limits."""
        return bool(self.counts.met.all())

    def arrow(self) -> pa.Table:
        """One row per answer: its columns, expected values with their bounds, then what is known of its probability."""
        import pyarrow as pa

        columns: list[tuple[str, Any]] = [
            (label, readable(column, label)) for label, column in zip(self.labels, self._values, strict=True)
        ]
        for position, value in self._expected:
            columns.insert(position, (value.label, pa.array(value.value)))
        for _, value in self._expected:
            columns += [
                (f"{value.label}_lower", pa.array(value.lower)),
                (f"{value.label}_upper", pa.array(value.upper)),
            ]
        names = unique_names([name for name, _ in columns])
        named: list[tuple[str, Any]] = [(name, values) for name, (_, values) in zip(names, columns, strict=True)]
        for name in ("prob", "lower", "upper"):
            named.append((name, pa.array(getattr(self.counts, name))))
        for name in ("guarantee", "engine"):
            named.append((name, pa.array(getattr(self.counts, name).tolist(), type=pa.string())))
        named.append(("num_clauses", pa.array(self.num_clauses)))
        if self.counts.near_cut is not None:
            named.append(("near_cut", pa.array(self.counts.near_cut)))
        return pa.table([values for _, values in named], names=[name for name, _ in named])

    @property
    def num_clauses(self) -> Any:
        """int64[answers]: size of the lineage; 0 for an aggregate over no row."""
        return np.concatenate([self._formulas.num_clauses, [0]])[self._formula_of_answer]

    def spark(self) -> Any:
        """The answers as a DataFrame of Spark, if they came from there."""
        connection = self._database.backend.connection
        if not hasattr(connection, "createDataFrame"):
            raise SQLError("these answers do not come from Spark: arrow(), df() and pl() give tables")
        return connection.createDataFrame(self.arrow())

    def df(self) -> pd.DataFrame:
        """The answers as a pandas frame, with the columns of ``arrow``."""
        return self.arrow().to_pandas()

    def pl(self) -> pl.DataFrame:
        """The answers as a polars frame, with the columns of ``arrow``."""
        import polars as pl

        frame = pl.from_arrow(self.arrow())
        assert isinstance(frame, pl.DataFrame), "a table becomes a frame"
        return frame

    def show(self, limit: int = 20) -> None:
        """Prints the first answers as a table."""
        from rich.console import Console

        console = Console()
        console.print(self.table(limit, console.width))

    def table(self, limit: int = 20, width: int | None = None) -> Any:
        """A rich table of the first answers.

        What does not fit into ``width`` is left out: first num_clauses and engine, then answer columns from the end.
        """
        from rich.table import Table
        from rich.text import Text

        data = self.arrow()
        cells = {
            name: [Text(_word(v)) for v in column.to_pylist()]
            for name, column in zip(data.column_names, data.slice(0, limit).columns, strict=True)
        }
        wide = {
            name: 3 + max(Text(name).cell_len, *(min(FOLDED, cell.cell_len) for cell in column), 0)
            for name, column in cells.items()
        }
        names = data.column_names
        hidable = [*names[1 : names.index("prob")], "engine", "num_clauses"]
        while width is not None and hidable and sum(wide[name] for name in names) + 1 > width:
            names.remove(hidable.pop())
        hidden = [f"{len(names)} of {len(cells)} columns"] if len(names) < len(cells) else []
        table = Table(caption=", ".join([f"{len(self)} answers"] * (len(self) > limit) + hidden) or None)
        for name in names:
            right = name in ("prob", "lower", "upper", "num_clauses")
            table.add_column(Text(name), justify="right" if right else "left")
        for row in zip(*(cells[name] for name in names), strict=True):
            table.add_row(*row)
        return table

    def _repr_html_(self) -> str:
        from sharpdnf.notebook import SHOWN_ROWS, rows_table

        shown = self.arrow().slice(0, SHOWN_ROWS).to_pylist()
        columns = list(shown[0]) if shown else [*self.labels, "prob", "lower", "upper"]
        cells = [[f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()] for row in shown]
        return rows_table(columns, cells, len(self))

    def __repr__(self) -> str:
        return f"Answers({len(self)} rows: {', '.join(self.labels)}; prob, lower, upper)"

    def _check(self, index: int) -> None:
        if not -len(self) <= index < len(self):
            raise IndexError(f"answer {index} of {len(self)}")

    def _formula(self, index: int) -> tuple[DNF, Any]:
        """The formula of one answer over its own variables, and the uncertain row of each."""
        self._check(index)
        number = int(self._formula_of_answer[index])
        if number < 0:
            return DNF.from_clauses([]), np.zeros(0, dtype=np.int64)
        return self._renumbered(self._formulas.batch[number], self._formulas.row_of_var)

    @staticmethod
    def _renumbered(whole: DNF, row_of_var: IntArray) -> tuple[DNF, IntArray]:
        """The formula over the variables that occur in it, and the uncertain row of each."""
        used, inverse = np.unique(whole.literals >> 1, return_inverse=True)
        literals = (2 * inverse + (whole.literals & 1)).astype(np.int32)
        return DNF(whole.indptr, literals, whole.prob[used]), row_of_var[used]

    def _clauses(self, index: int) -> Clauses:
        """The clauses of one answer, as rows."""
        self._check(index)
        indptr, number = self._found.indptr, self._number_of_answer[index]
        first, last = indptr[number : number + 2] if number + 1 < len(indptr) else (0, 0)  # no row, no reason
        return self._found.clauses.take(np.arange(first, last))

    def lineage(self, index: int) -> DNF:
        """The lineage of an answer as a DNF whose variables are named after the uncertain rows.

        A row of a block of exclusive rows stands for the choice of that row after those before it were not chosen;
        a choice inside a large block is called ``choice`` and a number.
        """
        dnf, rows = self._formula(index)
        names = self._database.row_names(rows, self._reading)
        unique: dict[str, int] = {}
        for i, name in enumerate(names):
            seen = unique[name] = unique.get(name, 0) + 1
            names[i] = name if seen == 1 else f"{name}#{seen}"
        return DNF(dnf.indptr, dnf.literals, dnf.prob, names=tuple(names))

    def explain(self, index: int, top: int = 5) -> list[Reason]:
        """The rows whose presence changes the answer's probability most.

        Exact where the lineage compiles to a d-tree within seconds, as most does; else sampled until every influence is
        within 5 % of the largest (with 95 % for all together), or with a NotMetWarning where that takes too long.
        Every reason says its standard error and which places it may have.
        """
        known = self._known
        rows, found = influences(self._clauses(index), known, rng=0)
        places = found.ranking()[:top]
        order = [place.variable - 1 for place in places]
        names = self._database.row_names(rows[order], self._reading)
        return [
            Reason(
                row=name,
                prob=float(known.prob[rows[i]]),
                influence=place.influence,
                stderr=float(found.stderr[i]),
                lower=float(found.lower[i]),
                upper=float(found.upper[i]),
                best=place.best,
                worst=place.worst,
            )
            for name, i, place in zip(names, order, places, strict=True)
        ]
