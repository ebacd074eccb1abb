"""ProvSQL's own regression tests, answered here: how many of its probabilities we give, and whether they are the same.

Run by hand: ``python benchmarks/provsql.py FOLDER [FILE ...]`` with the folder ``test`` of a clone of ProvSQL's
repository; it starts a PostgreSQL server of its own. A test is a script of statements and the text that psql prints.
Statements that ask for a probability are translated: ``add_provenance`` and ``set_prob`` become a column of
probabilities, ``repair_key`` blocks, ``probability_evaluate(provenance(), ...)`` becomes ``prob()``, whatever the
method. The table that a query makes is filled with our answers, and what the script shows of it is compared with what
ProvSQL printed. Writes results/provsql.csv, one line a test file.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import sqlglot
from psql_text import Printed, alike, printed, shown, statements
from sqlglot import exp

from sharpdnf.errors import SQLError
from sharpdnf.sql import ProbDB, connect

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from sql_servers import private_postgres

P = "sharpdnf_p"
RIGHT, WRONG, REFUSED, FOREIGN, UNSEEN = "right", "differs", "refused", "not translated", "not shown"
OTHER = re.compile(
    r"\b(sr_\w+|provenance_evaluate|shapley|banzhaf\w*|where_provenance|view_circuit|get_gate_type|get_children|"
    r"compile_to\w+|tseytin\w+|get_infos|identify_token|ddnnf\w*|random_variable|normal|uniform|exponential|given|"
    r"condition\w*|expected|variance|moment|mixture|as_random|provenance_\w+|get_prob|choose|nonzero|present|rv_\w+|"
    r"agg_token\w*|probability_bounds|last_eval\w*)\s*\(", re.I)  # fmt: skip
FAMILIES = {
    "random variables": r"random_variable|normal|uniform|exponential|expected|variance|moment|mixture|as_random|rv_",
    "conditioning": r"given|condition",
    "semirings and formulas": r"sr_|provenance_evaluate|where_provenance|nonzero|present|formula",
    "Shapley and Banzhaf values": r"shapley|banzhaf",
    "aggregates as tokens": r"agg_token|choose",
}
REVIEWED = {
    "continuous_rangecheck_having": "it lists groups of probability 0",
    "mixed_selection": "it lists groups of probability 0",
    "independent": "its method refuses the query, so nothing is printed",
    "join_syntax_equivalence": "a bag: equal rows are listed one by one, each with its own probability",
    "scalar_subquery": "twice a bag; once it takes the subquery for certain, with a warning",
    "last_eval_method": "what is printed is no probability",
    "nested_agg_refuse": "the same number, marked (*)",
    "having_agg_fptras": "drawn worlds are within epsilon, and it asks for more digits",
}
"""Why the answers of a test differ, looked at by hand."""
HELPERS = """
CREATE FUNCTION probability_evaluate(x float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE FUNCTION probability_evaluate(x float8, m text) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE FUNCTION probability_evaluate(x float8, m text, a text) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE FUNCTION probability(x float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT x';
"""


def family(query: str) -> str:
    """What a query that is not translated needs."""
    called = " ".join(found[1].lower() for found in OTHER.finditer(query))
    return next((name for name, words in FAMILIES.items() if re.search(words, called)), "circuits and other functions"
                if called else "a table that keeps the provenance of others")  # fmt: skip


class Script:
    """One test file, statement by statement."""

    def __init__(self, connection: psycopg.Connection[Any], expected: list[Printed]) -> None:
        self.connection, self.expected, self.at = connection, expected, 0
        self.db: ProbDB = connect(connection)
        self.tracked: dict[str, str | None] = {}
        self.declared: set[str] = set()
        self.variables: dict[str, str] = {}
        self.open: dict[str, list[tuple[str, str]]] = {}
        """Tables that are made of our answers: the queries whose answers nobody has looked at yet."""
        self.foreign: set[str] = set()
        self.views: set[str] = set()
        self.outcomes: list[tuple[str, str, str]] = []
        """(outcome, query, remark) of every query that asks for a probability."""

    # ---- statements

    def run(self, sql: str) -> None:
        for name, value in self.variables.items():
            sql = re.sub(rf":'{name}'(::uuid)?", f"({value})::float8", sql)
        sql = re.sub(r"\bprovsql\.(?=\w+\()", "", sql)
        low = sql.lower()
        if "\0" in sql:
            command, data = sql.split("\0")
            with self.connection.cursor().copy(command) as target:
                target.write(data)
            return
        if not sql or low.startswith(("set ", "reset ", "select set_config", "show ")):
            return
        if found := re.match(r"select\s+(?:provsql\.)?add_provenance\('(\w+)'\)", low):
            return self.track(found[1], None)
        if found := re.match(r"select\s+(?:provsql\.)?repair_key\('(\w+)'\s*,\s*'(\w*)'\)", low):
            return self.track(found[1], found[2])
        if found := re.match(r"select\s+(?:provsql\.)?remove_provenance\('(\w+)'\)", low):
            return self.untrack(found[1])
        if found := re.match(r"drop\s+table\s+(?:if\s+exists\s+)?([\w\s,]+?)(?:\s+cascade)?$", low):
            for name in re.split(r"\s*,\s*", found[1].strip()):
                self.forget(name)
                if name in self.views:
                    self.views.discard(name)
                    self.execute(f"DROP VIEW {name}")
                    return None
        if found := re.match(r"update (\w+) set provsql = replace_input\(provsql, ([0-9.]+)\)", low):
            return self.execute(f"UPDATE {found[1]} SET {P} = {found[2]}")
        copied = re.match(r"insert into (\w+)[\s(].*\bselect\b(.*)", low, re.S)
        if copied and copied[1] in self.tracked and self.reads(copied[2], self.tracked):
            self.foreign.add(copied[1])  # its rows keep the provenance of others
            return None
        if "set_prob(" in low:
            return self.probabilities(sql)
        if found := re.match(
            r"select \* from \w+\(\s*'(?:[^']|'')*'\s*,\s*'((?:[^']|'')*provenance\(\)(?:[^']|'')*)'", sql, re.I
        ):
            return self.helper(found[1].replace("''", "'"))
        if re.search(r"\bprovenance\(\)", low) or re.search(r"\bprobability(_evaluate)?\(", low):
            return self.ask(sql)
        self.plain(sql)

    def track(self, table: str, block: str | None) -> None:
        if table in self.tracked:
            return
        self.execute(f"ALTER TABLE {table} ADD COLUMN {P} float8 DEFAULT 1.0")
        if block == "":
            block = "sharpdnf_block"
            self.execute(f"ALTER TABLE {table} ADD COLUMN {block} int DEFAULT 1")
        if block is not None:
            self.execute(f"UPDATE {table} SET {P} = 1.0 / (SELECT count(*) FROM {table} other "
                         f"WHERE other.{block} IS NOT DISTINCT FROM {table}.{block})")  # fmt: skip
        self.tracked[table] = block

    def untrack(self, table: str) -> None:
        if table in self.tracked:
            self.forget(table)
            self.execute(f"ALTER TABLE {table} DROP COLUMN {P}")

    def forget(self, table: str) -> None:
        if table in self.declared:
            self.db.forget(table)
            self.declared.discard(table)
        self.tracked.pop(table, None)
        self.foreign.discard(table)
        self.outcomes += [(UNSEEN, query, "dropped") for query, _ in self.open.pop(table, [])]

    def probabilities(self, sql: str) -> None:
        """set_prob(token, value) FROM ... as an UPDATE of the column of probabilities."""
        for body in re.findall(r"(?:PERFORM|SELECT)\s+((?:provsql\.)?set_prob\(.*?)(?:;|$)", sql, re.S | re.I):
            tree = sqlglot.parse_one("SELECT " + body, read="postgres")
            call = next(c for c in tree.find_all(exp.Anonymous) if c.name.lower() == "set_prob")
            table = next((t for t in tree.find_all(exp.Table) if t.name.lower() in self.tracked), None)
            if table is None:  # of a table that was made of others
                self.foreign |= {t.name.lower() for t in tree.find_all(exp.Table)}
                continue
            value = call.expressions[1].sql("postgres")
            rest = tree.copy()
            rest.set("expressions", [])
            tail = rest.sql("postgres").removeprefix("SELECT").strip()
            self.execute(f"UPDATE {table.name} SET {P} = found.v FROM (SELECT {table.alias_or_name}.ctid AS c, "
                         f"({value})::float8 AS v {tail}) found WHERE {table.name}.ctid = found.c")  # fmt: skip

    def helper(self, query: str) -> None:
        """A function of the tests that runs a query given as text and shows the probabilities of its rows."""
        theirs = self.next_table()
        rows = self.answer(query)
        if isinstance(rows, str):
            self.outcomes.append((rows.split(":")[0], query, rows))
            return
        column = next((theirs.header.index(n) for n in ("p", "p_off") if n in theirs.header), None) if theirs else None
        if theirs is None or column is None:
            self.outcomes.append((UNSEEN, query, "no probability is shown"))
            return
        want = [[row[column]] for row in theirs.rows]
        mine = [[shown(row[-1])] for row in rows[1]]
        right = alike(mine, want, [0])
        self.outcomes.append((RIGHT if right else WRONG, query, f"{mine} for {want}"))

    def ask(self, sql: str) -> None:
        """A statement with probabilities: what reads uncertain rows is answered here, the rest by PostgreSQL."""
        gset = sql.endswith("\\gset")
        sql = sql.removesuffix("\\gset").strip()
        made = re.match(r"create\s+(?:temp\w*\s+)?table\s+(\w+)\s+as\s+(.*)", sql, re.I | re.S)
        query = made[2] if made else sql
        if not re.match(r"\(?\s*(select|with|values)", query, re.I):
            return
        query = (
            re.sub(r",\s*provenance\(\)\s*(?=$|having|order)", " ", query, flags=re.I)
            if "group by" in query.lower()
            else query
        )
        if OTHER.search(query) or self.reads(query, self.foreign):
            self.outcomes.append((FOREIGN, sql, family(query)))
            if made:
                self.foreign.add(made[1].lower())
            elif not gset:
                self.next_table()
            return
        if not re.search(r"\bprovenance\(\)", query, re.I):
            return self.plain(sql)
        rows = self.answer(query)
        if isinstance(rows, str):
            self.outcomes.append((rows.split(":")[0], query, rows))
            if made:
                self.foreign.add(made[1].lower())
            elif not gset:
                self.next_table()
            return
        if gset:
            for name, value in zip(rows[0], rows[1][0] if rows[1] else [], strict=False):
                self.variables[name] = str(value)
            self.open.setdefault(":" + rows[0][0], []).append((query, ""))
        elif made:
            self.fill(made[1], rows)
            self.open.setdefault(made[1].lower(), []).append((query, ""))
        else:
            self.compare(query, rows, [(query, "")])

    def inherit(self, sql: str) -> bool:
        """A table made of a query over uncertain rows keeps its provenance: here it becomes a view."""
        made = re.match(r"create\s+(?:temp\w*\s+)?table\s+(\w+)\s+as\s+(.*)", sql, re.I | re.S)
        if made is None or not self.reads(made[2], [*self.tracked, *self.views]) or OTHER.search(made[2]):
            return False
        self.execute(f"CREATE VIEW {made[1]} AS {made[2]}")
        self.views.add(made[1].lower())
        return True

    def plain(self, sql: str) -> None:
        if self.inherit(sql):
            return
        gset = sql.endswith("\\gset")
        sql = sql.removesuffix("\\gset").strip()
        used = [name for name in self.open if re.search(rf"\b{name.lstrip(':')}\b", sql, re.I) or name[0] == ":"]
        if self.reads(sql, self.foreign):
            if re.match(r"\s*(select|with)", sql, re.I):
                self.next_table()
            return
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql)
        except psycopg.Error as error:
            if used:
                print("        PostgreSQL:", str(error).splitlines()[0], sql[:100])
            return
        if cursor.description is None:
            return
        rows = ([d.name for d in cursor.description], [list(r) for r in cursor.fetchall()])
        if gset:
            for name, value in zip(rows[0], rows[1][0] if rows[1] else [], strict=False):
                self.variables[name] = str(value)
            return
        if used and re.match(r"\(?\s*(select|with)", sql, re.I) and not re.match(r"select\s+set_", sql, re.I):
            self.compare(sql, rows, [entry for name in used for entry in self.open.pop(name)])

    # ---- answers

    def reads(self, sql: str, names: Any) -> bool:
        return any(re.search(rf"\b{re.escape(name)}\b", sql, re.I) for name in names)

    def answer(self, query: str) -> tuple[list[str], list[list[Any]]] | str:
        """The answers to a query in which provenance() stands for the probability, or why there are none."""
        for table, block in self.tracked.items():
            if table not in self.declared:
                try:
                    self.db.uncertain(table, prob=P, block=block)
                except SQLError as error:
                    return f"{FOREIGN}: {error}"
                self.declared.add(table)
        try:
            tree = sqlglot.parse_one(query, read="postgres")
        except sqlglot.ParseError as error:
            return f"{FOREIGN}: {error}"
        for call in list(tree.find_all(exp.Anonymous)):
            if call.name.lower() in ("probability_evaluate", "probability") and call.expressions and (
                isinstance(call.expressions[0], exp.Anonymous) and call.expressions[0].name.lower() == "provenance"
            ):  # fmt: skip
                call.replace(exp.Anonymous(this="prob"))
        for call in list(tree.find_all(exp.Anonymous)):
            if call.name.lower() == "provenance":
                call.replace(exp.Anonymous(this="prob"))
        for item in [i for select in tree.find_all(exp.Select) for i in select.expressions]:
            if item.unalias().name.lower() == "prob" and item.alias_or_name.lower() in ("", "prob"):
                item.unalias().replace(sqlglot.parse_one("prob() + 0.0", read="postgres"))  # a column of its own
        calls = [c for c in tree.find_all(exp.Anonymous) if c.name.lower() == "prob"]
        inner = [s for s in tree.find_all(exp.Select) if s is not tree
                 and any(c.find_ancestor(exp.Select) is s for c in calls)]  # fmt: skip
        for number, select in enumerate(reversed(inner)):
            rows = self.solve(select.sql("postgres"))
            if isinstance(rows, str):
                return rows
            name = f"sharpdnf_inner{number}"
            self.execute(f"DROP TABLE IF EXISTS {name}")
            self.fill(name, rows)
            select.replace(sqlglot.parse_one(f"SELECT * FROM {name}", read="postgres"))
        text = tree.sql("postgres")
        if not inner:
            return self.solve(text)
        if re.search(r"\bprob\(\)", text, re.I):
            return f"{FOREIGN}: provenance inside and outside"
        try:
            cursor = self.connection.execute(text)
        except psycopg.Error as error:
            return f"{FOREIGN}: {error}"
        assert cursor.description is not None
        return [d.name for d in cursor.description], [list(r) for r in cursor.fetchall()]

    def solve(self, sql: str) -> tuple[list[str], list[list[Any]]] | str:
        try:
            found = self.db.sql(sql, aggregates="rows", timeout=60.0)
        except SQLError as error:
            missing = re.match(r"no table or view|PostgreSQL: function", str(error))
            return f"{FOREIGN if missing else REFUSED}: {error}"
        labels = list(found.labels)
        table = found.arrow().select(range(len(labels))).to_pylist()
        return labels, [list(row.values()) for row in table]

    def fill(self, name: str, rows: tuple[list[str], list[list[Any]]]) -> None:
        """A plain table of answers."""
        kinds = []
        for i in range(len(rows[0])):
            first = next((r[i] for r in rows[1] if r[i] is not None), None)
            kinds.append("boolean" if isinstance(first, bool) else "bigint" if isinstance(first, int)
                         else "text" if isinstance(first, str) else "float8" if isinstance(first, float)
                         else "bigint[]" if isinstance(first, list) else "numeric")  # fmt: skip
        columns = ", ".join(f'"{c}" {k}' for c, k in zip(rows[0], kinds, strict=True))
        self.execute(f"CREATE TABLE {name} ({columns})")
        for row in rows[1]:
            marks = ", ".join(["%s"] * len(row))
            self.connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)

    # ---- what ProvSQL printed

    def next_table(self, header: list[str] | None = None, first: str | None = None) -> Printed | None:
        """The next table that was printed, with this header; better one that begins with the same value."""
        quiet = ("add_provenance", "remove_provenance", "repair_key", "create_provenance_mapping")
        found = [i for i in range(self.at, len(self.expected)) if self.expected[i].error is None
                 and self.expected[i].header[0] not in quiet
                 and (header is None or self.expected[i].header == header)]  # fmt: skip
        near = [i for i in found[:8] if self.expected[i].rows and self.expected[i].rows[0][0] == first]
        if not found:
            return None
        place = near[0] if near and not (first or "1").replace(".", "").isdigit() else found[0]
        self.at = place + 1
        return self.expected[place]

    def compare(self, sql: str, rows: tuple[list[str], list[list[Any]]], queries: list[tuple[str, str]]) -> None:
        theirs = self.next_table(rows[0], shown(rows[1][0][0]) if rows[1] else None)
        if theirs is None:
            self.outcomes += [(UNSEEN, query, f"no table {rows[0]}") for query, _ in queries]
            return
        mine = [[shown(v) for v in row] for row in rows[1]]
        probs = [i for i, name in enumerate(rows[0]) if re.search(r"^pr?$|^p_|prob|_p$|^round$|existence|_kept$", name)]
        right = alike(mine, theirs.rows, probs)
        remark = "" if right else f"ours {mine}, theirs {theirs.rows}"
        self.outcomes += [(RIGHT if right else WRONG, query, remark) for query, _ in queries]

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)


def run_file(folder: Path, name: str, address: str, preamble: list[str]) -> list[tuple[str, str, str]]:
    """The outcome of every query of a test that asks for a probability."""
    output = next(iter(sorted((folder / "expected").glob(f"{name}.out"))), None)
    expected = printed(output.read_text()) if output else []
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS provsql_test CASCADE")
        connection.execute("CREATE SCHEMA provsql_test")
        connection.execute("SET search_path = provsql_test")
        connection.execute(HELPERS)
        script = Script(connection, expected)
        for before in preamble:
            for sql in statements((folder / "sql" / f"{before}.sql").read_text()):
                attempt(script, sql)
        script.outcomes.clear()
        script.open.clear()
        script.foreign.clear()
        script.at = 0
        for sql in statements((folder / "sql" / f"{name}.sql").read_text()):
            attempt(script, sql)
        script.outcomes += [(UNSEEN, query, "") for entries in script.open.values() for query, _ in entries]
        script.db.close()
    return script.outcomes


def attempt(script: Script, sql: str) -> None:
    """A statement that PostgreSQL without ProvSQL does not take is left out."""
    try:
        script.run(sql)
    except (psycopg.Error, LookupError, sqlglot.ParseError) as error:
        if re.search(r"probability_evaluate|provenance\(\)", sql) and not re.match(r"do|create (or|func)", sql, re.I):
            script.outcomes.append((FOREIGN, sql, f"{type(error).__name__}: {error}"))


def _need(why: str) -> str:
    """What a statement that was not translated needs, in a few words."""
    if why.startswith(FOREIGN):
        return (
            "a table or function that is not there" if "no table" in why or "function" in why else "circuits and other"
        )
    return "circuits and other functions" if ":" in why else why


def main(folder: Path, names: list[str]) -> None:
    files = names or sorted(path.stem for path in (folder / "sql").glob("*.sql"))
    lines = []
    total: Counter[str] = Counter()
    needs: Counter[str] = Counter()
    with private_postgres() as address:
        for name in files:
            text = (folder / "sql" / f"{name}.sql").read_text()
            if not re.search(r"probability_evaluate\(|probability\(", text):
                continue
            preamble = ["add_provenance", "probability_setup"] if name not in ("add_provenance",) else []
            outcomes = run_file(folder, name, address, preamble)
            counts = Counter(outcome for outcome, _, _ in outcomes)
            total += counts
            remark = REVIEWED.get(name, "not looked at") if counts[WRONG] else ""
            lines.append([name, *(counts[k] for k in (RIGHT, WRONG, REFUSED, FOREIGN, UNSEEN)), remark])
            needs.update(_need(why) for outcome, _, why in outcomes if outcome == FOREIGN)
            print(name, dict(counts), flush=True)
            for outcome, query, remark in outcomes:
                if names or outcome in (WRONG, REFUSED, UNSEEN):
                    print(f"    {outcome}: {' '.join(query.split())}\n        {remark}", flush=True)
    print(dict(total), dict(needs), sep="\n")
    if not names:
        with open(Path(__file__).parent / "results" / "provsql.csv", "w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["test", "right", "differs", "refused", "not_translated", "not_shown", "why_it_differs"])
            writer.writerows(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
