"""The routes of the service: what is asked is read and checked for its size, and the work is handed on."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from sharpdnf.serve.asked import Fields
from sharpdnf.serve.failure import BAD_REQUEST, NOT_FOUND, TIMEOUT, TOO_LARGE, UNPROCESSABLE, Failure
from sharpdnf.serve.jobs import STOPPED, EventStream, Job
from sharpdnf.serve.metrics import Metrics
from sharpdnf.serve.pool import Pool
from sharpdnf.serve.sessions import Session, Sessions, StoredRun
from sharpdnf.serve.settings import Settings
from sharpdnf.serve.stories import STORIES, story_files
from sharpdnf.serve.workprocess import Frame

PAGE = 1_000
"""How many rows of a table are shown at once, at most."""
SMALL = 1 << 20
"""Bodies up to so many bytes are parsed at once, larger ones beside the other requests."""
MOST_DIGITS = 1000
"""Integers in a body may have so many digits: Python's time to read one grows with the square of its length, and the
command line has switched off Python's own limit."""


@dataclass(slots=True)
class Service:
    """All that the routes need."""

    settings: Settings
    metrics: Metrics
    pool: Pool
    sessions: Sessions

    def session(self, request: Request) -> Session:
        return self.sessions.get(request.path_params["session"])

    def run(self, request: Request) -> StoredRun:
        return self.sessions.run(request.path_params["run"])


Handler = Callable[[Service, Request], Awaitable[Response]]


# ---- reading requests


async def body_chunks(service: Service, request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body as it comes, however it is sent, up to a limit of size and time."""
    limits = service.settings.limits
    too_large = Failure(TOO_LARGE, f"the body is larger than {most:,} bytes, which is the limit")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise too_large
    total = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                total += len(chunk)
                if total > most:
                    raise too_large
                yield chunk
    except TimeoutError:
        raise Failure(TIMEOUT, f"the body did not arrive within {limits.body_seconds:g} seconds") from None
    except ClientDisconnect:
        raise Failure(STOPPED, "the client has gone") from None


async def read_json(service: Service, request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    limits = service.settings.limits
    most = min(limits.body_bytes, 2 * limits.formula_bytes)
    body = b"".join([chunk async for chunk in body_chunks(service, request, most)])
    found = await asyncio.to_thread(parse_json, body) if len(body) > SMALL else parse_json(body)
    if not isinstance(found, dict):
        raise Failure(BAD_REQUEST, "the body must be a JSON object, such as {}")
    return found


def parse_json(body: bytes) -> Any:
    """JSON in UTF-8 as the standard has it, which knows no NaN."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise ValueError(f"an integer of {len(digits)} digits is too long")
        return int(digits)

    try:
        return json.loads(body.decode(), parse_constant=refuse, parse_int=integer)
    except UnicodeDecodeError:
        raise Failure(BAD_REQUEST, "the body is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        where = {"line": error.lineno, "column": error.colno}
        raise Failure(BAD_REQUEST, f"the body is not JSON: {error.msg}", where) from None
    except (ValueError, RecursionError) as error:
        raise Failure(BAD_REQUEST, f"the body is not JSON that can be read: {str(error)[:200]}") from None


def take_text(service: Service, fields: dict[str, Any], name: str) -> bytes:
    """Takes a long text out of the fields, checked for its size."""
    text = fields.pop(name, None)
    if not isinstance(text, str):
        raise Failure(UNPROCESSABLE, f"{name} is missing, or not a text")
    most = service.settings.limits.formula_bytes
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise Failure(UNPROCESSABLE, f"{name} has half a character in it, which is not Unicode") from None
    if len(data) > most:
        raise Failure(TOO_LARGE, f"{name} has {len(data):,} bytes, and the limit is {most:,}")
    return data


def limited(service: Service, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the time and threads that the work may use."""
    limits = service.settings.limits
    try:
        seconds = Fields(fields).number("seconds", limits.seconds, 0.001)
    except ValueError as error:
        raise Failure(UNPROCESSABLE, str(error)) from None
    return {**fields, "seconds": min(seconds, limits.seconds), "threads": limits.threads}


def whole(request: Request, name: str, default: int, high: int) -> int:
    """A whole number from the address."""
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 18 or int(text) > high:
        raise Failure(UNPROCESSABLE, f"{name} is a whole number from 0 to {high:,}, not {text!r:.40}")
    return int(text)


def index_of(request: Request) -> int:
    text = request.path_params["index"]
    if not text.isdecimal() or len(text) > 18:
        raise Failure(NOT_FOUND, f"there is no answer {text!r:.40}")
    return int(text)


def choice(request: Request, name: str, known: tuple[str, ...], default: str) -> str:
    """One of several words from the address."""
    word = request.query_params.get(name, default)
    if word not in known:
        raise Failure(UNPROCESSABLE, f"{name} is one of {', '.join(known)}, not {word!r:.40}")
    return word


def wants_events(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


async def answer(
    request: Request, frames: AsyncGenerator[Frame, None], last: str = "answer", run: StoredRun | None = None
) -> Response:
    """The answer of some work: as events while it goes on if the client wants them, else its result."""
    job = Job(frames)
    if run is not None:
        run.task = job.task
    if wants_events(request):
        return EventStream(job, last, {} if run is None else {"run": run.run})
    frame = await job.result(request)
    return Response(frame.body, media_type="application/json")


# ---- sessions and tables


async def open_session(service: Service, request: Request) -> Response:
    session = service.sessions.open()
    return JSONResponse(session.as_json(), 201)


async def show_session(service: Service, request: Request) -> Response:
    return JSONResponse(service.session(request).as_json())


async def close_session(service: Service, request: Request) -> Response:
    service.sessions.close(service.session(request))
    return Response(status_code=204)


async def upload_table(service: Service, request: Request) -> Response:
    session = service.session(request)
    name = request.query_params.get("name", "")
    form = choice(request, "format", ("csv", "parquet"), "csv")
    path = session.folder / f"{secrets.token_hex(8)}.upload"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        total = 0
        with os.fdopen(handle, "wb") as file:
            async for chunk in body_chunks(service, request, service.settings.limits.body_bytes):
                file.write(chunk)
                total += len(chunk)
        if not total:
            raise Failure(UNPROCESSABLE, "the file is empty")
        service.metrics.uploaded_bytes += total
        table = await service.sessions.upload(session, name, form, path)
    finally:
        path.unlink(missing_ok=True)
    return JSONResponse(table.as_json(), 201)


async def show_table(service: Service, request: Request) -> Response:
    session = service.session(request)
    table = session.table(request.path_params["table"])
    offset, limit = whole(request, "offset", 0, 10**12), whole(request, "limit", 50, PAGE)
    message = {"do": "rows", "name": table.name, "offset": offset, "limit": limit}
    return await answer(request, service.sessions.work(session, message, service.settings.limits.seconds))


async def mark_table(service: Service, request: Request) -> Response:
    session = service.session(request)
    fields = await read_json(service, request)
    prob, block = fields.get("prob"), fields.get("block")
    columns = [] if block is None else [block] if isinstance(block, str) else block
    names = isinstance(columns, list) and all(isinstance(column, str) for column in columns)
    if not (prob is None or isinstance(prob, str)) or not names:
        raise Failure(UNPROCESSABLE, "prob is a column or an expression, block a column or a list of columns, or null")
    table = await service.sessions.mark(session, request.path_params["table"], prob or None, columns or None)
    if isinstance(block, str):
        table.block = block or None
    return JSONResponse(table.as_json())


async def drop_table(service: Service, request: Request) -> Response:
    await service.sessions.drop(service.session(request), request.path_params["table"])
    return Response(status_code=204)


# ---- stories


async def list_stories(service: Service, request: Request) -> Response:
    return JSONResponse([{"id": key, "title": story["title"], "text": story["text"]} for key, story in STORIES.items()])


async def load_story(service: Service, request: Request) -> Response:
    session = service.session(request)
    story = STORIES.get(request.path_params["story"])
    if story is None:
        raise Failure(NOT_FOUND, f"there is no such story: choose from {', '.join(STORIES)}")
    tables = []
    for entry in story.get("tables", ()):
        path = session.folder / f"{secrets.token_hex(8)}.upload"
        try:
            await asyncio.to_thread(path.write_bytes, story_files().joinpath(entry["file"]).read_bytes())
            table = await service.sessions.upload(session, entry["name"], "csv", path)
        finally:
            path.unlink(missing_ok=True)
        if entry.get("prob") is not None:
            table = await service.sessions.mark(session, entry["name"], entry["prob"], entry.get("block"))
        tables.append(table.as_json())
    said = {key: value for key, value in story.items() if key not in ("tables", "file")}
    if "faulttree" in said:
        text = story_files().joinpath(story["faulttree"]["file"]).read_text(encoding="utf-8")
        said["faulttree"] = {**story["faulttree"], "text": text}
    return JSONResponse({**said, "tables": tables})


# ---- queries


async def ask_sql(service: Service, request: Request) -> Response:
    session = service.session(request)
    fields = await read_json(service, request)
    query = take_text(service, fields, "query").decode()
    asked = limited(service, fields)
    run = service.sessions.new_run(session, query, asked)
    message = {**run.message, "stream": wants_events(request)}
    frames = service.sessions.work(session, message, asked["seconds"], run=run)
    return await answer(request, frames, "answers", run)


async def stop_run(service: Service, request: Request) -> Response:
    run = service.run(request)
    if run.task is not None:
        run.task.cancel()
    return Response(status_code=204)


async def export_run(service: Service, request: Request) -> Response:
    run = service.run(request)
    form = choice(request, "format", ("csv", "parquet"), "csv")
    message = {"do": "export", "run": run.run, "form": form}
    frame = await about(service, request, run, message)
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/vnd.apache.parquet"
    return Response(
        frame.body, media_type=kind, headers={"Content-Disposition": f'attachment; filename="answers.{form}"'}
    )


async def show_answer(service: Service, request: Request) -> Response:
    run = service.run(request)
    frame = await about(service, request, run, {"do": "detail", "run": run.run, "index": index_of(request)})
    return Response(frame.body, media_type="application/json")


async def what_if_answer(service: Service, request: Request) -> Response:
    run = service.run(request)
    fields = await read_json(service, request)
    try:
        prob = Fields(fields).probabilities("prob")
    except ValueError as error:
        raise Failure(UNPROCESSABLE, str(error)) from None
    message = {"do": "what_if", "run": run.run, "index": index_of(request), "prob": prob}
    frame = await about(service, request, run, message)
    return Response(frame.body, media_type="application/json")


async def about(service: Service, request: Request, run: StoredRun, message: dict[str, Any]) -> Frame:
    """Work on the answers of a run."""
    frames = service.sessions.work(run.session, message, service.settings.limits.seconds, run=run)
    return await Job(frames).result(request)


# ---- work without tables


def formula_route(what: str) -> Handler:
    """A question about a formula: count, marginals, explain or whatif."""

    async def handle(service: Service, request: Request) -> Response:
        fields = await read_json(service, request)
        data = take_text(service, fields, "formula")
        return await plain(service, request, {"do": "formula", "what": what}, fields, data)

    return handle


async def ask_network(service: Service, request: Request) -> Response:
    fields = await read_json(service, request)
    links = fields.get("edges")
    most = service.settings.limits.links
    if isinstance(links, list) and len(links) > most:
        raise Failure(TOO_LARGE, f"the network has {len(links):,} links, and the limit is {most:,}")
    return await plain(service, request, {"do": "network"}, fields)


async def ask_faulttree(service: Service, request: Request) -> Response:
    fields = await read_json(service, request)
    data = take_text(service, fields, "text")
    return await plain(service, request, {"do": "faulttree"}, fields, data)


async def plain(
    service: Service, request: Request, message: dict[str, Any], fields: dict[str, Any], data: bytes = b""
) -> Response:
    """Work in any process."""
    asked = limited(service, fields)
    whole_message = {**message, "asked": asked, "stream": wants_events(request)}
    return await answer(request, service.pool.work(whole_message, data, asked["seconds"]))


def static_file(name: str) -> Path | None:
    """A file of the page; None if there is none of that name."""
    folder = Path(__file__).parent / "static"
    path = folder / name
    inside = path.resolve().is_relative_to(folder.resolve())
    return path if inside and path.is_file() else None
