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
from sharpdnf.serve.pool import Pool
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

    def __init__(self, config: uvicorn.Config, pool: Pool) -> None:
        super().__init__(config)
        self._pool = pool

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Running work may go on for some seconds; a second signal does not wait for it."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._pool.stop_soon()


def run(settings: Settings, *, as_json: bool, level: int, ready: Callable[[str, int], None]) -> None:
    """Serves until SIGTERM or Ctrl-C. ``ready`` hears the address once the port is bound."""
    set_up_logs(as_json, level)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
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
        ready(settings.host, listening.getsockname()[1])
        GracefulServer(config, app.pool).run(sockets=[listening])
