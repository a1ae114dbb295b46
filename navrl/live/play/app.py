"""The app of `navrl play`: one page, a WebSocket for each player, and the replays of what they flew."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from navrl.live.play.record import Replays
from navrl.live.play.session import Game, MakeGame, Session
from navrl.view.html import Scene, page

MOST_SESSIONS = 4
_MOST_UNSENT = 400  # messages, 10 s of them: a page that reads more slowly plays no more
_MOST_FAULTS = 20  # messages that make no sense, then the session ends
_BUSY, _SLOW, _WRONG = 4001, 4002, 4003  # codes of closing
_BUSY_TEXT = f"{MOST_SESSIONS} games are going on; expected fewer; close one of their pages"


class Players:
    """The open sessions of a server."""

    def __init__(self, make: MakeGame) -> None:
        self._make = make
        self._open = 0

    async def play(self, socket: WebSocket) -> None:
        """Play with one page until it is gone; whatever it sends ends its own session only."""
        await socket.accept()
        if self._open >= MOST_SESSIONS:
            await socket.send_json({"type": "error", "sentence": _BUSY_TEXT})
            await socket.close(_BUSY)
            return
        self._open += 1
        outbox: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def send(message: dict[str, Any]) -> None:
            text = json.dumps(message, separators=(",", ":"), allow_nan=False)
            loop.call_soon_threadsafe(outbox.put_nowait, text)

        session = Session(self._make, send)
        thread = threading.Thread(target=session.run, name="game", daemon=True)
        thread.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                writer = tasks.create_task(_write(socket, outbox))
                await _read(socket, session)
                writer.cancel()
        except* (WebSocketDisconnect, RuntimeError):
            pass  # the page is gone
        finally:
            while not session.put(None):
                with contextlib.suppress(queue.Empty):  # the session has read it all by now
                    session.inbox.get_nowait()
            await asyncio.to_thread(thread.join)
            self._open -= 1


async def _read(socket: WebSocket, session: Session) -> None:
    """Hand the messages of the page to its session until it is gone or sends nonsense only."""
    faults = 0
    while True:
        received = await socket.receive()
        if received["type"] != "websocket.receive":
            return
        message = _parsed(received.get("text"))
        if message is None:
            faults += 1
            if faults > _MOST_FAULTS:
                await socket.close(_WRONG, "these messages make no sense")
                return
        elif not session.put(message):
            await socket.close(_WRONG, "too many messages")
            return


def _parsed(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def _write(socket: WebSocket, outbox: asyncio.Queue[str | None]) -> None:
    """Send what the session says; a page that does not read is closed."""
    while True:
        text = await outbox.get()
        if text is None or outbox.qsize() > _MOST_UNSENT:
            await socket.close(_SLOW, "this page reads too slowly")
            return
        await socket.send_text(text)


class Games(Protocol):
    """Games of one kind."""

    replays: Replays

    def data(self) -> dict[str, Any]:
        """Return what the page needs before the first game."""

    def make(self, message: Mapping[str, Any]) -> Game:
        """Begin the game that a message asks for."""


def application(scene: Scene, games: Games) -> Starlette:
    """Return the app with the page of this scene."""
    players = Players(games.make)
    content = page(scene, games.data(), live=True)

    async def show(request: Request) -> Response:
        return HTMLResponse(content)

    async def no_icon(request: Request) -> Response:
        return Response(status_code=204)

    async def show_replay(request: Request) -> Response:
        path = await asyncio.to_thread(games.replays.path, request.path_params["fight"])
        if path is None:
            return PlainTextResponse("there is no such fight\n", 404)
        return HTMLResponse(await asyncio.to_thread(path.read_bytes))

    return Starlette(
        routes=[
            Route("/", show),
            Route("/favicon.ico", no_icon),
            Route("/replay/{fight}", show_replay),
            WebSocketRoute("/live", players.play),
        ]
    )
