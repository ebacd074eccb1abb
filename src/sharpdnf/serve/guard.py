"""Who may ask: the host that is asked for, the page that asks, the token; and what every answer says for browsers.

A service on this machine can be reached by every web page that the user has open. So a request must name a host that
is ours (else a foreign name could be made to point here), and if a browser says which page it comes from, it must be
ours.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import secrets
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sharpdnf.serve.failure import FORBIDDEN, UNAUTHORIZED, Failure
from sharpdnf.serve.sessions import Sessions
from sharpdnf.serve.settings import Settings

OPEN = ("/", "/health", "/openapi.json")
"""What anybody may see, beside the files of the page: none of it tells anything about anyone's data."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
log = logging.getLogger("sharpdnf.serve")


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """Stands before the application: lets requests in or not, counts them and writes the log."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self.app, self.settings, self.sessions = app, settings, sessions
        self.pool, self.metrics = sessions.pool, sessions.pool.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self.check(scope["method"], scope["path"], Headers(scope=scope))
        except Failure as failure:
            await refuse(failure, answer)
        else:
            await self.app(scope, receive, answer)
        finally:
            seconds = time.monotonic() - started
            status = scope.get("sharpdnf.status", status)
            route = scope.get("sharpdnf.route", "other")
            self.metrics.note(route, status, seconds)
            client = scope.get("client")
            facts = {"method": scope["method"], "route": route, "status": status, "ms": round(1000 * seconds, 1)}
            log.info("request", extra={"facts": {**facts, "client": client[0] if client else None}})

    def check(self, method: str, path: str, headers: Headers) -> None:
        """A Failure if the request is not let in."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Failure(
                FORBIDDEN, f"the service is not known as {host!r:.80}: start it with --allow-host for that name"
            )
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        foreign = origin is not None and not self._is_same(origin, host)
        if foreign or (site in ("cross-site", "same-site") and path not in OPEN):
            raise Failure(FORBIDDEN, "another web page may not use this service")
        if self.settings.token is None or path in OPEN or path.startswith("/static/"):
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.settings.token.encode()):
            raise Failure(UNAUTHORIZED, "this service needs its token: send it as Authorization: Bearer TOKEN")

    def _is_ours(self, host: str) -> bool:
        name = host_of(f"//{host}")
        if is_loopback(name) or name in self.settings.allowed_hosts or name == self.settings.host:
            return True
        # Where it listens to other machines there is a token, which a page that misuses our name does not have.
        return not is_loopback(self.settings.host) and not self.settings.allowed_hosts

    def _is_same(self, origin: str, host: str) -> bool:
        same = origin.lower().partition("://")[2] == host.lower()
        return same or host_of(origin) in self.settings.allowed_hosts


def host_of(address: str) -> str:
    """The name of the host in an address; empty if it is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


async def refuse(failure: Failure, send: Send) -> None:
    """Answers with an error without asking the application."""
    body = json.dumps(failure.as_json()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if failure.status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": failure.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def new_token() -> str:
    return secrets.token_urlsafe(24)
