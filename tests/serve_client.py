"""A real service on a loopback port, in a thread of the tests, and clients of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the service needs the extra [serve]")
pytest.importorskip("uvicorn", reason="the service needs the extra [serve]")
httpx = pytest.importorskip("httpx", reason="the tests of the service need a client")
pytest.importorskip("duckdb", reason="the service needs the extra [sql]")

from sharpdnf.serve.server import listen, make_server  # noqa: E402
from sharpdnf.serve.settings import Settings  # noqa: E402


@contextmanager
def serving(settings: Settings) -> Iterator[Any]:
    """A service, and a client of it that has ``pool`` and ``sessions`` as attributes."""
    ready = threading.Event()
    with listen("127.0.0.1", 0) as listening:
        server = make_server(settings, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            assert ready.wait(120), "the service starts"
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(base_url=address, timeout=120) as client:
                client.pool, client.sessions = server.app.pool, server.app.sessions
                yield client
        finally:
            server.should_exit = True
            thread.join(60)
    assert not thread.is_alive(), "the service stops"


def new_session(client: Any) -> str:
    """The path of a new session."""
    return f"/api/sessions/{client.post('/api/sessions').json()['session']}"


def events(client: Any, path: str, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The server-sent events of a request, to the last."""
    found = []
    with client.stream("POST", path, json=body, headers={"Accept": "text/event-stream"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found
