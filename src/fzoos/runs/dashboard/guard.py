"""Access to the page, and what a browser may do with it."""

from __future__ import annotations

import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SECRET_HEADER", "Guard", "is_loopback", "refuse_change"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECRET_HEADER = "x-fzoos-secret"
_HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Rejects requests that are not meant for this page, and adds the security headers to every answer.

    A page of another site can make a browser send requests to this machine under a name of its own (DNS rebinding), so
    a page that needs no token answers only to names of this machine. With a token the name does not matter: a browser
    sends the cookie to the name under which it got it, and to no other.

    Args:
        app: what is guarded.
        token: the token that a visitor must give, first as `?token=`, from then on as a cookie; None: nothing.
        local: whether only names of this machine are answered to.
        cookie: the cookie's name; browsers do not keep ports apart, so it should contain the port.
    """

    def __init__(self, app: ASGIApp, token: str | None, local: bool, cookie: str = "fzoos") -> None:
        self._app, self._token, self._local, self._cookie = app, token, local, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._local and not is_loopback(_name(headers.get("host", ""))):
            return PlainTextResponse("This page answers only to names of this machine: use http://127.0.0.1\n", 403)
        if "\0" in scope["path"]:
            return PlainTextResponse("A path has no NUL\n", 400)
        if self._token is None:
            return None
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        given = query.pop("token", None)
        if given is None:
            return None if self._fits(_cookies(headers).get(self._cookie, "")) else _unauthorised()
        if not self._fits(given):
            return _unauthorised()
        # On to the same page without the token, which then stays out of the history and of bookmarks.
        # One slash: what begins with two of them, or with a backslash, is the name of another site.
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(path + ("?" + urlencode(query) if query else ""), 303)
        answer.set_cookie(self._cookie, given, httponly=True, samesite="lax")
        return answer

    def _fits(self, given: str) -> bool:
        assert self._token is not None
        return secrets.compare_digest(given.encode(), self._token.encode())


def refuse_change(headers: Headers, secret: str) -> str | None:
    """Why a request may not change anything; None: it may.

    A page of another site can make a visitor's browser send requests here, with the visitor's cookie if it is on
    another port of the same machine. What it cannot do is to have our origin, to send JSON or a header of its own
    without being allowed to, or to read the secret, which only our own page has. Both are required.
    """
    host, origin = headers.get("host", ""), headers.get("origin", "")
    ours = bool(host) and origin in (f"http://{host}", f"https://{host}")  # https: behind a proxy
    if not ours or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "changes are taken from this page only"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "changes are sent as application/json"
    if not secrets.compare_digest(headers.get(SECRET_HEADER, "").encode(), secret.encode()):
        return "this page is of an earlier start of the dashboard: load it again"
    return None


def _name(host: str) -> str:
    """A Host header without its port and brackets; empty where it is not of that form."""
    name, bracket, rest = host[1:].partition("]") if host.startswith("[") else ("", "", host)
    if not bracket:
        name, colon, port = host.partition(":")
        rest = colon + port
    well_formed = not rest or (rest.startswith(":") and rest[1:].isascii() and rest[1:].isdigit())
    return name if well_formed else ""


def _cookies(headers: Headers) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _unauthorised() -> Response:
    return PlainTextResponse("This page needs a token: open the address that `fzoos dashboard` printed.\n", 401)
