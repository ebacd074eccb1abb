"""The soundness harness: the user's SQL in every possible world, against the probabilities of its answers.

A small random database has a few uncertain rows. ``possible_worlds`` lists which of them can exist together and how
probable that is; ``expected_answers`` runs the *original* SQL in each and adds the probabilities up per answer. It
shares nothing with the rewriter but the SQL text.
"""

from __future__ import annotations

import datetime
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from oracle import enumerate_prob
from sql_servers import Database

from sharpdnf.circuit import Circuit
from sharpdnf.sql import ProbDB, connect
from sharpdnf.sql.backends.protocol import Clauses
from sharpdnf.sql.emit.circuit_batch import CircuitFormulas, formulas_of
from sharpdnf.sql.emit.events import Events
from sharpdnf.sql.plan import make_plan

Row = tuple[Any, ...]


@dataclass
class Table:
    """Rows without their probability; ``prob`` is None for a certain table."""

    columns: tuple[str, ...]
    rows: list[Row]
    prob: list[float] | None = None
    block: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None

    def ddl(self, name: str) -> str:
        kinds = self.types or ("integer",) * len(self.columns)
        columns = [f"{c} {kind}" for c, kind in zip(self.columns, kinds, strict=True)]
        if self.prob is not None:
            columns.append("p double precision")
        return f"CREATE TABLE {name} ({', '.join(columns)})"


@dataclass
class World:
    """A database: tables by name, and the SQL of its views, in order."""

    tables: dict[str, Table]
    views: list[str] = field(default_factory=list)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def fill(database: Database, name: str, table: Table, keep: frozenset[int] | None = None) -> None:
    rows = [
        (*row, *([table.prob[i]] if table.prob is not None else []))
        for i, row in enumerate(table.rows)
        if keep is None or i in keep
    ]
    if rows:
        values = ", ".join("(" + ", ".join(literal(v) for v in row) + ")" for row in rows)
        database.run(f"INSERT INTO {name} VALUES {values}")


def create(database: Database, world: World) -> None:
    for name, table in world.tables.items():
        database.run(table.ddl(name))
        fill(database, name, table)
    for view in world.views:
        database.run(view)


def possible_worlds(world: World) -> Iterator[tuple[float, dict[str, frozenset[int]]]]:
    """(probability, rows that exist) of every world with positive probability."""
    choices: list[tuple[str, list[tuple[float, frozenset[int]]]]] = []
    for name, table in world.tables.items():
        if table.prob is None:
            continue
        blocks: dict[Any, list[int]] = defaultdict(list)
        for i, row in enumerate(table.rows):
            key = i if table.block is None else tuple(row[table.columns.index(c)] for c in table.block)
            blocks[key].append(i)
        for rows in blocks.values():
            options = [(table.prob[i], frozenset([i])) for i in rows]
            rest = max(0.0, 1.0 - sum(p for p, _ in options))
            options.append((rest if rest > 1e-12 else 0.0, frozenset()))
            choices.append((name, [option for option in options if option[0] > 0.0]))
    for picked in itertools.product(*(options for _, options in choices)):
        weight = 1.0
        rows_of: dict[str, frozenset[int]] = {n: frozenset() for n, t in world.tables.items() if t.prob is not None}
        for (name, _), (p, rows) in zip(choices, picked, strict=True):
            weight *= p
            rows_of[name] |= rows
        yield weight, rows_of


def plain(value: Any) -> Any:
    """Values as every database and Arrow give them back, lists as text, so that they can be keys."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return repr(value) if isinstance(value, list | dict) else value


def played(database: Database, world: World) -> Iterator[float]:
    """Puts every world into a database made by ``create``, one after the other, and yields its probability."""
    for weight, rows_of in possible_worlds(world):
        for name, keep in rows_of.items():
            database.run(f"DELETE FROM {name}")
            fill(database, name, world.tables[name], keep)
        yield weight


def refill(database: Database, world: World) -> None:
    """All rows again, after the worlds were played through."""
    for name, table in world.tables.items():
        if table.prob is not None:
            database.run(f"DELETE FROM {name}")
            fill(database, name, table)


def expected_answers(database: Database, world: World, queries: list[str]) -> list[dict[Row, float]]:
    """For each query: answer -> probability, by running it in every world of a database made by ``create``."""
    found: list[dict[Row, float]] = [defaultdict(float) for _ in queries]
    for weight in played(database, world):
        for answers, sql in zip(found, queries, strict=True):
            for row in {tuple(plain(v) for v in row) for row in database.ask(sql)}:
                answers[row] += weight
    return found


def clauses_of(rows: Sequence[Sequence[int]]) -> Clauses:
    """A clause for each list of uncertain rows."""
    ends = np.cumsum([0, *(len(clause) for clause in rows)])
    return Clauses(ends, np.array([2 * row for clause in rows for row in sorted(clause)], dtype=np.int32))


def declared(database: Database, world: World) -> ProbDB:
    """The ProbDB over a database made by ``create``."""
    db = connect(database.connection)
    for name, table in world.tables.items():
        if table.prob is not None:
            db.uncertain(name, prob="p", block=table.block)
    return db


def exact_answers(db: ProbDB, sql: str) -> dict[Row, float]:
    """Answer -> probability from the lineage alone, by enumeration of each formula."""
    plan = make_plan(sql, db.backend, db.declared.uncertain())
    events = Events.over(db.known_rows().block) if plan.steps else None
    found = db._run(plan, events)
    formulas = formulas_of(found, events, db.known_rows())
    values = found.answers.to_pylist()
    result: dict[Row, float] = {}
    for i, answer in enumerate(formulas.possible):
        key = tuple(plain(v) for v in values[int(answer)].values())
        assert key not in result, f"the answer {key} came twice"
        if isinstance(formulas, CircuitFormulas):
            result[key] = _enumerated(formulas.batch.circuit(i)[0])
        else:
            result[key] = enumerate_prob(formulas.batch[i])
    return result


def _enumerated(circuit: Circuit) -> float:
    """The probability of the output, by all assignments."""
    n = circuit.num_vars
    values = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    weights = np.where(values, circuit.prob, 1.0 - circuit.prob).prod(axis=1)
    return float(weights[circuit.evaluate(values)[:, 0]].sum())


def counted_answers(db: ProbDB, sql: str, **asked: Any) -> dict[Row, float]:
    """Answer -> probability as a user sees it, counted exactly."""
    found = db.sql(sql, guarantee="exact", **asked)
    assert found.met and set(found.counts.guarantee) <= {"exact"}, sql
    columns = found.arrow().select(range(len(found.labels))).to_pylist()
    shown = [tuple(plain(v) for v in row.values()) for row in columns]
    return dict(zip(shown, found.prob.tolist(), strict=True))


def differences(got: dict[Row, float], want: dict[Row, float]) -> list[str]:
    """What differs, in words; answers of probability 0 do not count."""
    lines = []
    for row in sorted({*got, *want}, key=repr):
        a, b = got.get(row, 0.0), want.get(row, 0.0)
        if not abs(a - b) < 1e-9:
            lines.append(f"{row}: got {a}, the worlds say {b}")
    return lines


def random_world(seed: int, rows: int = 3) -> World:
    """Two uncertain tables, one with exclusive blocks, two certain ones; NULLs, p = 0 and p = 1 among them."""
    rng = np.random.default_rng(seed)

    def value(nulls: bool = True) -> int | None:
        return None if nulls and rng.random() < 0.15 else int(rng.integers(1, 4))

    def prob() -> float:
        return float(rng.choice([0.0, 1.0, 0.5, 0.25, 0.3, 0.9], p=[0.08, 0.12, 0.2, 0.2, 0.2, 0.2]))

    e = [(value(), value()) for _ in range(rows)]
    u = [(value(), value()) for _ in range(rows - 1)]
    r = [(1 + i // 2, value()) for i in range(rows - 1)]
    return World(
        {
            "e": Table(("a", "b"), e, [prob() for _ in e]),
            "u": Table(("a", "c"), u, [prob() for _ in u]),
            "r": Table(("k", "x"), r, [float(rng.choice([0.2, 0.5, 0.3])) for _ in r], block=("k",)),
            "s": Table(("a", "y"), [(value(), value()) for _ in range(3)]),
            "t": Table(("y", "z"), [(value(), value()) for _ in range(4)]),
        },
        [
            "CREATE VIEW ve AS SELECT a, b FROM e WHERE a IS NOT NULL",
            "CREATE VIEW vv (n) AS SELECT ve.b FROM ve JOIN u ON ve.a = u.a",
            "CREATE VIEW vs AS SELECT a, count(*) AS n FROM s GROUP BY a",
        ],
    )
