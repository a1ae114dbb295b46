"""Check every request before a page sees it: where it comes from, what it may ask for, how large it is.

A page of a stranger, open in the same browser, can send requests to this machine. It is refused by the name
that it calls this server (DNS rebinding), by its origin, and elsewhere than on loopback by the token.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_HEADER_BYTES = 16 << 10
MOST_BODY_BYTES = 64 << 10
BODY_S = 10.0  # in which a request has to arrive
_METHODS = ("GET", "HEAD", "POST")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# A page narrows this down to its own scripts and styles in an element of its own (navrl/view/html.py).
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self' ws://{host} wss://{host}; frame-src 'self'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refusal(NamedTuple):
    """The answer to a request that is not let through."""

    status: int
    sentence: str


class Guard:
    """ASGI middleware: let requests of this server's own pages through, and nothing else.

    With a token, a request needs it: once in the address (?token=...), then in a cookie. Without one it has
    to call the server by a name of this machine itself.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, port: int) -> None:
        self._app = app
        self._token = token
        self._cookie = f"navrl-{port}"  # cookies do not know ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the app, or refuse it in one sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
            return
        shown = _with_headers(send, headers["host"])
        if scope["type"] == "websocket":
            await self._app(scope, receive, shown)
        elif "token" in QueryParams(scope["query_string"]) and self._token is not None:
            await self._remember(scope)(scope, receive, shown)
        else:
            await self._answer(scope, receive, shown)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Return why a request is refused, or None."""
        host = headers.get("host", "")
        size = len(scope["query_string"]) + sum(map(len, itertools.chain(*scope["headers"])))
        if size > MOST_HEADER_BYTES:
            return Refusal(431, f"the headers have more than {MOST_HEADER_BYTES:,} bytes")
        if len(headers.getlist("host")) != 1 or not _HOST.fullmatch(host):
            return Refusal(400, "the request names no host")
        if self._token is None and _name(host) not in _LOOPBACK:
            return Refusal(
                403, "this server answers as localhost only; open the address that it printed"
            )
        if scope["type"] == "http" and scope["method"] not in _METHODS:
            return Refusal(405, f"expected {', '.join(_METHODS)}")
        changes = scope["type"] == "websocket" or scope["method"] == "POST"
        if not _is_of_our_page(headers, host, needed=changes):
            return Refusal(403, "the request comes from a page of another server")
        if not self._has_token(scope, headers, in_address=not changes):
            return Refusal(
                403, "the token is missing; open the address with ?token=... that navrl printed"
            )
        return None

    def _has_token(self, scope: Scope, headers: Headers, *, in_address: bool) -> bool:
        if self._token is None:
            return True
        given = [cookie_parser(headers.get("cookie", "")).get(self._cookie, "")]
        if in_address:
            given.append(QueryParams(scope["query_string"]).get("token", ""))
        return any(secrets.compare_digest(each.encode(), self._token.encode()) for each in given)

    def _remember(self, scope: Scope) -> Response:
        """Return a way to the same page without the token, which is then in a cookie."""
        response = RedirectResponse(scope["path"], status_code=303)
        if scope["path"].startswith("//"):  # another server to a browser
            response = RedirectResponse("/", status_code=303)
        response.set_cookie(self._cookie, self._token or "", httponly=True, samesite="lax")
        return response

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer a request, whose body is complete and small."""
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(BODY_S):
                body = await _body(receive)
        except TimeoutError:
            await _refuse(Refusal(408, "the request took too long"), scope, receive, send)
            return
        if body is None:
            refusal = Refusal(413, f"the request has more than {MOST_BODY_BYTES:,} bytes")
            await _refuse(refusal, scope, receive, send)
            return
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Message:
            return parts.pop() if parts else await receive()

        await self._app(scope, read, send)


def _name(host: str) -> str:
    """Return the host without its port; behind a tunnel that is any."""
    return (urlsplit(f"//{host}").hostname or "").lower()


def _is_of_our_page(headers: Mapping[str, str], host: str, *, needed: bool) -> bool:
    """Return whether the browser says that a page of this server has sent the request, or the user.

    Browsers send an origin with everything that changes something; then it is `needed`.
    """
    origin = headers.get("origin")
    if origin is None:
        site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
        return not needed and (site in (None, "same-origin", "none") or mode == "navigate")
    scheme, _, netloc = origin.partition("://")
    return scheme in ("http", "https") and netloc.lower() == host.lower()


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request, None if it is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.sentence})
        return
    headers = {**_HEADERS, "Connection": "close"}
    response = PlainTextResponse(f"{refusal.sentence}\n", refusal.status, headers)
    await response(scope, receive, send)


def _with_headers(send: Send, host: str) -> Send:
    """Return `send` with the headers that keep a browser from loading anything from elsewhere."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            own = headers.get("Content-Security-Policy")
            policy = _POLICY.format(host=host)
            headers["Content-Security-Policy"] = f"{policy}; {own}" if own else policy
        await send(message)

    return sending
