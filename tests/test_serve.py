"""The service as a client sees it, its numbers against the library's; what it refuses is in test_serve_limits.py."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_client import events, httpx, new_session, serving

import sharpdnf
from sharpdnf import faulttree, network
from sharpdnf.serve.app import ROUTES
from sharpdnf.serve.openapi import SCHEMAS, STREAMS
from sharpdnf.serve.settings import ServiceLimits, Settings
from sharpdnf.serve.stories import STORIES, story_files

EDGES = b"src,dst,p\n1,2,0.5\n2,3,0.25\n1,3,0.125\n3,4,0\n3,5,1\n"
PATHS = "SELECT DISTINCT a.src, b.dst FROM edge a JOIN edge b ON a.dst = b.src"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    mounted = tmp_path_factory.mktemp("mounted") / "city.csv"
    mounted.write_text("name,p\nRome,0.5\nOslo,0.9\n")
    with serving(Settings(mounts=(("city", str(mounted)),), limits=ServiceLimits(workers=2, seconds=20))) as client:
        yield client


@pytest.fixture
def session(client: Any) -> Iterator[str]:
    path = new_session(client)
    yield path
    client.delete(path)


def with_edges(client: Any, session: str) -> None:
    assert client.post(f"{session}/tables?name=edge&format=csv", content=EDGES).status_code == 201
    marked = client.put(f"{session}/tables/edge/uncertain", json={"prob": "p", "block": None})
    assert marked.status_code == 200, marked.text


def library() -> sharpdnf.ProbDB:
    import pyarrow.csv

    db = sharpdnf.connect()
    db.register("edge", pyarrow.csv.read_csv(io.BytesIO(EDGES)), prob="p")
    return db


def test_a_table_is_shown_with_its_columns_and_rows(client: Any, session: str) -> None:
    table = client.post(f"{session}/tables?name=edge&format=csv", content=EDGES).json()
    assert table["rows"] == 5
    assert [column["name"] for column in table["columns"]] == ["src", "dst", "p"]
    assert table["preview"][0] == [1, 2, 0.5]
    assert client.get(session).json()["tables"][-1] == table
    page = client.get(f"{session}/tables/edge?offset=3&limit=1").json()
    assert page == {"rows": [[3, 4, 0.0]], "offset": 3, "total": 5}
    assert client.delete(f"{session}/tables/edge").status_code == 204
    assert client.get(f"{session}/tables/edge").status_code == 404


def test_parquet_is_read(client: Any, session: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2**60], "when": pa.array([0, 1], pa.date32())}), sink)
    table = client.post(f"{session}/tables?name=t&format=parquet", content=sink.getvalue()).json()
    assert table["preview"] == [[1, "1970-01-01"], [str(2**60), "1970-01-02"]]


def test_problems_stand_at_their_rows_and_queries_are_refused(client: Any, session: str) -> None:
    client.post(f"{session}/tables?name=t&format=csv", content=b"x,p\n1,0.5\n2,1.3\n3,\n4,-1\n")
    table = client.put(f"{session}/tables/t/uncertain", json={"prob": "p"}).json()
    assert [problem["row"] for problem in table["problems"]] == [2, 3, 4]
    assert table["problems"][0]["message"] == "p is 1.3: a probability lies in [0, 1]"
    refused = client.post(f"{session}/sql", json={"query": "SELECT x FROM t"})
    assert refused.status_code == 422
    assert refused.json()["error"]["where"] == {"table": "t", "row": 2, "column": "p"}
    table = client.put(f"{session}/tables/t/uncertain", json={"prob": "x / 10"}).json()
    assert table["problems_total"] == 0
    answers = client.post(f"{session}/sql", json={"query": "SELECT x FROM t"}).json()
    assert answers["prob"] == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_blocks_must_add_up_to_one_at_most(client: Any, session: str) -> None:
    client.post(f"{session}/tables?name=t&format=csv", content=b"k,p\na,0.7\nb,0.2\na,0.7\n")
    table = client.put(f"{session}/tables/t/uncertain", json={"prob": "p", "block": "k"}).json()
    assert table["block"] == "k" and table["problems_total"] == 1 and table["problems"][0]["row"] == 1
    wrong = client.put(f"{session}/tables/t/uncertain", json={"prob": "p", "block": "kk"})
    assert wrong.status_code == 422 and "did you mean 'k'" in wrong.json()["error"]["message"]


def test_answers_are_those_of_the_library(client: Any, session: str) -> None:
    with_edges(client, session)
    asked = {"query": PATHS, "seed": 7, "guarantee": "relative", "epsilon": 0.2}
    said = client.post(f"{session}/sql", json=asked).json()
    expected = library().sql(PATHS, guarantee="relative", epsilon=0.2, rng=7)
    assert said["final"] and said["total"] == len(expected)
    assert said["rows"] == [[row["src"], row["dst"]] for row in expected]
    assert said["prob"] == expected.prob.tolist()
    streamed = events(client, f"{session}/sql", asked)
    assert streamed[0][0] == "started" and streamed[-1][0] == "answers"
    assert streamed[-1][1]["prob"] == expected.prob.tolist() and streamed[-1][1]["final"]


def test_coarse_answers_are_not_passed_off_as_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the time is up in the last round, the answers of the round before come back, and say that they are not met."""
    from sharpdnf.errors import SQLTimeout
    from sharpdnf.serve.tablework import TableWork

    seen: list[tuple[str, dict[str, Any]]] = []

    class Watching:
        def event(self, name: str, value: dict[str, Any]) -> None:
            seen.append((name, value))

        def progress(self, fraction: float | None, text: str) -> None: ...

    with library() as db:
        work, real = TableWork(db, Watching()), db.sql

        def slow(query: str, *, epsilon: float, **options: Any) -> Any:
            if epsilon < 0.2:
                raise SQLTimeout("late")
            answers = real(query, epsilon=epsilon, **options)
            answers.counts.guarantee[0] = "relative"
            return answers

        monkeypatch.setattr(db, "sql", slow)
        said = work.query("r", PATHS, {"seconds": 5.0, "epsilon": 0.1}, stream=True)
        assert said["final"] and said["met"][0] is False and all(said["met"][1:])
        assert [(name, value["final"]) for name, value in seen] == [("answers", False)] * 2
        with pytest.raises(SQLTimeout, match="longer than 5 seconds"):
            work.query("r", PATHS, {"seconds": 5.0, "epsilon": 0.1}, stream=False)


def test_a_mounted_table_can_be_read_and_not_deleted(client: Any, session: str) -> None:
    assert client.get(session).json()["tables"][0]["mounted"]
    client.put(f"{session}/tables/city/uncertain", json={"prob": "p"})
    answers = client.post(f"{session}/sql", json={"query": "SELECT name FROM city"}).json()
    assert dict(zip([row[0] for row in answers["rows"]], answers["prob"], strict=True)) == {"Rome": 0.5, "Oslo": 0.9}
    assert client.delete(f"{session}/tables/city").status_code == 422
    assert client.post(f"{session}/tables?name=City&format=csv", content=b"a\n1\n").status_code == 422


def test_evidence_changes_the_answer(client: Any, session: str) -> None:
    with_edges(client, session)
    given = "SELECT 1 FROM edge WHERE src = 1 AND dst = 2"
    query = "SELECT DISTINCT src FROM edge WHERE src = 1"
    said = client.post(f"{session}/sql", json={"query": query, "given": given}).json()
    assert said["prob"] == library().sql(query, given=given).prob.tolist() == pytest.approx([1.0])


def test_an_answer_is_explained_and_changed(client: Any, session: str) -> None:
    """P(1 reaches 3 in two or one steps) = 1 - (1 - ab)(1 - c): by hand."""
    with_edges(client, session)
    query = f"{PATHS} WHERE a.src = 1 AND b.dst = 3 UNION SELECT src, dst FROM edge WHERE src = 1 AND dst = 3"
    run = client.post(f"{session}/sql", json={"query": query}).json()["run"]
    detail = client.get(f"/api/runs/{run}/answers/0").json()
    a, b, c = 0.5, 0.25, 0.125
    assert detail["exact"] and detail["prob"] == pytest.approx(1 - (1 - a * b) * (1 - c))
    influence = {row["id"]: row["influence"] for row in detail["rows"]}
    assert influence == pytest.approx({"edge:1": b * (1 - c), "edge:2": a * (1 - c), "edge:3": 1 - a * b})
    assert sorted(map(sorted, detail["clauses"])) == [["edge:1", "edge:2"], ["edge:3"]]
    assert detail["svg"].startswith("<svg")
    changed = client.post(f"/api/runs/{run}/answers/0/whatif", json={"prob": {"edge:2": 1.0, "edge:3": 0.0}}).json()
    assert changed["prob"] == pytest.approx(a) and changed["guarantee"] == "exact"
    for bad in ({"edge:9": 0.5}, {"edge:1": 1.5}, {"edge:1": True}, [1]):
        assert client.post(f"/api/runs/{run}/answers/0/whatif", json={"prob": bad}).status_code == 422
    assert client.get(f"/api/runs/{run}/answers/7").status_code == 404


def test_answers_survive_the_end_of_their_process(client: Any, session: str) -> None:
    with_edges(client, session)
    said = client.post(f"{session}/sql", json={"query": PATHS}).json()
    before = client.get(f"/api/runs/{said['run']}/answers/0").json()
    kill_workers(client)
    assert client.get(f"/api/runs/{said['run']}/answers/0").json() == before
    client.put(f"{session}/tables/edge/uncertain", json={"prob": "p / 2"})
    changed = client.get(f"/api/runs/{said['run']}/answers/0")
    assert changed.status_code == 409 and "run it again" in changed.json()["error"]["message"]


def kill_workers(client: Any) -> None:
    for process in list(client.pool._all):
        os.kill(process.number, signal.SIGKILL)
    time.sleep(0.2)


def test_answers_are_exported(client: Any, session: str) -> None:
    import pyarrow.parquet as pq

    with_edges(client, session)
    run = client.post(f"{session}/sql", json={"query": PATHS}).json()["run"]
    lines = client.get(f"/api/runs/{run}/export?format=csv").text.splitlines()
    assert lines[0].startswith('"src","dst","prob"') and len(lines) > 2
    table = pq.read_table(io.BytesIO(client.get(f"/api/runs/{run}/export?format=parquet").content))
    assert table.num_rows == len(lines) - 1
    assert client.get(f"/api/runs/{run}/export?format=xls").status_code == 422


FORMULAS = [
    ("text", "a & b | ~c", {"a": 0.5, "b": 0.3, "c": 0.9}),
    ("dnf", "p dnf 3 2\nw 1 0.3\n1 2 0\n-1 3 0\n", {}),
    ("auto", "p dnf 3 2\nw 1 0.3\n1 2 0\n-1 3 0\n", {}),
    ("mcc", "p dnf 2 1\nc p weight 1 0.4 0\nc p weight -1 0.6 0\n1 2 0\n", {}),
    ("nnf", "nnf 3 2 2\nL 1\nL 2\nA 2 0 1\n", {}),
    ("auto", "nnf 3 2 2\nL 1\nL 2\nA 2 0 1\n", {}),
    ("auto", "(a ^ b) & atleast(2, c, d, e)", {}),
]


@pytest.mark.parametrize(("form", "text", "prob"), FORMULAS)
def test_a_formula_in_any_format(client: Any, form: str, text: str, prob: dict[str, float]) -> None:
    said = client.post("/api/count", json={"formula": text, "format": form, "probabilities": prob, "seed": 1}).json()
    from sharpdnf.serve.formulawork import read_formula

    assert said["prob"] == sharpdnf.count(read_formula(text, form, prob), rng=1).prob
    assert said["low"] <= said["prob"] <= said["high"] and said["met"]


def test_circuit_json_is_a_format(client: Any) -> None:
    circuit = sharpdnf.Circuit.parse("(a | b) & ~c", {"a": 0.2, "b": 0.3, "c": 0.4})
    from sharpdnf.circuit_formats import to_json

    said = client.post("/api/count", json={"formula": to_json(circuit)}).json()
    assert said["prob"] == pytest.approx((1 - 0.8 * 0.7) * 0.6)


def test_marginals_and_influences_by_enumeration(client: Any) -> None:
    prob = {"a": 0.5, "b": 0.3, "c": 0.9}

    def total(**fixed: bool) -> float:
        worlds = itertools.product([False, True], repeat=3)
        out = 0.0
        for world in worlds:
            values = dict(zip("abc", world, strict=True))
            if all(values[name] == value for name, value in fixed.items()):
                weight = np.prod([prob[n] if v else 1 - prob[n] for n, v in values.items() if n not in fixed])
                out += weight * ((values["a"] and values["b"]) or not values["c"])
        return float(out)

    said = client.post("/api/marginals", json={"formula": "a & b | ~c", "probabilities": prob}).json()
    for variable in said["variables"]:
        name = variable["name"]
        assert variable["posterior"] == pytest.approx(prob[name] * total(**{name: True}) / total())
        assert variable["influence"] == pytest.approx(total(**{name: True}) - total(**{name: False}))
    said = client.post("/api/explain", json={"formula": "a & b | ~c", "probabilities": prob}).json()
    assert said["variables"][0]["name"] == "c" and said["svg"].startswith("<svg")
    said = client.post("/api/whatif", json={"formula": "a & b | ~c", "probabilities": prob, "prob": {"c": 0.0}}).json()
    assert said["prob"] == 1.0


def test_intervals_shrink_on_the_way(client: Any) -> None:
    text = sharpdnf.writes(hard_formula())
    asked = {"formula": text, "guarantee": "relative", "epsilon": 0.0015, "delta": 0.05, "seed": 3, "seconds": 15}
    found = events(client, "/api/count", asked)
    assert found[0] == ("started", {})
    answers = [value for name, value in found if name == "answer"]
    assert not any(value["final"] for value in answers[:-1]) and answers[-1]["final"]
    widths = [value["high"] - value["low"] for value in answers]
    assert len(widths) > 2 and widths[-1] < widths[0]
    if answers[-1]["met"]:
        expected = sharpdnf.count(sharpdnf.reads(text), guarantee="relative", epsilon=0.0015, rng=3, threads=1)
        assert answers[-1]["prob"] == expected.prob


def hard_formula() -> sharpdnf.DNF:
    rng = np.random.default_rng(0)
    clauses = [(rng.choice(2_000, 3, replace=False) + 1).tolist() for _ in range(1_500)]
    return sharpdnf.DNF.from_clauses(clauses, rng.uniform(0.05, 0.2, 2_000).tolist())


def test_a_network(client: Any, session: str) -> None:
    asked = client.post(f"{session}/stories/network").json()["network"]
    said = client.post("/api/network", json=asked).json()
    edges = [tuple(edge) for edge in asked["edges"]]
    assert said["prob"] == network.reliability(edges, "Lisbon", "Berlin").prob
    table = network.importance(edges, "Lisbon", "Berlin")
    assert said["edges"][int(table["link"][0])]["importance"] == max(edge["importance"] for edge in said["edges"])
    assert all(0 <= node["x"] <= 1 and 0 <= node["y"] <= 1 for node in said["nodes"])
    reach = client.post("/api/network", json={**asked, "question": "reach"}).json()
    assert {n["name"]: n["prob"] for n in reach["nodes"]}["Berlin"] == pytest.approx(said["prob"])
    for question, more in (("all-terminal", {}), ("k-terminal", {"terminals": ["Rome", "Oslo"]})):
        answer = client.post("/api/network", json={**asked, "question": question, **more})
        assert answer.status_code == (200 if question == "all-terminal" else 422)


def test_a_fault_tree(client: Any, session: str) -> None:
    asked = client.post(f"{session}/stories/faulttree").json()["faulttree"]
    said = client.post("/api/faulttree", json=asked).json()
    tree = faulttree.reads(asked["text"])
    assert said["prob"] == tree.probability().prob and said["top"] == "no-cooling"
    assert said["cut_sets_total"] == tree.cut_sets().total == len(said["cut_sets"])
    assert said["gates"][0]["name"] == "no-cooling" and "no-diesel/1" in said["gates"][-1]["inputs"] + [
        name for gate in said["gates"] for name in gate["inputs"]
    ]
    aralia = {"text": "top := (a & b) | c\np(a) = 0.1\np(b) = 0.2\np(c) = 0.01", "format": "aralia"}
    assert client.post("/api/faulttree", json=aralia).json()["prob"] == pytest.approx(1 - (1 - 0.02) * 0.99)
    broken = client.post("/api/faulttree", json={"text": "top := (a &\n | b)", "format": "aralia"})
    assert broken.status_code == 422 and broken.json()["error"]["where"] == {"line": 2}


@pytest.mark.parametrize("story", ["linkage", "sensors"])
def test_the_queries_of_a_story_have_answers(client: Any, session: str, story: str) -> None:
    said = client.post(f"{session}/stories/{story}").json()
    assert all(not table["problems_total"] for table in said["tables"])
    for query in said["queries"]:
        answers = client.post(f"{session}/sql", json={"query": query["sql"], "seed": 1})
        assert answers.status_code == 200 and answers.json()["total"] > 0, answers.text
        assert answers.json()["notes"] == []
        if query is said["queries"][0]:
            detail = client.get(f"/api/runs/{answers.json()['run']}/answers/0")
            assert detail.status_code == 200 and detail.json()["rows"], detail.text


def test_the_stories_are_listed_and_their_files_are_there(client: Any, session: str) -> None:
    assert [story["id"] for story in client.get("/api/stories").json()] == list(STORIES)
    for story in STORIES.values():
        for table in story.get("tables", ()):
            assert story_files().joinpath(table["file"]).is_file()
    assert client.post(f"{session}/stories/nothing").status_code == 404


def test_the_description_names_every_route_and_no_schema_is_missing(client: Any) -> None:
    said = client.get("/openapi.json").json()
    assert {(m.upper(), p) for p, operations in said["paths"].items() for m in operations} == {r[:2] for r in ROUTES}
    assert {path for _, path, _ in ROUTES} >= STREAMS
    named = set(_references(said))
    assert named <= {f"#/components/schemas/{name}" for name in SCHEMAS}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [inner] if key == "$ref" else _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def test_health_metrics_limits_and_the_page(client: Any) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    text = client.get("/metrics").text
    assert 'sharpdnf_requests_total{route="/health",status="200"}' in text
    assert 'sharpdnf_request_seconds_bucket{route="/health",le="+Inf"}' in text and "sharpdnf_waiting 0" in text
    assert client.get("/api/limits").json()["seconds"] == 20
    page = client.get("/")
    assert page.status_code == 200 and "frame-ancestors 'none'" in page.headers["content-security-policy"]


def test_the_command_stops_with_code_0_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sharpdnf.cli", "serve", "--port", "0", "--json-log", "--workers", "1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        address = line.split()[2].rstrip("/")
        session = httpx.post(f"{address}/api/sessions").json()["session"]
        folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
        assert len(folders) == 2 and all(path.stat().st_mode & 0o777 == 0o700 for path in folders)
        assert httpx.get(f"{address}/api/sessions/{session}").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not list(tmp_path.iterdir())
        logged = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert {"event": "request", "route": "/api/sessions", "status": 201}.items() <= logged[0].items()
    finally:
        process.kill()
        process.wait()
