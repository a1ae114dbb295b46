"""Serve an ASGI app on this machine until a signal ends it; how `navrl watch` and `navrl play` do it:

    parser = command_parser("watch", ...)
    add_address(parser, WATCH_PORT)                      # navrl.live.address: --port, --host, --token

    def run(options):
        check_packages("watch")                          # one sentence if the extra [live] is missing
        from navrl.live.server import serve
        listener = listen(options, WATCH_PORT)           # opens the port, or raises one sentence
        app = Starlette(routes=[Route("/", page), WebSocketRoute("/live", live)], lifespan=...)
        return serve(app, listener, "watching outputs")  # prints the address; returns at Ctrl-C

Every request passes navrl.live.guard.Guard first, so an app checks neither origins nor sizes. A message of a
WebSocket has at most MOST_MESSAGE_BYTES. `await websocket.send_...` waits while a viewer does not read, and
the connection is cut if that lasts; so nothing else may wait for that task. A page is built by
navrl.view.html.page(scene, data, live=True), which lets it call this server, and nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from navrl.config.signals import ENDING, handling
from navrl.live.address import Listener, tunnel
from navrl.live.guard import MOST_HEADER_BYTES, Guard

_GRACE_S = 2  # for answers under way when a signal ends the server
MOST_CONNECTIONS = 64
MOST_MESSAGE_BYTES = 64 << 10
PATIENCE_S = 10.0  # a connection that stands still for one to two of these is cut
_LEAST_BYTES = 16 << 10  # that a viewer reads in this time
_MOST_UNREAD_BYTES = 32 << 20
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: 42\r\n\r\ntoo many connections; close other viewers\n"
)


def serve(app: ASGIApp, listener: Listener, doing: str) -> int:
    """Answer requests until a signal ends it; return the exit code."""
    config = configuration(app, listener)
    port = listener.socket.getsockname()[1]
    sys.stdout.write(f"{doing} at {listener.url}  (Ctrl-C ends it)\n{tunnel(port)}")
    sys.stdout.flush()
    with listener.socket:
        asyncio.run(_Server(config).serve([listener.socket]))
    return 0


def configuration(app: ASGIApp, listener: Listener) -> uvicorn.Config:
    """Return uvicorn's configuration: requests guarded, sizes bounded."""
    port = listener.socket.getsockname()[1]
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # no line for each bad request
    return uvicorn.Config(
        Guard(app, token=listener.token, port=port),
        loop="asyncio",
        http=Http,
        ws=WebSocket,
        ws_max_size=MOST_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # a few bytes could become many
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )


class _Server(uvicorn.Server):
    """A server that the first signal asks to end, and the second ends at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with handling(self._end, ENDING):
            yield

    def _end(self, number: int, frame: object) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


class _Watched(asyncio.Protocol):
    """Protocol of a connection that is looked at every PATIENCE_S."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    _timer: asyncio.TimerHandle | None = None
    _before: object = None
    _resumed = 0
    _is_paused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(PATIENCE_S, self._check)

    def connection_lost(self, error: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(error)

    def pause_writing(self) -> None:
        self._is_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._resumed += 1
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        # Pings are answered without waiting, though nobody may read the answers.
        if self.transport.get_write_buffer_size() > _MOST_UNREAD_BYTES:
            self.transport.abort()
        else:
            super().data_received(data)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        """Cut the connection if it stands where it stood; else look again."""
        now = self._standstill()
        if now is not None and now == self._before:
            self.transport.abort()
            return
        self._before = now
        self._timer = self.loop.call_later(PATIENCE_S, self._check)

    def _standstill(self) -> object:
        """Return what the connection waits for the other side to do, None if it waits for nothing."""
        if self.transport.is_closing():
            return "to read the end"
        if self._is_paused:
            return self._resumed, self.transport.get_write_buffer_size() // _LEAST_BYTES
        return None


class Http(_Watched, H11Protocol):
    """An HTTP connection, which is refused if there are too many already."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self.connections.discard(self)
            transport.write(_BUSY)
            transport.close()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._unwatch()  # the WebSocket watches itself
        super().handle_websocket_upgrade(event)

    def _standstill(self) -> object:
        waiting = self.cycle is None or self.cycle.response_complete
        return super()._standstill() or (("a request", self.cycle) if waiting else None)


class WebSocket(_Watched, WebSocketsSansIOProtocol):
    """A WebSocket connection."""

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # who answers no ping may never read what is left either
