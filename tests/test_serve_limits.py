"""What the service refuses and survives: bad input, limits, foreign pages, files of the server, clients that leave."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve_client import events, httpx, new_session, serving

from sharpdnf.serve.guard import Guard, is_loopback
from sharpdnf.serve.settings import MIB, ServiceLimits, Settings

LIMITS = ServiceLimits(
    seconds=4,
    memory=256 * MIB,
    body_bytes=2 * MIB,
    formula_bytes=MIB,
    body_seconds=2,
    rows=1_000,
    links=50,
    sessions=6,
    workers=2,
    queue=3,
    session_workers=2,
    tables=2,
)
SLOW = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3 AND a.range > b.range"
DEAF = "SELECT regexp_matches(repeat('a', 400000000), '(a|aa|aaa|a?)*b') AS m"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with serving(Settings(limits=LIMITS)) as client:
        yield client


@pytest.fixture
def session(client: Any) -> Iterator[str]:
    path = new_session(client)
    yield path
    client.delete(path)


@pytest.fixture(scope="module")
def shared(client: Any) -> Iterator[str]:
    """A session for the tests that leave nothing behind."""
    path = new_session(client)
    yield path
    client.delete(path)


def said(response: Any) -> str:
    """The sentence of an error, which every error has."""
    error = response.json()["error"]
    assert error["status"] == response.status_code and set(error) == {"status", "message", "where"}
    return str(error["message"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[1]", 400),
        (b'{"formula": NaN}', 400),
        (b'{"formula": "a", "epsilon": 1e999}', 422),
        (b'{"formula": "a", "epsilon": -1}', 422),
        (b'{"formula": "a", "seconds": "soon"}', 422),
        (b'{"formula": "a", "seed": -1}', 422),
        (b'{"formula": "a", "seed": 1.5}', 422),
        (b'{"formula": "a", "probabilities": {"a": 2}}', 422),
        (b'{"formula": "a", "probabilities": {"b": 0.5}}', 422),
        (b'{"formula": "a", "guarantee": "surely"}', 422),
        (b'{"formula": "a", "format": "xml"}', 422),
        (b'{"formula": 7}', 422),
        (b'{"formula": "\\ud800"}', 422),
        (b'{"formula": "a &"}', 422),
        (b'{"formula": "p dnf 1 1\\n2 0\\n", "format": "dnf"}', 422),
        (b'{"formula": "\xff"}', 400),
        (b'{"n": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 100_000, 400),
        (b'{"formula": "' + b"(" * 50_000 + b'"}', 422),
        (b'{"formula": "' + b"x" * 1_100_000 + b'"}', 413),
        (b"x" * (2 * MIB + 1), 413),
    ],
)
def test_bad_bodies_get_a_sentence(client: Any, body: bytes, status: int) -> None:
    response = client.post("/api/count", content=body)
    assert response.status_code == status, response.text[:300]
    assert len(said(response)) > 10
    assert client.post("/api/count", json={"formula": "a"}).json()["prob"] == 0.5


def test_the_line_of_a_mistake_is_told(client: Any) -> None:
    broken = client.post("/api/count", json={"formula": "p dnf 2 2\n1 0\n3 0\n", "format": "dnf"}).json()["error"]
    assert broken["where"] == {"line": 3}
    assert client.post("/api/count", content=b'{\n"a": }').json()["error"]["where"]["line"] == 2


def test_chunked_bodies_are_counted_as_they_come(client: Any, session: str) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b"1,2\n" * 16_000

    assert client.post(f"{session}/tables?name=t&format=csv", content=chunks()).status_code == 413
    fine = client.post(f"{session}/tables?name=t&format=csv", content=iter([b"a,b\n", b"1,2\n"]))
    assert fine.status_code == 201


def test_a_slow_client_is_not_waited_for(client: Any) -> None:
    host, port = client.base_url.host, client.base_url.port
    with socket.create_connection((host, port), timeout=30) as slow:
        slow.sendall(b"POST /api/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert b" 408 " in slow.recv(1000)


@pytest.mark.parametrize(
    ("name", "form", "body", "status"),
    [
        ("t", "csv", b"", 422),
        ("t", "xml", b"a", 422),
        ("t", "parquet", b"PAR1 and no more", 422),
        ("t", "parquet", b"", 422),
        ("../../etc/passwd", "csv", b"a\n1\n", 422),
        ("a b", "csv", b"a\n1\n", 422),
        ("", "csv", b"a\n1\n", 422),
        ("_sharpdnf_rows0", "csv", b"a\n1\n", 422),
        ("t", "csv", b"a\n" + b"1\n" * 1_001, 413),
    ],
)
def test_bad_files(client: Any, shared: str, name: str, form: str, body: bytes, status: int) -> None:
    response = client.post(f"{shared}/tables", params={"name": name, "format": form}, content=body)
    assert response.status_code == status, response.text
    assert "/tmp" not in said(response) and ".upload" not in said(response)
    assert client.get(shared).json()["tables"] == []


def test_bytes_that_are_no_text_do_no_harm(client: Any, session: str) -> None:
    response = client.post(f"{session}/tables?name=t&format=csv", content=b"a,b\n\xff\xfe,\x00\n" * 50)
    assert response.status_code in (201, 422)
    assert client.get("/health").status_code == 200


def test_a_session_has_a_limit_of_tables(client: Any, session: str) -> None:
    for name in "ab":
        assert client.post(f"{session}/tables?name={name}&format=csv", content=b"x\n1\n").status_code == 201
    assert "delete one first" in said(client.post(f"{session}/tables?name=c&format=csv", content=b"x\n1\n"))
    assert client.post(f"{session}/tables?name=A&format=csv", content=b"x\n2\n").status_code == 201


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO '/tmp/sharpdnf-attack.csv'",
        "ATTACH '/tmp/sharpdnf-attack.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; DROP TABLE t",
        "SELECT getenv('PATH')",
        "EXPORT DATABASE '/tmp/sharpdnf-attack'",
        "SELECT * FROM sqlite_scan('/etc/passwd', 't')",
        "SELECT * FROM duckdb_settings()",
    ],
)
def test_no_file_of_the_server_can_be_read_or_written(client: Any, shared: str, query: str) -> None:
    for with_table in (False, True):
        if with_table:
            client.post(f"{shared}/tables?name=t&format=csv", content=b"x,p\n1,0.5\n")
            client.put(f"{shared}/tables/t/uncertain", json={"prob": "p"})
        response = client.post(f"{shared}/sql", json={"query": query})
        assert "root:" not in response.text and "/usr/" not in response.text
        assert response.status_code == 422 or "duckdb_settings" in query, response.text[:300]
    client.delete(f"{shared}/tables/t")
    assert not list(Path("/tmp").glob("sharpdnf-attack*"))


def test_the_probability_is_no_way_in(client: Any, session: str) -> None:
    client.post(f"{session}/tables?name=t&format=csv", content=b"x,p\n1,0.5\n")
    for prob in (
        "(SELECT count(*) FROM read_csv('/etc/passwd'))",
        "1); DROP TABLE t; --",
        "p FROM t; COPY t TO '/x'",
        "",
    ):
        response = client.put(f"{session}/tables/t/uncertain", json={"prob": prob})
        assert response.status_code == (200 if not prob else 422), response.text


@pytest.mark.parametrize(
    "path", ["/static/../api.py", "/static/%2e%2e/api.py", "/static//etc/passwd", "/static/nothing"]
)
def test_static_files_end_at_their_folder(client: Any, path: str) -> None:
    host, port = client.base_url.host, client.base_url.port
    with socket.create_connection((host, port), timeout=30) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = raw.recv(4000)
    assert b" 404 " in answer.splitlines()[0] and b"import" not in answer and b"root:" not in answer


def test_a_query_that_hears_no_interrupt_dies_at_its_limit(client: Any, session: str) -> None:
    started = time.monotonic()
    response = client.post(f"{session}/sql", json={"query": DEAF, "seconds": 1})
    assert response.status_code in (422, 504), response.text
    late = client.post(f"{session}/sql", json={"query": SLOW, "seconds": 1})
    assert late.status_code == 504 and "second" in said(late)
    assert time.monotonic() - started < 60
    assert client.post(f"{session}/sql", json={"query": "SELECT 1 AS x"}).json()["rows"] == [[1]]


def test_a_query_that_wants_too_much_memory_is_refused(client: Any, session: str) -> None:
    query = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(range AS VARCHAR), 400) AS s FROM range(2000000))"
    response = client.post(f"{session}/sql", json={"query": query})
    assert response.status_code in (422, 500, 504), response.text
    assert client.post(f"{session}/sql", json={"query": "SELECT 1 AS x"}).json()["rows"] == [[1]]


def test_a_client_that_leaves_ends_its_work(client: Any, session: str) -> None:
    asked = {"query": SLOW, "seconds": 4}
    with client.stream("POST", f"{session}/sql", json=asked, headers={"Accept": "text/event-stream"}) as response:
        lines = response.iter_lines()  # kept: an iterator that is dropped closes the connection
        while not next(lines).startswith("data: "):
            pass
        await_that(lambda: client.pool.running == 1)
        started = time.monotonic()
    await_that(lambda: client.pool.running == 0)
    assert time.monotonic() - started < 3
    with pytest.raises(httpx.ReadTimeout):
        client.post(f"{session}/sql", json=asked, timeout=0.5)
    await_that(lambda: client.pool.running == 0)


def test_a_run_can_be_stopped(client: Any, session: str) -> None:
    found: list[Any] = []
    asked = {"query": SLOW, "seconds": 4}
    thread = threading.Thread(target=lambda: found.extend(events(client, f"{session}/sql", asked)))
    thread.start()
    await_that(lambda: client.pool.running == 1)
    number = session.rpartition("/")[2]
    run = next(iter(sessions_of(client)[number].runs))
    assert client.delete(f"/api/runs/{run}").status_code == 204
    thread.join(10)
    assert found[-1][0] == "error" and found[-1][1]["error"]["message"] == "the work was stopped"
    assert client.delete(f"/api/runs/{run}").status_code == 204
    assert client.delete("/api/runs/none").status_code == 404


def sessions_of(client: Any) -> dict[str, Any]:
    return client.sessions.all  # type: ignore[no-any-return]


def await_that(holds: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it does not come true"
        time.sleep(0.02)


def test_kill_of_a_worker_loses_its_request_and_nothing_else(client: Any, session: str) -> None:
    found: list[Any] = []
    client.post(f"{session}/tables?name=t&format=csv", content=b"x,p\n1,0.5\n")
    client.put(f"{session}/tables/t/uncertain", json={"prob": "p"})
    thread = threading.Thread(target=lambda: found.append(client.post(f"{session}/sql", json={"query": SLOW})))
    thread.start()
    await_that(lambda: client.pool.running == 1)
    os.kill(sessions_of(client)[session.rpartition("/")[2]].process.number, signal.SIGKILL)
    thread.join(20)
    assert found[0].status_code == 500 and "SIGKILL" in said(found[0])
    assert client.post(f"{session}/sql", json={"query": "SELECT x FROM t"}).json()["prob"] == [0.5]


def test_a_full_queue_is_told_at_once(client: Any, shared: str) -> None:
    sessions = [new_session(client) for _ in range(LIMITS.sessions - 1)]
    assert client.post("/api/sessions").status_code == 429
    statuses: list[int] = []

    def ask(path: str) -> None:
        response = client.post(f"{path}/sql", json={"query": SLOW, "seconds": 2})
        statuses.append(response.status_code)
        if response.status_code == 429:
            assert response.headers["retry-after"] == "2"

    threads = [threading.Thread(target=ask, args=(path,)) for path in sessions * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(statuses) <= {429, 504} and statuses.count(429) >= 15 - 2 - LIMITS.queue and 504 in statuses
    assert len([s for s in sessions_of(client).values() if s.process is not None]) <= LIMITS.session_workers
    for path in sessions:
        client.delete(path)
    assert client.post("/api/count", json={"formula": "a"}).status_code == 200


def test_data_go_with_their_session(client: Any) -> None:
    path = new_session(client)
    client.post(f"{path}/tables?name=t&format=csv", content=b"x\n1\n")
    folder = sessions_of(client)[path.rpartition("/")[2]].folder
    files = list(folder.iterdir())
    assert len(files) == 1 and files[0].stat().st_mode & 0o777 == 0o600 and folder.stat().st_mode & 0o777 == 0o700
    assert client.delete(path).status_code == 204
    assert not folder.exists() and client.get(path).status_code == 404
    old = new_session(client)
    sessions_of(client)[old.rpartition("/")[2]].seen -= LIMITS.session_seconds + 1
    client.sessions.sweep()
    assert client.get(old).status_code == 404


def test_networks_and_trees_have_limits_too(client: Any) -> None:
    edges = [[i, i + 1, 0.5] for i in range(51)]
    assert client.post("/api/network", json={"edges": edges, "source": 0, "target": 5}).status_code == 413
    for edges in ([[0, 1]], "x", [[0, 1, 2.0]], [[0, [1], 0.5]], [[0, 1, "p"]], None):
        response = client.post("/api/network", json={"edges": edges, "source": 0, "target": 1})
        assert response.status_code == 422, response.text
    bomb = '<!DOCTYPE a [<!ENTITY b "c">]><opsa-mef>&b;</opsa-mef>'
    assert client.post("/api/faulttree", json={"text": bomb, "format": "openpsa"}).status_code == 422
    outside = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><opsa-mef>&b;</opsa-mef>'
    assert "root:" not in client.post("/api/faulttree", json={"text": outside}).text


HERE = {"host": "127.0.0.1:8765"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (HERE, 200),
        ({"host": "localhost:8765"}, 200),
        ({"host": "[::1]:8765"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "[::1"}, 403),
        ({}, 403),
        ({**HERE, "origin": "http://127.0.0.1:8765"}, 200),
        ({**HERE, "origin": "http://evil.example"}, 403),
        ({**HERE, "origin": "http://127.0.0.1:9999"}, 403),
        ({**HERE, "origin": "null"}, 403),
        ({**HERE, "sec-fetch-site": "same-origin"}, 200),
        ({**HERE, "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_foreign_pages_and_names_are_refused(headers: dict[str, str], status: int) -> None:
    assert checked(Settings(), headers) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "box:8765"}, 401),
        ({"host": "box:8765", "authorization": "Bearer wrong"}, 401),
        ({"host": "box:8765", "authorization": "Basic right"}, 401),
        ({"host": "box:8765", "authorization": "Bearer right"}, 200),
        ({"host": "box:8765", "authorization": "Bearer right", "origin": "http://evil.example"}, 403),
    ],
)
def test_the_token_is_asked_for(headers: dict[str, str], status: int) -> None:
    assert checked(Settings(host="0.0.0.0", token="right"), headers) == status
    assert checked(Settings(host="0.0.0.0", token="right"), {"host": "box:8765"}, "/health") == 200


def checked(settings: Settings, headers: dict[str, str], path: str = "/api/stories") -> int:
    """The status that the guard alone gives."""
    from starlette.datastructures import Headers

    from sharpdnf.serve.failure import Failure

    guard = Guard(None, settings, NoSessions())  # type: ignore[arg-type]
    try:
        guard.check("GET", path, Headers(headers))
    except Failure as failure:
        assert json.dumps(failure.as_json())
        return failure.status
    return 200


class NoSessions:
    """Stands where the sessions would: the guard's decision needs none."""

    class pool:
        metrics = None


def test_a_proxy_makes_the_service_known_under_its_name() -> None:
    behind = Settings(allowed_hosts=("data.example",))
    assert checked(behind, {"host": "data.example", "origin": "https://data.example"}) == 200
    assert checked(behind, {"host": "127.0.0.1:8765", "origin": "https://data.example"}) == 200
    assert checked(behind, {"host": "other.example"}) == 403
    assert is_loopback("127.0.0.2") and is_loopback("localhost") and not is_loopback("0.0.0.0")


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="seconds must be positive"):
        ServiceLimits(seconds=0)
    with pytest.raises(ValueError, match="64 MiB"):
        ServiceLimits(memory=1)
