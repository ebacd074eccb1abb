"""The command ``serve``. Thin: it reads options, says where the service is, and runs it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

MIB = 2**20


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the main application."""
    app.command("serve")(serve)


def serve(
    host: Annotated[str, typer.Option(help="the address to listen on; others than this machine's need a token")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one")] = 8765,
    mount: Annotated[
        list[str] | None, typer.Option(help="a CSV or Parquet file, or NAME=FILE: a table that everybody can read")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="SHARPDNF_TOKEN", help="what requests must show; made if one is needed")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="a name under which a proxy makes the service known")
    ] = None,
    seconds: Annotated[float, typer.Option(help="time limit of one piece of work")] = 30.0,
    memory: Annotated[int, typer.Option(help="memory limit of a worker process, in MiB")] = 1024,
    body: Annotated[int, typer.Option(help="largest request, in MiB")] = 64,
    workers: Annotated[int | None, typer.Option(min=1, help="pieces of work at once; default: the cores")] = None,
    queue: Annotated[int, typer.Option(min=1, help="requests that may wait")] = 128,
    sessions: Annotated[int, typer.Option(min=1, help="sessions at once")] = 500,
    idle: Annotated[float, typer.Option(help="seconds after which an unused session ends")] = 3600.0,
    json_log: Annotated[bool, typer.Option("--json-log", help="write the log as one JSON object per line")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="log problems only, not every request")] = False,
) -> None:
    """Serve a page and a JSON API for tables, formulas, networks and fault trees.

    It listens on this machine only, unless --host says otherwise. Stop it with Ctrl-C.
    """
    from sharpdnf.errors import needs_extra

    with needs_extra("serve", "serve"):
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    from sharpdnf.serve.guard import is_loopback, new_token
    from sharpdnf.serve.server import run
    from sharpdnf.serve.settings import ServiceLimits, Settings

    given = {"workers": workers} if workers is not None else {}
    limits = ServiceLimits(
        seconds=seconds,
        memory=memory * MIB,
        body_bytes=body * MIB,
        queue=queue,
        sessions=sessions,
        session_seconds=idle,
        **given,
    )
    if token is None and not is_loopback(host):
        token = new_token()
    mounts = tuple(_mount(entry) for entry in mount or ())
    settings = Settings(host, port, token, tuple(allow_host or ()), mounts, limits)

    def ready(name: str, number: int) -> None:
        shown = f"[{name}]" if ":" in name else name
        fragment = f"/#token={token}" if token is not None else "/"
        typer.echo(f"sharpdnf serves http://{shown}:{number}{fragment} (stop with Ctrl-C)")

    run(settings, as_json=json_log, level=logging.WARNING if quiet else logging.INFO, ready=ready)


def _mount(entry: str) -> tuple[str, str]:
    """(name of the table, path) of ``FILE`` or ``NAME=FILE``."""
    name, equals, path = entry.partition("=")
    if not equals:
        name, path = Path(entry).name.split(".")[0], entry
    if not Path(path).is_file():
        raise typer.BadParameter(f"there is no file {path!r}")
    return name, os.fspath(Path(path).resolve())
