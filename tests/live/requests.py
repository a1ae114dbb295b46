"""Requests to an ASGI app without a network."""

import asyncio
from typing import NamedTuple


class Answer(NamedTuple):
    """An answer: its status, headers by lower-case name, and body."""

    status: int
    headers: dict[str, str]
    body: bytes


async def echo(scope, receive, send):
    """An app that answers with the body, and accepts every WebSocket."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        return
    body = (await receive()).get("body", b"") if scope["method"] == "POST" else b"page"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(app, path="/", *, kind="http", method="GET", headers=None, body=(b"",), query=""):
    """The app's answer to one request, which has these parts of a body; 101 or 403 for a WebSocket."""
    named = {"host": "localhost:7425", **(headers or {})}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), text.encode("latin-1")) for name, text in named.items()],
    }
    parts = [
        {"type": "http.request", "body": part, "more_body": at < len(body) - 1}
        for at, part in enumerate(body)
    ]
    if kind == "websocket":
        parts = [{"type": "websocket.connect"}]
    sent = []

    async def receive():
        return parts.pop(0) if parts else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    if kind == "websocket":
        return Answer(101 if sent[0]["type"] == "websocket.accept" else 403, {}, b"")
    found = {name.decode().lower(): text.decode() for name, text in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent[1:]))
