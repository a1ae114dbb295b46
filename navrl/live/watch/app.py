"""The app of `navrl watch`: one page, a WebSocket for each viewer, requests to trainings, recordings."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from navrl.config.checks import ConfigError, printable
from navrl.live.watch.catalogue import Catalogue, Change, LiveRun
from navrl.live.watch.flights import Flights
from navrl.live.watch.run_page import MOST_COMPARED, page_data
from navrl.run.requests import REQUESTS, request
from navrl.storage.info import checkpoint_files
from navrl.view.html import WATCH, page

_LOOK_S, _SCAN_S = 0.25, 2.0  # between looks at runs that are written, and at all folders
_IDLE_S = 1.0  # between looks at nothing, while nobody views
_UPDATE_S = 0.5  # at least, between two updates of a page
_SPARKS = 40  # sparklines that are read in one look
_MOST_VIEWERS = 40
_MOST_FAULTS = 20  # messages that make no sense, then the connection ends
_BUSY, _WRONG = 4001, 4003  # codes of closing
_ID = re.compile(r"[0-9a-f]{12}")


class Viewer:
    """One open page: what it looks at, and what it has not been sent yet."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.opened = asyncio.Event()  # another page, which is sent at once
        self.rows: dict[str, dict[str, Any]] = {}
        self.gone: set[str] = set()
        self.whole = True  # the list has to be sent
        self.ids: list[str] = []  # of the runs whose page is open
        self.due = False  # that page may have changed
        self.page = ""  # as it was sent last
        self.follows = False  # wants every new checkpoint recorded

    def change(self, change: Change) -> None:
        """Take note of changed runs."""
        rows = {row["id"]: row for row in change.rows}
        self.rows |= rows
        self.gone = (self.gone | {*change.gone}) - {*rows}  # a folder may be made again
        self.due |= any(id in self.ids for id in (*rows, *change.gone))
        if rows or change.gone:
            self.news.set()

    def look_at(self, ids: Sequence[str], *, follows: bool) -> None:
        """Open the page of these runs."""
        if [*ids] != self.ids:
            self.due, self.page = True, ""
            self.opened.set()
        self.ids, self.follows = [*ids], follows
        self.news.set()


class Watch:
    """The state of the server."""

    def __init__(self, places: Sequence[Path], overrides: Sequence[str]) -> None:
        self.catalogue = Catalogue(places)
        self.viewers: set[Viewer] = set()
        self.flights = Flights(overrides, self._flown)
        self._pages: dict[tuple[Any, ...], str] = {}  # the last pages, as they were sent
        self._page_lock = asyncio.Lock()

    # ---- following the runs ----

    async def follow(self) -> None:
        """Look at the runs again and again, and tell the viewers what has changed."""
        scanned = 0.0
        while True:
            if not self.viewers:
                await asyncio.sleep(_IDLE_S)
                continue
            started = time.monotonic()
            scan = started - scanned >= _SCAN_S
            scanned = started if scan else scanned
            self._tell(
                await asyncio.to_thread(self.catalogue.scan if scan else self.catalogue.look)
            )
            self._tell(await asyncio.to_thread(self.catalogue.draw, _SPARKS))
            self._fly()
            took = time.monotonic() - started
            await asyncio.sleep(max(_LOOK_S, 2.0 * took))  # a slow disk is not kept busy

    def _tell(self, change: Change) -> None:
        for viewer in self.viewers:
            viewer.change(change)

    def _flown(self, run: str) -> None:
        for viewer in self.viewers:
            if run in viewer.ids:
                viewer.due = True
                viewer.news.set()

    def _fly(self) -> None:
        """Ask for a recording of the newest checkpoint of every run that is followed."""
        for id in {
            viewer.ids[0] for viewer in self.viewers if viewer.follows and len(viewer.ids) == 1
        }:
            with contextlib.suppress(KeyError, OSError):
                (run,) = self.catalogue.get([id])
                files = _checkpoints(run)
                known = {flight["file"] for flight in self.flights.of(id)}  # failed ones too
                if files and run.state == "running" and files[0].name not in known:
                    self.flights.ask(id, files[0])
                    if not known and len(files) > 1:
                        self.flights.ask(id, files[-1])  # to compare with

    # ---- viewers ----

    async def view(self, socket: WebSocket) -> None:
        """Serve one viewer until it is gone."""
        await socket.accept()
        if len(self.viewers) >= _MOST_VIEWERS:
            await socket.close(_BUSY, "too many viewers; close other pages")
            return
        viewer = Viewer()
        if not self.viewers:
            await asyncio.to_thread(self.catalogue.scan)
        self.viewers.add(viewer)
        viewer.news.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                writer = tasks.create_task(self._write(socket, viewer))
                await self._read(socket, viewer)
                writer.cancel()
        except* (WebSocketDisconnect, RuntimeError):
            pass  # the page is gone
        finally:
            self.viewers.discard(viewer)

    async def _read(self, socket: WebSocket, viewer: Viewer) -> None:
        faults = 0
        while True:
            received = await socket.receive()
            if received["type"] != "websocket.receive":
                return
            try:
                message = json.loads(received.get("text") or "")
                ids, follows = message["ids"], message["follows"] is True
                if len(ids) > MOST_COMPARED or not all(_ID.fullmatch(id) for id in ids):
                    raise ValueError("no ids")
            except (ValueError, LookupError, TypeError, RecursionError):
                faults += 1
                if faults > _MOST_FAULTS:
                    await socket.close(_WRONG, "these messages make no sense")
                    return
                continue
            viewer.look_at(list(dict.fromkeys(ids)), follows=follows)

    async def _write(self, socket: WebSocket, viewer: Viewer) -> None:
        while True:
            await viewer.news.wait()
            viewer.news.clear()
            viewer.opened.clear()
            started = time.monotonic()
            if viewer.whole:
                viewer.whole, viewer.rows, viewer.gone = False, {}, set()
                rows = await asyncio.to_thread(self.catalogue.rows)
                await socket.send_text(_json({"runs": rows}))
            elif viewer.rows or viewer.gone:
                message = {"changed": [*viewer.rows.values()], "gone": [*viewer.gone]}
                viewer.rows, viewer.gone = {}, set()
                await socket.send_text(_json(message))
            if viewer.due and viewer.ids:
                viewer.due = False
                text = await self._page(viewer.ids)
                if text != viewer.page:
                    viewer.page = text
                    await socket.send_text(text)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_UPDATE_S - (time.monotonic() - started)):
                    await viewer.opened.wait()

    async def _page(self, ids: Sequence[str]) -> str:
        """Return the message with the page of these runs; viewers of the same share it."""
        async with self._page_lock:
            try:
                runs = self.catalogue.get(ids)
            except KeyError:
                return _json({"page": {"ids": ids, "fault": "this run is gone"}})
            flights = self.flights.of(ids[0]) if len(ids) == 1 else []
            key = (*((run.id, run.version) for run in runs), _json(flights))
            if key not in self._pages:
                text = await asyncio.to_thread(self._read_page, runs, flights)
                while len(self._pages) > 3:
                    self._pages.pop(next(iter(self._pages)))
                self._pages[key] = text
            return self._pages[key]

    def _read_page(self, runs: Sequence[LiveRun], flights: Any) -> str:
        try:
            data = self.catalogue.using(runs, partial(page_data, self.catalogue, runs))
            return _json({"page": {**data, "flights": flights}})
        except (ConfigError, OSError, ValueError) as error:
            ids = [run.id for run in runs]
            return _json({"page": {"ids": ids, "fault": printable(error)[:500]}})

    # ---- answers ----

    async def home(self, _: Request) -> Response:
        """Return the page."""
        return HTMLResponse(_home())

    async def press(self, http: Request) -> Response:
        """Leave a request for a training: stop, save or evaluate."""
        name = http.path_params["name"]
        try:
            (run,) = self.catalogue.get([http.path_params["id"]])
        except KeyError:
            return PlainTextResponse("this run is gone\n", 404)
        if name not in REQUESTS:
            return PlainTextResponse(f"expected one of {', '.join(REQUESTS)}\n", 404)
        try:
            await asyncio.to_thread(request, run.path, name)
        except (ConfigError, OSError) as error:
            return PlainTextResponse(f"{printable(error)}\n", 409)
        return PlainTextResponse(f"after its iteration it {REQUESTS[name]}\n")

    async def fly(self, http: Request) -> Response:
        """Record an episode of a checkpoint."""
        try:
            (run,) = self.catalogue.get([http.path_params["id"]])
            files = {path.name: path for path in _checkpoints(run)}
            file = files[http.path_params["file"]]
        except (KeyError, OSError):
            return PlainTextResponse("this checkpoint is gone\n", 404)
        if self.flights.ask(run.id, file) is None:
            return PlainTextResponse("too many recordings wait; expected fewer; try again\n", 409)
        return PlainTextResponse("it is being recorded\n")

    async def flight(self, http: Request) -> Response:
        """Return a recording, which may run its own scripts and reach nothing."""
        file = self.flights.page(http.path_params["id"])
        if file is None:
            return PlainTextResponse("this recording is gone\n", 404)
        sandbox = {"Content-Security-Policy": "sandbox allow-scripts"}
        return FileResponse(file, headers=sandbox, media_type="text/html")


def application(places: Sequence[Path], overrides: Sequence[str]) -> Starlette:
    """Return the app that watches the runs at or below these places."""
    watch = Watch(places, overrides)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work) for work in (watch.follow(), watch.flights.work())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return Starlette(
        routes=[
            Route("/", watch.home),
            Route("/favicon.ico", _no_icon),
            Route("/flights/{id}", watch.flight),
            Route("/runs/{id}/request/{name}", watch.press, methods=["POST"]),
            Route("/runs/{id}/fly/{file}", watch.fly, methods=["POST"]),
            WebSocketRoute("/live", watch.view),
        ],
        lifespan=lifespan,
    )


async def _no_icon(_: Request) -> Response:
    return Response(status_code=204)


def _home() -> str:
    return page(WATCH, {"title": "navrl watch", "requests": dict(REQUESTS)}, live=True)


def _checkpoints(run: LiveRun) -> list[Path]:
    folder = run.path / "checkpoints"
    return [] if folder.is_symlink() or not folder.is_dir() else checkpoint_files(folder)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
