"""The dashboard's server, on this machine."""

from __future__ import annotations

import errno
import json
import platform
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.dashboard.view import dumps
from fzoos.runs.store import Store, StoreError

try:
    import anyio
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    from fzoos.runs.dashboard.guard import Guard, is_loopback, refuse_change
except ImportError:
    raise ImportError("the dashboard needs Starlette and uvicorn: pip install 'fzoos[dashboard]'") from None

__all__ = ["PORT", "application", "change_run", "serve", "token_for"]

PORT = 8366
_PORTS_TRIED = 100
_DIGITS = 18  # of a number that SQLite can store
_INTERVAL = 0.5  # seconds between two checks of the files
_LONGEST_CHANGE = 10_000  # bytes of a request that changes a run
_HEARTBEAT = 15.0  # seconds after which something is sent on a silent connection, so that a dead one is noticed


def application(
    index: RunIndex,
    token: str | None = None,
    local: bool = True,
    cookie: str = "fzoos",
    stopping: Callable[[], bool] = lambda: False,
    edit: bool = False,
) -> Starlette:
    """Return the page as an ASGI application; streams end when the server is about to stop.

    With `local`, it answers only to names of this machine. With `edit`, runs may be renamed, tagged and deleted.

    Raises:
        ValueError: there is no token, but runs may be changed.
    """

    if edit and token is None:
        raise ValueError("a page that can change runs needs a token")
    secret = secrets.token_urlsafe(24)  # of this start: only our own page has it

    async def page(request: Request) -> Response:
        text = files("fzoos.runs.dashboard").joinpath("static", "index.html").read_text(encoding="utf-8")
        return HTMLResponse(text.replace("<html ", f'<html data-secret="{secret}" ', 1) if edit else text)

    async def runs(request: Request) -> Response:
        return Response(await run_in_threadpool(index.listing), media_type="application/json")

    async def run(request: Request) -> Response:
        after = request.query_params.get("after", "0")
        if not after.isdecimal() or len(after) > _DIGITS:
            return _json({"error": f"after must be the number of a round, got {after!r}"}, 400)
        return await answer(index.details, request.query_params.get("key", ""), int(after))

    async def path(request: Request) -> Response:
        return await answer(index.path_of_x, request.query_params.get("key", ""))

    async def answer(function: Callable[..., Any], *arguments: Any) -> Response:
        try:
            return _json(await run_in_threadpool(function, *arguments))
        except StoreError as error:
            return _json({"error": str(error)}, 404)

    async def change(request: Request) -> Response:
        refusal = refuse_change(request.headers, secret)
        if refusal is not None:
            return _json({"error": refusal}, 403)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_CHANGE:
                return _json({"error": "the change is too long"}, 413)
        status, outcome = await run_in_threadpool(change_run, index, body)
        return _json(outcome, status)

    async def events(request: Request) -> Response:
        return StreamingResponse(_events(index, stopping), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", page),
            Route("/api/runs", runs),
            Route("/api/run", run),
            Route("/api/path", path),
            *([Route("/api/change", change, methods=["POST"])] if edit else []),
            Route("/events", events),
            Mount("/static", StaticFiles(packages=[("fzoos.runs.dashboard", "static")])),
        ],
        middleware=[Middleware(Guard, token=token, local=local, cookie=cookie)],
    )


async def _events(index: RunIndex, stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """The list of runs, at once and whenever it changes; the page then requests the rounds that it does not have."""
    yield "retry: 1000\n\n"
    sent, last = "", -_HEARTBEAT
    while not stopping():
        text = await run_in_threadpool(index.listing)
        if text != sent:
            yield f"event: runs\ndata: {text}\n\n"
        elif time.monotonic() - last > _HEARTBEAT:
            yield ": alive\n\n"
        else:
            await anyio.sleep(_INTERVAL)
            continue
        sent, last = text, time.monotonic()


def _json(value: Any, status: int = 200) -> Response:
    return Response(dumps(value), status, media_type="application/json")


def change_run(index: RunIndex, body: bytes) -> tuple[int, dict[str, Any]]:
    """Rename, tag or delete a run, as the page requests it; return the status and the content of the response.

    Args:
        index: knows which runs there are; no other file is opened.
        body: JSON: "key" and "started" say which run, and one of "name", "tags" and "delete" (true) what changes.
    """
    try:
        change = json.loads(body)
        started = float(change["started"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return 400, {"error": "a change is a JSON object; it has started, a number"}
    if not isinstance(change, dict) or not isinstance(change.get("key"), str):
        return 400, {"error": "a change names a run: key and started"}
    kinds = [kind for kind in ("name", "tags", "delete") if kind in change]
    if len(kinds) != 1:
        return 400, {"error": "a change has one of name, tags and delete"}
    try:
        path, run = index.file_of(change["key"])
    except StoreError as error:
        return 404, {"error": str(error)}
    try:
        with Store(path, create=False) as store:
            _apply(store, run, started, kinds[0], change[kinds[0]])
    except ValueError as error:
        return 400, {"error": str(error)}
    except StoreError as error:
        return 409, {"error": str(error)}
    index.changed()
    return 200, {"done": True}


def _apply(store: Store, run: int, started: float, kind: str, value: Any) -> None:
    if kind == "name":
        store.rename(run, started, value)
    elif kind == "tags":
        if not isinstance(value, list):
            raise ValueError(f"tags must be a list of strings, got {value!r}")
        store.tag(run, started, value)
    elif value is True:
        store.delete(run, started)
    else:
        raise ValueError(f"delete must be true, got {value!r}")


def serve(
    index: RunIndex,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    announce: Callable[[str, int], object] = print,
    edit: bool = False,
) -> None:
    """Serve the page until Ctrl-C; call `announce` with the address and the port once the page can be opened.

    If the port is taken, the next free one is used; 0 stands for any.

    Raises:
        ValueError: the token is too short, or could not be part of an address.
        OSError: nothing can listen there.
    """
    local = is_loopback(host)
    token = token_for(host, token, edit)
    listener = _listen(host, port)
    port = listener.getsockname()[1]

    def stopping() -> bool:
        return server.should_exit

    app = application(index, token, local, f"fzoos-{port}", stopping, edit)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, ws="none", lifespan="off"))
    announce(_address(host, port, token), port)
    with listener:
        server.run(sockets=[listener])


def token_for(host: str, token: str | None, edit: bool = False) -> str | None:
    """The token that a visitor must know: the given one, or a new one if the page is seen beyond this machine.

    A page that can change runs always has one: other people may be logged in on this machine.
    """
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token):
        raise ValueError(f"token must be of at least 16 letters, digits, - and _; got {len(token)} characters")
    return secrets.token_urlsafe(24) if token is None and (edit or not is_loopback(host)) else token


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket at the first free port from `port` on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + _PORTS_TRIED, 65536)) if port else [0]:
        try:
            return socket.create_server((host, candidate), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OSError(f"cannot listen at {host}, port {candidate}: {error.strerror or error}") from None
    raise OSError(f"none of the {_PORTS_TRIED} ports from {port} on is free")


def _address(host: str, port: int, token: str | None) -> str:
    name = platform.node() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + ("" if token is None else f"?token={token}")
