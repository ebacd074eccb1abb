"""The answers of a probabilistic query: tables for people and programs, their lineage, the rows that matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from sharpdnf.circuit import Circuit
from sharpdnf.dnf import DNF, FloatArray, IntArray
from sharpdnf.errors import SQLError, did_you_mean, needs_extra
from sharpdnf.sql.backends.columns import readable
from sharpdnf.sql.backends.protocol import Clauses, LineageRows
from sharpdnf.sql.counting import Counts
from sharpdnf.sql.emit.circuit_batch import AnyFormulas, CircuitFormulas, Circuits
from sharpdnf.sql.emit.lineage import Rows
from sharpdnf.sql.emit.tails import Tails
from sharpdnf.sql.expected import Expected
from sharpdnf.sql.explain import circuit_shares, influences, shares
from sharpdnf.sql.lineage_picture import to_dot, to_json, to_svg
from sharpdnf.sql.reasons import MEASURES, Reason, Reasons
from sharpdnf.sql.ways import LINEAGE, Route

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from sharpdnf.sql.database import ProbDB
    from sharpdnf.sql.module import AnswersModule, Lineage
    from sharpdnf.sql.whatif import WhatIf

COLUMNS = ("prob", "lower", "upper", "guarantee", "engine", "num_clauses")

FOLDED = 10
"""Values longer than this many characters may be folded into several lines before a column is left out."""


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

    _has_lineage = True
    """Whether the rows of this class of answers have a lineage that can be asked about in this process."""

    def __init__(
        self,
        labels: tuple[str, ...],
        values: Sequence[pa.ChunkedArray],
        counts: Counts,
        formulas: AnyFormulas,
        formula_of_answer: IntArray,
        number_of_answer: IntArray,
        found: LineageRows,
        database: ProbDB,
        expected: list[tuple[int, Expected]],
        known: Rows,
        reading: int,
    ) -> None:
        self.labels = labels
        """The names of the answer's own columns."""
        self.counts = counts
        """The probability, interval and guarantee of every answer, as arrays."""
        self._values, self._formulas, self._formula_of_answer = values, formulas, formula_of_answer
        self._number_of_answer, self._found = number_of_answer, found
        self._database, self._expected = database, expected
        self._known, self._reading = known, reading
        self.route = Route(LINEAGE)
        """Which way the query went, as ``plan()`` says it."""
        self.given = False
        """Whether the probabilities are those under evidence."""

    def __len__(self) -> int:
        return len(self.counts.prob)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """One answer, or a slice of them, as dicts of all columns."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        self._check(index)
        found: dict[str, Any] = self._whole.slice(index % len(self), 1).to_pylist()[0]
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._whole.to_batches(max_chunksize=1_000):
            yield from batch.to_pylist()

    @cached_property
    def _whole(self) -> pa.Table:
        return self.arrow()

    def plan(self) -> Route:
        """Which way the query went, and why not a stronger one; as text: one line a way."""
        return self.route

    @property
    def prob(self) -> FloatArray:
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
            columns.insert(position, (value.label, pa.array(value.value, from_pandas=True)))
        for _, value in self._expected:
            columns += [
                (f"{value.label}_lower", pa.array(value.lower, from_pandas=True)),
                (f"{value.label}_upper", pa.array(value.upper, from_pandas=True)),
            ]
            if value.stderr is not None:
                columns.append((f"{value.label}_stderr", pa.array(value.stderr, from_pandas=True)))
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
    def num_clauses(self) -> IntArray:
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
        assert not isinstance(self._formulas, CircuitFormulas)
        return self._renumbered(self._formulas.batch[number], self._formulas.row_of_var)

    def _circuits(self, index: int) -> tuple[Circuits | Tails, int] | None:
        """A batch of circuits and the place of an answer's in it; None where the lineage is a DNF."""
        number = int(self._formula_of_answer[index])
        return (self._formulas.batch, number) if isinstance(self._formulas, CircuitFormulas) and number >= 0 else None

    def _circuit(self, index: int) -> tuple[Circuit, IntArray] | None:
        """The circuit of an answer over its own variables and the uncertain row of each; None where it is a DNF."""
        found = self._circuits(index)
        return None if found is None else found[0].circuit(found[1])

    @staticmethod
    def _renumbered(whole: DNF, row_of_var: IntArray) -> tuple[DNF, IntArray]:
        """The formula over the variables that occur in it, and the uncertain row of each."""
        used, inverse = np.unique(whole.literals >> 1, return_inverse=True)
        literals = (2 * inverse + (whole.literals & 1)).astype(np.int32)
        return DNF(whole.indptr, literals, whole.prob[used]), row_of_var[used]

    def lineage(self, index: int) -> DNF | Circuit:
        """The lineage of an answer as a DNF whose variables are named after the uncertain rows; if it negates, as a
        circuit.

        A row of a block of exclusive rows stands for the choice of that row after those before it were not chosen;
        a choice inside a large block is called ``choice`` and a number.
        """
        self._check(index)
        found = self._circuit(index)
        if found is not None:
            return replace(found[0], names=self._names(found[1]))
        dnf, rows = self._formula(index)
        return DNF(dnf.indptr, dnf.literals, dnf.prob, names=self._names(rows))

    def _names(self, rows: IntArray) -> tuple[str, ...]:
        """A name for each variable, by the row behind it; the second of one name gets #2."""
        names = self._database.row_names(rows, self._reading)
        unique: dict[str, int] = {}
        for i, name in enumerate(names):
            seen = unique[name] = unique.get(name, 0) + 1
            names[i] = name if seen == 1 else f"{name}#{seen}"
        return tuple(names)

    def module(self, **options: Any) -> AnswersModule:
        """The answers as a layer of torch: probabilities of the uncertain rows in, log P of every answer out.

        So probabilities of rows can be learned from answers that are known to be right or wrong. ``module().rows``
        names the rows, in the order in which their probabilities go in; the options are those of
        ``sharpdnf.torch.Probability``.
        """
        with needs_extra("learning from answers", "neural"):
            from sharpdnf.sql.module import AnswersModule, uncertain_rows

        if not self._has_lineage or self.given:
            raise SQLError("module() needs the lineage of the answers themselves: ask without evidence, for the rows")
        if not len(self):
            raise SQLError("the query has no answers, so there is no probability to learn: ask for known ones")
        lineages = self._lineages()
        numbers = uncertain_rows(lineages)
        names = self._database.row_names(numbers, self._reading)
        return AnswersModule(lineages, numbers, names, self._known, **options)

    def what_if(self, index: int) -> WhatIf:
        """One answer as a function of the probabilities of its uncertain rows; compiled once, so calls are quick."""
        from sharpdnf.sql.whatif import WhatIf

        self._check(index)
        if not self._has_lineage or self.given:
            raise SQLError(
                "what if, and which rows matter, can be asked of answers that have a lineage of their own: ask without "
                "evidence, and for rows rather than for aggregates of them"
            )
        circuits = self._circuits(index)
        if circuits is not None:
            return WhatIf.of_circuit(*circuits, self._known)
        clauses = self._clauses(index)
        if isinstance(clauses, bool):
            raise SQLError("this answer depends on no uncertain row: there is nothing to change")
        return WhatIf.of_clauses(clauses, self._known)

    def clause_rows(self, index: int, most: int) -> list[list[int]] | None:
        """The numbers of the uncertain rows of the first ``most`` clauses; None where the lineage is a circuit."""
        self._check(index)
        clauses = self._clauses(index) if self._circuits(index) is None else None
        if clauses is None or isinstance(clauses, bool):
            return None
        ends = clauses.indptr[: most + 1].tolist()
        rows = (clauses.literals[: ends[-1]] >> 1).tolist()
        return [rows[a:b] for a, b in pairwise(ends)]

    def _lineages(self) -> list[Lineage]:
        """What each answer needs, in terms of the numbers of uncertain rows; negation makes it a circuit."""
        return [self._circuit(index) or self._clauses(index) for index in range(len(self))]

    def _clauses(self, index: int) -> Clauses | bool:
        """What an answer needs, as clauses over uncertain rows; True or False if it does not depend on them."""
        indptr, number = self._found.indptr, self._number_of_answer[index]
        first, last = indptr[number : number + 2] if number + 1 < len(indptr) else (0, 0)
        return self._found.clauses.take(np.arange(first, last)) if last > first else bool(self.counts.prob[index] > 0.5)

    def lineage_json(self, index: int) -> str:
        """The lineage as JSON: the answer, the rows with their probabilities, and the clauses over them."""
        return to_json(self.lineage(index), self._own(index), float(self.prob[index]))

    def lineage_dot(self, index: int) -> str:
        """The lineage as a graph in the DOT language."""
        return to_dot(self.lineage(index), self._title(index))

    def lineage_svg(self, index: int) -> str:
        """The lineage as a picture in SVG."""
        return to_svg(self.lineage(index), self._title(index))

    def _own(self, index: int) -> dict[str, Any]:
        """The columns of an answer, without what is known of its probability."""
        names = self._whole.column_names
        own = self._whole.select(names[: names.index("prob")])
        found: dict[str, Any] = own.slice(index % len(self), 1).to_pylist()[0]
        return found

    def _title(self, index: int) -> str:
        values = ", ".join(_word(value) for value in self._own(index).values())
        return f"({values}) {float(self.prob[index]):.4g}"

    def explain(
        self, index: int, top: int = 5, *, measure: str = "influence", epsilon: float = 0.05, delta: float = 0.05
    ) -> Reasons:
        """The rows that matter most for an answer, by one of three measures.

        "influence" is P(answer | row) - P(answer | no row); "banzhaf" and "shapley" share the answer's truth out among
        the rows whatever their probabilities (``shapley.py``), where a coalition of rows wins if it holds a clause of
        the lineage. All are exact where the lineage compiles to a d-tree within seconds, as most does. Else influences
        are sampled until each is within epsilon of the largest, relatively, and values until each is within epsilon,
        for all rows together with probability 1 - delta; or with a NotMetWarning where that takes too long. Every
        reason says its standard error, its interval and which places it may have.
        """
        self._check(index)
        if measure not in MEASURES:
            meant = did_you_mean(measure, MEASURES)
            raise ValueError(f"measure must be one of {', '.join(MEASURES)}, not {measure!r}{meant}")
        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rng": 0}
        circuit = self._circuit(index)
        if circuit is not None:
            rows, found = circuit_shares(*circuit, self._known, measure)
        else:
            clauses = self._clauses(index)
            if isinstance(clauses, bool):
                return Reasons([], measure)  # no row, no reason
            measured = influences if measure == "influence" else partial(shares, measure=measure)
            rows, found = measured(clauses, self._known, **asked)
        places = found.ranking()[:top]
        order = [place.variable - 1 for place in places]
        names = self._database.row_names(rows[order], self._reading)
        reasons = [
            Reason(
                row=name,
                prob=float(self._known.prob[rows[i]]),
                influence=place.influence,
                stderr=float(found.stderr[i]),
                lower=float(found.lower[i]),
                upper=float(found.upper[i]),
                best=place.best,
                worst=place.worst,
            )
            for name, i, place in zip(names, order, places, strict=True)
        ]
        return Reasons(reasons, measure)
