"""What people see in a prompt and in a notebook."""

from __future__ import annotations

import duckdb

import sharpdnf
from sharpdnf import DNF, Circuit
from sharpdnf.generate import generate


def test_an_estimate_shows_itself_by_its_answer() -> None:
    dnf = DNF.from_clauses([[1, -2], [3]], prob={1: 0.3, 2: 0.4, 3: 0.1})
    assert repr(sharpdnf.count(dnf)).startswith("Estimate(0.262 in [0.262, 0.262], exact")
    hard = generate("paper", 1, num_vars=2000, num_clauses=1000, width=13)
    shown = repr(sharpdnf.count(hard, engine="sampling", rng=1))
    assert "within a factor 1 ± 0.1 with probability 0.95" in shown


def test_html_escapes_what_comes_from_data() -> None:
    dnf = DNF.parse("a & b", {"a": 0.5, "b": 0.5})
    named = DNF.from_clauses([[1]], [0.5], names=["<script>"])
    assert "a &amp; b" in dnf._repr_html_()
    assert "<script>" not in named._repr_html_() and "&lt;script&gt;" in named._repr_html_()
    assert "gates" in Circuit.from_dnf(dnf)._repr_html_()
    assert "exact" in sharpdnf.count(dnf)._repr_html_()


def test_answers_show_their_first_rows() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range AS k, '<b>' AS s, 0.5 AS p FROM range(50)")
    db = sharpdnf.connect(connection)
    db.uncertain("t", prob="p")
    shown = db.sql("SELECT k, s FROM t")._repr_html_()
    assert "50 rows in all" in shown and "&lt;b&gt;" in shown and "<b>" not in shown
