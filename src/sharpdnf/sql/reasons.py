"""The rows that matter for an answer, as a list and as a table: their names, probabilities and what they are worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MEASURES = ("influence", "banzhaf", "shapley")


@dataclass(frozen=True, slots=True)
class Reason:
    """An uncertain row and what it means for an answer: P(answer | row) - P(answer | no row), or another measure."""

    row: str
    """The row, as its table's name and its values."""
    prob: float
    """The probability of the row."""
    influence: float
    """What the row is worth, by the measure that was asked for."""
    stderr: float = 0.0
    """One standard error of the influence; 0 where it is exact."""
    lower: float = -1.0
    """The lower end of the interval; see ``upper``."""
    upper: float = 1.0
    """The influence lies between the two, for all rows together with probability 95 %; surely where it is exact."""
    best: int = 1
    """The best place that the row may have; see ``worst``."""
    worst: int = 1
    """Its place among all rows of the answer, as far as the draws can tell: ties and doubts share places."""


class Reasons(list[Reason]):
    """Reasons by falling size of their ``measure``, which is called ``influence`` in each of them."""

    def __init__(self, reasons: list[Reason], measure: str = "influence") -> None:
        super().__init__(reasons)
        self.measure = measure
        """What the rows were measured by: "influence", "banzhaf" or "shapley"."""

    def _columns(self) -> dict[str, list[Any]]:
        names = list(Reason.__dataclass_fields__)
        rows = [asdict(reason) for reason in self]
        return {self.measure if name == "influence" else name: [row[name] for row in rows] for name in names}

    def arrow(self) -> pa.Table:
        """One row per reason."""
        import pyarrow as pa

        return pa.table(self._columns())

    def df(self) -> pd.DataFrame:
        """As ``arrow``, in pandas."""
        return self.arrow().to_pandas()

    def table(self) -> Any:
        """A rich table: the row, its probability, the measure with its interval, its places."""
        from rich.table import Table

        table = Table()
        for name, right in (("row", False), ("prob", True), (self.measure, True), ("interval", True), ("place", True)):
            table.add_column(name, justify="right" if right else "left")
        for cells in self._cells():
            table.add_row(*cells)
        return table

    def _cells(self) -> list[list[str]]:
        cells = []
        for r in self:
            interval = "exact" if r.lower == r.upper else f"{r.lower:.4g} to {r.upper:.4g}"
            place = str(r.best) if r.best == r.worst else f"{r.best} to {r.worst}"
            cells.append([r.row, f"{r.prob:.4g}", f"{r.influence:.4g}", interval, place])
        return cells

    def show(self) -> None:
        """Prints the table."""
        from rich.console import Console

        Console().print(self.table())

    def _repr_html_(self) -> str:
        from sharpdnf.notebook import rows_table

        return rows_table(["row", "prob", self.measure, "interval", "place"], self._cells(), len(self))
