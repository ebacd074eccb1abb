"""Random SELECTs of every construct that some way answers, and what each way says of them beside the worlds.

The tables are those of ``sql_worlds.random_world``. A query has one result in each world: what LIMIT, DISTINCT ON and
windows keep, and what lists hold, is ordered by all columns in sight.
"""

from __future__ import annotations

import random

from sql_servers import Database
from sql_worlds import (
    Row,
    World,
    create,
    declared,
    differences,
    expected_answers,
    plain,
)

from sharpdnf.errors import UnsupportedSQL
from sharpdnf.sql import Answers, ProbDB
from sharpdnf.sql.ways import WAYS

COLUMNS = {"e": "ab", "u": "ac", "r": "kx", "s": "ay", "t": "yz", "ve": "ab", "vv": "n"}
SIGNS = ("<", "<=", "=", "<>", ">", ">=")


class Wide:
    """Draws queries for one kind of database; the same seed draws the same ones."""

    def __init__(self, seed: int, kind: str) -> None:
        self.random, self.kind, self.named = random.Random(seed), kind, 0
        self.tables = dict(COLUMNS)

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def often(self, chance: float) -> bool:
        return self.random.random() < chance

    def alias(self) -> str:
        self.named += 1
        return f"q{self.named}"

    @property
    def rich(self) -> bool:
        """Whether the database has LATERAL, DISTINCT ON, ANY and ALL."""
        return self.kind != "sqlite"

    # ---- values and conditions

    def value(self, names: list[str], depth: int = 0) -> str:
        name = self.one(*names)
        kind = self.random.randrange(10 if depth else 8)
        if kind == 5:
            return f"{name} {self.one('+', '-', '*')} {self.one('1', '2', *names)}"
        if kind == 6:
            return self.one("1", "2", "NULL", f"coalesce({name}, 0)", f"nullif({name}, 1)")
        if kind == 7:
            return f"CASE WHEN {self.condition(names, 0)} THEN {name} ELSE {self.one('0', *names)} END"
        if kind == 8:
            return f"CASE WHEN {self.condition(names, depth - 1)} THEN 1 ELSE 0 END"
        if kind == 9:
            inner, rows = self.rows(names, depth - 1)
            return f"(SELECT {self.aggregate(inner)} {rows})"
        return name

    def aggregate(self, names: list[str]) -> str:
        name = self.one(*names)
        call = self.one("count(*)", f"count({name})", f"count(DISTINCT {name})", f"sum({name})", f"min({name})",
                        f"max({name})", f"avg({name})", f"sum({name} + 1)", f"sum(DISTINCT {name})")  # fmt: skip
        return f"{call} FILTER (WHERE {self.condition(names, 0)})" if self.often(0.15) else call

    def any_aggregate(self, names: list[str]) -> str:
        """Also those that only worlds answer."""
        name, order = self.one(*names), ", ".join(names)
        if self.often(0.7):
            return self.aggregate(names)
        if not self.rich:
            return f"min({name} * 10)"
        return self.one(f"bool_and({name} > 1)", f"bool_or({name} = 2)",
                        f"string_agg(CAST({name} AS VARCHAR), ',' ORDER BY {order})")  # fmt: skip

    def rows(self, names: list[str], depth: int) -> tuple[list[str], str]:
        """Columns, and FROM ... WHERE, of a subquery that may see the columns around it."""
        table, alias = self.one(*self.tables), self.alias()
        inner = [f"{alias}.{c}" for c in self.tables[table]]
        seen = inner + names if self.often(0.6) else inner
        where = f" WHERE {self.condition(seen, max(depth, 0))}" if self.often(0.8) else ""
        if names and self.often(0.4):
            where += f"{' AND' if where else ' WHERE'} {self.one(*inner)} = {self.one(*names)}"
        return inner, f"FROM {table} AS {alias}{where}"

    def condition(self, names: list[str], depth: int) -> str:
        kind = self.random.randrange(13 if depth else 5)
        left, sign = self.one(*names), self.one(*SIGNS)
        if kind <= 1:
            return f"{left} {sign} {self.one('1', '2', '3', *names)}"
        if kind == 2:
            return f"{left} IS {self.one('', 'NOT ')}NULL"
        if kind == 3:
            return f"{left} {self.one('', 'NOT ')}IN (1, {self.one('2', '3', 'NULL')})"
        if kind == 4:
            return f"{left} {self.one('', 'NOT ')}BETWEEN 1 AND {self.one('2', *names)}"
        if kind <= 6:
            word = self.one("AND", "OR")
            return f"({self.condition(names, depth - 1)} {word} {self.condition(names, depth - 1)})"
        if kind == 7:
            return f"NOT ({self.condition(names, depth - 1)})"
        inner, rows = self.rows(names, depth - 1)
        picked = self.one(*inner)
        if kind == 8:
            return f"{self.one('', 'NOT ')}EXISTS (SELECT {picked} {rows})"
        if kind == 9:
            return f"{left} {self.one('', 'NOT ')}IN (SELECT {picked} {rows})"
        if kind == 10 and self.rich:
            return f"{left} {sign} {self.one('ANY', 'ALL')} (SELECT {picked} {rows})"
        if kind == 11:
            other, more = self.rows(names, depth - 1)
            if self.often(0.3):
                return f"(SELECT {self.aggregate(inner)} {rows}) {sign} (SELECT {self.aggregate(other)} {more})"
        return f"(SELECT {self.aggregate(inner)} {rows}) {sign} {self.one('1', '2', left)}"

    # ---- FROM

    def source(self, depth: int) -> tuple[str, list[str]]:
        """A FROM clause and the columns that it gives."""
        text, names = "", []
        for i in range(self.random.choices([1, 2, 3], [5, 4, 1])[0]):
            alias = self.alias()
            if depth and self.often(0.15):
                columns = ["o0", "o1"]
                item = f"({self.query(2, depth - 1)}) AS {alias}"
            else:
                table = self.one(*self.tables)
                columns, item = list(self.tables[table]), f"{table} AS {alias}"
            mine = [f"{alias}.{c}" for c in columns]
            if i == 0:
                text = item
            elif self.rich and depth and self.often(0.1):
                inner, rows = self.rows(names, depth - 1)
                mine = [f"{alias}.l"]
                text += f" CROSS JOIN LATERAL (SELECT {self.one(*inner)} AS l {rows}) AS {alias}"
            elif self.often(0.1):
                text += f" CROSS JOIN {item}"
            else:
                side = self.one("", "", "LEFT ", "RIGHT ", "FULL ")
                on = f"{self.one(*names)} = {self.one(*mine)}"
                if side != "FULL " and self.often(0.25):
                    on += f" AND {self.condition(names + mine, 0)}"
                text += f" {side}JOIN {item} ON {on}"
            names += mine
        return text, names

    # ---- SELECT

    def select(self, width: int, depth: int) -> str:
        source, names = self.source(depth)
        where = f" WHERE {self.condition(names, depth)}" if self.often(0.6) else ""
        kind = self.random.randrange(8)
        if kind >= 6:
            return self.grouped(width, source, names, where, depth)
        if kind == 5:
            return self.windowed(width, source, names, where)
        shown = [self.value(names, depth if self.often(0.3) else 0) for _ in range(width)]
        items = ", ".join(f"{item} AS o{i}" for i, item in enumerate(shown))
        return f"SELECT {self.one('', 'DISTINCT ')}{items} FROM {source}{where}"

    def grouped(self, width: int, source: str, names: list[str], where: str, depth: int) -> str:
        keys = [self.one(*names) for _ in range(self.random.randrange(3))]
        shown = [self.one(*keys) if keys and self.often(0.6) else self.any_aggregate(names) for _ in range(width)]
        items = ", ".join(f"{item} AS o{i}" for i, item in enumerate(shown))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = ""
        if keys and self.often(0.6):
            other = self.one("1", "2", "3", self.aggregate(names), *keys)
            having = f" HAVING {self.aggregate(names)} {self.one(*SIGNS)} {other}"
            if self.often(0.3):
                having += (
                    f" {self.one('AND', 'OR')} NOT {self.aggregate(names)} {self.one(*SIGNS)} {self.one('1', '2')}"
                )
        return f"SELECT {items} FROM {source}{where}{group}{having}"

    def windowed(self, width: int, source: str, names: list[str], where: str) -> str:
        name, order = self.one(*names), ", ".join(self.random.sample(names, len(names)))
        part = f"PARTITION BY {self.one(*names)} " if self.often(0.5) else ""
        call = self.one("row_number()", "rank()", "dense_rank()", "count(*)", f"sum({name})", f"max({name})",
                        f"lag({name})", f"lead({name}, 1, 0)", f"first_value({name})")  # fmt: skip
        over = f"{call} OVER ({part}ORDER BY {order})"
        if self.kind == "duckdb" and self.often(0.3):
            items = ", ".join(f"{self.one(*names)} AS o{i}" for i in range(width))
            return f"SELECT {items} FROM {source}{where} QUALIFY {over} {self.one(*SIGNS)} 1"
        shown = [over, *(self.one(*names) for _ in range(width - 1))]
        items = ", ".join(f"{item} AS o{i}" for i, item in enumerate(shown))
        return f"SELECT {items} FROM {source}{where}"

    def query(self, width: int, depth: int) -> str:
        """SELECTs put together by set operations, cut by LIMIT, or recursion."""
        kind = self.random.randrange(14)
        if kind <= 6:
            return self.select(width, depth)
        parts = [self.select(width, max(depth - 1, 0)) for _ in range(self.random.randint(2, 3))]
        words = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", *(["EXCEPT ALL", "INTERSECT ALL"] if self.rich else [])]
        columns = [f"o{i}" for i in range(width)]
        order = ", ".join(columns)
        if kind <= 9:
            return "".join(p + (f" {self.one(*words)} " if i < len(parts) - 1 else "") for i, p in enumerate(parts))
        if kind == 10:
            down = ", ".join(f"{c} {self.one('', 'DESC')}" for c in columns)
            offset = self.one("", " OFFSET 1")
            return (
                f"SELECT {order} FROM ({parts[0]}) AS {self.alias()} ORDER BY {down} LIMIT {self.one('1', '2')}{offset}"
            )
        if kind == 11 and self.rich:
            return f"SELECT DISTINCT ON (o0) {order} FROM ({parts[0]}) AS {self.alias()} ORDER BY {order}"
        if kind == 12:
            return self.recursion(width)
        name = self.alias()
        first, second = self.alias(), self.alias()
        shown = ", ".join(f"{self.one(first, second)}.o{i} AS o{i}" for i in range(width))
        side = self.one("", "LEFT ")
        return (f"WITH {name} AS ({parts[0]}) SELECT {shown} FROM {name} AS {first} {side}JOIN {name} AS {second} "
                f"ON {first}.{self.one(*columns)} = {second}.{self.one(*columns)}")  # fmt: skip

    def recursion(self, width: int) -> str:
        """Paths over a table of two columns, alone or counted."""
        table = self.one("e", "u", "r", "s", "ve")
        source, target = self.tables[table]
        start = self.one("SELECT 1", f"SELECT {source} FROM {table}", "SELECT a FROM u")
        name, link = self.alias(), self.alias()
        head = (f"WITH RECURSIVE {name}(n) AS ({start} UNION SELECT {link}.{target} FROM {name} JOIN {table} AS {link} "
                f"ON {link}.{source} = {name}.n)")  # fmt: skip
        shown = ["n", self.one("n", "n + 1", "1")][:width]
        if self.often(0.3):
            shown = ["count(*)", "max(n)"][:width]
        items = ", ".join(f"{item} AS o{i}" for i, item in enumerate(shown))
        return f"{head} SELECT {items} FROM {name}{self.one('', ' WHERE n > 1')}"


def wide_query(seed: int, kind: str) -> str:
    drawn = Wide(seed, kind)
    return drawn.query(drawn.random.randint(1, 2), 2)


def read(answers: Answers) -> dict[Row, float]:
    """Answer -> probability."""
    found: dict[Row, float] = {}
    columns = answers.arrow().select(range(len(answers.labels))).to_pylist()
    for row, prob in zip(columns, answers.prob.tolist(), strict=True):
        key = tuple(plain(v) for v in row.values())
        assert key not in found, f"the answer {key} came twice"
        found[key] = prob
    return found


def _ways(db: ProbDB, sql: str) -> dict[str, dict[Row, float]]:
    """What each way that answers a query says; first the one that is chosen, then the weaker ones."""
    found: dict[str, dict[Row, float]] = {}
    way: str | None = None
    tried: set[str] = set()
    while len(tried) < len(WAYS):
        try:
            answers = db.sql(sql, way=way, aggregates="rows")
        except UnsupportedSQL:
            if way is None:
                return {}
            tried.add(way)
        else:
            assert answers.met and set(answers.counts.guarantee) <= {"exact"}, f"{way} is not exact: {sql}"
            route = answers.plan()
            tried |= {route.way, *(refused for refused, _ in route.refusals)}
            found[route.way] = read(answers)
        way = next((name for name in WAYS if name not in tried), None)
        if way is None:
            break
    return found


def disagreements(database: Database, world: World, queries: list[str]) -> tuple[list[str], list[list[str]]]:
    """What is wrong with the answers of any way to any query, and which ways answered each; no way answers: refused."""
    create(database, world)
    db = declared(database, world)
    said = [_ways(db, sql) for sql in queries]
    truth = expected_answers(database, world, queries)
    wrong = [
        f"{sql}\n  by {way}: " + "\n    ".join(lines)
        for sql, ways, right in zip(queries, said, truth, strict=True)
        for way, mine in ways.items()
        if (lines := differences(mine, right))
    ]
    return wrong, [list(ways) for ways in said]
