"""The application: every route with its handler, errors as JSON, and what happens at the start and at the end."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sharpdnf.serve import api
from sharpdnf.serve.api import Handler, Service
from sharpdnf.serve.failure import INTERNAL, NOT_FOUND, TOO_MANY, UNAVAILABLE, Failure
from sharpdnf.serve.guard import Guard
from sharpdnf.serve.metrics import Metrics
from sharpdnf.serve.openapi import description
from sharpdnf.serve.pool import Pool
from sharpdnf.serve.sessions import Sessions, check_name
from sharpdnf.serve.settings import Settings

SWEEP = 30.0
"""Seconds between two looks for sessions that nobody uses any more."""
log = logging.getLogger("sharpdnf.serve")

SESSION, TABLE, RUN = "/api/sessions/{session}", "/api/sessions/{session}/tables/{table}", "/api/runs/{run}"
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/api/sessions", api.open_session),
    ("GET", SESSION, api.show_session),
    ("DELETE", SESSION, api.close_session),
    ("POST", f"{SESSION}/tables", api.upload_table),
    ("GET", TABLE, api.show_table),
    ("DELETE", TABLE, api.drop_table),
    ("PUT", f"{TABLE}/uncertain", api.mark_table),
    ("GET", "/api/stories", api.list_stories),
    ("POST", f"{SESSION}/stories/{{story}}", api.load_story),
    ("POST", f"{SESSION}/sql", api.ask_sql),
    ("DELETE", RUN, api.stop_run),
    ("GET", f"{RUN}/export", api.export_run),
    ("GET", f"{RUN}/answers/{{index}}", api.show_answer),
    ("POST", f"{RUN}/answers/{{index}}/whatif", api.what_if_answer),
    ("POST", "/api/count", api.formula_route("count")),
    ("POST", "/api/marginals", api.formula_route("marginals")),
    ("POST", "/api/explain", api.formula_route("explain")),
    ("POST", "/api/whatif", api.formula_route("whatif")),
    ("POST", "/api/network", api.ask_network),
    ("POST", "/api/faulttree", api.ask_faulttree),
)


def make_app(settings: Settings) -> Guard:
    """The application; its data live in a folder of its own that goes when it stops."""
    metrics = Metrics()
    folder = Path(tempfile.mkdtemp(prefix="sharpdnf-serve-"))
    pool = Pool(settings.limits, metrics)
    service = Service(settings, metrics, pool, Sessions(settings, pool, folder))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sweeping = None
        try:
            await _mount(service)
            await pool.warm()
            sweeping = asyncio.create_task(_sweep(service))
            yield
        finally:
            if sweeping is not None:
                sweeping.cancel()
            for session in list(service.sessions.all.values()):
                service.sessions.close(session)
            await pool.close()
            shutil.rmtree(folder, ignore_errors=True)

    routes = [Route(path, _endpoint(service, path, handler), methods=[method]) for method, path, handler in ROUTES]
    routes += [
        Route(path, _endpoint(service, path, handler))
        for path, handler in (
            ("/", show_page),
            ("/static/{name:path}", show_static),
            ("/health", show_health),
            ("/metrics", show_metrics),
            ("/openapi.json", show_openapi),
            ("/api/limits", show_limits),
        )
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_error})
    return Guard(app, settings, service.sessions)


def _endpoint(service: Service, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        request.scope["sharpdnf.route"] = path
        try:
            return await handler(service, request)
        except Failure as failure:
            return _error(failure)
        except Exception:
            log.exception("a request failed")
            return _error(Failure(INTERNAL, "the service failed at this; its log tells why"))

    return endpoint


def _error(failure: Failure) -> Response:
    headers = {"Retry-After": "2"} if failure.status in (TOO_MANY, UNAVAILABLE) else None
    return JSONResponse(failure.as_json(), failure.status, headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is nothing at this address", 405: "this address does not take that method"}
    return _error(Failure(error.status_code, words.get(error.status_code, str(error.detail))))


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        service.sessions.sweep()


async def _mount(service: Service) -> None:
    """Loads the files that every session can read, once."""
    if not service.settings.mounts:
        return
    session = service.sessions.open()
    for name, path in service.settings.mounts:
        check_name(name)
        form = "parquet" if path.lower().endswith((".parquet", ".pq")) else "csv"
        await service.sessions.upload(session, name, form, Path(path))
    for table in session.tables.values():
        kept = service.sessions.folder / f"{table.name.lower()}.mounted"
        table.path.rename(kept)
        table.path, table.mounted = kept, True
        service.sessions.mounted.append(table)
    service.sessions.close(session)


# ---- the page, and what is told about the service itself


async def show_page(service: Service, request: Request) -> Response:
    return _file("index.html")


async def show_static(service: Service, request: Request) -> Response:
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    path = api.static_file(name)
    if path is None:
        raise Failure(NOT_FOUND, "there is no such file")
    return FileResponse(path, headers={"Cache-Control": "no-cache"})


async def show_health(service: Service, request: Request) -> Response:
    return JSONResponse(
        {"status": "stopping" if service.pool.stopping else "ok"}, 503 if service.pool.stopping else 200
    )


async def show_metrics(service: Service, request: Request) -> Response:
    pool, sessions = service.pool, service.sessions
    now: dict[str, Any] = {
        "running": pool.running,
        "waiting": pool.waiting,
        "processes": pool.processes,
        "sessions": len(sessions.all),
        "stored_bytes": sessions.size,
    }
    return PlainTextResponse(service.metrics.text(now), media_type="text/plain; version=0.0.4; charset=utf-8")


async def show_limits(service: Service, request: Request) -> Response:
    return JSONResponse(service.settings.limits.public())


async def show_openapi(service: Service, request: Request) -> Response:
    return JSONResponse(description([(method, path) for method, path, _ in ROUTES]))
