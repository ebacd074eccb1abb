"""Runs the application on a port until it is told to stop."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from sharpdnf.serve.app import make_app
from sharpdnf.serve.guard import Guard
from sharpdnf.serve.settings import Settings

CONNECTIONS = 2_000
"""How many connections are open at once; more are told that the service is busy."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, what happened, and the facts about it."""

    def format(self, record: logging.LogRecord) -> str:
        said = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": record.getMessage()}
        said |= getattr(record, "facts", {})
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


class PlainLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{key}={value}" for key, value in getattr(record, "facts", {}).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{clock} {record.getMessage()} {facts}".rstrip()
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up_logs(as_json: bool, level: int) -> None:
    """Sends the service's log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines())
    for name in ("sharpdnf.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == "sharpdnf.serve" else logging.WARNING)


class GracefulServer(uvicorn.Server):
    """Takes no new work once it is told to stop, and ends with code 0."""

    def __init__(self, config: uvicorn.Config, app: Guard, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.app, self._ready = app, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts, and says so once requests are answered."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Running work may go on for some seconds; a second signal does not wait for it."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self.app.pool.stop_soon()


def make_server(settings: Settings, ready: Callable[[], None]) -> GracefulServer:
    """The server, to be run on a socket that listens."""
    app = make_app(settings)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3 + round(settings.limits.stop_seconds),
        ws="none",
    )
    return GracefulServer(config, app, ready)


def run(settings: Settings, *, as_json: bool, level: int, ready: Callable[[str, int], None]) -> None:
    """Serves until SIGTERM or Ctrl-C. ``ready`` hears the address once requests are answered."""
    set_up_logs(as_json, level)
    with listen(settings.host, settings.port) as listening:
        port = listening.getsockname()[1]
        server = make_server(settings, lambda: ready(settings.host, port))
        server.run(sockets=[listening])
    if not server.started:
        raise OSError("the service could not start: the lines above say why")


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listening
